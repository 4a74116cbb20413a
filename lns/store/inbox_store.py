"""What does the inbox of an application keep, and how in the SQLite file of a single consumer?

The state of the inbox and the effect of a message are one transaction: after a kill or a cut of
the power either both are there or none is.
"""

import sqlite3
from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from pathlib import Path
from sqlite3 import Connection
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct
from msgspec.structs import astuple

from lns.clock import StoreUnavailable
from lns.store.sqlite import Change, Kind, SqliteFile, unusable_as

ENTRIES_MAX = 1_000_000
BATCH_MAX = 500
POSITION = "position"
EVICTED = "evicted"
OVERRUNS = "overruns"

T = TypeVar("T")
Identity = tuple[str, str, int, str, str]  # bus, channel, QoS, message id, partition key


class TransactionLost(StoreUnavailable):
    """The store took a transaction back while work was still going on in it."""


class Table(StrEnum):
    """Which detector remembers something."""

    WINDOW = "window"
    SEQUENCE = "sequence"
    KEY = "key"


class Place(NamedTuple):
    """Where a mark is kept; the name is unique in its table."""

    table: Table
    name: str


class Mark(Struct, frozen=True, gc=False):
    """An accepted message: when (UTC, µs since 1970), as which one of all, with which number."""

    at_us: int
    position: int
    number: int = 0


class ParkedMessage(Struct, frozen=True):
    """A message whose effect failed `tries` times; it waits for a person. `parked_us` is UTC."""

    bus: str
    channel: str
    qos: int
    message_id: str
    partition_key: str
    sequence_number: int | None
    key: str | None
    reason: str
    tries: int
    parked_us: int
    body: bytes

    @property
    def identity(self) -> Identity:
        """Which message it is; of one that is parked again, the newer is kept."""
        return self.bus, self.channel, self.qos, self.message_id, self.partition_key


class Size(Struct, frozen=True):
    """How many marks a table has, and when the first of them was made (UTC, µs since 1970)."""

    count: int
    oldest_us: int | None


class Summary(Struct, frozen=True):
    """What a store holds: sizes by table, numbers by name, and how many messages are parked."""

    sizes: dict[str, Size]
    numbers: dict[str, int]
    parked: int


class Entries(Protocol):
    """The marks and numbers, as a detector sees them."""

    def get(self, place: Place) -> Mark | None:
        """The mark at a place."""

    def put(self, place: Place, mark: Mark) -> None:
        """Make a mark; when a table is full, the one made first leaves and is counted."""

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        """Let marks of before a time go, from the one made first, and not too many at once."""

    def number(self, name: str) -> int:
        """A named number; 0 when nobody has added to it."""

    def add(self, name: str, by: int) -> None:
        """Add to a named number."""


class Transaction(Entries, Protocol):
    """Everything that happens to a few messages at once.

    `position` is that of the message whose effect is asked for.
    """

    position: int

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """The rows of a statement that belongs to this transaction; not COMMIT or ROLLBACK.

        NoTables where the store is no SQLite file.
        """


class Batch(Transaction, Protocol):
    """A transaction as the inbox sees it: also what only the inbox does in it."""

    def attempt(self) -> AbstractContextManager[None]:
        """What happens inside is undone when it ends with an exception, which goes on."""

    def is_held_elsewhere(self, number: int) -> bool:
        """Whether another consumer has reserved a place of the n-th message, n from 0."""

    def has_time(self) -> bool:
        """Whether another effect may still begin."""

    def park(self, message: ParkedMessage) -> None:
        """Put a message aside; it replaces the same message parked before."""

    def unpark(self, identity: Identity) -> None:
        """A message has had its effect after all; it need not have been parked."""


Work = Callable[[Batch], Coroutine[Any, Any, T]]


class InboxStore(Protocol):
    """Where an inbox keeps what must survive it. StoreUnavailable when it cannot.

    `batch_max` messages may share a transaction.
    """

    batch_max: int

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        """What the work returns, once everything that it changed is kept; all of it or nothing.

        `wanted` are the places that the work touches, message by message. Where the transaction is
        one of the store itself, the work must not wait: EffectMustNotWait.
        """

    async def summary(self) -> Summary:
        """What the store holds."""

    async def parked(self) -> list[ParkedMessage]:
        """The messages that wait for a person, the oldest first."""

    async def close(self) -> None:
        """Give the store up."""


class NoTables(TypeError):
    """An effect wants to write into a store that has no tables for its application."""


class EffectMustNotWait(TypeError):
    """An effect awaited something inside a transaction that other work would wait for."""


def at_once(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns that never waits; EffectMustNotWait when it does."""
    try:
        work.send(None)
    except StopIteration as end:
        result: T = end.value
        return result
    work.close()
    raise EffectMustNotWait("an effect in the transaction of this store must not await anything")


class MemoryEntries:
    """Marks and numbers in memory; a mark costs about 290 octets, its name included.

    At most `entries_max` marks a table; the one that was made first leaves then, and is counted as
    `evicted`. A whole `Batch`, which `attempt` can undo.
    """

    def __init__(self, *, entries_max: int = ENTRIES_MAX) -> None:
        self.entries_max = entries_max
        self.position = 0
        self.marks: dict[Table, OrderedDict[str, Mark]] = {table: OrderedDict() for table in Table}
        self.numbers: dict[str, int] = {}
        self.put_aside: dict[Identity, ParkedMessage] = {}
        self._undo: list[Callable[[], object]] | None = None

    def get(self, place: Place) -> Mark | None:
        return self.marks[place.table].get(place.name)

    def put(self, place: Place, mark: Mark) -> None:
        marks = self.marks[place.table]
        if self._undo is not None and (old := marks.get(place.name)) is not None:
            self._undo.append(lambda: _stand_before_later(marks, old.position))
        self.restore_when_undone(marks, place.name)
        marks[place.name] = mark
        marks.move_to_end(place.name)
        if len(marks) > self.entries_max:
            self._drop_oldest(marks)
            self.add(EVICTED, 1)

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        marks = self.marks[table]
        for _ in range(at_most):
            oldest = next(iter(marks.values()), None)
            if oldest is None or oldest.at_us >= before_us:
                return
            self._drop_oldest(marks)

    def number(self, name: str) -> int:
        return self.numbers.get(name, 0)

    def add(self, name: str, by: int) -> None:
        self.restore_when_undone(self.numbers, name)
        self.numbers[name] = self.number(name) + by

    @contextmanager
    def attempt(self) -> Iterator[None]:
        before, self._undo = self._undo, []
        try:
            yield
        except BaseException:
            undo, self._undo = self._undo, None
            for step in reversed(undo):
                step()
            self._undo = before
            raise
        done, self._undo = self._undo, before
        if before is not None:
            before.extend(done)

    def execute(self, sql: str, parameters: Sequence[object] = ()) -> list[tuple[Any, ...]]:
        """NoTables: there are none here."""
        raise NoTables("only an inbox in a SQLite file has tables for its application")

    def is_held_elsewhere(self, number: int) -> bool:
        return False

    def has_time(self) -> bool:
        return True

    def park(self, message: ParkedMessage) -> None:
        self.restore_when_undone(self.put_aside, message.identity)
        self.put_aside[message.identity] = message

    def unpark(self, identity: Identity) -> None:
        if identity in self.put_aside:
            self.restore_when_undone(self.put_aside, identity)
            del self.put_aside[identity]

    def _drop_oldest(self, marks: OrderedDict[str, Mark]) -> None:
        name, mark = next(iter(marks.items()))
        del marks[name]
        if self._undo is not None:
            self._undo += (
                (lambda: marks.move_to_end(name, last=False)),
                (lambda: marks.update({name: mark})),
            )

    def restore_when_undone(self, things: dict[Any, Any], name: object) -> None:
        """What a dictionary has under a name now, it has again when the attempt fails."""
        if self._undo is None:
            return
        if name in things:
            old = things[name]
            self._undo.append(lambda: things.update({name: old}))
        else:
            self._undo.append(lambda: things.pop(name, None))


def _stand_before_later(marks: OrderedDict[str, Mark], position: int) -> None:
    for name in [name for name, mark in marks.items() if mark.position > position]:
        marks.move_to_end(name)


class MemoryInboxStore:
    """Keeps an inbox as long as the process lives; never fails."""

    batch_max = BATCH_MAX

    def __init__(self, *, entries_max: int = ENTRIES_MAX) -> None:
        self._entries = MemoryEntries(entries_max=entries_max)

    def __str__(self) -> str:
        return "the memory of this process"

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        with self._entries.attempt():
            return at_once(work(self._entries))

    async def summary(self) -> Summary:
        entries = self._entries
        sizes = {}
        for table, marks in entries.marks.items():
            oldest = next(iter(marks.values()), None)
            sizes[table.value] = Size(len(marks), None if oldest is None else oldest.at_us)
        return Summary(sizes, dict(entries.numbers), len(entries.put_aside))

    async def parked(self) -> list[ParkedMessage]:
        return sorted(self._entries.put_aside.values(), key=lambda parked: parked.parked_us)

    async def close(self) -> None:
        """Nothing is to be given up."""


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
        with unusable_as(StoreUnavailable, "the inbox"):
            self._file = SqliteFile(path, KIND)
            self._counts = self._file.read_at_once(_counts)

    def __str__(self) -> str:
        return str(self.path)

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
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
        with unusable_as(StoreUnavailable, "the inbox"):
            return await self._file.write(change)

    async def read(self, query: Change[T]) -> T:
        """Ask for what is on the disk; StoreUnavailable."""
        with unusable_as(StoreUnavailable, "the inbox"):
            return await self._file.read(query)

    async def summary(self) -> Summary:
        return await self.read(summary)

    async def parked(self) -> list[ParkedMessage]:
        return await self.read(parked)

    async def close(self) -> None:
        self._file.close()


class _Transaction:
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
