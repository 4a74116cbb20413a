"""The receptions of one station, side by side."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from bench import clock
from lns.clock import now_us
from lns.reception import Reception
from lns.receptions import Receptions
from tests.lns.served_network import WEST


class Handled:
    """Handles a reception in `xtime` µs (0: at once) and remembers when it began and was done."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.done: list[tuple[int, int]] = []

    async def handle(self, reception: Reception) -> None:
        self.begun.append(reception.xtime)
        if reception.xtime:
            await asyncio.sleep(reception.xtime / 1_000_000)
        self.done.append((reception.xtime, now_us()))


def reception(takes_us: int) -> Reception:
    return Reception(WEST, b"", 5, 868_100_000, -80, 7.5, takes_us, 0, 0, None)


def play(
    scenario: Callable[[Receptions, Handled], Coroutine[Any, Any, None]], under_way_max: int = 256
) -> Handled:
    async def run() -> Handled:
        handled = Handled()
        async with asyncio.TaskGroup() as tasks:
            await scenario(Receptions(handled.handle, tasks, under_way_max), handled)
        return handled

    return clock.run(run())


def test_nobody_waits_for_one_before() -> None:
    async def scenario(receptions: Receptions, handled: Handled) -> None:
        for takes_us in (3_000, 0, 2_000, 0, 1_000):
            await receptions.add(reception(takes_us))

    handled = play(scenario)
    assert handled.begun == [3_000, 0, 2_000, 0, 1_000]
    assert handled.done == [(0, 0), (0, 0), (1_000, 1_000), (2_000, 2_000), (3_000, 3_000)]


def test_one_that_arrives_while_others_wait_is_begun_at_once() -> None:
    async def scenario(receptions: Receptions, handled: Handled) -> None:
        await receptions.add(reception(3_000))
        await asyncio.sleep(0.001)
        await receptions.add(reception(0))

    assert play(scenario).done == [(0, 1_000), (3_000, 3_000)]


@pytest.mark.parametrize("under_way_max", [1, 2])
def test_no_more_than_allowed_are_under_way(under_way_max: int) -> None:
    async def scenario(receptions: Receptions, handled: Handled) -> None:
        for _ in range(4):
            await receptions.add(reception(1_000))
            assert len(handled.begun) - len(handled.done) <= under_way_max
        assert len(handled.done) >= 4 - under_way_max

    assert play(scenario, under_way_max).done[-1] == (1_000, 4_000 // under_way_max)


def test_a_burst_that_waits_for_nothing_shares_its_tasks() -> None:
    async def scenario(receptions: Receptions, handled: Handled) -> None:
        before = len(asyncio.all_tasks())
        for _ in range(100):
            await receptions.add(reception(0))
        assert len(asyncio.all_tasks()) == before + 1
        await asyncio.sleep(0)
        assert len(handled.done) == 100

    play(scenario)
