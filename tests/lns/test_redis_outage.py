"""Every way in which a real Redis fails two network servers, and how each outage ends.

Nothing is answered that its server cannot own; no server and no connection of a station restarts.
"""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from redis.asyncio import Redis

from bench.host.lns_process import Valkey
from bench.host.program import free_port
from bench.host.relay import Relay
from lns.dedup import claiming
from lns.dedup.claim import OnOutage
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import DevAddr, Eui
from tests.lns.served_network import uplink
from tests.lns.several_servers import Servers, play_over_redis
from tests.lns.test_several_servers import MISSED, counters, device, words

CLAIMS_US = 1_000_000  # ten times as long as a busy host needs
SLOW_US = 5 * CLAIMS_US
PASSWORD = "hunter2"
ALPHA = device(Strategy.DROP)
BETA_ADDR = DevAddr("01AB0002")
BETA = device(Strategy.DROP, name="beta", dev_eui=Eui("70B3D57ED0000002"), dev_addr=BETA_ADDR)
OF_BETA = uplink(5, confirmed=True, dev_addr=BETA_ADDR)
FORWARDED = ("NonDuplicate", "forwarded", "-", "Suppressed", "Unavailable")
DROPPED = ("NonDuplicate", "dropped", "StoreUnavailable", "Suppressed", "Unavailable")
OWNED = ("NonDuplicate", "forwarded", "-", "RX", "Owner")
LOST = ("NonDuplicate", "dropped", "DuplicateAtOtherServer", "Suppressed", "NotOwner")


@dataclass(frozen=True, slots=True)
class Store:
    """The store of both servers, and the wire that they reach it by."""

    valkey: Valkey
    wire: Relay

    async def do(self, *command: Any, password: str | None = None) -> None:
        """Tell it something, past the wire."""
        async with Redis(host="127.0.0.1", port=self.valkey.port, password=password) as client:
            await client.execute_command(*command)


Fault = Callable[[Store], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def killed(store: Store) -> AsyncIterator[None]:
    await store.valkey.kill()
    yield
    await store.valkey.start()


@asynccontextmanager
async def paused(store: Store) -> AsyncIterator[None]:
    store.valkey.pause()
    yield
    store.valkey.resume()


@asynccontextmanager
async def slow(store: Store) -> AsyncIterator[None]:
    store.wire.delay(SLOW_US)
    yield
    await store.wire.clear()


@asynccontextmanager
async def cut_off(store: Store) -> AsyncIterator[None]:
    store.wire.cut()
    yield
    await store.wire.restore()


@asynccontextmanager
async def locked(store: Store) -> AsyncIterator[None]:
    """Another password than the servers know, for connections that begin from now on."""
    await store.do("CONFIG", "SET", "requirepass", PASSWORD)
    await store.do("CLIENT", "KILL", "TYPE", "normal", password=PASSWORD)
    yield
    await store.do("CONFIG", "SET", "requirepass", "", password=PASSWORD)


@asynccontextmanager
async def full(store: Store) -> AsyncIterator[None]:
    """No room for one more octet, and nothing may be evicted."""
    await store.do("CONFIG", "SET", "maxmemory-policy", "noeviction")
    await store.do("CONFIG", "SET", "maxmemory", "1")
    yield
    await store.do("CONFIG", "SET", "maxmemory", "0")


@asynccontextmanager
async def read_only(store: Store) -> AsyncIterator[None]:
    """The replica of a master that is away."""
    await store.do("REPLICAOF", "127.0.0.1", free_port())
    yield
    await store.do("REPLICAOF", "NO", "ONE")


FAULTS: dict[str, Fault] = {
    "killed": killed,
    "paused": paused,
    "slow": slow,
    "cut off": cut_off,
    "locked": locked,
    "full": full,
    "read-only": read_only,
}
MATRIX = [
    pytest.param(fault, id=name, marks=pytest.mark.fault("store", kind))
    for name, fault in FAULTS.items()
    for kind in ["late" if name in ("paused", "slow") else "lost"]
]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit is the one of the wire, which this test chooses: this host may be busy."""
    monkeypatch.setattr(claiming, "CLAIM_US", 60_000_000)
    monkeypatch.setattr(claiming, "ASK_US", 60_000_000)


def play(
    folder: Path,
    scenario: Callable[[Servers, Store], Any],
    on_outage: OnOutage,
    *,
    append_only: bool = True,
) -> Servers:
    async def body() -> Servers:
        valkey = await Valkey(folder, append_only=append_only).start()
        try:
            async with Relay("127.0.0.1", valkey.port) as wire:
                return await play_over_redis(
                    lambda servers: scenario(servers, Store(valkey, wire)),
                    f"redis://127.0.0.1:{wire.port}/0",
                    ALPHA,
                    BETA,
                    on_outage=on_outage,
                    claims_us=CLAIMS_US,
                    patience_us=CLAIMS_US,
                )
        finally:
            await valkey.kill()

    return asyncio.run(body())


@pytest.mark.parametrize("on_outage", OnOutage)
@pytest.mark.parametrize("fault", MATRIX)
def test_nothing_is_answered_that_nobody_can_own_and_then_it_goes_on(
    tmp_path: Path, fault: Fault, on_outage: OnOutage, caplog: pytest.LogCaptureFixture
) -> None:
    async def scenario(servers: Servers, store: Store) -> None:
        a, b = servers.a.west, servers.b.east
        before, during, after = (uplink(f_cnt, confirmed=True) for f_cnt in (10, 11, 12))
        await servers.hear_in_turn((a, OF_BETA), (a, before), (b, before))
        async with fault(store):
            await servers.hear((a, during), (b, during))
            await servers.hear((a, during), (b, during))
            assert len(counters(servers.a, servers.b)) == 2  # of each device, before
        await servers.hear_in_turn((a, during), (b, during))
        assert len(counters(servers.a, servers.b)) == 3
        await servers.hear_in_turn((b, after), (a, after), (b, OF_BETA))

    with caplog.at_level(logging.INFO):
        servers = play(tmp_path, scenario, on_outage)
    of_a, of_b = words(servers.a), words(servers.b)
    # What was claimed before is honoured, what comes later has an owner.
    assert of_a[:2] == [OWNED, OWNED] and of_b[0] == LOST
    assert (of_b[-2], of_a[-1]) == (OWNED, LOST)
    assert of_b[-1] == LOST
    # Twice at each server nobody could say, and nobody answered.
    outage = [*of_a[2:4], *of_b[1:3]]
    assert {word[3:] for word in outage} == {("Suppressed", "Unavailable")}
    first = DROPPED if on_outage is OnOutage.CLOSED else FORWARDED
    assert of_a[2] == of_b[1] == first
    # The device got one answer when it tried again, and no counter came twice.
    again = of_a[4], of_b[3]
    assert sorted(word[4] for word in again) == ["NotOwner", "Owner"]
    assert sorted(word[3] for word in again) == ["RX", "Suppressed"]
    *old, answered, newest = sorted(counters(servers.a, servers.b))
    assert max(old) < answered < newest  # a claim that was heard late took one too
    ids = servers.a.application.ids + servers.b.application.ids
    copies = 2 if on_outage is OnOutage.OPEN else 1
    assert ids.count("70B3D57ED0000001-01ABCDEF-11") == copies
    assert len(ids) == len(set(ids)) + copies - 1
    assert caplog.text.count("the store of the claims is back") == 2
    assert PASSWORD not in caplog.text


@pytest.mark.fault("store", "cut / restarted")
@pytest.mark.parametrize("on_outage", OnOutage)
def test_a_store_that_comes_back_empty_is_filled_again(tmp_path: Path, on_outage: OnOutage) -> None:
    """It has forgotten who owned what; what the servers know of the counters it learns again."""

    async def scenario(servers: Servers, store: Store) -> None:
        a, b = servers.a.west, servers.b.east
        frames = [uplink(f_cnt, confirmed=True) for f_cnt in range(10, 15)]
        for frame in frames[:2]:
            await servers.hear_in_turn((a, frame), (b, frame))
        await store.valkey.kill()
        await servers.hear_in_turn((a, frames[2]), (b, frames[2]))
        await store.valkey.start()
        for frame in frames[3:]:
            await servers.hear_in_turn((b, frame), (a, frame))

    servers = play(tmp_path, scenario, on_outage, append_only=False)
    outage = DROPPED if on_outage is OnOutage.CLOSED else FORWARDED
    assert words(servers.a) == [OWNED, OWNED, outage, LOST, LOST]
    assert words(servers.b) == [LOST, LOST, outage, OWNED, OWNED]
    [*before, third, fourth] = counters(servers.a, servers.b)
    assert before == [MISSED, MISSED + 1]
    # Frame 12 may have been answered by somebody who is heard of no more, and so may 11.
    assert third >= MISSED + 2 + 2 * 4 and fourth == third + 1
