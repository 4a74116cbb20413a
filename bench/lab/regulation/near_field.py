"""Are the radios of a bench too close to each other?

A device too near overloads a concentrator. Then frames arrive stronger than any should, or one
frame is received twice by one station, some microseconds apart on two channels: its image (sx1302
hal issue 48, lora_gateway issue 45). A retransmission comes seconds later.
"""

from collections.abc import Iterable
from dataclasses import dataclass

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
