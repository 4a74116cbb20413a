"""Is a file refused as what it is: in use, no file, somebody else's, too new, unreadable?

And does it keep what it takes, all that was written together or none of it?
"""

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache, partial
from pathlib import Path
from random import Random
from shutil import rmtree
from sqlite3 import Connection, connect

from bench.rig.in_memory.inbox_twin import Deciding
from bench.rig.in_memory.memory_twin import Keeping, TwinFile
from bench.rig.in_memory.outbox_file import new_folder, seize
from lns.clock import StoreUnavailable
from lns.delivery.inbox import figures_in
from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import UpstreamUnavailable
from lns.lorawan.identifiers import eui
from lns.store.inbox_store import SqliteInboxStore, at_once
from lns.store.sqlite import FileUnusable, Kind, SqliteFile, SqliteStore, look

Opened = Callable[[Path], object]
_KINDS: Mapping[str, tuple[Opened, ...]] = {
    "the outbox of a network server": (Outbox, state_of),
    "the sessions of a network server": (SqliteStore,),
    "the inbox of an application": (SqliteInboxStore, figures_in),
}


@cache
def ill_refused() -> tuple[str, ...]:
    """What is said of a file instead of what is so."""
    folder = new_folder("files")
    try:
        return tuple(said for kind in _KINDS for said in _ill_refused(folder / kind / "ours", kind))
    finally:
        rmtree(folder)


def _ill_refused(file: Path, kind: str) -> Iterator[str]:
    own, *looks = _KINDS[kind]
    owner = own(file)
    yield from _wrong(file, own, f"ours is in use by another process; {kind} belongs to one server")
    _close(owner)
    if file.stat().st_mode & 0o077:
        yield f"{kind}: expected for its owner only, observed for others as well"
    yield from _wrong(file.parent, own, "cannot be opened: ")
    file.with_name("foreign").write_text("something else" * 99)
    yield from _wrong(file.with_name("foreign"), own, f"foreign holds something else than {kind}")
    for other in sorted(_KINDS.keys() - {kind}):
        for opened in _KINDS[other]:
            yield from _wrong(file, opened, f"ours holds something else than {other}")
    for reads in looks:
        yield from _wrong(file.with_name("none"), reads, "none is no file")
        yield from _wrong(file, reads, "")
    with closing(connect(file, isolation_level=None)) as db:
        [version] = db.execute("PRAGMA user_version").fetchone()
        db.execute(f"PRAGMA user_version = {version + 1}")
        yield from _wrong(file, own, "ours was written by a newer version of this program")
        db.execute(f"PRAGMA user_version = {version}")
        if own is SqliteStore:
            db.execute("REPLACE INTO device VALUES ('70B3D57ED0000001', '[7]')")
            yield from _wrong(file, own, "ours holds sessions nobody can read")
            db.execute("DELETE FROM device")
        yield from _vacuumed(db, file, own)


def _vacuumed(db: Connection, file: Path, own: Opened) -> Iterator[str]:
    """An outbox that was written before files gave pages back does so when it is opened."""
    db.execute("PRAGMA auto_vacuum = NONE")
    db.execute("VACUUM")
    yield from _wrong(file, own, "")
    [seen] = db.execute("PRAGMA auto_vacuum").fetchone()
    if (seen == 2) is not (own is Outbox):
        yield f"an older file: expected pages given back by an outbox alone, observed {seen}"


def _wrong(file: Path, opened: Opened, due: str) -> Iterator[str]:
    """Nothing, or what is said when a file is opened, that is not `due`; "": it is taken."""
    seen = ""
    try:
        _close(opened(file))
    except (UpstreamUnavailable, StoreUnavailable) as refusal:
        seen = str(refusal).replace(f"{file.parent}/", "")
    if due not in seen or bool(due) is not bool(seen):
        yield f"a file: expected {due or 'taken'}, observed {seen or 'taken'}"


def _close(taken: object) -> None:
    if isinstance(taken, SqliteInboxStore):
        at_once(taken.close())
    elif isinstance(taken, Outbox | SqliteStore):
        taken.close()


_ROUNDS, _STEPS, _DEVICES = 40, 24, 4
_SPARE_PAGES, _PAGE_BYTES, _AUTO_CHECKPOINT = 256, 4096, 1000
_TABLES = (
    "CREATE TABLE IF NOT EXISTS one (number INTEGER PRIMARY KEY, text TEXT)",
    "CREATE TABLE IF NOT EXISTS other (number INTEGER REFERENCES one"
    " DEFERRABLE INITIALLY DEFERRED)",
)
_KIND = Kind(
    name="numbers",
    letters=b"LNSt",
    tables=_TABLES,
    upgrades=(
        lambda db: _change(db, "ALTER TABLE one ADD COLUMN text TEXT"),
        lambda db: _change(db, "UPDATE one SET text = 'upgraded'"),
    ),
    shrinks=True,
)
_ADD, _REFUSED, _UNCOMMITTED = (
    "INSERT INTO one (number) VALUES (?)",
    "INSERT INTO none VALUES (?)",
    "INSERT INTO other VALUES (-?)",
)


_ENDS_WITHIN_S = 60


async def ill_written(dice: Random) -> list[str]:
    """What files of all kinds keep instead of what they were given."""
    folder, found = new_folder("files"), list[str]()
    try:
        async with asyncio.timeout(_ENDS_WITHIN_S):
            await _use(folder, dice, found)
    except TimeoutError:
        found.append(f"who waits for it is told nothing within {_ENDS_WITHIN_S} s")
    finally:
        rmtree(folder)
    return found


async def _use(folder: Path, dice: Random, found: list[str]) -> None:
    await _sessions_at_random(folder / "sessions", dice, found.append)
    for number, entries_max in enumerate((4, 4, 1000, 1000)):
        inbox = folder / f"inbox {number}"
        await _inbox_at_random(inbox, entries_max, dice, found.append)
    found += _upgraded(folder / "older")
    file = SqliteFile(folder / "numbers", _KIND)
    file.read_at_once(lambda db: _change(db, "PRAGMA foreign_keys = ON"))
    due = list[int]()
    for _ in range(_ROUNDS):
        found += await _written(file, due, dice)
    found += [*await _compacted(file), *await _closed(file)]


async def _sessions_at_random(file: Path, dice: Random, found: Callable[[str], None]) -> None:
    store = TwinFile(file, found)
    for number in range(_DEVICES):
        keeping = Keeping({"lns-x": store}, eui(f"FE{number:014X}"), dice)
        for _ in range(_STEPS):
            await keeping.go_on()
    for number in range(_DEVICES):
        await store.refresh(eui(f"FE{number:014X}"))
        store.sessions(eui(f"FE{number:014X}"))
    store.close()


async def _inbox_at_random(
    file: Path, entries_max: int, dice: Random, found: Callable[[str], None]
) -> None:
    deciding = Deciding(SqliteInboxStore(file, entries_max=entries_max), entries_max, dice, found)
    for _ in range(_STEPS):
        await deciding.go_on()
        match dice.randrange(6):
            case 0:
                await deciding.store.close()
                deciding.store = SqliteInboxStore(file, entries_max=entries_max)
                await deciding.look()
            case 1:
                with closing(seize(file)):
                    await deciding.is_refused()
    await deciding.put_many_aside()
    await deciding.store.close()


async def _written(file: SqliteFile, due: list[int], dice: Random) -> list[str]:
    """What is wrong after a few commits, each of several writes, one of which may be refused.

    Those behind the first commit go together into the next one; some are not waited for.
    """
    asked, ends = list[asyncio.Future[int]](), list[object]()
    for _ in range(2):
        numbers = [1 + len(due) + one for one in range(dice.randint(1, 3))]
        refused = dice.choice((_REFUSED, _UNCOMMITTED, "", "", ""))
        for number in numbers:
            sql = refused if refused and number == numbers[-1] else _ADD
            asked.append(file.submit(partial(_do, sql=sql, number=number)))
        if not refused:
            due += numbers
        ends += [FileUnusable if refused else number for number in numbers]
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    left = dice.randrange(3 * len(asked))
    for one in asked[left : left + 1]:
        one.cancel()
    seen = [await file.read(_numbers)] if dice.randrange(2) else []
    told = await asyncio.gather(*asked, return_exceptions=True)
    seen.append(await file.read(_numbers))
    wrong = [f"a file: expected {due}, observed {one}" for one in seen if one != due]
    said: list[object] = [type(one) if isinstance(one, FileUnusable) else one for one in told]
    said[left : left + 1] = ends[left : left + 1]
    return wrong if said == ends else [*wrong, f"writes: expected {ends}, observed {said}"]


def _do(db: Connection, sql: str, number: int) -> int:
    db.execute(sql, (number,))
    return number


def _change(db: Connection, sql: str) -> None:
    db.execute(sql)


def _numbers(db: Connection) -> list[int]:
    return [number for (number,) in db.execute("SELECT number FROM one ORDER BY number")]


def _upgraded(file: Path) -> Iterator[str]:
    """Each step is done once, by the owner; before nobody reads the file."""
    for version in range(3):
        file.unlink(missing_ok=True)
        with closing(connect(file, isolation_level=None)) as db:
            text = ", text TEXT" if version else ""
            db.execute(f"CREATE TABLE one (number INTEGER PRIMARY KEY{text})")
            db.execute("INSERT INTO one (number) VALUES (7)")
            db.execute(f"PRAGMA application_id = {_KIND.application_id}")
            db.execute(f"PRAGMA user_version = {version}")
        try:
            seen = str(look(file, _KIND, _numbers))
        except FileUnusable as refusal:
            seen = str(refusal)
        if ("is of an earlier version" in seen) is not (version < 2):
            yield f"a file of version {version}: expected read by its owner first, observed {seen}"
        owner = SqliteFile(file, _KIND)
        row = owner.read_at_once(lambda db: db.execute("SELECT * FROM one").fetchone())
        owner.close()
        if row != (due := (7, "upgraded" if version < 2 else None)):
            yield f"a file of version {version}: expected {due}, observed {row}"


async def _compacted(file: SqliteFile) -> list[str]:
    """Pages go back when most of a long file is free, and the next ones keep some room."""
    wrong = []
    await file.write(lambda db: _change(db, "DELETE FROM one"))
    for pages, freed in ((300, 250), (800, 380), (800, 700), (400, 390)):
        await file.write(partial(_fill, pages=pages))
        await file.write(partial(_do, sql="DELETE FROM one WHERE number < ?", number=freed))
        [before] = await file.read(lambda db: db.execute("PRAGMA freelist_count").fetchone())
        await file.compact()
        [free] = await file.read(lambda db: db.execute("PRAGMA freelist_count").fetchone())
        [all_] = await file.read(lambda db: db.execute("PRAGMA page_count").fetchone())
        [auto] = await file.read(lambda db: db.execute("PRAGMA wal_autocheckpoint").fetchone())
        is_due = before > max(_SPARE_PAGES, (all_ + before - free) // 2)
        due = _SPARE_PAGES if is_due else before
        octets = file.path.stat().st_size
        if (free, auto) != (due, _AUTO_CHECKPOINT):
            wrong.append(f"of {pages} pages: expected {due} free, observed {free}, {auto}")
        if is_due and octets != all_ * _PAGE_BYTES:
            wrong.append(f"of {pages} pages: expected {all_} in the file, observed {octets} octets")
        await file.write(lambda db: _change(db, "DELETE FROM one"))
    return wrong


def _fill(db: Connection, pages: int) -> None:
    rows = [(number, "x" * (_PAGE_BYTES - 200)) for number in range(pages)]
    db.executemany("INSERT INTO one VALUES (?, ?)", rows)


async def _closed(file: SqliteFile) -> list[str]:
    """Who waits when a file is closed is told so, and so is whoever comes later."""
    waits = [file.submit(_numbers) for _ in range(3)]
    file.close()
    file.close()
    said = [str(one) for one in await asyncio.gather(*waits, return_exceptions=True)]
    for ask in (file.read, file.write):
        try:
            said.append(str(await ask(_numbers)))
        except FileUnusable as refusal:
            said.append(str(refusal))
    return [f"a file: expected closed, observed {one}" for one in said if "is closed" not in one]
