"""What does `lorabench explore` tell, and with which exit code?"""

import json
from pathlib import Path

import pytest

from bench.cli.output import ExitCode
from bench.cli.program import main


def test_a_few_histories_are_explored(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--histories", "20", "--seed", "3", "--json"]) == ExitCode.PASSED
    told = json.loads(capsys.readouterr().out)
    assert (told["histories"], told["findings"]) == (20, [])
    assert told["repeat"] == "lorabench explore --histories 20 --seed 3"
    assert told["holes"]


def test_the_table_of_pairs_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["explore", "--histories", "5", "--servers", "1", "--no-faults", "--table"]
    assert main(words) == ExitCode.PASSED
    out = capsys.readouterr().out
    assert " 1 copy " in out
    assert "findings    none" in out


def test_one_history_is_drawn(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["explore", "--history", "a=relaxed/Mark : a send A1 A2"]) == ExitCode.PASSED
    out = capsys.readouterr().out
    assert "SoftDuplicate marked NotAsked" in out
    assert "No law is broken." in out


@pytest.mark.parametrize(
    ("words", "why"),
    [
        (["--history", "a=relaxed/Mark"], "--history: a history is"),
        (["--minutes", "0"], "--minutes"),
        (["--histories", "0"], "--histories"),
        (["--servers", "4"], "--servers"),
        (["--devices", "9"], "--devices"),
        (["--workers", "0"], "--workers"),
        (["--rig", "simulated", "--history", "a=relaxed/Mark : a send ; empty"], "no rig can play"),
    ],
)
def test_what_cannot_be_done_is_refused(
    words: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["explore", *words]) == ExitCode.USAGE
    assert why in capsys.readouterr().err


def test_a_file_that_is_none_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "kept.json"
    file.write_text("{}", encoding="utf-8")
    assert main(["explore", "--histories", "1", "--keep", str(file)]) == ExitCode.USAGE
    assert "keeps no histories" in capsys.readouterr().err
