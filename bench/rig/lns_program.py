"""A network server as a program of its own: killed for real, its memory in the store."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager, closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.capture.reading import Event
from bench.host.network_server import LnsProcess
from bench.host.open_files import limit_file_size
from bench.host.program import Starter
from bench.host.relay import Relay
from bench.rig.collecting import Collector
from bench.rig.latency import ProgramGuard
from bench.rig.lns_files import device_tables
from bench.rig.provisioning import Provisioned
from lns.dedup.session import Session
from lns.delivery.inbox import utc_us
from lns.delivery.outbox import Outbox
from lns.lorawan.identifiers import Eui
from lns.store.redis import RedisStore
from lns.store.redis_server import redis_server
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import SessionStore

SQLITE = "sqlite://"
_PATIENCE_US = 10_000_000


@dataclass(frozen=True, slots=True)
class Relays:
    """The wires of one network server, on which the bench stands."""

    to_broker: Relay
    to_store: Relay


class LnsProgram:
    """One `python -m lns` with files of its own; `take` is told every line of its capture.

    `starting` bounds how many start at once: each takes a second of a processor. `stalled` is told
    when this host lets it wait for a processor (µs). With `has_past` its store may know the devices
    from an earlier run: that is forgotten first. `starter` starts it.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Mapping[str, Any]],
        take: Callable[[Event], None],
        tasks: asyncio.TaskGroup,
        starting: asyncio.Semaphore,
        stalled: Callable[[int], None],
        relays: Relays | None = None,
        *,
        has_past: bool = False,
        starter: Starter | None = None,
    ) -> None:
        self._starter = starter
        self._folder = folder
        self._settings = settings
        self._take = take
        self._tasks = tasks
        self._starting = starting
        self._relays = relays
        self._has_past = has_past
        self._guard = ProgramGuard(stalled)
        self._process: LnsProcess | None = None
        self._devices: Sequence[Eui] = ()
        self._following: list[asyncio.Task[None]] = []
        path = folder / str(settings["capture"]["path"])
        self._collector = Collector(path, take)

    @property
    def lns(self) -> str:
        """Its id."""
        return str(self._settings["lns"]["id"])

    @property
    def to_broker(self) -> Relay:
        """The wire to the broker."""
        assert self._relays is not None, "nothing stands on its wires"
        return self._relays.to_broker

    @property
    def to_store(self) -> Relay:
        """The wire to the store."""
        assert self._relays is not None, "nothing stands on its wires"
        return self._relays.to_store

    @property
    def died(self) -> Exception | None:
        """How it ended, if nobody asked for that."""
        return self._process.died if self._process is not None else None

    @property
    def uri(self) -> str | None:
        """Where stations ask for their data connection, without a path; None: it does not run."""
        process = self._process
        return process.uri if process is not None and process.running else None

    async def start(self, devices: Sequence[Provisioned]) -> None:
        """Start it with these devices and the sessions they begin with."""
        if self._relays is not None:
            await self._relays.to_broker.start()
            await self._relays.to_store.start()
        self._devices = [device.dev_eui for device in devices]
        sessions = [session for device in devices if (session := device.session())]
        if self._has_past:
            async with self._store(self._devices) as store:
                assert isinstance(store, RedisStore)
                for dev_eui in self._devices:
                    await store.forget(dev_eui)
        await self._preset(sessions)
        tables = device_tables(device.record for device in devices)
        self._process = LnsProcess(self._folder, self._settings, tables, starter=self._starter)
        await self._run(self._process)
        self._following.append(self._tasks.create_task(self._collector.run()))

    def pause(self) -> None:
        """Let it do nothing until `resume`."""
        assert self._process is not None
        self._process.pause()

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.resume()

    async def kill(self) -> None:
        """End it as SIGKILL does."""
        assert self._process is not None
        await self._process.kill()

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what is in the store, the counters there replaced first if given."""
        assert self._process is not None
        if f_cnt_up is not None:
            async with self._store(self._devices) as store:
                kept = [s for eui in self._devices for s in store.sessions(eui)]
            for session in kept:
                session.f_cnt_up = f_cnt_up
            await self._preset(kept)
        await self._run(self._process)

    def fill_disk(self) -> None:
        """Let its outbox not grow any more; its capture, which is smaller yet, goes on."""
        assert self._process is not None
        journal = self._outbox.with_name(f"{self._outbox.name}-wal")
        allowed = max(file.stat().st_size for file in (self._outbox, journal) if file.exists())
        limit_file_size(self._process.pid, allowed)

    def free_disk(self) -> None:
        """Let all its files grow again."""
        assert self._process is not None
        limit_file_size(self._process.pid, None)

    async def release_parked(self) -> None:
        """Let what it had put aside be sent after all, and be tried for long; it must not run."""
        assert self._process is not None
        upstream = dict(self._settings["upstream"])
        upstream.pop("retry_max_s", None)
        self._process.settings = {**self._settings, "upstream": upstream}
        outbox = Outbox(self._outbox)
        try:
            await outbox.release(utc_us())
        finally:
            outbox.close()

    @property
    def _outbox(self) -> Path:
        return self._folder / str(self._settings["upstream"]["outbox"])

    def lose_outbox(self) -> None:
        """Remove what it had to publish; it must not run."""
        for file in self._folder.glob(f"{self._settings['upstream']['outbox']}*"):
            file.unlink()

    async def stop(self) -> None:
        """End it as a service is ended, and read its last words."""
        for task in self._following:
            task.cancel()
        if self._process is not None:
            await self._process.stop()
        self._collector.read()
        if self._relays is not None:
            await self._relays.to_broker.stop()
            await self._relays.to_store.stop()

    async def _run(self, process: LnsProcess) -> None:
        async with self._starting:
            await process.start()
        self._following.append(self._tasks.create_task(self._guard.run(process.pid)))

    async def _preset(self, sessions: Sequence[Session]) -> None:
        """Let the store hold these sessions, as if the server had kept them."""
        by_device: dict[Eui, list[Session]] = {}
        for session in sessions:
            by_device.setdefault(session.dev_eui, []).append(session)
        async with self._store(by_device) as store:
            for dev_eui, kept in by_device.items():
                replaces = store.preset if isinstance(store, RedisStore) else store.keep_sessions
                await replaces(dev_eui, tuple(kept))

    @asynccontextmanager
    async def _store(self, devices: Iterable[Eui]) -> AsyncIterator[SessionStore]:
        """The store of the server, which must not run if the store is a file."""
        url = str(self._settings["store"]["url"])
        if url.startswith(SQLITE):
            with closing(SqliteStore(self._folder / url.removeprefix(SQLITE))) as file:
                yield file
        else:
            async with RedisStore(
                redis_server(url), self.lns, devices, patience_us=_PATIENCE_US
            ) as store:
                yield store
