"""Which case gets which boards, and which have to wait?

Cases that use different boards run side by side. One that needs the stations for itself waits until
nobody else is there; and those wait until all others are through.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from bench.plan.abilities import assignments
from bench.plan.planned_case import PlannedCase
from bench.rig.lab_board import BoardUnfit, LabBoard


@dataclass(frozen=True, slots=True, eq=False)
class Place:
    """What a case has of the bench: boards by the names of its devices, or the gateways alone."""

    boards: Mapping[str, LabBoard]
    alone: bool


class BoardPool:
    """The boards of one bench; remembers who is playing and who waits.

    `injected_max`: how many cases may run at once that use no board; the others are bounded by the
    boards.
    """

    def __init__(self, boards: Iterable[LabBoard], *, injected_max: int) -> None:
        self._boards = tuple(boards)
        self._injected_max = injected_max
        self._playing: list[Place] = []
        self._not_alone_waiting = 0
        self._changed = asyncio.Condition()

    async def take(self, planned: PlannedCase, *, alone: bool) -> Place:
        """A place for a case, once there is one.

        BoardUnfit when boards that have failed in this run are missing for it.
        """
        async with self._changed:
            self._not_alone_waiting += not alone
            try:
                while (place := self._found(planned, alone=alone)) is None:
                    await self._changed.wait()
            finally:
                self._not_alone_waiting -= not alone
                self._changed.notify_all()
            self._playing.append(place)
            return place

    async def give_back(self, place: Place) -> None:
        """The case is over."""
        async with self._changed:
            self._playing.remove(place)
            self._changed.notify_all()

    def _found(self, planned: PlannedCase, *, alone: bool) -> Place | None:
        fit = [board for board in self._boards if not board.unfit]
        if assignment(planned, fit) is None:
            why = "; ".join(board.unfit for board in self._boards if board.unfit)
            raise BoardUnfit(why or "no board of this bench can play its devices")
        if any(place.alone for place in self._playing):
            return None
        if alone and (self._playing or self._not_alone_waiting):
            return None
        injected = sum(not place.boards for place in self._playing)
        if not planned.on_air and injected >= self._injected_max:
            return None
        taken = [board for place in self._playing for board in place.boards.values()]
        boards = assignment(planned, [board for board in fit if board not in taken])
        return None if boards is None else Place(boards, alone)


def assignment(planned: PlannedCase, boards: Sequence[LabBoard]) -> dict[str, LabBoard] | None:
    """A board for each device that can do what it needs; None where there are not enough."""
    by_name = {board.name: board for board in boards}
    able = [board.abilities for board in boards]
    chosen = next(assignments(planned, able), None)
    if chosen is None:
        return None
    pairs = zip(planned.on_air, chosen, strict=True)
    return {device.name: by_name[board.name] for device, board in pairs}
