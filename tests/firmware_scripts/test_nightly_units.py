import configparser
from pathlib import Path

import pytest

from tests.firmware_scripts.running import Ended, calls, fake_program, script


@pytest.fixture
def lab(tmp_path: Path) -> Path:
    for name in ("systemctl", "chown"):
        fake_program(tmp_path / "bin", name)
    fake_program(tmp_path / "lorabench", "lorabench")
    return tmp_path


def install(lab: Path, *more: object) -> Ended:
    return script(
        *("systemd/install.sh", "--root", lab / "root", "--user", "lab"),
        *("--program", lab / "lorabench/lorabench", *more),
        path=lab / "bin",
    )


def unit(lab: Path, name: str) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(strict=False, interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read(lab / "root/etc/systemd/system" / name)
    return parser


def test_the_night_is_started_by_a_timer(lab: Path) -> None:
    ended = install(lab, "--time", "23:05", "--bench", "/etc/lorabench/lab.toml")
    assert ended.code == 0, ended.err
    service = unit(lab, "lorabench-nightly.service")["Service"]
    program = lab / "lorabench/lorabench"
    assert service["ExecStart"] == f"{program} nightly --bench /etc/lorabench/lab.toml"
    assert service["User"] == "lab" and service["WorkingDirectory"] == "/var/lib/lorabench"
    assert service["KillSignal"] == "SIGINT", "an abort has to stop the transmitters"
    assert service["SuccessExitStatus"] == "10"
    assert unit(lab, "lorabench-nightly.timer")["Timer"]["OnCalendar"] == "*-*-* 23:05:00"
    assert calls(lab / "bin", "systemctl") == [
        *("daemon-reload", "enable --now lorabench-nightly.timer"),
    ]
    made = [lab / "root/var/lib/lorabench", lab / "root/etc/lorabench"]
    assert all(folder.is_dir() for folder in made)
    assert calls(lab / "bin", "chown") == [f"lab {folder}" for folder in made]
    assert "/etc/lorabench/lab.toml is not there yet" in ended.out


def test_a_second_time_the_units_are_left_alone(lab: Path) -> None:
    install(lab)
    ended = install(lab)
    assert ended.code == 0
    assert ended.out.count("unchanged: ") == 2 and "written" not in ended.out


def test_a_dry_run_changes_nothing(lab: Path) -> None:
    ended = install(lab, "--dry-run")
    assert ended.code == 0
    assert not (lab / "root").exists() and calls(lab / "bin", "systemctl") == []


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--time", "25:00"], "--time is like 01:30"),
        (["--bench", "lab.toml"], "not an absolute path"),
        (["--bench", "/my lab.toml"], "characters that a unit would misread"),
        (["--program", "/not/there"], "/not/there is no program"),
        (["--programm", "x"], "what is '--programm'?"),
    ],
)
def test_a_wrong_command_line_is_told(lab: Path, arguments: list[str], message: str) -> None:
    ended = install(lab, *arguments)
    assert ended.code == 4
    assert message in ended.err
    assert not (lab / "root").exists()
