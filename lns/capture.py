"""The log that is the truth: one JSON Lines file per source."""

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

SCHEMA = 1

_TAIL_BYTES = 1 << 16
_encode = msgspec.json.Encoder().encode


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """An OSError of this block names the file, which that of a full disk does not by itself."""
    try:
        yield
    except OSError as error:
        if error.errno is not None:  # or all that it says is a sentence of its own
            error.filename = error.filename or str(path)
        raise


class _Numbered(Struct):
    seq: int


_decode = msgspec.json.Decoder(_Numbered).decode


class _Stream(Struct):
    """The file of one source: the number of its next line, and how many octets it has."""

    path: Path
    file: BinaryIO
    seq: int
    size: int
    heads: dict[str, tuple[bytes, bytes]] = {}
    is_flushed: bool = True


class Capture:
    """Writes the events of any number of sources into one folder.

    Each line is `{"schema", "run_id", "source", "seq", "t_us", "kind", …}`; `seq` counts per
    source from 0 without gaps, and goes on where a process before wrote to the same file; `t_us`
    is the monotonic clock of the run in µs. A line is in the operating system's hands when
    `record` returns, unless `buffered`. OSError when the folder cannot be written, and then nothing
    of the line is in the file; ValueError when the capture is closed.

    With `bytes_max` a source has two files of half that size: when `lns-a.jsonl` has grown so far
    it becomes `lns-a.jsonl.1`, in place of an older one, and `turned` is told the source.
    """

    def __init__(
        self,
        folder: Path,
        run_id: str,
        now_us: Callable[[], int],
        *,
        buffered: bool = False,
        bytes_max: int | None = None,
        turned: Callable[[str], None] = lambda source: None,
    ) -> None:
        self._folder = folder
        self._run_id = run_id
        self._now_us = now_us
        self._buffer_bytes = 1 << 20 if buffered else 0
        self._bytes_max = bytes_max
        self._turned = turned
        self._streams: dict[str, _Stream] = {}
        self.latest_us = 0
        """The time of the latest line so far."""
        self._closed = False

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]:
        """Write one event of `source`; returns the line as it was written.

        `t_us`: when it happened, if that was not now.
        """
        stream = self._stream(source, kind)
        line = self._head(source, kind, stream.seq, t_us) | fields
        self._write(stream, _encode(line) + b"\n")
        return line

    def record_event(self, source: str, kind: str, event: Struct) -> None:
        """Write the fields of a value as they stand, in a third of the time of `record`.

        The value leaves out itself what is absent (`omit_defaults`), but not everything.
        """
        self.record_json(source, kind, _encode(event), self._now_us())

    def record_json(self, source: str, kind: str, fields: bytes, t_us: int) -> int:
        """Write fields that are JSON already, and not empty; returns the `seq` of the line."""
        stream = self._stream(source, kind)
        begin, end = stream.heads.get(kind) or self._ends_of_head(stream, source, kind)
        if t_us > self.latest_us:
            self.latest_us = t_us
        self._write(stream, b'%b%d,"t_us":%d%b%b\n' % (begin, stream.seq, t_us, end, fields[1:]))
        return stream.seq - 1

    def flush(self) -> None:
        """Hand every line over to the operating system; OSError where it does not take them."""
        for stream in self._streams.values():
            if not stream.is_flushed:
                with naming(stream.path):
                    stream.file.flush()
                stream.is_flushed = True

    def close(self) -> None:
        """Close every file, one that fails too; the capture cannot be written any more."""
        streams, self._streams = self._streams, {}
        self._closed = True
        with ExitStack() as files:
            for stream in streams.values():
                files.enter_context(naming(stream.path))
                files.enter_context(stream.file)

    def _stream(self, source: str, kind: str) -> _Stream:
        stream = self._streams.get(source) or self._open(source, kind)
        if self._bytes_max is not None and stream.size >= self._bytes_max // 2:
            self._turn(source, stream)
        return stream

    def _open(self, source: str, kind: str) -> _Stream:
        if self._closed:
            raise ValueError(f"the capture is closed: {source} {kind}")
        path = self._folder / f"{source}.jsonl"
        seq = _mend(path)
        file = path.open("ab", buffering=self._buffer_bytes)
        stream = self._streams[source] = _Stream(path, file, seq, file.seek(0, os.SEEK_END))
        return stream

    def _write(self, stream: _Stream, line: bytes) -> None:
        stream.is_flushed = False
        try:
            written = stream.file.write(line)
            while written < len(line):  # the disk had room for a part of it
                written += stream.file.write(line[written:])
        except OSError as error:
            error.filename = str(stream.path)
            with suppress(OSError):
                stream.file.truncate(stream.size)
            raise
        stream.seq += 1
        stream.size += len(line)

    def _turn(self, source: str, stream: _Stream) -> None:
        with suppress(FileNotFoundError):  # the new one could not be opened last time
            stream.path.replace(_older(stream.path))
        file = stream.path.open("ab", buffering=self._buffer_bytes)
        stream.file.close()
        stream.file, stream.size = file, 0
        self._turned(source)

    def _ends_of_head(self, stream: _Stream, source: str, kind: str) -> tuple[bytes, bytes]:
        """What a line of this kind has before its number and after its time."""
        begin, _, rest = _encode(self._head(source, kind, 0, 0)).partition(b'0,"t_us":0')
        found = stream.heads[kind] = begin, rest[:-1] + b","
        return found

    def _head(self, source: str, kind: str, seq: int, t_us: int | None) -> dict[str, object]:
        when_us = self._now_us() if t_us is None else t_us
        self.latest_us = max(self.latest_us, when_us)
        return {
            "schema": SCHEMA,
            "run_id": self._run_id,
            "source": source,
            "seq": seq,
            "t_us": when_us,
            "kind": kind,
        }


def _older(path: Path) -> Path:
    return path.with_name(f"{path.name}.1")


def _mend(path: Path) -> int:
    """The number of a file's next line; one that was torn when its writer died is ended."""
    tail = _tail(path)
    if tail and not tail.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    last = _last_seq(tail)
    if last is None and tail:
        return path.read_bytes().count(b"\n")
    if last is None:
        last = _last_seq(_tail(_older(path)))
    return 0 if last is None else last + 1


def _tail(path: Path) -> bytes:
    if not path.is_file():
        return b""
    with path.open("rb") as file:
        size = file.seek(0, os.SEEK_END)
        file.seek(max(size - _TAIL_BYTES, 0))
        return file.read()


def _last_seq(tail: bytes) -> int | None:
    """The number of the last line, whether or not that one was torn; None where no line has one."""
    for torn, line in enumerate(reversed(tail.splitlines())):
        with suppress(msgspec.DecodeError):
            return _decode(line).seq + torn
    return None
