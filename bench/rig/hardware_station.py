"""A real station under the name a scenario knows it by, with a tap of its case."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.capture import Record
from bench.rig.parts import NetworkServer
from bench.rig.tapped_station import TappedStation
from bench.station.switchboard import Party, Switchboard
from bench.station.tap import Tap
from bench.virtual.air.medium import Medium
from lns.lorawan.identifiers import Eui


class HardwareStation(TappedStation):
    """One gateway for one case; `restarts` restarts it, None where the bench cannot.

    `owns` says which receptions are of this case, `audible` which of them it was meant to hear;
    `lag_us`: how much later than they come they are let through.
    """

    def __init__(
        self,
        *facts: Any,
        switchboard: Switchboard,
        owns: Callable[[str], bool],
        audible: Callable[[str, str], bool],
        lag_us: int,
        alone: bool,
        restarts: Callable[[], Awaitable[None]] | None,
        **more: Any,
    ) -> None:
        super().__init__(*facts, **more)
        self._switchboard = switchboard
        self._alone = alone
        self._restarts = restarts
        self._party = Party(self.tap.accept, owns)
        self._is_fresh = not alone or restarts is None
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self.tap.lag_us = lag_us
        self.tap.audible = lambda text: audible(self.name, text)
        self.tap.xtime_now = switchboard.clock.xtime_now

    @property
    def is_up(self) -> bool:
        if self._party.trouble:
            raise RuntimeError(self._party.trouble)
        return self._is_fresh and self._switchboard.is_up and self.tap.is_connected

    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        self._tasks = tasks
        self._task = tasks.create_task(self.tap.run())
        self._switchboard.join(self._party, alone=self._alone)
        if not self._is_fresh:
            tasks.create_task(self._refresh())

    async def _refresh(self) -> None:
        """Restart it: a station waits longer with every connection that it loses in its life."""
        assert self._restarts is not None
        await self._restarts()
        self._is_fresh = True

    def stop(self) -> None:
        self._switchboard.leave(self._party)
        if self._task is not None:
            self._task.cancel()

    def weaken(self, db: int) -> None:
        if self._tasks is not None:
            raise RuntimeError(f"equip {self.name} before the first frame of the scenario")
        self.weaker_db = db

    def cut(self) -> None:
        super().cut()
        self._switchboard.shut()

    def restore(self) -> None:
        super().restore()
        self._switchboard.open()

    def restart(self) -> None:
        if self._restarts is None:
            raise self._has_no("restart")
        assert self._tasks is not None
        self._tasks.create_task(self._restart(self._restarts))

    async def _restart(self, restarts: Callable[[], Awaitable[None]]) -> None:
        await restarts()

    def shut_out(self) -> None:
        """Refuse it, whatever it is connected to."""
        if self._alone:
            self._switchboard.shut()

    def let_in(self) -> None:
        """Serve it again."""
        self._switchboard.open()


class AbsentStation(TappedStation):
    """A station that the scenario never uses, so that no gateway plays it."""

    def __init__(
        self,
        name: str,
        eui: Eui,
        server: NetworkServer,
        retimed: Callable[[int], int],
        record: Record,
        taps: Callable[[str], Tap],
    ) -> None:
        super().__init__(name, eui, server, retimed=retimed, record=record, taps=taps)

    @property
    def is_up(self) -> bool:
        return True

    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        """Nothing is there to be switched on."""

    def stop(self) -> None:
        """Nothing is there to be switched off."""

    def restart(self) -> None:
        raise self._has_no("gateway that plays it")

    def shut_out(self) -> None:
        """It is not there."""

    def let_in(self) -> None:
        """It is not there."""
