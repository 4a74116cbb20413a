"""`lorabench doctor` on this machine, with and without a Java."""

import json
from pathlib import Path

import pytest

from bench.cli.program import main


@pytest.fixture(autouse=True)
def _own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.delenv("REAL_JAVA", raising=False)


def test_the_screen_is_grouped_and_ends_in_a_sentence(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["doctor"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if line and line[0] != " "][:3] == [
        "Nightly on the simulated rig",
        "Emulated rig",
        "Hardware rig",
    ]
    assert "nightly on the simulated rig" in " ".join(lines[-3:])
    assert any(line.startswith("  OK ") for line in lines)


def test_without_java_the_nightly_cannot_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "nowhere"))
    assert main(["doctor", "--json"]) == 12
    told = json.loads(capsys.readouterr().out)
    (java,) = [check for check in told["checks"] if check["name"] == "Java"]
    assert (java["state"], java["remedy"]) == ("missing", "unset JAVA_HOME")
    assert told["works"]["nightly on the simulated rig"] is False
    assert told["exit_code"] == 12


def test_a_folder_of_runs_that_is_a_file_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert main(["doctor", "--runs", "file"]) == 12
    assert "is no folder" in " ".join(capsys.readouterr().out.split())
