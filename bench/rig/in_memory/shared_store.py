"""What do the network servers of one process share?"""

from typing import TypeVar

from bench.inspection.kept import Kept
from bench.rig.in_memory.disk_store import DiskStore
from bench.rig.in_memory.real_redis import RealRedis
from bench.rig.provisioning import kept_for_inspector
from lns.clock import now_us
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.sqlite import SqliteStore

T = TypeVar("T")


class SharedStore:
    """Sessions, DevNonces and claims of all network servers of a case, until it loses them.

    `stores`: what each server has of them, by its id. Without `claims` there is one server, which
    has nobody to ask; its store may be a file.
    """

    def __init__(self, *, retention_us: int) -> None:
        self.claims: MemoryClaims | None = None
        self._retention_us = retention_us
        self.stores: dict[str, MemoryStore] = {}
        self.disk: DiskStore | None = None
        self.redis: RealRedis | None = None

    def real_redis(self) -> RealRedis:
        """The one Redis of a case that keeps in it what is shared."""
        if self.redis is None:
            self.redis = RealRedis(retention_us=self._retention_us)
        return self.redis

    def of(self, lns: str) -> MemoryStore:
        """What it keeps, as one server knows it."""
        if lns not in self.stores:
            first = next(iter(self.stores.values()), None)
            self.stores[lns] = MemoryStore(first)
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
        """What it has of a device, for whoever looks on; no real Redis is looked into."""
        store = self.at(next(iter(self.stores), ""))
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
        self.stores = {}
        if self.redis is not None:
            self.redis.empty()
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self.claims is not None:
            self.claims = None
            self.begin_claims()
