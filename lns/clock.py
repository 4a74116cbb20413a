"""What time is it for the network server, and how long does it wait for a store or a broker?

One clock for every deadline and every expiry: the monotonic clock of the running event loop,
in whole microseconds. Under the bench's virtual-time loop it is virtual, elsewhere it is
`time.monotonic`; a step of the wall clock changes nothing that the network server decides.
"""

import asyncio
import logging
from asyncio import get_running_loop
from collections.abc import Callable, Coroutine, Generator, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from threading import local
from time import monotonic_ns
from types import coroutine
from typing import Any, TypeVar

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
Utc = Callable[[], datetime]
Result = TypeVar("Result")


def now_us() -> int:
    """The monotonic time in microseconds; RuntimeError outside a running event loop."""
    return _here.now_us()


def of_the_running_loop() -> int:
    """The time of whatever loop runs; to find it out takes a system call (Python 3.11)."""
    return round(get_running_loop().time() * 1_000_000)


def monotonic_us() -> int:
    """The time of every loop of asyncio itself."""
    return monotonic_ns() // 1000


class _Here(local):
    now_us: Callable[[], int] = staticmethod(of_the_running_loop)


_here = _Here()


@contextmanager
def read_from(clock_us: Callable[[], int]) -> Iterator[None]:
    """For who runs a loop and knows its clock: in this thread it is asked, not the loop."""
    before, _here.now_us = _here.now_us, clock_us
    try:
        yield
    finally:
        _here.now_us = before


def utc_counted_from(start: datetime) -> Utc:
    """A wall clock that starts at `start` and runs with `now_us()`; for virtual time."""

    def utc() -> datetime:
        return start + timedelta(microseconds=now_us())

    return utc


def since_1970_us(at: datetime) -> int:
    """The microseconds since 1970; a time that names no zone is UTC."""
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - EPOCH) // timedelta(microseconds=1)


def utc_of_this_host() -> datetime:
    """The wall clock of this host.

    For people to read, and for what must be true across restarts: certificates, and how long a
    consumer remembers a message. The network server decides nothing by it.
    """
    return datetime.now(UTC)  # noqa: TID251 - the one place that reads the wall clock


async def within(limit_us: int, work: Coroutine[Any, Any, Result]) -> Result:
    """Await `work`; TimeoutError, and `work` is cancelled, when it takes `limit_us` or longer.

    As `asyncio.timeout`, which costs a tenth of an uplink, but begun only when `work` really has
    to wait for something.
    """
    try:
        waits_for = work.send(None)
    except StopIteration as done:
        result: Result = done.value
        return result
    async with asyncio.timeout(limit_us / 1_000_000):
        return await rest_of(work, waits_for)


@coroutine
def rest_of(work: Coroutine[Any, Any, Result], waits_for: Any) -> Generator[Any, Any, Result]:
    """What a coroutine that was begun still does; `waits_for` is what it said last."""
    step: Callable[[Any], Any]
    while True:
        try:
            step, argument = work.send, (yield waits_for)
        except BaseException as error:
            step, argument = work.throw, error
        try:
            waits_for = step(argument)
        except StopIteration as done:
            result: Result = done.value
            return result


class StoreUnavailable(Exception):
    """The store cannot be opened, read or written; the text says why."""


class Trouble:
    """What keeps one thing from working; the person at the console is told once of each change.

    Remembers the latest `state`, as in "is gone"; None as long as the thing works.
    """

    def __init__(self, log: logging.Logger, state: str | None = None) -> None:
        self._log = log
        self.state = state

    def is_now(self, state: str | None, sentence: str, *facts: object) -> None:
        """Log the sentence if the state is another one: a warning, or good news if it is None."""
        if state == self.state:
            return
        self.state = state
        self._log.log(logging.INFO if state is None else logging.WARNING, sentence, *facts)


class Patience:
    """Waits for one store, each time for at most `limit_us`.

    The person at the console is told once of an outage, with what it means for now
    (`consequence`), and once of its end.
    """

    def __init__(self, store: str, limit_us: int, consequence: str, log: logging.Logger) -> None:
        self._store = store
        self._limit_us = limit_us
        self._consequence = consequence
        self._trouble = Trouble(log)

    async def wait_for(self, work: Coroutine[Any, Any, Result]) -> Result:
        """What the store says; StoreUnavailable, also when it takes too long."""
        try:
            answer = await within(self._limit_us, work)
        except (StoreUnavailable, TimeoutError) as error:
            unavailable = _unavailable(self._store, self._limit_us, error)
            # Whatever it says later on, it is the same outage.
            self._trouble.is_now("is away", "%s; %s", unavailable, self._consequence)
            raise unavailable from None
        if self._trouble.state is not None:
            self._trouble.is_now(None, "%s is back", self._store)
        return answer


async def in_time(store: str, limit_us: int, work: Coroutine[Any, Any, Result]) -> Result:
    """What a store says; StoreUnavailable, also when that takes `limit_us` or longer."""
    try:
        return await within(limit_us, work)
    except TimeoutError as error:
        raise _unavailable(store, limit_us, error) from None


def _unavailable(store: str, limit_us: int, error: Exception) -> StoreUnavailable:
    if isinstance(error, StoreUnavailable):
        return error
    return StoreUnavailable(f"{store} takes longer than {limit_us} us")
