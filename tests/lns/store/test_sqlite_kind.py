"""Who owns a file, who may look into it, and how an old one is brought up to date."""

import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from lns.store.sqlite import FileUnusable, Kind, Owned, look

NOTES = Kind("notes", b"NOTE", ("CREATE TABLE IF NOT EXISTS note (text TEXT)",))
OWNING = """
import sys
from pathlib import Path
from tests.lns.store.test_sqlite_kind import NOTES, write
from lns.store.sqlite import Owned
owned = Owned(Path(sys.argv[1]), NOTES)
write(owned, "written before the kill")
print("owned", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "notes"


def write(owned: Owned, text: str) -> None:
    owned.db.execute("INSERT INTO note VALUES (?)", (text,))


def notes(db: sqlite3.Connection) -> list[str]:
    return [text for (text,) in db.execute("SELECT text FROM note ORDER BY rowid")]


def test_whoever_looks_sees_the_last_commit_and_stops_nobody(path: Path) -> None:
    owned = Owned(path, NOTES)
    write(owned, "first")
    owned.db.execute("BEGIN")
    write(owned, "not yet")
    assert look(path, NOTES, notes) == ["first"]
    owned.db.execute("COMMIT")
    assert look(path, NOTES, notes) == ["first", "not yet"]
    owned.close()
    assert look(path, NOTES, notes) == ["first", "not yet"]


def test_whoever_looks_cannot_write(path: Path) -> None:
    owned = Owned(path, NOTES)
    with pytest.raises(FileUnusable, match="attempt to write a readonly database"):
        look(path, NOTES, lambda db: db.execute("INSERT INTO note VALUES ('x')"))
    owned.close()


def test_a_killed_owner_leaves_what_it_wrote_and_no_lock(path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", OWNING, str(path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as child:
        assert child.stdout is not None and child.stdout.readline() == "owned\n"
        with pytest.raises(FileUnusable, match="notes is in use by another process"):
            Owned(path, NOTES)
        assert look(path, NOTES, notes) == ["written before the kill"]
        os.kill(child.pid, signal.SIGKILL)
    log = path.with_name("notes-wal")
    before = log.read_bytes()
    assert look(path, NOTES, notes) == ["written before the kill"]
    assert log.read_bytes() == before
    owned = Owned(path, NOTES)
    assert notes(owned.db) == ["written before the kill"]
    owned.close()


def test_another_name_of_the_file_is_the_same_file(path: Path) -> None:
    owned = Owned(path, NOTES)
    other = path.with_name("link")
    other.symlink_to(path)
    with pytest.raises(FileUnusable, match="link is in use"):
        Owned(other, NOTES)
    write(owned, "first")
    assert look(other, NOTES, notes) == ["first"]
    owned.close()


def test_upgrades_are_made_once_and_in_order(path: Path) -> None:
    Owned(path, NOTES).close()

    def add(column: str) -> None:
        upgrades.append(lambda db: db.execute(f"ALTER TABLE note ADD COLUMN {column}") and None)

    upgrades: list = []  # type: ignore[type-arg]
    for column in ("author", "place"):
        add(column)
        tables = (f"CREATE TABLE IF NOT EXISTS note (text TEXT, author, {column})",)
        newer = Kind("notes", b"NOTE", tables, tuple(upgrades))
        with pytest.raises(FileUnusable, match="is of an earlier version"):
            look(path, newer, notes)
        for _ in range(2):
            Owned(path, newer).close()
    with closing(sqlite3.connect(path)) as db:
        assert [row[1] for row in db.execute("PRAGMA table_info(note)")] == [
            "text",
            "author",
            "place",
        ]
    with pytest.raises(FileUnusable, match="was written by a newer version of this program"):
        Owned(path, NOTES)


def test_an_upgrade_that_fails_leaves_the_file_as_it_was(path: Path) -> None:
    owned = Owned(path, NOTES)
    write(owned, "first")
    owned.close()

    def fail(db: sqlite3.Connection) -> None:
        db.execute("DELETE FROM note")
        db.execute("SELECT * FROM nowhere")

    with pytest.raises(FileUnusable, match="no such table"):
        Owned(path, Kind("notes", b"NOTE", NOTES.tables, (fail,)))
    assert look(path, NOTES, notes) == ["first"]
