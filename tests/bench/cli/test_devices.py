"""`lorabench devices`: the boards of the inventory, and boards to be found at real ptys."""

import json
import os
import tomllib
from pathlib import Path

import pytest

from bench.cli.on_hardware.devices import _place
from bench.cli.program import main
from bench.device.dialects import UsbPort
from bench.lab.inventory import BenchLock, load
from tests.bench.cli.far_board import E5, RUI3, far_board

HEAD = 'rig = "hardware"\n[bench]\nname = "lab"\nregion = "EU868"\ntap = "127.0.0.1:0"\n'


@pytest.fixture(autouse=True)
def _own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def bench_with(port: str, dev_eui: str = "AC1F09FFFE000001", more: str = "") -> None:
    Path("bench.toml").write_text(
        f'{HEAD}[[device]]\nname = "dut"\ndialect = "rui3"\nport = "{port}"\n'
        f'dev_eui = "{dev_eui}"\n{more}'
    )


def test_what_is_discovered_can_be_pasted(capsys: pytest.CaptureFixture[str]) -> None:
    with far_board(RUI3) as rak, far_board(E5) as e5, far_board({}) as mute:
        ports = [word for board in (rak, e5, mute) for word in ("--port", board.port)]
        assert main(["devices", "--discover", *ports]) == 0
    printed = capsys.readouterr().out
    assert f"# {rak.port}: RUI_5.0.0_RAK3172-H, UID 0123" in printed
    assert f"# {mute.port}: nobody answers" in printed
    assert tomllib.loads(printed) == {
        "device": [
            {
                "name": "device-1",
                "dialect": "rui3",
                "port": rak.port,
                "dev_eui": "AC1F09FFFE000001",
            },
            {
                "name": "device-2",
                "dialect": "lora-e5",
                "port": e5.port,
                "dev_eui": "2CF7F1203230DAC3",
            },
        ]
    }
    Path("bench.toml").write_text(HEAD + printed)
    assert [device.name for device in load(Path("bench.toml")).devices] == ["device-1", "device-2"]


def test_a_radio_without_a_dev_eui_is_a_replayer(capsys: pytest.CaptureFixture[str]) -> None:
    raw = {**RUI3, "AT+DEVEUI=?": "AT_MODE_NO_SUPPORT\r\n"}
    with far_board(raw) as board:
        assert main(["devices", "--discover", "--port", board.port]) == 0
    found = tomllib.loads(capsys.readouterr().out)
    assert found == {"replayer": [{"name": "replayer-1", "dialect": "rui3", "port": board.port}]}


def test_a_board_of_the_inventory_is_recognised(capsys: pytest.CaptureFixture[str]) -> None:
    with far_board(RUI3) as board:
        bench_with("/dev/elsewhere")
        assert main(["devices", "--discover", "--port", board.port]) == 0
    assert "; it is dut of the inventory" in capsys.readouterr().out


def test_discovery_as_json(capsys: pytest.CaptureFixture[str]) -> None:
    with far_board(RUI3) as board:
        assert main(["devices", "--port", board.port, "--port", "nowhere", "--json"]) == 0
    [found, missing] = json.loads(capsys.readouterr().out)
    assert (found["dialect"], found["dev_eui"], found["baud"]) == (
        "rui3",
        "AC1F09FFFE000001",
        115_200,
    )
    assert missing["dialect"] is None and "no such port" in missing["trouble"]


def test_with_nothing_plugged_in_it_says_what_to_do(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("bench.cli.on_hardware.devices.serial_ports", lambda: ())
    assert main(["devices", "--discover"]) == 12
    said = capsys.readouterr().err
    assert "Plug a board in" in said and "lorabench emulate" in said


def test_without_an_inventory_it_says_how_to_begin(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["devices"]) == 4
    assert "There is no file bench.toml" in capsys.readouterr().err


def test_the_overview_says_who_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    replayer = '[[replayer]]\nname = "replayer"\ndialect = "rui3"\nusb_path = "9-9.9"\n'
    with far_board(RUI3) as board:
        bench_with(board.port, more=replayer)
        assert main(["devices"]) == 12
        head, dut, missing = capsys.readouterr().out.splitlines()
        assert head == "lab: 1 device, 1 replayer, 0 gateways"
        assert dut.startswith("  dut") and dut.endswith(board.port)
        assert missing.startswith("! replayer") and "no serial port with USB path 9-9.9" in missing
        bench_with(board.port)
        assert main(["devices", "--json"]) == 0
        assert json.loads(capsys.readouterr().out) == [
            {
                "name": "dut",
                "kind": "device",
                "dialect": "rui3",
                "dev_eui": "AC1F09FFFE000001",
                "port": board.port,
                "firmware": None,
                "trouble": None,
            }
        ]
        assert board.heard == [], "nobody is asked unasked"


def test_the_overview_says_who_uses_the_bench(capsys: pytest.CaptureFixture[str]) -> None:
    with far_board(RUI3) as board:
        bench_with(board.port)
        with BenchLock(load(Path("bench.toml"))):
            assert main(["devices"]) == 0
            assert f", process {os.getpid()}, since " in capsys.readouterr().out.splitlines()[1]
            assert main(["devices", "--identify"]) == 12
        assert board.heard == []


@pytest.mark.parametrize(
    ("answers", "dev_eui", "code", "said"),
    [
        (RUI3, "AC1F09FFFE000001", 0, "RUI_5.0.0_RAK3172-H"),
        (RUI3, "AC1F09FFFE000009", 12, "its DevEUI is AC1F09FFFE000001, not AC1F09FFFE000009"),
        (E5, "2CF7F1203230DAC3", 12, "it speaks lora-e5, not rui3"),
        ({}, "AC1F09FFFE000001", 12, "nobody answers"),
    ],
)
def test_boards_are_asked_who_they_are(
    answers: dict[str, str],
    dev_eui: str,
    code: int,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    with far_board(answers) as board:
        bench_with(board.port, dev_eui)
        assert main(["devices", "--identify"]) == code
    assert said in capsys.readouterr().out


def usb(path: str, serial: str | None, location: str | None) -> UsbPort:
    return UsbPort(path=path, vid=1, pid=2, serial_number=serial, location=location, description="")


def test_a_port_is_named_by_what_stays() -> None:
    ports = (
        usb("a", "77", "1-1"),
        usb("b", "0001", "1-2"),
        usb("c", "5", "1-3"),
        usb("d", "5", "1-4"),
        usb("e", None, "1-5"),
        usb("f", None, "1-5"),
    )
    assert [_place(port.path, ports) for port in ports] == [
        {"usb_serial": "77"},
        {"usb_path": "1-2"},
        {"usb_path": "1-3"},
        {"usb_path": "1-4"},
        {"port": "e"},
        {"port": "f"},
    ]
