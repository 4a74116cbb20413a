import json
from pathlib import Path

import pytest

from bench.capture.run_folder import manifest_of
from bench.report import ReportError, write
from bench.report.score_file import (
    Verdict,
    cases_of,
    events_of,
    judgement_of,
    matching,
    nearest_names,
    score_of,
)
from tests.bench.report.timeline_run import FAILED, write_run


def test_a_run_without_scores_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"has not been scored. First: lorabench score"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


BENCH = """
{"t_us":1,"source":"bench","seq":0,"kind":"case.begin","case":"a","scenario":"test_a","title":"A."}
{"t_us":2,"source":"bench","seq":1,"kind":"case.end","case":"a","verdict":"PASS","reasons":[]}
{"t_us":3,"source":"bench","seq":2,"kind":"case.begin","case":"b","scenario":"test_b"}
{"t_us":4,"source":"bench","seq":3,"kind":"case.end","case":"b","verdict":"INCONCLUSIVE","reasons":["deaf"],"owner":"air","attempt":1,"repeated":true}
{"t_us":5,"source":"bench","seq":4,"kind":"case.begin","case":"b (attempt 2)","scenario":"test_b"}
{"t_us":6,"source":"bench","seq":5,"kind":"case.end","case":"b (attempt 2)","verdict":"FAIL","reasons":["wrong"],"owner":"LNS","attempt":2}
{"t_us":7,"source":"bench","seq":6,"kind":"case.left_out","case":"c","scenario":"test_c","missing":["time"]}
"""  # noqa: E501


def test_a_run_that_was_not_scored_shows_its_own_verdicts_and_says_so(tmp_path: Path) -> None:
    (tmp_path / "bench.jsonl").write_text(BENCH.lstrip())
    (tmp_path / "manifest.json").write_text("{}")
    page, score = write(tmp_path), score_of(tmp_path)
    found = [(row.case, row.verdict, row.owner, row.begin_us, row.end_us) for row in score.verdicts]
    assert found == [("a", "PASS", None, 1, 2), ("b (attempt 2)", "FAIL", "LNS", 5, 6)]
    assert [one.case for one in score.left_out] == ["c"]
    assert not score.is_scored
    said = "Not scored yet: these are the verdicts that the run itself reached."
    assert said in page.read_text("utf-8")
    assert not (tmp_path / "score.json").exists()


def test_a_folder_that_is_not_there_says_so(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match="no such run folder"):
        write(tmp_path / "nowhere")


@pytest.mark.parametrize(
    "content",
    [
        "",
        '{"schema":1,"run":"x","verd',
        '{"schema":1,"run":"x","verdicts":[{"case":1}]}',
        '{"schema":2,"run":"x","verdicts":[]}',
        "[]",
    ],
)
def test_a_score_that_cannot_be_read_says_what_to_do(tmp_path: Path, content: str) -> None:
    (tmp_path / "score.json").write_text(content)
    with pytest.raises(ReportError, match="lorabench score"):
        write(tmp_path)


@pytest.mark.parametrize("content", ["", "[]", '{"torn":', "[" * 200_000])
def test_a_torn_manifest_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert manifest_of(tmp_path) == {}


@pytest.mark.parametrize(
    ("verdict", "attempt", "wording"),
    [
        ("PASS", 1, "PASS"),
        ("PASS", 2, "PASS on repeat"),
        ("FAIL", 2, "FAIL"),
        ("PASS_MARGINAL", 1, "ERROR"),
    ],
)
def test_how_a_verdict_is_worded(verdict: str, attempt: int, wording: str) -> None:
    assert Verdict("case", "test", verdict, attempt=attempt).wording == wording


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
