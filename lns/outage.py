"""Is a store there, and who is told when it is not?"""

import logging
from collections.abc import Coroutine
from typing import Any, TypeVar

from lns.deadline import within

Answer = TypeVar("Answer")


class StoreUnavailable(Exception):
    """The store cannot be opened, read or written; the text says why."""


class Patience:
    """Waits for one store, each time for at most `limit_us`.

    Remembers whether it is away: the person at the console is told once of an outage, with what it
    means for now (`consequence`), and once of its end.
    """

    def __init__(
        self, store: str, limit_us: int, consequence: str, log: logging.Logger
    ) -> None:
        self._store = store
        self._limit_us = limit_us
        self._consequence = consequence
        self._log = log
        self._is_away = False

    async def wait_for(self, work: Coroutine[Any, Any, Answer]) -> Answer:
        """What the store says; StoreUnavailable, also when it takes too long."""
        try:
            answer = await in_time(self._store, self._limit_us, work)
        except StoreUnavailable as unavailable:
            if not self._is_away:
                self._log.warning("%s; %s", unavailable, self._consequence)
            self._is_away = True
            raise
        if self._is_away:
            self._log.info("%s is back", self._store)
            self._is_away = False
        return answer


async def in_time(store: str, limit_us: int, work: Coroutine[Any, Any, Answer]) -> Answer:
    """What a store says; StoreUnavailable, also when that takes `limit_us` or longer."""
    try:
        return await within(limit_us, work)
    except TimeoutError:
        raise StoreUnavailable(f"{store} takes longer than {limit_us} us") from None
