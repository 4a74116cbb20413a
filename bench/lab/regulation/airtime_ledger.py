"""May this transmitter send now, and if not, when?

In a band with a duty cycle a transmitter may be on the air for a share of any hour. The bands are
those of the region (`lns.lorawan.region`): EU868 1 % in 868.0-868.6 and 869.7-870 MHz, 10 % in
869.4-869.65 MHz, 0.1 % everywhere else, 867.x included (ETSI EN 300 220). That is the division of
Basics Station, in which ranges share one budget: at least as strict as the limits of devices.
US915 has no duty cycle; no uplink may take longer than 400 ms there (FCC 15.247), each looked at by
itself. On cables, or in a shield box, none of this binds.
"""

from collections import deque
from dataclasses import dataclass

from lns.lorawan.region import DutyCycleBand, Region

HOUR_US = 3_600_000_000


class NeverPermitted(ValueError):
    """A transmission that no waiting makes lawful."""


@dataclass(frozen=True, slots=True)
class Share:
    """What a transmitter has used of one band during the last hour, and what it may use (µs)."""

    band: DutyCycleBand
    used_us: int
    limit_us: int

    def __str__(self) -> str:
        """A line for a person: "868.0-868.6 MHz: 12.300 s of 36.000 s"."""
        low_hz, high_hz = self.band.ranges_hz[0]
        band = f"{low_hz / 1e6:.1f}-{high_hz / 1e6:.2f} MHz"
        return f"{band}: {self.used_us / 1e6:.3f} s of {self.limit_us / 1e6:.3f} s"


@dataclass(frozen=True, slots=True)
class _Booked:
    start_us: int
    end_us: int


class AirtimeLedger:
    """The airtime of each physical transmitter; remembers one hour of it, by band.

    A transmitter is a radio, by its name on the bench, whatever DevEUI it uses. With `conducted`
    nobody ever waits, but the books are kept. `window_us` is the hour.
    """

    def __init__(self, region: Region, *, conducted: bool, window_us: int = HOUR_US) -> None:
        self._region = region
        self._conducted = conducted
        self._window_us = window_us
        self._booked: dict[tuple[str, DutyCycleBand], deque[_Booked]] = {}

    def due_us(self, transmitter: str, freq_hz: int, airtime_us: int, now_us: int) -> int:
        """The earliest time, now or later, at which this may be sent.

        NeverPermitted for a frequency outside the region, for an uplink over the dwell time, and
        for one that is longer than what its band allows in an hour.
        """
        low_hz, high_hz = self._region.freq_range_hz
        if not low_hz <= freq_hz <= high_hz:
            raise NeverPermitted(
                f"{self._region.name} is {low_hz / 1e6:g} to {high_hz / 1e6:g} MHz:"
                f" {transmitter} may not send on {freq_hz / 1e6:g} MHz"
            )
        if self._conducted:
            return now_us
        dwell_us = self._region.uplink_dwell_us
        if dwell_us is not None and airtime_us > dwell_us:
            raise NeverPermitted(
                f"{self._region.name} allows {dwell_us} us on the air at a time:"
                f" {transmitter} may not send for {airtime_us} us"
            )
        band = self._region.duty_cycle_band(freq_hz)
        if band is None:
            return now_us
        return self._earliest_us(transmitter, band, airtime_us, now_us)

    def _earliest_us(
        self, transmitter: str, band: DutyCycleBand, airtime_us: int, now_us: int
    ) -> int:
        """When enough of what was sent lies an hour back, as seen from the end of this."""
        allowed_us = self._limit_us(band)
        if airtime_us > allowed_us:
            raise NeverPermitted(
                f"{self._region.name} allows {allowed_us} us an hour in this band:"
                f" {transmitter} may not send for {airtime_us} us"
            )
        booked = self._booked.get((transmitter, band), ())
        free_us = allowed_us - airtime_us
        # From the newest back: the first that does not fit any more has to be an hour old.
        for one in reversed(booked):
            free_us -= one.end_us - one.start_us
            if free_us < 0:
                return max(now_us, one.end_us + self._window_us - airtime_us)
        return now_us

    def note(self, transmitter: str, freq_hz: int, airtime_us: int, start_us: int) -> None:
        """Book what was sent; a transmitter has one radio, so that its frames follow each other."""
        band = self._region.duty_cycle_band(freq_hz)
        if band is None:
            return
        booked = self._booked.setdefault((transmitter, band), deque())
        booked.append(_Booked(start_us, start_us + airtime_us))
        while booked[0].end_us <= start_us - self._window_us:
            booked.popleft()

    def share(self, transmitter: str, now_us: int) -> tuple[Share, ...]:
        """What it has used during the last hour of each band it sent in, in order of the bands."""
        since_us = now_us - self._window_us
        return tuple(
            Share(band, _within_us(booked, since_us, now_us), self._limit_us(band))
            for band in self._region.duty_cycle_bands
            if (booked := self._booked.get((transmitter, band)))
        )

    def _limit_us(self, band: DutyCycleBand) -> int:
        return self._window_us * band.per_mille // 1000


def _within_us(booked: deque[_Booked], since_us: int, until_us: int) -> int:
    """How long anything of this was on the air in a span of time."""
    spans = (min(one.end_us, until_us) - max(one.start_us, since_us) for one in booked)
    return sum(max(span_us, 0) for span_us in spans)
