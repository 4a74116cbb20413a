"""Which messages were promised to the application and have not reached it yet?

A bounded buffer on the disk (https://www.sqlite.org/wal.html). A message is in it before MQTT
sees it and before its device is answered, and leaves it when the broker has acknowledged it, so a
message may reach the application twice, and none is lost. It holds payloads, but never the keys of
a session.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import msgspec

from lns.delivery.publisher import ForApplication, UpstreamUnavailable, remove_duplicates_key
from lns.store.sqlite_file import FileUnusable, Kind, SqliteFile

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


OUTBOX = Kind(
    name="the outbox of a network server",
    letters=b"LNSo",
    tables=(
        # AUTOINCREMENT: a position is never given twice, so the order survives an empty table.
        "CREATE TABLE IF NOT EXISTS message (position INTEGER PRIMARY KEY AUTOINCREMENT,"
        " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
        " sequence_number INTEGER NOT NULL, body BLOB NOT NULL,"
        " remove_duplicates_key TEXT NOT NULL DEFAULT '')",
        "CREATE TABLE IF NOT EXISTS stream"
        " (topic TEXT PRIMARY KEY, sequence_number INTEGER NOT NULL) WITHOUT ROWID",
    ),
    upgrades=(_add_keys,),
    shrinks=True,
)
_NUMBER = (
    "INSERT INTO stream VALUES (?, 1)"
    " ON CONFLICT DO UPDATE SET sequence_number = sequence_number + 1 RETURNING sequence_number"
)
_ADD = (
    "INSERT INTO message"
    " (topic, message_id, partition_key, sequence_number, body, remove_duplicates_key)"
    " VALUES (?, ?, ?, ?, ?, ?)"
)


@dataclass(frozen=True, slots=True)
class Entry:
    """One message in the outbox; `position` orders it among all, `body` is its JSON in UTF-8."""

    position: int
    topic: str
    message_id: str
    partition_key: str
    sequence_number: int
    body: bytes
    remove_duplicates_key: str


class Outbox:
    """The messages between acceptance and acknowledgement, at most `messages_max`.

    Numbers each stream, which is a topic, from 1, and remembers the numbers for ever. The file
    belongs to one process: UpstreamUnavailable when another one has it.
    """

    def __init__(self, path: Path, *, messages_max: int = MESSAGES_MAX) -> None:
        self._messages_max = messages_max
        try:
            self._file = SqliteFile(path, OUTBOX)
            self.waiting = self._file.read_at_once(_count)
        except FileUnusable as unusable:
            raise UpstreamUnavailable(f"the outbox {unusable}") from unusable

    async def add(self, message: ForApplication) -> None:
        """Make a message durable; UpstreamUnavailable when the outbox is full or unwritable."""
        if self.waiting >= self._messages_max:
            raise UpstreamUnavailable(
                f"the outbox {self._file.path} is full: {self.waiting} messages wait"
            )
        topic, message_id, body = message.topic, message.message_id, message.body(0)

        def change(db: Connection) -> None:
            [number] = db.execute(_NUMBER, (topic,)).fetchone()
            body["sequenceNumber"] = number
            key = message.remove_duplicates_key
            row = topic, message_id, body["partitionKey"], number, _encode(body), key
            db.execute(_ADD, row)

        try:
            durable = self._file.submit(change)
            self.waiting += 1
            durable.add_done_callback(self._discount)
            # Whoever gives up waiting does not take the message back.
            await asyncio.shield(durable)
        except FileUnusable as unusable:
            raise UpstreamUnavailable(f"the outbox {unusable}") from unusable

    async def after(self, position: int, limit: int) -> list[Entry]:
        """The next durable messages behind a position; UpstreamUnavailable."""

        def query(db: Connection) -> list[Entry]:
            rows = db.execute(
                "SELECT * FROM message WHERE position > ? ORDER BY position LIMIT ?",
                (position, limit),
            )
            return [Entry(*row) for row in rows.fetchall()]

        try:
            return await self._file.read(query)
        except FileUnusable as unusable:
            raise UpstreamUnavailable(f"the outbox {unusable}") from unusable

    async def remove(self, positions: Sequence[int]) -> None:
        """Forget messages that were acknowledged; UpstreamUnavailable, then they are still there.

        One that could not be removed goes to the application again after a restart.
        """

        def change(db: Connection) -> int:
            rows = [(position,) for position in positions]
            return db.executemany("DELETE FROM message WHERE position = ?", rows).rowcount

        try:
            removed = await self._file.write(change)
        except FileUnusable as unusable:
            raise UpstreamUnavailable(f"the outbox {unusable}") from unusable
        self.waiting -= removed

    async def compact(self) -> None:
        """Make the file small again where most of it is empty; UpstreamUnavailable."""
        try:
            await self._file.compact()
        except FileUnusable as unusable:
            raise UpstreamUnavailable(f"the outbox {unusable}") from unusable

    def close(self) -> None:
        """Give the file up; later messages are refused."""
        self._file.close()

    def _discount(self, durable: "asyncio.Future[None]") -> None:
        if durable.cancelled() or durable.exception() is not None:
            self.waiting -= 1


def _count(db: Connection) -> int:
    [count] = db.execute("SELECT count(*) FROM message").fetchone()
    return int(count)
