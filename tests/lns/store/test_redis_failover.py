"""Two network servers live through the loss of the master of their store, without a restart."""

from collections.abc import Sequence
from pathlib import Path

import pytest

from lns.lorawan.frame import MType, build_data
from tests.lns.store.lns_processes import KEYS, Server, addr, servers_in
from tests.lns.store.replicated import pair_in
from tests.looped import on_a_loop

TRIES = 20
PASSWORD = "hunter2"


def frame(f_cnt: int) -> bytes:
    return build_data(
        MType.CONFIRMED_UP, dev_addr=addr(0), f_cnt=f_cnt, keys=KEYS, f_port=2, payload=b"\x01"
    )


async def hear(servers: Sequence[Server], phy: bytes) -> list[tuple[str, str, str]]:
    """All of them hear a frame; upstream, answer and level 2 of each."""
    for server in servers:
        server.radio.tell(phy)
    for server in servers:
        await server.settled(len(server.outcomes) + 1)
    newest = [server.outcomes[-1] for server in servers]
    return [(one["upstream"], one["answer"], one["level2"]) for one in newest]


async def hear_until_answered(servers: Sequence[Server], phy: bytes) -> None:
    """A device repeats what nobody acknowledged; this host may be busy."""
    for _ in range(TRIES):
        await hear(servers, phy)
        if any(phy == answered for server in servers for answered, _ in server.radio.answers()):
            return
    raise AssertionError(f"nobody answered within {TRIES} tries")


@pytest.mark.fault("store", "cut / restarted")
@pytest.mark.parametrize("on_outage", ["open", "closed"])
@on_a_loop
async def test_servers_follow_the_master_and_keep_every_counter(
    tmp_path: Path, on_outage: str
) -> None:
    async with pair_in(tmp_path, PASSWORD) as pair:
        store = {"store": {"url": pair.url, "on_outage": on_outage}}
        async with servers_in(tmp_path, 2, 1, lambda lns: store) as servers:
            for f_cnt in range(3):
                await hear_until_answered(servers, frame(f_cnt))
            await pair.replicated(pair.first)
            await pair.first.kill()
            lost = "forwarded" if on_outage == "open" else "dropped"
            assert await hear(servers, frame(3)) == [(lost, "Suppressed", "Unavailable")] * 2
            await pair.promote(pair.second)
            for f_cnt in range(3, 6):
                await hear_until_answered(servers, frame(f_cnt))
    answers = [answer for server in servers for answer in server.radio.answers()]
    assert {phy for phy, _ in answers} == {frame(f_cnt) for f_cnt in range(6)}
    f_cnts_down = [down.f_cnt for _, down in answers]
    assert len(f_cnts_down) == len(set(f_cnts_down))
    for server in servers:
        log = server.process.log.read_text()
        assert "the store of the claims" in log
        assert "the store of the claims is back" in log
        assert PASSWORD not in log
