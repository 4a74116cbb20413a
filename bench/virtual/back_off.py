"""How long does a station wait before it connects again?"""

import asyncio

WAITS_S = (1, 2, 4, 8, 16, 0)
"""Basics Station, tc.c: doubled with every loss and not reset by success; the sixth loss leads to
a new discovery, which here takes no time."""


class BackOff:
    """The waiting of one station; remembers how often it lost its connection since its start."""

    def __init__(self) -> None:
        self._losses = 0
        self._restarted = False
        self._waiter: asyncio.Future[None] | None = None

    async def wait(self) -> None:
        """Wait as long as is due after one more loss; not at all after `restart`."""
        if self._restarted:
            self._restarted = False
            return
        wait_s = WAITS_S[self._losses % len(WAITS_S)]
        self._losses += 1
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(wait_s, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        self._restarted = False

    def restart(self) -> None:
        """The process starts anew: the wait under way, or the next one, is over at once."""
        self._losses = 0
        self._restarted = True
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
