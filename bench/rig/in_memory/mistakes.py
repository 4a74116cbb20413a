"""What goes wrong in this process on purpose: in a network server's program, or on its disk?"""

import os
import resource
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from sqlite3 import DatabaseError
from time import tzset
from types import MappingProxyType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from _typeshed import FileDescriptorLike

_FAR_EAST = "EAST-09:30"
_NOTHING: Mapping[str, str] = MappingProxyType({})
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


@contextmanager
def no_more_files() -> Iterator[None]:
    """This process can open no file; those that it has stay as they are."""
    before, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (0, most))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (before, most))


@contextmanager
def syncs() -> Iterator[list[int]]:
    """How many octets files had of which all that was written has been waited for, meanwhile."""
    synced: list[int] = []
    before = os.fdatasync

    def sync(fd: "FileDescriptorLike") -> None:
        before(fd)
        synced.append(os.fstat(fd if isinstance(fd, int) else fd.fileno()).st_size)

    os.fdatasync = sync
    try:
        yield synced
    finally:
        os.fdatasync = before


@contextmanager
def far_from_utc(environment: Mapping[str, str] = _NOTHING) -> Iterator[None]:
    """This host is where the time of day is another one, and has these variables."""
    before = {**os.environ}
    os.environ |= {"TZ": _FAR_EAST, **environment}
    tzset()
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before
        tzset()


def without_zone(utc_us: int) -> bytes:
    """A time in whole seconds (µs since 1970) as whoever forgets its zone writes it."""
    at = datetime.fromtimestamp(utc_us // 1_000_000, UTC).replace(tzinfo=None)
    return at.isoformat().encode()


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
