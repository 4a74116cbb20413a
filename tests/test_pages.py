"""The reference pages: complete, made from the code, and every block of code in them works."""

import ast
import json
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import msgspec
import pytest
from cyclopts import CycloptsError

import lns.events
from bench.capture.reading import capture_files
from bench.cli.program import application
from bench.lab.inventory import load as load_bench
from bench.score.read import KINDS
from lns.config import load as load_lns
from lns.downlink.downlink_queue import Refused, parse_request
from tests import forked
from tests.pages import PAGES, PARTS, ROOT, made, parts_in
from tests.reading import read
from tests.sizes import size

pytestmark = pytest.mark.programs
EVERY_PAGE = (*PAGES, "lns/sources.md", "CONTRIBUTING.md")
KIND = re.compile(
    r"(run|case|fault|host|radio|replayer|station|device|lns|upstream|inbox|application)"
    r"\.[a-z_]+"
)
HEAD = {"schema", "run_id", "source", "seq", "t_us", "kind", "case"}


@dataclass(frozen=True)
class Block:
    """A block of code in a page, by what stands behind its fence."""

    page: str
    line: int
    language: str
    name: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}"


def _blocks() -> Iterator[Block]:
    fence = re.compile(r"^```(\w*) ?(\S*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
    for page in EVERY_PAGE:
        text = (ROOT / page).read_text("utf-8")
        for found in fence.finditer(text):
            yield Block(page, text[: found.start()].count("\n") + 1, *found.groups())


BLOCKS = list(_blocks())
SLOW = size({"what a lab can play"}, set[str]())
"""Needs a dry run of all scenarios."""


def _of(*languages: str) -> list[Block]:
    return [block for block in BLOCKS if block.language in languages]


@pytest.mark.parametrize("page", PAGES)
def test_its_tables_are_those_that_the_code_makes(page: str) -> None:
    text = (ROOT / page).read_text("utf-8")
    assert made(text, but=SLOW) == text, "write them anew: make pages"


def test_every_table_stands_in_a_page() -> None:
    assert sorted(name for page in PAGES for name in parts_in((ROOT / page).read_text())) == sorted(
        PARTS
    )


# --- what a capture has ------------------------------------------------------------


def _rows() -> dict[str, str]:
    """The row of each kind in the page of the instrument."""
    page = (ROOT / "bench" / "README.md").read_text("utf-8")
    rows = {}
    for line in page.splitlines():
        first = line.split("|")[1] if line.startswith("| `") else ""
        rows |= {kind[1:-1]: line for kind in re.findall(r"`[^`]+`", first)}
    return rows


def test_every_kind_that_is_written_has_its_row() -> None:
    written = set()
    for path in (*(ROOT / "bench").rglob("*.py"), *(ROOT / "lns").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            if isinstance(node, ast.Call):
                words = [one.value for one in node.args if isinstance(one, ast.Constant)]
                kinds = {w for w in words if isinstance(w, str) and KIND.fullmatch(w)}
                if kinds and "record" in ast.unparse(node.func):
                    written |= kinds
    of_server = {
        kind.kind
        for kind in vars(lns.events).values()
        if isinstance(kind, type) and hasattr(kind, "kind")
    }
    assert written - of_server - set(_rows()) == set()
    assert {"case.begin", "fault.begin", "host.stalled"} <= written


def test_every_field_that_the_score_reads_stands_in_the_row() -> None:
    rows = _rows()
    of_bench = {kind: fields for kind, fields in KINDS.items() if not kind.startswith("lns.")}
    of_bench.pop("upstream.parked")  # a server's, which has them with its events
    missing = [
        f"{kind}.{name}"
        for kind, fields in of_bench.items()
        for name in fields.split()
        if f"`{name}`" not in rows.get(kind, "")
    ]
    assert missing == []


def test_every_field_that_a_run_writes_stands_in_the_row(tmp_path: Path) -> None:
    chosen = "test_application_path or test_consumer or test_ownership or test_joins"
    done = forked.run(["bench", "run", chosen, "--each-once", "--runs", str(tmp_path)])
    assert done.returncode == 0, done.stderr + done.stdout
    rows, fields = _rows(), {}
    for kind in vars(lns.events).values():
        if isinstance(kind, type) and issubclass(kind, msgspec.Struct) and hasattr(kind, "kind"):
            fields[kind.kind] = set(kind.__struct_fields__)
    seen = {
        (event["kind"], name)
        for run in tmp_path.iterdir()
        if capture_files(run)
        for event in read(run).events
        for name in event.keys() - HEAD
    }
    strange = {
        f"{kind}.{name}"
        for kind, name in seen
        if name not in fields.get(kind, ()) and f"`{name}`" not in rows.get(kind, "")
    }
    assert strange == set()
    assert len({kind for kind, _ in seen}) > 15


# --- blocks of code ------------------------------------------------------------


def test_every_block_says_what_it_is() -> None:
    unnamed = [str(block) for block in BLOCKS if not block.language and block.page in PAGES[:4]]
    assert unnamed == [], "a language behind its fence lets it be tried"


def test_the_scenarios_and_the_catalogue_of_the_pages_pass(tmp_path: Path) -> None:
    files = [block for block in _of("python", "json") if block.name.endswith((".py", ".json"))]
    for block in files:
        (tmp_path / block.name).write_text(block.text)
    assert len(files) >= 4
    _passes(tmp_path, ".")
    [catalogue] = [block.name for block in files if block.name.endswith(".json")]
    _passes(tmp_path, "--catalogue", catalogue)


def _passes(folder: Path, *words: str) -> None:
    done = forked.run(["bench", "run", *words], cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("block", [b for b in _of("python") if not b.name], ids=str)
def test_a_piece_of_python_can_be_run(block: Block) -> None:
    command = [sys.executable, "-c", block.text]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr


def test_the_configuration_of_the_server_is_right(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for block in [block for block in _of("toml") if block.name]:
        (tmp_path / block.name).write_text(block.text)
    monkeypatch.setenv("METER_NWK_S_KEY", "00" * 16)
    (tmp_path / "meter.key").write_text("11" * 16)
    assert [device.name for device in load_lns(tmp_path / "lns.toml").devices] == ["pump", "meter"]
    for name in ("bench.toml", "first-evening.toml"):
        assert [device.name for device in load_bench(tmp_path / name).devices] == ["dut"]


@pytest.mark.parametrize("block", _of("json"), ids=str)
def test_a_piece_of_json_is_some(block: Block) -> None:
    told = json.loads(block.text)
    if block.name == "down":
        asked = parse_request("lorawan/lns-a/70B3D57ED0000001/down", block.text.encode())
        assert not isinstance(asked, Refused), asked
    assert told


def _commands() -> Iterator[tuple[str, str]]:
    for block in _of("console", "sh", ""):
        for number, line in enumerate(block.text.splitlines(), start=block.line + 1):
            line = line.removeprefix("$ ").partition(" #")[0].partition("&&")[0].strip()
            if re.match(r"(\.venv/bin/)?(lorabench|pytest|make) ", line + " "):
                yield f"{block.page}:{number}", line.removeprefix(".venv/bin/")


@pytest.mark.parametrize(("where", "line"), list(_commands()), ids=lambda found: str(found)[:60])
def test_a_command_of_a_page_is_one(where: str, line: str) -> None:
    words = shlex.split(line)
    match words[0]:
        case "make":
            targets = re.findall(r"^([a-z_]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
            asked = [word for word in words[1:] if "=" not in word]
            assert set(asked) <= set(targets), where
        case "lorabench":
            app = application(words[1] if words[1:] else None)
            try:
                app.parse_args(words[1:], exit_on_error=False, print_error=False)
            except CycloptsError as error:
                pytest.fail(f"{where}: {line}: {error}")
        case _:
            assert words[0] == "pytest"
