"""When was each frame of a log on the air, by the two clocks that the log has?

`tmst` is the concentrator's counter: exact, but it wraps every 71.6 minutes and starts anew with
the gateway. `t` is the wall clock of whoever wrote the log: late by some hundred milliseconds.
So `t` tells how often `tmst` has wrapped, and steps in where the two do not go together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

WRAP_US = 1 << 32
APART_MAX_US = 10_000_000


@dataclass(frozen=True, slots=True)
class Stamp:
    """The time of one frame on each clock (µs), None where the log does not tell it."""

    wall_us: int | None
    counter_us: int | None

    @classmethod
    def of(cls, t: str | None, tmst: int | None) -> "Stamp":
        """Read the fields of a record; ValueError for an unknown spelling, or neither clock."""
        if t is None and tmst is None:
            raise ValueError("neither `t` nor `tmst` tells when the frame was heard")
        return cls(None if t is None else _wall_us(t), None if tmst is None else tmst % WRAP_US)


def times_us(stamps: Sequence[Stamp]) -> list[int]:
    """The time of each frame, in the order given, in µs since the earliest of them."""
    times: list[int] = []
    for before, stamp in zip([None, *stamps], stamps, strict=False):
        times.append(0 if before is None else times[-1] + _step_us(before, stamp))
    earliest = min(times, default=0)
    return [time - earliest for time in times]


def _step_us(before: Stamp, stamp: Stamp) -> int:
    wall_us = None
    if before.wall_us is not None and stamp.wall_us is not None:
        wall_us = stamp.wall_us - before.wall_us
    if before.counter_us is None or stamp.counter_us is None:
        return wall_us or 0
    counter_us = (stamp.counter_us - before.counter_us) % WRAP_US
    if wall_us is None:
        return counter_us
    counter_us += round((wall_us - counter_us) / WRAP_US) * WRAP_US
    return counter_us if abs(counter_us - wall_us) <= APART_MAX_US else wall_us


def _wall_us(text: str) -> int:
    # Python's logging writes "2020-08-11 22:17:31,291", others a dot or a T.
    try:
        wall = datetime.fromisoformat(text.replace(",", "."))
    except ValueError:
        raise ValueError(f"`t` is no time: {text!r}") from None
    if wall.tzinfo is None:
        wall = wall.replace(tzinfo=UTC)
    since = wall - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds
