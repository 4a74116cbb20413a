"""Does the page for the lab engineer say what the programs do?"""

import re
from functools import cache
from pathlib import Path

import pytest

from bench.cli.program import COMMANDS, main
from bench.lab.inventory import load
from tests.firmware_scripts.running import SCRIPTS, script

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
