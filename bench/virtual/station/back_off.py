"""How long does a station wait before it looks for its server again?

Basics Station, tc.c: one counter for both kinds of failure, which success does not reset.
"""

import asyncio

LOSSES_MAX = 5
AWAY_S = 10
AWAY_MAX = 6


class BackOff:
    """The waiting of one station; remembers how often it failed since its start."""

    def __init__(self) -> None:
        self._failures = 0
        self._restarted = False
        self._waiter: asyncio.Future[None] | None = None

    async def lost(self) -> bool:
        """Wait 1, 2, 4, 8 or 16 s after a lost connection; False: it is to be discovered anew."""
        if self._failures >= LOSSES_MAX:
            self._failures = 0
            await self._wait(0)
            return False
        wait_s = 1 << self._failures
        self._failures += 1
        await self._wait(wait_s)
        return True

    async def away(self) -> None:
        """Wait 10, 20 and up to 60 s where no server was found; the first time not at all."""
        wait_s = AWAY_S * min(self._failures, AWAY_MAX)
        self._failures += 1
        await self._wait(wait_s)

    def restart(self) -> None:
        """The process starts anew: the wait under way, or the next one, is over at once."""
        self._failures = 0
        self._restarted = True
        self._wake()

    async def _wait(self, wait_s: int) -> None:
        if self._restarted:
            self._restarted = False
            return
        loop = asyncio.get_running_loop()
        waiter = self._waiter = loop.create_future()
        timer = loop.call_later(wait_s, self._wake)
        try:
            await waiter
        finally:
            timer.cancel()
            self._waiter = None
        self._restarted = False

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)
