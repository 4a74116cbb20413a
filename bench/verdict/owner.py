"""Whose matter is it, when something is not as it should be, and what was found?"""

import difflib
import traceback
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from types import TracebackType


class Owner(StrEnum):
    """The closed list of those who can own a finding; the value is what captures and tables have.

    `shown` is the word for people.
    """

    LNS = "LNS"
    GATEWAY = "gateway"
    DEVICE = "device"
    AIR = "air"
    APPLICATION = "application"
    STORE = "store"
    BROKER = "broker"
    BENCH = "bench"

    @property
    def shown(self) -> str:
        return "network server" if self is Owner.LNS else self.value


class ScenarioMistake(Exception):
    """A scenario asks for something that is not there; the text says what would be right."""


def not_there(what: str, name: str, known: Iterable[str]) -> ScenarioMistake:
    """The mistake of a name that nothing has: what there is, and which of it may be meant."""
    names = list(known)
    near = [repr(one) for one in difflib.get_close_matches(name, names, n=2)]
    meant = f"; did you mean {' or '.join(near)}?" if near else ""
    return ScenarioMistake(f"no {what} {name!r}; known: {', '.join(names) or 'none'}{meant}")


def place_in(file: str, trace: TracebackType | None) -> str | None:
    """Where in a file something was raised, as `file:line`; None where it was not there at all.

    `file` may be relative; the innermost line counts, for a scenario has functions of its own.
    """
    wanted = Path(file).parts
    for frame in reversed(traceback.extract_tb(trace)):
        if Path(frame.filename).parts[-len(wanted) :] == wanted:
            return f"{file}:{frame.lineno}"
    return None


FINDING = "case.finding"
"""The kind of event that tells of it."""
GONE = "a server keeps going"
"""The rule that who is under test has broken by its end, or by silence for many seconds."""
NO_PROTOCOL = "a text of the protocol"
"""The rule that a text for a station has broken that is no JSON, or of a kind that nobody knows."""
SURE = frozenset({GONE, NO_PROTOCOL})
"""No stall of the host up to `SURE_STALL_MAX_US` is why one of these was broken."""
SURE_STALL_MAX_US = 2_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One thing that is not as it has to be: which field, what was due and what was there.

    It decides the verdict of its case.
    """

    rule: str
    text: str
    t_us: int
    owner: Owner = Owner.LNS
    expected: str | None = None
    observed: str | None = None
    frame_id: str | None = None
    station: str | None = None

    def fields(self) -> dict[str, object]:
        fields: dict[str, object] = {"owner": self.owner, "rule": self.rule, "text": self.text}
        optional = {
            "expected": self.expected,
            "observed": self.observed,
            "frame_id": self.frame_id,
            "station": self.station,
        }
        return fields | {name: value for name, value in optional.items() if value is not None}


@dataclass(frozen=True, slots=True, kw_only=True)
class Scrutiny:
    """Compares what one text says, field by field, with what it should say.

    `of` is how its findings begin: which text, through which station, to which frame.
    """

    rule: str
    of: str
    t_us: int
    station: str | None = None
    frame_id: str | None = None

    def wrong(self, field: str, expected: object, observed: object) -> Found:
        due, seen = told(expected), told(observed)
        return Found(
            rule=self.rule, text=f"{self.of}: {field}: expected {due}, observed {seen}",
            t_us=self.t_us, expected=due, observed=seen, frame_id=self.frame_id,
            station=self.station,
        )  # fmt: skip

    def same(self, field: str, expected: object, observed: object) -> Iterator[Found]:
        """Nothing, or the field if it has another value than due.

        A word of an enum is that word, as a capture that was read back has it.
        """
        words = isinstance(expected, str) and isinstance(observed, str)
        if not (words or type(expected) is type(observed)) or expected != observed:
            yield self.wrong(field, expected, observed)

    def about(self, rule: str) -> "Scrutiny":
        return replace(self, rule=rule)


def told(value: object) -> str:
    """A value for people, in one short line."""
    match value:
        case None:
            return "none"
        case bool():
            return "yes" if value else "no"
        case bytes():
            return value.hex() or "nothing"
        case _:
            said = " ".join(str(value).split())
            return said if len(said) <= 80 else f"{said[:77]}..."
