"""What `tests/conftest.py` promises of the suite, on a folder of tests of its own."""

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests import forked
from tests.conftest import imports_starters

ROOT = Path(__file__).resolve().parent.parent
TESTS = """
import pytest

{tests}
"""


def run(folder: Path, tests: str, *words: str, **env: str) -> tuple[int, list[str]]:
    """The exit code, and what `-v` says of each test, in order."""
    (folder / "test_here.py").write_text(TESTS.format(tests=tests))
    ran = _pytest(folder, "test_here.py", *words, **env)
    lines = [line.partition("::")[2].split() for line in ran.stdout.splitlines()]
    return ran.returncode, [" ".join(words[:2]) for words in lines if len(words) > 1]


def _pytest(folder: Path, *words: str, **env: str) -> "subprocess.CompletedProcess[str]":
    """What a pytest of its own, with nothing but `tests/conftest.py`, says of a folder."""
    (folder / "pytest.ini").write_text("[pytest]\n")
    plugins = ["-p", "tests.conftest", "-p", "no:cacheprovider"]
    environment = {name: value for name, value in os.environ.items() if name != "CI"}
    return forked.run(
        ["pytest", *plugins, "-v", *words],
        cwd=folder,
        env={**environment, "PYTHONPATH": str(ROOT), "NO_COLOR": "1", **env},
    )


@pytest.mark.parametrize(("ci", "code", "told"), [("true", 1, "FAILED"), ("", 0, "SKIPPED")])
def test_what_is_skipped_on_the_build_server_has_failed(
    tmp_path: Path, ci: str, code: int, told: str
) -> None:
    skips = "def test_skips():\n    pytest.skip('there is no such program')"
    found, lines = run(tmp_path, skips, CI=ci)
    assert (found, lines[0]) == (code, f"test_skips {told}")


def test_another_seed_is_another_order_of_the_same_tests(tmp_path: Path) -> None:
    tests = "\n".join(f"def test_{n}(): pass" for n in range(9))
    orders = [run(tmp_path, tests, "--order-seed", seed)[1] for seed in ("1", "1", "2")]
    assert orders[0] == orders[1] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert len(orders[0]) == 9


def test_what_takes_longest_begins_first_on_several_workers(tmp_path: Path) -> None:
    files = ["tests/a/test_first.py", "tests/b/test_second.py", "tests/bench/run/test_hardware.py"]
    for file in (tmp_path / name for name in files):
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("def test_it() -> None:\n    pass\n")
    assert _files_in_order(tmp_path, "-n", "0") == files
    assert _files_in_order(tmp_path, "-n", "1") == [files[2], *files[:2]]


def _files_in_order(folder: Path, *words: str) -> list[str]:
    passed = [
        line for line in _pytest(folder, "tests", *words).stdout.splitlines() if "PASSED" in line
    ]
    return [file for line in passed for file in re.findall(r"tests/\S+\.py", line)]


@pytest.mark.parametrize(
    ("imports", "starts"),
    [
        ("import subprocess", True),
        ("import subprocess_of_mine", False),
        ("from tests import forked", True),
        ("from tests import forking", False),
        ("import bench.host.program", True),
        ("from bench.host.program import Program", True),
        ("from bench.host.program import LOOPBACK, free_port", False),
        ("from bench.host.program import (\n    Program,\n    free_port,\n)", True),
        ("from bench.host.program import (\n    LOOPBACK,\n    free_port,\n)", False),
        ("def test() -> None:\n    import subprocess", False),
    ],
)
def test_who_starts_programs_is_known_by_what_it_imports(imports: str, starts: bool) -> None:
    assert imports_starters(f'"""A test."""\n\n{imports}\n\nNUMBER = 1\n') is starts
