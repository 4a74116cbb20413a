"""Two builds: pairs, tests, and when one may stop."""

from pathlib import Path

import pytest

from bench.night.comparison import Comparison, Outcome, Stop, compared, sentence, table
from bench.night.record import Recorded, record_of
from tests.bench.night.written_nights import Outcome as Word
from tests.bench.night.written_nights import write_night


def run(runs: Path, number: int, outcomes: dict[str, Word], **more: object) -> Recorded:
    found = record_of(write_night(runs, number, outcomes, **more))  # type: ignore[arg-type]
    assert found is not None
    return found


def test_in_simulation_a_difference_is_a_fact(tmp_path: Path) -> None:
    old = run(tmp_path, 0, {"a": "PASS", "b": "FAIL", "c": "FAIL", "d": "PASS"}, rig="simulated")
    new = run(
        tmp_path, 1, {"a": "FAIL", "b": "PASS", "c": ("FAIL", "NonDuplicate"), "d": "PASS"},
        rig="simulated",
    )  # fmt: skip
    found = compared([old], [new])
    assert [(one.case, one.relation) for one in found.differences] == [
        ("a", "worse"),
        ("b", "better"),
        ("c", "fails otherwise"),
    ]
    assert (found.outcome, found.p) == (Outcome.WORSE, None)
    assert compared([old], [old]).outcome is Outcome.NOT_WORSE


def test_only_pairs_that_are_conclusive_on_both_sides_count(tmp_path: Path) -> None:
    old = run(tmp_path, 0, {"a": "PASS", "b": "PASS", "c": "INCONCLUSIVE", "d": "PASS"})
    new = run(tmp_path, 1, {"a": "PASS", "b": "ERROR", "c": "PASS", "e": "PASS"})
    found = compared([old], [new])
    assert found.pairs == 1
    assert dict(found.left) == {
        "not conclusive in the new": 1,
        "not conclusive in the old": 1,
        "only in the new": 1,
        "only in the old": 1,
    }
    assert found.outcome is Outcome.UNPROVEN


@pytest.mark.parametrize("more", [{"seed": 2}, {"rig": "simulated"}, {"bench": "other"}])
def test_what_is_not_alike_is_no_pair(tmp_path: Path, more: dict[str, object]) -> None:
    old = run(tmp_path / "a", 0, {"a": "PASS"})
    new = run(tmp_path / "b", 1, {"a": "PASS"}, **more)
    assert compared([old], [new]).outcome is Outcome.NOTHING_IN_COMMON


def test_a_run_that_is_not_whole_says_nothing(tmp_path: Path) -> None:
    old = run(tmp_path, 0, {"a": "PASS"})
    new = run(tmp_path, 1, {"a": "FAIL"}, whole=False)
    assert compared([old], [new]).outcome is Outcome.NOTHING_IN_COMMON


def of_pairs(worse: int, better: int, pairs: int = 60) -> Comparison:
    return Comparison(pairs, worse, better, better, worse, (), (), real_time=True)


@pytest.mark.parametrize(
    ("worse", "better", "outcome", "stop"),
    [
        (0, 0, Outcome.NOT_WORSE, None),
        (3, 0, Outcome.UNDECIDED, None),
        (5, 0, Outcome.WORSE, None),
        (7, 0, Outcome.WORSE, Stop.WORSE),
        (0, 6, Outcome.NOT_WORSE, Stop.NOT_WORSE),
    ],
)
def test_on_real_time_pairs_are_counted_until_it_is_clear(
    worse: int, better: int, outcome: Outcome, stop: Stop | None
) -> None:
    found = of_pairs(worse, better)
    assert (found.outcome, found.stop) == (outcome, stop)


def test_not_worse_is_said_when_the_difference_is_surely_small() -> None:
    assert of_pairs(0, 0, 90).stop is Stop.NOT_WORSE
    assert of_pairs(4, 0, 90).stop is None


def test_a_case_that_was_played_often_is_tested_by_itself(tmp_path: Path) -> None:
    old = [run(tmp_path / "a", n, {"a": "PASS", "b": "PASS"}) for n in range(12)]
    new = [
        run(tmp_path / "b", n, {"a": "FAIL" if n % 2 else "PASS", "b": "PASS"}) for n in range(12)
    ]
    found = compared(old, new)
    [one] = found.differences
    assert (one.case, one.old, one.new, found.outcome) == ("a", "0/12", "6/12", Outcome.WORSE)
    assert one.p is not None
    assert 0.006 < one.p < 0.008
    shown = table(found, "old", "new")
    assert shown[4].split() == ["a", "0/12", "6/12", "worse", "(p=0.007", "n=12+12)"]
    assert sentence(found) == "Worse: of 24 pairs 6 got worse, 0 better."


def test_one_failure_more_says_nothing(tmp_path: Path) -> None:
    old = run(tmp_path, 0, {f"c{n}": "PASS" for n in range(40)})
    new = run(tmp_path, 1, {f"c{n}": "FAIL" if n == 3 else "PASS" for n in range(40)})
    found = compared([old], [new])
    assert found.outcome is Outcome.UNDECIDED
    assert table(found, "old", "new")[4].split()[-1] == "~"
