"""The log that is the truth: one JSON Lines file per source."""

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

import msgspec
from msgspec import Struct

SCHEMA = 1
Record = Callable[[str, str, dict[str, object]], None]  # (source, kind, fields)

_encode = msgspec.json.Encoder().encode


class Capture:
    """Writes the events of any number of sources into one folder.

    Each line is `{"schema", "run_id", "source", "seq", "t_us", "kind", …}`; `seq` counts per
    source from 0 without gaps, and goes on where a process before wrote to the same file; `t_us`
    is the monotonic clock of the run in µs. A line is in the operating system's hands when
    `record` returns, unless `buffered`. OSError when the folder cannot be written, ValueError
    when the capture is closed.
    """

    def __init__(
        self, folder: Path, run_id: str, now_us: Callable[[], int], *, buffered: bool = False
    ) -> None:
        self._folder = folder
        self._run_id = run_id
        self._now_us = now_us
        self._buffer_bytes = 1 << 20 if buffered else 0
        self._files: dict[str, BinaryIO] = {}
        self._seqs: dict[str, int] = {}
        self._closed = False

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]:
        """Write one event of `source`; returns the line as it was written.

        `t_us`: when it happened, if that was not now.
        """
        file = self._files.get(source) or self._open(source, kind)
        line = self._head(source, kind, t_us) | fields
        file.write(_encode(line) + b"\n")
        self._seqs[source] += 1
        return line

    def record_event(self, source: str, kind: str, event: Struct) -> None:
        """Write the fields of a value as they stand, in a third of the time of `record`.

        The value leaves out itself what is absent (`omit_defaults`), but not everything.
        """
        file = self._files.get(source) or self._open(source, kind)
        head, fields = _encode(self._head(source, kind, None)), _encode(event)
        file.write(b"%b,%b\n" % (head[:-1], fields[1:]))
        self._seqs[source] += 1

    def close(self) -> None:
        """Close every file; the capture cannot be written any more."""
        for file in self._files.values():
            file.close()
        self._files.clear()
        self._closed = True

    def _open(self, source: str, kind: str) -> BinaryIO:
        if self._closed:
            raise ValueError(f"the capture is closed: {source} {kind}")
        path = self._folder / f"{source}.jsonl"
        self._seqs[source] = _mend(path)
        file = self._files[source] = path.open("ab", buffering=self._buffer_bytes)
        return file

    def _head(self, source: str, kind: str, t_us: int | None) -> dict[str, object]:
        return {
            "schema": SCHEMA,
            "run_id": self._run_id,
            "source": source,
            "seq": self._seqs[source],
            "t_us": self._now_us() if t_us is None else t_us,
            "kind": kind,
        }


def _mend(path: Path) -> int:
    """How many whole lines a file has; one that was torn when its writer died is ended."""
    if not path.is_file():
        return 0
    content = path.read_bytes()
    if content and not content.endswith(b"\n"):
        with path.open("ab") as file:
            file.write(b"\n")
    return content.count(b"\n")
