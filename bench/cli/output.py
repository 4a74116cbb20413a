"""How does a result reach stdout, as text for people or JSON for programs, and what the shell?"""

import json
import re
import shlex
import sys
from collections.abc import Iterable, Sequence
from enum import IntEnum
from pathlib import Path
from typing import Any

from lns.complaints import without_controls


class ExitCode(IntEnum):
    """The exit codes of every command; scripts rely on them."""

    PASSED = 0
    FAILED = 1
    INTERRUPTED = 2
    USAGE = 4
    REPEATED = 10
    INCONCLUSIVE = 11
    BENCH_ERROR = 12


MEANINGS = {
    ExitCode.PASSED: "every verdict is a PASS at the first attempt, or nothing was to be judged",
    ExitCode.FAILED: "at least one FAIL",
    ExitCode.INTERRUPTED: "interrupted",
    ExitCode.USAGE: "usage or configuration: the message says what to change",
    ExitCode.REPEATED: "no FAIL, but passes on a repeated stimulus",
    ExitCode.INCONCLUSIVE: "no FAIL, but more INCONCLUSIVE than is allowed",
    ExitCode.BENCH_ERROR: "the bench itself failed, or the run is incomplete or has no verdict",
}

# The first of these that applies to one of several runs is the exit code of all of them.
_WORST_FIRST = (
    ExitCode.INTERRUPTED,
    ExitCode.USAGE,
    ExitCode.BENCH_ERROR,
    ExitCode.FAILED,
    ExitCode.INCONCLUSIVE,
    ExitCode.REPEATED,
    ExitCode.PASSED,
)


def worst(codes: Iterable[int]) -> ExitCode:
    """The exit code of several runs together; BENCH_ERROR for none, as there is no verdict."""
    found = {ExitCode(code) for code in codes}
    return next((code for code in _WORST_FIRST if code in found), ExitCode.BENCH_ERROR)


class Refused(Exception):
    """The command cannot do what was asked; the text says why, and what to do next."""

    exit_code = ExitCode.USAGE


class BenchBroken(Refused):
    """The bench cannot work, through no mistake of the person who asked."""

    exit_code = ExitCode.BENCH_ERROR


PROGRAM = "lorabench"
_RAW = re.compile(r"[\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


def print_json(document: Any) -> None:
    """One JSON document on stdout; paths become text."""
    text = json.dumps(document, indent=2, ensure_ascii=False, default=str)
    # JSON leaves some of what a terminal obeys as it is.
    sys.stdout.write(_RAW.sub(lambda found: json.dumps(found[0])[1:-1], text) + "\n")


def print_lines(lines: Iterable[str]) -> None:
    """Lines of text on stdout, without what moves a cursor in the names of files."""
    sys.stdout.writelines(f"{without_controls(line)}\n" for line in lines)


def print_error(text: object) -> None:
    """A message on stderr, likewise."""
    print(without_controls(str(text)), file=sys.stderr, flush=True)


def labelled(rows: Sequence[tuple[str, object]]) -> list[str]:
    """Rows as `label   value`, the values in one column."""
    width = max((len(label) for label, _ in rows), default=0)
    return [f"{label:{width}}  {value}" for label, value in rows]


def command_line(command: str, *words: object) -> str:
    """A command as one can paste it into a shell."""
    return shlex.join([PROGRAM, command, *(str(word) for word in words)])


def shown_path(path: Path) -> str:
    """A path as short as it stays right from the current folder."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except ValueError:
        return str(path)
