import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager

import pytest

from bench.run.wall_clock import BenchStopped, SideBySide


class Bench:
    def __init__(self) -> None:
        self.arrived = 0
        self.all_here = asyncio.Event()
        self.is_open = True

    async def meet(self, others: int) -> int:
        """Returns only when so many are here at once."""
        self.arrived += 1
        if self.arrived == others:
            self.all_here.set()
        await self.all_here.wait()
        return self.arrived


@asynccontextmanager
async def opened() -> AsyncIterator[Bench]:
    bench = Bench()
    yield bench
    bench.is_open = False


@asynccontextmanager
async def broken() -> AsyncIterator[Bench]:
    raise FileNotFoundError("no broker")
    yield Bench()


def test_cases_run_at_once() -> None:
    bench = SideBySide(opened)
    bench.start()
    played = [bench.play(lambda here: here.meet(3)) for _ in range(3)]
    assert [one.result(timeout=10) for one in played] == [3, 3, 3]
    bench.close()


def test_closing_ends_what_still_runs_and_closes_the_bench() -> None:
    bench = SideBySide(opened)
    here = bench.start()
    waiting = bench.play(lambda here: here.meet(2))
    bench.close()
    with pytest.raises(CancelledError):
        waiting.result(timeout=10)
    assert not here.is_open


def test_a_bench_that_cannot_be_opened_says_why() -> None:
    bench = SideBySide(broken)
    with pytest.raises(FileNotFoundError, match="no broker"):
        bench.start()
    bench.close()


def test_an_error_in_a_case_is_that_of_the_case() -> None:
    async def fails(bench: Bench) -> None:
        raise LookupError("no such frame")

    bench = SideBySide(opened)
    bench.start()
    with pytest.raises(LookupError, match="no such frame"):
        bench.play(fails).result(timeout=10)
    assert bench.play(lambda here: here.meet(1)).result(timeout=10) == 1
    bench.close()


def test_a_bench_that_breaks_says_why_to_all_who_wait_and_to_all_who_come() -> None:
    """As on a full disk: something of its own ends in an error while cases are played."""
    failing = asyncio.Event()

    @asynccontextmanager
    async def breaking() -> AsyncIterator[Bench]:
        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(fail())
            yield Bench()

    async def fail() -> None:
        await failing.wait()
        raise OSError(28, "No space left on device")

    async def hang(bench: Bench) -> None:
        failing.set()
        await asyncio.sleep(3600)

    bench = SideBySide(breaking)
    bench.start()
    waiting = bench.play(hang)
    with pytest.raises(BenchStopped, match="No space left on device"):
        bench.result(waiting)
    bench.close()
    with pytest.raises(BenchStopped, match="No space left on device"):
        bench.play(hang)
