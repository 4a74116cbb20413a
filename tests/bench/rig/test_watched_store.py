"""Is the store of this process named where it is why a server does not do as it ought to?"""

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.device.interfaces import CommandRefused
from bench.rig.in_memory.shared_store import FarStore, NotingStore, StoreWire
from bench.rig.rig import Rig
from bench.verdict.case import Result
from bench.verdict.expectation import Table
from lns.clock import StoreUnavailable
from lns.dedup.claim import Bid, Claim
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from tests.bench.rig.played import Played, play

FIRST = Table("""
    strategy kind      | first
    *        join      | NonDuplicate dropped RX1
    *        confirmed | NonDuplicate forwarded RX1
""")


def played(folder: Path, *, servers: int = 1) -> Played:
    """A device joins, sends something, and once more after a restart of its server."""

    async def scenario(rig: Rig) -> None:
        if servers > 1:
            rig.put_on("lns-b", "east")
        rig.only("west")
        rig.expect(await rig.bravo.join(), FIRST, first="west")
        for _ in range(2):
            with suppress(CommandRefused):  # it may not have joined
                rig.expect(await rig.bravo.send(confirmed=True), FIRST, first="west")
            await rig.restart_lns()

    return play(folder, scenario)


async def keeps_nothing(self: FarStore, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
    return None


def has_nothing(self: FarStore, dev_eui: Eui) -> tuple[Session, ...]:
    return ()


async def refuses(self: FarStore, *_: Any) -> bool:
    return False


async def always_the_same(self: FarStore, dev_eui: Eui, least: int) -> int:
    return least


async def is_never_there(self: StoreWire, *_: Any) -> None:
    raise StoreUnavailable("out of order")


async def claims_twice(self: FarStore, bid: Bid) -> Claim:
    await self._claims().claim(bid)
    return await self._claims().claim(bid)


FAULTS = [
    (FarStore, "keep_sessions", keeps_nothing, "keep_sessions of lns-a: expected that done"),
    (FarStore, "sessions", has_nothing, "sessions of lns-a: expected that done"),
    (FarStore, "keep_join", refuses, "keep_join of lns-a: expected that done"),
    (FarStore, "next_join_nonce", always_the_same, "next_join_nonce of lns-a: expected that done"),
    (StoreWire, "carry", is_never_there, "next_join_nonce of lns-a: expected an answer"),
]


def test_a_store_that_does_as_it_is_asked_is_not_named(tmp_path: Path) -> None:
    assert played(tmp_path).verdict.result is Result.PASS


@pytest.mark.parametrize(("room", "name", "fault", "reason"), FAULTS)
def test_a_store_that_does_not_is_why_the_case_proves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, room: type, name: str, fault: Any, reason: str
) -> None:
    monkeypatch.setattr(room, name, fault)
    verdict = played(tmp_path).verdict
    assert (verdict.result, verdict.owner) == (Result.INCONCLUSIVE, "store")
    assert verdict.reasons[0].startswith(f"the store in memory: {reason}")


def test_nobody_claims_what_nobody_asked_for(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(FarStore, "claim", claims_twice)
    verdict = played(tmp_path, servers=2).verdict
    assert verdict.owner == "store"
    assert "claim of lns-a: expected that done, once and as asked" in verdict.reasons[0]


def test_a_store_that_forgets_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def anew(self: FarStore) -> NotingStore:
        assert self._far.watched is not None
        return NotingStore(None, self._far.watched)

    monkeypatch.setattr(FarStore, "_store", anew)
    verdict = played(tmp_path).verdict
    assert verdict.owner == "store"
    assert "expected what is kept, observed other sessions" in verdict.reasons[0]


async def is_slow(self: StoreWire, work: Any, patience_us: int = 0) -> Any:
    await asyncio.sleep(0.1)
    return await work()


def test_a_store_that_nobody_has_slowed_down_answers_at_once(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(StoreWire, "carry", is_slow)
    verdict = played(tmp_path).verdict
    assert verdict.owner == "store"
    assert "expected an answer after 0 us, observed 100000 us" in verdict.reasons[0]
