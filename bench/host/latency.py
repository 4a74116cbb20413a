"""Was this machine fast enough to judge a network server by?

On a wall clock the bench itself can be late: another program takes the processor, or the disk. The
guard asks the event loop to be woken every few milliseconds and notes whenever that came too late.
Of a network server in another process the kernel tells how long it was ready to run and had to
wait for a processor.
"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from lns.clock import now_us

EVERY_US = 10_000
STALLED_US = 50_000
_PROGRAM_EVERY_US = 100_000


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


class ProgramGuard:
    """Tells `stalled` how long (µs) a process waited for a processor in a tenth of a second.

    Only if that is 50 ms or more. Source: Linux, Documentation/scheduler/sched-stats.rst.
    """

    def __init__(self, stalled: Callable[[int], None]) -> None:
        self._stalled = stalled

    async def run(self, pid: int) -> None:
        """Watch until cancelled, or until the process is gone."""
        before_us = _waited_us(pid)
        while before_us is not None:
            await asyncio.sleep(_PROGRAM_EVERY_US / 1_000_000)
            waited_us = _waited_us(pid)
            if waited_us is not None and waited_us - before_us >= STALLED_US:
                self._stalled(waited_us - before_us)
            before_us = waited_us


def _waited_us(pid: int) -> int | None:
    """How long a process has waited for a processor so far; None for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) // 1_000
    except (OSError, IndexError):
        return None
