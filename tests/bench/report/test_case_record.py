import json
from pathlib import Path

import pytest

from bench.report.score_file import (
    cases_of,
    events_of,
    judgement_of,
    matching,
    nearest_names,
)
from tests.bench.report.timeline_run import FAILED, write_run


@pytest.fixture
def run(tmp_path: Path) -> Path:
    return write_run(tmp_path)


def test_cases_come_in_order_with_their_verdicts(run: Path) -> None:
    failed, repeated, open_end = cases_of(run)
    assert (failed.case, failed.wording) == (FAILED, "FAIL (LNS)")
    assert (failed.begin_us, failed.end_us) == (1_000_000, 2_000_000)
    assert failed.text("title") == "Two stations hear one frame."
    assert repeated.wording == "PASS on a repeated stimulus"
    assert open_end.wording == "no verdict: the run ended before the case did"
    assert open_end.text("title") == ""


def test_a_folder_without_captures_has_no_case(tmp_path: Path) -> None:
    assert cases_of(tmp_path) == []


@pytest.mark.parametrize(
    ("wanted", "cases"),
    [
        (FAILED, [FAILED]),
        ("two_stations", [FAILED, "copies/two_stations[None]"]),
        ("test_two_stations mark", [FAILED]),
        ("JOIN", ["joins/a_join_is_heard_twice"]),
        ("three", []),
    ],
)
def test_a_case_is_found_by_parts_of_its_name(run: Path, wanted: str, cases: list[str]) -> None:
    assert [record.case for record in matching(cases_of(run), wanted)] == cases


def test_the_nearest_names_are_those_of_every_variant(run: Path) -> None:
    assert nearest_names(cases_of(run), "two_statoins") == [FAILED, "copies/two_stations[None]"]
    assert nearest_names(cases_of(run), "zzzz") == []


def test_the_events_of_a_case_are_those_between_begin_and_end(run: Path) -> None:
    events = events_of(run, cases_of(run)[0])
    assert [events[0]["kind"], events[-1]["kind"]] == ["case.begin", "case.end"]
    assert len(events) == 16


def test_a_score_adds_its_verdict_and_findings(run: Path) -> None:
    assert judgement_of(run, FAILED) is None
    finding = {"owner": "LNS", "rule": "oracle", "case": FAILED, "t_us": 1_109_500, "text": "x"}
    verdict = {"case": FAILED, "scenario": "test_two_stations", "verdict": "FAIL"}
    score = {"schema": 1, "run": run.name, "verdicts": [verdict], "findings": [finding]}
    (run / "score.json").write_text(json.dumps(score))
    judgement = judgement_of(run, FAILED)
    assert judgement is not None
    assert (judgement.verdict, [f.rule for f in judgement.findings]) == ("FAIL", ["oracle"])
    assert judgement_of(run, "another") is None
