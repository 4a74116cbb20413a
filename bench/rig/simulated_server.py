"""The network server of the simulated rig: started, restarted, its wall clock moved."""

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timedelta
from functools import partial

from msgspec.structs import replace

from bench.capture import Record
from bench.chance import stream
from bench.host.network_server import ServerDied
from bench.rig.application import Application
from bench.rig.provisioning import Provisioned
from bench.rig.simulated_store import FarStore, SimulatedStore, StoreWire
from bench.station.link import LinkClosed, MemoryLink, TextLink, link_pair
from lns.clock import now_us
from lns.dedup.claim import OnOutage
from lns.events import Event, as_fields
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.network_server import NetworkServer

LINK_US = 2_000


class SimulatedServer:
    """One LNS in this process; sessions and DevNonces outlive its restarts, level 1 does not.

    They are in `store`, at the end of a wire that may be cut or slow. `level_1`: for how long it
    remembers frames (µs), and how many.
    """

    def __init__(
        self,
        lns: str,
        region: Region,
        store: SimulatedStore,
        application: Application,
        seed: int,
        record: Record,
        wall_clock_start: datetime,
        *,
        level_1: Callable[[], tuple[int, int]],
    ) -> None:
        self.lns = lns
        self.region = region
        self.on_outage = OnOutage.OPEN
        self.to_store = StoreWire(lns, record)
        self._store = store
        self._application = application
        self._seed = seed
        self._record = record
        self._level_1 = level_1
        self._wall_clock_start = wall_clock_start
        self._stepped_us = 0
        self._starts = 0
        self._provisioned: Sequence[Provisioned] = ()
        self._tasks: asyncio.TaskGroup | None = None
        self._server: NetworkServer | None = None
        self._links: list[tuple[Eui, MemoryLink]] = []

    async def start(self, tasks: asyncio.TaskGroup, provisioned: Sequence[Provisioned]) -> None:
        """Start it with the devices that it is to know."""
        self._tasks = tasks
        self._provisioned = [device for device in provisioned if device.known]
        for device in self._provisioned:
            session = device.session()
            if session is not None:
                self._store.of(self.lns).preset(device.dev_eui, (session,))
        with self._alive():
            self._server = self._new_server()

    async def kill(self) -> None:
        """End every connection and forget what was in memory only; nobody is there any more."""
        self.stop()
        self._server = None

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Begin with an empty level 1 and what the store has, its counters replaced if given."""
        if f_cnt_up is not None:
            store = self._store.of(self.lns)
            for device in self._provisioned:
                kept = store.sessions(device.dev_eui)
                stale = tuple(replace(session, f_cnt_up=f_cnt_up) for session in kept)
                store.preset(device.dev_eui, stale)
        with self._alive():
            self._server = self._new_server()

    def stop(self) -> None:
        """End every connection."""
        links, self._links = self._links, []
        for _, link in links:
            link.close()

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """End the station's connection; this server notices so much later."""
        for eui, theirs in self._links:
            if eui == station:
                theirs.peer.vanish(noticed_after_us)

    def receive_request(self, topic: str, body: bytes) -> None:
        """An application asks for something, as the broker brings it."""
        if self._server is not None:
            with self._alive():
                self._server.receive_request(topic, body)

    def step_wall_clock(self, us: int) -> None:
        """Set the wall clock of its host forward or back."""
        self._stepped_us += us
        told: dict[str, object] = {"seam": "clock", "fault": "step", "origin": "injected"}
        self._record("bench", "fault.begin", told | {"lns": self.lns, "detail": {"us": us}})

    async def connect(self, station: Eui) -> TextLink:
        """A link to the server for one station; LinkClosed when it does not run."""
        if self._server is None or self._tasks is None:
            raise LinkClosed("the network server does not run")
        ours, theirs = link_pair(LINK_US)
        self._links.append((station, theirs))
        self._tasks.create_task(self._serve(self._server, station, theirs))
        return ours

    async def _serve(self, server: NetworkServer, station: Eui, link: TextLink) -> None:
        with self._alive():
            await server.serve(station, link)

    @contextmanager
    def _alive(self) -> Iterator[None]:
        """ServerDied where a process would have ended."""
        try:
            yield
        except Exception as error:
            cause: BaseException = error
            while isinstance(cause, BaseExceptionGroup):
                cause = cause.exceptions[0]
            if isinstance(cause, OSError):
                raise  # the capture cannot be written: no matter of the server
            told = f"network server {self.lns} ended: {type(cause).__name__}: {cause}"
            raise ServerDied(told) from error

    def _new_server(self) -> NetworkServer:
        self._starts += 1
        store = FarStore(self.lns, self._store, self.to_store)
        retention_us, entries_max = self._level_1()
        has_others = self._store.claims is not None
        return NetworkServer(
            self.lns,
            self.region,
            [device.record for device in self._provisioned],
            store=store,
            application=self._application,
            record=partial(_record_event, self._record, self.lns),
            utc=self._utc,
            entropy=stream(self._seed, self.lns, str(self._starts)),
            retention_us=retention_us,
            entries_max=entries_max,
            claims=store if has_others else None,
            on_outage=self.on_outage,
            shared=store if has_others else None,
        )

    def _utc(self) -> datetime:
        return self._wall_clock_start + timedelta(microseconds=now_us() + self._stepped_us)


def _record_event(record: Record, lns: str, event: Event) -> None:
    record(lns, event.kind, as_fields(event))
