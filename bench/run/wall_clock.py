"""A run on the wall clock: cases side by side, on a bench of programs or on one of a lab."""

import asyncio
import threading
from collections.abc import Callable, Coroutine, Sequence
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
from typing import Any, Generic, Protocol, TypeVar

from bench.host.program import HostError
from bench.rig.process_bench import ProcessBench
from bench.rig.rig import Rig
from bench.run.attempts import Play, Turn, perform, repeated
from bench.run.run_record import Retiming, RunRecord
from bench.verdict.case import Case
from bench.verdict.expectation import Verdict

T = TypeVar("T")
B = TypeVar("B")


class BenchStopped(HostError):
    """The bench broke while cases were played on it; the text says why."""


class SideBySide(Generic[B]):
    """A bench on an event loop in a thread of its own; used from another thread.

    `open_bench` makes the bench, inside the loop; `start` raises what that raised.
    """

    def __init__(self, open_bench: Callable[[], AbstractAsyncContextManager[B]]) -> None:
        self._open_bench = open_bench
        self._opened: Future[B] = Future()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._over: asyncio.Event | None = None
        self._plays: set[asyncio.Task[Any]] = set()
        self._broke: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="bench", daemon=True)

    def result(self, future: "Future[T]") -> T:
        """What came of a case; BenchStopped when the bench broke before it was over."""
        try:
            return future.result()
        except CancelledError:
            raise self._stopped() from None

    def _stopped(self) -> BenchStopped:
        cause: BaseException | None = self._broke
        while isinstance(cause, BaseExceptionGroup):
            cause = cause.exceptions[0]
        why = "it was closed" if cause is None else str(cause) or type(cause).__name__
        return BenchStopped(f"the bench has stopped: {why}. What was captured until then stays")

    def start(self) -> B:
        self._thread.start()
        return self._opened.result()

    def play(self, case: Callable[[B], Coroutine[Any, Any, T]]) -> "Future[T]":
        """Begin to play a case; `result` has what came of it. BenchStopped if the bench broke."""
        assert self._loop is not None
        if self._broke is not None or self._loop.is_closed():
            raise self._stopped()
        return asyncio.run_coroutine_threadsafe(self._keep(case), self._loop)

    async def _keep(self, case: Callable[[B], Coroutine[Any, Any, T]]) -> T:
        task = asyncio.current_task()
        assert task is not None
        self._plays.add(task)
        try:
            return await case(self._opened.result())
        finally:
            self._plays.discard(task)

    def call(self, action: Callable[[B], T]) -> T:
        async def act(bench: B) -> T:
            return action(bench)

        return self.result(self.play(act))

    def close(self) -> None:
        is_open = self._opened.done() and self._opened.exception() is None
        if is_open and self._loop is not None and self._over is not None:
            with suppress(RuntimeError):  # the bench broke, and its loop is gone
                self._loop.call_soon_threadsafe(self._over.set)
        if self._thread.is_alive():
            self._thread.join()

    def _run(self) -> None:
        asyncio.run(self._main())

    async def _main(self) -> None:
        self._loop, self._over = asyncio.get_running_loop(), asyncio.Event()
        try:
            async with self._open_bench() as bench:
                self._opened.set_result(bench)
                await self._over.wait()
                await self._end_all()
        except BaseException as error:
            if self._opened.done():
                self._broke = error
            else:
                self._opened.set_exception(error)

    async def _end_all(self) -> None:
        plays = list(self._plays)
        for task in plays:
            task.cancel()
        await asyncio.gather(*plays, return_exceptions=True)


class Rounds:
    """When is a case played once more, whose attempt proved nothing?

    What makes this host late is most often the run itself. So nobody begins anew before the
    attempts of all cases are over; then those play that have to, in a second round, and in a third
    one, few side by side: `at_once` says how many in the second, in the third, …
    """

    def __init__(self, at_once: Sequence[int]) -> None:
        self._at_once = at_once
        self._round = 1
        self._playing = 0
        self._waiting: list[asyncio.Future[asyncio.Semaphore]] = []

    def expect(self, cases: int) -> None:
        """So many cases are about to play: no round begins before they have."""
        self._playing += cases

    def over(self) -> None:
        """An attempt is over, and no other one of this case follows."""
        self._playing -= 1
        if self._playing == 0 and self._waiting:
            places = asyncio.Semaphore(self._at_once[min(self._round, len(self._at_once)) - 1])
            self._round += 1
            waiting, self._waiting = self._waiting, []
            self._playing = len(waiting)
            for one in waiting:
                one.set_result(places)

    async def following(self) -> asyncio.Semaphore:
        """Wait for the next round, in which this case plays; what bounds how many play at once."""
        begins: asyncio.Future[asyncio.Semaphore] = asyncio.get_running_loop().create_future()
        self._waiting.append(begins)
        self.over()
        try:
            return await begins
        except asyncio.CancelledError:
            if begins.cancelled():
                self._waiting.remove(begins)
                self._playing += 1  # until it says itself that it is over
            raise


Bench = TypeVar("Bench", bound=ProcessBench)


class Rigs(Protocol[Bench]):
    """What a run on the wall clock has to know of its kind of rig."""

    capabilities: frozenset[str]
    attempts_max: int
    """How often a case is played whose stimulus fails to come about, or that stalls this host."""
    share_servers: bool
    """Whether cases begin together, with network servers that know the devices of all of them."""
    again_at_once: Sequence[int]
    """How many cases play side by side in the second round of attempts, in the third, …; none: a
    case is played again at once, and the others go on meanwhile."""

    def open_bench(self) -> AbstractAsyncContextManager[Bench]:
        """The bench of all cases."""

    def rig(self, bench: Bench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        """A rig for one attempt of a case; `is_again`: for one that is not the first.

        `play` is the case as it was announced, whichever attempt it is for.
        """

    def missing(self, play: Play) -> Sequence[str]:
        """What the bench lacks for a scenario, besides what it says that it requires."""

    def in_order(self, plays: list[Play]) -> list[Play]:
        """In which order cases begin."""


class WallClockRun(Generic[Bench]):
    """Plays what was announced side by side; whoever asks for a verdict waits for that case."""

    limits_itself = True

    def __init__(self, record: RunRecord, rigs: Rigs[Bench], *, retention_us: int) -> None:
        self.capabilities = rigs.capabilities
        self._record = record
        self._rigs = rigs
        self._retention_us = retention_us
        self._bench = SideBySide(rigs.open_bench)
        self._is_open = False
        self._verdicts: dict[str, Future[Verdict]] = {}
        self._rounds = Rounds(rigs.again_at_once) if rigs.again_at_once else None
        self._numbers = 0

    def missing(self, play: Play) -> Sequence[str]:
        return self._rigs.missing(play)

    def announce(self, plays: list[Play]) -> None:
        if not self._is_open:
            self._bench.start()
            self._is_open = True
        self._expect(len(plays))
        for play in self._rigs.in_order(plays):
            self._begin(play)

    def _expect(self, cases: int) -> None:
        def expect(bench: Bench) -> None:
            if self._rigs.share_servers:
                bench.expect(cases)
            if self._rounds is not None:
                self._rounds.expect(cases)

        self._bench.call(expect)

    def play(self, play: Play) -> Verdict:
        if play.title.case not in self._verdicts:
            self.announce([play])
        return self._bench.result(self._verdicts.pop(play.title.case))

    def close(self) -> None:
        if self._is_open:
            self._bench.close()

    def _begin(self, play: Play) -> None:
        async def perform_it(bench: Bench) -> Verdict:
            rounds = self._rounds

            async def attempt(again: Play, turn: Turn) -> tuple[Verdict, bool]:
                if again is play:
                    return await self._attempt(bench, play, again, turn)
                async with nullcontext() if rounds is None else await rounds.following():
                    await bench.quiet()
                    if self._rigs.share_servers:
                        bench.expect(1)
                    return await self._attempt(bench, play, again, turn)

            try:
                first = Turn(1, self._rigs.attempts_max, is_played=rounds is not None)
                return await repeated(play, first, attempt)
            finally:
                if rounds is not None:
                    rounds.over()

        self._verdicts[play.title.case] = self._bench.play(perform_it)

    async def _attempt(
        self, bench: Bench, announced: Play, play: Play, turn: Turn
    ) -> tuple[Verdict, bool]:
        self._numbers += 1
        rig = self._rigs.rig(
            bench,
            announced,
            is_again=play is not announced,
            wants_store="store" in play.faults,
            seed=self._record.seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
            retimed=Retiming(self._retention_us),
            number=self._numbers,
        )
        case = Case(play.title, bench.capture, rig=self._record.rig)
        try:
            return await perform(case, rig, play, turn), case.repeated
        finally:
            await rig.end()
