import hashlib
from pathlib import Path

import pytest

from tests.firmware_scripts.running import Ended, calls, fake_program, script
from tests.firmware_scripts.scripted_boards import Rui3Board


@pytest.fixture
def image(tmp_path: Path) -> Path:
    file = tmp_path / "RAK3172-H.hex"
    file.write_text(":00000001FF\n")
    return file


def flash(port: str, image: Path, tools: Path, *more: str, version: str = "4.1.0") -> Ended:
    return script(
        *("flash.py", "rak3172", image, "--port", port, "--version", version, *more),
        path=tools,
    )


def test_the_right_version_is_left_alone(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash")
    with Rui3Board(VER="RUI_4.1.0_RAK3172-H") as board:
        ended = flash(board.port, image, tmp_path / "bin")
    assert (ended.code, ended.out) == (0, f"unchanged: {board.port} has RUI_4.1.0_RAK3172-H\n")
    assert calls(tmp_path / "bin", "stm32flash") == []


def test_another_version_is_written_and_asked_for_afterwards(tmp_path: Path, image: Path) -> None:
    with Rui3Board(VER="RUI_4.0.6_RAK3172-H") as board:
        tools = tmp_path / "bin"
        fake_program(tools, "stm32flash")
        still = flash(board.port, image, tools, "--prepared")
        assert calls(tools, "stm32flash") == [f"-b 115200 -w {image} -v {board.port}"]
        assert still.code == 1
        assert "has RUI_4.0.6_RAK3172-H now, not 4.1.0" in still.err

        original = board.answer

        def answer(command: str) -> bytes:
            if calls(tools, "stm32flash")[1:]:
                board.settings["VER"] = "RUI_4.1.0_RAK3172-H"
            return original(command)

        board.answer = answer  # type: ignore[method-assign]
        done = flash(board.port, image, tools, "--prepared")
    assert done.code == 0, done.err
    assert "done: " in done.out and "RUI_4.1.0_RAK3172-H" in done.out


def test_a_dry_run_shows_the_command_and_runs_nothing(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash")
    with Rui3Board() as board:
        ended = flash(board.port, image, tmp_path / "bin", "--dry-run")
    assert ended.code == 0
    assert f"stm32flash -b 115200 -w {image} -v {board.port}" in ended.out
    assert calls(tmp_path / "bin", "stm32flash") == []


def test_of_two_tools_none_is_guessed(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash")
    fake_program(tmp_path / "bin", "STM32_Programmer_CLI")
    with Rui3Board() as board:
        ended = flash(board.port, image, tmp_path / "bin")
        assert ended.code == 4
        assert "choose --tool stm32-programmer-swd, stm32-programmer-uart, stm32flash" in ended.err
        chosen = flash(
            *(board.port, image, tmp_path / "bin", "--dry-run", "--tool", "stm32-programmer-swd"),
        )
    assert f"STM32_Programmer_CLI -c port=SWD -w {image} -v -rst" in chosen.out


def test_a_missing_tool_is_named(tmp_path: Path, image: Path) -> None:
    ended = flash("/dev/not-there", image, tmp_path, "--tool", "stm32flash")
    assert ended.code == 1
    assert "stm32flash is not there; install" in ended.err


def test_a_silent_board_is_not_flashed_by_mistake(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash")
    ended = flash("/dev/not-there", image, tmp_path / "bin", "--prepared")
    assert ended.code == 1
    assert "say --blank" in ended.err
    assert calls(tmp_path / "bin", "stm32flash") == []


def test_a_tool_that_fails_is_a_failure(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash", "exit 3")
    with Rui3Board() as board:
        ended = flash(board.port, image, tmp_path / "bin", "--prepared")
    assert ended.code == 1
    assert "stm32flash ended with 3" in ended.err


def test_another_image_than_the_one_that_was_meant_is_refused(tmp_path: Path, image: Path) -> None:
    fake_program(tmp_path / "bin", "stm32flash")
    good = hashlib.sha256(image.read_bytes()).hexdigest()
    wrong = flash("/dev/not-there", image, tmp_path / "bin", "--sha256", "0" * 64)
    assert wrong.code == 4 and good in wrong.err
    right = flash("/dev/not-there", image, tmp_path / "bin", "--sha256", good)
    assert "say --blank" in right.err


def test_a_board_without_a_published_firmware_is_refused(image: Path) -> None:
    ended = script("flash.py", "lora-e5", image, "--port", "/dev/x", "--version", "4.0.11")
    assert ended.code == 4
    assert "publishes no AT firmware" in ended.err
