"""Is every script usable alone, and does it explain itself?"""

import ast
import configparser
import re
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path

import pytest

from bench.cli.program import COMMANDS, main
from bench.lab.inventory import load
from tests.firmware_scripts.running import BY_THE_BENCH, SCRIPTS, Ended, calls, fake_program, script
from tests.firmware_scripts.scripted_boards import Rui3Board

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


ROOT = SCRIPTS.parent
PAGES = (ROOT / "hardware.md", SCRIPTS / "README.md")
PAGE = PAGES[0].read_text()


def inventory_of_the_page() -> str:
    (text,) = re.findall(r"```toml\n(.*?)```", PAGE, re.DOTALL)
    return text


def anchors(page: str) -> set[str]:
    heads = re.findall(r"^#+ (.*)$", page, re.MULTILINE)
    return {re.sub(r"[^a-z0-9 _-]", "", head.lower()).replace(" ", "-") for head in heads}


def test_its_inventory_is_taken_as_it_stands(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(inventory_of_the_page())
    inventory = load(file)
    assert [device.name for device in inventory.devices] == ["dut", "e5"]
    assert [gateway.name for gateway in inventory.gateways] == ["west", "east"]
    assert inventory.conducted


def test_the_rules_for_its_ports_can_be_made_of_it(tmp_path: Path) -> None:
    file = tmp_path / "bench.toml"
    file.write_text(inventory_of_the_page())
    ended = script("make_udev_rules.py", "--bench", file)
    assert ended.code == 0, ended.err
    assert 'SYMLINK+="lora/dut"' in ended.out and 'SYMLINK+="lora/e5"' in ended.out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_links_lead_somewhere(page: Path) -> None:
    text = page.read_text()
    for target in re.findall(r"\]\(([^)]+)\)", text):
        file, _, anchor = target.partition("#")
        where = (page.parent / file) if file else page
        assert where.exists(), target
        if anchor:
            assert anchor in anchors(where.read_text()), target


@cache
def help_of(file: str) -> str:
    """What a script says that it can do; pages name the same ones again and again."""
    return script(file, "--help").out


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_scripts_exist_and_take_the_options(page: Path) -> None:
    text = page.read_text()
    for name, rest in re.findall(r"((?:[\w/]+/)?\w+\.(?:py|sh))([^\n`]*)", text):
        found = [path for path in SCRIPTS.rglob(Path(name).name) if str(path).endswith(name)]
        if name in ("rinit.sh",):
            continue
        assert found or (ROOT / name).exists(), name
        explained = help_of(str(found[0] if found else ROOT / name))
        for option in re.findall(r"--[a-z0-9-]+", rest):
            assert option in explained, (name, option)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_its_commands_exist_and_take_the_options(
    page: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    used: dict[str, set[str]] = {}
    said = re.compile(r"lorabench (devices (?:provision|reset|replay)|[a-z]+)([^\n`#]*)")
    for command, rest in said.findall(page.read_text()):
        assert command.split()[0] in COMMANDS
        used.setdefault(command, set()).update(re.findall(r"--[a-z-]+", rest))
    assert used
    for command, options in used.items():
        assert main([*command.split(), "--help"]) == 0
        shown = capsys.readouterr().out
        assert all(option in shown for option in options), (command, options)


@pytest.mark.parametrize("name", ["second_station", "missed_confirm_window", "replay"])
def test_its_parts_of_names_select_scenarios(name: str) -> None:
    assert f"lorabench run --bench bench.toml {name}" in PAGE
    files = sorted((ROOT / "scenarios").glob("test_*.py"))
    assert any(name in file.stem or f"_{name}_" in file.read_text() for file in files)


def test_nothing_is_called_verified_that_is_not() -> None:
    rows = re.findall(r"^\| V(\d+) \|.*\| (\w+) \|$", PAGE, re.MULTILINE)
    assert len(rows) >= 29
    assert rows == [(str(number), "no") for number in range(1, len(rows) + 1)]
    assert "No real board and no real gateway has been driven" in PAGE


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
