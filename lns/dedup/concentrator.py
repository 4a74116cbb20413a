"""Level 1: has this server heard this frame before, and through which station first?

ADR 007, part 1. One entry per frame, whose value is the station that delivered the *first*
copy and is never replaced. The retention slides: every hit renews it, whatever follows from the
hit. At exactly `retention_us` of silence the entry is gone.
"""

from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import NamedTuple

from cachetools import TTLCache

from lns.lorawan.identifiers import Eui, Mic

RETENTION_US = 60_000_000  # ADR 007: "a sliding expiration of 1 minute"
ENTRIES_MAX = 1_000_000


class Copy(StrEnum):
    """Which copy of a frame a reception is; a fact that knows no strategy."""

    FIRST = "first"
    SAME_STATION = "same station"
    OTHER_STATION = "other station"


class DataKey(NamedTuple):
    """Identity of a data frame (ADR 007, 1a): device whose MIC fits, MIC, counter on the wire."""

    dev_eui: Eui
    mic: Mic
    f_cnt_wire: int


class JoinKey(NamedTuple):
    """Identity of a join request (ADR 007, 1b)."""

    join_eui: Eui
    dev_eui: Eui
    dev_nonce: int


Key = DataKey | JoinKey


@dataclass(frozen=True, slots=True)
class Sighting:
    """The first station of a frame, and when that frame was heard last (µs)."""

    station: Eui
    heard_us: int


@dataclass(frozen=True, slots=True)
class Eviction:
    """An entry that had to leave before its time because the cache was full."""

    key: Key
    silent_us: int


class _Entries(TTLCache[Key, Sighting]):
    """A TTLCache that reports what it drops before the time."""

    def __init__(self, entries_max: int, retention_us: int, now_us: Callable[[], int]) -> None:
        super().__init__(maxsize=entries_max, ttl=retention_us, timer=now_us)
        self.evictions: list[Eviction] = []

    def popitem(self) -> tuple[Key, Sighting]:
        key, sighting = super().popitem()
        self.evictions.append(Eviction(key, round(self.timer()) - sighting.heard_us))
        return key, sighting


class Sightings:
    """The frames of the last minute and the station that delivered each of them first.

    Remembers at most `entries_max` frames for `retention_us` after their last copy. An eviction
    before that is never silent: `evictions()` hands each out once.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        retention_us: int = RETENTION_US,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        self._now_us = now_us
        self._entries = _Entries(entries_max, retention_us, now_us)

    def __len__(self) -> int:
        return len(self._entries)

    def note(self, key: Key, station: Eui) -> Copy:
        """Note one reception of a frame and tell which copy it is."""
        known = self._entries.get(key)
        first = station if known is None else known.station
        # cachetools expires from the last *write*: a hit must write, or nothing slides.
        self._entries[key] = Sighting(first, self._now_us())
        if known is None:
            return Copy.FIRST
        return Copy.SAME_STATION if station == first else Copy.OTHER_STATION

    def forget(self, key: Key) -> None:
        """Roll a first copy back that could not be made durable: its next copy is a first again."""
        self._entries.pop(key, None)

    def evictions(self) -> list[Eviction]:
        """The entries lost to a full cache since the last call."""
        evictions, self._entries.evictions = self._entries.evictions, []
        return evictions
