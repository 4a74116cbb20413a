"""Something that usually takes no time, and how long it may take at most."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from bench import clock
from lns.clock import now_us, within

LIMIT_US = 1_000_000


async def at_once() -> str:
    return "done"


async def after(us: int) -> str:
    for _ in range(2):
        await asyncio.sleep(us / 2_000_000)
    return "done"


async def wrong(us: int) -> str:
    if us:
        await asyncio.sleep(us / 1_000_000)
    raise ValueError("wrong")


async def stubborn() -> str:
    try:
        await asyncio.sleep(5)
    except asyncio.CancelledError:
        await asyncio.sleep(0)
    return "done"


def result_and_time(work: Callable[[], Awaitable[str]]) -> tuple[str, int]:
    async def run() -> tuple[str, int]:
        began_us = now_us()
        try:
            said = await work()
        except (TimeoutError, ValueError) as error:
            said = type(error).__name__
        return said, now_us() - began_us

    return clock.run(run())


def test_work_that_does_not_wait_is_done() -> None:
    assert result_and_time(lambda: within(LIMIT_US, at_once())) == ("done", 0)


def test_work_that_waits_is_done_within_the_limit() -> None:
    assert result_and_time(lambda: within(LIMIT_US, after(LIMIT_US - 2))) == ("done", LIMIT_US - 2)


def test_work_that_takes_longer_ends_at_the_limit() -> None:
    assert result_and_time(lambda: within(LIMIT_US, after(LIMIT_US + 2))) == (
        "TimeoutError",
        LIMIT_US,
    )


@pytest.mark.parametrize("us", [0, 500_000])
def test_what_goes_wrong_goes_wrong_there(us: int) -> None:
    assert result_and_time(lambda: within(LIMIT_US, wrong(us))) == ("ValueError", us)


def test_work_that_does_not_heed_the_limit_is_late_all_the_same() -> None:
    assert result_and_time(lambda: within(LIMIT_US, stubborn())) == ("done", LIMIT_US)


def test_whoever_waits_for_it_can_be_cancelled() -> None:
    async def run() -> bool:
        waiting = asyncio.create_task(within(LIMIT_US, after(LIMIT_US // 2)))
        await asyncio.sleep(0.1)
        waiting.cancel()
        await asyncio.wait([waiting])
        return waiting.cancelled()

    assert clock.run(run())
