"""What does a SQLite file hold, who may write it, and how does one look into it meanwhile?

One process owns a file: it holds a lock beside it (`PATH-lock`) as long as it lives. Whoever only
looks asks nobody, and sees what the last commit has left.
"""

import fcntl
import os
import sqlite3
from collections.abc import Callable
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]

_OPEN_S = 2.0  # whoever looks into a killed owner's file holds it up for a moment
_LOG_BYTES_MAX = 4 << 20


class FileUnusable(Exception):
    """The file cannot be opened, locked, read or written; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds; its four letters stand in the file, so that no other kind is opened.

    `tables` are the statements that make a new file. `upgrades` bring a file of an earlier version
    up to them, one after the other; the file counts how many it has seen (`user_version`). A file
    that `shrinks` gives freed pages back to the file system (`SqliteFile.compact`).
    """

    name: str
    letters: bytes
    tables: tuple[str, ...]
    upgrades: tuple[Change[None], ...] = ()
    shrinks: bool = False

    @property
    def application_id(self) -> int:
        """https://www.sqlite.org/pragma.html#pragma_application_id."""
        return int.from_bytes(self.letters, "big")


class Owned:
    """A file that this process owns until `close`; FileUnusable when it cannot."""

    def __init__(self, path: Path, kind: Kind) -> None:
        try:
            _create(path)
            self._lock = os.open(beside(path, "-lock"), os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FileUnusable(f"{path} cannot be opened: {said(error)}") from error
        try:
            # Not SQLite's own exclusive mode: nobody could look into the file.
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            self.db = _opened(path, kind)
        except BlockingIOError as error:
            os.close(self._lock)
            raise FileUnusable(_in_use(path, kind)) from error
        except BaseException:
            os.close(self._lock)
            raise

    def close(self) -> None:
        """Give the file up."""
        with suppress(sqlite3.Error):
            self.db.close()
        os.close(self._lock)


def look(path: Path, kind: Kind, query: Change[T]) -> T:
    """Ask a file without owning or changing it, also while its owner writes; FileUnusable.

    A file of an earlier version is told as such: its owner has to open it first.
    """
    if not path.is_file():
        raise FileUnusable(f"{path} is no file")
    # Without a log nobody writes, and nothing but the file itself is needed to read it.
    mode = "mode=ro" if beside(path, "-wal").exists() else "mode=ro&immutable=1"
    try:
        uri = f"{path.absolute().as_uri()}?{mode}"
        with closing(sqlite3.connect(uri, _OPEN_S, isolation_level=None, uri=True)) as db:
            db.execute("BEGIN")
            _check(db, path, kind)
            [version] = db.execute("PRAGMA user_version").fetchone()
            if version < len(kind.upgrades):
                raise FileUnusable(
                    f"{path} is of an earlier version; whoever owns it brings it up to date when it"
                    " starts"
                )
            return query(db)
    except sqlite3.Error as error:
        raise FileUnusable(_refusal(path, kind, error)) from error


def beside(path: Path, ending: str) -> Path:
    """A file that belongs to another one: its name with something behind it."""
    real = path.resolve()
    return real.with_name(real.name + ending)


def said(error: OSError | sqlite3.Error) -> str:
    """What an error of the operating system or of SQLite says."""
    strerror = error.strerror if isinstance(error, OSError) else None
    return strerror or str(error)


def _create(path: Path) -> None:
    """Make the file readable for its owner only, as it may hold keys and payloads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _opened(path: Path, kind: Kind) -> sqlite3.Connection:
    try:
        db = sqlite3.connect(path, timeout=_OPEN_S, isolation_level=None, check_same_thread=False)
    except sqlite3.Error as error:
        raise FileUnusable(f"{path} cannot be opened: {said(error)}") from error
    try:
        _prepare(db, path, kind)
    except sqlite3.Error as error:
        db.close()
        raise FileUnusable(_refusal(path, kind, error)) from error
    except BaseException:
        db.close()
        raise
    return db


def _prepare(db: sqlite3.Connection, path: Path, kind: Kind) -> None:
    is_new = _check(db, path, kind)
    if is_new:
        # Counts in a file that is still empty only; another one would be written to all the same.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
    [mode] = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise FileUnusable(f"{path} cannot be used: its file system takes no write-ahead log")
    db.execute("PRAGMA synchronous = FULL")
    db.execute(f"PRAGMA journal_size_limit = {_LOG_BYTES_MAX}")
    db.execute("BEGIN IMMEDIATE")
    _make(db, path, kind)
    db.execute("COMMIT")
    [vacuum] = db.execute("PRAGMA auto_vacuum").fetchone()
    if kind.shrinks and not vacuum:
        # Written before files gave pages back: rewritten once (https://www.sqlite.org/lang_vacuum).
        # Where there is no room for that, the file stays as long as it is.
        db.execute("PRAGMA auto_vacuum = INCREMENTAL")
        with suppress(sqlite3.OperationalError):
            db.execute("VACUUM")
    # From now on nobody else writes, and nothing is to stop the event loop.
    db.execute("PRAGMA busy_timeout = 0")


def _check(db: sqlite3.Connection, path: Path, kind: Kind) -> bool:
    """Whether nothing is in the file yet; FileUnusable when it is of another kind."""
    [found] = db.execute("PRAGMA application_id").fetchone()
    [tables] = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != kind.application_id and (found or tables):
        raise FileUnusable(f"{path} holds something else than {kind.name}")
    return not tables


def _make(db: sqlite3.Connection, path: Path, kind: Kind) -> None:
    """Make the tables, or bring those of an earlier version up to date."""
    [found] = db.execute("PRAGMA application_id").fetchone()
    [version] = db.execute("PRAGMA user_version").fetchone()
    if version > len(kind.upgrades):
        raise FileUnusable(f"{path} was written by a newer version of this program")
    if found:
        for upgrade in kind.upgrades[version:]:
            upgrade(db)
    for table in kind.tables:
        db.execute(table)
    if found and version == len(kind.upgrades):
        return  # nothing is written, so that a full disk keeps nobody from opening the file
    db.execute(f"PRAGMA application_id = {kind.application_id}")
    db.execute(f"PRAGMA user_version = {len(kind.upgrades)}")


def _in_use(path: Path, kind: Kind) -> str:
    return f"{path} is in use by another process; {kind.name} belongs to one server"


def _refusal(path: Path, kind: Kind, error: sqlite3.Error) -> str:
    match error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else 0:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return _in_use(path, kind)
        case sqlite3.SQLITE_NOTADB:
            return f"{path} holds something else than {kind.name}"
    return f"{path} cannot be opened: {said(error)}"
