"""The table of concentrator boards."""

import pytest

from bench.lab.inventory.sections import BOARDS, Certainty, GatewayBoard


@pytest.mark.parametrize("board", BOARDS.values(), ids=str)
def test_a_board_at_spi_has_a_reset_line_and_one_at_usb_none(board: GatewayBoard) -> None:
    assert (board.reset_gpio is None) is (board.interface == "usb")
    assert board.device == {"spi": "/dev/spidev0.0", "usb": "usb:/dev/ttyACM0"}[board.interface]


@pytest.mark.parametrize(
    ("name", "reset", "power", "level"),
    [
        ("CoreCell", 23, 18, 1),
        ("RAK5146", 17, None, 1),
        ("RAK833", 17, 20, 0),
        ("RAK5146-USB", None, None, 1),
    ],
)
def test_the_lines_read_in_code(name: str, reset: int, power: int | None, level: int) -> None:
    board = BOARDS[name]
    assert (board.reset_gpio, board.power_gpio, board.power_level) == (reset, power, level)
    assert board.certainty is Certainty.SOURCE


def test_the_lines_that_nobody_has_read_in_code_say_so() -> None:
    unsure = {name for name, board in BOARDS.items() if board.certainty is Certainty.VERIFY}
    assert unsure == {"RAK831", "WM1302", "Waveshare-SX1302", "PG1301", "PG1302", "iC880A"}


def test_the_configuration_is_known_for_the_newer_chips_only() -> None:
    unknown = {name for name, board in BOARDS.items() if not board.has_known_configuration}
    assert unknown == {"RAK2245", "RAK831", "RAK833", "PG1301", "iC880A"}
