"""The receptions of one station, side by side."""

import asyncio
from collections import deque
from collections.abc import Coroutine
from typing import Any

import pytest

from bench import clock
from lns.clock import now_us
from lns.connections import ReceptionTasks
from lns.station.protocol import LinkClosed


class Station:
    """Brings work of given lengths (us, 0: it waits for nothing), each at its time, then closes."""

    def __init__(self, *work: tuple[int, int]) -> None:
        self._work = deque(work)
        self.begun: list[int] = []
        self.done: list[tuple[int, int]] = []
        self.tasks_max = 0

    async def take(self) -> Coroutine[Any, Any, None]:
        self.tasks_max = max(self.tasks_max, len(asyncio.all_tasks()))
        if not self._work:
            raise LinkClosed("the link is closed")
        at_us, takes_us = self._work.popleft()
        if at_us > now_us():
            await asyncio.sleep((at_us - now_us()) / 1_000_000)
        return self._do(takes_us)

    async def _do(self, takes_us: int) -> None:
        self.begun.append(now_us())
        if takes_us:
            await asyncio.sleep(takes_us / 1_000_000)
        if takes_us < 0:
            raise ValueError("wrong")
        self.done.append((takes_us, now_us()))


def play(station: Station, under_way_max: int = 256) -> Station:
    async def run() -> None:
        async with asyncio.TaskGroup() as tasks:
            await ReceptionTasks(station.take, tasks, under_way_max).handle()

    clock.run(run())
    return station


def test_nobody_waits_for_one_before() -> None:
    station = play(Station((0, 3_000), (0, 0), (0, 2_000), (0, 0), (0, 1_000)))
    assert station.begun == [0] * 5
    assert station.done == [(0, 0), (0, 0), (1_000, 1_000), (2_000, 2_000), (3_000, 3_000)]


def test_one_that_arrives_while_others_wait_is_begun_at_once() -> None:
    station = play(Station((0, 3_000), (1_000, 0), (2_000, 5_000)))
    assert station.begun == [0, 1_000, 2_000]
    assert station.done == [(0, 1_000), (3_000, 3_000), (5_000, 7_000)]


@pytest.mark.parametrize("under_way_max", [1, 2, 4])
def test_no_more_than_allowed_are_under_way(under_way_max: int) -> None:
    station = play(Station(*[(0, 1_000)] * 4), under_way_max)
    assert station.begun == [1_000 * (number // under_way_max) for number in range(4)]


def test_what_is_done_makes_room_for_good() -> None:
    station = play(Station((0, 1_000), (2_000, 1_000), (4_000, 9_000), (4_000, 1_000)), 2)
    assert station.begun == [0, 2_000, 4_000, 4_000]


def test_the_first_that_is_done_makes_room() -> None:
    station = play(Station((0, 9_000), (0, 1_000), (0, 2_000)), under_way_max=2)
    assert station.begun == [0, 0, 1_000]
    assert station.done == [(1_000, 1_000), (2_000, 3_000), (9_000, 9_000)]


def test_work_that_waits_for_nothing_costs_no_task() -> None:
    station = play(Station(*[(0, 0)] * 100))
    assert (len(station.done), station.tasks_max) == (100, 1)


def test_what_goes_wrong_is_told() -> None:
    with pytest.raises(ExceptionGroup):
        play(Station((0, 1_000), (0, -1)))
