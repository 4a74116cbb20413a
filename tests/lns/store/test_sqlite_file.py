"""A file that many write at once: what shares a commit, and what a failure takes with it."""

import asyncio
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pytest

from lns.store.sqlite import FileUnusable, Kind, SqliteFile
from tests.looped import on_a_loop

NOTES = Kind("notes", b"NOTE", ("CREATE TABLE IF NOT EXISTS note (text TEXT)",))


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    opened = SqliteFile(tmp_path / "notes", NOTES)
    yield opened
    opened.close()


async def note(file: SqliteFile, text: str) -> int:
    def change(db: sqlite3.Connection) -> int:
        db.execute("INSERT INTO note VALUES (?)", (text,))
        return len(text)

    return await file.write(change)


def notes(db: sqlite3.Connection) -> list[str]:
    return [text for (text,) in db.execute("SELECT text FROM note ORDER BY rowid")]


def test_many_writers_share_few_commits(file: SqliteFile) -> None:
    statements: list[str] = []
    file.read_at_once(lambda db: db.set_trace_callback(statements.append))

    async def burst() -> list[int]:
        return await asyncio.gather(*(note(file, str(number)) for number in range(500)))

    assert asyncio.run(burst()) == [len(str(number)) for number in range(500)]
    assert file.read_at_once(notes) == [str(number) for number in range(500)]
    assert statements.count("COMMIT") == 1


def test_who_comes_during_a_commit_is_in_the_next_one(file: SqliteFile) -> None:
    statements: list[str] = []
    file.read_at_once(lambda db: db.set_trace_callback(statements.append))

    async def trickle() -> None:
        async with asyncio.TaskGroup() as writers:
            for number in range(500):
                writers.create_task(note(file, str(number)))
                if number % 5 == 0:
                    await asyncio.sleep(0)

    asyncio.run(trickle())
    assert file.read_at_once(notes) == [str(number) for number in range(500)]
    assert 1 < statements.count("COMMIT") < 100


@on_a_loop
async def test_a_reader_sees_only_what_is_on_the_disk(file: SqliteFile) -> None:
    assert await file.read(notes) == []
    _, seen = await asyncio.gather(note(file, "a"), file.read(notes))
    assert seen == ["a"], "it waited for the commit"


def test_a_failed_change_leaves_nothing_and_the_next_one_works(file: SqliteFile) -> None:
    def wrong(db: sqlite3.Connection) -> None:
        db.execute("INSERT INTO note VALUES ('half')")
        db.execute("INSERT INTO nowhere VALUES (1)")

    async def body() -> None:
        said = await asyncio.gather(note(file, "a"), file.write(wrong), return_exceptions=True)
        assert [type(error) for error in said] == [FileUnusable, FileUnusable]
        assert "notes cannot be written: no such table: nowhere" in str(said[0])
        await note(file, "b")

    asyncio.run(body())
    assert file.read_at_once(notes) == ["b"]


def test_a_writer_that_gives_up_takes_nobody_with_it(file: SqliteFile) -> None:
    async def body() -> None:
        async with asyncio.TaskGroup() as writers:
            hasty = writers.create_task(note(file, "a"))
            writers.create_task(note(file, "b"))
            await asyncio.sleep(0)
            hasty.cancel()

    asyncio.run(body())
    assert "b" in file.read_at_once(notes)


def test_whoever_waits_for_a_file_that_is_closed_is_told(file: SqliteFile) -> None:
    async def body() -> None:
        async with asyncio.TaskGroup() as writers:
            said = writers.create_task(refused())
            await asyncio.sleep(0)
            file.close()
        assert said.result() == f"{file.path} is closed"

    async def refused() -> str:
        with pytest.raises(FileUnusable) as told:
            await note(file, "a")
        return str(told.value)

    asyncio.run(body())
