"""What an earlier version of an inbox has not known."""

from contextlib import closing
from pathlib import Path
from sqlite3 import connect

import pytest

from bench.rig.in_memory.inbox_twin import RedisInboxTwin, forget_topics
from bench.rig.in_memory.written_files import held_on
from lns.clock import read_from
from lns.lorawan.identifiers import Eui

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


def test_an_inbox_in_redis_is_told_what_it_had_been() -> None:
    twin = RedisInboxTwin()
    twin.tables[b"window"] = {TWO[0].encode(): b"7 1 0"}
    twin.tables[b"numbers"] = {b"has_topics": b"1", b"accepted": b"1"}
    assert [*twin.forget_topics(b"inbox:{x}:")] == [
        (b"HDEL", b"inbox:{x}:window", TWO[0].encode()),
        (b"HSET", b"inbox:{x}:window", b"a:b", b"7 1 0"),
        (b"ZREM", b"inbox:{x}:window:order", TWO[0].encode()),
        (b"ZADD", b"inbox:{x}:window:order", b"1", b"a:b"),
        (b"HDEL", b"inbox:{x}:numbers", b"has_topics"),
        (b"HDEL", b"inbox:{x}:numbers", b"performDuplicateChecking"),
    ]
    assert twin.tables == {b"window": {b"a:b": b"7 1 0"}, b"numbers": {b"accepted": b"1"}}


def test_where_two_topics_have_one_id_there_was_no_such_inbox() -> None:
    twin = RedisInboxTwin()
    twin.tables[b"window"] = dict.fromkeys((b"1:b:1:c:x", b"1:b:1:d:x"), b"7 1 0")
    assert not [*twin.forget_topics(b"inbox:{x}:")]


@pytest.mark.parametrize(("late_us", "wrong"), [(7, 1), (0, 0)])
def test_a_server_lets_go_of_a_station_at_once(late_us: int, wrong: int) -> None:
    station = Eui("0016C001F1500001")
    with read_from(lambda: 7):
        found = [one.text for one in held_on("lns-a", station, late_us)]
    of = f"connection of {station} to lns-a: end: expected at once"
    assert found == [f"{of}, observed 7 us after all was decided"] * wrong
