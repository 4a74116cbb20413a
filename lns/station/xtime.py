"""What moment of the server's clock does a station's `xtime` stand for?

    | 0 | unit 62..56 | session 55..48 | microseconds of the concentrator's counter 47..0 |

The session is drawn at every start of the radio and is never 0 (Basics Station, ral.h).
"""

from dataclasses import dataclass

COUNTER_BITS = 48
_COUNTER_MASK = (1 << COUNTER_BITS) - 1
_SESSION_MASK = 0xFF
_UNIT_MASK = 0x7F
_SESSION_SHIFT = 48
_UNIT_SHIFT = 56

DRIFT_PPM = 50
_SESSIONS_MAX = 2


@dataclass(frozen=True, slots=True)
class XtimeParts:
    """An `xtime` taken apart: radio unit, session, counter in µs."""

    unit: int
    session: int
    counter_us: int


def split(xtime: int) -> XtimeParts:
    """The parts of an `xtime`."""
    return XtimeParts(
        xtime >> _UNIT_SHIFT & _UNIT_MASK,
        xtime >> _SESSION_SHIFT & _SESSION_MASK,
        xtime & _COUNTER_MASK,
    )


def join(unit: int, session: int, counter_us: int) -> int:
    """The `xtime` of these parts; the counter wraps at 48 bits."""
    head = (unit & _UNIT_MASK) << _UNIT_SHIFT | (session & _SESSION_MASK) << _SESSION_SHIFT
    return head | counter_us & _COUNTER_MASK


@dataclass(frozen=True, slots=True)
class _Offset:
    """Server clock minus station clock, and when on the server's clock that was seen (µs)."""

    offset_us: int
    seen_us: int


class StationClock:
    """One station's clock against the server's, for as long as the station is connected.

    A text arrives some time after the moment its `xtime` names, never before it: the smallest
    difference seen is the best estimate. A larger one replaces it only as far as two clocks that
    differ by 50 ppm can have moved apart since. Remembers the newest two sessions, so that a late
    text of the old one does not spoil the new.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, _Offset] = {}

    def sample(self, xtime: int, arrived_us: int) -> None:
        """Learn from a text that names `xtime` (0: it does not) and arrived at `arrived_us`."""
        if xtime <= 0:
            return
        parts = split(xtime)
        session = xtime >> _SESSION_SHIFT
        seen = _Offset(arrived_us - parts.counter_us, arrived_us)
        known = self._offsets.get(session)
        if known is None:
            self._offsets[session] = seen
            if len(self._offsets) > _SESSIONS_MAX:
                del self._offsets[next(iter(self._offsets))]
        elif seen.offset_us <= known.offset_us + _drift_us(arrived_us - known.seen_us):
            self._offsets[session] = seen

    def knows(self, xtime: int) -> bool:
        """Whether `xtime` belongs to the newest session: only then can it be answered."""
        return bool(self._offsets) and xtime >> _SESSION_SHIFT == next(reversed(self._offsets))

    def lns_time_us(self, xtime: int) -> int | None:
        """The moment of `xtime` on the server's clock; None for a session never heard of."""
        known = self._offsets.get(xtime >> _SESSION_SHIFT)
        if known is None or xtime <= 0:
            return None
        return split(xtime).counter_us + known.offset_us


def _drift_us(elapsed_us: int) -> int:
    return max(elapsed_us, 0) * DRIFT_PPM // 1_000_000
