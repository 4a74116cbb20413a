"""`lorabench power` with commands that leave a trace."""

import json
from pathlib import Path

import pytest

from bench.cli.program import main
from bench.lab.inventory import BenchLock, load

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
