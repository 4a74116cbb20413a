"""What is wrong in a scenario, and where: its file, its line, and what would be right there."""

import difflib
import traceback
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType


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
