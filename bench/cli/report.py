"""`lorabench report`: how does a person read a run?"""

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec

import bench.report
from bench.cli.options import RUNS, AsJson, RunNames, RunsRead
from bench.cli.output import (
    ExitCode,
    Refused,
    command_line,
    labelled,
    print_json,
    print_lines,
    shown_path,
    worst,
)
from bench.cli.runs import in_words, resolve
from bench.report.junit import CaseState

EXAMPLES = ("lorabench report latest", "lorabench report runs/20261120T020003Z-7f3a")
PAGE = "report.html"
_WORDS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")


class NotScored(Refused):
    """The run has no verdict yet, or a score that this version cannot read."""


def report(
    run: RunNames,
    /,
    *,
    runs: RunsRead = RUNS,
    as_json: AsJson = False,
) -> int:
    """Write the report of runs: a page, a JUnit file and a summary.

    Of a run that was not scored yet it shows the verdicts that the run itself reached.
    """
    folders = resolve(run, runs=runs)
    scores = [write_report(folder) for folder in folders]
    codes = [ExitCode(bench.report.exit_code(score)) for score in scores]
    if as_json:
        print_json(
            [
                {"run": folder, "report": folder / PAGE, "exit_code": int(code)}
                for folder, code in zip(folders, codes, strict=True)
            ]
        )
    else:
        for folder, score in zip(folders, scores, strict=True):
            print_lines(
                labelled(
                    [
                        ("run", shown_path(folder)),
                        ("verdicts", in_words(score.get("totals", {}))),
                        *_unscored_rows(folder, score),
                        ("report", shown_path(folder / PAGE)),
                    ]
                )
            )
    return worst(codes)


def write_report(folder: Path, states: Mapping[str, CaseState] | None = None) -> dict[str, Any]:
    """Write report.html, junit.xml and summary.md; returns the score, or what stands for it.

    NotScored when the run has no verdict yet, or a score that cannot be read.
    """
    try:
        score = bench.report.score_of(folder)
        bench.report.write(folder, score, states)
    except bench.report.ReportError as error:
        raise NotScored(str(error)) from None
    if score.is_scored:
        said: dict[str, Any] = json.loads((folder / "score.json").read_bytes())
        return said
    totals = Counter(verdict.verdict for verdict in score.verdicts)
    return {**msgspec.to_builtins(score), "totals": {word: totals[word] for word in _WORDS}}


def _unscored_rows(folder: Path, score: dict[str, Any]) -> list[tuple[str, object]]:
    if score.get("is_scored", True):
        return []
    command = command_line("score", shown_path(folder))
    return [("score", f"none yet, so these are the run's own verdicts; score it: {command}")]
