"""A virtual station and its tap, under the name a scenario knows them by."""

import asyncio
from collections.abc import Callable

from bench.radio.medium import Medium, Record
from bench.rig.server import SimulatedServer
from bench.station.tap import Tap
from bench.station.virtual import VirtualStation
from lns.lorawan.identifiers import Eui

LINK_US = 2_000


class SimulatedStation:
    """One station of the simulated rig; remembers the longest delay it was given (µs)."""

    def __init__(
        self,
        name: str,
        eui: Eui,
        medium: Medium,
        server: SimulatedServer,
        *,
        seed: int,
        record: Record,
        taps: Callable[[str], Tap],
    ) -> None:
        self.name = name
        self.eui = eui
        self.longest_delay_us = 0
        self._taps = taps
        self._task: list[asyncio.Task[None]] = []
        self.tap = Tap(eui, lambda: server.connect(eui), record, latency_us=LINK_US)
        self.station = VirtualStation(
            eui, medium, self.tap.connect, seed=seed, record=record, ppm=_ppm(eui)
        )
        self.tap.xtime_now = self.station.xtime_now

    def start(self, tasks: asyncio.TaskGroup) -> None:
        """Switch station and tap on."""
        self._task = [tasks.create_task(self.tap.run()), tasks.create_task(self.station.run())]

    def stop(self) -> None:
        """Switch station and tap off."""
        for task in self._task:
            task.cancel()

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        """Hold the next receptions (all, if no number is given) for so long."""
        self._note(us)
        self.tap.delay_up(us, receptions)

    def drop_uplinks(self, receptions: int) -> None:
        """Lose the next receptions."""
        self.tap.drop_up(receptions)

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        """Deliver the next reception again, as a stuttering backhaul does."""
        self._note(after_us * times)
        self.tap.repeat_up(after_us, times)

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        """Deliver every reception also as if the other station had heard it."""
        self._note(after_us)
        self.tap.clone_to(self._taps(station), after_us, None)

    def suppress_downlinks(self, downlinks: int) -> None:
        """Lose the next downlinks: the device misses its window."""
        self.tap.suppress_down(downlinks)

    def delay_downlinks(self, us: int, downlinks: int | None = None) -> None:
        """Bring the next downlinks late."""
        self._note(us)
        self.tap.delay_down(us, downlinks)

    def _note(self, us: int) -> None:
        self.longest_delay_us = max(self.longest_delay_us, us)


def _ppm(eui: Eui) -> int:
    """Crystals differ: each station's clock has its own small error."""
    return (int(eui[-2:], 16) * 7) % 21 - 10
