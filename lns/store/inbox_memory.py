"""The store of an inbox that ends with the process: for tests, and for who needs no more."""

from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from lns.store.inbox_entries import (
    BATCH_MAX,
    ENTRIES_MAX,
    EVICTED,
    Identity,
    Mark,
    NoTables,
    ParkedMessage,
    Place,
    Size,
    Summary,
    Table,
    Work,
    at_once,
)

T = TypeVar("T")


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
