"""Where do the network servers of one process keep what they know?

In memory, which they share; one that is alone in a file; or in a real Redis.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import is_
from pathlib import Path
from random import Random
from shutil import rmtree
from sqlite3 import Connection
from weakref import finalize

import msgspec

from bench.host.lns_files import toml_text
from bench.inspection.consumer import ConsumerBooks
from bench.inspection.store import Kept
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.promises import ill_written
from bench.rig.in_memory.real_redis import RealRedis, there_is_one, told_without_folder
from bench.rig.in_memory.written_files import ill_kept, new_folder, seize
from bench.rig.interfaces import Store
from bench.rig.provisioning import kept_for_inspector
from bench.verdict.owner import Found, ScenarioMistake
from lns.clock import StoreUnavailable, now_us
from lns.config import Config, load
from lns.dedup.claim import Bid
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.inbox_store import at_once
from lns.store.memory import SESSIONS_MAX, MemoryClaims, MemoryStore
from lns.store.sqlite import SqliteStore


class ToldStore(SqliteStore):
    """A file that tells of each write as soon as it is on the disk.

    What a write that failed has left in mind all the same is `found`.
    """

    def __init__(self, path: Path, wrote: Callable[[], None], found: Callable[[str], None]) -> None:
        super().__init__(path)
        self._wrote, self._found = wrote, found
        for text in self._file.read_at_once(lambda db: list(ill_kept(db))):
            found(text)

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        due = tuple(map(Session.snapshot, sessions))
        with self._looked_at(dev_eui):
            await super().keep_sessions(dev_eui, sessions)
        self._know(dev_eui, due)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        due = tuple(map(Session.snapshot, sessions))
        with self._looked_at(dev_eui):
            kept = await super().keep_join(dev_eui, dev_nonce, sessions)
        self._know(dev_eui, due if kept else self.sessions(dev_eui))
        return kept

    def _know(self, dev_eui: Eui, due: tuple[Session, ...]) -> None:
        """A write is on the disk, and in mind."""
        self._wrote()
        if self.sessions(dev_eui) != due:
            self._found(f"{dev_eui}: expected in mind what was written, observed something else")

    @contextmanager
    def _looked_at(self, dev_eui: Eui) -> Iterator[None]:
        before = self.sessions(dev_eui), self.dev_nonces(dev_eui)
        try:
            yield
        except StoreUnavailable:
            if (self.sessions(dev_eui), self.dev_nonces(dev_eui)) != before:
                self._found(f"{dev_eui}: expected as it was before a write that failed")
            raise

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        join_nonce = await super().next_join_nonce(dev_eui, least)
        self._wrote()
        return join_nonce


def configuration_in(file: Path) -> Config:
    """What a server reads of its configuration; ConfigError names files, and no folder."""
    with told_without_folder(file):
        return load(file)


class DiskStore:
    """The file of one server, which outlives it; whoever opens it reads what is there."""

    def __init__(self, found: Callable[[str], None]) -> None:
        folder = new_folder("store")
        self._found = found
        self._path = folder / "sessions"
        self._full: Connection | None = None
        self._writes_left = 0
        self._opened = [ToldStore(self._path, self._count, self._found)]
        self.end = finalize(self, _remove, folder, self._opened)
        """Removes it all; so does whoever forgets it."""

    @property
    def newest(self) -> SqliteStore:
        """The store of the server that runs."""
        return self._opened[0]

    def open(self) -> SqliteStore:
        """A store of what the file has by now; the one before it takes nothing more."""
        self.newest.close()
        self._opened[0] = ToldStore(self._path, self._count, self._found)
        return self.newest

    def configured(
        self, settings: Mapping[str, object], devices: Sequence[Mapping[str, object]]
    ) -> Config:
        """What a server reads of its configuration; ConfigError names files, and no folder."""
        lns = self._path.with_name("lns.toml")
        lns.write_text(toml_text(settings), "utf-8")
        lns.with_name("devices.toml").write_text(toml_text({"device": devices}), "utf-8")
        return configuration_in(lns)

    def fill(self, after: int = 0) -> None:
        """Let nothing more be written than so many writes, until `free`."""
        self._writes_left = after
        if not after:
            self._full = seize(self._path)

    def _count(self) -> None:
        if self._writes_left:
            self._writes_left -= 1
            if not self._writes_left:
                self.fill()

    def free(self) -> None:
        self._writes_left = 0
        if self._full is not None:
            self._full.close()
            self._full = None


def _remove(folder: Path, opened: list[ToldStore]) -> None:
    opened[0].close()
    rmtree(folder, ignore_errors=True)


class SharedStore:
    """Sessions, DevNonces and claims of all network servers of a case, until it loses them.

    `stores`: what each server has of them, by its id. Without `claims` there is one server, which
    has nobody to ask; its store may be a file.
    """

    def __init__(
        self, *, retention_us: int, found: Callable[[str], None] = lambda text: None
    ) -> None:
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
        if self.claims is None:
            self.claims = MemoryClaims(
                now_us, retention_us=self._retention_us, sessions_max=self.sessions_max
            )

    def remember_for(self, retention_us: int) -> None:
        """How long it remembers a frame that was claimed; before any was."""
        self._retention_us = retention_us
        self._begin_anew()

    def lose_everything(self) -> None:
        self.stores = {}
        if self.redis is not None:
            self.redis.empty()
            for books in self.of_inboxes:  # they lie beside what servers share
                books.is_blind = True
        self._begin_anew()

    def _begin_anew(self) -> None:
        if self.claims is not None:
            self.claims = None
            self.begin_claims()


class CaseStore(Store):
    """The store of the servers in this process; `has_claims`: even one that is alone asks it."""

    capabilities = frozenset({"own store"}) | ({"redis"} if there_is_one() else set())

    def __init__(self, setup: CaseSetup, *, has_claims: bool) -> None:
        self._setup = setup
        self.shared = SharedStore(retention_us=setup.retention_us, found=self._find)
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
