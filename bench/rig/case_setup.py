"""What do all parts of one rig know of their case: what there is, and where it is written?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from datetime import datetime

from bench.capture import Record
from bench.chance import stream
from bench.rig.interfaces import CaseDevice, CaseStation, NetworkServer
from bench.rig.provisioning import NET_ID
from bench.verdict.case import Case
from bench.verdict.owner import not_there
from bench.virtual.air import Links, Medium
from lns.dedup.claim import OnOutage
from lns.dedup.strategy import Strategy
from lns.lorawan.region import EU868, Region, region

LNS = "lns-a"
"""The first network server."""


class CaseSetup:
    """One case as it is being set up and played; the parts of its rig share it.

    Remembers devices, stations and network servers by name, in the order in which they were asked
    for. `retimed` says how long a wait of the scenario takes here (µs); whoever is among
    `listeners` sees each event before it is written. `clock_began`: what the clocks of the servers
    showed when the bench's was 0, where that is known.
    """

    def __init__(
        self,
        *,
        seed: int,
        case: str,
        wall_clock_start: datetime,
        strategy: Strategy = Strategy.NONE,
        region: Region = EU868,
        retention_us: int = 60_000_000,
        number: int = 0,
        retimed: Callable[[int], int] = lambda us: us,
        clock_began: datetime | None = None,
    ) -> None:
        self.strategy = strategy
        self.region = region
        self.net_id = NET_ID
        self.links = Links(seed=seed)
        self.seed = stream(seed, case).getrandbits(63)
        self.wall_clock_start = wall_clock_start
        self.clock_began = clock_began
        self.number = number
        self.retention_us = retention_us
        self.entries_max = 1_000_000
        self.on_outage = OnOutage.OPEN
        self.retimed = retimed
        self.devices: dict[str, CaseDevice] = {}
        self.stations: dict[str, CaseStation] = {}
        self.servers: dict[str, NetworkServer] = {}
        self.listeners: list[Record] = []
        self.is_started = False
        self.begin: Callable[[], Awaitable[None]]
        """The first act, which starts everything; every other act awaits it."""
        self.new_server: Callable[[str], NetworkServer]
        self.capabilities: frozenset[str] = frozenset()
        self.medium = Medium(region, self.links, self.record)
        self._named: list[str] = []
        self._case: Case | None = None
        self._tasks: asyncio.TaskGroup | None = None

    def open(self, case: Case) -> None:
        """What is recorded from now on is of this case."""
        self._case = case

    @property
    def is_open(self) -> bool:
        return self._case is not None

    @property
    def case(self) -> Case:
        assert self._case is not None, "a rig is used inside `running`"
        return self._case

    @property
    def tasks(self) -> asyncio.TaskGroup:
        assert self._tasks is not None, "a rig is used inside `running`"
        return self._tasks

    @tasks.setter
    def tasks(self, tasks: asyncio.TaskGroup | None) -> None:
        self._tasks = tasks

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        for listener in self.listeners:
            listener(source, kind, fields)
        self.case.record(source, kind, fields)

    def in_region(self, name: str) -> None:
        self.region = region(name)
        self.medium = Medium(self.region, self.links, self.record)

    async def pause(self, us: int) -> None:
        """Let just so much time pass, whatever is retimed."""
        await asyncio.sleep(max(0, us) / 1_000_000)

    def must_have(self, capability: str) -> None:
        """RuntimeError where this rig has not what a verb takes."""
        if capability not in self.capabilities:
            raise RuntimeError(
                f"this rig has no {capability}: mark the scenario with"
                f" @pytest.mark.requires({str(capability)!r}), so that it is left out here"
            )

    def before_start(self, what: str) -> None:
        """RuntimeError once the first act has started everything."""
        if self.is_started:
            raise RuntimeError(f"{what}: ask for it before the first frame of the scenario")

    def device(self, name: str) -> CaseDevice:
        """A device by name; ScenarioMistake for one that nobody asked for before."""
        if name not in self.devices:
            raise not_there("device", name, self.devices)
        return self.devices[name]

    def station(self, name: str) -> CaseStation:
        """A station by name; ScenarioMistake for one that nobody asked for before."""
        if name not in self.stations:
            raise not_there("station", name, self.stations)
        return self.stations[name]

    def server(self, lns: str) -> NetworkServer:
        """A network server by its id; ScenarioMistake for one that nobody asked for before."""
        if lns not in self.servers:
            raise not_there("network server", lns, self.servers)
        return self.servers[lns]

    def server_or_new(self, lns: str) -> NetworkServer:
        """A network server by its id; one that nobody asked for before is added."""
        if lns not in self.servers:
            self.before_start(f"network server {lns!r}")
            self.servers[lns] = self.new_server(lns)
        return self.servers[lns]

    def some_servers(self, lns: str | None) -> list[NetworkServer]:
        return list(self.servers.values()) if lns is None else [self.server(lns)]

    def will_hear(self, stations: Iterable[str]) -> None:
        """Stations that are to hear something; until the first act one may still be added."""
        self._named += stations
        if self.is_started:
            self.check_names()

    def check_names(self) -> None:
        """ScenarioMistake for a station that is to hear something and is not there."""
        for name in self._named:
            self.station(name)
