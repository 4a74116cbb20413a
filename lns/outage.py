"""Is a store or a broker there, how long is it waited for, and who is told when it is not?"""

import asyncio
import logging
from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


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
