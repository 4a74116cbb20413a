"""The simulated rig: everything in one process, on virtual time, from one seed."""

from datetime import UTC, datetime
from typing import Any

from bench.rig.application import Application
from bench.rig.parts import NetworkServer
from bench.rig.simulated_server import SimulatedServer
from bench.rig.simulated_store import SimulatedStore
from bench.rig.stimulation import Stimulation
from lns.dedup.claim import Bid
from lns.downlink_queue import ApplicationDownlink

LNS = "lns-a"
WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)


class SimulatedRig(Stimulation):
    """The rig on which only links, store and application are kept in memory.

    With `wants_store` even a server that is alone asks who owns a frame.
    """

    capabilities = frozenset(
        {
            "virtual time",
            "wall clock",
            "slow application",
            "own store",
            "twin stations",
            "any port",
            "session kept by a failed join",
        }
    )

    def __init__(self, *, wants_store: bool = False, **facts: Any) -> None:
        super().__init__(wall_clock_start=WALL_CLOCK_START, **facts)
        self.application = Application(self.record)
        self._store = SimulatedStore(retention_us=self._retention_us)
        if wants_store:
            self._store.begin_claims()
        self._servers: dict[str, SimulatedServer] = {}
        self.server = self._new_server(LNS)

    async def queue_downlink(
        self, device: Any, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        await self.start()
        downlink = ApplicationDownlink(port, payload, confirmed)
        self._servers[LNS].enqueue(device.provisioned.dev_eui, downlink)

    def new_server(self, lns: str) -> NetworkServer:
        self._store.begin_claims()
        return self._new_server(lns)

    def _new_server(self, lns: str) -> SimulatedServer:
        server = self._servers[lns] = SimulatedServer(
            lns, self.region, self._store, self.application, self._seed, self.record,
            WALL_CLOCK_START, retention_us=self._retention_us,
        )  # fmt: skip
        return server

    def cut_store(self, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.restore()

    async def restart_store(self, *, empty: bool) -> None:
        await self.start()
        self.note_store("fault.begin", "restart", empty=empty)
        if empty:
            self._store.lose_everything()
        self.note_store("fault.end", "restart", empty=empty)

    async def claim(self, bid: Bid) -> None:
        assert self._store.claims is not None, "a server that is alone asks nobody"
        await self._store.claims.claim(bid)

    def _some(self, lns: str | None) -> list[SimulatedServer]:
        """One server by its id, or all of them."""
        return list(self._servers.values()) if lns is None else [self._servers[lns]]

    def delay_upstream(self, us: int, messages: int = 1) -> None:
        self._longest_delay_us = max(self._longest_delay_us, us)
        self.application.delay(us, messages)

    def refuse_upstream(self, messages: int = 1) -> None:
        self.application.refuse(messages)

    def step_wall_clock(self, us: int, *, lns: str = LNS) -> None:
        self._servers[lns].step_wall_clock(us)
