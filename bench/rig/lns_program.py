"""A network server as a program of its own: killed for real, its memory in the store."""

import asyncio
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.capture.reading import Event
from bench.host.network_server import LnsProcess
from bench.rig.collecting import Collector
from bench.rig.lns_files import device_tables
from bench.rig.provisioning import Provisioned
from lns.end_device import Session
from lns.lorawan.identifiers import Eui
from lns.store.redis import RedisStore
from lns.store.redis_wire import redis_server

_PATIENCE_US = 10_000_000


class LnsProgram:
    """One `python -m lns` with files of its own; `take` is told every line of its capture.

    `starting` bounds how many start at once: each takes a second of a processor.
    """

    def __init__(
        self,
        folder: Path,
        settings: Mapping[str, Mapping[str, Any]],
        take: Callable[[Event], None],
        tasks: asyncio.TaskGroup,
        starting: asyncio.Semaphore,
    ) -> None:
        self._folder = folder
        self._settings = settings
        self._take = take
        self._tasks = tasks
        self._starting = starting
        self._process: LnsProcess | None = None
        self._devices: Sequence[Eui] = ()
        self._collecting: asyncio.Task[None] | None = None
        path = folder / str(settings["capture"]["path"])
        self._collector = Collector(path, take)

    @property
    def uri(self) -> str | None:
        """Where stations ask for their data connection, without a path; None: it does not run."""
        process = self._process
        return process.uri if process is not None and process.running else None

    async def start(self, devices: Sequence[Provisioned]) -> None:
        """Start it with these devices and the sessions they begin with."""
        self._devices = [device.dev_eui for device in devices]
        sessions = [session for device in devices if (session := device.session())]
        await self._preset(sessions)
        tables = device_tables(device.record for device in devices)
        self._process = LnsProcess(self._folder, self._settings, tables)
        async with self._starting:
            await self._process.start()
        self._collecting = self._tasks.create_task(self._collector.run())

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
        async with self._starting:
            await self._process.start()

    async def stop(self) -> None:
        """End it as a service is ended, and read its last words."""
        if self._collecting is not None:
            self._collecting.cancel()
        if self._process is not None:
            await self._process.stop()
        self._collector.read()

    async def _preset(self, sessions: Sequence[Session]) -> None:
        """Let the store hold these sessions, as if the server had kept them."""
        by_device: dict[Eui, list[Session]] = {}
        for session in sessions:
            by_device.setdefault(session.dev_eui, []).append(session)
        async with self._store(by_device) as store:
            for dev_eui, kept in by_device.items():
                await store.keep_sessions(dev_eui, tuple(kept))

    def _store(self, devices: Iterable[Eui]) -> RedisStore:
        server = redis_server(str(self._settings["store"]["url"]))
        lns = str(self._settings["lns"]["id"])
        return RedisStore(server, lns, devices, patience_us=_PATIENCE_US)
