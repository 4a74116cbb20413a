"""What was looked for, what was found, and what does that mean for each kind of run?"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum


class State(StrEnum):
    """How a check went: MISSING keeps something from working, WARNING does not."""

    OK = "OK"
    WARNING = "warning"
    MISSING = "missing"


class Purpose(StrEnum):
    """What a thing is needed for. A rig also needs what stands above it in this list."""

    NIGHTLY = "nightly on the simulated rig"
    EMULATED = "emulated rig"
    HARDWARE = "hardware rig"


@dataclass(frozen=True, slots=True)
class Check:
    """One thing that was looked for; `remedy` is the one command that mends it, "" when OK."""

    name: str
    purpose: Purpose
    state: State
    found: str
    remedy: str = ""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look found, before it has a name."""

    state: State
    found: str
    remedy: str = ""


Look = Callable[[], Looked]


def ok(found: str) -> Looked:
    return Looked(State.OK, found)


def warning(found: str, remedy: str) -> Looked:
    return Looked(State.WARNING, found, remedy)


def missing(found: str, remedy: str) -> Looked:
    return Looked(State.MISSING, found, remedy)


def checked(name: str, purpose: Purpose, look: Look) -> Check:
    """The check that a look makes; a look that breaks is a warning, as nothing is known then."""
    try:
        looked = look()
    except Exception as error:  # whatever a strange machine answers: the other checks go on
        looked = warning(f"could not be looked at: {error!r}", "lorabench doctor --help")
    return Check(name, purpose, looked.state, looked.found, looked.remedy)


def obstacles(checks: Sequence[Check], purpose: Purpose) -> list[Check]:
    """The missing things that keep this kind of run from working."""
    needed = list(Purpose)[: list(Purpose).index(purpose) + 1]
    return [check for check in checks if check.purpose in needed and check.state is State.MISSING]


def works(checks: Sequence[Check], purpose: Purpose) -> bool:
    """Whether nothing is missing for this kind of run."""
    return not obstacles(checks, purpose)
