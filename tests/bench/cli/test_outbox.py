"""`lorabench outbox` looks into the file of a server, which may run meanwhile."""

import asyncio
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from bench.cli.program import main
from lns.delivery.outbox import Outbox
from tests.lns.delivery.sending import ALPHA, BETA, message

TOPIC = f"lorawan/lns-a/{ALPHA}/up"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "lns-a.outbox"


def fill(outbox: Outbox) -> None:
    async def body() -> None:
        for f_cnt, dev_eui in ((7, ALPHA), (8, ALPHA), (9, BETA), (10, ALPHA)):
            await outbox.add(message(f_cnt, dev_eui))
        await outbox.remove([1, 3])

    asyncio.run(body())


def test_what_waits_is_told_while_its_owner_runs(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    outbox = Outbox(path)
    fill(outbox)
    assert main(["outbox", str(path)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].startswith("waiting  2 messages (")
    assert lines[2] == (f"oldest   {ALPHA}-01ABCDEF-8, number 2, received 2026-11-20T02:00:30.393Z")
    assert lines[3].startswith(f"newest   {ALPHA}-01ABCDEF-10, number 3")
    assert lines[5:] == [
        f"{TOPIC}  2 messages (number 2 to 3), 3 numbered",
        f"lorawan/lns-a/{BETA}/up  nothing waits, 1 numbered",
    ]
    asyncio.run(outbox.add(message(11)))
    outbox.close()


def test_the_same_as_json(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox(path)
    fill(outbox)
    outbox.close()
    assert main(["outbox", str(path), "--json"]) == 0
    document = json.loads(capsys.readouterr().out)
    assert (document["file"], document["waiting"]) == (str(path), 2)
    assert document["oldest"] == {
        "topic": TOPIC,
        "message_id": f"{ALPHA}-01ABCDEF-8",
        "remove_duplicates_key": f"{ALPHA}-01ABCDEF-8",
        "sequence_number": 2,
        "received_at": "2026-11-20T02:00:30.393Z",
    }
    assert document["streams"][0] == {
        "topic": TOPIC,
        "waiting": 2,
        "first": 2,
        "last": 3,
        "numbered": 3,
    }


def test_a_file_in_which_nothing_was_ever_written_is_called_empty(
    path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path.touch()
    assert main(["outbox", str(path)]) == 4
    said = f"lorabench: {path} is empty: nobody has written the outbox of a network server there"
    assert capsys.readouterr().err.startswith(said)


def test_looking_changes_nothing(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox(path)
    fill(outbox)
    outbox.close()
    before = {file.name: file.read_bytes() for file in path.parent.iterdir()}
    assert main(["outbox", str(path)]) == 0
    assert {file.name: file.read_bytes() for file in path.parent.iterdir()} == before


def test_an_empty_outbox_and_a_limit(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    outbox = Outbox(path)
    assert main(["outbox", str(path)]) == 0
    assert "waiting  0 messages (0 KiB)" in capsys.readouterr().out
    fill(outbox)
    assert main(["outbox", str(path), "--streams-max", "1"]) == 0
    assert "and 1 more streams; --streams-max shows them" in capsys.readouterr().out
    outbox.close()


def test_a_file_that_is_no_outbox_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    notes = tmp_path / "notes"
    notes.write_text("no database, and longer than the header of one " * 20)
    other = tmp_path / "other"
    with closing(sqlite3.connect(other)) as db:
        db.execute("CREATE TABLE diary (day)")
    for file, said in (
        (notes, "notes holds something else than the outbox of a network server"),
        (other, "other holds something else than the outbox of a network server"),
        (tmp_path, "is no file"),
        (tmp_path / "nowhere", "nowhere is no file"),
    ):
        assert main(["outbox", str(file)]) == 4
        output = capsys.readouterr()
        assert said in output.err and "[upstream] section" in output.err
        assert output.out == ""
    assert not (tmp_path / "nowhere").exists()
