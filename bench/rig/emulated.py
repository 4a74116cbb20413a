"""The emulated rig: nothing in memory, all on real wires, on the wall clock.

Devices stand behind pseudo-terminals, stations and taps behind WebSockets, the network server is a
program of its own, between a real broker and a real Redis-protocol server.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.case import Case
from bench.host.relay import Note
from bench.rig.device import VirtualRigDevice
from bench.rig.emulated_bench import LNS, EmulatedBench
from bench.rig.lns_program import LnsProgram
from bench.rig.provisioning import Provisioned
from bench.rig.request import TAKEN_WITHIN_US, request, times_queued
from bench.rig.retiming import Retiming
from bench.rig.serial_device import SerialRigDevice
from bench.rig.station import VirtualRigStation
from bench.rig.stimulation import Stimulation
from bench.station.link import LinkClosed, TextLink
from bench.station.tap import Tap
from bench.station.web_socket_link import WebSocketLink
from lns.clock import now_us, utc_of_this_host
from lns.downlink_queue import ApplicationDownlink
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.station.messages import is_reception

COLLECTED_WITHIN_US = 5_000_000
LIMIT_S = 120
"""A case that is not over so long after it began, has hung."""
_AGAIN_US = 20_000


class EmulatedServer:
    """A network server of one case: one that it shares, or one of its own."""

    def __init__(self, bench: EmulatedBench, lns: str, region: Region, *, own: bool) -> None:
        self.lns = lns
        self.region = region
        self.program: LnsProgram | None = None
        self._bench = bench
        self.own = own
        self.wants_redis = False
        self.note: Note = lambda kind, fields: None
        self._links: dict[Eui, WebSocketLink] = {}

    async def start(self, tasks: asyncio.TaskGroup, provisioned: Sequence[Provisioned]) -> None:
        """Start the one of this case; one that is shared runs already."""
        if self.own:
            # A counter can only be set back where no other server remembers it.
            self.program = self._bench.new_program(
                self.lns, self.region, note=self.note, own_store=not self.wants_redis
            )
            await self.program.start([device for device in provisioned if device.known])

    async def connect(self, station: Eui) -> TextLink:
        """A link to the server for one station; LinkClosed when it does not run."""
        assert self.program is not None
        if self.program.uri is None:
            raise LinkClosed("the network server does not run")
        link = self._links[station] = await self._bench.connect(self.program.uri, station)
        return link

    async def kill(self) -> None:
        """End it at once, if it is this case's own."""
        await self.own_program().kill()

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        """Start it with what it had made durable."""
        await self.own_program().start_again(f_cnt_up=f_cnt_up)

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        """End the station's connection; the server notices so much later."""
        self._links[station].vanish(noticed_after_us)

    def stop(self) -> None:
        """End every connection; the case is over."""
        for link in self._links.values():
            link.close()

    def own_program(self) -> LnsProgram:
        """The program, to be disturbed; RuntimeError if this case shares it with others."""
        if not self.own:
            raise RuntimeError(
                "this case shares its network server with others: mark the scenario with"
                ' @pytest.mark.fault("lns", …), so that it gets one of its own'
            )
        assert self.program is not None, "it is started by the first act"
        return self.program

    async def end(self) -> None:
        """End the program, if it is this case's own."""
        if self.own and self.program is not None:
            await self.program.stop()


class EmulatedRig(Stimulation):
    """One case's devices, air and stations on a bench that it shares with others.

    With `own_server` the network server is this case's alone; its store is a file of its own, or
    with `wants_redis` the Redis of the bench, at the end of a wire that can be cut.
    """

    capabilities = frozenset({"wires"})

    def __init__(
        self,
        bench: EmulatedBench,
        *,
        own_server: bool = False,
        wants_redis: bool = False,
        **facts: Any,
    ) -> None:
        super().__init__(wall_clock_start=utc_of_this_host(), **facts)
        self._bench = bench
        self._retiming = Retiming(self._retention_us)
        self._entered = False
        self.has_own_server = own_server
        self._wants_redis = wants_redis
        self._limit = asyncio.timeout(None)
        self.server: EmulatedServer = self.new_server(LNS)

    def new_server(self, lns: str) -> EmulatedServer:
        server = EmulatedServer(self._bench, lns, self.region, own=self.has_own_server)
        server.note = self._note
        # What several servers share is in Redis.
        server.wants_redis = self._wants_redis or lns != LNS
        if lns != LNS:
            self.server.wants_redis = True
        return server

    # --- what may happen to a program and to its wires ------------------------------------

    def pause_lns(self) -> None:
        self.server.own_program().pause()
        self._note("fault.begin", {"seam": "lns", "fault": "pause", "origin": "injected"})

    def resume_lns(self) -> None:
        self._note("fault.end", {"seam": "lns", "fault": "pause", "origin": "injected"})
        self.server.own_program().resume()

    def cut_upstream(self) -> None:
        self.server.own_program().to_broker.cut()

    async def restore_upstream(self) -> None:
        await self.server.own_program().to_broker.restore()

    def cut_store(self) -> None:
        self.server.own_program().to_store.cut()

    async def restore_store(self) -> None:
        await self.server.own_program().to_store.restore()

    async def kill_lns(self, lns: str = LNS) -> None:
        await super().kill_lns(lns)
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self._bench.taps.unregister(station.eui)

    async def _run_server_again(self, lns: str, f_cnt_up: int | None) -> None:
        await super()._run_server_again(lns, f_cnt_up)
        for station in self._stations_on(lns):
            self._bench.taps.register(station.eui, station.tap.accept)

    def _stations_on(self, lns: str) -> list[VirtualRigStation]:
        return [s for s in self._stations.values() if s.server.lns == lns]

    def _note(self, kind: str, fields: Mapping[str, object]) -> None:
        self.record("bench", kind, dict(fields))

    async def queue_downlink(
        self, device: Any, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        await self.start()
        dev_eui = device.provisioned.dev_eui
        due = 1 + times_queued(self.case.events, dev_eui)
        downlink = ApplicationDownlink(port, payload, confirmed)
        await self._bench.post(*request(self.server.lns, dev_eui, downlink))
        until_us = now_us() + TAKEN_WITHIN_US
        while times_queued(self.case.events, dev_eui) < due:
            if now_us() > until_us:
                raise TimeoutError(f"no network server has queued the downlink for {dev_eui}")
            await self.pause(_AGAIN_US)

    # --- what this rig does in its own way --------------------------------------------------

    def retimed(self, us: int) -> int:
        return self._retiming(us)

    def known_devices(self) -> Sequence[Provisioned]:
        """The devices that the network server is to know."""
        every = [device.provisioned for device in self._devices.values()]
        return [device for device in every if device.known]

    @property
    def lns_ids(self) -> list[str]:
        """The ids of the network servers that the case needs."""
        return [server.lns for server in self.servers]

    def use(self, program: LnsProgram) -> None:
        """Put stations on this network server, which runs."""
        self._emulated(program.lns).program = program

    def _emulated(self, lns: str) -> EmulatedServer:
        server = self.server_of(lns)
        assert isinstance(server, EmulatedServer)
        return server

    def new_device(self, provisioned: Provisioned) -> VirtualRigDevice:
        return SerialRigDevice(provisioned, self.start)

    def provision(self, name: str, **facts: Any) -> VirtualRigDevice:
        if "keys" in facts and not self.has_own_server:
            # Whoever else has these keys would answer to the same frames.
            self.has_own_server = True
            for lns in self.lns_ids:
                self._emulated(lns).own = True
        return super().provision(name, **facts)

    def plug(self, tap: Tap) -> Callable[[], Awaitable[TextLink]]:
        bench = self._bench
        bench.taps.register(tap.station, tap.accept)

        async def connect() -> TextLink:
            if tap.is_cut:
                raise LinkClosed("the tap is cut")
            return await bench.connect(bench.taps.uri, tap.station)

        return connect

    @asynccontextmanager
    async def running(self, case: Case) -> AsyncIterator[None]:
        """Run the rig for one case; TimeoutError when the case hangs.

        The time in which it waits for its turn does not count.
        """
        try:
            async with self._limit, super().running(case):
                yield
        except TimeoutError as error:
            if self._limit.expired():
                raise TimeoutError(f"not over {LIMIT_S} s after it began") from error
            raise

    async def ready(self) -> None:
        await self._bench.enter(self)
        self._limit.reschedule(asyncio.get_running_loop().time() + LIMIT_S)
        self._entered = True
        for device in self._devices.values():
            self._bench.own(self.case, device.provisioned.dev_eui)
        for station in self._stations.values():
            self._bench.own(self.case, station.eui)

    async def settle(self) -> None:
        await super().settle()
        until_us = now_us() + COLLECTED_WITHIN_US
        while now_us() < until_us and not _is_complete(self.case):
            await self.pause(_AGAIN_US)
        for lns in self.lns_ids:
            program = self._emulated(lns).program
            if program is not None and program.died is not None:
                raise program.died

    async def end(self) -> None:
        """Give up what the case has on the bench."""
        for station in self._stations.values():
            self._bench.taps.unregister(station.eui)
        try:
            for lns in self.lns_ids:
                await self._emulated(lns).end()
        finally:
            if self._entered:
                self._bench.leave(self)
            elif not self._started:
                self._bench.left_early()


def _is_complete(case: Case) -> bool:
    """Whether every reception has its outcome, and every message has reached the application."""
    told = outcomes = accepted = published = 0
    for event in case.events:
        match event["kind"]:
            case "station.text":
                is_up = event["direction"] == "up" and "dropped" not in event
                told += is_up and is_reception(event["text"])
            case "lns.outcome":
                outcomes += 1
                accepted += event["upstream"] != "dropped"
            case "upstream.published":
                published += 1
    return outcomes >= told and published >= accepted
