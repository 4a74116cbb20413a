"""What stands in the file of an outbox, does whoever reads it get that, and does any file last?"""

from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from itertools import product
from pathlib import Path
from sqlite3 import Connection, OperationalError, connect

from lns.delivery.outbox import Outbox, state_of

_LATER_TABLES, _LATER_COLUMNS = ("parked",), ("remove_duplicates_key", "since_us")
"""What the first outboxes did not have."""
_SPARE_PAGES = 256  # freed, and kept for what comes next
_FEW = 4
_KEPT = {"synchronous": 2, "journal_mode": "wal", "journal_size_limit": 4 << 20, "busy_timeout": 0}
"""What was written outlives a cut of the power, and nobody waits for another (SQLite: PRAGMA)."""


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
    state, rows = state_of(file), _rows(file)
    files = file, file.with_name(file.name + "-wal")
    of_topic: dict[str, list[int]] = {}
    for _, topic, number, _ in rows:
        of_topic.setdefault(topic, []).append(number)
    named = [one and (one.message_id, one.topic, one.sequence_number)
             for one in (state.oldest, state.newest)]  # fmt: skip
    ends = {one.topic: (one.waiting, one.first, one.last) for one in state.streams
            if one.waiting}  # fmt: skip
    seen: list[object] = [state.file_bytes, state.waiting, state.body_bytes, named, ends]
    due: list[object] = [sum(part.stat().st_size for part in files if part.exists())]
    due += [len(rows), sum(octets for *_, octets in rows)]
    due += [[rows[0][:3], rows[-1][:3]] if rows else [None, None]]
    due += [{topic: (len(of), min(of), max(of)) for topic, of in of_topic.items()}]
    if seen != due:
        yield f"octets, messages, oldest, newest: expected {due}, observed {seen}"
    # Else the broker has what is not removed yet.
    if len(rows) == len(ids) and [row[0] for row in rows] != list(ids):
        yield f"in the file: expected {ids}, observed {[row[0] for row in rows]}"
    for one in state.streams:
        first, last = one.first or 1, one.last or one.numbered
        if not first <= last <= one.numbered:
            yield f"{one.topic}: numbers {first} to {last} wait of {one.numbered}"
        aside = [put.sequence_number for put in state.parked if put.topic == one.topic]
        if aside != sorted(aside):
            yield f"{one.topic}: put aside: expected {sorted(aside)}, observed {aside}"


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


def refused(file: Path, refusal: str, broker: Path | None, *, is_away: bool) -> Iterator[str]:
    """Whoever is refused is told what the broker is, and how many that wait are put aside."""
    if (f"; mqtt+unix://{broker} " in refusal) is not is_away:
        yield f"refused: expected what the broker is if it is away: {refusal}"
    aside = len(state_of(file).parked)
    due = f"messages wait, {aside} of them parked" if aside else "messages wait"
    seen = refusal.partition(" is full: ")[2].partition(";")[0].partition(" ")[2]
    if seen not in ("", due):
        yield f"refused: expected {due}, observed {seen}"


def spare(file: Path) -> Iterator[str]:
    """A file that was long once gives its room back."""
    with closing(connect(file)) as db:
        [pages], [free] = (
            db.execute(f"PRAGMA {name}").fetchone() for name in ("page_count", "freelist_count")
        )
    if free > max(_SPARE_PAGES, pages // 2):
        yield f"in the end: expected most of {pages} pages in use, observed {free} free"


def age(file: Path, version: int) -> None:
    """Write an outbox as one of an earlier version would have it: 0 knew neither keys nor `parked`.

    Where something was put aside, or told of a device itself, there was no such version.
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


def is_held(db: Connection) -> bool:
    """Whether nobody else can write to a file until its connection is closed."""
    with suppress(OperationalError):
        db.execute("BEGIN IMMEDIATE")
    return db.in_transaction


def _rows(file: Path) -> list[tuple[str, str, int, int]]:
    """What waits in an outbox, in order: id, topic, number and octets of each."""
    with closing(connect(file)) as db:
        return db.execute(
            "SELECT message_id, topic, sequence_number, length(body) FROM message ORDER BY position"
        ).fetchall()


def _positions(file: Path) -> list[int]:
    """Where in an outbox messages stand that wait."""
    with closing(connect(file)) as db:
        return [at for (at,) in db.execute("SELECT position FROM message ORDER BY position")]
