"""What do the servers of one process share, how do they reach it, and what of it do they see?

`SharedStore` is what they share, `StoreWire` the way to it and what a fault does to that,
`FarStore` what a server sees of it.
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bench.capture import Record
from bench.inspection.kept import Kept
from bench.rig.in_memory.disk_store import DiskStore
from bench.rig.in_memory.real_redis import RealRedis
from bench.rig.interfaces import Wire
from bench.rig.provisioning import kept_for_inspector
from bench.verdict.case import fault_fields
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Claim
from lns.dedup.session import Session
from lns.lorawan.identifiers import DevAddr, Eui
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.redis_claims import PATIENCE_US as CLAIM_PATIENCE_US
from lns.store.redis_wire import PATIENCE_US
from lns.store.sqlite import SqliteStore

T = TypeVar("T")


class SharedStore:
    """Sessions, DevNonces and claims of all network servers of a case, until it loses them.

    Without `claims` there is one server, which has nobody to ask; its store may be a file.
    """

    def __init__(self, *, retention_us: int) -> None:
        self.claims: MemoryClaims | None = None
        self._retention_us = retention_us
        self._stores: dict[str, MemoryStore] = {}
        self.disk: DiskStore | None = None
        self.redis: RealRedis | None = None

    def of(self, lns: str) -> MemoryStore:
        """What it keeps, as one server knows it."""
        if lns not in self._stores:
            first = next(iter(self._stores.values()), None)
            self._stores[lns] = MemoryStore(first)
        return self._stores[lns]

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
        """What it has of a device, for whoever looks on; no real Redis is looked into."""
        store = self.at(next(iter(self._stores), ""))
        sessions = tuple(map(kept_for_inspector, store.sessions(dev_eui)))
        return Kept(dev_eui, sessions, store.dev_nonces(dev_eui))

    def begin_claims(self) -> None:
        """Let servers ask who owns a frame, from now on."""
        if self.claims is None:
            self.claims = MemoryClaims(now_us, retention_us=self._retention_us)

    def remember_for(self, retention_us: int) -> None:
        """How long it remembers a frame that was claimed; before any was."""
        self._retention_us = retention_us
        self._begin_anew()

    def lose_everything(self) -> None:
        self._stores = {}
        if self.redis is not None:
            self.redis.empty()
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self.claims is not None:
            self.claims = None
            self.begin_claims()


class StoreWire(Wire):
    """The wire of one network server; whole, slow or cut.

    A server waits for an answer as long as it would for that of a Redis, for a claim less than for
    anything else: what arrives later is lost, although it was done.
    """

    def __init__(self, lns: str, record: Record) -> None:
        self._lns = lns
        self._record = record
        self._is_cut = False
        self._delay_us = 0
        self._faults: dict[str, dict[str, int]] = {}

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @property
    def delay_us(self) -> int:
        return self._delay_us

    async def claimed(self, work: Callable[[], Awaitable[T]]) -> T:
        """`carry`, for a claim."""
        return await self.carry(work, CLAIM_PATIENCE_US)

    async def carry(self, work: Callable[[], Awaitable[T]], patience_us: int = PATIENCE_US) -> T:
        """The answer from the other end; StoreUnavailable when it does not come in time."""
        if self._is_cut:
            raise StoreUnavailable("the wire to the store is cut")
        answer, delay_us = await work(), self._delay_us
        if delay_us:
            await asyncio.sleep(min(delay_us, patience_us) / 1_000_000)
        if delay_us >= patience_us:
            raise StoreUnavailable(f"the store does not answer within {patience_us} us")
        return answer

    def cut(self) -> None:
        self._is_cut = True
        self._begin("cut", {})

    def delay(self, us: int) -> None:
        self._delay_us = us
        self._begin("delay", {"after_us": us})

    async def restore(self) -> None:
        self.mend()

    def mend(self) -> None:
        self._is_cut, self._delay_us = False, 0
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
        return self._far.of(self._lns)

    def _claims(self) -> MemoryClaims:
        assert self._far.claims is not None, "this server has nobody to ask"
        return self._far.claims
