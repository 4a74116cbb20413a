"""What does the morning after a night say, to people, pages, programs and build servers?"""

import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.cli.output import ExitCode, labelled, shown_path
from bench.cli.report import REPORT, in_words, missing_rows, oracle_words, timing_rows
from bench.night.memory import remembered
from bench.night.morning import Known, Line, Night, gate, with_known
from bench.night.record import FAIL, record_of
from bench.report import exit_code
from bench.report.page import PAGE
from bench.report.page import write_nights as write_page
from bench.report.summary import KINDS, CaseState, change_lines, document, morning_sentence
from lns.clock import utc_of_this_host

ANNOTATIONS_MAX = 9


@dataclass(frozen=True, slots=True)
class Morning:
    """A night beside the nights before it; `code` is its exit code by what changed."""

    line: Line
    night: Night
    code: int
    page: Path


def label_of_tonight(runs: Path) -> str:
    """The name of a night that begins now: its date, with a number where it is not the first."""
    today = f"{utc_of_this_host():%Y-%m-%d}"
    taken = {night.night for line in remembered(runs).lines for night in line.nights}
    names = (today if number == 1 else f"{today}.{number}" for number in range(1, len(taken) + 2))
    return next(name for name in names if name not in taken)


def morning_of(runs: Path, folder: Path, known: Sequence[Known], how: str) -> Morning | None:
    """The morning after the night that a run is part of; None where that is not the newest."""
    record = record_of(folder)
    for line in remembered(runs).lines:
        if record is not None and line.key == (record.bench, record.rig, record.line):
            night = with_known(line, known)
            if any(run.run == folder.name for run in night.runs):
                return Morning(line, night, gate(night), runs / PAGE)
    return None


def states_of(morning: Morning, known: Sequence[Known]) -> dict[str, CaseState]:
    over = {one for one in known if one.is_over(morning.night.night)}
    found = {}
    for case, series in morning.line.series.items():
        excused = ""
        if series.last == FAIL:
            fits = (one for one in known if one not in over)
            excused = next(
                (one.told for one in fits if one.fits(case, series.signature, series.rules)), ""
            )
        found[case] = CaseState(
            state=series.state.value,
            since=series.since,
            since_build=series.since_build,
            series=" / ".join((*filter(None, morning.line.key), case)),
            dut=morning.night.build,
            known=excused,
        )
    return found


def write_nights(runs: Path, known: Sequence[Known]) -> Path:
    return write_page(runs, remembered(runs).lines, known, f"{utc_of_this_host():%Y-%m-%d}")


def as_document(morning: Morning | None) -> dict[str, Any]:
    """What changed, for programs; nothing where there is nothing to compare with."""
    return {} if morning is None else document(morning.line, morning.night)


def annotate(morning: Morning, summaries: Iterable[Path]) -> None:
    """Tell GitHub Actions, if that is where this runs: annotations, and the summary of the step."""
    if not os.environ.get("GITHUB_ACTIONS"):
        return
    for line in annotations(morning):
        print(line, flush=True)
    into = os.environ.get("GITHUB_STEP_SUMMARY")
    if into:
        with open(into, "a", encoding="utf-8") as file:
            file.writelines(path.read_text("utf-8") + "\n" for path in summaries if path.is_file())


def annotations(morning: Morning) -> list[str]:
    """What changed for the worse as workflow commands: nine at most, and how many more."""
    gated = [change for change in morning.night.changes if change.gated]
    lines = []
    for change in gated[:ANNOTATIONS_MAX]:
        series = morning.line.series.get(change.case)
        file = f"file={_property(series.file)}," if series and series.file else ""
        title = _property(f"{KINDS[change.kind][0]}: {change.case}")
        lines.append(f"::error {file}title={title}::{_data(change.text)}")
    more = len(gated) - len(lines)
    return [*lines, *([f"::notice ::… and {more} more, in nights.html"] if more else [])]


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


@dataclass(frozen=True, slots=True)
class Judged:
    """One run of the night: what it was, its folder and its score."""

    what: str
    folder: Path
    score: dict[str, Any]

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode(exit_code(self.score))

    @property
    def findings(self) -> int:
        return len(self.score.get("findings", []))


def summary(
    judged: Sequence[Judged], code: ExitCode, repeat: str, morning: Morning | None = None
) -> list[str]:
    """How the night went and what changed, in lines for a person."""
    lines: list[str] = []
    for run in judged:
        lines += [
            "",
            f"{run.what}: {in_words(run.score.get('totals', {}))}",
            *labelled(
                [
                    *((f"  {name}", value) for name, value in missing_rows(run.score)),
                    ("  receptions", run.score.get("counts", {}).get("receptions", 0)),
                    ("  oracle", oracle_words(run.score)),
                    *((f"  {name}", value) for name, value in timing_rows(run.score)),
                    ("  findings", run.findings),
                    ("  report", shown_path(run.folder / REPORT)),
                ]
            ),
        ]
    findings = sum(run.findings for run in judged)
    return [*lines, "", *_changed(morning), sentence(code, findings), f"Repeat it: {repeat}"]


def _changed(morning: Morning | None) -> list[str]:
    if morning is None:
        return []
    night = morning.night
    changes = [one for one in night.changes if one.kind != "new_case"]
    page = shown_path(morning.page)
    return [
        morning_sentence(morning.line, night),
        *change_lines(changes),
        f"All nights: {page}",
        "",
    ]


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


def night_document(judged: Sequence[Judged], code: ExitCode) -> dict[str, Any]:
    """The night as a program reads it: each run with its totals, and the exit code of all."""
    return {"runs": [_as_json(run) for run in judged], "exit_code": int(code)}


def _as_json(run: Judged) -> dict[str, Any]:
    return {
        "what": run.what,
        "run": str(run.folder),
        "report": str(run.folder / REPORT),
        "totals": run.score.get("totals", {}),
        "findings": run.findings,
        "exit_code": int(run.exit_code),
    }
