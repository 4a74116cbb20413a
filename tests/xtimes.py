"""An `xtime` put together from its parts, and taken apart (Basics Station, ral.h)."""

from dataclasses import dataclass

_COUNTER_MASK = (1 << 48) - 1
_SESSION_MASK = 0xFF
_UNIT_MASK = 0x7F
_SESSION_SHIFT = 48
_UNIT_SHIFT = 56


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
