"""Rigs on real wires and the wall clock: what has nothing to do with what the radios are.

The network server is a program of its own, between a real broker and a real Redis-protocol server.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from bench.host.network_server import ServerDied
from bench.rig.device import DeviceOfCase
from bench.rig.lns_program import LnsProgram
from bench.rig.provisioning import Provisioned
from bench.rig.request import TAKEN_WITHIN_US, posted, request, times_queued
from bench.rig.retiming import Retiming
from bench.rig.wired_bench import LNS, WiredBench
from bench.rig.wired_consumption import WiredConsumption
from bench.rig.wired_server import WiredServer
from bench.verdict.case import Case
from bench.verdict.wire import is_reception
from lns.clock import now_us, utc_of_this_host
from lns.downlink.downlink_queue import ApplicationDownlink, StatusWanted

COLLECTED_WITHIN_US = 5_000_000
LIMIT_S = 120
"""A case that is not over so long after it began, has hung; on software radios."""
_AGAIN_US = 20_000


class WiredRig(WiredConsumption):
    """One case on a bench that it shares with others.

    With `own_server` the network servers are this case's alone, at the end of wires that can be
    cut; one that is alone keeps its sessions in a file. With `wants_redis` they have a store of
    their own, or that of the bench where it was given one.
    """

    capabilities = frozenset({"wires", "own store"})

    @property
    def limit_s(self) -> int:
        """A case that is not over so long after it began, has hung."""
        return LIMIT_S

    def __init__(
        self,
        bench: WiredBench,
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
        self._store = None
        self._consumers = {}
        self._limit = asyncio.timeout(None)
        self.server: WiredServer = self.new_server(LNS)

    def new_server(self, lns: str) -> WiredServer:
        return WiredServer(self._bench, lns, self.region, self.record, own=self.has_own_server)

    async def queue_downlink(
        self, device: Any, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        await self._request(device, ApplicationDownlink(port, payload, confirmed))

    async def queue_status(self, device: Any) -> None:
        await self._request(device, StatusWanted(True))

    async def post_request(self, device: Any, body: bytes) -> None:
        await self.start()
        self.note_unreadable_request(device)
        place = self._bench if self._broker is None else self._broker
        await place.post(*posted(self.server.lns, device.provisioned.dev_eui, body))

    async def _request(self, device: Any, wanted: ApplicationDownlink | StatusWanted) -> None:
        """Ask as an application does, and wait until a network server has taken it."""
        await self.start()
        self.note_request(device, wanted if isinstance(wanted, ApplicationDownlink) else None)
        dev_eui = device.provisioned.dev_eui
        due = 1 + times_queued(self.case.events, dev_eui)
        place = self._bench if self._broker is None else self._broker
        await place.post(*request(self.server.lns, dev_eui, wanted))
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

    def use(self, program: LnsProgram) -> None:
        """Put stations on this network server, which runs."""
        self.wired_server(program.lns).program = program

    def provision(self, name: str, **facts: Any) -> DeviceOfCase:
        if "keys" in facts and not self.has_own_server:
            # Whoever else has these keys would answer to the same frames.
            self.own_servers()
        return super().provision(name, **facts)

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
                raise TimeoutError(f"not over {self.limit_s} s after it began") from error
            raise

    async def ready(self) -> None:
        await self._bench.enter(self)
        if self._wants_redis:
            self._store = await self._bench.new_store()
        if self._wants_redis or len(self.servers) > 1:
            for lns in self.lns_ids:
                own = self._store.url if self._store is not None else None
                self.wired_server(lns).store_url = own
        self._limit.reschedule(asyncio.get_running_loop().time() + self.limit_s)
        self._entered = True
        await self.start_application()
        for device in self._devices.values():
            self._bench.own(self.case, device.provisioned.dev_eui)
        for station in self._stations.values():
            self._bench.own(self.case, station.eui)

    async def settle(self) -> None:
        await super().settle()
        until_us = now_us() + COLLECTED_WITHIN_US
        while now_us() < until_us and not _is_complete(self.case):
            await self.pause(_AGAIN_US)
        await self.until_decided()
        for lns in self.lns_ids:
            program = self.wired_server(lns).program
            if program is not None and program.died is not None:
                raise ServerDied(str(program.died)) from program.died

    async def end(self) -> None:
        """Give up what the case has on the bench."""
        try:
            for lns in self.lns_ids:
                await self.wired_server(lns).end()
            if self._store is not None:
                await self._store.stop()
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
