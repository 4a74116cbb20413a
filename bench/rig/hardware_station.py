"""A real station under the name a scenario knows it by, with a tap of its case."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from bench.radio.medium import Medium
from bench.rig.tapped_station import TappedStation
from bench.station.switchboard import Party, Switchboard


class HardwareStation(TappedStation):
    """One gateway for one case; `restarts` restarts it, None where the bench cannot.

    `owns` says which receptions are of this case, `audible` which of them it was meant to hear.
    """

    def __init__(
        self,
        *facts: Any,
        switchboard: Switchboard,
        owns: Callable[[str], bool],
        audible: Callable[[str, str], bool],
        alone: bool,
        restarts: Callable[[], Awaitable[None]] | None,
        **more: Any,
    ) -> None:
        super().__init__(*facts, **more)
        self._switchboard = switchboard
        self._alone = alone
        self._restarts = restarts
        self._party = Party(self.tap.accept, owns)
        self._tasks: asyncio.TaskGroup | None = None
        self._task: asyncio.Task[None] | None = None
        self.tap.audible = lambda text: audible(self.name, text)
        self.tap.xtime_now = switchboard.clock.xtime_now

    @property
    def is_up(self) -> bool:
        if self._party.trouble:
            raise RuntimeError(self._party.trouble)
        return self._switchboard.is_up and self.tap.is_connected

    def start(self, tasks: asyncio.TaskGroup, medium: Medium) -> None:
        self._tasks = tasks
        self._task = tasks.create_task(self.tap.run())
        self._switchboard.join(self._party, alone=self._alone)

    def stop(self) -> None:
        self._switchboard.leave(self._party)
        if self._task is not None:
            self._task.cancel()

    def cut(self) -> None:
        super().cut()
        self._switchboard.hang_up()

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
