"""The scripts for boards are `lorabench devices`, word for word."""

import subprocess
import sys
import tomllib

import pytest

from tests.firmware_scripts.running import SCRIPTS, script
from tests.firmware_scripts.scripted_boards import Rui3Board


def test_what_is_found_can_be_pasted_into_the_inventory() -> None:
    with Rui3Board() as board:
        ended = script("identify.py", board.port)
    assert ended.code == 0, ended.err
    (entry,) = tomllib.loads(ended.out)["device"]
    assert (entry["dialect"], entry["dev_eui"]) == ("rui3", "AC1F09FFFE000001")


def test_a_board_is_reset() -> None:
    with Rui3Board(DR="5") as board:
        ended = script("factory_reset.py", "--port", board.port, "--dialect", "rui3", "--yes")
        assert ended.code == 0, ended.err
        assert board.settings["DR"] == "0"


@pytest.mark.parametrize("name", ["identify", "provision", "replay", "factory_reset"])
def test_without_the_bench_it_says_how_to_get_it(name: str) -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPTS / f"{name}.py")],  # without the installed packages
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert "Install the bench (`make install`)" in done.stderr and "Traceback" not in done.stderr
