"""`lorabench at` with a board at a pty: what is sent, what is shown, and what never is."""

import io
import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from bench.cli.program import main
from bench.lab.inventory import BenchLock, load
from tests.bench.cli.far_board import E5, RUI3, UNPLUGGED, FarBoard, far_board

KEY = "00112233445566778899AABBCCDDEEFF"


@pytest.fixture
def dut() -> Iterator[FarBoard]:
    with far_board(RUI3) as board:
        yield board


def bench_with(folder: Path, board: FarBoard, dialect: str = "rui3") -> str:
    path = folder / "bench.toml"
    path.write_text(
        'rig = "hardware"\n[bench]\nname = "lab"\nregion = "EU868"\ntap = "127.0.0.1:0"\n'
        f'[[device]]\nname = "dut"\ndialect = "{dialect}"\nport = "{board.port}"\n'
        'dev_eui = "AC1F09FFFE000001"\n'
    )
    return str(path)


def at(bench: str, *words: str) -> int:
    return main(["at", "dut", *words, "--bench", bench])


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[io.TextIOWrapper]:
    """What is typed into the console goes here."""
    reading, writing = os.pipe()
    with os.fdopen(reading) as stdin, os.fdopen(writing, "w", buffering=1) as keyboard:
        monkeypatch.setattr("sys.stdin", stdin)
        yield keyboard  # type: ignore[misc]


def test_commands_are_sent_in_order_and_their_lines_shown(
    dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert at(bench_with(tmp_path, dut), "AT+VER=?", "AT+DEVEUI=?") == 0
    assert dut.heard == ["AT+VER=?", "AT+DEVEUI=?"]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "AT+VER=RUI_5.0.0_RAK3172-H",
        "OK",
        "AT+DEVEUI=AC1F09FFFE000001",
        "OK",
    ]
    assert shown.err == ""


def test_another_dialect_has_another_last_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with far_board(E5) as board:
        assert at(bench_with(tmp_path, board, "lora-e5"), "AT+ID", "AT+VER") == 0
    shown = capsys.readouterr().out.splitlines()
    assert len(shown) == 4 and shown[-1] == "+VER: 4.0.11"


def test_a_refusal_ends_it(
    dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dut.answers["AT+DR=9"] = "AT_PARAM_ERROR\r\n"
    assert at(bench_with(tmp_path, dut), "AT+DR=9", "AT+VER=?") == 1
    assert dut.heard == ["AT+DR=9"]
    shown = capsys.readouterr()
    assert shown.out == "AT_PARAM_ERROR\n" and "dut: AT_PARAM_ERROR (to AT+DR=9)" in shown.err


def test_events_are_shown_as_long_as_one_listens(
    dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    dut.answers["AT+SEND=2:C0FFEE"] = "OK\r\n+EVT:TX_DONE\r\n"
    assert at(bench_with(tmp_path, dut), "AT+SEND=2:C0FFEE", "--listen-s", "1") == 0
    assert capsys.readouterr().out.splitlines() == ["OK", "+EVT:TX_DONE"]


def test_json_has_all_of_it(
    dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert at(bench_with(tmp_path, dut), "AT+VER=?", "--json") == 0
    assert json.loads(capsys.readouterr().out) == {
        "name": "dut",
        "commands": ["AT+VER=?"],
        "lines": ["AT+VER=RUI_5.0.0_RAK3172-H", "OK"],
        "trouble": None,
    }


def test_a_key_is_masked(dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dut.answers["AT+APPKEY=?"] = f"AT+APPKEY={KEY}\r\nOK\r\n"
    assert at(bench_with(tmp_path, dut), "AT+APPKEY=?") == 0
    shown = capsys.readouterr().out
    assert shown.splitlines() == ["***", "OK"] and KEY not in shown


@pytest.mark.parametrize("command", [f"AT+APPKEY={KEY}", f'at+key=APPKEY,"{KEY}"'])
def test_a_key_does_not_stand_on_a_command_line(
    command: str, dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert at(bench_with(tmp_path, dut), command) == 4
    shown = capsys.readouterr().err
    assert "does not belong on a command line" in shown and KEY not in shown
    assert dut.heard == []


@pytest.mark.parametrize(
    "command",
    ["AT+BOOT", "at+cw=868100000:14:10", "AT+TTONE=1", "AT+TEST=TXCW", "AT+TEST = TXCLORA"],
)
def test_what_would_send_without_end_is_never_written(
    command: str, dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert at(bench_with(tmp_path, dut), "AT+VER=?", command) == 4
    assert "is not sent" in capsys.readouterr().err
    assert dut.heard == []


def test_the_console_sends_what_is_typed(
    dut: FarBoard,
    tmp_path: Path,
    typed: io.TextIOWrapper,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dut.answers[f"AT+APPKEY={KEY}"] = "OK\r\n"
    typed.write(f"AT+VER=?\n\nAT+CW=1\nAT+NOPE\nAT+APPKEY={KEY}")
    typed.close()
    dut.answers["AT+NOPE"] = "AT_COMMAND_NOT_FOUND\r\n"
    assert at(bench_with(tmp_path, dut)) == 0
    assert dut.heard == ["AT+VER=?", "AT+NOPE", f"AT+APPKEY={KEY}"]
    shown = capsys.readouterr()
    assert shown.out.splitlines() == [
        "AT+VER=RUI_5.0.0_RAK3172-H",
        "OK",
        "AT_COMMAND_NOT_FOUND",
        "OK",
    ]
    assert "AT+CW=1 is not sent" in shown.err and "AT_COMMAND_NOT_FOUND (to AT+NOPE)" in shown.err


def test_the_console_says_when_the_board_is_gone(
    dut: FarBoard,
    tmp_path: Path,
    typed: io.TextIOWrapper,
    capsys: pytest.CaptureFixture[str],
) -> None:
    dut.answers["AT"] = UNPLUGGED
    typed.write("AT\nAT\n")
    assert at(bench_with(tmp_path, dut)) == 12
    assert "dut: its line is gone" in capsys.readouterr().err


def test_the_console_takes_a_file(
    dut: FarBoard,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "commands").write_text("AT\nAT+VER=?\n")
    with (tmp_path / "commands").open() as file:
        monkeypatch.setattr("sys.stdin", file)
        assert at(bench_with(tmp_path, dut)) == 0
    assert dut.heard == ["AT", "AT+VER=?"]


def test_a_board_that_is_not_there_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # The name of a terminal that was closed would soon be somebody else's.
    bench = bench_with(tmp_path, FarBoard(str(tmp_path / "ttyACM0"), RUI3))
    assert at(bench, "AT") == 12
    assert "no such port; is the board plugged in?" in capsys.readouterr().err
    assert main(["at", "dud", "--bench", bench]) == 4
    assert "There is no board dud" in capsys.readouterr().err


def test_a_board_that_somebody_uses_is_left_alone(
    dut: FarBoard, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    bench = bench_with(tmp_path, dut)
    with BenchLock(load(Path(bench))):
        assert at(bench, "AT") == 12
    assert "The bench lab is taken: it is used by" in capsys.readouterr().err
    assert dut.heard == []


Capture = pytest.CaptureFixture[str]
BENCH = """\
rig = "hardware"
[bench]
name = "lab"
region = "EU868"
tap = "127.0.0.1:6090"
[[device]]
name = "dut"
dialect = "rui3"
port = "/dev/lora/dut"
dev_eui = "AC1F09FFFE000001"
power = "dut-usb"
reset = "dut-nrst"
[[replayer]]
name = "replayer"
dialect = "rui3"
port = "/dev/lora/replayer"
[[gateway]]
name = "west"
eui = "0016C001F1500001"
kind = "program"
power = "dut-usb"
[[power]]
name = "dut-usb"
kind = "command"
on = ["sh", "-c", "echo on >> done"]
off = ["sh", "-c", "echo off >> done"]
[[power]]
name = "dut-nrst"
kind = "command"
cycle = ["sh", "-c", "echo pressed >> done; exit $(cat code)"]
"""


@pytest.fixture(autouse=True)
def _bench(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bench.toml").write_text(BENCH)
    Path("code").write_text("0")


def test_the_switches_are_listed_with_their_users(capsys: Capture) -> None:
    assert main(["power"]) == 0
    first, second = capsys.readouterr().out.splitlines()
    assert first.split() == ["dut-usb", "command", "dut,", "west"]
    assert second.split() == ["dut-nrst", "command", "dut", "(reset)"]
    assert main(["power", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0] == {
        "name": "dut-usb",
        "kind": "command",
        "used_by": ["dut", "west"],
    }


@pytest.mark.parametrize("name", ["dut-usb", "dut", "west"])
def test_a_switch_is_found_by_its_name_and_by_its_users(name: str, capsys: Capture) -> None:
    assert main(["power", name, "cycle", "--off-s", "0"]) == 0
    assert Path("done").read_text() == "off\non\n"
    assert capsys.readouterr().out == "dut-usb was off and is on again.\n"


def test_a_button_is_pressed(capsys: Capture) -> None:
    assert main(["power", "dut-nrst", "cycle", "--json"]) == 0
    assert Path("done").read_text() == "pressed\n"
    assert json.loads(capsys.readouterr().out)["switch"] == "dut-nrst"


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["dut-nrst", "cycle"], 12, "ended with 3"),
        (["dut-nrst", "on"], 12, "it can only be cycled"),
        (["dud", "on"], 4, "There is no switch dud in bench.toml. Known: dut-usb, dut-nrst."),
        (["replayer", "on"], 4, "replayer has no power switch"),
        (["dut"], 4, "What is to be done with dut?"),
        (["dut", "cycle", "--off-s", "-1"], 4, "--off-s"),
        (["dut", "toggle"], 4, "toggle"),
    ],
)
def test_what_cannot_be_done_is_told(
    words: list[str], code: int, said: str, capsys: Capture
) -> None:
    Path("code").write_text("3")
    assert main(["power", *words]) == code
    shown = capsys.readouterr()
    assert said in shown.err and shown.out == ""


def test_a_bench_in_use_is_left_alone(capsys: Capture) -> None:
    with BenchLock(load(Path("bench.toml"))):
        assert main(["power", "dut", "off"]) == 12
        assert main(["power"]) == 0
    assert "The bench lab is taken" in capsys.readouterr().err
    assert not Path("done").exists()


def test_a_bench_without_switches_says_so(capsys: Capture) -> None:
    Path("bench.toml").write_text(
        'rig = "hardware"\n[bench]\nname = "lab"\nregion = "EU868"\ntap = "127.0.0.1:6090"\n'
    )
    assert main(["power"]) == 0
    assert "has no [[power]]" in capsys.readouterr().out
