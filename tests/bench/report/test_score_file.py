from pathlib import Path

import pytest

from bench.report import ReportError, write
from bench.report.score_file import Verdict, read_manifest, score_of


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


@pytest.mark.parametrize("content", ["", "[]", '{"torn":'])
def test_a_torn_manifest_is_as_good_as_none(tmp_path: Path, content: str) -> None:
    (tmp_path / "manifest.json").write_text(content)
    assert read_manifest(tmp_path) == {}


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
