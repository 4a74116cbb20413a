"""Which messages were promised to the application and have not reached it yet?

A bounded buffer on the disk (https://www.sqlite.org/wal.html). A message is in it before MQTT
sees it and before its device is answered, and leaves it when the broker has acknowledged it, so a
message may reach the application twice, and none is lost. It holds payloads, but never the keys of
a session.
"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from heapq import heappop, heappush
from itertools import chain, groupby
from operator import attrgetter
from pathlib import Path
from sqlite3 import Connection

import msgspec
from msgspec import Struct

from lns.clock import since_1970_us
from lns.delivery.mqtt_session import BackOff
from lns.delivery.publisher import ForApplication, UpstreamUnavailable, remove_duplicates_key
from lns.store.sqlite import FileUnusable, Kind, SqliteFile, beside, look, unusable_as

MESSAGES_MAX = 100_000

_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(dict[str, object]).decode


def _add_keys(db: Connection) -> None:
    """Messages were written without their Remove Duplicates key once; it follows from their id."""
    db.execute("ALTER TABLE message ADD COLUMN remove_duplicates_key TEXT NOT NULL DEFAULT ''")
    rows = db.execute("SELECT position, message_id, body FROM message").fetchall()
    for position, message_id, body in rows:
        key = remove_duplicates_key(message_id)
        keyed = {"messageId": message_id, "removeDuplicatesKey": key} | _decode(body)
        db.execute(
            "UPDATE message SET remove_duplicates_key = ?, body = ? WHERE position = ?",
            (key, _encode(keyed), position),
        )


def _add_parked(db: Connection) -> None:
    """Messages waited for ever once; what is too old for that is put aside since."""
    db.execute("ALTER TABLE message ADD COLUMN since_us INTEGER NOT NULL DEFAULT 0")


OUTBOX = Kind(
    name="the outbox of a network server",
    letters=b"LNSo",
    tables=(
        # AUTOINCREMENT: a position is never given twice, so the order survives an empty table.
        "CREATE TABLE IF NOT EXISTS message (position INTEGER PRIMARY KEY AUTOINCREMENT,"
        " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
        " sequence_number INTEGER NOT NULL, body BLOB NOT NULL,"
        " remove_duplicates_key TEXT NOT NULL DEFAULT '', since_us INTEGER NOT NULL DEFAULT 0)",
        "CREATE TABLE IF NOT EXISTS parked (position INTEGER PRIMARY KEY,"
        " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
        " sequence_number INTEGER NOT NULL, body BLOB NOT NULL,"
        " remove_duplicates_key TEXT NOT NULL, since_us INTEGER NOT NULL)",
        "CREATE TABLE IF NOT EXISTS stream"
        " (topic TEXT PRIMARY KEY, sequence_number INTEGER NOT NULL) WITHOUT ROWID",
    ),
    upgrades=(_add_keys, _add_parked),
    shrinks=True,
)
_NUMBER = (
    "INSERT INTO stream VALUES (?, 1)"
    " ON CONFLICT DO UPDATE SET sequence_number = sequence_number + 1 RETURNING sequence_number"
)
_ADD = (
    "INSERT INTO message"
    " (topic, message_id, partition_key, sequence_number, body, remove_duplicates_key, since_us)"
    " VALUES (?, ?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message in the outbox; `position` orders it among all, `body` is its JSON in UTF-8.

    `since_us`: since when it waits (UTC), 0: since its frame was received.
    """

    position: int
    topic: str
    message_id: str
    partition_key: str
    sequence_number: int
    body: bytes
    remove_duplicates_key: str
    since_us: int = 0

    @property
    def waits_since_us(self) -> int | None:
        """Since when it waits, in µs since 1970 (UTC); None where nobody can tell."""
        if self.since_us:
            return self.since_us
        try:
            received_at = _decode_time(self.body).received_at
        except msgspec.DecodeError:
            return None
        return None if received_at is None else since_1970_us(received_at)


class _Body(Struct):
    received_at: datetime | None = msgspec.field(name="receivedAt", default=None)


_decode_time = msgspec.json.Decoder(_Body).decode


class Outbox:
    """The messages between acceptance and acknowledgement, at most `messages_max`.

    What is parked waits for a person, and takes room as well.

    Numbers each stream, which is a topic, from 1, and remembers the numbers for ever. The file
    belongs to one process: UpstreamUnavailable when another one has it.
    """

    def __init__(self, path: Path, *, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        with unusable_as(UpstreamUnavailable, "the outbox"):
            self._file = SqliteFile(path, OUTBOX)
            self.waiting = self._file.read_at_once(lambda db: _count(db, "message"))
            self.parked = self._file.read_at_once(lambda db: _count(db, "parked"))

    async def add(self, message: ForApplication) -> None:
        """Make a message durable; UpstreamUnavailable when the outbox is full or unwritable."""
        if self.waiting + self.parked >= self._messages_max:
            parked = f", {self.parked} of them parked" if self.parked else ""
            raise UpstreamUnavailable(
                f"the outbox {self._file.path} is full:"
                f" {self.waiting + self.parked} messages wait{parked}"
            )
        topic, message_id, body = message.topic, message.message_id, message.body(0)

        def change(db: Connection) -> None:
            [number] = db.execute(_NUMBER, (topic,)).fetchone()
            body["sequenceNumber"] = number
            key = message.remove_duplicates_key
            row = topic, message_id, body["partitionKey"], number, _encode(body), key, 0
            db.execute(_ADD, row)

        with unusable_as(UpstreamUnavailable, "the outbox"):
            durable = self._file.submit(change)
            self.waiting += 1
            durable.add_done_callback(self._discount)
            # Whoever gives up waiting does not take the message back.
            await asyncio.shield(durable)

    async def after(self, position: int, limit: int) -> list[Entry]:
        def query(db: Connection) -> list[Entry]:
            rows = db.execute(
                "SELECT * FROM message WHERE position > ? ORDER BY position LIMIT ?",
                (position, limit),
            )
            return [Entry(*row) for row in rows.fetchall()]

        with unusable_as(UpstreamUnavailable, "the outbox"):
            return await self._file.read(query)

    async def remove(self, positions: Sequence[int]) -> None:
        """Forget messages that were acknowledged; UpstreamUnavailable, then they are still there.

        One that could not be removed goes to the application again after a restart.
        """

        def change(db: Connection) -> int:
            rows = [(position,) for position in positions]
            return db.executemany("DELETE FROM message WHERE position = ?", rows).rowcount

        with unusable_as(UpstreamUnavailable, "the outbox"):
            removed = await self._file.write(change)
        self.waiting -= removed

    async def park(self, positions: Sequence[int]) -> None:
        def change(db: Connection) -> int:
            rows = [(position,) for position in positions]
            db.executemany("INSERT INTO parked SELECT * FROM message WHERE position = ?", rows)
            return db.executemany("DELETE FROM message WHERE position = ?", rows).rowcount

        with unusable_as(UpstreamUnavailable, "the outbox"):
            moved = await self._file.write(change)
        self.waiting -= moved
        self.parked += moved

    async def release(self, now_us: int) -> int:
        """Let all parked messages go on, behind the others; how many. UpstreamUnavailable.

        They keep id and key and wait since `now_us` (UTC). Their numbers are new: consumers have
        seen greater ones since.
        """

        def change(db: Connection) -> int:
            rows = db.execute("SELECT * FROM parked ORDER BY position").fetchall()
            for _, topic, message_id, partition_key, _, body, key, _ in rows:
                [number] = db.execute(_NUMBER, (topic,)).fetchone()
                text = _encode(_decode(body) | {"sequenceNumber": number})
                row = topic, message_id, partition_key, number, text, key, now_us
                db.execute(_ADD, row)
            db.execute("DELETE FROM parked")
            return len(rows)

        with unusable_as(UpstreamUnavailable, "the outbox"):
            released = await self._file.write(change)
        self.parked -= released
        self.waiting += released
        return released

    async def compact(self) -> None:
        with unusable_as(UpstreamUnavailable, "the outbox"):
            await self._file.compact()

    def close(self) -> None:
        self._file.close()

    def _discount(self, durable: "asyncio.Future[None]") -> None:
        if durable.cancelled() or durable.exception() is not None:
            self.waiting -= 1


def _count(db: Connection, table: str) -> int:
    [count] = db.execute(f"SELECT count(*) FROM {table}").fetchone()
    return int(count)


class Waiting(Struct, frozen=True):
    """One message that waits: its identity, and when its frame was received (UTC, ISO 8601)."""

    topic: str
    message_id: str
    remove_duplicates_key: str
    sequence_number: int
    received_at: str | None


class Stream(Struct, frozen=True):
    """One topic: how many of its messages wait, which numbers, and the last number given out."""

    topic: str
    waiting: int
    first: int | None
    last: int | None
    numbered: int


@dataclass(frozen=True, slots=True)
class OutboxState:
    """One moment of an outbox; `file_bytes` is its size on the disk together with its log.

    `parked` were not sent in time, and wait for a person.
    """

    waiting: int
    body_bytes: int
    file_bytes: int
    oldest: Waiting | None
    newest: Waiting | None
    parked: tuple[Waiting, ...]
    streams: tuple[Stream, ...]


_WHICH = "SELECT topic, message_id, remove_duplicates_key, sequence_number, body"


class _TimeAsText(Struct):
    received_at: str | None = msgspec.field(name="receivedAt", default=None)


def state_of(path: Path) -> OutboxState:
    """Look into an outbox without changing it; UpstreamUnavailable when the file is none."""
    try:
        return look(path, OUTBOX, lambda db: _state(db, path))
    except FileUnusable as unusable:
        raise UpstreamUnavailable(str(unusable)) from unusable


def _state(db: Connection, path: Path) -> OutboxState:
    # Summed up by hand: an aggregate over nothing is NULL.
    rows = db.execute(
        "SELECT topic, count(*), min(sequence_number), max(sequence_number), sum(length(body))"
        " FROM message GROUP BY topic"
    ).fetchall()
    waiting: dict[str, tuple[int, int | None, int | None, int]]
    waiting = {topic: tuple(rest) for topic, *rest in rows}
    streams = tuple(
        Stream(topic, *waiting.get(topic, (0, None, None, 0))[:3], numbered)
        for topic, numbered in db.execute("SELECT * FROM stream ORDER BY topic")
    )
    return OutboxState(
        waiting=sum(count for count, *_ in waiting.values()),
        body_bytes=sum(size for *_, size in waiting.values()),
        file_bytes=sum(
            part.stat().st_size for part in (path, beside(path, "-wal")) if part.exists()
        ),
        oldest=_message(db, "ASC"),
        newest=_message(db, "DESC"),
        parked=tuple(_told(row) for row in db.execute(f"{_WHICH} FROM parked ORDER BY position")),
        streams=streams,
    )


def _message(db: Connection, order: str) -> Waiting | None:
    row = db.execute(f"{_WHICH} FROM message ORDER BY position {order} LIMIT 1").fetchone()
    return None if row is None else _told(row)


def _told(row: tuple[str, str, str, int, bytes]) -> Waiting:
    topic, message_id, key, number, body = row
    try:
        received_at = msgspec.json.decode(body, type=_TimeAsText).received_at
    except msgspec.DecodeError:
        received_at = None
    return Waiting(topic, message_id, key, number, received_at)


_position = attrgetter("position")
_topic = attrgetter("topic")


class Turns:
    """What is to be sent, for as long as it is: of each topic in order, the earliest topic first.

    A topic whose message was taken is held until it is let go, or refused until it may try again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Entry]] = {}
        self._held: set[str] = set()
        self._refused: set[str] = set()
        self._heads: list[tuple[int, str]] = []  # of topics that are neither held nor refused
        self.ahead = 0
        """How many wait, those of refused topics left out."""

    def __contains__(self, topic: str) -> bool:
        """Whether anything of a topic waits, or was taken and is not let go."""
        return topic in self._waiting or topic in self._held

    def add(self, entries: Iterable[Entry]) -> None:
        """Behind all others."""
        for entry in entries:
            queue = self._waiting.setdefault(entry.topic, deque())
            queue.append(entry)
            self.ahead += entry.topic not in self._refused
            if len(queue) == 1:
                self._offer(entry.topic)

    def take(self) -> Entry | None:
        """The earliest whose topic is free, and hold its topic; None when there is none."""
        if not self._heads:
            return None
        _, topic = heappop(self._heads)
        queue = self._waiting[topic]
        entry = queue.popleft()
        if not queue:
            del self._waiting[topic]
        self._held.add(topic)
        self.ahead -= 1
        return entry

    def let_go(self, topic: str) -> None:
        """The next of a held topic may go."""
        self._held.discard(topic)
        self._offer(topic)

    def refuse(self, entry: Entry) -> None:
        """Put the message of a held topic back; it and what is behind it wait."""
        self._held.discard(entry.topic)
        self._refused.add(entry.topic)
        queue = self._waiting.setdefault(entry.topic, deque())
        self.ahead -= len(queue)
        queue.appendleft(entry)

    def try_again(self, topic: str) -> None:
        """A refused topic may go."""
        self._refused.discard(topic)
        self.ahead += len(self._waiting.get(topic, ()))
        self._offer(topic)

    def put_back(self, entries: Iterable[Entry]) -> None:
        """What was taken is to be sent again, before what is behind it; nothing is held now."""
        self._fill([*entries, *(entry for queue in self._waiting.values() for entry in queue)])

    def leave_out(self, positions: Container[int]) -> None:
        """Forget those at these positions; nothing else changes."""
        held = set(self._held)
        waiting = [entry for queue in self._waiting.values() for entry in queue]
        self._fill([entry for entry in waiting if entry.position not in positions], held)

    def __iter__(self) -> Iterator[Entry]:
        """All that wait, those of each topic in order."""
        return chain.from_iterable(self._waiting.values())

    def _fill(self, entries: list[Entry], held: Iterable[str] = ()) -> None:
        self._held = set(held)
        entries.sort(key=lambda entry: (entry.topic, entry.position))
        self._waiting = {topic: deque(queue) for topic, queue in groupby(entries, _topic)}
        self.ahead = sum(entry.topic not in self._refused for entry in entries)
        self._heads = []
        for topic in self._waiting:
            self._offer(topic)

    def _offer(self, topic: str) -> None:
        if topic in self._waiting and topic not in self._held and topic not in self._refused:
            heappush(self._heads, (self._waiting[topic][0].position, topic))


class Refusals:
    """How often in a row the broker has refused messages of a topic; `again` is told when to try.

    Remembers a topic until it is forgotten.
    """

    def __init__(
        self, back_off: BackOff, chance: random.Random, again: Callable[[str], None]
    ) -> None:
        self._back_off = back_off
        self._chance = chance
        self._try = again
        self._in_a_row: dict[str, int] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}

    def note(self, topic: str) -> int:
        """One more, and how many there are; it is tried again after the wait of so many."""
        failures = self._in_a_row[topic] = self._in_a_row.get(topic, 0) + 1
        wait_us = self._back_off.wait_us(failures, self._chance)
        loop = asyncio.get_running_loop()
        self._again[topic] = loop.call_later(wait_us / 1_000_000, self._due, topic)
        return failures

    def forget(self, topic: str) -> bool:
        """The broker takes its messages, or there are none; whether it had refused some."""
        return self._in_a_row.pop(topic, 0) > 0

    def close(self) -> None:
        for again in self._again.values():
            again.cancel()

    def _due(self, topic: str) -> None:
        del self._again[topic]
        self._try(topic)
