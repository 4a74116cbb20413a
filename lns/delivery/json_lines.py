"""How does a message become one line of JSON, and how does it become that only once?

A regular file is cut to what the state of the inbox knows of it before it is written again: lines
that a killed consumer wrote and never committed are gone, and come again. What went into a pipe
or to a terminal cannot be taken back: there a line may come twice after a kill, with the same
`position`.
"""

import fcntl
import os
import stat
from collections.abc import Mapping
from pathlib import Path
from typing import BinaryIO

import msgspec

from lns.delivery.effect import EffectUnavailable
from lns.delivery.incoming import Incoming
from lns.store.inbox_entries import Transaction

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
        """Have one more line."""
        self._lines.append(json_line(message, transaction.position))

    def flush(self, transaction: Transaction) -> None:
        """Write the lines, before they are kept: none is ever missing. EffectUnavailable."""
        if not self._lines:
            return
        try:
            self._stream.write(b"".join(self._lines))
            self._stream.flush()
        except OSError as error:
            raise EffectUnavailable(f"no line can be written: {error.strerror}") from error
        self._lines = []

    def end(self, *, kept: bool) -> None:
        """Forget the lines that were not written."""
        self._lines = []

    def close(self) -> None:
        """Give the stream up, if it was given away."""
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
        """Have one more line."""
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
        """Cut off what was written and is not kept."""
        if kept:
            self._kept += self._written
        else:
            os.ftruncate(self._file, self._kept)
        self._lines, self._written = [], 0

    def close(self) -> None:
        """Give the file up."""
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
    """Make the name of a new file as durable as what will be in it."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
