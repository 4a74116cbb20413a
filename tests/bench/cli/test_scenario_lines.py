"""What a person sees while pytest runs scenarios."""

import io
import re
import subprocess
import sys
from pathlib import Path

import pytest

from bench.cli.output import ProgressDisplay
from bench.cli.scenarios import ScenarioLines, short_name
from tests.bench.test_pytest_plugin import HEAD

LONG_AND_SHORT = """

async def test_long(rig):
    await stimulus(rig)
    await rig.wait(2_000_000)


async def test_short(rig):
    await stimulus(rig)
"""

SOURCE = """
import pytest

def test_good(): pass

def test_bad():
    print("noise of the scenario")
    pytest.fail("expected Duplicate, observed NonDuplicate", pytrace=False)

@pytest.mark.parametrize("strategy", ["Drop", "Mark", "None"])
def test_noted(strategy, record_property):
    record_property("verdict", "INCONCLUSIVE" if strategy == "Mark" else "PASS")

@pytest.fixture
def rig(): raise RuntimeError("no rig")

def test_setup(rig): pass
"""


def run_pytest(file: Path, *options: str) -> tuple[str, ScenarioLines, int]:
    stream = io.StringIO()
    with ProgressDisplay(stream) as display:
        lines = ScenarioLines(display)
        outcome = pytest.main(
            [
                str(file),
                "-p",
                "no:cacheprovider",
                "-c",
                "/dev/null",
                "--rootdir",
                str(file.parent),
                *options,
            ],
            plugins=[lines],
        )
    return re.sub(r"\d+\.\d\d s", "0.00 s", stream.getvalue()), lines, outcome


def test_a_line_for_each_scenario_and_the_reason_of_what_did_not_pass(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "test_joins.py"
    file.write_text(SOURCE)
    (tmp_path / "conftest.py").write_text("")
    shown, lines, outcome = run_pytest(file)
    assert outcome == pytest.ExitCode.TESTS_FAILED
    assert shown.splitlines() == [
        "[1/6] joins/good: 1 PASS, 0.00 s",
        "FAIL: joins/bad",
        "    expected Duplicate, observed NonDuplicate",
        "[2/6] joins/bad: 1 FAIL, 0.00 s",
        "INCONCLUSIVE: joins/noted[Mark]",
        "[5/6] joins/noted: 2 PASS, 1 INCONCLUSIVE, 0.00 s",
        "ERROR: joins/setup",
        "    RuntimeError: no rig",
        "[6/6] joins/setup: 1 ERROR, 0.00 s",
    ]
    assert (lines.ended, lines.failed) == (6, 2)
    assert capfd.readouterr().out == ""


def test_a_file_that_cannot_be_collected_is_told(tmp_path: Path) -> None:
    file = tmp_path / "test_broken.py"
    file.write_text("import nothing_of_this_name\n")
    _, lines, _ = run_pytest(file)
    assert len(lines.broken) == 1
    assert "No module named 'nothing_of_this_name'" in lines.broken[0]


def test_names_are_shown_without_what_all_of_them_share() -> None:
    assert short_name("scenarios/test_joins.py::test_a[x-1]") == "joins/a[x-1]"


@pytest.mark.broker
@pytest.mark.timeout(300)
def test_whoever_waits_for_one_case_is_told_of_the_others(tmp_path: Path) -> None:
    """On real wires a verdict may be minutes away, while a thousand other cases end."""
    file = tmp_path / "test_here.py"
    file.write_text(HEAD + LONG_AND_SHORT)
    program = f"""
import sys
from bench.cli import main
from bench.run import wall_clock

wall_clock.TOLD_EVERY_S = 0.2
sys.exit(main(["run", {str(file)!r}, "--rig", "emulated", "--runs", {str(tmp_path)!r}]))
"""
    # A process of its own: pytest holds what is printed while a test runs.
    told = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=False, cwd=tmp_path
    )
    assert told.returncode == 0, told.stderr
    shown = told.stderr
    assert re.match(r"cases that are over \(./2\)$", shown, re.MULTILINE), shown
    assert re.findall(r"^\[./2\] here/(\w+): 1 PASS", shown, re.MULTILINE) == ["long", "short"]
