"""How is a night told, to a person and to a program?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.mornings import Morning
from bench.cli.output import ExitCode, labelled, shown_path
from bench.cli.report import PAGE
from bench.cli.runs import in_words
from bench.cli.score import missing_rows, timing_rows
from bench.night.words import change_lines
from bench.night.words import sentence as morning_sentence
from bench.report import exit_code


@dataclass(frozen=True, slots=True)
class Judged:
    """One run of the night: what it was, its folder and its score."""

    what: str
    folder: Path
    score: dict[str, Any]

    @property
    def exit_code(self) -> ExitCode:
        """The exit code of this run alone."""
        return ExitCode(exit_code(self.score))

    @property
    def findings(self) -> int:
        """How many findings its score has."""
        return len(self.score.get("findings", []))


def summary(
    judged: Sequence[Judged], code: ExitCode, repeat: str, morning: Morning | None = None
) -> list[str]:
    """How the night went and what changed, in lines for a person."""
    lines: list[str] = []
    for run in judged:
        counts = run.score.get("counts", {})
        agreement = run.score.get("oracle_agreement", {})
        lines += [
            "",
            f"{run.what}: {in_words(run.score.get('totals', {}))}",
            *labelled(
                [
                    *((f"  {name}", value) for name, value in missing_rows(run.score)),
                    ("  receptions", counts.get("receptions", 0)),
                    (
                        "  oracle",
                        f"agrees on {agreement.get('status_agree', 0)} of "
                        f"{agreement.get('receptions', 0)} statuses",
                    ),
                    *((f"  {name}", value) for name, value in timing_rows(run.score)),
                    ("  findings", run.findings),
                    ("  report", shown_path(run.folder / PAGE)),
                ]
            ),
        ]
    findings = sum(run.findings for run in judged)
    return [*lines, "", *_changed(morning), sentence(code, findings), f"Repeat it: {repeat}"]


def _changed(morning: Morning | None) -> list[str]:
    """What changed since the baseline, and where to see it."""
    if morning is None:
        return []
    night = morning.night
    told = [one for one in night.changes if one.kind != "new_case"]
    page = shown_path(morning.page)
    return [morning_sentence(morning.line, night), *change_lines(told), f"All nights: {page}", ""]


def sentence(code: ExitCode, findings: int) -> str:
    """The end of a night that took place, in one sentence."""
    if code is ExitCode.PASSED and findings:
        number = "1 finding is" if findings == 1 else f"{findings} findings are"
        return f"Everything passed at the first attempt, but {number} to be read in the report."
    return {
        ExitCode.PASSED: "A good night: everything passed at the first attempt.",
        ExitCode.FAILED: "Something failed. The report names who did not do what was due.",
        ExitCode.REPEATED: "Nothing failed, but something passed only on a repeated stimulus.",
        ExitCode.INCONCLUSIVE: "Nothing failed, but some cases proved nothing: see the report.",
        ExitCode.BENCH_ERROR: "The bench itself failed: this night does not tell all.",
    }[code]


def document(judged: Sequence[Judged], code: ExitCode) -> dict[str, Any]:
    """The night as a program reads it: each run with its totals, and the exit code of all."""
    return {"runs": [_as_json(run) for run in judged], "exit_code": int(code)}


def _as_json(run: Judged) -> dict[str, Any]:
    return {
        "what": run.what,
        "run": str(run.folder),
        "report": str(run.folder / PAGE),
        "totals": run.score.get("totals", {}),
        "findings": run.findings,
        "exit_code": int(run.exit_code),
    }
