"""Is a device still busy with a message, and when is it not any more?"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from bench.device.seam import CommandRefused
from lns.clock import now_us

T = TypeVar("T")

ASK_AGAIN_US = 1_000_000


class MacCycle:
    """The MAC cycle of the last message, from its acceptance to the line that tells of its end.

    Remembers whether it `is_open`; the line may never be heard, as when the port was gone.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._over = asyncio.Event()

    def begin(self) -> None:
        """A message was accepted."""
        self.is_open = True

    def end(self) -> None:
        """Its end was told, or the device has started anew."""
        self.is_open = False
        self._over.set()

    async def past(
        self,
        carry_out: Callable[[], Awaitable[T]],
        waits_for: Callable[[CommandRefused], bool],
        within_us: int,
    ) -> T:
        """Carry it out, again whenever a cycle ends, while the refusal is one that is waited for.

        Tried every second too, for the line that ends a cycle may never come.
        """
        until_us = now_us() + within_us
        while True:
            self._over.clear()
            try:
                return await carry_out()
            except CommandRefused as refused:
                if not waits_for(refused) or now_us() > until_us:
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_US / 1_000_000):
                    await self._over.wait()
