"""What is left of the scenarios when each is played once: every fault, and over seeds every row."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]
COLLECT = """
import json, os, sys
import pytest

class Look:
    def pytest_collection_finish(self, session):
        self.found = {item.nodeid: sorted({mark.args for mark in item.iter_markers("fault")})
                      for item in session.items}

every = []
out, sys.stdout = sys.stdout, open(os.devnull, "w")
for words in ([], *(["--each-once", "--seed", str(seed)] for seed in (1, 2))):
    look = Look()
    common = ["scenarios", "--rig", "emulated", "--collect-only", "-p", "no:cacheprovider"]
    pytest.main([*common, *words], plugins=[look])
    every.append(look.found)
json.dump(every, out)
"""
Found = dict[str, list[Any]]
"""Of each case the faults that it injects."""
ROWS = ("Drop", "Mark", "None", "confirmed", "unconfirmed")
"""What tells the rows of a scenario apart."""


@pytest.fixture(scope="module")
def collected() -> list[Found]:
    """All cases of the emulated rig, then those of two seeds with each scenario once."""
    done = subprocess.run(
        [sys.executable, "-c", COLLECT],
        capture_output=True, text=True, cwd=ROOT, check=True, timeout=500,
    )  # fmt: skip
    found: list[Found] = json.loads(done.stdout)
    return found


def test_each_scenario_is_played_once_and_the_next_seed_takes_the_next_row(
    collected: list[Found],
) -> None:
    every, first, second = collected
    scenarios = {name.partition("[")[0] for name in every}
    assert {name.partition("[")[0] for name in first} == scenarios
    assert len(first) == len(second) < len(every) / 3
    for name in set(first) & set(second):
        assert not set(ROWS) & set(name.partition("[")[2].rstrip("]").split("-")), name


def test_each_plays_every_fault_and_every_edge_case(collected: list[Found]) -> None:
    every, *once = collected
    for one in once:
        assert faults(one) == faults(every) != set()
        assert edge_cases(one) == edge_cases(every) != set()
        assert len(edge_cases(one)) == sum("::test_edge_case[" in name for name in one)


def faults(found: Found) -> set[tuple[str, ...]]:
    return {tuple(fault) for case in found.values() for fault in case}


def edge_cases(found: Found) -> set[str]:
    rows = [name.partition("::test_edge_case[")[2].rstrip("]").split("-") for name in found]
    return {"-".join(part for part in row if part not in ROWS) for row in rows} - {""}
