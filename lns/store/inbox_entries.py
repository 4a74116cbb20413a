"""What does the inbox of an application keep, and what may be asked of whatever keeps it?

A store has three tables of marks, one for each detector of duplicates, and named numbers. Whatever
one transaction changes becomes true at once or not at all.
"""

from collections import OrderedDict
from collections.abc import Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from enum import StrEnum
from typing import Any, NamedTuple, Protocol, TypeVar

from msgspec import Struct

from lns.outage import StoreUnavailable

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
        """The mark at a place."""
        return self.marks[place.table].get(place.name)

    def put(self, place: Place, mark: Mark) -> None:
        """Make a mark, which is the newest of its table then."""
        marks = self.marks[place.table]
        self.restore_when_undone(marks, place.name)
        marks[place.name] = mark
        marks.move_to_end(place.name)
        if len(marks) > self.entries_max:
            self._drop_oldest(marks)
            self.add(EVICTED, 1)

    def forget(self, table: Table, before_us: int, at_most: int) -> None:
        """Let marks go from the one that was made first, as long as they are from before a time."""
        marks = self.marks[table]
        for _ in range(at_most):
            oldest = next(iter(marks.values()), None)
            if oldest is None or oldest.at_us >= before_us:
                return
            self._drop_oldest(marks)

    def number(self, name: str) -> int:
        """A named number."""
        return self.numbers.get(name, 0)

    def add(self, name: str, by: int) -> None:
        """Add to a named number."""
        self.restore_when_undone(self.numbers, name)
        self.numbers[name] = self.number(name) + by

    @contextmanager
    def attempt(self) -> Iterator[None]:
        """Undo what happens inside when it fails."""
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
        """Nobody else is here."""
        return False

    def has_time(self) -> bool:
        """As much as it takes."""
        return True

    def park(self, message: ParkedMessage) -> None:
        """Put a message aside."""
        self.restore_when_undone(self.put_aside, message.identity)
        self.put_aside[message.identity] = message

    def unpark(self, identity: Identity) -> None:
        """A message need not wait any more."""
        if identity in self.put_aside:
            self.restore_when_undone(self.put_aside, identity)
            del self.put_aside[identity]

    def _drop_oldest(self, marks: OrderedDict[str, Mark]) -> None:
        name = next(iter(marks))
        self.restore_when_undone(marks, name)
        del marks[name]

    def restore_when_undone(self, things: dict[Any, Any], name: object) -> None:
        """What a dictionary has under a name now, it has again when the attempt fails."""
        if self._undo is None:
            return
        if name in things:
            old = things[name]
            self._undo.append(lambda: things.update({name: old}))
        else:
            self._undo.append(lambda: things.pop(name, None))


class MemoryInboxStore:
    """Keeps an inbox as long as the process lives; never fails."""

    batch_max = BATCH_MAX

    def __init__(self, *, entries_max: int = ENTRIES_MAX) -> None:
        self._entries = MemoryEntries(entries_max=entries_max)

    def __str__(self) -> str:
        return "the memory of this process"

    async def transact(self, wanted: Sequence[Sequence[Place]], work: Work[T]) -> T:
        """What the work returns, which must not wait; what it changed is undone when it fails."""
        with self._entries.attempt():
            return at_once(work(self._entries))

    async def summary(self) -> Summary:
        """What the store holds."""
        entries = self._entries
        sizes = {}
        for table, marks in entries.marks.items():
            oldest = next(iter(marks.values()), None)
            sizes[table.value] = Size(len(marks), None if oldest is None else oldest.at_us)
        return Summary(sizes, dict(entries.numbers), len(entries.put_aside))

    async def parked(self) -> list[ParkedMessage]:
        """The messages that wait for a person."""
        return sorted(self._entries.put_aside.values(), key=lambda parked: parked.parked_us)

    async def close(self) -> None:
        """Nothing is to be given up."""
