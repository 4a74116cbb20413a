"""How long must a device keep silent? The duty cycle as LoRaMac keeps it."""

from bench.emulation.emission import Emission
from lns.clock import now_us
from lns.lorawan.region import DutyCycleBand

JOIN_HOUR_US = 3_600_000_000
JOIN_BUDGET_US = 36_000_000
"""Airtime of join-requests in the first hour after a boot; kept also without duty cycle."""


class AirTimes:
    """Remembers since the boot until when each band is used up, and the airtime of all joins."""

    def __init__(self) -> None:
        self._free_us: dict[int, int] = {}
        self._booted_us = now_us()
        self._joins_us = 0

    def note(self, band: DutyCycleBand | None, emission: Emission) -> None:
        """A frame goes out: its band is silent for the rest of its share."""
        if band is not None:
            silence_us = emission.airtime_us * (1000 - band.per_mille) // band.per_mille
            self._free_us[band.per_mille] = emission.end_us + silence_us

    def wait_us(self, band: DutyCycleBand | None) -> int:
        """How long a band is used up; 0 if it is free."""
        if band is None:
            return 0
        return max(self._free_us.get(band.per_mille, 0) - now_us(), 0)

    def note_join(self, emission: Emission) -> None:
        """A join-request goes out."""
        self._joins_us += emission.airtime_us

    def join_wait_us(self) -> int:
        """How long joins are held back: until the hour is over, once its airtime is used up."""
        if self._joins_us < JOIN_BUDGET_US:
            return 0
        return max(self._booted_us + JOIN_HOUR_US - now_us(), 0)
