"""`lorabench score` and `report`: what does Spark make of the captures, and how is it read?

Here also: which runs does a person mean, and what came of them?
"""

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import msgspec

import bench.report
from bench.capture.reading import Event, event, lines
from bench.capture.run_folder import latest
from bench.cli.output import (
    LAKE,
    RUNS,
    AsJson,
    BenchBroken,
    ExitCode,
    Lake,
    Refused,
    RunNames,
    RunsRead,
    answer,
    command_line,
    labelled,
    shown_path,
    worst,
)
from bench.cli.progress import Progress, ProgressDisplay
from bench.report import exit_code
from bench.report.facts import ms
from bench.report.summary import CaseState

LATEST = "latest"
MANIFEST = "manifest.json"


def run_folders_in(runs: Path) -> list[Path]:
    """The run folders in `runs`, oldest first: their names begin with the time of the run."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if _is_run(folder))


def resolve(names: Sequence[str], *, runs: Path) -> list[Path]:
    """The run folders that names stand for, once each: a path, a name in `runs`, or `latest`."""
    return list(dict.fromkeys(_resolve(name, runs) for name in names))


def _resolve(name: str, runs: Path) -> Path:
    if name == LATEST:
        return _latest(runs)
    for folder in (Path(name), runs / name):
        if _is_run(folder):
            return folder
    if Path(name).is_dir():
        raise Refused(f"{name} is a folder, but not of a run: it holds no {MANIFEST}.")
    known = [folder.name for folder in run_folders_in(runs)]
    near = get_close_matches(Path(name).name, known, n=3) or known[-3:]
    found = f"The nearest in {runs}: {', '.join(near)}." if near else f"{runs} holds no run yet."
    raise Refused(f"There is no run {name}. {found} `lorabench run` makes a new one.")


def _latest(runs: Path) -> Path:
    folder = latest(runs)
    if folder is None:
        raise Refused(f"There is no run in {runs} yet. `lorabench run` makes one.")
    return folder


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()


BENCH_EVENTS = "bench.jsonl"
WORDS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")


@dataclass(frozen=True, slots=True)
class CaseVerdict:
    """What became of one case, as its `case.end` says."""

    case: str
    verdict: str
    reasons: tuple[str, ...] = ()
    attempt: int = 1


def read_verdicts(run_folder: Path) -> list[CaseVerdict]:
    """The verdicts of a run in order; a line that cannot be read is none, for Spark to count.

    A case that proved nothing and was played again does not count: its repetition does.
    """
    ends = _of_kind(run_folder, "case.end")
    return [_verdict(end) for end in ends if not end.get("repeated")]


def read_left_out(run_folder: Path) -> dict[str, int]:
    """What the rig misses, and how many cases it could not play for that, the most first."""
    counted: Counter[str] = Counter()
    for note in _of_kind(run_folder, "case.left_out"):
        missing = note.get("missing")
        names = sorted(map(str, missing)) if isinstance(missing, list) else []
        counted[", ".join(names) or "not told"] += 1
    return dict(counted.most_common())


def totals(verdicts: Iterable[CaseVerdict]) -> dict[str, int]:
    """How many cases ended with each verdict word; the four words are always there."""
    counted = Counter(verdict.verdict for verdict in verdicts)
    return {word: counted.pop(word, 0) for word in WORDS} | dict(sorted(counted.items()))


def exit_code_of(verdicts: Sequence[CaseVerdict], *, whole: bool = True) -> ExitCode:
    """The exit code of a run that is not scored yet; the same rule as for a scored one."""
    rows = [{"verdict": verdict.verdict, "attempt": verdict.attempt} for verdict in verdicts]
    return ExitCode(exit_code({"verdicts": rows, "wholeness": {"whole": whole}}))


def in_words(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {word}" for word, count in counts.items() if count) or "no verdict"


def _of_kind(run_folder: Path, kind: str) -> list[Event]:
    found = [event(line) for line in lines(run_folder / BENCH_EVENTS)]
    return [one for one in found if one is not None and one.get("kind") == kind]


def _verdict(end: Event) -> CaseVerdict:
    reasons, attempt = end.get("reasons"), end.get("attempt")
    return CaseVerdict(
        case=str(end.get("case", "?")),
        verdict=str(end.get("verdict", "ERROR")),
        reasons=tuple(str(reason) for reason in reasons) if isinstance(reasons, list) else (),
        attempt=attempt if isinstance(attempt, int) else 1,
    )


EXAMPLES = (
    "lorabench report latest",
    "lorabench report runs/20261120T020003Z-7f3a",
    "lorabench score latest",
    "lorabench score runs/20261120T020003Z-7f3a --json",
)
REPORT = "report.html"


def score(
    run: RunNames,
    /,
    *,
    runs: RunsRead = RUNS,
    lake: Lake = LAKE,
    master: str | None = None,
    as_json: AsJson = False,
) -> int:
    """Score captures with Spark: expected against observed, and both against the oracle.

    :param master: The Spark master. All cores of this machine if left out.
    """
    folders = resolve(run, runs=runs)
    with ProgressDisplay() as display:
        scores = score_runs(folders, lake=lake, master=master, progress=display)
    lines = (line for folder in folders for line in _summary(folder, scores[folder.name]))
    code = worst(exit_code(scores[folder.name]) for folder in folders)
    return answer(scores, lines, code, as_json=as_json)


def score_runs(
    folders: Sequence[Path], *, lake: str, master: str | None = None, progress: Progress
) -> dict[str, dict[str, Any]]:
    """The score of each run by its folder's name; starts Spark, which takes seconds.

    Refused when there is no Java, two of the folders have the same name, or the executors of a
    cluster do not see the captures; BenchBroken while another process writes to the lake.
    """
    from bench.lake.lake import CapturesOutOfReach, LakeBusy
    from bench.score import job  # Spark is imported by those commands alone that need it
    from bench.spark.java import JavaMissing

    if len({folder.name for folder in folders}) < len(folders):
        raise Refused(
            "Two of these run folders have the same name, by which their scores are told apart. "
            "Score them one at a time, each with a --lake of its own."
        )
    try:
        return job.score(folders, lake=lake, master=master, progress=progress)
    except JavaMissing as error:
        raise Refused(f"{error}.") from None
    except CapturesOutOfReach as error:
        raise Refused(str(error)) from None
    except LakeBusy as error:
        raise BenchBroken(str(error)) from None


def missing_rows(score_object: dict[str, Any]) -> list[tuple[str, object]]:
    """What a score says of a run that is not whole, for people; nothing where it is."""
    sentence = score_object.get("wholeness", {}).get("sentence")
    return [("missing", sentence)] if sentence else []


def timing_rows(score_object: dict[str, Any]) -> list[tuple[str, object]]:
    """What a score says of time and of what was left out, for people; nothing where it is quiet."""
    rows: list[tuple[str, object]] = []
    for margins in score_object.get("margins", []):
        if margins["kind"] == "data" and "rx1" in margins:
            least, median = (ms(margins["rx1"][name]) for name in ("min_us", "p50_us"))
            late = f"{margins['late']} of {margins['answers']} too late"
            rows.append(("margins", f"RX1 {least} ms at least, median {median} ms; {late}"))
    if worst_us := score_object.get("host", {}).get("worst_stall_us"):
        rows.append(("host", f"stalled for {ms(worst_us)} ms at worst"))
    if left_out := score_object.get("left_out", []):
        missing = sorted({name for case in left_out for name in case["missing"] or ()})
        rows.append(("left out", f"{len(left_out)}; this rig lacks {', '.join(missing)}"))
    return rows


def _summary(folder: Path, score_object: dict[str, Any]) -> list[str]:
    counts = score_object.get("counts", {})
    path = shown_path(folder)
    return labelled(
        [
            ("run", path),
            ("verdicts", in_words(score_object.get("totals", {}))),
            *missing_rows(score_object),
            ("receptions", f"{counts.get('receptions', 0)}, outcomes {counts.get('outcomes', 0)}"),
            ("oracle", oracle_words(score_object)),
            *timing_rows(score_object),
            ("findings", len(score_object.get("findings", []))),
            ("report", command_line("report", path)),
        ]
    )


def oracle_words(score_object: dict[str, Any]) -> str:
    agreement = score_object.get("oracle_agreement", {})
    agreed, receptions = (agreement.get(name, 0) for name in ("status_agree", "receptions"))
    return f"agrees on {agreed} of {receptions} statuses"


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
    documents = [
        {"run": folder, "report": folder / REPORT, "exit_code": int(code)}
        for folder, code in zip(folders, codes, strict=True)
    ]
    lines: list[str] = []
    for folder, score in zip(folders, scores, strict=True):
        lines += labelled(
            [
                ("run", shown_path(folder)),
                ("verdicts", in_words(score.get("totals", {}))),
                *_unscored_rows(folder, score),
                ("report", shown_path(folder / REPORT)),
            ]
        )
    return answer(documents, lines, worst(codes), as_json=as_json)


def write_report(folder: Path, states: Mapping[str, CaseState] | None = None) -> dict[str, Any]:
    """Write report.html, junit.xml and summary.md; returns the score, or what stands for it.

    Refused when the run has no verdict yet, or a score that cannot be read.
    """
    try:
        score = bench.report.score_of(folder)
        bench.report.write(folder, score, states)
    except bench.report.ReportError as error:
        raise Refused(str(error)) from None
    if score.is_scored:
        said: dict[str, Any] = json.loads((folder / "score.json").read_bytes())
        return said
    totals = Counter(verdict.verdict for verdict in score.verdicts)
    return {**msgspec.to_builtins(score), "totals": {word: totals[word] for word in WORDS}}


def _unscored_rows(folder: Path, score: dict[str, Any]) -> list[tuple[str, object]]:
    if score.get("is_scored", True):
        return []
    command = command_line("score", shown_path(folder))
    return [("score", f"none yet, so these are the run's own verdicts; score it: {command}")]
