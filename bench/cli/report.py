"""`lorabench score`, `report` and `timeline`: what came of a run, and how is it read?

Which runs a person means, what Spark makes of their captures, and what happened in one case.
"""

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any

import msgspec
from cyclopts import Parameter

import bench.report
from bench.capture.reading import Event
from bench.capture.run_folder import latest
from bench.capture.wholeness import Wholeness, wholeness
from bench.cli.output import (
    LAKE,
    RUNS,
    AsJson,
    BenchBroken,
    Lake,
    Progress,
    ProgressDisplay,
    Refused,
    RunNames,
    RunsRead,
    Span,
    answer,
    command_line,
    labelled,
    print_json,
    print_lines,
    print_styled,
    refusing,
    shown_path,
)
from bench.night.record import VERDICTS, ExitCode, exit_code, in_words, worst
from bench.report import narration
from bench.report.excerpts import shown, visible
from bench.report.facts import ms
from bench.report.narration import cast_of, seconds
from bench.report.score_file import (
    CaseRecord,
    Judgement,
    cases_of,
    events_of,
    judgement_of,
    left_out_case,
    matching,
    nearest_names,
)
from bench.report.stories import Scene, step_of
from bench.report.summary import CaseState
from bench.report.timeline import (
    WIDTH_MAX,
    WIDTH_MIN,
    Comparison,
    Drawing,
    Row,
    Tone,
    compare,
    rows,
)

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


EXAMPLES = (
    "lorabench report latest",
    "lorabench report runs/20261120T020003Z-7f3a",
    "lorabench score latest",
    "lorabench score runs/20261120T020003Z-7f3a --json",
    "lorabench timeline latest",
    "lorabench timeline latest 'second_station Mark-confirmed'",
    "lorabench timeline latest 'heard_by_the_same_station Mark'",
    "lorabench timeline runs/20261120T020003Z-7f3a 'retry_is_heard_by_both Drop' --json",
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

    Refused when there is no Java, no such master or lake, two of the folders have the same name,
    or the executors of a cluster do not see the captures; BenchBroken while another process writes
    to the lake.
    """
    from bench.lake.lake import CapturesOutOfReach, LakeBusy, LakeOutOfReach
    from bench.score import job  # Spark is imported by those commands alone that need it
    from bench.spark.session import JavaMissing, MasterUnusable

    if not lake:
        raise Refused("--lake is a folder or a URI; it says nothing.")
    if len({folder.name for folder in folders}) < len(folders):
        raise Refused(
            "Two of these run folders have the same name, by which their scores are told apart. "
            "Score them one at a time, each with a --lake of its own."
        )
    with (
        refusing(LakeBusy, by=BenchBroken),
        refusing(CapturesOutOfReach, LakeOutOfReach),
        refusing(MasterUnusable, said="--master: {}"),
        refusing(JavaMissing, said="{}."),
    ):
        return job.score(folders, lake=lake, master=master, progress=progress)


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


def report(run: RunNames, /, *, runs: RunsRead = RUNS, as_json: AsJson = False) -> int:
    """Write the report of runs: a page, a JUnit file and a summary.

    Of a run that was not scored yet it shows the verdicts that the run itself reached.
    """
    folders = resolve(run, runs=runs)
    scores = [write_report(folder) for folder in folders]
    codes = [exit_code(score) for score in scores]
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
                *missing_rows(score),
                *_unscored_rows(folder, score),
                ("report", shown_path(folder / REPORT)),
            ]
        )
    return answer(documents, lines, worst(codes), as_json=as_json)


def write_report(folder: Path, states: Mapping[str, CaseState] | None = None) -> dict[str, Any]:
    """Write report.html, junit.xml and summary.md; returns the score, or what stands for it.

    Refused when the run has no verdict yet, or a score that cannot be read.
    """
    with refusing(bench.report.ReportError):
        score = bench.report.score_of(folder)
        bench.report.write(folder, score, states)
    if score.is_scored:
        said: dict[str, Any] = json.loads((folder / "score.json").read_bytes())
        return said
    totals = Counter(verdict.verdict for verdict in score.verdicts)
    own: dict[str, Any] = json.loads(msgspec.json.encode(score))
    return {**own, "totals": {word: totals[word] for word in VERDICTS}}


def _unscored_rows(folder: Path, score: dict[str, Any]) -> list[tuple[str, object]]:
    if score.get("is_scored", True):
        return []
    command = command_line("score", shown_path(folder))
    return [("score", f"none yet, so these are the run's own verdicts; score it: {command}")]


EVENTS_MAX = 1000
LISTED_MAX = 20
FIELD_MAX = 100_000  # characters
_PIPE_WIDTH = 100

_STYLES = {
    Tone.PLAIN: "",
    Tone.DECISION: "bold",
    Tone.UPSTREAM: "cyan",
    Tone.FAULT: "yellow",
    Tone.MET: "green",
    Tone.DIVERGED: "bold red",
    Tone.QUIET: "dim",
}
_VERDICT_STYLES = {"PASS": "bold green", "FAIL": "bold red", "INCONCLUSIVE": "bold yellow"}


@dataclass(frozen=True, slots=True)
class CaseTimeline:
    """One case, read and compared with what was due; `places` are those of the events to show.

    `missing`: why nobody can judge it, None where it is whole.
    """

    folder: Path
    record: CaseRecord
    judgement: Judgement | None
    events: Sequence[Event]
    scene: Scene
    comparison: Comparison
    places: range
    missing: str | None = None


def timeline(
    run: str,
    case: str | None = None,
    /,
    *,
    runs: RunsRead = RUNS,
    width: Annotated[
        int | None,
        Parameter(
            help=f"Columns to fill, {WIDTH_MIN} to {WIDTH_MAX}; those of the terminal if left out."
        ),
    ] = None,
    limit: int = EVENTS_MAX,
    as_json: AsJson = False,
) -> int:
    """Draw one case in the terminal: who sent what to whom, when, and where it went wrong.

    :param run: A run folder, or `latest`.
    :param case: Part of the name of a case, or several parts of it. If left out, all cases of the
        run are listed, those that failed first.
    :param limit: At most so many events: those nearest to the first divergence.
    """
    if limit < 1:
        raise Refused("--limit must be 1 or more: so many events are shown at most.")
    (folder,) = resolve([run], runs=runs)
    records, books = cases_of(folder), wholeness(folder)
    if case is None:
        return _listing(folder, records, books, as_json=as_json)
    chosen = _chosen(folder, records, case, books)
    withheld = {one.case: one.reason for one in books.withheld}
    view = replace(_timeline(folder, chosen, records, limit), missing=withheld.get(chosen.case))
    if as_json:
        print_json(_document(view))
    else:
        columns = get_terminal_size((_PIPE_WIDTH, 24)).columns if width is None else width
        print_styled(_page(view, min(WIDTH_MAX, max(WIDTH_MIN, columns))))
    return ExitCode.PASSED


def _listing(
    folder: Path, records: Sequence[CaseRecord], books: Wholeness, *, as_json: bool
) -> int:
    ranked = sorted(records, key=lambda record: record.verdict == "PASS")
    if as_json:
        cases = [{"case": record.case, "verdict": record.verdict} for record in ranked]
        print_json({"run": folder, "cases": cases})
        return ExitCode.PASSED
    words = [(record.verdict or "no verdict", shown(record.case, 300)) for record in ranked]
    width = max((len(verdict) for verdict, _ in words), default=0)
    print_lines(f"{verdict:{width}}  {case}" for verdict, case in words)
    print_lines([] if books.whole else [books.sentence])
    hint = command_line("timeline", shown_path(folder), ranked[0].case) if ranked else ""
    print_lines([f"{len(ranked)} cases. One of them:  {hint}" if hint else "No case was played."])
    return ExitCode.PASSED


def _chosen(
    folder: Path, records: Sequence[CaseRecord], wanted: str, books: Wholeness
) -> CaseRecord:
    path = shown_path(folder)
    if (unplayed := _unplayed(books, wanted)) and not matching(records, wanted):
        raise Refused(f"{shown(unplayed, 300)} is not there: {path} is {books.sentence}.")
    if not records:
        raise Refused(
            f"{path} holds no case: its bench.jsonl is missing or has no case.begin. "
            "`lorabench run` makes a run with cases."
        )
    found = matching(records, wanted)
    left_out = None if found else left_out_case(folder, wanted)
    if left_out is not None:
        case, missing = left_out
        raise Refused(f"{case} was left out of {path}: its rig lacks {missing}.")
    if not found:
        near = nearest_names(records, wanted) or [record.case for record in records[:LISTED_MAX]]
        raise Refused(f"No case of {path} is named like {wanted!r}. The nearest:{_list(near)}")
    if len(found) > 1:
        verdicts = [f"{record.case}  {record.verdict or 'no verdict'}" for record in found]
        raise Refused(
            f"{len(found)} cases of {path} fit {wanted!r}; say more of the name of one:"
            + _list(verdicts)
        )
    return found[0]


def _unplayed(books: Wholeness, wanted: str) -> str | None:
    words = [word.removeprefix("test_") for word in wanted.lower().split()]
    named = (case for case in books.unplayed if all(word in case.lower() for word in words))
    return next(named, None)


def _list(names: Sequence[str]) -> str:
    more = len(names) - LISTED_MAX
    listed = [shown(name, 300) for name in names[:LISTED_MAX]]
    return "".join(f"\n  {name}" for name in listed) + (f"\n  and {more} more" if more > 0 else "")


def _timeline(
    folder: Path, record: CaseRecord, records: Sequence[CaseRecord], events_max: int
) -> CaseTimeline:
    judgement = judgement_of(folder, record.case)
    events = events_of(folder, record, records)
    cast = cast_of(events)
    comparison = compare(events, cast, () if judgement is None else judgement.findings)
    first = comparison.first
    # More of what led to the divergence than of what followed from it.
    begin = 0 if first is None else max(0, first.place - events_max * 2 // 3)
    begin = max(0, min(begin, len(events) - events_max))
    places = range(begin, min(len(events), begin + events_max))
    return CaseTimeline(folder, record, judgement, events, Scene(events, cast), comparison, places)


def _page(view: CaseTimeline, width: int) -> Iterator[list[Span]]:
    begin_us = view.record.begin_us
    for text, style in _head(view):
        indent = " " * (len(text) - len(text.lstrip()))
        wrapped = wrap(text, width - len(indent) - 2, break_on_hyphens=False) or [""]
        yield [(wrapped[0], style)]
        yield from ([(f"{indent}  {more}", style)] for more in wrapped[1:])
    yield []
    listed = rows(view.events, view.scene, view.comparison, view.places)
    last_us = max((row.t_us for row in listed), default=begin_us)
    drawing = Drawing(view.scene, width, max(8, len(seconds(last_us - begin_us))))
    for line in [*drawing.head(), *drawing.lines(listed, begin_us)]:
        style = _STYLES[line.tone]
        graph = style if line.tone in (Tone.FAULT, Tone.DIVERGED) else "dim" * (not line.words)
        yield [
            (line.margin, style),
            (f"{line.time} ", "dim"),
            (line.graph if line.words else line.graph.rstrip(), graph),
            (f" {line.words}" if line.words else "", style),
        ]
    left_out = len(view.events) - len(view.places)
    if left_out:
        yield [(f"{left_out} events are not shown; --limit {len(view.events)} shows all.", "")]


def _head(view: CaseTimeline) -> Iterator[tuple[str, str]]:
    record, first = view.record, view.comparison.first
    yield shown(f"{record.wording}  {record.case}"), _VERDICT_STYLES.get(record.verdict, "bold red")
    for reason in record.reasons:
        yield f"  {shown(reason)}", ""
    if view.missing is not None:
        yield f"  Nobody can judge it: {shown(view.missing)}", "bold red"
    if view.judgement is not None and view.judgement.verdict != record.verdict:
        yield f"  Spark's verdict is another one: {shown(view.judgement.verdict)}", "bold red"
    if first is not None:
        at = seconds(first.t_us - record.begin_us)
        yield f"  First divergence at {at} s: {shown(first.text)}", "bold red"
    elif record.verdict not in ("PASS", ""):
        yield "  No event of the case is known to diverge; the reasons above tell all.", ""
    yield "", ""
    yield shown(record.text("title")), ""
    yield shown(f"run {shown_path(view.folder)}, strategy {record.text('strategy') or '-'}"), "dim"
    cast = view.scene.cast
    for one in view.events:
        if one.get("kind") == "case.device" and one.get("dev_eui") in cast.devices:
            yield shown(narration.in_words(one, cast)), "dim"
    stations = [f"{name} {eui}" for eui, name in cast.stations.items()]
    if stations:
        yield shown("stations: " + ", ".join(stations)), "dim"


def _document(view: CaseTimeline) -> dict[str, Any]:
    record, first = view.record, view.comparison.first
    listed = {row.place: row for row in rows(view.events, view.scene, view.comparison, view.places)}
    return {
        "run": view.folder,
        "case": visible(record.case),
        "title": visible(record.text("title")),
        "verdict": record.verdict or None,
        "owner": record.owner,
        "reasons": [visible(reason) for reason in record.reasons],
        "attempt": record.attempt,
        "missing": view.missing,
        "spark_verdict": None if view.judgement is None else view.judgement.verdict,
        "devices": view.scene.cast.devices,
        "stations": view.scene.cast.stations,
        "servers": [server.name for server in view.scene.servers],
        "first_divergence": None
        if first is None
        else {"seconds": seconds(first.t_us - record.begin_us), "text": shown(first.text)},
        "left_out": len(view.events) - len(view.places),
        "events": [_event(view, place, listed.get(place)) for place in view.places],
    }


def _event(view: CaseTimeline, place: int, row: Row | None) -> dict[str, Any]:
    one = view.events[place]
    step = step_of(one, view.scene)
    return {
        "seconds": seconds(one["t_us"] - view.record.begin_us),
        "text": row.words if row is not None else narration.in_words(one, view.scene.cast),
        "way": [visible(party.name) or party.kind.value for party in step.stops] if step else [],
        "lost": step is not None and step.lost,
        "injected": one.get("origin") == "injected",
        "met": view.comparison.met.get(place),
        "diverges": row is not None and row.diverges,
        "line": _printable(one),
    }


def _printable(value: Any) -> Any:
    match value:
        case str():
            return visible(value, FIELD_MAX)
        case list():
            return [_printable(item) for item in value]
        case dict():
            return {visible(str(key)): _printable(item) for key, item in value.items()}
        case _:
            return value
