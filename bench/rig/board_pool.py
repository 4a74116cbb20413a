"""Which case gets which boards, and which have to wait?

Cases that use different boards run side by side. One that needs the stations for itself waits until
nobody else is there; and those wait until all others are through.
"""

import asyncio
from collections.abc import Iterable, Sequence

from bench.plan.assignment import assignments
from bench.plan.planned_case import PlannedCase
from bench.rig.lab_board import BoardUnfit, LabBoard


class BoardPool:
    """The boards of one bench; remembers who has which, and who waits, in order of arrival.

    `at_once`: how many cases may run at a time, also those that use no board.
    """

    def __init__(self, boards: Iterable[LabBoard], *, at_once: int) -> None:
        self._boards = tuple(boards)
        self._free = list(self._boards)
        self._places = at_once
        self._at_once = at_once
        self._waiting: list[PlannedCase] = []
        self._changed = asyncio.Condition()
        self._taken: dict[str, tuple[LabBoard, ...]] = {}

    async def take(self, planned: PlannedCase, *, alone: bool) -> dict[str, LabBoard]:
        """The boards for the devices of a case, by their names, once they are free.

        BoardUnfit when boards that have failed in this run are missing for it.
        """
        async with self._changed:
            self._waiting.append(planned)
            try:
                while (found := self._found(planned, alone=alone)) is None:
                    await self._changed.wait()
            finally:
                self._waiting.remove(planned)
            self._places -= self._at_once if alone else 1
            for board in found.values():
                self._free.remove(board)
            return found

    async def give_back(self, boards: Iterable[LabBoard], *, alone: bool) -> None:
        """The case is over."""
        async with self._changed:
            self._free += boards
            self._places += self._at_once if alone else 1
            self._changed.notify_all()

    def _found(self, planned: PlannedCase, *, alone: bool) -> dict[str, LabBoard] | None:
        if self._places < (self._at_once if alone else 1):
            return None
        fit = [board for board in self._boards if not board.unfit]
        if assignment(planned, fit) is None:
            why = "; ".join(board.unfit for board in self._boards if board.unfit)
            raise BoardUnfit(why or "no board of this bench can play its devices")
        return assignment(planned, [board for board in fit if board in self._free])


def assignment(planned: PlannedCase, boards: Sequence[LabBoard]) -> dict[str, LabBoard] | None:
    """A board for each device that can do what it needs; None where there are not enough."""
    by_name = {board.name: board for board in boards}
    able = [board.abilities for board in boards]
    chosen = next(assignments(planned, able), None)
    if chosen is None:
        return None
    pairs = zip(planned.on_air, chosen, strict=True)
    return {device.name: by_name[board.name] for device, board in pairs}
