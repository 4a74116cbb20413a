"""What stands in what a network server writes, outbox, capture and sessions, and does it last?

The capture has a line for all that the server did. It is a file as the program writes it: it may be
full for a while, is torn when the server is killed, and goes on in a new one when it has grown.
Each line is read again in the end.
"""

import json
import logging
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, nullcontext, suppress
from itertools import product, zip_longest
from pathlib import Path
from shutil import rmtree
from sqlite3 import Connection, OperationalError, connect
from tempfile import mkdtemp
from typing import Any
from weakref import finalize

from msgspec.json import encode
from msgspec.structs import astuple

from bench.host.lns_files import toml_text
from bench.rig.in_memory.mistakes import no_file_beyond, no_more_files
from bench.verdict.owner import Found, Scrutiny
from lns.capture import Capture
from lns.clock import StoreUnavailable, now_us
from lns.config import Config, ConfigError, load
from lns.dedup.session import Session
from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import UpstreamUnavailable
from lns.events import Event, as_fields
from lns.lorawan.identifiers import Eui
from lns.running import Recorder
from lns.store.sqlite import SqliteStore

_IN_MEMORY = Path("/dev/shm")
_LATER_TABLES, _LATER_COLUMNS = ("parked",), ("remove_duplicates_key", "since_us")
"""What the first outboxes did not have."""
_SPARE_PAGES = 256  # freed, and kept for what comes next
_FEW = 4
_KEPT = {"synchronous": 2, "journal_mode": "wal", "journal_size_limit": 4 << 20, "busy_timeout": 0}
"""What was written outlives a cut of the power, and nobody waits for another (SQLite: PRAGMA)."""


def new_folder(what: str) -> Path:
    """A folder for files of a case, in the memory of this host where it has some to write to."""
    memory = _IN_MEMORY if os.access(_IN_MEMORY, os.W_OK) else None
    return Path(mkdtemp(prefix=f"lorabench-{what}-", dir=memory))


def remove(folder: Path) -> list[str]:
    """Remove a folder whose owners have ended; what somebody has open in it all the same."""
    still = left_open(folder)
    rmtree(folder)
    return still


def left_open(path: Path) -> list[str]:
    """Which files this process has open that are in a folder, or are called so.

    Only Linux tells.
    """
    found = []
    for descriptor in os.listdir("/proc/self/fd") if sys.platform == "linux" else ():
        with suppress(OSError):  # that of the list itself
            name = os.readlink(f"/proc/self/fd/{descriptor}")
            if name.startswith(str(path)):
                found.append(f"in the end: expected closed, observed {Path(name).name} open")
    return sorted(found)


def seize(file: Path) -> Connection:
    """Let nobody write to a database until this is closed: somebody is about to, and never does."""
    seized = connect(file, isolation_level=None)
    seized.execute("BEGIN IMMEDIATE")
    return seized


def ill_kept(db: Connection) -> Iterator[str]:
    """In what way a file does not keep what it is given."""
    for name, due in _KEPT.items():
        [seen] = db.execute(f"PRAGMA {name}").fetchone()
        if seen != due:
            yield f"{name}: expected {due}, observed {seen}"


def listed(file: Path, ids: Sequence[str]) -> Iterator[str]:
    """What anybody may read of it while a server has it is what waits there; `ids`, in order."""
    state, rows, aside = state_of(file), _rows(file, "message"), _rows(file, "parked")
    files = file, file.with_name(file.name + "-wal")
    seen: list[object] = [state.file_bytes, state.waiting, state.body_bytes]
    due: list[object] = [sum(part.stat().st_size for part in files if part.exists())]
    due += [len(rows), sum(octets for *_, octets in rows)]
    seen += [one and astuple(one) for one in (state.oldest, state.newest, *state.parked)]
    ends = [rows[0], rows[-1]] if rows else [None, None]
    due += [one and one[:-1] for one in (*ends, *aside)]
    seen += map(astuple, state.streams)
    due += _streams(file, rows)
    if wrong := [one for one in zip_longest(due, seen) if one[0] != one[1]]:
        due, seen = map(list, zip(*wrong, strict=True))
        yield f"octets, messages, oldest, newest: expected {due}, observed {seen}"
    # Else the broker has what is not removed yet.
    if len(rows) == len(ids) and [row[1] for row in rows] != list(ids):
        yield f"in the file: expected {ids}, observed {[row[1] for row in rows]}"


async def parts(file: Path) -> list[str]:
    """Who reads on from any message gets what is behind it, and as many as he asks for."""
    wrong, positions = [], _positions(file)
    with closing(Outbox(file)) as outbox:
        for first, limit in product(range(min(_FEW, len(positions)) + 1), range(_FEW + 1)):
            behind, due = [0, *positions][first], positions[first : first + limit]
            seen = [entry.position for entry in await outbox.after(behind, limit)]
            if seen != due:
                wrong.append(f"{limit} behind {behind}: expected {due}, observed {seen}")
    return wrong


def refused(
    file: Path, refusal: str, settings: Mapping[str, object], away: Path | None
) -> Iterator[str]:
    """Whoever is refused is told what the broker is, and how many wait and how many are put aside.

    `away`: where the broker is sought, if it is not there. A full outbox has all that it may have.
    """
    if ("; mqtt+unix://" in refusal) is (away is None) or f"{away or ''} " not in refusal:
        yield f"refused: expected what the broker is if it is away: {refusal}"
    if full := re.search(r" is full: (\d+) messages wait(?:, (\d+) of them parked)?", refusal):
        due = settings.get("messages_max"), len(state_of(file).parked)
        if (seen := (int(full[1]), int(full[2] or 0))) != due:
            yield f"refused: expected {due} that wait and are put aside, observed {seen}"


_WAIT = re.compile(r"mqtt\+unix://(/\S+) (.+); (\d+) messages wait")


@contextmanager
def how_many_wait(broker: Path | None, look: Callable[[str, int], None]) -> Iterator[None]:
    """`look` at what is logged of a broker meanwhile: the line, and how many it says wait."""

    def read(record: logging.LogRecord) -> bool:
        found = _WAIT.fullmatch(record.getMessage())
        if found and found[1] == str(broker):
            look(found[2], int(found[3]))
        return True

    log = logging.getLogger("lns.delivery.mqtt_sender")
    log.addFilter(read)
    try:
        yield
    finally:
        log.removeFilter(read)


def facts_of(facts: Mapping[str, str]) -> str:
    """Names and values, for a sentence."""
    return ", ".join(f"{name} {value}" for name, value in facts.items())


def all_of(facts: tuple[object, ...]) -> str:
    """Values, for a sentence."""
    return ", ".join(map(str, facts))


def spare(file: Path) -> Iterator[str]:
    """A file that was long once gives its room back."""
    with closing(connect(file)) as db:
        [pages], [free] = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count")
        )
    if free > max(_SPARE_PAGES, pages // 2):
        yield f"in the end: expected most of {pages} pages in use, observed {free} free"


def age(file: Path, version: int) -> Iterator[str]:
    """Write an outbox as one of an earlier version would have it: 0 knew neither keys nor `parked`.

    Where something was put aside, or told of a device itself, there was no such version. Nobody
    reads it before its server has brought it up to date.
    """
    with closing(connect(file, isolation_level=None)) as db:
        [new] = db.execute(
            "SELECT EXISTS (SELECT 1 FROM message WHERE since_us OR topic LIKE '%/status')"
            " OR EXISTS (SELECT 1 FROM parked)"
        ).fetchone()
        if new or version == 2:
            return
        for table in _LATER_TABLES:
            db.execute(f"DROP TABLE {table}")
        for column in _LATER_COLUMNS[version:]:
            db.execute(f"ALTER TABLE message DROP COLUMN {column}")
        if version == 0:
            db.execute(
                "UPDATE message SET body ="
                " CAST(json_remove(CAST(body AS TEXT), '$.removeDuplicatesKey') AS BLOB)"
            )
        db.execute(f"PRAGMA user_version = {version}")
    try:
        seen = str(state_of(file))
    except UpstreamUnavailable as refusal:
        seen = str(refusal)
    if not seen.startswith(f"{file} is of an earlier version"):
        yield f"an outbox of version {version}: expected refused as such, observed {seen}"


def is_held(db: Connection) -> bool:
    """Whether nobody else can write to a file until its connection is closed."""
    with suppress(OperationalError):
        db.execute("BEGIN IMMEDIATE")
    return db.in_transaction


_Row = tuple[str, str, str, int, str | None, int]


def _rows(file: Path, table: str) -> list[_Row]:
    """What stands in a table, in order: topic, id, key, number, when received, octets of each."""
    with closing(connect(file)) as db:
        return db.execute(
            "SELECT topic, message_id, remove_duplicates_key, sequence_number,"
            " json_extract(CAST(body AS TEXT), '$.receivedAt'), length(body)"
            f" FROM {table} ORDER BY position"
        ).fetchall()


def _streams(file: Path, rows: Sequence[_Row]) -> Iterator[tuple[object, ...]]:
    """Of each topic how many wait, their first number and their last, and the last given out."""
    with closing(connect(file)) as db:
        numbered = db.execute("SELECT topic, sequence_number FROM stream ORDER BY topic").fetchall()
    for topic, last in numbered:
        numbers = [row[3] for row in rows if row[0] == topic]
        yield topic, len(numbers), min(numbers, default=None), max(numbers, default=None), last


def _positions(file: Path) -> list[int]:
    with closing(connect(file)) as db:
        return [at for (at,) in db.execute("SELECT position FROM message ORDER BY position")]


NAME = "a.events.jsonl"
PATH = f"var/captures/{NAME}"
"""Where that is to be: in folders that nobody has made."""
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


def held_on(lns: str, station: Eui, late_us: int) -> Iterator[Found]:
    """A connection that is over, and all of it decided, so long ago is over for its server too."""
    if late_us > 0:
        of = f"connection of {station} to {lns}"
        check = Scrutiny(rule="connection", of=of, t_us=now_us(), station=station)
        yield check.wrong("end", "at once", f"{late_us} us after all was decided")


def _flushed(folder: Path) -> list[object]:
    """How many lines of a buffered capture are in its file before it is flushed, and then.

    Which file is named where there is no room for the last of them when it is closed.
    """
    capture, path = Capture(folder, "", now_us, buffered=True), folder / "buffered.jsonl"
    seen: list[object] = []
    for is_flushed in (False, True, False):
        capture.record(path.stem, "case.begin", {})
        if is_flushed:
            capture.flush()
        seen.append(path.read_bytes().count(b"\n"))
    try:
        with no_file_beyond(0):
            capture.close()
    except OSError as error:
        seen.append(error.filename)
    path.unlink()
    return seen


def _turned(folder: Path) -> list[object]:
    """The lines in the older and the newer file of a capture that could open no new one at first.

    And how many lines are in neither, and how often it has told that it turned.
    """
    turned: list[str] = []
    capture = Capture(folder, "", now_us, bytes_max=2, turned=turned.append)
    path, lost = folder / "turned.jsonl", 0
    for has_room in (True, False, True):
        try:
            with nullcontext() if has_room else no_more_files():
                capture.record(path.stem, "case.begin", {})
        except OSError:
            lost += 1
    capture.close()
    files = [path.with_name(f"{path.name}.1"), path]
    lines = [file.read_bytes().count(b"\n") if file.exists() else 0 for file in files]
    for file in files:
        file.unlink(missing_ok=True)
    return [*lines, lost, len(turned)]


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
        self._left_open: list[str] = []

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
        with nullcontext() if self._room is None else no_file_beyond(self._size + self._room):
            self._recorder.record(event)
        room = self._room
        if self._missing:
            facts = {"lns": self._lns, "events": self._missing}
            room, is_told = self._expect("lns.unrecorded", facts, room)
            if not is_told:
                self._missing += 1
                return
            self._missing = 0
        _, is_told = self._expect(event.kind, as_fields(event), room)
        self._missing += not is_told

    def fill(self, room: int) -> None:
        """Let the disk have room for so many octets more each time, until `free`."""
        self._room = room

    def free(self) -> None:
        self._room = None

    def close(self) -> None:
        """The server has ended."""
        if self._recorder is not None:
            self._recorder.close()
            self._left_open += left_open(self._path)
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
        if not self._path.parent.is_dir():
            yield self._check.wrong("folder", "made for it", "none")
            return
        older = self._path.with_name(f"{NAME}.1")
        if older.exists():
            turned = {"lns": self._lns, "file": older.name}
            before = older.read_bytes().count(b"\n")
            self._due.insert(before, self._line("lns.turned", turned) | {"t_us": None})
            size = older.stat().st_size
            if not self._half_bytes <= size < self._half_bytes + _LINE_BYTES_MAX:
                yield self._check.wrong("size of the older one", self._half_bytes, size)
        yield from self._check.same("open when it has ended", [], self._left_open)
        buffered = [0, 2, 2, str(self._path.with_name("buffered.jsonl"))]
        seen = _flushed(self._path.parent)
        yield from self._check.same("lines of a buffered one, and its name", buffered, seen)
        yield from self._check.same("lines of one that turns", [1, 1, 1, 1], _turned(older.parent))
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

    def _expect(
        self, kind: str, fields: Mapping[str, object], room: int | None
    ) -> tuple[int | None, bool]:
        """Expect a line if there is room for it, and what room is left then."""
        line = self._line(kind, fields)
        if room is not None:
            spelled = json.dumps({**line, "seq": len(self._due)}, separators=(",", ":"))
            if len(spelled) >= room:  # its end is an octet, too
                return room, False
            room -= len(spelled) + 1
        self._due.append(line)
        return room, True

    def _line(self, kind: str, fields: Mapping[str, object]) -> Line:
        head = {"schema": _SCHEMA, "run_id": self._lns, "source": self._path.stem}
        line: Line = json.loads(json.dumps(fields))
        return {**head, "t_us": now_us(), "kind": kind, **line}

    @property
    def _size(self) -> int:
        return self._path.stat().st_size

    @property
    def _check(self) -> Scrutiny:
        return Scrutiny(rule="capture", of=f"what {self._lns} has written", t_us=now_us())


class ToldStore(SqliteStore):
    """A file that tells of each write as soon as it is on the disk.

    What a write that failed has left in mind all the same is `found`.
    """

    def __init__(self, path: Path, wrote: Callable[[], None], found: Callable[[str], None]) -> None:
        super().__init__(path)
        self._wrote, self._found = wrote, found
        for text in self._file.read_at_once(lambda db: list(ill_kept(db))):
            found(text)

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        due = tuple(map(Session.snapshot, sessions))
        with self._looked_at(dev_eui):
            await super().keep_sessions(dev_eui, sessions)
        self._know(dev_eui, due)

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        due = tuple(map(Session.snapshot, sessions))
        with self._looked_at(dev_eui):
            kept = await super().keep_join(dev_eui, dev_nonce, sessions)
        self._know(dev_eui, due if kept else self.sessions(dev_eui))
        return kept

    def _know(self, dev_eui: Eui, due: tuple[Session, ...]) -> None:
        """A write is on the disk, and in mind."""
        self._wrote()
        if self.sessions(dev_eui) != due:
            self._found(f"{dev_eui}: expected in mind what was written, observed something else")

    @contextmanager
    def _looked_at(self, dev_eui: Eui) -> Iterator[None]:
        before = self.sessions(dev_eui), self.dev_nonces(dev_eui)
        try:
            yield
        except StoreUnavailable:
            if (self.sessions(dev_eui), self.dev_nonces(dev_eui)) != before:
                self._found(f"{dev_eui}: expected as it was before a write that failed")
            raise

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        join_nonce = await super().next_join_nonce(dev_eui, least)
        self._wrote()
        return join_nonce


@contextmanager
def told_without_folder(file: Path) -> Iterator[None]:
    """ConfigError names a file, and not its folder, which has another name in each run."""
    try:
        yield
    except ConfigError as error:
        raise ConfigError(str(error).replace(f"{file.parent}/", "")) from None


def configuration_in(file: Path) -> Config:
    """What a server reads of its configuration; ConfigError names files, and no folder."""
    with told_without_folder(file):
        return load(file)


class DiskStore:
    """The file of one server, which outlives it; whoever opens it reads what is there."""

    def __init__(self, found: Callable[[str], None]) -> None:
        folder = new_folder("store")
        self._found = found
        self._path = folder / "sessions"
        self._full: Connection | None = None
        self._writes_left = 0
        self._opened = [ToldStore(self._path, self._count, self._found)]
        self.end = finalize(self, _remove, folder, self._opened)
        """Removes it all; so does whoever forgets it."""

    @property
    def newest(self) -> SqliteStore:
        """The store of the server that runs."""
        return self._opened[0]

    def open(self) -> SqliteStore:
        """A store of what the file has by now; the one before it takes nothing more."""
        self.newest.close()
        self._opened[0] = ToldStore(self._path, self._count, self._found)
        return self.newest

    def configured(
        self, settings: Mapping[str, object], devices: Sequence[Mapping[str, object]]
    ) -> Config:
        """What a server reads of its configuration; ConfigError names files, and no folder."""
        lns = self._path.with_name("lns.toml")
        lns.write_text(toml_text(settings), "utf-8")
        lns.with_name("devices.toml").write_text(toml_text({"device": devices}), "utf-8")
        return configuration_in(lns)

    def fill(self, after: int = 0) -> None:
        """Let nothing more be written than so many writes, until `free`."""
        self._writes_left = after
        if not after:
            self._full = seize(self._path)

    def _count(self) -> None:
        if self._writes_left:
            self._writes_left -= 1
            if not self._writes_left:
                self.fill()

    def free(self) -> None:
        self._writes_left = 0
        if self._full is not None:
            self._full.close()
            self._full = None


def _remove(folder: Path, opened: list[ToldStore]) -> None:
    opened[0].close()
    rmtree(folder, ignore_errors=True)
