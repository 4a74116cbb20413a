"""What goes wrong in this process on purpose: in a network server's program, or on its disk?"""

import resource
from collections.abc import Iterator
from contextlib import contextmanager
from sqlite3 import DatabaseError
from typing import NoReturn

SECRET = "geheim"
"""What nobody is told of a mistake: it could be a key."""


class Stumbled(Exception):
    """What no part of a network server expects of another."""


def stumble(over: list[str], what: str) -> NoReturn:
    """Make a mistake over this; it is not made again."""
    over.remove(what)
    raise Stumbled(SECRET)


@contextmanager
def no_file_beyond(octets: int) -> Iterator[None]:
    """No file of this process grows beyond so many octets; what does not fit is not taken."""
    before, most = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (octets, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (before, most))


class BrokenWrites:
    """So many writes of SQLite fail at their commit: no file of this process may grow by then.

    Before them `after` others succeed.
    """

    def __init__(self, left: int, after: int) -> None:
        self._left = left
        self._after = after

    @contextmanager
    def in_thread(self) -> Iterator[None]:
        if self._after or not self._left:
            yield
            self._after = max(0, self._after - 1)
            return
        try:
            with no_file_beyond(0):
                yield
        except DatabaseError:
            self._left -= 1
            raise
