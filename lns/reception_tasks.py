"""How are the receptions of one station handled side by side, without a task for each?"""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from lns.deadline import rest_of
from lns.station.link import LinkClosed


class ReceptionTasks:
    """Takes one piece of work after the other from `take`; none waits for one before it.

    The task that takes it also does it. Only when it has to wait for something does another task
    go on taking: work that waits for nothing, which is most, costs no task. When `under_way_max`
    wait, nobody takes until one of them is done. It ends when `take` raises LinkClosed; `tasks`
    waits for what is under way then.
    """

    def __init__(
        self,
        take: Callable[[], Awaitable[Coroutine[Any, Any, None]]],
        tasks: asyncio.TaskGroup,
        under_way_max: int,
    ) -> None:
        self._take = take
        self._tasks = tasks
        self._under_way_max = under_way_max
        self._under_way = 0
        self._somebody_takes = True

    async def handle(self) -> None:
        """Take and do, until the link is closed or another task takes."""
        while True:
            try:
                work = await self._take()
            except LinkClosed:
                return
            try:
                waits_for = work.send(None)
            except StopIteration:
                continue
            self._hand_over()
            await rest_of(work, waits_for)
            self._under_way -= 1
            if self._somebody_takes:
                return
            self._somebody_takes = True

    def _hand_over(self) -> None:
        """This task has to wait: let another one take."""
        self._under_way += 1
        self._somebody_takes = self._under_way < self._under_way_max
        if self._somebody_takes:
            self._tasks.create_task(self.handle())
