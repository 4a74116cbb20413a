"""Stations in software, and the air between them and the devices: who hears whom?"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence

from bench.capture import Record
from bench.device.interfaces import Abp, Otaa
from bench.plan import Item
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import CaseStation, Frame, Stations
from bench.rig.provisioning import FASTEST, Provisioned
from bench.rig.stations import TappedStation, first_channel, last_heard_us, reception_text
from bench.station import TextLink
from bench.station.tap import Tap
from bench.verdict.wire import gps_us
from bench.virtual.device import ClassARadio, Settings, VirtualDevice
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.transmitter import ConcentratorClock
from bench.virtual.virtual_station import VirtualStation
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import Activation, DeviceClass


def firmware_of(
    provisioned: Provisioned, setup: CaseSetup, record: Record, radio: ClassARadio | None = None
) -> VirtualDevice:
    """The device itself; its next counter follows the one the server has."""
    otaa = provisioned.record.activation is Activation.OTAA
    activation = (
        Otaa(provisioned.join_eui, provisioned.app_key)
        if otaa
        else Abp(provisioned.dev_addr, provisioned.keys)
    )
    device = VirtualDevice(
        provisioned.record.name,
        provisioned.dev_eui,
        activation,
        setup.medium,
        seed=setup.seed,
        record=record,
        radio=radio,
        stack=provisioned.stack,
        settings=Settings(
            dr=_dr(provisioned, setup.medium.plan),
            adr=provisioned.adr,
            class_c=provisioned.record.device_class is DeviceClass.C,
        ),
    )
    if device.session is not None and provisioned.f_cnt_up is not None:
        device.session.f_cnt_up = provisioned.f_cnt_up + 1
    if device.session is not None and provisioned.f_cnt_down:
        device.session.f_cnt_down = provisioned.f_cnt_down - 1
    return device


def _dr(provisioned: Provisioned, plan: ChannelPlan) -> int:
    if provisioned.dr is not None:
        return provisioned.dr
    dr = plan.up_dr(FASTEST)
    assert dr is not None, "every region has SF7 in 125 kHz"
    return dr


Plug = Callable[[Tap], Callable[[], Awaitable[TextLink]]]
"""How a station reaches its tap: what opens a link to it."""


class SoftwareStation(TappedStation):
    """One station in software; remembers what it is to be equipped with until it is switched on."""

    can = frozenset(Item)

    def __init__(
        self,
        name: str,
        eui: Eui,
        setup: CaseSetup,
        *,
        plug: Plug,
        seed: int,
        twins: list[ConcentratorClock],
    ) -> None:
        super().__init__(name, eui, setup)
        self._twins = twins
        self._plug = plug
        self._seed = seed
        self._antennas_db = [0]
        self._has_gps = False
        self._task: list[asyncio.Task[None]] = []
        self._station: VirtualStation | None = None

    @property
    def station(self) -> VirtualStation:
        assert self._station is not None, "stations are switched on by the first act"
        return self._station

    @property
    def is_up(self) -> bool:
        station, clock = self.station, self.station.clock
        is_known = clock.is_told or clock.is_broken or self.tap.has_lost_clock
        return station.connected and station.radio_on and is_known

    def start(self) -> None:
        setup = self.setup
        self._station = VirtualStation(
            self.eui,
            setup.medium,
            self._plug(self.tap),
            seed=self._seed,
            record=setup.record,
            ppm=int(self.eui[-2:], 16) * 7 % 21 - 10,
            duty_cycle=self.eui in setup.medium.on_duty,
            antennas_db=tuple(self._antennas_db),
            gps_start_us=gps_us(setup.wall_clock_start) if self._has_gps else None,
        )
        self._twins.append(self._station.clock)
        for clock in self._twins if len(self._twins) > 1 else ():
            clock.differ_from(*self._twins)  # nobody could tell them apart by chance
        self.tap.xtime_now = self._station.xtime_now
        create_task = setup.tasks.create_task
        self._task = [create_task(self.tap.run()), create_task(self._station.run())]

    def stop(self) -> None:
        for task in self._task:
            task.cancel()

    # --- equipment, before the first act ---------------------------------------------------

    def weaken(self, db: int) -> None:
        self._before_start()
        self.weaker_db = db

    def add_antenna(self, *, weaker_db: int) -> None:
        self._before_start()
        self._antennas_db.append(weaker_db)
        self.setup.medium.antennas_db[self.eui] = tuple(self._antennas_db)

    def fit_gps(self) -> None:
        self._before_start()
        self._has_gps = True

    def keep_duty_cycle(self) -> None:
        self._before_start()
        self.setup.medium.on_duty.append(self.eui)

    def _before_start(self) -> None:
        if self._station is not None:
            raise RuntimeError(f"equip {self.name} before the first frame of the scenario")

    # --- what only software does on demand --------------------------------------------------

    def restart(self) -> None:
        self.station.clock.differ_from(self.station.clock)
        self.station.restart()

    def break_clock(self) -> None:
        self._fault("no clock")
        self.station.clock.break_down()

    def repeat_session(self) -> None:
        self.station.clock.repeat_session()

    def reconnect_without_version(self) -> None:
        self._fault("no version")
        self.station.introduces_itself = False
        self.tap.cut()
        self.tap.restore()


class SoftwareStations(Stations):
    """The virtual stations of one case.

    Remembers who hears the transmissions to come, where a scenario has said so.
    """

    capabilities = frozenset({"known strength", "device time", Item.REPLAYER, Item.BURST})

    def __init__(self, setup: CaseSetup) -> None:
        self.setup = setup
        self._schedule: list[tuple[str, ...]] = []
        self._hearing: tuple[str, ...] | None = None
        self._twins: dict[Eui, list[ConcentratorClock]] = {}

    def plug(self, tap: Tap) -> Callable[[], Awaitable[TextLink]]:
        """What a station calls to reach its tap."""
        return tap.connect

    def new(self, name: str, eui: Eui, seed: int) -> CaseStation:
        twins = self._twins.setdefault(eui, [])
        return SoftwareStation(name, eui, self.setup, plug=self.plug, seed=seed, twins=twins)

    def only(self, stations: tuple[str, ...]) -> None:
        self._hearing = stations
        self._connect_air()

    def heard_by(self, transmissions: Sequence[tuple[str, ...]]) -> None:
        self._schedule = list(transmissions)
        if self._take_turn not in self.setup.listeners:
            self.setup.listeners.append(self._take_turn)

    def _take_turn(self, source: str, kind: str, fields: dict[str, object]) -> None:
        if kind == "radio.transmit" and fields["direction"] == "up" and self._schedule:
            if fields["origin"] == "device":
                self.only(self._schedule.pop(0))

    async def switch_on(self) -> None:
        self._connect_air()
        links = self.setup.links
        for device in self.setup.devices.values():
            for station in self.setup.stations.values():
                ends = device.dev_eui, station.eui
                links.set_attenuation(*ends, links.attenuation_db(*ends) + station.weaker_db)

    def _connect_air(self) -> None:
        links = self.setup.links
        for device in self.setup.devices.values():
            for name, station in self.setup.stations.items():
                hears = self._hearing is None or name in self._hearing
                between = links.restore if hears else links.cut
                between(device.dev_eui, station.eui)

    async def flood(self, frames: Iterable[Frame], *, by: str) -> None:
        station = self.setup.station(by)
        assert isinstance(station, SoftwareStation)
        for frame in frames:
            station.station.deliver(frame.phy, **first_channel(self.setup.region))
            await self.setup.pause(1)  # no two frames of a device end at one microsecond

    async def replay(self, frame: Frame, *, by: str, after_us: int) -> None:
        due_us = last_heard_us(self.setup.case.events, frame.frame_id) + after_us
        await asyncio.sleep(max(0, due_us - now_us()) / 1_000_000)
        tap = self.setup.station(by).tap
        tap.replay(reception_text(frame.phy, self.setup.region, tap.xtime_now()))
        await asyncio.sleep(0)


class MemoryStations(SoftwareStations):
    """The same, on links in memory; two of them may have one EUI."""

    capabilities = SoftwareStations.capabilities | {"twin stations", Item.TWIN}
