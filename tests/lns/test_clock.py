"""One clock for every decision, another one for people."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest

from bench.clock import run
from lns.clock import monotonic_us, now_us, read_from, utc_counted_from, utc_of_this_host


def test_the_time_is_the_loops_in_whole_microseconds() -> None:
    async def later() -> tuple[int, int]:
        before_us = now_us()
        await asyncio.sleep(0.000_003)
        return before_us, now_us()

    assert run(later(), start_us=41) == (41, 44)


def test_there_is_no_time_outside_a_loop() -> None:
    with pytest.raises(RuntimeError):
        now_us()


def test_who_runs_a_loop_says_what_its_clock_is_in_this_thread() -> None:
    with read_from(lambda: 41):
        assert now_us() == 41
        with ThreadPoolExecutor() as another:
            with pytest.raises(RuntimeError):
                another.submit(now_us).result()
    with pytest.raises(RuntimeError):
        now_us()


def test_the_monotonic_clock_is_that_of_every_loop_of_asyncio() -> None:
    async def read() -> tuple[int, int, int]:
        return now_us(), monotonic_us(), now_us()

    before_us, at_us, after_us = asyncio.run(read())
    assert before_us <= at_us <= after_us


def test_a_counted_wall_clock_runs_with_the_loop() -> None:
    utc = utc_counted_from(datetime(2026, 11, 20, 2, 0, 0, tzinfo=UTC))

    async def later() -> datetime:
        await asyncio.sleep(30.393)
        return utc()

    assert run(later()) == datetime(2026, 11, 20, 2, 0, 30, 393_000, tzinfo=UTC)


def test_the_wall_clock_of_this_host_is_utc() -> None:
    assert utc_of_this_host().tzinfo is UTC
