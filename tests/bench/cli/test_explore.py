"""What does `lorabench explore` tell, and with which exit code?"""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.output import Refused
from bench.cli.program import main
from bench.cli.scenarios import chosen
from bench.explore.history import read_histories
from bench.night.record import ExitCode


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
        (["--rig", "simulated", "--minutes", "1"], "--rig: --minutes is for histories in memory"),
        (["--history", "a=relaxed/Mark : a send", "--servers", "2"], "--history: --servers is for"),
        (["--keep", "/"], "/ is a folder"),
        (["--keep", "/no/such/file.json"], "there is no folder /no/such"),
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


def test_a_history_is_kept_and_played_as_a_scenario(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "kept.json"
    history = ["--history", "a=relaxed/Mark : a send A1 A2"]
    for _ in range(2):  # it is kept once
        assert main(["explore", *history, "--keep", str(file)]) == ExitCode.PASSED
    assert f"lorabench run --catalogue {file}" in capsys.readouterr().out
    [kept] = read_histories(file)
    assert (kept.id, kept.title) == ("X01", "worth to be played again")
    assert chosen(None, catalogue=file)[1:3] == ["--explored", str(file)]


def test_a_kept_history_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    file = tmp_path / "kept.json"
    file.write_text('{"cases": [{"id": "X01", "title": "odd", "history": "a : b"}]}', "utf-8")
    with pytest.raises(Refused, match="case 1 cannot be read"):
        chosen(None, catalogue=file)


def test_what_is_played_on_a_rig_is_told_as_json(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["--rig", "simulated", "--histories", "1", "--capture-dir", str(tmp_path), "--json"]
    assert main(["explore", *words]) == ExitCode.PASSED
    told = json.loads(capsys.readouterr().out)
    assert [case["verdict"] for case in told["cases"]] == ["PASS"]
    assert Path(told["captures"]).is_dir()


def test_what_servers_say_while_histories_are_chosen_is_kept_from_the_console(
    tmp_path: Path,
) -> None:
    words = ["--rig", "simulated", "--histories", "2", "--seed", "54"]  # a wire is cut
    command = [sys.executable, "-m", "bench", "explore", *words, "--capture-dir", str(tmp_path)]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == ExitCode.PASSED
    assert "wire" not in ran.stderr
