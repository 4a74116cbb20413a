"""What is on the disk when a write returns, and who may write it?

One SQLite file that one process owns. In WAL mode with `synchronous=FULL`, so that what was
written outlives a killed process and a cut of the power alike: a device is answered, and then
sends no more, on the strength of it (https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

import asyncio
import os
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")
Change = Callable[[sqlite3.Connection], T]


class FileUnusable(Exception):
    """The file cannot be opened, locked, read or written; the text names it and says why."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a file holds; its four letters stand in the file, so that no other kind is opened."""

    name: str
    letters: bytes
    tables: tuple[str, ...]

    @property
    def application_id(self) -> int:
        """https://www.sqlite.org/pragma.html#pragma_application_id."""
        return int.from_bytes(self.letters, "big")


class SqliteFile:
    """One SQLite file, locked against every other process; all writers share one sync of the disk.

    Writes that arrive while a commit waits for the disk go together into the next one. Changes
    run on the event loop, in order of arrival; only the commit, which waits for the disk, runs in
    a thread, for it would stop the loop for as long as the disk takes.
    """

    def __init__(self, path: Path, kind: Kind) -> None:
        self.path = path
        self._waiting: list[tuple[Change[Any], asyncio.Future[Any]]] = []
        self._busy = False
        self._closed = False
        try:
            _create(path)
            # The lock is asked for once: who holds it holds it as long as it lives.
            self._db = sqlite3.connect(
                path, timeout=0, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise FileUnusable(f"{path} cannot be opened: {_said(error)}") from error
        try:
            _prepare(self._db, path, kind)
        except sqlite3.Error as error:
            self._db.close()
            raise FileUnusable(_refusal(path, kind, error)) from error
        except FileUnusable:
            self._db.close()
            raise
        self._disk = ThreadPoolExecutor(1, thread_name_prefix=f"commit {path.name}")

    async def write(self, change: Change[T]) -> T:
        """Make a change; it is on the disk, with what it returned, when this returns.

        FileUnusable when the disk refuses it; then nothing of it is in the file. A change may
        fail with nothing but sqlite3.Error, and takes those of the same commit with it.
        """
        if self._closed:
            raise FileUnusable(f"{self.path} is closed")
        loop = asyncio.get_running_loop()
        waiter: asyncio.Future[T] = loop.create_future()
        self._waiting.append((change, waiter))
        if not self._busy:
            self._busy = True
            # Whoever writes in this turn of the loop is in the same commit.
            loop.call_soon(self._begin)
        return await waiter

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
            raise FileUnusable(f"{self.path} cannot be read: {_said(error)}") from error

    def close(self) -> None:
        """Finish the commit under way and give the file up; later writes are refused."""
        if self._closed:
            return
        self._closed = True
        self._disk.shutdown(wait=True)
        self._refuse([waiter for _, waiter in self._waiting], "is closed")
        self._waiting = []
        with suppress(sqlite3.Error):
            self._db.close()

    def _begin(self) -> None:
        """Make the changes that wait, and send their commit to the disk."""
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
        """Tell the writers of a commit, and begin with the ones that came meanwhile."""
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
        self._refuse(waiters, f"cannot be written: {_said(error)}")

    def _refuse(self, waiters: list[asyncio.Future[Any]], why: str) -> None:
        for waiter in waiters:
            if not waiter.done():
                waiter.set_exception(FileUnusable(f"{self.path} {why}"))


def _create(path: Path) -> None:
    """Make the file readable for its owner only, as it may hold keys and payloads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))


def _prepare(db: sqlite3.Connection, path: Path, kind: Kind) -> None:
    # EXCLUSIVE before WAL: the lock is held until the end of the process, however it ends
    # (https://www.sqlite.org/wal.html#use_of_wal_without_shared_memory).
    db.execute("PRAGMA locking_mode = EXCLUSIVE")
    [mode] = db.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        raise FileUnusable(f"{path} cannot be used: its file system takes no write-ahead log")
    db.execute("PRAGMA synchronous = FULL")
    db.execute("BEGIN IMMEDIATE")
    [found] = db.execute("PRAGMA application_id").fetchone()
    [tables] = db.execute("SELECT count(*) FROM sqlite_schema").fetchone()
    if found != kind.application_id and (found or tables):
        raise FileUnusable(f"{path} holds something else than {kind.name}")
    for table in kind.tables:
        db.execute(table)
    db.execute(f"PRAGMA application_id = {kind.application_id}")
    db.execute("COMMIT")


def _refusal(path: Path, kind: Kind, error: sqlite3.Error) -> str:
    match error.sqlite_errorcode & 0xFF if hasattr(error, "sqlite_errorcode") else 0:
        case sqlite3.SQLITE_BUSY | sqlite3.SQLITE_LOCKED:
            return f"{path} is in use by another process; {kind.name} belongs to one server"
        case sqlite3.SQLITE_NOTADB:
            return f"{path} holds something else than {kind.name}"
    return f"{path} cannot be opened: {_said(error)}"


def _said(error: OSError | sqlite3.Error) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return said or str(error)
