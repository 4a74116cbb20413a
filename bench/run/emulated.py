"""The emulated rig, and a run on it: all in software, on real wires, on the wall clock.

Devices stand behind pseudo-terminals, stations and taps behind WebSockets; the bench is one of
programs.
"""

from collections.abc import Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any

from bench.device.interfaces import Joining, Sent
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import SerialLine
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import CaseDevice, CaseStation, Parts, capabilities_of
from bench.rig.programs.process_application import ProcessApplication
from bench.rig.programs.process_bench import AT_ONCE, ProcessBench
from bench.rig.programs.processes import ProcessServers, ProcessStore
from bench.rig.provisioning import PAYLOAD, Provisioned
from bench.rig.rig import Rig
from bench.rig.simulated_rig import MemoryDevice, MemoryDevices
from bench.rig.virtual_air import SoftwareStations, firmware_of
from bench.run import RETENTION_S, RunRecord, RunSettings
from bench.run.attempts import Play
from bench.run.simulated import DryRun
from bench.run.wall_clock import WallClockRun
from bench.station import LinkClosed, TextLink
from bench.station.tap import Tap
from bench.virtual.device import Board, VirtualDevice
from lns.clock import utc_of_this_host

LIMIT_S = 240
"""A case that is not over so long after it began, has hung."""


class PtyDevice(MemoryDevice):
    """One device behind a pseudo-terminal, asked by the driver that a board on USB is asked by."""

    def __init__(self, provisioned: Provisioned, setup: CaseSetup) -> None:
        super().__init__(provisioned, setup)
        self._plugged = AsyncExitStack()
        self._board: Board | None = None
        self._driver: Rui3Device | None = None
        self._retries = 0

    async def start(self) -> None:
        self._board = Board(lambda say: firmware_of(self.provisioned, self.setup, say))
        self.firmware = self._board.firmware

    async def stop(self) -> None:
        await self._plugged.aclose()

    async def send(
        self,
        payload: bytes = PAYLOAD,
        *,
        confirmed: bool = False,
        port: int = 2,
        retries: int = 0,
        transmissions: int = 1,
    ) -> Sent:
        driver, firmware = await self._ready()
        if retries != self._retries:
            await driver.set_retries(retries)
            self._retries = retries
        if transmissions > 1:
            firmware.set_nb_trans(transmissions)
        await driver.send(payload, port=port, confirmed=confirmed, transmissions=transmissions)
        assert firmware.last_sent is not None
        return firmware.last_sent

    async def join(self) -> Joining:
        driver, firmware = await self._ready()
        await driver.join()
        assert firmware.last_join is not None
        return firmware.last_join

    async def set_adr(self, adr: bool) -> None:
        driver, _ = await self._ready()
        await driver.set_adr(adr)

    async def ask_time(self) -> None:
        driver, _ = await self._ready()
        await driver.ask_time()

    async def ask_link(self) -> None:
        driver, _ = await self._ready()
        await driver.ask_link()

    async def restart(self, *, memory: bool) -> None:
        """A reset by command keeps the memory; a cut of the power ends it."""
        driver, firmware = await self._ready()
        if memory:
            await driver.restart()
        else:
            await driver.restarted_by(firmware.restart(memory=False))

    async def _ready(self) -> tuple[Rui3Device, VirtualDevice]:
        await self.setup.begin()
        board = self._board
        assert board is not None
        if self._driver is None:
            await self._plugged.enter_async_context(board.plugged())
            name, record = self.provisioned.record.name, self.setup.record
            driver = Rui3Device(name, self.dev_eui, SerialLine(board.port.path), record)
            self._driver = await self._plugged.enter_async_context(driver)
        return self._driver, board.firmware


class PtyDevices(MemoryDevices):
    capabilities = frozenset()

    def new(self, provisioned: Provisioned) -> CaseDevice:
        return PtyDevice(provisioned, self.setup)


class SocketStations(SoftwareStations):
    """The virtual stations of one case, at the end of WebSockets."""

    def __init__(self, setup: CaseSetup, bench: ProcessBench) -> None:
        super().__init__(setup)
        self._bench = bench

    def plug(self, tap: Tap) -> Callable[[], Awaitable[TextLink]]:
        bench = self._bench
        bench.taps.register(tap.station, tap.accept)

        async def connect() -> TextLink:
            if tap.is_cut:
                raise LinkClosed("the tap is cut")
            return await bench.connect(bench.taps.uri, tap.station)

        return connect

    def shut_out(self, station: CaseStation) -> None:
        self._bench.taps.unregister(station.eui)

    def let_in(self, station: CaseStation) -> None:
        self._bench.taps.register(station.eui, station.tap.accept)

    async def end(self) -> None:
        for station in self.setup.stations.values():
            self.shut_out(station)


CAPABILITIES = capabilities_of(
    PtyDevices, SocketStations, ProcessServers, ProcessStore, ProcessApplication
)
"""What an emulated rig can do."""


def emulated_rig(
    bench: ProcessBench, *, own_server: bool = False, wants_store: bool = False, **facts: Any
) -> Rig:
    """One case's devices, air and stations in software, each at the end of a real wire.

    With `own_server` it has network servers of its own, with `wants_store` also a store. `facts`
    are those of `CaseSetup`.
    """
    setup = CaseSetup(wall_clock_start=utc_of_this_host(), **facts)
    application = ProcessApplication(setup, bench)
    servers = ProcessServers(setup, bench, application, own=own_server)
    application.needs_own_servers = servers.own
    parts = Parts(
        PtyDevices(setup),
        SocketStations(setup, bench),
        servers,
        ProcessStore(setup, bench, servers, wants=wants_store),
        application,
    )
    return Rig(setup, parts, limit_s=LIMIT_S)


class EmulatedRigs:
    attempts_max = 4
    share_servers = True
    again_at_once: Sequence[int] = (6, 2, 1)

    def __init__(self, record: RunRecord, settings: RunSettings) -> None:
        self._record = record
        self._settings = settings
        # A store that was given is not this bench's to stop.
        given = {"own store"} if settings.redis_url is not None else set()
        self.capabilities = CAPABILITIES - given
        self.retention_us = (settings.retention_s or RETENTION_S) * 1_000_000

    def open_bench(self) -> AbstractAsyncContextManager[ProcessBench]:
        return ProcessBench(
            self._record.open(),
            retention_us=self.retention_us,
            tls=self._settings.tls,
            redis_url=self._settings.redis_url,
        )

    def rig(self, bench: ProcessBench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        # The network server that others share does not know the devices of another attempt.
        return emulated_rig(bench, own_server=is_again or _has_own_server(play), **facts)

    def missing(self, play: Play) -> tuple[str, ...]:
        return ()

    def in_order(self, plays: list[Play]) -> list[Play]:
        """At the end the bench is not to wait for a single long case.

        How long a case lasts is what it takes without a bench. Where all begin at once, who needs
        programs of its own is the first to have them.
        """
        if len(plays) <= AT_ONCE:
            return sorted(plays, key=lambda play: not _has_own_server(play))
        dry = DryRun(seed=self._record.seed, retention_s=self.retention_us // 1_000_000)
        for play in plays:
            dry.play(play)
        lasting_us = {name: case.duration_us for name, case in dry.planned.items()}
        return sorted(plays, key=lambda play: -lasting_us.get(play.title.case, 0))


def _has_own_server(play: Play) -> bool:
    return not play.faults.isdisjoint(("lns", "store"))


def open_run(record: RunRecord, settings: RunSettings) -> WallClockRun[ProcessBench]:
    rigs = EmulatedRigs(record, settings)
    return WallClockRun(record, rigs, settings, retention_us=rigs.retention_us)
