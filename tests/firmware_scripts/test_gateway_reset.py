from pathlib import Path

import pytest

from tests.firmware_scripts.running import SCRIPTS, calls, fake_program, script

DETECTED = {
    "gpiochip0": 'echo "gpiochip0 [pinctrl-bcm2711] (58 lines)"; echo "gpiochip1 [x] (8 lines)"',
    "gpiochip4": 'echo "gpiochip0 [brcmvirt-gpio] (4 lines)"\n'
    'echo "gpiochip4 [pinctrl-rp1] (54 lines)"',
}


def tools(folder: Path, version: str, chip: str = "gpiochip0") -> Path:
    fake_program(
        folder,
        "gpioset",
        f'case $1 in --version) echo "gpioset (libgpiod) v{version}" ;; esac',
    )
    fake_program(folder, "gpiodetect", DETECTED[chip])
    return folder


def sets(folder: Path) -> list[str]:
    return [line for line in calls(folder, "gpioset") if line != "--version"]


def test_libgpiod_1_is_told_how_long_in_microseconds(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 0, ended.err
    assert sets(path) == [f"-m time -u 100000 gpiochip0 17={level}" for level in (0, 1, 0)]


def test_libgpiod_2_holds_the_level_and_leaves_without_toggling_it(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "2.1.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 0, ended.err
    assert sets(path) == [f"-c gpiochip0 -p 100ms -t 0 17={level}" for level in (0, 1, 0)]


def test_the_chip_of_a_pi_5_is_found_by_its_label(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "2.1.3", "gpiochip4")
    script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert all("-c gpiochip4 " in line for line in sets(path))


def test_the_board_is_switched_on_before_it_is_reset(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    script(
        *("gateway/reset_lgw.sh", "start", "--reset", 17, "--power", 20, "--level", 0), path=path
    )
    assert [line.split()[-1] for line in sets(path)] == ["20=0", "17=0", "17=1", "17=0"]


def test_the_lines_stand_in_board_env_beside_it(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    copy = tmp_path / "home" / "reset_lgw.sh"
    copy.parent.mkdir()
    copy.write_text((SCRIPTS / "gateway" / "reset_lgw.sh").read_text())
    (copy.parent / "board.env").write_text(
        "RESET_GPIO=23\nPOWER_GPIO=18\nPOWER_LEVEL=1\nGPIO_CHIP=\n"
    )
    ended = script(str(copy), "start", path=path)
    assert ended.code == 0, ended.err
    assert [line.split()[-1] for line in sets(path)] == ["18=1", "23=0", "23=1", "23=0"]


def test_a_board_without_a_reset_line_needs_no_tool(tmp_path: Path) -> None:
    ended = script("gateway/reset_lgw.sh", "start", path=tmp_path)
    assert (ended.code, ended.out) == (0, "this board has no reset line; nothing to do\n")


def test_a_dry_run_sets_nothing(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, "--dry-run", path=path)
    assert sets(path) == []
    assert ended.out.count("would run: gpioset") == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["start", "--reset", "GPIO17"], "--reset is a number"),
        (["--reset", "17"], "say start or stop"),
        (["start", "--reset"], "--reset needs a value"),
        (["start", "--reset", "17", "--level", "2"], "--level is 0 or 1"),
        (["restart"], "what is 'restart'?"),
    ],
)
def test_a_wrong_command_line_is_told(arguments: list[str], message: str) -> None:
    ended = script("gateway/reset_lgw.sh", *arguments)
    assert ended.code == 4
    assert message in ended.err


def test_a_line_that_is_taken_is_a_failure(tmp_path: Path) -> None:
    path = tools(tmp_path / "bin", "1.6.3")
    version = 'echo "gpioset (libgpiod) v1.6.3"'
    fake_program(path, "gpioset", f"case $1 in --version) {version} ;; *) exit 1 ;; esac")
    ended = script("gateway/reset_lgw.sh", "start", "--reset", 17, path=path)
    assert ended.code == 1
    assert "gpioset failed" in ended.err
