"""Level 1: has this server heard this frame before, and through which station first?

ADR 007, part 1. One entry per frame, whose value is the station that delivered the *first*
copy and is never replaced. The retention slides: every hit renews it, whatever follows from the
hit. At exactly `retention_us` of silence the entry is gone.
"""

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from msgspec import Struct

from lns.lorawan.identifiers import Eui, Mic

RETENTION_US = 60_000_000  # ADR 007: "a sliding expiration of 1 minute"
ENTRIES_MAX = 1_000_000
# Old entries leave a few at a time: after a quiet minute nobody waits until all of them have.
_LEAVE_AT_ONCE = 8


class Copy(StrEnum):
    """Which copy of a frame a reception is; a fact that knows no strategy."""

    FIRST = "first"
    SAME_STATION = "same station"
    OTHER_STATION = "other station"


class DataKey(Struct, frozen=True, gc=False, cache_hash=True):
    """Identity of a data frame (ADR 007, 1a): device whose MIC fits, MIC, counter on the wire."""

    dev_eui: Eui
    mic: Mic
    f_cnt_wire: int


class JoinKey(Struct, frozen=True, gc=False, cache_hash=True):
    """Identity of a join request (ADR 007, 1b)."""

    join_eui: Eui
    dev_eui: Eui
    dev_nonce: int


Key = DataKey | JoinKey
# Keys and sightings refer to nothing that refers back: the garbage collector, which stops the
# server while it walks what it watches, does not watch them (`gc=False`).


class Sighting(Struct, frozen=True, gc=False):
    """The first station of a frame, and when that frame was heard last (µs)."""

    station: Eui
    heard_us: int


@dataclass(frozen=True, slots=True)
class Eviction:
    """An entry that had to leave before its time because the cache was full."""

    key: Key
    silent_us: int


class Sightings:
    """The frames of the last minute and the station that delivered each of them first.

    Remembers at most `entries_max` frames for `retention_us` after their last copy, each in about
    350 octets. An eviction before that is never silent: `evictions()` hands each out once.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        retention_us: int = RETENTION_US,
        entries_max: int = ENTRIES_MAX,
    ) -> None:
        self._now_us = now_us
        self._retention_us = retention_us
        self._entries_max = entries_max
        self._entries: OrderedDict[Key, Sighting] = OrderedDict()  # the longest silent first
        self._evictions: list[Eviction] = []

    def __len__(self) -> int:
        self._expire(self._now_us() - self._retention_us, len(self._entries))
        return len(self._entries)

    def __contains__(self, key: Key) -> bool:
        """Whether a frame was heard a short while ago; asking does not renew it."""
        known = self._entries.get(key)
        return known is not None and known.heard_us > self._now_us() - self._retention_us

    def note(self, key: Key, station: Eui) -> Copy:
        """Note one reception of a frame and tell which copy it is."""
        now_us = self._now_us()
        over_us = now_us - self._retention_us
        self._expire(over_us, _LEAVE_AT_ONCE)
        known = self._entries.get(key)
        if known is not None and known.heard_us <= over_us:
            known = None
        first = station if known is None else known.station
        self._entries[key] = Sighting(first, now_us)
        self._entries.move_to_end(key)
        if len(self._entries) > self._entries_max:
            oldest, sighting = self._entries.popitem(last=False)
            self._evictions.append(Eviction(oldest, now_us - sighting.heard_us))
        if known is None:
            return Copy.FIRST
        return Copy.SAME_STATION if station == first else Copy.OTHER_STATION

    def forget(self, key: Key) -> None:
        """Roll a first copy back that could not be made durable: its next copy is a first again."""
        self._entries.pop(key, None)

    def evictions(self) -> list[Eviction]:
        """The entries lost to a full cache since the last call."""
        evictions, self._evictions = self._evictions, []
        return evictions

    def _expire(self, over_us: int, entries_max: int) -> None:
        """Drop entries that have been silent since `over_us`."""
        for _ in range(entries_max):
            oldest = next(iter(self._entries.values()), None)
            if oldest is None or oldest.heard_us > over_us:
                return
            self._entries.popitem(last=False)
