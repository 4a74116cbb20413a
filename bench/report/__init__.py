"""What does a run look like to a person, to a build server and to a chat window?

`write` leaves report.html, junit.xml and summary.md in a run folder. It reads only score.json,
manifest.json and the captures. A run that has not been scored shows its own verdicts; without any,
`ReportError` says what to do.
"""

from collections.abc import Mapping
from pathlib import Path

from bench.capture.run_folder import manifest_of, replace
from bench.report.page import page
from bench.report.score_file import ReportError, Score, score_of
from bench.report.summary import CaseState, junit, summary

__all__ = ["ReportError", "score_of", "write"]


def write(
    run_folder: Path, score: Score | None = None, states: Mapping[str, CaseState] | None = None
) -> Path:
    """Write junit.xml, summary.md and report.html into a run folder; the path of the page.

    `score` is that of the folder, for who has read it already; `states` is how the cases stand
    beside other nights. The same folder gives the same bytes.
    ReportError if the run has no verdict yet.
    """
    score = score or score_of(run_folder)
    manifest = manifest_of(run_folder)
    replace(run_folder / "junit.xml", junit(score, states))
    replace(run_folder / "summary.md", _utf8(summary(score, manifest)))
    replace(run_folder / "report.html", _utf8(page(run_folder, score, manifest)))
    return run_folder / "report.html"


def _utf8(text: str) -> bytes:
    return text.encode("utf-8", errors="replace")
