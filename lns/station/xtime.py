"""What moment of the server's clock does a station's `xtime` stand for?

    | 0 | unit 62..56 | session 55..48 | microseconds of the concentrator's counter 47..0 |

The session is drawn at every start of the radio and is never 0 (Basics Station, ral.h).
"""

from dataclasses import dataclass

from msgspec import Struct

COUNTER_BITS = 48
_COUNTER_MASK = (1 << COUNTER_BITS) - 1
_SESSION_MASK = 0xFF
_UNIT_MASK = 0x7F
_SESSION_SHIFT = 48
_UNIT_SHIFT = 56

DRIFT_PPM = 50
VERSION_WAIT_US = 1_000_000
REPORT_WAIT_US = 10_000_000
_SESSIONS_MAX = 16
_NEVER_US = 1 << 62


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


class _Offset(Struct, frozen=True):
    """Server clock minus station clock, and when on the server's clock that was seen (µs)."""

    offset_us: int
    seen_us: int


class StationClock:
    """One station's clock against the server's, through all its connections.

    A text arrives some time after the moment its `xtime` names, never before it: the smallest
    difference seen is the best estimate. A larger one replaces it only as far as two clocks that
    differ by 50 ppm can have moved apart since. Remembers the newest 16 sessions.

    A station starts its radio anew, and with it a session, at every `router_config`, but tells
    before that what it heard while the link was down. So a session runs when the station's own
    report of its clock, which follows the configuration, names it. Without a report it does when
    a frame names it 10 s after the connection began or the station was configured, whatever
    came last: no frame of an older session is under way for so long.
    """

    def __init__(self) -> None:
        self._offsets: dict[int, _Offset] = {}
        self._running: dict[int, int] = {}
        self._ended: set[int] = set()
        self._version_due_us = 0
        self._report_due_us = 0

    def connected(self, at_us: int) -> None:
        """A new connection: within 1 s it can become clear that the running session ends."""
        self._version_due_us = at_us + VERSION_WAIT_US
        self._report_due_us = at_us + REPORT_WAIT_US

    def configured(self, at_us: int) -> None:
        """The station was sent a `router_config`: every session known so far is over."""
        self._running.clear()
        self._ended.update(self._offsets)
        self._version_due_us = 0
        self._report_due_us = at_us + REPORT_WAIT_US

    def report(self, xtime: int, arrived_us: int) -> None:
        """Learn from the station's answer to `getxtime`, which names the running session."""
        if xtime <= 0:
            return
        self._run(self._learn(xtime, arrived_us))
        self._version_due_us = 0
        self._report_due_us = _NEVER_US  # a frame cannot take back what the station said

    def sample(self, xtime: int, arrived_us: int) -> None:
        """Learn from a frame of `xtime` (0: not told) that the station told of at `arrived_us`."""
        if xtime <= 0:
            return
        session = self._learn(xtime, arrived_us)
        if session not in self._ended and arrived_us >= self._report_due_us:
            self._run(session)

    def knows(self, xtime: int, at_us: int) -> bool:
        """Whether `xtime` belongs to the session that runs: only then can it be answered."""
        return at_us >= self._version_due_us and self.runs(xtime)

    def runs(self, xtime: int) -> bool:
        """Whether `xtime` belongs to a session that is known to run."""
        return xtime >> _SESSION_SHIFT in self._running.values()

    def lns_time_us(self, xtime: int) -> int | None:
        """The moment of `xtime` on the server's clock; None for a session never heard of."""
        known = self._offsets.get(xtime >> _SESSION_SHIFT)
        if known is None or xtime <= 0:
            return None
        return (xtime & _COUNTER_MASK) + known.offset_us

    def _learn(self, xtime: int, arrived_us: int) -> int:
        session = xtime >> _SESSION_SHIFT
        seen = _Offset(arrived_us - (xtime & _COUNTER_MASK), arrived_us)
        known = self._offsets.pop(session, None)
        if known is not None:
            limit_us = known.offset_us + _drift_us(arrived_us - known.seen_us)
            seen = seen if seen.offset_us <= limit_us else known
        self._offsets[session] = seen
        if len(self._offsets) > _SESSIONS_MAX:
            oldest = next(iter(self._offsets))
            del self._offsets[oldest]
            self._ended.discard(oldest)
        return session

    def _run(self, session: int) -> None:
        """`session` runs on its radio unit; every other one of that unit is over."""
        unit = _unit(session)
        self._ended.update(known for known in self._offsets if _unit(known) == unit)
        self._ended.discard(session)
        self._running[unit] = session


def _unit(session: int) -> int:
    return session >> (_UNIT_SHIFT - _SESSION_SHIFT)


def _drift_us(elapsed_us: int) -> int:
    return max(elapsed_us, 0) * DRIFT_PPM // 1_000_000
