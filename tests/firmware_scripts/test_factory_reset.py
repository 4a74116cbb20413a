import pytest

from tests.firmware_scripts.running import script
from tests.firmware_scripts.scripted_boards import DEFAULTS, LoraE5Board, Rui3Board


def test_a_rui3_board_is_as_it_was_in_its_bag() -> None:
    with Rui3Board(DR="5", ADR="0", JOIN="0:0:8:0") as board:
        ended = script("factory_reset.py", "--port", board.port, "--yes")
        assert ended.code == 0, ended.err
        assert board.settings == DEFAULTS and board.restarts == 1
    assert "reset: " in ended.out and "note:" not in ended.out


def test_a_lora_e5_is_abp_after_it() -> None:
    with LoraE5Board() as board:
        board.settings["MODE"] = "LWOTAA"
        ended = script("factory_reset.py", "--port", board.port, "--yes")
        assert ended.code == 0, ended.err
    assert "mode LWABP" in ended.out


@pytest.mark.parametrize(("option", "code"), [("--dry-run", 0), (None, 4)])
def test_nothing_is_reset_without_a_yes(option: str | None, code: int) -> None:
    with Rui3Board(DR="5") as board:
        ended = script("factory_reset.py", "--port", board.port, *filter(None, [option]))
        assert board.restarts == 0 and board.settings["DR"] == "5"
    assert ended.code == code


def test_a_busy_board_is_a_failure() -> None:
    class BusyBoard(Rui3Board):
        def _boot(self) -> bytes:
            return self.says("AT_BUSY_ERROR")

    with BusyBoard() as board:
        ended = script("factory_reset.py", "--port", board.port, "--yes")
    assert ended.code == 1
    assert "ATR answers AT_BUSY_ERROR" in ended.err
