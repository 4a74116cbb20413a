"""How often is somebody else's mistake logged?

The capture tells of every one; the log is for people, and nobody who sends mistakes shall fill it.
"""

import logging
import re
from pathlib import Path

from lns.clock import now_us

LINES_MAX = 60
PERIOD_US = 60_000_000
# As much of what somebody said is repeated in the log and the capture.
SAID_MAX = 200
_UNPRINTABLE = re.compile(r"[^ -~]")
# Control characters, what turns the direction of writing, and halves of characters.
_CONTROL = re.compile(
    r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]"
)


class Complaints:
    """Logs at most 60 lines a minute; with the next one it tells how many were left out.

    Warnings of what somebody got wrong, or at `level` what happens as often as somebody wants.
    """

    def __init__(
        self, logger: logging.Logger, lines_max: int = LINES_MAX, level: int = logging.WARNING
    ) -> None:
        self._logger = logger
        self._lines_max = lines_max
        self._level = level
        self._began_us = 0
        self._lines = 0
        self._left_out = 0

    def complain(self, sentence: str, *facts: object) -> None:
        """Log what somebody did, if this minute has a line left."""
        at_us = now_us()
        if at_us - self._began_us >= PERIOD_US:
            if self._left_out:
                more = "complaints were" if self._level >= logging.WARNING else "lines were"
                self._logger.log(self._level, "%d more %s not logged", self._left_out, more)
            self._began_us, self._lines, self._left_out = at_us, 0, 0
        if self._lines < self._lines_max:
            self._lines += 1
            self._logger.log(self._level, sentence, *facts)
        else:
            self._left_out += 1


def place_of(error: Exception) -> str:
    """What an error is and where it came from; what it says could be a secret."""
    trace = error.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    if trace is None:
        return type(error).__name__
    file = Path(trace.tb_frame.f_code.co_filename).name
    return f"{type(error).__name__} at {file}:{trace.tb_lineno}"


def printable(text: str) -> str:
    """What somebody else wrote, fit for a line of a log."""
    return _UNPRINTABLE.sub("?", text[:SAID_MAX])


def without_controls(text: str) -> str:
    """A text that moves no cursor and changes no colour, whatever names of files are in it.

    Lines and tabs stay; everything else that a terminal obeys is spelled out, as in `\\x1b`.
    """
    return _CONTROL.sub(lambda found: ascii(found[0])[1:-1], text)


class SafeFormatter(logging.Formatter):
    """Formats a line of the log that a terminal may show."""

    def format(self, record: logging.LogRecord) -> str:
        return without_controls(super().format(record))
