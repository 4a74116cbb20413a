"""`lorabench report`: how does a person read a scored run?"""

import json
from pathlib import Path
from typing import Any

import bench.report
from bench.cli.exit_code import ExitCode, Refused, worst
from bench.cli.options import RUNS, AsJson, RunNames, RunsRead
from bench.cli.output import labelled, print_json, print_lines, shown_path
from bench.cli.run_folders import resolve
from bench.cli.verdicts import in_words

EXAMPLES = ("lorabench report latest", "lorabench report runs/20261120T020003Z-7f3a")
PAGE = "report.html"


class NotScored(Refused):
    """The run has no score yet, or one that this version cannot read."""


def report(
    run: RunNames,
    /,
    *,
    runs: RunsRead = RUNS,
    as_json: AsJson = False,
) -> int:
    """Write the report of scored runs: a page, a JUnit file and a summary."""
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
                        ("report", shown_path(folder / PAGE)),
                    ]
                )
            )
    return worst(codes)


def write_report(folder: Path) -> dict[str, Any]:
    """Write report.html, junit.xml and summary.md; returns the score. NotScored without one."""
    try:
        bench.report.write(folder)
    except bench.report.ReportError as error:
        raise NotScored(str(error)) from None
    score: dict[str, Any] = json.loads((folder / "score.json").read_bytes())
    return score
