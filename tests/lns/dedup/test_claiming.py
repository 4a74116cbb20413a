"""What a server asks of the claims of all servers, and what it makes of what they say."""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

import pytest

from bench.clock import minutes, run, seconds
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Claim, Level2
from lns.dedup.claiming import UNDER_WAY_MAX, Claiming, SessionRefresh
from lns.dedup.session import Session, Standing
from lns.events import Claimed
from lns.lorawan.frame import MAX_GAP, Data, MType, mic_of
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.station.protocol import Reception
from lns.store.memory import MemoryClaims, MemoryStore
from lns.uplink.registry import Match, Reason, Registry
from tests.lns.served_network import ALPHA, DEV_ADDR, EAST, KEYS, WEST

RECEPTION = Reception(
    station=WEST, phy=b"", dr=5, freq_hz=868_100_000, rssi_dbm=-70.0, snr_db=9.0, xtime=1,
    rctx=0, arrived_us=0, heard_us=None,
)  # fmt: skip
MIC, OTHER_MIC = Mic("2B11FF0D"), Mic("0D11FF2B")
NEXT_ADDR = DevAddr("26000001")
Ask = Callable[[Reception, str, Bid, Session], Coroutine[Any, Any, Claim]]


def session(f_cnt_up: int | None = None) -> Session:
    return Session(dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=f_cnt_up)


@dataclass
class Server:
    """One of several servers: its claiming, the session that it knows, what it has told."""

    lns: str
    claiming: Claiming
    session: Session
    told: list[Claimed]

    def bid(self, f_cnt: int, mic: Mic = MIC, **facts: Any) -> Bid:
        return self.claiming.bid(self.session, f_cnt, mic, takes_f_cnt_down=True, **facts)

    def ask(self, f_cnt: int, mic: Mic = MIC, **facts: Any) -> Claim:
        return self._said(self.claiming.ask, self.bid(f_cnt, mic, **facts))

    def look(self, f_cnt: int, mic: Mic = MIC, **facts: Any) -> Claim:
        return self._said(self.claiming.look, self.bid(f_cnt, mic, **facts))

    def give_back(self, claim: Claim, bid: Bid) -> None:
        asyncio.run(self.claiming.give_back(claim, bid))

    def _said(self, ask: Ask, bid: Bid) -> Claim:
        return asyncio.run(ask(RECEPTION, "frame", bid, self.session))


@pytest.fixture
def claims() -> MemoryClaims:
    return MemoryClaims(lambda: 0)


def server(lns: str, claims: MemoryClaims, f_cnt_up: int | None = None) -> Server:
    told: list[Claimed] = []
    return Server(lns, Claiming(lns, claims, told.append), session(f_cnt_up), told)


def test_what_another_server_has_carried_on_is_not_too_far(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims), server("lns-b", claims, 0)
    for f_cnt in (9_000, 18_000):
        assert a.ask(f_cnt).level2 is Level2.OWNER
    assert b.session.standing(18_000) is Standing.TOO_FAR
    assert b.look(18_000, too_far=True).level2 is Level2.NOT_OWNER
    assert [claim.owner for claim in b.told] == ["lns-a"]


def test_what_nobody_has_carried_on_is_no_news(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims), server("lns-b", claims, 10)
    assert a.ask(10).level2 is Level2.OWNER
    assert b.look(9).level2 is Level2.NOT_ASKED
    assert b.look(11 + MAX_GAP, too_far=True).level2 is Level2.NOT_ASKED
    assert b.told == []


def test_what_a_server_has_accepted_alone_is_old_for_it_though_the_store_is_behind(
    claims: MemoryClaims,
) -> None:
    a = server("lns-a", claims, 10)
    assert a.ask(10).level2 is Level2.OWNER
    for f_cnt in (11, 12):
        a.session.advance(f_cnt, MIC, "lns-a")
    assert [a.look(f_cnt).level2 for f_cnt in (11, 12)] == [Level2.NOT_ASKED] * 2
    assert [claim.f_cnt for claim in a.told] == [10]
    assert a.ask(13).is_new


def test_a_session_that_is_over_is_so_for_a_frame_that_is_refused(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims), server("lns-b", claims, 10)
    a.session.dev_addr = NEXT_ADDR
    a.ask(0, elders=(DEV_ADDR,))
    assert b.look(10).outdated
    assert b.told == [], "of a session that is over there is nothing to tell"
    assert asyncio.run(claims.take_f_cnt_down(b.bid(10))) is None


def test_what_was_given_back_is_new_for_whoever_was_told_of_it(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims, 9), server("lns-b", claims, 9)
    bid = a.bid(10)
    claim = a.ask(10)
    assert b.ask(10).level2 is Level2.NOT_OWNER
    a.give_back(claim, bid)
    assert b.session.standing(10) is Standing.EQUAL
    again = b.look(10)
    assert (again.level2, again.is_new, again.given_back) == (Level2.OWNER, True, True)


def test_another_frame_of_that_counter_was_not_given_back(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims, 9), server("lns-b", claims, 9)
    bid = a.bid(10)
    claim = a.ask(10)
    b.ask(10)
    a.give_back(claim, bid)
    assert not b.ask(10, OTHER_MIC).given_back


def missed(claiming: Server) -> int:
    return claiming.bid(claiming.session.f_cnt_up or 0).f_cnt_down_missed


def test_each_frame_that_others_own_may_have_been_answered_four_times(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims, 9), server("lns-b", claims, 9)
    for n, (f_cnt, mic) in enumerate([(10, MIC), (11, MIC), (11, OTHER_MIC)], 1):
        a.ask(f_cnt, mic)
        for _ in range(2):
            assert b.ask(f_cnt, mic).level2 is Level2.NOT_OWNER
            assert missed(b) == 4 * n
    assert b.ask(12).level2 is Level2.OWNER
    assert missed(b) == 0, "what came before an own frame is told with its claim"


def test_a_frame_that_was_refused_by_its_counter_is_missed_as_well(claims: MemoryClaims) -> None:
    a, b = server("lns-a", claims), server("lns-b", claims, 0)
    for f_cnt in (9_000, 18_000):
        a.ask(f_cnt)
    b.look(18_000, too_far=True)
    assert missed(b) == 4


class Clock:
    """What a server's clock shows."""

    now_us = 5


class ReadStore(MemoryStore):
    """A memory store that remembers of whom it was read again."""

    def __init__(self, *sessions: Session) -> None:
        super().__init__()
        self.read: list[Eui] = []
        if sessions:
            self.preset(ALPHA.dev_eui, sessions)

    async def refresh(self, dev_eui: Eui) -> None:
        self.read.append(dev_eui)
        await super().refresh(dev_eui)


def told(mic: int, dev_addr: DevAddr = DEV_ADDR) -> Data:
    """A frame of which only the name is of interest."""
    return Data(
        MType.UNCONFIRMED_UP, dev_addr, adr=False, adr_ack_req=False, ack=False, f_pending=False,
        f_cnt=11, f_opts=b"", f_port=2, frm_payload=b"", mic=mic.to_bytes(4, "big"),
    )  # fmt: skip


def refreshing(store: ReadStore, clock: Clock) -> tuple[SessionRefresh, Match]:
    registry = Registry([ALPHA], store)
    refresh = SessionRefresh(registry, store, lambda: clock.now_us)
    refresh.begin()
    known = registry.session_heard(ALPHA.dev_eui) or session()
    return refresh, Match(replace(ALPHA, server=None), known, 30_000)


def test_for_a_copy_nobody_is_asked() -> None:
    refresh, match = refreshing(ReadStore(session(10)), Clock())
    assert refresh.may_help(match, seen=False)
    assert not refresh.may_help(match, seen=True)


def test_what_was_read_a_day_ago_is_out_of_date() -> None:
    clock = Clock()
    refresh, match = refreshing(ReadStore(session(10)), clock)
    near = Match(match.device, match.session, 11)
    clock.now_us += minutes(24 * 60 - 10) - 1
    assert not refresh.may_help(near, seen=False)
    clock.now_us += 1
    assert refresh.may_help(near, seen=False)
    assert asyncio.run(refresh.ask(told(1), near, WEST))
    assert not refresh.may_help(near, seen=False)


def test_what_a_stranger_made_it_read_is_out_of_date_as_before() -> None:
    clock = Clock()
    refresh, match = refreshing(ReadStore(session(10)), clock)
    near = Match(match.device, match.session, 11)
    clock.now_us += minutes(24 * 60)
    assert asyncio.run(refresh.ask(told(1), Reason.MIC_MISMATCH, WEST))
    assert refresh.may_help(near, seen=False)


def test_one_device_that_was_read_is_not_all_of_its_address() -> None:
    clock = Clock()
    refresh, match = refreshing(ReadStore(session(10)), clock)
    near = Match(match.device, match.session, 11)
    other = Match(replace(match.device, dev_eui=Eui("70B3D57ED0000002")), match.session, 11)
    clock.now_us += minutes(24 * 60)
    refresh.judge(near, told(1))
    assert not refresh.may_help(near, seen=False)
    assert refresh.may_help(other, seen=False)


@pytest.mark.parametrize(
    ("f_cnt", "mic", "heard"), [(9, 1, 10), (10, 2, 10), (10, 1, None), (11, 1, None)]
)
def test_whoever_is_told_an_older_frame_after_a_day_has_heard_all(
    f_cnt: int, mic: int, heard: int | None
) -> None:
    clock = Clock()
    known = session(10)
    known.mic, known.owner = mic_of(told(1)), "lns-b"
    refresh, match = refreshing(ReadStore(known), clock)
    match.session.heard = None
    clock.now_us += minutes(24 * 60)
    refresh.judge(Match(match.device, match.session, f_cnt), told(mic))
    assert match.session.heard == heard


def test_a_device_that_no_store_has_kept_is_read_again_as_well() -> None:
    """Another server may keep it, and have told nobody of its DevAddr."""
    store = ReadStore()
    refresh, _ = refreshing(store, Clock())
    assert asyncio.run(refresh.ask(told(1), Reason.MIC_MISMATCH, WEST))
    assert store.read == [ALPHA.dev_eui]


def test_every_frame_that_fits_nobody_is_asked_for_once() -> None:
    """Whatever was asked of its DevAddr before: somebody else may have forged that."""
    clock, store = Clock(), ReadStore(session(10))
    refresh, _ = refreshing(store, clock)

    def asks(frame: Data) -> bool:
        return asyncio.run(refresh.ask(frame, Reason.MIC_MISMATCH, WEST))

    assert [asks(told(mic)) for mic in (1, 1, 2, 1)] == [True, False, True, False]
    clock.now_us += seconds(5)
    assert asks(told(1))
    assert len(store.read) == 3


def test_a_store_that_does_not_answer_was_not_asked() -> None:
    class Away(ReadStore):
        is_away = True

        async def refresh(self, dev_eui: Eui) -> None:
            if self.is_away:
                raise StoreUnavailable("away")
            await super().refresh(dev_eui)

    store = Away(session(10))
    refresh, _ = refreshing(store, Clock())
    assert not asyncio.run(refresh.ask(told(1), Reason.MIC_MISMATCH, WEST))
    store.is_away = False
    assert asyncio.run(refresh.ask(told(1), Reason.MIC_MISMATCH, WEST))


def test_what_one_station_asks_takes_nothing_from_another() -> None:
    answered = asyncio.Event()

    class Slow(ReadStore):
        async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
            await answered.wait()
            return await super().devices_with(dev_addr)

    async def scenario() -> list[bool]:
        refresh, _ = refreshing(Slow(session(10)), Clock())
        strangers = [told(1, DevAddr(f"2600{n:04X}")) for n in range(UNDER_WAY_MAX + 1)]
        async with asyncio.TaskGroup() as tasks:
            asked = [
                tasks.create_task(refresh.ask(frame, Reason.UNKNOWN_DEVICE, WEST))
                for frame in strangers
            ]
            asked += [tasks.create_task(refresh.ask(told(1), Reason.UNKNOWN_DEVICE, EAST))]
            await asyncio.sleep(0)
            answered.set()
        return [task.result() for task in asked]

    assert asyncio.run(scenario()) == [*[True] * UNDER_WAY_MAX, False, True]


def test_nobody_waits_longer_than_250_ms_for_a_store_that_hangs() -> None:
    class Hanging(ReadStore):
        async def refresh(self, dev_eui: Eui) -> None:
            await asyncio.Event().wait()

    async def asks() -> int:
        refresh, near = refreshing(Hanging(session(10)), Clock())
        began_us = now_us()
        assert not await refresh.ask(told(1), Reason.MIC_MISMATCH, WEST)
        assert not await refresh.ask(told(2), near, WEST)
        return now_us() - began_us

    assert run(asks()) == 2 * 250_000


def test_nobody_waits_longer_than_250_ms_for_a_claim() -> None:
    class Hanging(MemoryClaims):
        async def claim(self, bid: Bid) -> Claim:
            await asyncio.Event().wait()
            return await super().claim(bid)

    async def asks() -> list[Claimed]:
        a = server("lns-a", Hanging(lambda: 0))
        await a.claiming.ask(RECEPTION, "frame", a.bid(10), a.session)
        return a.told

    [claimed] = run(asks())
    assert (claimed.decision, claimed.duration_us) == (Level2.UNAVAILABLE, 250_000)
