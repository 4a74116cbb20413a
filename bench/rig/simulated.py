"""The simulated rig: everything in one process, on virtual time, from one seed."""

from datetime import UTC, datetime
from typing import Any

from bench.rig.application import Application
from bench.rig.parts import NetworkServer
from bench.rig.simulated_server import SimulatedServer
from bench.rig.stimulation import Stimulation
from lns.clock import now_us
from lns.downlink_queue import ApplicationDownlink
from lns.store.memory_claims import MemoryClaims

WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedRig(Stimulation):
    """The rig on which only links, store and application are kept in memory."""

    capabilities = frozenset(
        {
            "virtual time",
            "wall clock",
            "slow application",
            "twin stations",
            "any port",
            "session kept by a failed join",
        }
    )

    def __init__(self, **facts: Any) -> None:
        super().__init__(wall_clock_start=WALL_CLOCK_START, **facts)
        self.application = Application(self.record)
        self._server = self.server = SimulatedServer(
            "lns-a", self.region, self.application, self._seed, self.record, WALL_CLOCK_START,
            retention_us=self._retention_us,
        )  # fmt: skip

    async def queue_downlink(
        self, device: Any, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        await self.start()
        downlink = ApplicationDownlink(port, payload, confirmed)
        self._server.enqueue(device.provisioned.dev_eui, downlink)

    def new_server(self, lns: str) -> NetworkServer:
        first = self._server
        if first.claims is None:
            first.claims = MemoryClaims(now_us, retention_us=self._retention_us)
        beside = SimulatedServer(
            lns, self.region, self.application, self._seed, self.record, WALL_CLOCK_START,
            retention_us=self._retention_us, beside=first,
        )  # fmt: skip
        beside.claims = first.claims
        return beside

    def delay_upstream(self, us: int, messages: int = 1) -> None:
        self._longest_delay_us = max(self._longest_delay_us, us)
        self.application.delay(us, messages)

    def refuse_upstream(self, messages: int = 1) -> None:
        self.application.refuse(messages)

    def step_wall_clock(self, us: int) -> None:
        self._server.step_wall_clock(us)
