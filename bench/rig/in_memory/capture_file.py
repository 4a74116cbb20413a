"""Does the capture that a network server writes itself have a line for all that it did?

It writes into a file, as the program does; that may be full for a while, is torn when the server
is killed, and goes on in a new one when it has grown. Each line is read again in the end.
"""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec.json import encode

from bench.rig.in_memory.mistakes import no_file_beyond
from bench.verdict.owner import Found, Scrutiny
from lns.capture import Capture
from lns.clock import now_us
from lns.config import Config
from lns.events import Event, as_fields
from lns.running import Recorder

NAME = "events.jsonl"
_SCHEMA = 1
_TORN = b'{"schema":1,"run_id":'
_HEAD = ("schema", "run_id", "source", "seq", "t_us", "kind")
_LINE_BYTES_MAX = 2_000
Line = dict[str, Any]


def left_out(event: Event, lns: str) -> Iterator[Found]:
    """What is wrong in the names of an event as a capture has it: what is absent has none."""
    named = {name for name in event.__struct_fields__ if getattr(event, name) is not None}
    check = Scrutiny(rule="capture", of=f"{event.kind} of {lns}", t_us=now_us())
    for spelled in (as_fields(event), json.loads(encode(event))):
        yield from check.same("names", sorted(named), sorted(spelled))


def _flushed(folder: Path) -> list[int]:
    """How many lines of a buffered capture are in its file before it is flushed, and then."""
    capture, path = Capture(folder, "", now_us, buffered=True), folder / "buffered.jsonl"
    lines: list[int] = []
    for is_flushed in (False, True):
        capture.record(path.stem, "case.begin", {})
        if is_flushed:
            capture.flush()
        lines.append(path.read_bytes().count(b"\n"))
    capture.close()
    path.unlink()
    return lines


class CaptureFile:
    """The capture of one server through all its runs, and what has to be in it."""

    def __init__(self, lns: str) -> None:
        self._lns = lns
        self._recorder: Recorder | None = None
        self._path = Path(NAME)
        self._half_bytes = 0
        self._room: int | None = None
        self._missing = 0
        self._due: list[Line | None] = []

    def open(self, config: Config) -> None:
        """Go on where the run before has ended."""
        section = config.settings.capture
        assert section is not None, "the configuration of this server names a capture"
        self._path = config.path(section.path)
        self._half_bytes = section.size_max_mib << 19
        self._recorder = Recorder(config)

    def record(self, event: Event) -> None:
        """Let the server write one event; nothing once it has ended."""
        if self._recorder is None:
            return
        if self._room is not None:
            self._missing += 1
            with no_file_beyond(self._path.stat().st_size + self._room):
                self._recorder.record(event)
            return
        if self._missing:
            self._expect("lns.unrecorded", {"lns": self._lns, "events": self._missing})
            self._missing = 0
        self._expect(event.kind, as_fields(event))
        self._recorder.record(event)

    def fill(self, room: int) -> None:
        """Let the disk have room for so many octets more, less than a line has, until `free`."""
        self._room = room

    def free(self) -> None:
        self._room = None

    def close(self) -> None:
        """The server has ended."""
        if self._recorder is not None:
            self._recorder.close()
        self._recorder = None

    def tear(self) -> None:
        """It has been killed in the middle of a line, if it had written any."""
        self.close()
        self._missing = 0
        if self._due[-1:] in ([], [None]):
            return
        self._due.append(None)
        with self._path.open("ab") as file:
            file.write(_TORN)

    def wrong(self) -> Iterator[Found]:
        """What is wrong in the file."""
        if not self._path.is_absolute():
            return  # its server has never begun
        older = self._path.with_name(f"{NAME}.1")
        if older.exists():
            turned = {"lns": self._lns, "file": older.name}
            before = older.read_bytes().count(b"\n")
            self._due.insert(before, self._line("lns.turned", turned) | {"t_us": None})
            size = older.stat().st_size
            if not self._half_bytes <= size < self._half_bytes + _LINE_BYTES_MAX:
                yield self._check.wrong("size of the older one", self._half_bytes, size)
        lines_seen = _flushed(self._path.parent)
        yield from self._check.same("lines before and after a flush", [0, 2], lines_seen)
        files = [file for file in (older, self._path) if file.exists()]
        if self._path.stat().st_size >= self._half_bytes + _LINE_BYTES_MAX:
            yield self._check.wrong("size", f"up to {self._half_bytes}", self._path.stat().st_size)
        lines = [line for file in files for line in file.read_bytes().splitlines()]
        yield from self._check.same("lines", len(self._due), len(lines))
        for seq, (due, octets) in enumerate(zip(self._due, lines, strict=False)):
            if due is not None:
                yield from self._compare({**due, "seq": seq}, octets)

    def _compare(self, due: Line, octets: bytes) -> Iterator[Found]:
        try:
            line: Line = json.loads(octets)
        except ValueError:
            yield self._check.wrong(f"line {due['seq']}", due["kind"], octets)
            return
        if due["t_us"] is None:
            due["t_us"] = line.get("t_us")
        for name in dict.fromkeys((*_HEAD, *due, *line)):
            # What is absent is left out.
            values = due.get(name, "left out"), line.get(name, "left out")
            yield from self._check.same(f"line {due['seq']}: {name}", *values)

    def _expect(self, kind: str, fields: Mapping[str, object]) -> None:
        self._due.append(self._line(kind, fields))

    def _line(self, kind: str, fields: Mapping[str, object]) -> Line:
        head = {"schema": _SCHEMA, "run_id": self._lns, "source": self._path.stem}
        line: Line = json.loads(json.dumps(fields))
        return {**head, "t_us": now_us(), "kind": kind, **line}

    @property
    def _check(self) -> Scrutiny:
        return Scrutiny(rule="capture", of=f"what {self._lns} has written", t_us=now_us())
