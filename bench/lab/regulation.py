"""What may the radios of a lab send: air time, power, region, and how near to each other?"""

import json
import os
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path

from lns.clock import since_1970_us
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
    spans = (min(one.end_us, until_us) - max(one.start_us, since_us) for one in booked)
    return sum(max(span_us, 0) for span_us in spans)


@dataclass(frozen=True, slots=True)
class _Line:
    transmitter: str
    freq_hz: int
    airtime_us: int
    start_utc_us: int


class LastingLedger(AirtimeLedger):
    """An airtime ledger that begins with what its file has of the last hour, and goes on in it.

    `now_us` and `utc` are the two clocks at this moment. Only one run may have the file at a time:
    that of the bench's lock. OSError where the file cannot be written.
    """

    def __init__(
        self, region: Region, file: Path, *, conducted: bool, now_us: int, utc: datetime
    ) -> None:
        super().__init__(region, conducted=conducted)
        self._file = file
        utc_us = since_1970_us(utc)
        self._ahead_us = utc_us - now_us
        kept = [line for line in _read(file) if line.start_utc_us > utc_us - 2 * HOUR_US]
        # A wall clock that was set back must not make a transmission one of tomorrow.
        kept = [_ended(line, by_utc_us=utc_us) for line in kept]
        for line in sorted(kept, key=lambda line: line.start_utc_us):
            start_us = line.start_utc_us - self._ahead_us
            super().note(line.transmitter, line.freq_hz, line.airtime_us, start_us)
        aside = file.with_name(f"{file.name}.{os.getpid()}")
        aside.write_text("".join(map(_text, kept)), encoding="utf-8")
        aside.replace(file)

    def note(self, transmitter: str, freq_hz: int, airtime_us: int, start_us: int) -> None:
        super().note(transmitter, freq_hz, airtime_us, start_us)
        line = _Line(transmitter, freq_hz, airtime_us, start_us + self._ahead_us)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(_text(line))


def _read(file: Path) -> Iterator[_Line]:
    if not file.is_file():
        return
    for text in file.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            fields = json.loads(text)
            numbers = (int(fields[name]) for name in ("freq_hz", "airtime_us", "start_utc_us"))
            yield _Line(str(fields["transmitter"]), *numbers)
        except (ValueError, TypeError, KeyError):
            continue  # torn when its writer died


def _ended(line: _Line, *, by_utc_us: int) -> _Line:
    return replace(line, start_utc_us=min(line.start_utc_us, by_utc_us - line.airtime_us))


def _text(line: _Line) -> str:
    return json.dumps(asdict(line)) + "\n"


def check_eirp(name: str, power_dbm: int, region: Region, eirp_dbm_max: int) -> str | None:
    """What is wrong with the power that a device says it sends with, the region's cap included."""
    allowed_dbm = min(eirp_dbm_max, region.max_eirp_dbm)
    if power_dbm <= allowed_dbm:
        return None
    whose = "the bench" if eirp_dbm_max <= region.max_eirp_dbm else region.name
    return (
        f"{name} sends with {power_dbm} dBm EIRP, {whose} allows {allowed_dbm} dBm:"
        " set its power_dbm in the bench file"
    )


def check_region(name: str, said: str, region: Region) -> str | None:
    """What is wrong with the region that a device says it uses."""
    if said == region.name:
        return None
    return (
        f"{name} uses the region {said}, this bench is in {region.name}:"
        " provision it before it sends anything"
    )


RSSI_DBM_MAX = -40
TWINS_WITHIN_US = 1_000
_MICROSECONDS = (1 << 48) - 1
"""The part of a station's xtime that counts; above it are radio and session."""


@dataclass(frozen=True, slots=True)
class HeardFrame:
    """One reception as a station tells of it: who, what (PHYPayload, hex), where, how strong."""

    station: str
    phy: str
    freq_hz: int
    rssi_dbm: int
    xtime: int

    @property
    def counter_us(self) -> int:
        """The station's own count of microseconds; only for comparison at one station."""
        return self.xtime & _MICROSECONDS

    def is_twin_of(self, other: "HeardFrame") -> bool:
        """Whether both are one transmission, heard on two channels of one station."""
        return (
            (self.station, self.phy) == (other.station, other.phy)
            and self.freq_hz != other.freq_hz
            and abs(self.counter_us - other.counter_us) <= TWINS_WITHIN_US
        )


def near_field(
    receptions: Iterable[HeardFrame], *, rssi_dbm_max: int = RSSI_DBM_MAX
) -> tuple[str, ...]:
    """What tells of radios too close, one line for each station and sign, with advice."""
    heard = list(receptions)
    lines = []
    for station in dict.fromkeys(one.station for one in heard):
        here = [one for one in heard if one.station == station]
        strongest_dbm = max(one.rssi_dbm for one in here)
        if strongest_dbm > rssi_dbm_max:
            lines.append(
                f"near-field: {station} heard a frame with {strongest_dbm} dBm, more than"
                f" {rssi_dbm_max} dBm: put more attenuation or distance before it"
            )
        if twins := _first_twins(here):
            lines.append(_told(station, *twins))
    return tuple(lines)


def _first_twins(here: list[HeardFrame]) -> tuple[HeardFrame, HeardFrame] | None:
    by_phy: dict[str, list[HeardFrame]] = {}
    for one in here:
        earlier = by_phy.setdefault(one.phy, [])
        if twin := next((other for other in earlier if other.is_twin_of(one)), None):
            return twin, one
        earlier.append(one)
    return None


def _told(station: str, first: HeardFrame, second: HeardFrame) -> str:
    apart_us = abs(second.counter_us - first.counter_us)
    return (
        f"near-field: {station} heard one frame twice, {apart_us} us apart, on"
        f" {first.freq_hz / 1e6:g} and {second.freq_hz / 1e6:g} MHz: a device is so strong that"
        " its image is received; put more attenuation or distance before this station"
    )
