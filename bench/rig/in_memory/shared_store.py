"""Where do the network servers of one process keep what they know?

In memory, which they share; one that is alone in a file; or in a real Redis.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from operator import is_
from random import Random
from typing import Any, Concatenate, ParamSpec, TypeVar

import msgspec

from bench.capture import Record
from bench.inspection.consumer import ConsumerBooks
from bench.inspection.store import Kept
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.mistakes import stumble
from bench.rig.in_memory.promises import ill_written
from bench.rig.in_memory.real_redis import RealRedis, there_is_one
from bench.rig.in_memory.written_files import DiskStore
from bench.rig.interfaces import Store, Wire
from bench.rig.provisioning import kept_for_inspector
from bench.verdict.case import fault_fields
from bench.verdict.owner import Found, Owner, ScenarioMistake
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Claim
from lns.dedup.session import Session
from lns.lorawan.identifiers import DevAddr, Eui
from lns.store.inbox_store import at_once
from lns.store.memory import SESSIONS_MAX, MemoryClaims, MemoryStore
from lns.store.redis_claims import PATIENCE_US as CLAIM_PATIENCE_US
from lns.store.redis_wire import PATIENCE_US
from lns.store.sqlite import SqliteStore

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class SharedStore:
    """Sessions, DevNonces and claims of all network servers of a case, until it loses them.

    `stores`: what each server has of them, by its id. Without `claims` there is one server, which
    has nobody to ask; its store may be a file.
    """

    def __init__(
        self,
        *,
        retention_us: int,
        found: Callable[[str], None] = lambda text: None,
        missed: Callable[[str], None] | None = None,
    ) -> None:
        self.watched = None if missed is None else Watched(missed)
        self.claims: MemoryClaims | None = None
        self.sessions_max = SESSIONS_MAX
        self._retention_us = retention_us
        self.found = found
        self.stores: dict[str, MemoryStore] = {}
        self.disk: DiskStore | None = None
        self.redis: RealRedis | None = None
        self.of_inboxes: list[ConsumerBooks] = []

    def real_redis(self, *, by_sentinels: bool = False) -> RealRedis:
        """The one Redis of a case that keeps in it what is shared."""
        if self.redis is None:
            self.redis = RealRedis(
                retention_us=self._retention_us, found=self.found, by_sentinels=by_sentinels
            )
        return self.redis

    def of(self, lns: str) -> MemoryStore:
        """What it keeps, as one server knows it."""
        if lns not in self.stores:
            first = next(iter(self.stores.values()), None)
            store = NotingStore(first, self.watched) if self.watched else MemoryStore(first)
            self.stores[lns] = store
        return self.stores[lns]

    def at(self, lns: str) -> MemoryStore | SqliteStore:
        """The same, or the file of a server that is alone."""
        return self.of(lns) if self.disk is None else self.disk.newest

    async def preset(self, lns: str, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Let a device begin with these sessions."""
        if self.disk is None:
            self.of(lns).preset(dev_eui, sessions)
        else:
            await self.disk.newest.keep_sessions(dev_eui, sessions)

    def kept(self, dev_eui: Eui) -> Kept:
        """What it has of a device, for whoever looks on."""
        if self.redis is not None:
            return self.redis.kept(dev_eui)
        store = self.at(next(iter(self.stores), ""))
        sessions = store.sessions(dev_eui)
        if any(map(is_, sessions, store.sessions(dev_eui))):
            self.found(f"{dev_eui}: expected sessions to be handed out, observed what is kept")
        if isinstance(store, MemoryStore):
            for session in store.kept(dev_eui):
                if dev_eui not in at_once(store.devices_with(session.dev_addr)):
                    self.found(f"{dev_eui}: expected found by {session.dev_addr}, observed not")
        try:
            msgspec.json.decode(msgspec.json.encode(sessions), type=tuple[Session, ...])
        except ValueError as error:
            self.found(f"{dev_eui}: expected sessions that can be read again, observed {error}")
        return Kept(dev_eui, tuple(map(kept_for_inspector, sessions)), store.dev_nonces(dev_eui))

    def begin_claims(self) -> None:
        """Let servers ask who owns a frame, from now on."""
        rules = {"retention_us": self._retention_us, "sessions_max": self.sessions_max}
        if self.claims is None:
            self.claims = (NotingClaims if self.watched else MemoryClaims)(now_us, **rules)

    def remember_for(self, retention_us: int) -> None:
        """How long it remembers a frame that was claimed; before any was."""
        self._retention_us = retention_us
        self._begin_anew()

    def lose_everything(self) -> None:
        self.stores = {}
        if self.watched is not None:
            self.watched.keeper.clear()
        if self.redis is not None:
            self.redis.empty()
            for books in self.of_inboxes:  # they lie beside what servers share
                books.is_blind = True
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self.claims is not None:
            self.claims = None
            self.begin_claims()


# `StoreWire` is the way to what servers share, and what a fault does to that; `FarStore` is what a
# server sees of it.
class StoreWire(Wire):
    """The wire of one network server; whole, slow or cut.

    What a server asks is as long under way as the answer, or another share of a delay. For the
    answer it waits as long as it would for that of a Redis, for a claim less than for anything
    else: what arrives later is lost, although it was done.
    """

    def __init__(self, lns: str, record: Record, *, asking: float = 0.5) -> None:
        self._lns = lns
        self._record = record
        self._asking = asking
        self.mistakes: list[str] = []
        self.is_cut = False
        self.delay_us = 0
        self._faults: dict[str, dict[str, int]] = {}

    async def claimed(self, work: Callable[[], Awaitable[T]]) -> T:
        """`carry`, for a claim."""
        return await self.carry(work, CLAIM_PATIENCE_US)

    async def carry(self, work: Callable[[], Awaitable[T]], patience_us: int = PATIENCE_US) -> T:
        """The answer from the other end; StoreUnavailable when it does not come in time."""
        if "store" in self.mistakes:
            stumble(self.mistakes, "store")
        if self.is_cut:
            raise StoreUnavailable("the wire to the store is cut")
        delay_us = self.delay_us
        waits_us = min(delay_us, patience_us)
        asking_us = int(waits_us * self._asking)
        if asking_us:
            await asyncio.sleep(asking_us / 1_000_000)
        answer = await work()
        if delay_us:
            await asyncio.sleep((waits_us - asking_us) / 1_000_000)
        if delay_us >= patience_us:
            raise StoreUnavailable(f"the store does not answer within {patience_us} us")
        return answer

    def cut(self) -> None:
        self.is_cut = True
        self._begin("cut", {})

    def delay(self, us: int) -> None:
        self.delay_us = us
        self._begin("delay", {"after_us": us})

    async def restore(self) -> None:
        self.mend()

    def mend(self) -> None:
        self.is_cut, self.delay_us = False, 0
        for fault in list(self._faults):
            self._end(fault)

    def _begin(self, fault: str, detail: dict[str, int]) -> None:
        self._end(fault)
        self._faults[fault] = detail
        self._note("fault.begin", fault, detail)

    def _end(self, fault: str) -> None:
        detail = self._faults.pop(fault, None)
        if detail is not None:
            self._note("fault.end", fault, detail)

    def _note(self, kind: str, fault: str, detail: dict[str, int]) -> None:
        self._record("bench", kind, fault_fields("store", fault, detail, server=self._lns))


class FarStore:
    """Store and claims at the other end of a wire, as one run of a network server uses them.

    StoreUnavailable where the wire does not bring an answer (`lns.registry.SessionStore`).
    Of DevNonces the server knows what it has read or written itself, and nothing newer.
    """

    def __init__(self, lns: str, store: SharedStore, wire: StoreWire) -> None:
        self._lns = lns
        self._far = store
        self._wire = wire
        self._dev_nonces: defaultdict[Eui, set[int]] = defaultdict(set)

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        self._dev_nonces[dev_eui] |= self._store().dev_nonces(dev_eui)
        return self._store().sessions(dev_eui)

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        return frozenset(self._dev_nonces[dev_eui])

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        await self._wire.carry(lambda: self._store().keep_sessions(dev_eui, sessions))

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        if dev_nonce in self._dev_nonces[dev_eui]:
            return False
        kept = await self._wire.carry(lambda: self._store().keep_join(dev_eui, dev_nonce, sessions))
        self._dev_nonces[dev_eui].add(dev_nonce)
        if kept and self._far.claims is not None:
            self._far.claims.begin(dev_eui, sessions[0].dev_addr)
        return kept

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        return await self._wire.carry(lambda: self._store().next_join_nonce(dev_eui, least))

    async def refresh(self, dev_eui: Eui) -> None:
        await self._wire.carry(lambda: self._store().refresh(dev_eui))

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        return await self._wire.carry(lambda: self._store().devices_with(dev_addr))

    async def claim(self, bid: Bid) -> Claim:
        return await self._wire.claimed(lambda: self._claims().claim(bid))

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        return await self._wire.claimed(lambda: self._claims().take_f_cnt_down(bid))

    async def release(self, bid: Bid, claim: Claim) -> None:
        await self._wire.claimed(lambda: self._claims().release(bid, claim))

    def _store(self) -> MemoryStore:
        return self._far.stores.get(self._lns) or self._far.of(self._lns)

    def _claims(self) -> MemoryClaims:
        assert self._far.claims is not None, "this server has nobody to ask"
        return self._far.claims


_MOMENT_US = 1_000
_Act = tuple[str, tuple[object, ...], object]
"""What a store in memory has done, of what, and what that came to."""
_DONE: ContextVar[list[_Act] | None] = ContextVar("done for who asks now", default=None)


def _note(what: str, result: object, *of: object) -> None:
    if (done := _DONE.get()) is not None:
        done.append((what, of, result))


def _noted(
    act: Callable[Concatenate[S, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[S, P], Coroutine[Any, Any, T]]:
    """The same, and noted."""

    async def noting(self: S, /, *of: P.args, **facts: P.kwargs) -> T:
        result = await act(self, *of, **facts)
        _note(act.__name__, result, *of)
        return result

    return noting


class Watched:
    """What is missed by a store in memory, and who took last what servers know of a device."""

    def __init__(self, missed: Callable[[str], None]) -> None:
        self.missed = missed
        self.keeper: dict[Eui, NotingStore] = {}


class NotingStore(MemoryStore):
    """It notes what it does for whoever asks."""

    def __init__(self, beside: MemoryStore | None, watched: Watched) -> None:
        super().__init__(beside)
        self._watched = watched

    def is_keeper(self, dev_eui: Eui) -> bool:
        """Whether it keeps what was kept last of a device, itself or by sharing it."""
        keeper = self._watched.keeper.get(dev_eui, self)
        return self._sessions is keeper._sessions

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        sessions = super().sessions(dev_eui)
        _note("sessions", sessions, dev_eui)
        if not self.is_keeper(dev_eui):
            self._watched.missed(f"{dev_eui}: expected what is kept, observed other sessions")
        return sessions

    def preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        self._watched.keeper[dev_eui] = self
        super().preset(dev_eui, sessions)

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        self._watched.keeper[dev_eui] = self
        await super().keep_sessions(dev_eui, sessions)
        _note("keep_sessions", None, dev_eui, sessions)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        kept = await super().keep_join(dev_eui, dev_nonce, sessions)
        self._watched.keeper[dev_eui] = self if kept else self._watched.keeper.get(dev_eui, self)
        _note("keep_join", kept, dev_eui, dev_nonce, sessions)
        return kept

    next_join_nonce = _noted(MemoryStore.next_join_nonce)
    refresh = _noted(MemoryStore.refresh)
    devices_with = _noted(MemoryStore.devices_with)


class NotingClaims(MemoryClaims):
    """They note what they do for whoever asks."""

    claim = _noted(MemoryClaims.claim)
    take_f_cnt_down = _noted(MemoryClaims.take_f_cnt_down)
    release = _noted(MemoryClaims.release)

    def forget(self, dev_eui: Eui) -> None:
        super().forget(dev_eui)
        _note("forget", None, dev_eui)


class WatchedStore:
    """A store in memory and the wire to it, as a server meets them: each answer is looked at.

    What is not as it was asked, comes too late or not at all though nobody has disturbed the wire
    is missed by the store: then the case proves nothing about its servers.
    """

    def __init__(self, lns: str, far: FarStore, wire: StoreWire, watched: Watched) -> None:
        self._lns, self._far = lns, far
        self._wire, self._missed = wire, watched.missed
        self.dev_nonces = far.dev_nonces

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        with _looked_at() as done:
            sessions = self._far.sessions(dev_eui)
        self._look("sessions", (dev_eui,), sessions, done)
        return sessions

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        act = "keep_sessions", (dev_eui, sessions)
        await self._answer(act, self._far.keep_sessions(dev_eui, sessions))

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        act, is_used = "keep_join", dev_nonce in self._far.dev_nonces(dev_eui)
        work = self._far.keep_join(dev_eui, dev_nonce, sessions)
        return await self._answer((act, (dev_eui, dev_nonce, sessions)), work, is_used=is_used)

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        act = "next_join_nonce", (dev_eui, least)
        return await self._answer(act, self._far.next_join_nonce(dev_eui, least))

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        act = "devices_with", (dev_addr,)
        return await self._answer(act, self._far.devices_with(dev_addr))

    async def refresh(self, dev_eui: Eui) -> None:
        await self._answer(("refresh", (dev_eui,)), self._far.refresh(dev_eui))

    async def claim(self, bid: Bid) -> Claim:
        return await self._answer(("claim", (bid,)), self._far.claim(bid), CLAIM_PATIENCE_US)

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        act = "take_f_cnt_down", (bid,)
        return await self._answer(act, self._far.take_f_cnt_down(bid), CLAIM_PATIENCE_US)

    async def release(self, bid: Bid, claim: Claim) -> None:
        act = "release", (bid, claim)
        await self._answer(act, self._far.release(bid, claim), CLAIM_PATIENCE_US)

    async def _answer(
        self,
        asked: tuple[str, tuple[object, ...]],
        work: Awaitable[T],
        patience_us: int = PATIENCE_US,
        *,
        is_used: bool = False,
    ) -> T:
        what, of = asked
        began_us, wait_us = now_us(), min(self._wire.delay_us, patience_us)
        is_away = self._wire.is_cut or wait_us == patience_us
        try:
            with _looked_at() as done:
                answer = await work
            if not (is_used and answer is False):
                self._look(what, of, answer, done)
            return answer
        except StoreUnavailable as away:
            if not is_away:
                self._miss(what, "an answer", away)
            raise
        finally:
            waited_us = now_us() - began_us
            if waited_us > wait_us + _MOMENT_US:
                self._miss(what, f"an answer after {wait_us} us", f"{waited_us} us")

    def _look(
        self, what: str, of: tuple[object, ...], answer: object, done: Sequence[_Act]
    ) -> None:
        """It is done once, as it was asked for, and the answer is what that came to."""
        if [one[:2] for one in done] != [(what, of)]:
            seen = ", ".join(one[0] for one in done) or "nothing"
            self._miss(what, "that done, once and as asked", seen)
        elif answer != done[0][2]:
            self._miss(what, f"told {done[0][2]}", answer)

    def _miss(self, what: str, due: object, seen: object) -> None:
        self._missed(f"{what} of {self._lns}: expected {due}, observed {seen}")


@contextmanager
def _looked_at() -> Iterator[list[_Act]]:
    """What is done meanwhile, in this task."""
    done: list[_Act] = []
    token = _DONE.set(done)
    try:
        yield done
    finally:
        _DONE.reset(token)


class CaseStore(Store):
    """The store of the servers in this process; `has_claims`: even one that is alone asks it."""

    capabilities = frozenset({"own store"}) | ({"redis"} if there_is_one() else set())

    def __init__(self, setup: CaseSetup, *, has_claims: bool) -> None:
        self._setup = setup
        self.shared = SharedStore(
            retention_us=setup.retention_us,
            found=self._find,
            missed=lambda text: setup.case.missed(Owner.STORE, f"the store in memory: {text}"),
        )
        if has_claims:
            self.shared.begin_claims()

    def remember_for(self, retention_us: int) -> None:
        self.shared.sessions_max = self._setup.sessions_max
        self.shared.remember_for(retention_us)

    async def claim(self, bid: Bid) -> None:
        if self.shared.redis is not None:
            return await self.shared.redis.claim(bid)
        if self.shared.claims is None:
            raise ScenarioMistake("a server that is alone asks nobody: rig.put_on() a second one")
        await self.shared.claims.claim(bid)

    async def bid_at_random(self, dev_eui: Eui, dice: Random) -> None:
        if self.shared.redis is not None:
            return await self.shared.redis.bid_at_random(dev_eui, dice)
        if self.shared.disk is None:
            raise ScenarioMistake("only a Redis or a file is compared: rig.keep_in_redis() first")
        for text in await ill_written(dice):
            self._find(text)

    def kept(self, devices: Iterable[Eui]) -> Sequence[Kept]:
        if self.shared.redis is not None:
            undisturbed = all(event["kind"] != "fault.begin" for event in self._setup.case.events)
            self.shared.redis.look_at_the_end(is_sure=undisturbed)
        disk = self.shared.disk
        if disk is not None:
            disk.open()
        found = [self.shared.kept(dev_eui) for dev_eui in devices]
        if disk is not None:
            disk.end()
        return found

    def _find(self, text: str) -> None:
        where = "Redis" if self.shared.redis else "a file" if self.shared.disk else "memory"
        self._setup.case.find(Found(rule="store", text=f"{where}: {text}", t_us=now_us()))

    async def restart(self, *, empty: bool) -> None:
        if self.shared.redis is not None:
            self.shared.redis.restart()
        if empty:
            self.shared.lose_everything()

    def disturb(self, how: str) -> None:
        assert self.shared.redis is not None, "only a real Redis has replicas and scripts"
        self.shared.redis.disturb(how)
