"""Was this machine fast enough to judge a network server by?

On a wall clock the bench itself can be late: another program takes the processor, or the disk. The
guard asks the event loop to be woken every few milliseconds and notes whenever that came too late.
"""

import asyncio
from collections.abc import Callable

from lns.clock import now_us

EVERY_US = 10_000
STALLED_US = 50_000


class HostGuard:
    """Tells `stalled` by how much (µs) the event loop woke too late, if that is 50 ms or more.

    Remembers the worst (`worst_us`), also below that.
    """

    def __init__(self, stalled: Callable[[int], None]) -> None:
        self._stalled = stalled
        self.worst_us = 0

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            due_us = now_us() + EVERY_US
            await asyncio.sleep(EVERY_US / 1_000_000)
            late_us = now_us() - due_us
            self.worst_us = max(self.worst_us, late_us)
            if late_us >= STALLED_US:
                self._stalled(late_us)
