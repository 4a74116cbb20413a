"""What does the program tell the shell?"""

from collections.abc import Iterable
from enum import IntEnum


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
