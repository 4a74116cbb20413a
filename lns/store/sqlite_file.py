"""What is on the disk when a write returns, and who may write it?

One SQLite file that one process owns. In WAL mode with `synchronous=FULL`, so that what was
written outlives a killed process and a cut of the power alike: a device is answered, and then
sends no more, on the strength of it (https://www.sqlite.org/pragma.html#pragma_synchronous).
"""

import asyncio
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from lns.store.sqlite_kind import Change, FileUnusable, Kind, Owned, look, said

__all__ = ["Change", "FileUnusable", "Kind", "SqliteFile", "look"]

T = TypeVar("T")

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
        self._shrinks = kind.shrinks
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
        if not self._shrinks or not await self.read(_is_mostly_spare):
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
        """Finish the commit under way and give the file up; later writes are refused."""
        if self._closed:
            return
        self._closed = True
        self._disk.shutdown(wait=True)
        self._refuse([waiter for _, waiter in self._waiting], "is closed")
        self._waiting = []
        self._owned.close()

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
