"""`lorabench nightly`: did anything change for the worse since yesterday?"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

import bench
from bench.cli.exit_code import ExitCode, worst
from bench.cli.imports import import_files
from bench.cli.options import LAKE, RUNS, AsJson, Lake, RunsWritten, Seed
from bench.cli.output import command_line, labelled, print_json, print_lines, shown_path
from bench.cli.progress import ProgressDisplay
from bench.cli.report import PAGE, write_report
from bench.cli.run import Rig, Selection, run_scenarios
from bench.cli.score import score_runs, timing_rows
from bench.cli.verdicts import in_words
from bench.report import exit_code

EXAMPLES = (
    "lorabench nightly",
    "lorabench nightly --short --seed 7",
    "lorabench nightly --rig emulated",
)
SHORT_LIMIT = 500
CAPTURE_FILES = ("*.ndjson.gz", "*.ndjson", "conformance-frames.json")


@dataclass(frozen=True, slots=True)
class Judged:
    """One run of the night: what it was, its folder and its score."""

    what: str
    folder: Path
    score: dict[str, Any]

    @property
    def exit_code(self) -> ExitCode:
        return ExitCode(exit_code(self.score))


def nightly(
    *,
    rig: Annotated[Rig, Parameter(help="What stands below the scenarios.")] = "simulated",
    seed: Seed = 1,
    runs: RunsWritten = RUNS,
    lake: Lake = LAKE,
    captures: Annotated[
        Path | None,
        Parameter(
            help="Folder with captures of real traffic; without it, ../shared/captures beside the "
            "checkout if that is there."
        ),
    ] = None,
    short: Annotated[
        bool,
        Parameter(
            negative=(),
            show_default=False,
            help=f"At most {SHORT_LIMIT} uplinks of each capture.",
        ),
    ] = False,
    as_json: AsJson = False,
) -> int:
    """Run all scenarios and real captures, score them, write the reports, say how it went."""
    files = captures_in(captures)
    stages = 4 if files else 3
    with ProgressDisplay() as display:
        display.line(f"1/{stages} scenarios on the {rig} rig, seed {seed}")
        ran = run_scenarios(Selection(None, rig, seed, None, runs), display)
        if ran.interrupted:
            raise KeyboardInterrupt
        folders = {"scenarios": ran.folder}
        if files:
            display.line(f"2/{stages} real traffic: {', '.join(file.name for file in files)}")
            folders["real traffic"] = import_files(
                files,
                runs=runs,
                strategy="None",
                seed=seed,
                limit=SHORT_LIMIT if short else None,
                progress=display,
            )
        display.line(f"{stages - 1}/{stages} scores, by Spark")
        scores = score_runs(list(folders.values()), lake=lake, progress=display)
        display.line(f"{stages}/{stages} reports")
        for folder in folders.values():
            write_report(folder)
    judged = [Judged(what, folder, scores[folder.name]) for what, folder in folders.items()]
    code = worst([ran.exit_code, *(run.exit_code for run in judged)])
    if as_json:
        print_json({"runs": [_as_json(run) for run in judged], "exit_code": int(code)})
    else:
        words: list[object] = [] if rig == "simulated" else ["--rig", rig]
        words += ["--seed", seed, *(["--short"] if short else [])]
        print_lines(summary(judged, code, command_line("nightly", *words)))
        if not files:
            print_lines(["No real traffic was there to import; --captures names a folder with it."])
    return code


def captures_in(folder: Path | None) -> list[Path]:
    """The captures of real traffic in a folder, or in the usual place if none is named."""
    usual = Path(bench.__path__[0]).resolve().parent.parent / "shared" / "captures"
    looked_in = folder if folder is not None else usual
    return sorted(file for pattern in CAPTURE_FILES for file in looked_in.glob(pattern))


def summary(judged: Sequence[Judged], code: ExitCode, repeat: str) -> list[str]:
    """How the night went, in lines for a person."""
    lines: list[str] = []
    for run in judged:
        counts = run.score.get("counts", {})
        agreement = run.score.get("oracle_agreement", {})
        lines += [
            "",
            f"{run.what}: {in_words(run.score.get('totals', {}))}",
            *labelled(
                [
                    ("  receptions", counts.get("receptions", 0)),
                    (
                        "  oracle",
                        f"agrees on {agreement.get('status_agree', 0)} of "
                        f"{agreement.get('receptions', 0)} statuses",
                    ),
                    *((f"  {name}", value) for name, value in timing_rows(run.score)),
                    ("  findings", len(run.score.get("findings", []))),
                    ("  report", shown_path(run.folder / PAGE)),
                ]
            ),
        ]
    findings = sum(len(run.score.get("findings", [])) for run in judged)
    return [*lines, "", sentence(code, findings), f"Repeat it: {repeat}"]


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


def _as_json(run: Judged) -> dict[str, Any]:
    return {
        "what": run.what,
        "run": run.folder,
        "report": run.folder / PAGE,
        "totals": run.score.get("totals", {}),
        "findings": len(run.score.get("findings", [])),
        "exit_code": int(run.exit_code),
    }
