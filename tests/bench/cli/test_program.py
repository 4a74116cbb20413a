"""The program as a person meets it: help, mistakes, JSON, exit codes."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.program import COMMANDS, main
from tests.bench.traffic.traffic_files import CONFORMANCE
from tests.lns.test_capture import disk_of


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_the_help_of_every_command_has_an_example_and_the_exit_codes(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([command, "--help"]) == 0
    shown = capsys.readouterr().out
    assert f"  lorabench {command}" in shown
    assert ("12  the bench itself failed" in shown) is (command != "compare")


def test_an_example_is_shown_whole_and_can_be_copied(capsys: pytest.CaptureFixture[str]) -> None:
    main(["devices", "--help"])
    whole = """
  lorabench devices provision --port /dev/ttyUSB0 --dev-eui AC1F09FFFE000001 \\
    --join-eui AC1F09FFF8680001 --app-key-file dut.key --role DUT
  lorabench devices reset --port /dev/ttyUSB0
"""
    assert whole in capsys.readouterr().out
    main(["emulate", "--help"])
    assert "\n  lorabench run --rig hardware --bench lab/bench.toml\n" in capsys.readouterr().out


def test_a_command_with_exit_codes_of_its_own_shows_these_alone(
    capsys: pytest.CaptureFixture[str],
) -> None:
    main(["compare", "--help"])
    shown = capsys.readouterr().out
    assert "   10  different, but undecided\n" in shown
    assert "repeated stimulus" not in shown


@pytest.mark.parametrize("command", sorted(COMMANDS))
def test_every_command_prints_json_on_demand(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    main([command, "--help"])
    assert "--json" in capsys.readouterr().out


def test_without_a_command_the_help_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(command in shown for command in COMMANDS)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["rum"], 'Unknown command "rum"'),
        (["run", "--sede", "3"], "Unknown option: --sede"),
        (["run", "--seed", "x"], 'unable to convert "x" into int'),
        (["run", "--rig", "cardboard"], 'Choose from: "simulated"'),
        (["run", "test_nowhere.py"], "There is no file test_nowhere.py"),
        *(
            (["emulate", "--tap", tap], f"--tap {tap}: it is a host and a port from 1 to 65535")
            for tap in ("host:99999", "host:0", "host", "a b:1", ":1")
        ),
        (["run", "--limit", "0"], "--limit is a number of cases, 1 at least"),
        (["nightly", "--limit", "0"], "--limit is a number of cases, 1 at least"),
        (["nightly", "--captures", "nowhere"], "--captures: there is no folder nowhere"),
        (["run", "--retention", "0"], "--retention is a number of seconds, 1 at least"),
        (["nights", "-n", "0"], "--number is a number of nights, 1 at least"),
        (["score", "nowhere"], "There is no run nowhere"),
        (["report", "nowhere"], "There is no run nowhere"),
        (["import", "nowhere.json"], "There is no file nowhere.json"),
        (["import", "nowhere.json", "--stations", "0"], "--stations has to be 1 or more"),
        (["import", "nowhere.json", "--limit", "0"], "--limit has to be 1 or more"),
    ],
)
def test_a_mistake_is_answered_in_words(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(words) == 4
    output = capsys.readouterr()
    assert said in output.err
    assert "Traceback" not in output.err
    assert output.out == ""


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["emulate", "--folder", "file"], "file is a file, and a folder is wanted there."),
        (["emulate", "--folder", "file/lab"], "lab: a part of this path is a file, and no folder."),
        (["devices", "replay", "--port", "x", "--message", "none"], "none cannot be read: No such"),
        (
            ["devices", "replay", "--port", "x", "--message", "bytes"],
            "cannot be read: it is not UTF",
        ),
    ],
)
def test_what_the_system_says_is_told_in_words(
    words: list[str],
    said: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "file").write_text("")
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    assert main(words) == 4
    told = capsys.readouterr().err
    assert said in told
    assert "Errno" not in told


def test_the_list_of_scenarios_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["scenarios", "--json"]) == 0
    listed = json.loads(capsys.readouterr().out)
    assert all({"group", "name", "title", "file", "line"} <= set(entry) for entry in listed)
    assert listed


def test_a_run_that_is_not_scored_has_no_report(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "20261120T020003Z-7f3a"
    folder.mkdir()
    (folder / "manifest.json").write_text("{}")
    assert main(["report", str(folder)]) == 4
    assert f"lorabench score {folder}" in capsys.readouterr().err


HOSTILE = "a\x1b]0;owned\x07\x1b[2J\x9b31m\r\u202eb"


@pytest.mark.parametrize(
    "words",
    [
        ["import", "{}"],
        ["import", "{}", "--json"],
        ["import", "none{}"],
        ["score", "none{}"],
        ["score", "{}"],
        ["report", "{}"],
        ["report", "{}", "--json"],
        ["timeline", "{}", "case"],
        ["run", "test_{}.py"],
        ["lns", "{}", "--check"],
        ["lns", "{}", "--check", "--json"],
        ["outbox", "{}"],
        ["run", "--bench", "{}"],
        ["certificates", "--into", "{}", "--station", "x"],
    ],
)
def test_what_a_terminal_obeys_in_the_name_of_a_file_never_reaches_it(
    words: list[str],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / HOSTILE).write_text("nothing")
    main([word.format(HOSTILE) for word in words])
    shown = "".join(capsys.readouterr())
    assert "owned" in shown or words[0] == "certificates"
    assert not set(shown) & set("\x1b\x07\x9b\r\u202e")


def test_a_whole_import_of_such_a_file_shows_its_name_and_moves_no_cursor(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / HOSTILE).write_bytes(CONFORMANCE.read_bytes())
    for more in ([], ["--json"]):
        main(["import", HOSTILE, "--limit", "5", "--runs", f"runs{HOSTILE}", *more])
        shown = "".join(capsys.readouterr())
        assert "owned" in shown
        assert not set(shown) & set("\x1b\x07\x9b\r\u202e")


@pytest.mark.parametrize("closed", ["stdout", "stderr", "stdin"])
def test_a_stream_that_was_closed_at_the_start_takes_all(
    closed: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, closed, None)
    assert main(["scenarios"]) == 0
    assert main(["report", "nowhere"]) == 4
    getattr(sys, closed).close()


@pytest.mark.parametrize(
    "words", [["scenarios"], ["scenarios", "--json"], ["report", "-", "--json"]]
)
def test_an_output_that_takes_no_more_is_told(
    words: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stdout", full)
        assert main(words) == 12
    assert capsys.readouterr().err == "lorabench: stdout: No space left on device.\n"


def test_where_nobody_can_be_told_the_exit_code_says_it(monkeypatch: pytest.MonkeyPatch) -> None:
    with open("/dev/full", "w", encoding="utf-8") as full:
        monkeypatch.setattr(sys, "stderr", full)
        assert main(["report", "nowhere"]) == 12


def test_a_mistake_of_the_bench_is_no_failure_of_a_server(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(COMMANDS, "report", "report.no_such_function")
    assert main(["report", "latest"]) == 12
    assert "AttributeError" in capsys.readouterr().err


def test_a_disk_that_is_full_is_told_with_the_file(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with disk_of(5_000):
        assert main(["import", str(CONFORMANCE), "--runs", str(tmp_path)]) == 12
    [run] = tmp_path.iterdir()
    assert re.search(f"lorabench: {run}/.*: File too large", capsys.readouterr().err)
    with disk_of(500):
        assert main(["report", str(run)]) == 12
        assert (
            main(
                ["certificates", "--station", "0016C001F1500001", "--into", str(tmp_path / "made")]
            )
            == 12
        )
    report, certificates = capsys.readouterr().err.splitlines()
    assert re.fullmatch(f"lorabench: {run}/.*: File too large.", report)
    assert re.fullmatch(f"lorabench: {tmp_path}/made.*: File too large.", certificates)


ENDED = """
import os
import signal

from bench.clock import seconds


async def test_ended(rig):
    os.kill(os.getpid(), signal.{})
    while True:
        await rig.wait(seconds(1))
"""


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_who_is_ended_by_somebody_else_ends_as_with_ctrl_c(name: str, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(ENDED.format(name))
    words = [sys.executable, "-m", "bench", "run", "test_mine.py", "--json"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    run = subprocess.run(
        words,
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert run.returncode == 2
    assert json.loads(run.stdout)["wholeness"]["whole"] is False
    assert "Traceback" not in run.stderr
