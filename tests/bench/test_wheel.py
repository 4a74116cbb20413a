"""The wheel: built, installed where nothing else of the project is, and used in an empty folder."""

import json
import os
import re
import subprocess
import sys
import sysconfig
import venv
import zipfile
from email.parser import HeaderParser
from pathlib import Path

import pytest

pytestmark = pytest.mark.programs
ROOT = Path(__file__).resolve().parents[2]
WITHIN_S = 500
SUFFIXES = {".py", ".ini", ".j2", ".json", ".md", ".sh", ".service", ".timer", ".toml", ".rules"}
FOLDERS = ("lns", "bench", "scenarios", "firmware_scripts")


def _sources() -> list[str]:
    """What belongs to the project, and not what lies in its folders."""
    known = subprocess.run(
        ["git", "-C", str(ROOT), "ls-files", "-z", "--", *FOLDERS, "pyproject.toml", "README.md"],
        capture_output=True,
        check=True,
        timeout=WITHIN_S,
    )
    return [name for name in known.stdout.decode().split("\0") if name and (ROOT / name).is_file()]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Built from a copy: a build leaves things behind where it takes place."""
    copy, made = tmp_path_factory.mktemp("copy"), tmp_path_factory.mktemp("wheel")
    for name in _sources():
        (copy / name).parent.mkdir(parents=True, exist_ok=True)
        (copy / name).write_bytes((ROOT / name).read_bytes())
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    built = subprocess.run(
        [*command, "--wheel-dir", str(made), str(copy)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert built.returncode == 0, built.stderr
    [file] = made.glob("*.whl")
    return file


@pytest.fixture(scope="module")
def programs(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The programs of a new environment with the wheel in it; what it needs is that of this one."""
    place = tmp_path_factory.mktemp("environment")
    venv.create(place, with_pip=False, symlinks=True)
    install = [sys.executable, "-m", "pip", "--python", str(place), "install", "--quiet"]
    done = subprocess.run(
        [*install, "--no-deps", "--no-index", "--no-compile", str(wheel)],
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )
    assert done.returncode == 0, done.stderr
    [packages] = place.glob("lib/python3*/site-packages")
    # A plain line of a .pth is a folder; what this environment has of the checkout stays behind.
    (packages / "needed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return place / "bin"


def _run(programs: Path, folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "TMPDIR") if name in os.environ}
    return subprocess.run(
        [str(programs / words[0]), *words[1:]],
        cwd=folder,
        env={**kept, "NO_COLOR": "1"},
        capture_output=True,
        text=True,
        check=False,
        timeout=WITHIN_S,
    )


def test_everything_comes_along(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        inside = set(archive.namelist())
        [named] = [name for name in inside if name.endswith(".dist-info/METADATA")]
        metadata = HeaderParser().parsestr(archive.read(named).decode())
    wanted = {name for name in _sources() if name.startswith(FOLDERS) and "/pictures/" not in name}
    assert {Path(name).suffix for name in wanted} - SUFFIXES <= {".typed"}
    assert wanted - inside == set()
    assert not [name for name in inside if name.startswith("tests/")]
    assert metadata["Name"] == "lorabench"
    assert metadata["Summary"]
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert "author" not in {key.lower() for key in metadata.keys()}


def test_the_program_and_its_scenarios_work_in_an_empty_folder(
    programs: Path, tmp_path: Path
) -> None:
    ran = _run(programs, tmp_path, "lorabench", "run", "second_station", "--json")
    assert ran.returncode == 0, ran.stderr
    told = json.loads(ran.stdout)
    assert told["totals"] == {"PASS": 6, "FAIL": 0, "INCONCLUSIVE": 0, "ERROR": 0}
    run = tmp_path / told["run"]
    assert json.loads((run / "manifest.json").read_text())["dut"]["commit"] == "unknown"
    assert {path.name for path in tmp_path.iterdir()} == {"runs"}
    listed = _run(programs, tmp_path, "lorabench", "scenarios")
    assert listed.returncode == 0, listed.stderr
    assert "a_second_station_delivers_the_same_frame" in listed.stdout


def test_pytest_has_the_rig_there(programs: Path, tmp_path: Path) -> None:
    (tmp_path / "test_mine.py").write_text(
        "from bench.scenario import Rig\n\n\n"
        "async def test_mine(rig: Rig) -> None:\n"
        "    await rig.device('alpa').send()\n"
    )
    ran = _run(programs, tmp_path, "python", "-m", "pytest", "-q", "test_mine.py")
    assert ran.returncode == 1
    assert "test_mine.py:5: no device 'alpa'" in ran.stdout


def test_a_newcomer_sees_the_first_scenario_red_and_green(programs: Path, tmp_path: Path) -> None:
    page = (ROOT / "scenarios" / "README.md").read_text("utf-8")
    [(name, text)] = re.findall(r"^```python (test_pump\.py)\n(.*?)^```", page, re.M | re.S)
    (tmp_path / "my_scenarios").mkdir()
    file = tmp_path / "my_scenarios" / name
    file.write_text(
        text.replace("NonDuplicate forwarded RX1 ", "NonDuplicate forwarded NotAsked ", 1)
    )
    red = _run(programs, tmp_path, "lorabench", "run", "my_scenarios/")
    assert red.returncode == 1
    assert "expected NonDuplicate forwarded NotAsked, observed NonDuplicate forwarded RX1" in (
        red.stdout + red.stderr
    )
    file.write_text(text)
    green = _run(programs, tmp_path, "lorabench", "run", "my_scenarios/")
    assert green.returncode == 0 and "6 cases: 6 PASS" in green.stdout
    drawn = _run(programs, tmp_path, "lorabench", "timeline", "latest", "pump Drop-confirmed")
    assert "pump/two_roofs_hear_the_pump[Drop-confirmed]" in drawn.stdout, drawn.stderr


def test_the_doctor_and_the_server_start_there(programs: Path, tmp_path: Path) -> None:
    doctor = _run(programs, tmp_path, "lorabench", "doctor", "--json")
    assert json.loads(doctor.stdout), doctor.stderr
    server = _run(programs, tmp_path, "lorabench", "lns", "--help")
    assert server.returncode == 0, server.stderr
