"""How long may something take that usually takes no time?"""

import asyncio
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
