"""Devices and stations in software, and the air between them: who hears whom?"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import chain
from typing import Any

from bench.device.interfaces import Sent
from bench.rig.device import DeviceOfCase
from bench.rig.injection import first_channel
from bench.rig.provisioning import Provisioned
from bench.rig.station import VirtualRigStation
from bench.rig.stimulation import Stimulation
from bench.rig.virtual_device import VirtualRigDevice
from bench.station.link import TextLink
from bench.station.tap import Tap
from bench.verdict.wire import gps_us
from bench.virtual.station.transmitter import ConcentratorClock
from lns.lorawan.identifiers import Eui


class VirtualAir(Stimulation):
    """The lower half of a rig whose radios are software.

    Remembers who hears the transmissions to come, where a scenario has said so.
    """

    def __init__(self, *facts: Any, **more: Any) -> None:
        super().__init__(*facts, **more)
        self._schedule: list[tuple[str, ...]] = []
        self._hearing: tuple[str, ...] | None = None
        self._twins: dict[Eui, list[ConcentratorClock]] = {}

    def plug(self, tap: Tap) -> Callable[[], Awaitable[TextLink]]:
        """What a station calls to reach its tap."""
        return tap.connect

    def new_device(self, provisioned: Provisioned) -> DeviceOfCase:
        return VirtualRigDevice(provisioned, self.start)

    def new_station(self, name: str, station_eui: Eui, seed: int) -> VirtualRigStation:
        return VirtualRigStation(
            name,
            station_eui,
            self.server,
            plug=self.plug,
            retimed=self.retimed,
            seed=seed,
            record=self.record,
            taps=self._tap_of,
            gps_start_us=gps_us(self._wall_clock_start),
            twins=self._twins.setdefault(station_eui, []),
        )

    def only(self, *stations: str) -> None:
        self.named(stations)
        self._hearing = stations
        self._connect_air()

    def heard_by(self, *stations: str | Iterable[str]) -> None:
        self._schedule = [(s,) if isinstance(s, str) else tuple(s) for s in stations]
        self.named(chain.from_iterable(self._schedule))

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """Write an event; an uplink on the air is heard by whom the schedule names."""
        if kind == "radio.transmit" and fields["direction"] == "up" and self._schedule:
            if fields["origin"] == "device":
                self.only(*self._schedule.pop(0))
        super().record(source, kind, fields)

    async def _switch_on(self) -> None:
        self._connect_air()
        self._attenuate_air()
        await super()._switch_on()

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

    async def flood(self, device: Any, *, by: str, frames: int) -> list[Sent]:
        await self.start()
        sent = [await self.craft(device) for _ in range(frames)]
        station = self.known_station(by)
        assert isinstance(station, VirtualRigStation)
        for frame in sent:
            station.station.deliver(frame.phy, **first_channel(self.region))
        await self.pause(1_000_000)
        return sent
