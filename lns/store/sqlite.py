"""What is on the disk when a write returns, and who may write it?

One SQLite file that one process owns. In WAL mode with `synchronous=FULL`, so that what was
written outlives a killed process and a cut of the power alike: a device is answered, and then
sends no more, on the strength of it (https://www.sqlite.org/pragma.html#pragma_synchronous).
`SqliteStore` is that of a network server that shares its sessions with no other.
"""

import asyncio
import fcntl
import os
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

import msgspec

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]

_OPEN_S = 2.0  # whoever looks into a killed owner's file holds it up for a moment
_LOG_BYTES_MAX = 4 << 20


class FileUnusable(Exception):
    """The file cannot be opened, locked, read or written; the text names it and says why."""


@contextmanager
def unusable_as(error: type[Exception], what: str) -> Iterator[None]:
    """FileUnusable becomes this error, and its text says what the file is."""
    try:
        yield
    except FileUnusable as unusable:
        raise error(f"{what} {unusable}") from unusable


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
            if _check(db, path, kind):
                raise FileUnusable(f"{path} is empty: nobody has written {kind.name} there yet")
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
    [found] = db.execute("PRAGMA application_id").fetchone()
    [tables] = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != kind.application_id and (found or tables):
        raise FileUnusable(f"{path} holds something else than {kind.name}")
    return not tables


def _make(db: sqlite3.Connection, path: Path, kind: Kind) -> None:
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


_SPARE_PAGES = 256  # of 4 KiB; freed pages that a file keeps for what comes next
_STEP_PAGES = 256  # given back in one commit
_CHECKPOINT_PAGES = 1000


class SqliteFile:
    """One SQLite file, locked against every other process; all writers share one sync of the disk.

    Writes that arrive while a commit waits for the disk go together into the next one. Changes
    run on the event loop, in order of arrival; only the commit, which waits for the disk, runs in
    a thread, for it would stop the loop for as long as the disk takes.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path = path
        self._owned = Owned(path, kind)
        self._db = self._owned.db
        self._waiting: list[tuple[Change[Any], asyncio.Future[Any]]] = []
        self._busy = False
        self._closed = False
        self._disk = ThreadPoolExecutor(1, thread_name_prefix=f"commit {path.name}")

    async def write(self, change: Change[T]) -> T:
        """Make a change; it is on the disk, with what it returned, when this returns.

        FileUnusable when the disk refuses it; then nothing of it is in the file. A change may
        fail with nothing but sqlite3.Error, and takes those of the same commit with it.
        """
        return await self.submit(change)

    def submit(self, change: Change[T]) -> "asyncio.Future[T]":
        """The same for whoever must know how it ended even when the writer gives up waiting."""
        if self._closed:
            raise FileUnusable(f"{self.path} is closed")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        self._waiting.append((change, waiter))
        if not self._busy:
            self._busy = True
            # Whoever writes in this turn of the loop is in the same commit.
            loop.call_soon(self._begin)
        return waiter

    async def compact(self) -> None:
        """Give pages that nobody needs back to the file system, once they are most of the file.

        A few in each commit, so that other writers wait no longer than usual. FileUnusable.
        """
        if not await self.read(_is_mostly_spare):
            return
        while await self.write(_give_back):
            pass
        # The file itself becomes shorter with the next checkpoint: with this commit.
        await self.write(lambda db: _checkpoint_after(db, 1))
        await self.write(lambda db: _checkpoint_after(db, _CHECKPOINT_PAGES))

    async def read(self, query: Change[T]) -> T:
        """Ask for what is on the disk; FileUnusable when it cannot be read."""
        if self._busy:
            return await self.write(query)
        if self._closed:
            raise FileUnusable(f"{self.path} is closed")
        return self.read_at_once(query)

    def read_at_once(self, query: Change[T]) -> T:
        """The same before anything is written, and before there is a loop."""
        try:
            return query(self._db)
        except sqlite3.Error as error:
            raise FileUnusable(f"{self.path} cannot be read: {said(error)}") from error

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._disk.shutdown(wait=True)
        self._refuse([waiter for _, waiter in self._waiting], "is closed")
        self._waiting = []
        self._owned.close()

    def _begin(self) -> None:
        if self._closed:
            return
        changes, self._waiting = self._waiting, []
        waiters = [waiter for _, waiter in changes]
        try:
            self._db.execute("BEGIN IMMEDIATE")
            results = [change(self._db) for change, _ in changes]
        except sqlite3.Error as error:
            self._fail(waiters, error)
            self._busy = False
            return
        loop = asyncio.get_running_loop()
        committing = loop.run_in_executor(self._disk, self._db.execute, "COMMIT")
        committing.add_done_callback(partial(self._end, waiters, results))

    def _end(
        self,
        waiters: list[asyncio.Future[Any]],
        results: list[Any],
        committed: "asyncio.Future[sqlite3.Cursor]",
    ) -> None:
        error = committed.exception()
        if isinstance(error, sqlite3.Error):
            self._fail(waiters, error)
        elif error is not None:
            raise error
        for waiter, result in zip(waiters, results, strict=True):
            if not waiter.done():
                waiter.set_result(result)
        self._busy = bool(self._waiting)
        if self._busy:
            self._begin()

    def _fail(self, waiters: list[asyncio.Future[Any]], error: sqlite3.Error) -> None:
        with suppress(sqlite3.Error):
            # SQLite itself rolls back on some errors and not on others.
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")
        self._refuse(waiters, f"cannot be written: {said(error)}")

    def _refuse(self, waiters: list[asyncio.Future[Any]], why: str) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(FileUnusable(f"{self.path} {why}"))


def _is_mostly_spare(db: sqlite3.Connection) -> bool:
    [free] = db.execute("PRAGMA freelist_count").fetchone()
    [pages] = db.execute("PRAGMA page_count").fetchone()
    return bool(free > max(_SPARE_PAGES, pages // 2))


def _give_back(db: sqlite3.Connection) -> bool:
    """One step; whether it was one, and there is more to give back."""
    [free] = db.execute("PRAGMA freelist_count").fetchone()
    count = min(free - _SPARE_PAGES, _STEP_PAGES)
    if count > 0:
        # A page for every row that is fetched.
        db.execute(f"PRAGMA incremental_vacuum({count})").fetchall()
    [left] = db.execute("PRAGMA freelist_count").fetchone()
    return bool(_SPARE_PAGES < left < free)


def _checkpoint_after(db: sqlite3.Connection, pages: int) -> None:
    """Of the commit that this is part of, and all later ones; something must be in the commit."""
    db.execute(f"PRAGMA wal_autocheckpoint = {pages}")
    [version] = db.execute("PRAGMA user_version").fetchone()
    db.execute(f"PRAGMA user_version = {version}")


_KIND = Kind(
    name="the sessions of a network server",
    letters=b"LNSs",
    tables=(
        "CREATE TABLE IF NOT EXISTS device"
        " (dev_eui TEXT PRIMARY KEY, sessions TEXT NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS dev_nonce"
        " (dev_eui TEXT, dev_nonce INTEGER, PRIMARY KEY (dev_eui, dev_nonce)) WITHOUT ROWID",
        # Files of earlier versions have none yet; it is made when they are opened.
        "CREATE TABLE IF NOT EXISTS join_nonce"
        " (dev_eui TEXT PRIMARY KEY, join_nonce INTEGER NOT NULL) WITHOUT ROWID",
    ),
)
_NEXT_JOIN_NONCE = """
INSERT INTO join_nonce VALUES (?, ?)
ON CONFLICT (dev_eui) DO UPDATE SET join_nonce = max(join_nonce + 1, excluded.join_nonce)
RETURNING join_nonce
"""
_decode = msgspec.json.Decoder(tuple[Session, ...]).decode


class SqliteStore:
    """A `SessionStore`: sessions (the one in use, those waiting for a frame) and used DevNonces.

    All of them are in memory too, and read from there. What was kept is on the disk when the
    awaited call returns. StoreUnavailable when the file is in use or cannot be written.
    """

    def __init__(self, path: Path) -> None:
        with unusable_as(StoreUnavailable, "the store"):
            self._file = SqliteFile(path, _KIND)
            try:
                self._sessions = self._file.read_at_once(_sessions)
                self._dev_nonces = self._file.read_at_once(_dev_nonces)
            except FileUnusable:
                self._file.close()
                raise
            except (ValueError, RecursionError):
                self._file.close()
                raise StoreUnavailable(f"the store {path} holds sessions nobody can read") from None

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        return tuple(session.snapshot() for session in self._sessions.get(dev_eui, ()))

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        kept = tuple(session.snapshot() for session in sessions)
        await self._write(lambda db: _replace(db, dev_eui, kept))
        self._sessions[dev_eui] = kept

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        return frozenset(self._dev_nonces[dev_eui])

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        kept = tuple(session.snapshot() for session in sessions)

        def change(db: Connection) -> None:
            # It is there already when nobody waited for the commit that brought it.
            db.execute("INSERT OR IGNORE INTO dev_nonce VALUES (?, ?)", (dev_eui, dev_nonce))
            _replace(db, dev_eui, kept)

        try:
            await self._write(change)
        except BaseException:
            # What was not kept was not used: the device may send the same join again.
            used.discard(dev_nonce)
            raise
        self._sessions[dev_eui] = kept
        return True

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        def change(db: Connection) -> int:
            [(join_nonce,)] = db.execute(_NEXT_JOIN_NONCE, (dev_eui, least)).fetchall()
            return int(join_nonce)

        return await self._write(change)

    def close(self) -> None:
        self._file.close()

    async def _write(self, change: Change[T]) -> T:
        with unusable_as(StoreUnavailable, "the store"):
            return await self._file.write(change)


def _replace(db: Connection, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
    text = msgspec.json.encode(sessions).decode()
    db.execute("REPLACE INTO device VALUES (?, ?)", (dev_eui, text))


def _sessions(db: Connection) -> dict[Eui, tuple[Session, ...]]:
    rows = db.execute("SELECT dev_eui, sessions FROM device")
    return {Eui(dev_eui): _decode(text) for dev_eui, text in rows}


def _dev_nonces(db: Connection) -> defaultdict[Eui, set[int]]:
    used: defaultdict[Eui, set[int]] = defaultdict(set)
    for dev_eui, dev_nonce in db.execute("SELECT dev_eui, dev_nonce FROM dev_nonce"):
        used[Eui(dev_eui)].add(dev_nonce)
    return used
