"""What does a case have of a bench, and in which order is it switched on?

Taps, names and the order of things are the same on every bench; what devices and stations are, and
which network server they meet, is the rig's.
"""

import asyncio
import difflib
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, NoReturn

from bench.chance import stream
from bench.rig.device import DeviceOfCase
from bench.rig.parts import NetworkServer
from bench.rig.provisioning import Provisioned, provision
from bench.rig.rig import Rig
from bench.rig.tapped_station import TappedStation
from bench.station.tap import Tap
from bench.verdict.case import Case
from bench.verdict.mistake import ScenarioMistake, not_there
from bench.verdict.wire import json_of
from bench.virtual.air.medium import Links, Medium
from lns.clock import now_us
from lns.dedup.claim import OnOutage
from lns.dedup.concentrator import ENTRIES_MAX
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import EU868, Region, region

MID_LIFE_F_CNT = 10
UP_WITHIN_US = 60_000_000
FIRST_GROUP = 0xF150
"""Bytes 5 and 6 of the stations' EUIs in the first case of a run."""


class GatewayAway(Exception):
    """A station does not come to its network server in time."""


class ServerSilent(Exception):
    """A network server does not tell a station that is connected what it needs to begin."""


class Assembly(Rig):
    """The parts of one case's rig; use it inside `running`.

    Nothing is on the air before the first act, which starts everything: until then stations and
    devices can be added and changed.
    """

    server: NetworkServer
    """The first network server; there may be others beside it."""

    def __init__(
        self,
        *,
        seed: int,
        case: str,
        strategy: Strategy,
        wall_clock_start: datetime,
        region: Region = EU868,
        retention_us: int = 60_000_000,
        number: int = 0,
    ) -> None:
        self.strategy = strategy
        self.region = region
        self.links = Links(seed=seed)
        self._seed = stream(seed, case).getrandbits(63)
        self._wall_clock_start = wall_clock_start
        self._retention_us = retention_us
        self._number = number
        self._entries_max = ENTRIES_MAX
        self._on_outage = OnOutage.OPEN
        self._beside: dict[str, NetworkServer] = {}
        self._devices: dict[str, DeviceOfCase] = {}
        self._stations: dict[str, TappedStation] = {}
        self._named: list[str] = []
        self._longest_delay_us = 0
        self._started = False
        self._due_us = self._reached_us = 0
        self._tasks: asyncio.TaskGroup | None = None
        self.medium = Medium(region, self.links, self.record)
        self._case: Case | None = None

    # --- what a rig does in its own way -----------------------------------------------------

    def retimed(self, us: int) -> int:
        """How long a wait of a scenario takes here."""
        return us

    async def pause(self, us: int) -> None:
        """Let just so much time pass, whatever is retimed."""
        await asyncio.sleep(max(0, us) / 1_000_000)

    @abstractmethod
    def new_device(self, provisioned: Provisioned) -> DeviceOfCase:
        """A device as scenarios use it."""

    @abstractmethod
    def new_station(self, name: str, station_eui: Eui, seed: int) -> TappedStation:
        """A station as scenarios use it."""

    @abstractmethod
    def new_server(self, lns: str) -> NetworkServer:
        """One more network server, which shares store and claims with the first."""

    async def ready(self) -> None:
        """Wait until this case may begin."""

    @asynccontextmanager
    async def running(self, case: Case) -> AsyncIterator[None]:
        """Run the rig for one case; everything it started ends with it."""
        self._case = case
        self.provision("alpha", f_cnt=MID_LIFE_F_CNT)
        self.provision("bravo", activation="otaa")
        self.provision("charlie", f_cnt=MID_LIFE_F_CNT)
        for name in ("west", "east"):
            self.station(name)
        try:
            async with asyncio.TaskGroup() as self._tasks:
                try:
                    yield
                finally:
                    await self._switch_off()
        finally:
            self._tasks = None

    async def _switch_off(self) -> None:
        for station in self._stations.values():
            station.stop()
        for device in self._devices.values():
            await device.stop()
        for server in self.servers:
            server.stop()

    @property
    def case(self) -> Case:
        """The case that is running."""
        assert self._case is not None, "a rig is used inside `running`"
        return self._case

    # --- what there is --------------------------------------------------------------------

    def in_region(self, name: str) -> None:
        self._before_start(f"region {name}")
        self.region = region(name)
        self.medium = Medium(self.region, self.links, self.record)
        for server in self.servers:
            server.region = self.region

    def on_outage(self, word: str) -> None:
        self._before_start(f"on_outage {word!r}")
        self._on_outage = OnOutage(word)
        for server in self.servers:
            server.on_outage = self._on_outage

    def dedup(self, *, retention: int | None = None, entries_max: int | None = None) -> None:
        self._before_start("what [dedup] says")
        self._retention_us = self._retention_us if retention is None else retention
        self._entries_max = self._entries_max if entries_max is None else entries_max

    def station(self, name: str) -> TappedStation:
        if name not in self._stations:
            self._before_start(f"station {name!r}")
            number = len(self._stations) + 1
            station = eui(f"0016C001{(FIRST_GROUP + self._number) & 0xFFFF:04X}{number:04X}")
            self._add_station(name, station, self._seed)
        return self._stations[name]

    def impersonate(self, station: str, *, by: str) -> TappedStation:
        self._before_start(f"station {by!r}")
        # Another seed: the same one would give both the same clock.
        seed = stream(self._seed, "station", by).getrandbits(63)
        self._add_station(by, self.station(station).eui, seed)
        return self._stations[by]

    def _add_station(self, name: str, station_eui: Eui, seed: int) -> None:
        self._stations[name] = self.new_station(name, station_eui, seed)
        self.case.station(station_eui, name)

    @property
    def servers(self) -> list[NetworkServer]:
        """All network servers, the first one first."""
        return [self.server, *self._beside.values()]

    def server_of(self, lns: str) -> NetworkServer:
        """A network server by its id; one that nobody asked for before is added."""
        if lns == self.server.lns:
            return self.server
        if lns not in self._beside:
            self._before_start(f"network server {lns!r}")
            self._beside[lns] = self.new_server(lns)
            self._beside[lns].on_outage = self._on_outage
        return self._beside[lns]

    def put_on(self, lns: str, *stations: str) -> None:
        for name in stations:
            self._before_start(f"network server of {name!r}")
            self.station(name).server = self.server_of(lns)

    def device(self, name: str) -> DeviceOfCase:
        if name not in self._devices:
            raise not_there("device", name, self._devices)
        return self._devices[name]

    def named(self, stations: Iterable[str]) -> None:
        """Stations that are to hear something; until the first act one may still be added."""
        self._named += stations
        if self._started:
            self._check_names()

    def _check_names(self) -> None:
        for name in self._named:
            self.known_station(name)

    def known_station(self, name: str) -> TappedStation:
        """A station by name; ScenarioMistake for one that nobody asked for before."""
        if name not in self._stations:
            raise not_there("station", name, self._stations)
        return self._stations[name]

    if not TYPE_CHECKING:  # a type checker finds it by itself

        def __getattr__(self, name: str) -> NoReturn:
            if name.startswith("_") or self.__dict__.get("_case") is None:
                raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
            known = [word for word in dir(type(self)) if not word.startswith("_")]
            near = [f"rig.{word}" for word in difflib.get_close_matches(name, known)]
            meant = f"; did you mean {' or '.join(near)}?" if near else ";"
            raise ScenarioMistake(
                f"rig.{name} is no verb, device or station{meant} a device of your own is"
                " rig.device(name) after rig.provision(name, ...), a station rig.station(name)"
            )

    def provision(self, name: str, **facts: Any) -> DeviceOfCase:
        self._before_start(f"device {name!r}")
        facts = {"strategy": self.strategy, **facts}
        number = (self._number << 8) + len(self._devices) + 1
        device = self.new_device(provision(name, number, self._seed, **facts))
        self._devices[name] = device
        return device

    def stranger(self, *, activation: str = "abp") -> DeviceOfCase:
        return self.provision("stranger", activation=activation, known=False)

    # --- how it starts --------------------------------------------------------------------

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write an event."""
        self.case.record(source, kind, fields)

    async def start(self) -> None:
        """Switch everything on, once, and wait until the stations hear and are heard."""
        if self._started:
            return
        self._check_names()
        self._started = True
        assert self._tasks is not None
        await self.ready()
        provisioned = [device.provisioned for device in self._devices.values()]
        for server in self.servers:
            await server.start(self._tasks, provisioned)
        case = self.case
        case.begin()
        for device in self._devices.values():
            if device.provisioned.known:
                case.device(device.provisioned.record, f_cnt_up=device.provisioned.f_cnt_up)
        facts = {"region": self.region.name, "retention_us": self._retention_us}
        for server in self.servers:
            case.lns(server.lns, "start", **facts, on_outage=server.on_outage)
        await self._switch_on()
        self._due_us = now_us()

    async def _switch_on(self) -> None:
        assert self._tasks is not None
        for device in self._devices.values():
            await device.start(self.medium, self._seed, self.record)
        for station in self._stations.values():
            station.start(self._tasks, self.medium)
        await self._until_stations_are_up()

    async def _until_stations_are_up(self) -> None:
        until_us = now_us() + UP_WITHIN_US
        while missing := [s.name for s in self._stations.values() if not s.is_up]:
            if now_us() > until_us:
                for station in self._stations.values():
                    self._blame_server(station)
                raise GatewayAway(f"not connected to the network server: {', '.join(missing)}")
            await self.pause(10_000)
        await self.pause(100_000)

    def _blame_server(self, station: TappedStation) -> None:
        """ServerSilent where a station has introduced itself, and waits for its server."""
        said: list[tuple[str, object]] = []
        for event in self.case.events:
            if event["kind"] == "station.text" and event["station"] == station.eui:
                fields = json_of(event["text"])
                if fields is not None:
                    said.append((event["direction"], fields.get("msgtype")))
        if station.is_up or ("up", "version") not in said:
            return
        who = f"{station.server.lns} has sent no"
        if ("down", "router_config") not in said:
            raise ServerSilent(f"{who} router_config to {station.name}")
        # A station whose clock is not read yet answers 0, and has to be asked again.
        if said.count(("down", "getxtime")) <= said.count(("up", "getxtime")):
            raise ServerSilent(f"{who} getxtime to {station.name}, or not again")

    def _tap_of(self, name: str) -> Tap:
        return self.known_station(name).tap

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what}: ask for it before the first frame of the scenario")
