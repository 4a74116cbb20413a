"""How long are joins held back? By their airtime in the first hour, as LoRaMac does it."""

from bench.transmission import Transmission
from lns.clock import now_us

JOIN_HOUR_US = 3_600_000_000
JOIN_BUDGET_US = 36_000_000
"""Airtime of join-requests in the first hour after a boot; kept also without duty cycle."""


class JoinTimes:
    """Remembers since the boot the airtime of all joins."""

    def __init__(self) -> None:
        self._booted_us = now_us()
        self._joins_us = 0

    def note(self, sent: Transmission) -> None:
        """A join-request goes out."""
        self._joins_us += sent.airtime_us

    def wait_us(self) -> int:
        """How long joins are held back: until the hour is over, once its airtime is used up."""
        if self._joins_us < JOIN_BUDGET_US:
            return 0
        return max(self._booted_us + JOIN_HOUR_US - now_us(), 0)
