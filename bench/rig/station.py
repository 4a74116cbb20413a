"""A virtual station and its tap, under the name a scenario knows them by."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.rig.tapped_station import TappedStation
from bench.station.link import TextLink
from bench.station.tap import Tap
from bench.virtual.air.medium import Medium
from bench.virtual.station.transmitter import ConcentratorClock
from bench.virtual.station.virtual_station import VirtualStation
from lns.lorawan.identifiers import Eui

Plug = Callable[[Tap], Callable[[], Awaitable[TextLink]]]
"""How a station reaches its tap: what opens a link to it."""


class VirtualRigStation(TappedStation):
    """One station in software; remembers what it is to be equipped with until it is switched on."""

    def __init__(
        self,
        *facts: Any,
        plug: Plug,
        seed: int,
        gps_start_us: int,
        twins: list[ConcentratorClock],
        **more: Any,
    ) -> None:
        super().__init__(*facts, **more)
        self._twins = twins
        self._plug = plug
        self._seed = seed
        self._gps_start_us = gps_start_us
        self._antennas_db = [0]
        self._has_gps = False
        self._duty_cycle = False
        self._task: list[asyncio.Task[None]] = []
        self._station: VirtualStation | None = None

    @property
    def station(self) -> VirtualStation:
        """The station itself, once it is switched on."""
        assert self._station is not None, "stations are switched on by the first act"
        return self._station

    @property
    def is_up(self) -> bool:
        station = self.station
        return station.connected and station.radio_on and station.clock.is_told

    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        self._station = VirtualStation(
            self.eui,
            medium,
            self._plug(self.tap),
            seed=self._seed,
            record=self.record,
            ppm=_ppm(self.eui),
            duty_cycle=self._duty_cycle,
            antennas_db=tuple(self._antennas_db),
            gps_start_us=self._gps_start_us if self._has_gps else None,
        )
        self._twins.append(self._station.clock)
        for clock in self._twins if len(self._twins) > 1 else ():
            clock.differ_from(*self._twins)  # nobody could tell them apart by chance
        self.tap.xtime_now = self._station.xtime_now
        self._task = [tasks.create_task(self.tap.run()), tasks.create_task(self._station.run())]

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

    def fit_gps(self) -> None:
        self._before_start()
        self._has_gps = True

    def keep_duty_cycle(self) -> None:
        self._before_start()
        self._duty_cycle = True

    def _before_start(self) -> None:
        if self._station is not None:
            raise RuntimeError(f"equip {self.name} before the first frame of the scenario")

    # --- what only software does on demand --------------------------------------------------

    def restart(self) -> None:
        self.station.clock.differ_from(self.station.clock)
        self.station.restart()

    def break_clock(self) -> None:
        self.station.clock.break_down()

    def repeat_session(self) -> None:
        self.station.clock.repeat_session()

    def reconnect_without_version(self) -> None:
        self.station.introduces_itself = False
        self.tap.cut()
        self.tap.restore()


def _ppm(eui: Eui) -> int:
    """Crystals differ: each station's clock has its own small error."""
    return (int(eui[-2:], 16) * 7) % 21 - 10
