"""Which receptions are of one transmission, and which stations are meant to have heard it?

Real gateways hear all that is on the air. To let only one hear a frame, the taps of the others lose
it; which frame is which can be told by its bytes and the moment it came.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field

TOGETHER_US = 500_000
"""Receptions of one transmission come within this time; no radio sends the same frame twice so
soon (a class A device listens for at least one second first)."""


@dataclass(slots=True, eq=False)
class HeardTransmission:
    """One transmission, as the stations told of it; `audible` None means: to all of them."""

    phy: bytes
    since_us: int
    audible: tuple[str, ...] | None
    injected: bool
    told_by: list[str] = field(default_factory=list)


class Audibility:
    """Who hears what in one case; remembers the transmissions of the last moments.

    `only` and `schedule` are for frames of devices, one entry for each transmission; what the
    replayer sends says for itself who is to hear it.
    """

    def __init__(self) -> None:
        self._only: tuple[str, ...] | None = None
        self._schedule: list[tuple[str, ...]] = []
        self._injected: list[tuple[bytes, tuple[str, ...]]] = []
        self._recent: list[HeardTransmission] = []
        self.told_injected = 0
        """How many transmissions of the replayer were heard by those who were to."""

    def only(self, stations: Iterable[str] | None) -> None:
        """Let no other station hear any device from now on; None: all of them do."""
        self._only = None if stations is None else tuple(stations)

    def schedule(self, entries: Iterable[tuple[str, ...]]) -> None:
        """Let the next transmissions be heard by these."""
        self._schedule = list(entries)

    def expect_injected(self, phy: bytes, stations: tuple[str, ...]) -> None:
        """Let the next transmission of these bytes be the replayer's, heard by these."""
        self._injected.append((phy, stations))

    def heard(self, station: str, phy: bytes, at_us: int) -> tuple[HeardTransmission, bool]:
        """The transmission that a station tells of, and whether it is a new one."""
        self._recent = [one for one in self._recent if at_us - one.since_us <= TOGETHER_US]
        for one in self._recent:
            if one.phy == phy and station not in one.told_by:
                return self._told(one, station), False
        one = self._begin(phy, at_us)
        self._recent.append(one)
        return self._told(one, station), True

    def _told(self, one: HeardTransmission, station: str) -> HeardTransmission:
        one.told_by.append(station)
        self.told_injected += one.injected and self.is_audible(station, one)
        return one

    def is_audible(self, station: str, one: HeardTransmission) -> bool:
        """Whether this station is meant to have heard it."""
        return one.audible is None or station in one.audible

    def _begin(self, phy: bytes, at_us: int) -> HeardTransmission:
        for place, (expected, stations) in enumerate(self._injected):
            if expected == phy:
                del self._injected[place]
                return HeardTransmission(phy, at_us, stations, injected=True)
        if self._schedule:
            self._only = self._schedule.pop(0)
        return HeardTransmission(phy, at_us, self._only, injected=False)
