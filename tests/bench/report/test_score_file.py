from pathlib import Path

import pytest

from bench.report import ReportError, write
from bench.report.score_file import Verdict, read_manifest


def test_a_run_without_scores_says_what_to_do(tmp_path: Path) -> None:
    with pytest.raises(ReportError, match=r"has not been scored. First: lorabench score"):
        write(tmp_path)
    assert list(tmp_path.iterdir()) == []


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
