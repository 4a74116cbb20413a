"""What does the inbox of an application keep, and what may be asked of whatever keeps it?

A store has three tables of marks, one for each detector of duplicates, and named numbers. Whatever
one transaction changes becomes true at once or not at all.
"""

from collections.abc import Callable, Coroutine, Sequence
from contextlib import AbstractContextManager
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
