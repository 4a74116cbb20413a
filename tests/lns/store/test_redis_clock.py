"""A wall clock that jumps changes nothing that level 2 decides.

Servers wait by their monotonic clock and hand no time of theirs to Redis: what expires there is
told as a length. Redis itself measures that length by the clock of its own host.
"""

import ast
import asyncio
import re
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib import import_module
from itertools import cycle
from pathlib import Path

import pytest

import lns
from bench.host.lns_process import Valkey
from lns.clock import Utc
from lns.dedup import claiming
from lns.dedup.strategy import Strategy
from lns.store.redis_wire import Script
from tests.lns import served_network
from tests.lns.served_network import uplink
from tests.lns.several_servers import Servers, play_over_redis
from tests.lns.test_several_servers import counters, device, words

SOURCE = Path(lns.__path__[0])
LEVEL_2 = sorted([*(SOURCE / "dedup").glob("*.py"), *(SOURCE / "store").glob("redis*.py")])
MONOTONIC = {"now_us", "in_time", "within", "Patience", "StoreUnavailable"}
"""What `lns.clock` has that is no time of day."""
JUMPS_S = (0, 400 * 86_400, -400 * 86_400, 3_600, -1)


@pytest.mark.parametrize("file", LEVEL_2, ids=lambda file: file.stem)
def test_nothing_of_level_2_can_read_a_wall_clock(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    modules = {module or name for module, name in imported}
    assert not {module.partition(".")[0] for module in modules} & {"time", "datetime", "calendar"}
    assert {name for module, name in imported if module == "lns.clock"} <= MONOTONIC


def test_no_script_asks_redis_for_the_time_or_names_a_moment() -> None:
    texts = []
    for file in (SOURCE / "store").glob("redis*.py"):
        known = vars(import_module(f"lns.store.{file.stem}"))
        texts += [one.text for one in known.values() if isinstance(one, Script)]
    assert len(texts) >= 4
    moments = re.compile(r"'(TIME|PXAT|EXAT|EXPIREAT|PEXPIREAT)'|os\.(time|clock)")
    assert [text for text in texts if moments.search(text)] == []


def jumping(clock: Callable[[], float]) -> Callable[[], float]:
    jumps = cycle(JUMPS_S)
    return lambda: clock() + next(jumps)


def jumping_utc(start: datetime) -> Utc:
    jumps = cycle(JUMPS_S)
    return lambda: start + timedelta(seconds=next(jumps))


@pytest.mark.fault("clock", "corrupted")
def test_two_servers_whose_wall_clocks_jump_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back and forth by more than a year, at every look; each server by itself."""
    monkeypatch.setattr(claiming, "CLAIM_US", 60_000_000)
    monkeypatch.setattr(served_network, "utc_counted_from", jumping_utc)
    monkeypatch.setattr(time, "time", jumping(time.time))  # noqa: TID251 - to break it

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in range(20):
            frame = uplink(f_cnt, confirmed=True)
            await servers.hear_in_turn(*((s, frame) for s in ((a, b) if f_cnt % 2 else (b, a))))

    async def body() -> Servers:
        valkey = await Valkey(tmp_path, append_only=False).start()
        try:
            alpha = device(Strategy.DROP)
            return await play_over_redis(scenario, valkey.url, alpha, claims_us=10_000_000)
        finally:
            await valkey.stop()

    servers = asyncio.run(body())
    for network, first in ((servers.a, 1), (servers.b, 0)):
        owners = [word[4] for word in words(network)]
        assert [n for n, word in enumerate(owners) if word == "Owner"] == list(range(first, 20, 2))
        assert owners.count("NotOwner") == 10
    assert sorted(counters(servers.a, servers.b)) == list(range(20))
    received = [message.received_at.year for message in servers.a.application.messages]
    assert len(set(received)) > 1  # the clocks did jump
