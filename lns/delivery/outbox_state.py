"""What is in the outbox of a network server, which may run meanwhile?"""

from dataclasses import dataclass
from pathlib import Path
from sqlite3 import Connection

import msgspec
from msgspec import Struct

from lns.delivery.outbox import OUTBOX
from lns.delivery.publisher import UpstreamUnavailable
from lns.store.sqlite_file import FileUnusable, look
from lns.store.sqlite_kind import beside


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


class _Body(Struct):
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
        received_at = msgspec.json.decode(body, type=_Body).received_at
    except msgspec.DecodeError:
        received_at = None
    return Waiting(topic, message_id, key, number, received_at)
