"""What stands on the simulated bench, and in which order is it switched on?

Devices, air, stations, taps and the network server are the real ones of this project; only links,
store and application are kept in memory.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from bench.case import Case
from bench.chance import stream
from bench.radio.medium import Medium
from bench.radio.propagation import Links
from bench.rig.application import Application
from bench.rig.provisioning import provision
from bench.rig.rig import Rig
from bench.rig.server import SimulatedServer
from bench.rig.simulated_device import SimulatedDevice
from bench.rig.simulated_station import SimulatedStation
from bench.station.tap import Tap
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import EU868, Region, region
from lns.station.protocol import gps_time_us

WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
MID_LIFE_F_CNT = 10


class Assembly(Rig):
    """The parts of one case's rig; use it inside `running`.

    Nothing is on the air before the first act, which starts everything: until then stations and
    devices can be added and changed.
    """

    def __init__(
        self,
        *,
        seed: int,
        case: str,
        strategy: Strategy,
        region: Region = EU868,
        retention_us: int = 60_000_000,
    ) -> None:
        self.strategy = strategy
        self.region = region
        self.links = Links(seed=seed)
        self._seed = stream(seed, case).getrandbits(63)
        self._retention_us = retention_us
        self._devices: dict[str, SimulatedDevice] = {}
        self._stations: dict[str, SimulatedStation] = {}
        self._schedule: list[tuple[str, ...]] = []
        self._hearing: tuple[str, ...] | None = None
        self._longest_delay_us = 0
        self._started = False
        self._tasks: asyncio.TaskGroup | None = None
        self.medium = Medium(region, self.links, self.record)
        self.application = Application(self.record)
        self.server = SimulatedServer(
            "lns-a", region, self.application, self._seed, self.record, WALL_CLOCK_START,
            retention_us=retention_us,
        )  # fmt: skip
        self._case: Case | None = None

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
                yield
                for station in self._stations.values():
                    station.stop()
                self.server.stop()
        finally:
            self._tasks = None

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
        self.server.region = self.region

    def station(self, name: str) -> SimulatedStation:
        if name not in self._stations:
            self._before_start(f"station {name!r}")
            number = len(self._stations) + 1
            self._add_station(name, eui(f"0016C001F150{number:04X}"), self._seed)
        return self._stations[name]

    def impersonate(self, station: str, *, by: str) -> SimulatedStation:
        self._before_start(f"station {by!r}")
        # Another seed: the same one would give both the same clock.
        seed = stream(self._seed, "station", by).getrandbits(63)
        self._add_station(by, self.station(station).eui, seed)
        return self._stations[by]

    def _add_station(self, name: str, station_eui: Eui, seed: int) -> None:
        self._stations[name] = SimulatedStation(
            name,
            station_eui,
            self.server,
            seed=seed,
            record=self.record,
            taps=self._tap_of,
            gps_start_us=gps_time_us(WALL_CLOCK_START),
        )
        self.case.station(station_eui, name)

    def device(self, name: str) -> SimulatedDevice:
        return self._devices[name]

    def provision(self, name: str, **facts: Any) -> SimulatedDevice:
        self._before_start(f"device {name!r}")
        facts = {"strategy": self.strategy, **facts}
        provisioned = provision(name, len(self._devices) + 1, self._seed, **facts)
        device = self._devices[name] = SimulatedDevice(provisioned, self.start)
        return device

    def stranger(self, *, activation: str = "abp") -> SimulatedDevice:
        return self.provision("stranger", activation=activation, known=False)

    # --- who hears whom -------------------------------------------------------------------

    def only(self, *stations: str) -> None:
        self._hearing = stations
        self._connect_air()

    def heard_by(self, *stations: str | Iterable[str]) -> None:
        self._schedule = [(s,) if isinstance(s, str) else tuple(s) for s in stations]

    def _connect_air(self) -> None:
        for device in self._devices.values():
            for name, station in self._stations.items():
                hears = self._hearing is None or name in self._hearing
                between = self.links.restore if hears else self.links.cut
                between(device.provisioned.dev_eui, station.eui)

    def _attenuate_air(self) -> None:
        for device in self._devices.values():
            for station in self._stations.values():
                ends = device.provisioned.dev_eui, station.eui
                attenuation_db = self.links.attenuation_db(*ends) + station.weaker_db
                self.links.set_attenuation(*ends, attenuation_db)

    # --- how it starts --------------------------------------------------------------------

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write an event; an uplink on the air is heard by whom the schedule names."""
        if kind == "radio.transmit" and fields["direction"] == "up" and self._schedule:
            if fields["origin"] == "device":
                self.only(*self._schedule.pop(0))
        self.case.record(source, kind, fields)

    async def start(self) -> None:
        """Switch everything on, once, and wait until the stations hear and are heard."""
        if self._started:
            return
        self._started = True
        assert self._tasks is not None
        case = self.case
        for device in self._devices.values():
            if device.provisioned.known:
                case.device(device.provisioned.record, f_cnt_up=device.provisioned.f_cnt_up)
        facts = {"region": self.region.name, "retention_us": self._retention_us}
        case.lns(self.server.lns, "start", **facts)
        self._connect_air()
        self._attenuate_air()
        provisioned = [device.provisioned for device in self._devices.values()]
        self.server.start(self._tasks, provisioned)
        for device in self._devices.values():
            device.firmware = device.provisioned.firmware(self.medium, self._seed, self.record)
        for station in self._stations.values():
            station.start(self._tasks, self.medium)
        await self._until_stations_are_up()

    async def _until_stations_are_up(self) -> None:
        while not all(station.is_up for station in self._stations.values()):
            await self.wait(10_000)
        await self.wait(100_000)

    def _tap_of(self, name: str) -> Tap:
        return self.station(name).tap

    def _before_start(self, what: str) -> None:
        if self._started:
            raise RuntimeError(f"{what}: ask for it before the first frame of the scenario")
