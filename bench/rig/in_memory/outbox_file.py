"""What stands in the file of an outbox, does whoever reads it get that, and does any file last?"""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, suppress
from itertools import product, zip_longest
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect
from tempfile import mkdtemp

from msgspec.structs import astuple

from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import UpstreamUnavailable

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
    if "is of an earlier version" not in seen:
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
    """Where in an outbox messages stand that wait."""
    with closing(connect(file)) as db:
        return [at for (at,) in db.execute("SELECT position FROM message ORDER BY position")]
