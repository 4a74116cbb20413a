"""What an earlier version of an inbox has not known."""

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from bench.rig.in_memory.inbox_twin import forget_topics

TWO = ["4:mqtt:2:up:a:b", "4:mqtt:5:a:b:c:1:p:x"]


@pytest.mark.parametrize(
    ("names", "known"), [(TWO, ["1:p:x", "a:b"]), (["1:b:1:c:x", "1:b:1:d:x"], None)]
)
def test_an_id_has_no_topic(tmp_path: Path, names: list[str], known: list[str] | None) -> None:
    file = tmp_path / "inbox"
    with closing(connect(file)) as db, db:
        db.execute("CREATE TABLE inbox_window (name TEXT PRIMARY KEY)")
        db.execute("CREATE TABLE inbox_number (name TEXT)")
        db.executemany("INSERT INTO inbox_window VALUES (?)", [(name,) for name in names])
        db.execute("INSERT INTO inbox_number VALUES ('has_topics')")
    forget_topics(file)
    with closing(connect(file)) as db:
        found = [name for (name,) in db.execute("SELECT name FROM inbox_window ORDER BY name")]
        [numbers] = db.execute("SELECT count(*) FROM inbox_number").fetchone()
    assert found == (known or names)
    assert numbers == (known is None)
