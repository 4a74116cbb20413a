from pathlib import Path

import pytest

from bench.doctor import look_at_intruders, look_at_permission, look_at_ports
from bench.doctor.installed import State


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "dev").mkdir()
    (tmp_path / "proc" / "17").mkdir(parents=True)
    (tmp_path / "proc" / "18").mkdir()  # has ended: its files are gone
    (tmp_path / "proc" / "17" / "comm").write_text("ModemManager\n")
    return tmp_path


def test_without_boards_there_is_no_port(root: Path) -> None:
    assert look_at_ports(root).state is State.MISSING
    assert look_at_permission(root).state in (State.OK, State.WARNING)


def test_boards_are_named(root: Path) -> None:
    for n in range(8):
        (root / "dev" / f"ttyUSB{n}").touch()
    (root / "dev" / "ttyS0").touch()
    assert look_at_ports(root).found.endswith("ttyUSB4, ttyUSB5 and 2 more")
    assert look_at_permission(root).found == "may be opened by this user"


def test_a_port_that_may_not_be_opened_is_mended_by_the_group(root: Path) -> None:
    (root / "dev" / "ttyACM0").symlink_to(root / "gone")
    looked = look_at_permission(root)
    assert looked.state is State.MISSING
    assert "usermod -aG dialout" in looked.remedy


def test_a_program_that_talks_to_boards_is_told(root: Path) -> None:
    looked = look_at_intruders(root)
    assert looked.state is State.WARNING
    assert looked.remedy == "sudo systemctl disable --now ModemManager"
    (root / "proc" / "17" / "comm").write_text("bash\n")
    assert look_at_intruders(root).state is State.OK
