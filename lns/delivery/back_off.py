"""How long is waited before something that failed is tried again?"""

import asyncio
import random
from dataclasses import dataclass

from lns.clock import now_us


def doubled_us(first_us: int, max_us: int, failures: int) -> int:
    """The wait after the n-th failure in a row, n from 1: doubled each time, up to a bound."""
    return min(max_us, first_us << min(failures - 1, 32))


@dataclass(frozen=True, slots=True)
class BackOff:
    """Waits before another connection: doubled with every failure, and half of each is chance."""

    first_us: int = 500_000
    max_us: int = 30_000_000

    def wait_us(self, failures: int, chance: random.Random) -> int:
        """The wait after the n-th failure in a row, n from 1, in µs."""
        whole_us = doubled_us(self.first_us, self.max_us, failures)
        return chance.randint(whole_us // 2, whole_us)


class Attempts:
    """Attempts to hold a connection; remembers how many in a row came to nothing.

    One that lasted longer than the longest wait came to something, and the waits begin anew.
    """

    def __init__(self, back_off: BackOff, chance: random.Random) -> None:
        self._back_off = back_off
        self._chance = chance
        self._failures = 0
        self._began_us = 0

    def begin(self) -> None:
        """Another attempt begins now."""
        self._began_us = now_us()

    def next_wait_us(self, *, useful: bool = False) -> int:
        """The attempt is over, and was `useful` or not: how long to wait before the next, in µs."""
        proved = useful or now_us() - self._began_us > self._back_off.max_us
        self._failures = 1 if proved else self._failures + 1
        return self._back_off.wait_us(self._failures, self._chance)

    async def wait(self, *, useful: bool = False) -> None:
        """The attempt is over: wait until the next one is due."""
        await asyncio.sleep(self.next_wait_us(useful=useful) / 1_000_000)
