import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import get_args, get_type_hints

import pytest
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from bench.device import dialects
from bench.device.at_session import RUI3
from bench.device.dialects import (
    DIALECTS,
    Found,
    UsbPort,
    driver_for,
    line_for,
    serial_ports,
    who_is_there,
)
from bench.device.lora_e5 import E5, LORA_E5, SEEEDUINO, LoraE5Device
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import PortUnavailable, SerialLine
from bench.lab.inventory.sections import RadioSection
from lns.lorawan.identifiers import Eui
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.test_lora_e5 import E5Settings
from tests.bench.device.wired import on_wires, play
from tests.host_time import Watch

DEV_EUI = Eui("70B3D57ED0000001")


def test_each_dialect_has_its_driver_its_radio_and_its_line() -> None:
    lines = {name: (dialect.baud, dialect.dtr) for name, dialect in DIALECTS.items()}
    assert lines == {
        "rui3": (115_200, False), "lora-e5": (9_600, False), "seeeduino": (115_200, True)
    }  # fmt: skip
    assert {name: dialect.grammar for name, dialect in DIALECTS.items()} == {
        "rui3": RUI3,
        "lora-e5": E5,
        "seeeduino": E5,
    }


def test_an_inventory_names_the_dialects_that_somebody_speaks() -> None:
    assert get_args(get_type_hints(RadioSection)["dialect"]) == tuple(DIALECTS)


def test_the_driver_of_a_dialect() -> None:
    def driver(dialect: str) -> object:
        return driver_for(dialect, "alpha", DEV_EUI, SerialLine("x"), lambda *told: None)

    assert isinstance(driver("rui3"), Rui3Device)
    e5, seeeduino = driver("lora-e5"), driver("seeeduino")
    assert isinstance(e5, LoraE5Device)
    assert isinstance(seeeduino, LoraE5Device)
    assert (e5.lineage, seeeduino.lineage) == (LORA_E5, SEEEDUINO)
    with pytest.raises(ValueError, match="'rui4'; known: rui3, lora-e5, seeeduino"):
        driver("rui4")


def test_the_inventory_may_say_otherwise_how_a_line_is_opened() -> None:
    assert vars(line_for("lora-e5", "x"))["_baud"] == 9_600
    changed = vars(line_for("lora-e5", "x", baud=115_200, dtr=True))
    assert (changed["_baud"], changed["_dtr"]) == (115_200, True)


@pytest.mark.parametrize(
    ("dialect", "dev_eui", "firmware"),
    [("rui3", "70B3D57ED0000001", "RUI_4.1.0_RAK3172-H"),
     ("lora-e5", "2CF7F12000000001", "4.0.11"), ("seeeduino", "2CF7F12000000001", "4.0.11")],
)  # fmt: skip
@on_wires
async def test_all_of_them_are_used_in_the_same_way(
    tmp_path: Path, dialect: str, dev_eui: str, firmware: str
) -> None:
    board = Rui3Settings() if dialect == "rui3" else E5Settings()
    async with FarEnd(board, tmp_path / "port") as far:
        line = line_for(dialect, far.port)
        async with driver_for(dialect, "alpha", Eui(dev_eui), line, far.record) as device:
            assert await device.identify() == firmware
            assert (device.name, device.firmware) == ("alpha", firmware)
            assert device.traits.sets_counters is (dialect != "rui3")
            assert (await device.radiation()).region == "EU868"
            await device.returned(1_000_000)
            await device.silence()


def ask(tmp_path: Path, answer: Callable[[str], bytes]) -> tuple[Found | None, FarEnd]:
    async def scene() -> tuple[Found | None, FarEnd]:
        async with FarEnd(answer, tmp_path / "port") as far:
            return await who_is_there(far.port), far

    return play(scene())


def test_a_board_under_rui3(tmp_path: Path) -> None:
    board = Rui3Settings(UID="0123456789ABCDEF")
    found, far = ask(tmp_path, board)
    assert found == Found(
        port=far.port, dialect="rui3", baud=115_200, dtr=False,
        firmware="RUI_4.1.0_RAK3172-H", dev_eui=board.values["DEVEUI"], uid="0123456789ABCDEF",
    )  # fmt: skip
    assert board.written == []


def test_a_board_in_its_raw_mode_tells_no_dev_eui_but_who_it_is(tmp_path: Path) -> None:
    board = Rui3Settings(UID="0123456789ABCDEF", NWM="0")
    board.replies["AT+DEVEUI=?"] = b"AT_MODE_NO_SUPPORT\r\n"
    found, _ = ask(tmp_path, board)
    assert found is not None
    assert (found.dialect, found.dev_eui, found.uid) == ("rui3", None, "0123456789ABCDEF")
    assert board.starts == 0


def test_a_lora_e5(tmp_path: Path) -> None:
    found, _ = ask(tmp_path, E5Settings())
    assert found is not None
    assert (found.dialect, found.firmware) == ("lora-e5", "4.0.11")
    assert found.dev_eui == "2CF7F12000000001"


def test_at_commands_of_another_dialect_are_told_as_what_they_say(tmp_path: Path) -> None:
    board = Rui3Settings(VER="V1.0.4")
    found, far = ask(tmp_path, board)
    assert found is not None
    assert (found.dialect, found.firmware, found.dev_eui) == (None, "V1.0.4", None)
    assert "AT+DEVEUI=?" not in far.commands


def test_a_locked_console_is_there_and_tells_nothing(tmp_path: Path) -> None:
    found, _ = ask(tmp_path, lambda command: b"COMMAND_LOCKED\r\n")
    assert found is not None
    assert (found.dialect, found.firmware) == (None, "")


@on_wires
async def test_noise_and_silence_are_nobody_in_bounded_time(tmp_path: Path) -> None:
    async with FarEnd(lambda command: b"\xff\xfeOOK\x80\r\n", tmp_path / "port") as far:
        watch = Watch()
        assert await who_is_there(far.port) is None
        assert watch.seconds < 3 * dialects.FIRST_WORD_US / 1_000_000 + 2
    assert set(far.commands) == {"AT"}


@pytest.mark.parametrize("first", [b"", b"\xff\xfe"])
def test_a_board_that_is_still_starting_is_asked_again(tmp_path: Path, first: bytes) -> None:
    board, unheard = Rui3Settings(UID="00"), 1

    def answer(command: str) -> bytes:
        nonlocal unheard
        if unheard:
            unheard -= 1
            return first
        return board(command)

    found, _ = ask(tmp_path, answer)
    assert found is not None
    assert (found.dialect, found.baud) == ("rui3", 115_200)


def test_a_port_that_is_none() -> None:
    with pytest.raises(PortUnavailable, match="no such port"):
        asyncio.run(who_is_there("/dev/ttyNobody"))


def test_no_opening_harms_a_board() -> None:
    openings = dialects._OPENINGS
    assert all(baud >= 9_600 for baud, _ in openings)  # 1200 starts a boot loader
    assert openings[-1] == (115_200, True)  # DTR is left alone until nothing else has answered
    assert not any(dtr for _, dtr in openings[:-1])


def port(device: str, location: str | None, serial_number: str | None) -> ListPortInfo:
    info = ListPortInfo(device)
    info.vid, info.pid, info.description = 0x1A86, 0x7523, "USB Serial"
    info.location, info.serial_number = location, serial_number
    return info


def test_ports_of_usb_devices_by_path_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = ListPortInfo("/dev/ttyS0")
    found = [port("/dev/ttyUSB1", "1-1.2.2", ""), built_in, port("/dev/ttyACM0", "1-1.3:1.0", "42")]
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    assert serial_ports() == (
        UsbPort(path="/dev/ttyACM0", vid=0x1A86, pid=0x7523, serial_number="42", location="1-1.3",
                description="USB Serial"),
        UsbPort(path="/dev/ttyUSB1", vid=0x1A86, pid=0x7523, serial_number=None, location="1-1.2.2",
                description="USB Serial"),
    )  # fmt: skip


def test_this_host_can_be_asked() -> None:
    assert isinstance(serial_ports(), tuple)
