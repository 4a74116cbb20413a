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


class Complaints:
    """Logs at most 60 warnings a minute; with the next one it tells how many were left out."""

    def __init__(self, logger: logging.Logger, lines_max: int = LINES_MAX) -> None:
        self._logger = logger
        self._lines_max = lines_max
        self._began_us = 0
        self._lines = 0
        self._left_out = 0

    def complain(self, sentence: str, *facts: object) -> None:
        """Log what somebody got wrong, if this minute has a line left."""
        at_us = now_us()
        if at_us - self._began_us >= PERIOD_US:
            if self._left_out:
                self._logger.warning("%d more complaints were not logged", self._left_out)
            self._began_us, self._lines, self._left_out = at_us, 0, 0
        if self._lines < self._lines_max:
            self._lines += 1
            self._logger.warning(sentence, *facts)
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
