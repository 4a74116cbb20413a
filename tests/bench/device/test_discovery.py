"""Who answers at a port, asked so that nobody is harmed."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

from bench.device import dialects
from bench.device.dialects import Found, who_is_there
from bench.device.serial_line import PortUnavailable
from tests.bench.device.far_end import FarEnd, Rui3Settings
from tests.bench.device.test_lora_e5 import E5Settings
from tests.bench.device.wired import on_wires, play
from tests.host_time import Watch


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
