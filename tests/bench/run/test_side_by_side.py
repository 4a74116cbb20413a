import asyncio
from collections.abc import AsyncIterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager

import pytest

from bench import clock
from bench.run.wall_clock import BenchStopped, Rounds, SideBySide


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
    assert [one.result(timeout=60) for one in played] == [3, 3, 3]
    bench.close()


def test_closing_ends_what_still_runs_and_closes_the_bench() -> None:
    bench = SideBySide(opened)
    here = bench.start()
    waiting = bench.play(lambda here: here.meet(2))
    bench.close()
    with pytest.raises(CancelledError):
        waiting.result(timeout=60)
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
        bench.play(fails).result(timeout=60)
    assert bench.play(lambda here: here.meet(1)).result(timeout=60) == 1
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


def test_nobody_plays_again_before_all_have_played_and_then_few_at_once() -> None:
    """Nine cases of different length; the even ones play twice, every fourth three times."""
    rounds = Rounds((2, 1))
    begun: list[tuple[int, int]] = []
    ended: list[tuple[int, int]] = []
    playing = most = 0

    async def attempt(case: int, number: int) -> None:
        nonlocal playing, most
        begun.append((case, number))
        playing += 1
        most = max(most, playing) if number > 1 else most
        await asyncio.sleep(1 + case)
        playing -= 1
        ended.append((case, number))

    async def play(case: int) -> None:
        await attempt(case, 1)
        for number in range(2, 2 + (case % 2 == 0) + (case % 4 == 0)):
            async with await rounds.following():
                await attempt(case, number)
        rounds.over()

    async def run() -> None:
        rounds.expect(9)
        async with asyncio.TaskGroup() as tasks:
            for case in range(9):
                tasks.create_task(play(case))

    clock.run(run(), start_us=0)
    of_round = [number for _, number in begun]
    assert of_round == sorted(of_round) == [1] * 9 + [2] * 5 + [3] * 3
    assert [number for _, number in ended] == of_round
    assert most == 2


def test_a_case_that_is_ended_while_it_waits_keeps_nobody_from_the_next_round() -> None:
    async def run() -> list[str]:
        rounds, played = Rounds((1,)), list[str]()
        rounds.expect(3)

        async def again(name: str) -> None:
            try:
                async with await rounds.following():
                    played.append(name)
            finally:
                rounds.over()

        first, second = asyncio.create_task(again("first")), asyncio.create_task(again("second"))
        await asyncio.sleep(1)
        first.cancel()
        await asyncio.wait({first})
        await asyncio.sleep(1)
        assert not played  # the third one still plays
        rounds.over()
        await second
        return played

    assert clock.run(run(), start_us=0) == ["second"]
