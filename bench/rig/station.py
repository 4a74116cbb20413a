"""A virtual station and its tap, under the name a scenario knows them by."""

import asyncio
from collections.abc import Awaitable, Callable

from bench.radio.medium import Medium, Record
from bench.rig.parts import NetworkServer
from bench.station.link import TextLink
from bench.station.tap import Tap
from bench.station.virtual import VirtualStation
from lns.lorawan.identifiers import Eui

LINK_US = 2_000


Plug = Callable[[Tap], Callable[[], Awaitable[TextLink]]]
"""How a station reaches its tap: what opens a link to it."""


class VirtualRigStation:
    """One station of a rig, with the tap on its link.

    Remembers its network server, the longest delay it was given (µs), how much weaker than others
    it hears (dB), and until it is switched on, what it is to be equipped with. `retimed` shortens a
    delay where the network server forgets sooner.
    """

    def __init__(
        self,
        name: str,
        eui: Eui,
        server: NetworkServer,
        *,
        plug: Plug,
        retimed: Callable[[int], int],
        seed: int,
        record: Record,
        taps: Callable[[str], Tap],
        gps_start_us: int,
    ) -> None:
        self.name = name
        self.eui = eui
        self.longest_delay_us = 0
        self.weaker_db = 0
        self.server = server
        self._plug = plug
        self._retimed = retimed
        self._seed = seed
        self._record = record
        self._taps = taps
        self._gps_start_us = gps_start_us
        self._antennas_db = [0]
        self._has_gps = False
        self._duty_cycle = False
        self._task: list[asyncio.Task[None]] = []
        self._station: VirtualStation | None = None
        self.tap = Tap(eui, lambda: self.server.connect(eui), record, latency_us=LINK_US)

    @property
    def station(self) -> VirtualStation:
        """The station itself, once it is switched on."""
        assert self._station is not None, "stations are switched on by the first act"
        return self._station

    @property
    def is_up(self) -> bool:
        """Whether it hears and is heard, and can be asked to answer."""
        station = self.station
        return station.connected and station.radio_on and station.clock.is_told

    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        """Switch station and tap on."""
        self._station = VirtualStation(
            self.eui,
            medium,
            self._plug(self.tap),
            seed=self._seed,
            record=self._record,
            ppm=_ppm(self.eui),
            duty_cycle=self._duty_cycle,
            antennas_db=tuple(self._antennas_db),
            gps_start_us=self._gps_start_us if self._has_gps else None,
        )
        self.tap.xtime_now = self._station.xtime_now
        self._task = [tasks.create_task(self.tap.run()), tasks.create_task(self._station.run())]

    def stop(self) -> None:
        """Switch station and tap off."""
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

    # --- its link --------------------------------------------------------------------------

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        self.tap.delay_up(self._note(us), receptions)

    def drop_uplinks(self, receptions: int) -> None:
        self.tap.drop_up(receptions)

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        self.tap.repeat_up(self._note(after_us, times), times)

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        self.tap.clone_to(self._taps(station), self._note(after_us), None)

    def suppress_downlinks(self, downlinks: int) -> None:
        self.tap.suppress_down(downlinks)

    def delay_downlinks(self, us: int, downlinks: int | None = None) -> None:
        self.tap.delay_down(self._note(us), downlinks)

    def cut(self) -> None:
        self.tap.cut()

    def restore(self) -> None:
        self.tap.restore()

    def leave_half_open(self, noticed_after_us: int) -> None:
        self.server.leave_half_open(self.eui, self._note(noticed_after_us))

    def restart(self) -> None:
        self.station.restart()

    def reconnect_without_version(self) -> None:
        self.station.introduces_itself = False
        self.tap.cut()
        self.tap.restore()

    def _note(self, us: int, times: int = 1) -> int:
        us = self._retimed(us)
        self.longest_delay_us = max(self.longest_delay_us, us * times)
        return us


def _ppm(eui: Eui) -> int:
    """Crystals differ: each station's clock has its own small error."""
    return (int(eui[-2:], 16) * 7) % 21 - 10
