"""What does a message that is new do: a line of JSON, or the same message on another topic?

A regular file is cut to what the state of the inbox knows of it before it is written again; what
went into a pipe may come twice after a kill, with the same `position`. On another topic a message
is a row in the file of the inbox, in the same transaction as its state: it arrives there at least
once, with the same id and the same sequence number.
"""

import fcntl
import os
import stat
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from sqlite3 import Connection
from typing import BinaryIO, Protocol, runtime_checkable

import msgspec

from lns.clock import StoreUnavailable
from lns.delivery.incoming import Incoming
from lns.delivery.outbox import MESSAGES_MAX, Entry
from lns.delivery.publisher import UpstreamUnavailable
from lns.store.inbox_store import SqliteInboxStore, Transaction
from lns.store.sqlite import Change

Handle = Callable[[Incoming, Transaction], Awaitable[None] | None]


class EffectUnavailable(Exception):
    """No effect can be had now, whatever the message is; the text says why. It is tried again."""


@runtime_checkable
class Effect(Protocol):
    """The effects of messages, several of which are kept together."""

    def open(self, transaction: Transaction) -> None:
        """Prepare, and undo what was begun before a kill and never kept; EffectUnavailable."""

    def handle(self, message: Incoming, transaction: Transaction) -> Awaitable[None] | None:
        """The effect of one message; what it raises is undone and the message tried again.

        `transaction.position` numbers the effects, from 1. What this does outside the transaction
        it must be able to undo.
        """

    def flush(self, transaction: Transaction) -> None:
        """The transaction is about to be kept: make durable what belongs to it."""

    def end(self, *, kept: bool) -> None:
        """The transaction was kept, or none of it was: then undo what is outside of it."""


class Handled:
    """The effect that is one function; all of it is in the transaction, or cannot be undone."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def open(self, transaction: Transaction) -> None:
        """Nothing is to be prepared."""

    def handle(self, message: Incoming, transaction: Transaction) -> Awaitable[None] | None:
        return self._handle(message, transaction)

    def flush(self, transaction: Transaction) -> None:
        """It is in the transaction."""

    def end(self, *, kept: bool) -> None:
        """It was in the transaction."""


def effect_of(effect: Effect | Handle) -> Effect:
    """The effect, or the one of a function."""
    return effect if isinstance(effect, Effect) else Handled(effect)


_NEW_LINES = bytes.maketrans(b"\r\n", b"  ")  # in JSON they are blanks, never part of a text


def json_line(message: Incoming, position: int) -> bytes:
    """`{"position", "channel", "messageId", "body"}`, the body as it came, and the line's end."""
    head: Mapping[str, object] = {
        "position": position,
        "channel": message.channel,
        "messageId": message.message_id,
        "body": msgspec.Raw(message.body.translate(_NEW_LINES)),
    }
    return msgspec.json.encode(head) + b"\n"


class JsonLinesStream:
    """The effect that is a line in a pipe or on a terminal; at least once.

    The stream is somebody else's, unless it is given away (`owned`).
    """

    def __init__(self, stream: BinaryIO, *, owned: bool = False) -> None:
        self._stream = stream
        self._owned = owned
        self._lines: list[bytes] = []

    def open(self, transaction: Transaction) -> None:
        """Nothing can be taken back."""

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        self._lines.append(json_line(message, transaction.position))

    def flush(self, transaction: Transaction) -> None:
        """Write the lines, before they are kept: none is ever missing. EffectUnavailable."""
        if not self._lines:
            return
        view = memoryview(b"".join(self._lines))
        try:
            while view:  # a signal may end a write to a pipe when a part of it is written
                view = view[self._stream.write(view) :]
            self._stream.flush()
        except OSError as error:
            raise EffectUnavailable(f"no line can be written: {error.strerror}") from error
        self._lines = []

    def end(self, *, kept: bool) -> None:
        self._lines = []

    def close(self) -> None:
        if self._owned:
            self._stream.close()


class JsonLinesFile:
    """The effect that is a line in a regular file, which this process locks; exactly once.

    The state of the inbox remembers how long the file is. What is behind that is cut off when the
    file is opened, so whoever reads along may meet lines that a kill takes back. EffectUnavailable
    when the file is shorter, holds something that this inbox did not write, or is written by
    somebody else. A batch of lines is on the disk before it is committed.
    """

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        self._name = f"length of {self.path}"
        self._lines: list[bytes] = []
        self._kept = self._written = 0
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise EffectUnavailable(f"{path} cannot be opened: {error.strerror}") from error
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            _sync_folder(self.path.parent)
        except OSError as error:
            os.close(self._file)
            why = "is in use" if isinstance(error, BlockingIOError) else error.strerror
            raise EffectUnavailable(f"{path} cannot be written: {why}") from error

    def open(self, transaction: Transaction) -> None:
        """Cut off what was written and never kept; EffectUnavailable."""
        # One more than it is: 0 is a file that this inbox does not know.
        known = transaction.number(self._name)
        found = os.fstat(self._file).st_size
        if not known and found:
            raise EffectUnavailable(
                f"{self.path} holds something that this inbox did not write; name another file"
            )
        if not known:
            transaction.add(self._name, 1)
            return
        self._kept = known - 1
        if found < self._kept:
            raise EffectUnavailable(
                f"{self.path} has {found} octets, and had {self._kept} of this inbox; put it back,"
                " or name another file"
            )
        self.end(kept=False)

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        self._lines.append(json_line(message, transaction.position))

    def flush(self, transaction: Transaction) -> None:
        """Write the lines and wait for the disk; EffectUnavailable, then they are not kept."""
        if not self._lines:
            return
        text = b"".join(self._lines)
        try:
            _write_all(self._file, text, self._kept)
            os.fdatasync(self._file)
        except OSError as error:
            raise EffectUnavailable(f"{self.path} cannot be written: {error.strerror}") from error
        transaction.add(self._name, len(text))
        self._written = len(text)

    def end(self, *, kept: bool) -> None:
        if kept:
            self._kept += self._written
        else:
            os.ftruncate(self._file, self._kept)
        self._lines, self._written = [], 0

    def close(self) -> None:
        os.close(self._file)


def json_lines(where: str, standard_output: BinaryIO) -> JsonLinesFile | JsonLinesStream:
    """The effect for a path, or "-" for standard output; EffectUnavailable.

    Only a regular file can be cut: a device or a named pipe is a stream.
    """
    if where == "-":
        return JsonLinesStream(standard_output)
    path = Path(where)
    if path.exists() and not stat.S_ISREG(path.stat().st_mode):
        try:
            return JsonLinesStream(path.open("wb", buffering=0), owned=True)
        except OSError as error:
            raise EffectUnavailable(f"{path} cannot be opened: {error.strerror}") from error
    return JsonLinesFile(path)


def _write_all(file: int, octets: bytes, at: int) -> None:
    view = memoryview(octets)
    while view:
        written = os.pwrite(file, view, at)
        view, at = view[written:], at + written


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_TABLE = (
    "CREATE TABLE IF NOT EXISTS inbox_republished (position INTEGER PRIMARY KEY AUTOINCREMENT,"
    " topic TEXT NOT NULL, message_id TEXT NOT NULL, partition_key TEXT NOT NULL,"
    " sequence_number INTEGER NOT NULL, body BLOB NOT NULL, key TEXT NOT NULL)"
)
_ADD = (
    "INSERT INTO inbox_republished"
    " (topic, message_id, partition_key, sequence_number, body, key) VALUES (?, ?, ?, ?, ?, ?)"
)
_AFTER = "SELECT * FROM inbox_republished WHERE position > ? ORDER BY position LIMIT ?"


class Republishing:
    """Messages on their way to `prefix`/topic, as they came; an `Effect`, and what a sender sends.

    At most `messages_max` wait for the broker; beyond that nothing more is accepted until it takes
    some. `look`, if there is one, is called whenever there are new ones: `MqttSender.look`.
    """

    def __init__(
        self, store: SqliteInboxStore, prefix: str, *, messages_max: int = MESSAGES_MAX
    ) -> None:
        if not prefix or set(prefix) & set("+#\0") or prefix.strip("/") != prefix:
            raise ValueError("a prefix is a topic without + and #, and no / at its ends")
        self._store = store
        self._prefix = prefix
        self._messages_max = messages_max
        self._kept = self._added = 0
        self.look: Callable[[], None] | None = None

    @property
    def waiting(self) -> int:
        return self._kept + self._added

    def open(self, transaction: Transaction) -> None:
        """Make the table, and count what waits since before."""
        transaction.execute(_TABLE)
        [[self._kept]] = transaction.execute("SELECT count(*) FROM inbox_republished")

    def handle(self, message: Incoming, transaction: Transaction) -> None:
        if self.waiting >= self._messages_max:
            raise EffectUnavailable(f"{self.waiting} messages wait for the broker already")
        key = message.remove_duplicates_key or message.message_id
        number = message.sequence_number or 0
        topic = f"{self._prefix}/{message.channel}"
        row = topic, message.message_id, message.partition_key, number, message.body, key
        transaction.execute(_ADD, row)
        self._added += 1

    def flush(self, transaction: Transaction) -> None:
        """What was added is in the transaction."""

    def end(self, *, kept: bool) -> None:
        added, self._added = self._added, 0
        if not kept:
            return
        self._kept += added
        if added and self.look is not None:
            self.look()

    async def after(self, position: int, limit: int) -> list[Entry]:
        """The next messages to send behind a position; UpstreamUnavailable."""

        def query(db: Connection) -> list[Entry]:
            return [Entry(*row) for row in db.execute(_AFTER, (position, limit)).fetchall()]

        try:
            return await self._store.read(query)
        except StoreUnavailable as unavailable:
            raise UpstreamUnavailable(str(unavailable)) from unavailable

    async def remove(self, positions: Sequence[int]) -> None:
        """Forget messages that the broker has; UpstreamUnavailable."""
        try:
            removed = await self._store.write(_removal(positions))
        except StoreUnavailable as unavailable:
            raise UpstreamUnavailable(str(unavailable)) from unavailable
        self._kept -= removed

    async def park(self, positions: Sequence[int]) -> None:
        """Nothing is too old to be published again."""

    async def compact(self) -> None:
        """The file is as long as the inbox needs it."""


def _removal(positions: Sequence[int]) -> Change[int]:
    def change(db: Connection) -> int:
        rows = [(position,) for position in positions]
        return db.executemany("DELETE FROM inbox_republished WHERE position = ?", rows).rowcount

    return change
