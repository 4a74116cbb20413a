"""How do many cases run at once, while whoever asks for them waits for one after another?"""

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError, Future
from contextlib import AbstractAsyncContextManager, suppress
from typing import Any, Generic, TypeVar

from bench.host.program import HostError

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
        """Open the bench and return it."""
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
        """Do something on the bench's own thread, and wait for it."""

        async def act(bench: B) -> T:
            return action(bench)

        return self.result(self.play(act))

    def close(self) -> None:
        """End what still runs, and close the bench."""
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
        """Cancel the cases that still run, and wait for them."""
        plays = list(self._plays)
        for task in plays:
            task.cancel()
        await asyncio.gather(*plays, return_exceptions=True)
