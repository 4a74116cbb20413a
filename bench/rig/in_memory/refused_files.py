"""Is a file refused as what it is: in use, no file, somebody else's, too new, unreadable?"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from functools import cache
from pathlib import Path
from shutil import rmtree
from sqlite3 import Connection, connect

from bench.rig.in_memory.outbox_file import new_folder
from lns.clock import StoreUnavailable
from lns.delivery.inbox import figures_in
from lns.delivery.outbox import Outbox, state_of
from lns.delivery.publisher import UpstreamUnavailable
from lns.store.inbox_store import SqliteInboxStore, at_once
from lns.store.sqlite import SqliteStore

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
    for look in looks:
        yield from _wrong(file.with_name("none"), look, "none is no file")
        yield from _wrong(file, look, "")
    with closing(connect(file, isolation_level=None)) as db:
        [version] = db.execute("PRAGMA user_version").fetchone()
        db.execute("PRAGMA user_version = 7")
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
