"""What does a detector of duplicates say, and what is wrong with how one was configured?"""

from enum import StrEnum

from msgspec import Struct

DAY_US = 86_400_000_000


class ConfigurationError(ValueError):
    """A detector cannot be what was asked for; the text names what was asked and what may be."""


class Detector(StrEnum):
    """Who recognised a duplicate."""

    WINDOW = "window"
    SEQUENCE = "sequence"
    KEY = "key"


class Duplicate(Struct, frozen=True):
    """A message that was there before: `by` whom it was recognised, and the position it has then.

    For a sequence number that is the position of the newest message of the stream.
    """

    by: Detector
    first_position: int


def duration(us: int) -> str:
    """A time in the largest unit that leaves a whole number."""
    for unit_us, unit in ((DAY_US, "d"), (3_600_000_000, "h"), (60_000_000, "min")):
        if us and us % unit_us == 0:
            return f"{us // unit_us} {unit}"
    return f"{us // 1_000_000} s" if us % 1_000_000 == 0 else f"{us} us"
