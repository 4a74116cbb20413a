"""Level 1: has this server heard this frame before, and through which station first?

ADR 007, part 1. One entry per frame, whose value is the station that delivered the *first*
copy and is never replaced. The retention slides: every hit renews it, whatever follows from the
hit. At exactly `retention_us` of silence the entry is gone.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from cachetools import Cache, TTLCache
from msgspec import Struct

from lns.dedup.session import Lived
from lns.lorawan.identifiers import Eui, Mic

RETENTION_US = 60_000_000  # ADR 007: "a sliding expiration of 1 minute"
ENTRIES_MAX = 1_000_000
# Old entries leave a few at a time: after a quiet minute nobody waits until all of them have.
_LEAVE_AT_ONCE = 64


class Copy(StrEnum):
    """Which copy of a frame a reception is; a fact that knows no strategy."""

    FIRST = "first"
    SAME_STATION = "same station"
    OTHER_STATION = "other station"


FIRST, SAME_STATION, OTHER_STATION = Copy


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


class Sighting(Struct, gc=False):
    """The first station of a frame, when that frame was heard last (µs), and which frame it is.

    `lived` is None as long as nobody has found out.
    """

    station: Eui
    heard_us: int
    lived: Lived | None = None


_NOBODY = Sighting(Eui(""), 0)


@dataclass(frozen=True, slots=True)
class Eviction:
    """An entry that had to leave before its time because the cache was full."""

    key: Key
    silent_us: int


class _Frames(TTLCache[Key, Sighting]):
    """A `TTLCache` in which nobody waits until all that is due has left.

    The base calls `expire` with each write, and lets everything due leave: for 200 000 entries that
    takes half a second. This one marks the time of every 64th write and, with each write, lets
    leave what is due up to the oldest mark. What is due and still there counts as gone; `expire()`
    without a time removes all of it.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        retention_us: int,
        entries_max: int,
        evicted: Callable[[Eviction], None],
    ) -> None:
        super().__init__(entries_max, retention_us, timer=now_us)
        self._evicted = evicted
        self._retention_us = retention_us
        self._marks_us: deque[float] = deque()
        self._unmarked = 0

    def known(self, key: Key, now_us: int) -> Sighting:
        """What was heard of a frame and is not due yet: `self[key]` at a third of its price."""
        if not Cache.__contains__(self, key):
            return _NOBODY
        found = Cache.__getitem__(self, key)
        return found if now_us - found.heard_us < self._retention_us else _NOBODY

    def expire(self, time: float | None = None) -> list[tuple[Key, Sighting]]:
        if time is None:
            return super().expire()
        self._unmarked += 1
        if self._unmarked == _LEAVE_AT_ONCE:
            self._unmarked = 0
            self._marks_us.append(time + self._retention_us)
        if not self._marks_us or time < self._marks_us[0]:
            return []
        return super().expire(self._marks_us.popleft())

    def popitem(self) -> tuple[Key, Sighting]:
        """Make room: what leaves before its time is an eviction."""
        due: list[tuple[Key, Sighting]] = []
        while not due and self._marks_us and self._marks_us[0] <= self.timer():
            due = super().expire(self._marks_us.popleft())
        due = due or super().expire()  # then there is no mark, and not more than 64 are due
        if due:
            return due[0]
        key, sighting = super().popitem()
        self._evicted(Eviction(key, int(self.timer()) - sighting.heard_us))
        return key, sighting


class Sightings:
    """The frames of the last minute and the station that delivered each of them first.

    Remembers at most `entries_max` frames for `retention_us` after their last copy, each in about
    490 octets. An eviction before that is never silent: `evicted` is told each.

    Measured (`tests/benchmarks/level1.py`, cachetools 8.0.0, processor time): a reception takes 5
    to 7 µs here, a map written by hand took 2 to 3; of the whole server, 80 µs, that is 4 %. After
    a quiet minute with 200 000 entries the first write to a bare `TTLCache` takes 150 to 550 ms,
    the longest of the first 5 000 here 0.3 ms, up to 4 ms if the garbage collector walks them then.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        retention_us: int = RETENTION_US,
        entries_max: int = ENTRIES_MAX,
        evicted: Callable[[Eviction], None] = lambda eviction: None,
    ) -> None:
        self._frames = _Frames(now_us, retention_us, entries_max, evicted)
        self._now_us = now_us

    def __len__(self) -> int:
        self._frames.expire()
        return len(self._frames)

    def __contains__(self, key: Key) -> bool:
        """Whether a frame was heard a short while ago; asking does not renew it."""
        return key in self._frames

    def note(self, key: Key, station: Eui) -> Copy:
        """Note one reception of a frame and tell which copy it is."""
        now_us = self._now_us()
        known = self._frames.known(key, now_us)
        first = known.station or station
        self._frames[key] = Sighting(first, now_us, known.lived)  # sliding: a hit writes
        if known is _NOBODY:
            return FIRST
        return SAME_STATION if station == first else OTHER_STATION

    def place(self, key: Key, lived: Lived) -> None:
        """Remember of a frame in which life it lies, for its copies; it renews nothing."""
        known = self._frames.known(key, 0)  # of one that is due nobody is told any more
        if known is not _NOBODY:
            known.lived = lived

    def lived(self, key: Key) -> Lived | None:
        """In which life a frame lies that was heard a short while ago, where that is known."""
        return self._frames.known(key, self._now_us()).lived

    def forget(self, key: Key) -> None:
        """Roll a first copy back that could not be made durable: its next copy is a first again."""
        self._frames.pop(key, None)
