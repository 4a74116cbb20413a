"""What does a capture say, in order of time, torn lines left out and counted, and of which case?

A capture file is JSON Lines, or of an old run compressed: `bench.jsonl` or `bench.jsonl.gz`. One
that still grows is followed.
"""

import asyncio
import gzip
import json
import zlib
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import Any

HOST_STALLED = "host.stalled"  # concerns every case that was open when the host woke

_LATER_US = 10**18  # later than anything


class Timetable:
    """When each case of a run was open, both ends included, in µs; built once, never changed.

    `cases` are in the order in which they began.
    """

    def __init__(self, windows: Mapping[str, tuple[int, int]]) -> None:
        self._windows = dict(sorted(windows.items(), key=lambda item: item[1][0]))
        self._points: list[int] = []
        self._open: list[tuple[str, ...]] = []
        for t_us, case, begins in self._changes():
            now = self._open[-1] if self._open else ()
            now = (*now, case) if begins else tuple(name for name in now if name != case)
            if self._points and self._points[-1] == t_us:
                self._open[-1] = now
            else:
                self._points.append(t_us)
                self._open.append(now)

    @classmethod
    def of(cls, begins_us: Mapping[str, int], ends_us: Mapping[str, int]) -> "Timetable":
        """A case without an end, as in a run that was killed, is open until another one begins."""
        following = sorted(begins_us.values())
        windows = {}
        for case, begin_us in begins_us.items():
            place = bisect_right(following, begin_us)
            next_us = following[place] if place < len(following) else _LATER_US
            windows[case] = begin_us, ends_us.get(case, next_us - 1)
        return cls(windows)

    @property
    def cases(self) -> tuple[str, ...]:
        return tuple(self._windows)

    def __contains__(self, case: str) -> bool:
        return case in self._windows

    def window(self, case: str) -> tuple[int, int]:
        """The first and the last µs of a case; KeyError for one that did not begin."""
        return self._windows[case]

    def open_at(self, t_us: int) -> tuple[str, ...]:
        """The cases that were open at this moment, in the order in which they began."""
        place = bisect_right(self._points, t_us) - 1
        return self._open[place] if place >= 0 else ()

    def _changes(self) -> Iterator[tuple[int, str, bool]]:
        """Each beginning, and the first µs after each end; an end comes before a beginning."""
        changes = [(begin_us, True, case) for case, (begin_us, _) in self._windows.items()]
        changes += [(end_us + 1, False, case) for case, (_, end_us) in self._windows.items()]
        order = sorted(changes, key=lambda change: change[:2])
        return ((t_us, case, begins) for t_us, begins, case in order)


Event = dict[str, Any]

RUN_BEGIN, RUN_END = "run.begin", "run.end"
"""The first and the last line of a run, of no case."""
CAPTURE, COMPRESSED = ".jsonl", ".gz"
_BLOCK_BYTES = 1 << 20
_FRAME = frozenset({"schema", "run_id", "source", "seq", "t_us", "kind", "case"})


def contents(event: Event) -> Event:
    """What an event says of itself, without what every line has and the case that it names."""
    return {name: value for name, value in event.items() if name not in _FRAME}


def capture_files(run_folder: Path, sources: str = "*") -> list[Path]:
    """The capture files of a run by name, each stream once, compressed or not.

    `sources` is a pattern for the names of streams. A stream that is there in both forms was being
    compressed when something died: what it was made from is whole.
    """
    pattern = f"{sources}{CAPTURE}"
    plain = {path.name: path for path in run_folder.glob(pattern)}
    packed = {path.stem: path for path in run_folder.glob(f"{pattern}{COMPRESSED}")}
    return [path for _, path in sorted((packed | plain).items())]


def stream(path: Path) -> str:
    """The name of the stream in a capture file: "bench" of `bench.jsonl` and `bench.jsonl.gz`."""
    return path.name.removesuffix(COMPRESSED).removesuffix(CAPTURE)


@contextmanager
def _opened(path: Path) -> Iterator[gzip.GzipFile | BufferedReader]:
    if path.exists() and not path.is_file():  # to open a named pipe is to wait for who writes
        raise OSError(f"{path}: this is not a file")
    with gzip.open(path, "rb") if path.suffix == COMPRESSED else path.open("rb") as file:
        try:
            yield file
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise OSError(f"{path}: this compressed capture is damaged: {error}") from None


def contents_of(path: Path) -> Iterator[bytes]:
    """The content of one file of a run, block by block; OSError where it is damaged or no file."""
    with _opened(path) as file:
        while block := file.read(_BLOCK_BYTES):
            yield block


def content(path: Path) -> bytes:
    """The whole content of one file of a run; OSError as with `contents_of`."""
    return b"".join(contents_of(path))


def is_readable(path: Path) -> bool:
    """Whether a capture file can be opened and, where it is compressed, unpacked to its end."""
    try:
        with _opened(path) as file:
            while path.suffix == COMPRESSED and file.read(_BLOCK_BYTES):
                pass
    except OSError:
        return False
    return True


def lines(path: Path) -> Iterator[bytes]:
    """The lines of one capture file that are not blank; none where there is no such file.

    The file of an old run may have been compressed since: then it is found beside `path`. OSError
    where that is damaged.
    """
    packed = path if path.suffix == COMPRESSED else path.with_name(f"{path.name}{COMPRESSED}")
    file = path if path.is_file() else packed
    if file.is_file():
        with _opened(file) as texts:
            yield from filter(bytes.strip, texts)


def event(line: bytes | str) -> Event | None:
    """The JSON object on a line, whatever its fields; None where it is torn or not UTF-8."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def of_kinds(path: Path, *kinds: str) -> Iterator[Event]:
    """The events of these kinds in one capture file; no other line of it is read as JSON."""
    marks = [kind.encode() for kind in kinds]
    for line in lines(path):
        found = event(line) if any(mark in line for mark in marks) else None
        if found is not None and found.get("kind") in kinds:
            yield found


def timetable(events: Iterable[Event]) -> Timetable:
    """When the cases of these events were open, by their `case.begin` and `case.end`."""
    kinds = ("case.begin", "case.end")
    marks = [e for e in events if e.get("kind") in kinds and isinstance(e.get("case"), str)]
    begins = {one["case"]: one["t_us"] for one in marks if one["kind"] == "case.begin"}
    ends = {one["case"]: one["t_us"] for one in marks if one["kind"] == "case.end"}
    return Timetable.of(begins, ends)


def cases_of(event: Event, table: Timetable) -> tuple[str, ...]:
    """The cases whose event this is: one, or none, or all that were open."""
    if event.get("kind") == HOST_STALLED:
        return table.open_at(event["t_us"])
    named = event.get("case")
    if event.get("kind") in (RUN_BEGIN, RUN_END):
        return ()
    if isinstance(named, str):
        return (named,) if named in table else ()
    alone = table.open_at(event["t_us"])
    return alone if len(alone) == 1 else ()


_AGAIN_S = 0.02


class CaptureFollower:
    """Follows the capture file of one process, and hands over each whole line as it appears.

    A line that was torn when its process was killed is left out and counted. The file may not be
    there yet.
    """

    def __init__(self, path: Path, take: Callable[[Event], None]) -> None:
        self._path = path
        self._take = take
        self._position = 0
        self._rest = b""
        self.torn = 0

    async def run(self) -> None:
        while True:
            self.read()
            await asyncio.sleep(_AGAIN_S)

    def read(self) -> None:
        try:
            with self._path.open("rb") as file:
                file.seek(self._position)
                new = file.read()
        except FileNotFoundError:
            return
        self._position += len(new)
        *lines, self._rest = (self._rest + new).split(b"\n")
        for line in filter(bytes.strip, lines):
            found = event(line)
            if found is None:
                self.torn += 1
            else:
                self._take(found)
