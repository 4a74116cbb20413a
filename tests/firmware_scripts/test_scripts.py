"""Is every script usable alone, and does it explain itself?"""

import ast
import subprocess
import sys
from pathlib import Path

import pytest

from tests.firmware_scripts.running import BY_THE_BENCH, SCRIPTS, script

ALONE = (
    *("flash.py", "make_udev_rules.py", "gateway/configure.py", "gateway/install.sh"),
    *("gateway/reset_lgw.sh", "gateway/wisgate.sh", "systemd/install.sh"),
)
PROGRAMS = (*ALONE, *BY_THE_BENCH)
PYTHON = sorted(file for file in SCRIPTS.rglob("*.py") if file.name not in BY_THE_BENCH)
SHELL = sorted(SCRIPTS.rglob("*.sh"))


@pytest.mark.parametrize("name", PROGRAMS)
def test_help_has_examples_and_a_dry_run(name: str) -> None:
    ended = script(name, "--help", anew=name == "identify.py")
    assert ended.code == 0
    assert "examples:" in ended.out.lower()
    assert "--dry-run" in ended.out or name == "identify.py"  # it only asks


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_unknown_option_ends_with_4_and_one_message(name: str) -> None:
    ended = script(name, "--no-such-option")
    assert ended.code == 4
    assert len(ended.err.splitlines()[-1]) > 20
    assert ended.out == ""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_page_tells_of_it(name: str) -> None:
    assert name in (SCRIPTS / "README.md").read_text()


@pytest.mark.parametrize("file", PYTHON, ids=lambda file: file.name)
def test_it_needs_python_and_pyserial_only(file: Path) -> None:
    neighbours = {path.stem for path in file.parent.glob("*.py")}
    allowed = neighbours | {"serial"} | sys.stdlib_module_names
    for node in ast.walk(ast.parse(file.read_text())):
        match node:
            case ast.Import(names=names):
                modules = [name.name for name in names]
            case ast.ImportFrom(module=str(module), level=0):
                modules = [module]
            case _:
                continue
        assert {module.partition(".")[0] for module in modules} <= allowed, file


@pytest.mark.parametrize("file", SHELL, ids=lambda file: f"{file.parent.name}-{file.name}")
def test_it_is_posix_shell(file: Path) -> None:
    text = file.read_text()
    assert text.startswith("#!/bin/sh\n") and "\nset -eu\n" in text
    for foreign in ("[[ ", "function ", "local ", "<<<", "echo -e", "pipefail"):
        assert foreign not in text, foreign
    subprocess.run(["sh", "-n", str(file)], check=True)


def test_the_gateway_folder_is_enough_for_a_gateway(tmp_path: Path) -> None:
    """It alone is copied to a Pi, where there is no pyserial."""
    for file in (SCRIPTS / "gateway").iterdir():
        if file.is_file():
            (tmp_path / file.name).write_bytes(file.read_bytes())
    done = subprocess.run(
        [sys.executable, "-I", str(tmp_path / "configure.py"), "--boards"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert "RAK5146" in done.stdout


def test_without_pyserial_it_says_how_to_get_it() -> None:
    done = subprocess.run(
        [sys.executable, "-S", str(SCRIPTS / "flash.py")],  # without the installed packages
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert done.stderr.startswith("error: pyserial is missing: apt-get install python3-serial")
    assert "Traceback" not in done.stderr
