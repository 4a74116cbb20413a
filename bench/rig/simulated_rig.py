"""The parts of a rig in this process: devices, servers, store; and the rig made of such parts."""

import asyncio
from collections.abc import Sequence
from contextlib import AsyncExitStack, suppress
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from typing import Any, TypeVar

from msgspec.structs import replace

from bench.chance import Repeating, stream
from bench.device.interfaces import Joining, Sent
from bench.host.lns_files import device_tables
from bench.host.lns_process import alive
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.application import MemoryBroker, Outboxes, OutboxWire, Watched, Witness
from bench.rig.in_memory.disk_outbox import DiskOutbox
from bench.rig.in_memory.door import Door
from bench.rig.in_memory.memory_application import MemoryApplication
from bench.rig.in_memory.memory_twin import TwinClaims, TwinStore
from bench.rig.in_memory.mistakes import stumble
from bench.rig.in_memory.shared_store import (
    CaseStore,
    FarStore,
    SharedStore,
    StoreWire,
    WatchedStore,
)
from bench.rig.in_memory.written_files import PATH, CaptureFile, DiskStore, held_on, left_out
from bench.rig.interfaces import (
    CaseDevice,
    Devices,
    NetworkServer,
    Parts,
    Servers,
    Wire,
    capabilities_of,
)
from bench.rig.provisioning import PAYLOAD, Provisioned
from bench.rig.rig import Rig
from bench.rig.virtual_air import MemoryStations, firmware_of
from bench.station import LinkClosed, TextLink
from bench.station.tap import MemoryLink, link_pair
from bench.verdict.case import fault_fields
from bench.virtual.device import Asked, ClassARadio, VirtualDevice
from bench.virtual.lorawan.air_interface import Session as DeviceSession
from lns.clock import now_us
from lns.config import JOIN_NONCE_MIN_MAX, LnsFile, device_of
from lns.dedup.claim import Claims
from lns.dedup.claiming import SharedSessions
from lns.dedup.session import Session
from lns.events import Event, Outcome, as_fields
from lns.lorawan.identifiers import Eui
from lns.network_server import NetworkServer as Lns
from lns.startup import network_server_of
from lns.station.protocol import TextLink as ServedLink
from lns.store.memory import MemoryStore
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import DeviceClass, SessionStore

USUAL = {
    "region": "EU868",
    "net_id": "000013",
    "retention_s": 60,
    "entries_max": 1_000_000,
    "on_outage": "open",
}
"""What a configuration need not say: the server does so by itself."""
T = TypeVar("T")


class MemoryDevice(CaseDevice):
    """One virtual device that is asked directly."""

    def __init__(self, provisioned: Provisioned, setup: CaseSetup) -> None:
        self.provisioned = provisioned
        self.setup = setup
        self._radio: ClassARadio | None = None

    @property
    def dev_eui(self) -> Eui:
        return self.provisioned.dev_eui

    @cached_property
    def firmware(self) -> VirtualDevice:
        """Made for who asks first: most cases need one device of their three."""
        assert self._radio is not None, "devices are switched on by the first act"
        return firmware_of(self.provisioned, self.setup, self.setup.record, self._radio)

    @property
    def session(self) -> DeviceSession | None:
        return self.firmware.session

    @property
    def dev_nonce(self) -> int:
        return self.firmware.dev_nonce

    async def start(self) -> None:
        self._radio = ClassARadio(self.dev_eui, self.setup.medium)
        if self.provisioned.record.device_class is DeviceClass.C:
            self.firmware  # noqa: B018 - it hears, whatever it is asked to do

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        firmware = await self._running()
        if retries != firmware.retries:
            firmware.set_retries(retries)
        if transmissions > 1:
            firmware.set_nb_trans(transmissions)
            self.provisioned.told_to_repeat.append((now_us(), transmissions))
        return await firmware.send(payload, port=port, confirmed=confirmed)

    async def join(self) -> Joining:
        firmware = await self._running()
        await firmware.join()
        assert firmware.last_join is not None
        return firmware.last_join

    async def set_adr(self, adr: bool) -> None:
        (await self._running()).set_adr(adr)

    async def ask_time(self) -> None:
        (await self._running()).ask(Asked.DEVICE_TIME)

    async def ask_link(self) -> None:
        (await self._running()).ask(Asked.LINK_CHECK)

    async def restart(self, *, memory: bool) -> None:
        firmware = await self._running()
        await firmware.restart(memory=memory)

    async def _running(self) -> VirtualDevice:
        await self.setup.begin()
        return self.firmware


class MemoryDevices(Devices):
    capabilities = frozenset({"any port", "session kept by a failed join"})

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup

    def new(self, provisioned: Provisioned) -> CaseDevice:
        return MemoryDevice(provisioned, self.setup)

    def line_of(self, dev_eui: Eui, line: str) -> str | None:
        return line


LINK_US = 2_000
WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Mortal:
    """A network server that leaves undone what it is about when it is killed, as a process does."""

    def __init__(self, server: Lns) -> None:
        self.lns, self.server = server.lns, server
        self._is_dead = False
        self._serving: set[asyncio.Task[Any]] = set()

    async def serve(self, station: Eui, link: ServedLink) -> None:
        """Serve one station until its link closes, or `kill`."""
        task = asyncio.current_task()
        assert task is not None
        self._serving.add(task)
        try:
            await self.server.serve(station, link)
        except asyncio.CancelledError:
            if not self._is_dead:
                raise
            task.uncancel()
            with suppress(LinkClosed):  # whoever listens tells why it has ended
                while True:
                    await link.receive()
        finally:
            self._serving.discard(task)

    def kill(self) -> None:
        """Do nothing more."""
        self._is_dead = True
        for task in self._serving:
            task.cancel()


class MemoryServer(NetworkServer):
    """One LNS in this process; sessions and DevNonces outlive its restarts, level 1 does not.

    They are in `store`, at the end of a wire that may be cut or slow.
    """

    def __init__(self, lns: str, setup: CaseSetup, store: SharedStore, outboxes: Outboxes) -> None:
        self.lns = lns
        self._setup = setup
        self._store = store
        self._outboxes = outboxes
        self._mistakes: list[str] = []
        self._kinds: set[str] = set()
        self._decided_us: dict[Eui, int] = {}
        self._to_store = StoreWire(lns, setup.record)
        self._to_broker = OutboxWire(outboxes, lns)
        self._stepped_us = self._starts = 0
        self._server: Mortal | None = None
        self._links: list[tuple[Eui, MemoryLink]] = []
        self.door: Door | None = None
        self._far: tuple[TwinStore, TwinClaims] | None = None
        self._opened = AsyncExitStack()
        self._capture: CaptureFile | None = None

    @property
    def to_store(self) -> Wire:
        return self._to_store

    @property
    def to_broker(self) -> Wire:
        return self._to_broker

    async def start(self) -> None:
        if self._setup.on_disk:
            assert self._store.claims is None, "a file is of one server"
            self._store.disk = DiskStore(self._store.found)
            self._capture = CaptureFile(self.lns)
        await self._open_redis()
        for device in self._provisioned:
            if device.stored is not None:
                await self._preset(device.dev_eui, (device.stored,))
            newest = device.record.join_nonce_min - 1
            if newest >= JOIN_NONCE_MIN_MAX:  # no file demands that much: it has joined as often
                await self._sessions.next_join_nonce(device.dev_eui, newest)
        await self._run()

    async def kill(self) -> None:
        kill = self._server.kill if self._server is not None else lambda: None
        if self.door is not None:
            await self.door.cut(kill)
        self._leave()
        kill()
        if self._capture is not None:
            self._capture.tear()
        self._server = None
        await self._opened.aclose()
        await self._outboxes.kill(self.lns)

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        await self._open_redis()
        if f_cnt_up is not None:
            for device in self._provisioned:
                kept = self._sessions.sessions(device.dev_eui)
                stale = tuple(replace(session, f_cnt_up=f_cnt_up) for session in kept)
                await self._preset(device.dev_eui, stale)
        await self._run()

    async def _run(self) -> None:
        with alive(self.lns):
            await self._outboxes.open(self.lns)
            self._server = Mortal(self._new_server())
            await self._open_door(self._server)

    def stop(self) -> None:
        self._leave()
        if self._far is not None:
            self._setup.tasks.create_task(self._opened.aclose())
        if self._capture is not None:
            self._capture.close()
            self._setup.case.find(*self._capture.wrong())

    def _leave(self) -> None:
        if self.door is not None:
            self.door.close()
        links, self._links = self._links, []
        for _, link in links:
            link.close()

    @property
    def _provisioned(self) -> Sequence[Provisioned]:
        devices = [device.provisioned for device in self._setup.devices.values()]
        return [device for device in devices if device.is_known_to(self.lns)]

    @property
    def _sessions(self) -> MemoryStore | SqliteStore | TwinStore:
        return self._store.at(self.lns) if self._far is None else self._far[0]

    async def _preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        if self._far is None:
            await self._store.preset(self.lns, dev_eui, sessions)
        else:
            with alive(self.lns):
                await self._far[0].preset(dev_eui, sessions)

    async def _open_redis(self) -> None:
        if self._setup.on_redis:
            redis = self._store.real_redis(by_sentinels=self._setup.by_sentinels)
            devices = [device.record for device in self._provisioned]
            with alive(self.lns):
                self._far = await redis.open(self.lns, devices, self._to_store, self._opened)

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        if self.door is not None:
            self.door.leave_half_open(station, noticed_after_us)
        for theirs in [link for eui, link in self._links if eui == station]:
            theirs.peer.vanish(noticed_after_us)

    async def ask(self, dev_eui: Eui, body: bytes, *, waits_until_queued: bool) -> None:
        if self._server is not None:
            with alive(self.lns):
                self._server.server.receive_request(f"lorawan/{self.lns}/{dev_eui}/down", body)

    def fill_capture(self, room: int) -> None:
        assert self._capture is not None, "a server that keeps nothing on a disk has no capture"
        self._setup.case.fault("program", "capture full", lns=self.lns, room=room)
        self._capture.fill(room)

    def free_capture(self) -> None:
        assert self._capture is not None, "a server that keeps nothing on a disk has no capture"
        self._setup.case.fault("program", "capture full", "fault.end", lns=self.lns)
        self._capture.free()

    def stumble(self, over: str) -> None:
        match over:
            case "application":
                self._outboxes.stumble(self.lns)
            case "store":
                self._to_store.mistakes.append(over)
            case _:
                self._mistakes.append(over)

    def step_wall_clock(self, us: int) -> None:
        self._stepped_us += us
        self._outboxes.step_wall_clock(self.lns, us)
        fields = fault_fields("clock", "step", {"us": us}, server=self.lns)
        self._setup.record("bench", "fault.begin", fields)

    def fill_disk(self, breaks_after: int = 0, writes: int = 0) -> None:
        if not writes:
            self._outboxes.fill_disk(self.lns, breaks_after)
        if self._store.disk is not None:
            self._store.disk.fill(writes)
            self._setup.case.fault("store", "disk full", "fault.begin", lns=self.lns)

    def free_disk(self) -> None:
        self._outboxes.free_disk(self.lns)
        if self._store.disk is not None:
            self._store.disk.free()
            self._setup.case.fault("store", "disk full", "fault.end", lns=self.lns)

    def lose_outbox(self) -> None:
        self._outboxes.wipe(self.lns)

    def set_upstream(self, key: str, value: int) -> None:
        self._outboxes.disk(self.lns).upstream[key] = value

    async def release_parked(self) -> None:
        await self._outboxes.disk(self.lns).release()

    async def connect(self, station: Eui) -> TextLink:
        if self._server is None:
            raise LinkClosed("the network server does not run")
        if self.door is not None:
            return await self.door.connect(station)
        ours, theirs = link_pair(LINK_US)
        self._links.append((station, theirs))
        self._setup.tasks.create_task(self._serve(self._server, station, theirs))
        return ours

    async def _open_door(self, server: Mortal) -> None:
        setup = self._setup
        if setup.door is None:
            return
        stations = {name: one.eui for name, one in setup.stations.items()}
        number = list(setup.servers).index(self.lns)
        self.door = Door(self.lns, number, setup.door, stations, self._record, setup.case.find)
        await self.door.open(server, setup.tasks)
        if setup.door.cups:
            setup.cups_says.append(f"listening {self.door.cups_uri}/update-info")

    async def open_door_again(self) -> None:
        """Let the listeners end in order, and begin anew."""
        assert self.door is not None and self._server is not None
        await self.door.closed()
        await self._open_door(self._server)

    def _record(self, event: Event) -> None:
        if event.kind in self._mistakes:
            stumble(self._mistakes, event.kind)
        self._setup.record(self.lns, event.kind, as_fields(event))
        if event.kind not in self._kinds:
            self._kinds.add(event.kind)
            self._setup.case.find(*left_out(event, self.lns))
        if isinstance(event, Outcome):
            self._decided_us[event.station] = now_us()
        if self._capture is not None:
            self._capture.record(event)

    async def _serve(self, server: Mortal, station: Eui, link: MemoryLink) -> None:
        with alive(self.lns):
            await server.serve(station, link)
        late_us = now_us() - max(link.ended_us, self._decided_us.get(station, 0))
        if server is self._server:  # nothing of who is killed ends in time
            self._setup.case.find(*held_on(self.lns, station, late_us))

    def _new_server(self) -> Lns:
        self._starts += 1
        setup, disk = self._setup, self._store.disk
        retention_s = setup.retention_us // 1_000_000
        settings: dict[str, dict[str, object]] = {
            "lns": {"id": self.lns, "region": setup.region.name, "net_id": setup.net_id},
            "dedup": {"retention_s": retention_s, "entries_max": setup.entries_max},
            "store": {"on_outage": setup.on_outage.value},
        }
        written = {
            section: {key: value for key, value in keys.items() if USUAL.get(key) != value}
            for section, keys in settings.items()
        }
        tables = device_tables(device.record for device in self._provisioned)
        if disk is None:
            read = LnsFile.model_validate(written)
            known = tuple(map(device_of, tables))
        else:
            section = {"path": PATH, "size_max_mib": setup.capture_mib}
            config = disk.configured({**written, "capture": section}, tables)
            assert self._capture is not None, "whoever keeps on a disk writes a capture there"
            self._capture.open(config)
            read, known = config.settings, config.devices
        store, claims, shared = self._stores()
        return network_server_of(
            read,
            known,
            store=store,
            claims=claims,
            shared=shared,
            application=Watched(self._outboxes),
            record=self._record,
            utc=self._utc,
            entropy=Repeating(stream(setup.seed, self.lns, str(self._starts))),
        )

    def _stores(self) -> tuple[SessionStore, Claims | None, SharedSessions | None]:
        disk = self._store.disk
        if self._far is not None:
            sessions, claims = self._far
            return sessions, claims, sessions
        if disk is not None:
            return disk.open(), None, None
        assert self._store.watched is not None, "the store of a case is looked at"
        at_the_end = FarStore(self.lns, self._store, self._to_store)
        far = WatchedStore(self.lns, at_the_end, self._to_store, self._store.watched)
        return (far, far, far) if self._store.claims is not None else (far, None, None)

    def _utc(self) -> datetime:
        return self._setup.wall_clock_start + timedelta(microseconds=now_us() + self._stepped_us)


class MemoryServers(Servers):
    capabilities = frozenset({"virtual time", "wall clock", "outbox"})

    def __init__(self, setup: CaseSetup, store: SharedStore, outboxes: Outboxes) -> None:
        self._setup = setup
        self._store = store
        self._outboxes = outboxes

    def new(self, lns: str) -> NetworkServer:
        if self._setup.servers:
            self._store.begin_claims()
        return MemoryServer(lns, self._setup, self._store, self._outboxes)


CAPABILITIES = capabilities_of(
    MemoryDevices, MemoryStations, MemoryServers, CaseStore, MemoryApplication
)
"""What a simulated rig can do."""


def simulated_rig(
    *,
    wants_store: bool = False,
    wants_broker: bool = False,
    capabilities: frozenset[str] = frozenset(),
    **facts: Any,
) -> Rig:
    """A rig in one process, on virtual time, from one seed; `facts` are those of `CaseSetup`.

    With `wants_store` even a server that is alone asks who owns a frame, with `wants_broker` each
    has its outbox in a file and speaks MQTT.
    """
    setup = CaseSetup(wall_clock_start=WALL_CLOCK_START, clock_began=WALL_CLOCK_START, **facts)
    store = CaseStore(setup, has_claims=wants_store)
    broker = MemoryBroker(Witness(setup.record))
    on_disk = partial(DiskOutbox, setup, _utc_us) if wants_broker else None
    outboxes = Outboxes(setup.record, broker, on_disk)
    parts = Parts(
        MemoryDevices(setup),
        MemoryStations(setup),
        MemoryServers(setup, store.shared, outboxes),
        store,
        MemoryApplication(setup, broker, outboxes, store.shared, _utc_us),
    )
    return Rig(setup, parts, capabilities=capabilities)


def _utc_us() -> int:
    return (WALL_CLOCK_START - _EPOCH) // timedelta(microseconds=1) + now_us()
