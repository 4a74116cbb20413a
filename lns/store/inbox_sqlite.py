"""The store of an inbox that one consumer has, and that survives it: one SQLite file.

The state of the inbox and the effect of a message are one transaction: after a kill or a cut of
the power either both are there or none is.
"""

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from sqlite3 import Connection
from typing import Any, TypeVar

from msgspec.structs import astuple

from lns.outage import StoreUnavailable
from lns.store.inbox_entries import (
    BATCH_MAX,
    ENTRIES_MAX,
    EVICTED,
    Identity,
    Mark,
    ParkedMessage,
    Place,
    Size,
    Summary,
    Table,
    TransactionLost,
    Work,
    at_once,
)
from lns.store.sqlite_file import Change, FileUnusable, Kind, SqliteFile

T = TypeVar("T")


def _marks(table: Table) -> tuple[str, str]:
    return (
        f"CREATE TABLE IF NOT EXISTS inbox_{table} (name TEXT PRIMARY KEY, at_us INTEGER NOT NULL,"
        " position INTEGER NOT NULL, number INTEGER NOT NULL) WITHOUT ROWID",
        f"CREATE INDEX IF NOT EXISTS inbox_{table}_order ON inbox_{table} (position)",
    )


KIND = Kind(
    name="the inbox of an application",
    letters=b"LNSi",
    tables=(
        *_marks(Table.WINDOW),
        *_marks(Table.SEQUENCE),
        *_marks(Table.KEY),
        "CREATE TABLE IF NOT EXISTS inbox_number"
        " (name TEXT PRIMARY KEY, value INTEGER NOT NULL) WITHOUT ROWID",
        "CREATE TABLE IF NOT EXISTS inbox_parked (bus TEXT, channel TEXT, qos INTEGER,"
        " message_id TEXT, partition_key TEXT, sequence_number INTEGER, key TEXT,"
        " reason TEXT NOT NULL, tries INTEGER NOT NULL, parked_us INTEGER NOT NULL,"
        " body BLOB NOT NULL, PRIMARY KEY (bus, channel, qos, message_id, partition_key))",
    ),
)
_GET = {
    table: f"SELECT at_us, position, number FROM inbox_{table} WHERE name = ?" for table in Table
}
_NEW = {table: f"INSERT OR IGNORE INTO inbox_{table} VALUES (?1, ?2, ?3, ?4)" for table in Table}
_AGAIN = {
    table: f"UPDATE inbox_{table} SET at_us = ?2, position = ?3, number = ?4 WHERE name = ?1"
    for table in Table
}
_FORGET = {
    table: f"DELETE FROM inbox_{table} WHERE name IN (SELECT name FROM"
    f" (SELECT name, at_us FROM inbox_{table} ORDER BY position LIMIT ?2) WHERE at_us < ?1)"
    for table in Table
}
_EVICT = {
    table: f"DELETE FROM inbox_{table} WHERE name IN"
    f" (SELECT name FROM inbox_{table} ORDER BY position LIMIT 1)"
    for table in Table
}
_OLDEST = {table: f"SELECT at_us FROM inbox_{table} ORDER BY position LIMIT 1" for table in Table}
_ADD = (
    "INSERT INTO inbox_number VALUES (?1, ?2)"
    " ON CONFLICT DO UPDATE SET value = value + excluded.value"
)
_PARK = "REPLACE INTO inbox_parked VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
_UNPARK = (
    "DELETE FROM inbox_parked WHERE (bus, channel, qos, message_id, partition_key)"
    " = (?, ?, ?, ?, ?)"
)


class SqliteInboxStore:
    """Keeps an inbox in a file that one process owns; StoreUnavailable when another one has it.

    An id that is remembered costs about 200 octets of the file, and no memory. At most
    `entries_max` marks a table; the oldest leaves then, and is counted as `evicted`.
    """

    batch_max = BATCH_MAX

    def __init__(self, path: Path, *, entries_max: int = ENTRIES_MAX) -> None:
        self.path = path
        self._entries_max = entries_max
        try:
            self._file = SqliteFile(path, KIND)
            self._counts = self._file.read_at_once(_counts)
        except FileUnusable as unusable:
            raise StoreUnavailable(f"the inbox {unusable}") from unusable

    def __str__(self) -> str:
        return str(self.path)

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        """What the work returns, once it is on the disk; StoreUnavailable when it never will be."""
        raised: list[BaseException] = []
        counts = dict(self._counts)

        def change(db: Connection) -> T:
            try:
                return at_once(work(_Transaction(db, counts, self._entries_max)))
            except sqlite3.Error:
                raise
            except BaseException as error:
                # SqliteFile takes the whole commit back for an error of SQLite only.
                raised.append(error)
                raise sqlite3.Error("the work failed") from error

        try:
            result = await self.write(change)
        except StoreUnavailable:
            if raised:
                raise raised[0] from None
            raise
        self._counts = counts
        return result

    async def write(self, change: Change[T]) -> T:
        """Make a change of other tables in the file; on the disk when this returns."""
        try:
            return await self._file.write(change)
        except FileUnusable as unusable:
            raise StoreUnavailable(f"the inbox {unusable}") from unusable

    async def read(self, query: Change[T]) -> T:
        """Ask for what is on the disk; StoreUnavailable."""
        try:
            return await self._file.read(query)
        except FileUnusable as unusable:
            raise StoreUnavailable(f"the inbox {unusable}") from unusable

    async def summary(self) -> Summary:
        """What the store holds."""
        return await self.read(summary)

    async def parked(self) -> list[ParkedMessage]:
        """The messages that wait for a person, the oldest first."""
        return await self.read(parked)

    async def close(self) -> None:
        """Finish the commit under way and give the file up."""
        self._file.close()


class _Transaction:
    """The messages of one commit; `counts` are the sizes of the tables, kept up to date."""

    def __init__(self, db: Connection, counts: dict[Table, int], entries_max: int) -> None:
        self._db = db
        self._counts = counts
        self._entries_max = entries_max
        [self._may_be_parked] = db.execute("SELECT EXISTS (SELECT 1 FROM inbox_parked)").fetchone()
        self.position = 0

    def get(self, place: Place) -> Mark | None:
        row = self._db.execute(_GET[place.table], (place.name,)).fetchone()
        return None if row is None else Mark(*row)

    def put(self, place: Place, mark: Mark) -> None:
        table, row = place.table, (place.name, mark.at_us, mark.position, mark.number)
        # A stream is mostly known, an id mostly new.
        if table is Table.SEQUENCE and self._db.execute(_AGAIN[table], row).rowcount:
            return
        if not self._db.execute(_NEW[table], row).rowcount:
            self._db.execute(_AGAIN[table], row)
            return
        self._counts[table] += 1
        if self._counts[table] > self._entries_max:
            self._counts[table] -= self._db.execute(_EVICT[table]).rowcount
            self.add(EVICTED, 1)

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        self._counts[table] -= self._db.execute(_FORGET[table], (before_us, at_most)).rowcount

    def number(self, name: str) -> int:
        row = self._db.execute("SELECT value FROM inbox_number WHERE name = ?", (name,)).fetchone()
        return 0 if row is None else int(row[0])

    def add(self, name: str, by: int) -> None:
        self._db.execute(_ADD, (name, by))

    @contextmanager
    def attempt(self) -> Iterator[None]:
        counts = dict(self._counts)
        self._db.execute("SAVEPOINT attempt")
        try:
            yield
        except BaseException as error:
            self._expect_a_transaction(error)
            self._db.execute("ROLLBACK TO attempt")
            self._db.execute("RELEASE attempt")
            self._counts.update(counts)
            raise
        self._expect_a_transaction(None)
        self._db.execute("RELEASE attempt")

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = self._db.execute(sql, parameters).fetchall()
        return rows

    def is_held_elsewhere(self, number: int) -> bool:
        return False

    def has_time(self) -> bool:
        return True

    def park(self, message: ParkedMessage) -> None:
        self._db.execute(_PARK, astuple(message))
        self._may_be_parked = True

    def unpark(self, identity: Identity) -> None:
        if self._may_be_parked:
            self._db.execute(_UNPARK, identity)

    def _expect_a_transaction(self, error: BaseException | None) -> None:
        """A full disk may have ended it, or an effect that says COMMIT; what follows would stay."""
        if not self._db.in_transaction:
            raise TransactionLost(f"the transaction of an effect has ended: {error}") from error


def summary(db: Connection) -> Summary:
    """What an inbox holds, for whoever looks into its file."""
    sizes = {}
    for table in Table:
        [count] = db.execute(f"SELECT count(*) FROM inbox_{table}").fetchone()
        oldest = db.execute(_OLDEST[table]).fetchone()
        sizes[table.value] = Size(count, None if oldest is None else oldest[0])
    numbers = dict(db.execute("SELECT name, value FROM inbox_number ORDER BY name").fetchall())
    [put_aside] = db.execute("SELECT count(*) FROM inbox_parked").fetchone()
    return Summary(sizes, numbers, put_aside)


def parked(db: Connection) -> list[ParkedMessage]:
    """The messages that wait for a person, the oldest first, for whoever looks into the file."""
    rows = db.execute("SELECT * FROM inbox_parked ORDER BY parked_us, rowid").fetchall()
    return [ParkedMessage(*row) for row in rows]


def _counts(db: Connection) -> dict[Table, int]:
    sizes = summary(db).sizes
    return {table: sizes[table.value].count for table in Table}
