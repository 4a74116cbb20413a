"""`lorabench timeline`: what happened in this one case?"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Annotated, Any

from cyclopts import Parameter

from bench.capture.reading import Event
from bench.capture.wholeness import Wholeness, wholeness
from bench.cli.output import (
    RUNS,
    AsJson,
    ExitCode,
    Refused,
    RunsRead,
    command_line,
    print_json,
    print_lines,
    shown_path,
)
from bench.cli.progress import Span, print_styled
from bench.cli.report import resolve
from bench.report.excerpts import shown, visible
from bench.report.narration import cast_of, in_words, seconds
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

EXAMPLES = (
    "lorabench timeline latest",
    "lorabench timeline latest second_station",
    "lorabench timeline latest 'same_station Mark'",
    "lorabench timeline runs/20261120T020003Z-7f3a retry_is_heard_by_both --json",
)

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
    for event in view.events:
        if event.get("kind") == "case.device" and event.get("dev_eui") in cast.devices:
            yield shown(in_words(event, cast)), "dim"
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
    event = view.events[place]
    step = step_of(event, view.scene)
    return {
        "seconds": seconds(event["t_us"] - view.record.begin_us),
        "text": row.words if row is not None else in_words(event, view.scene.cast),
        "way": [visible(party.name) or party.kind.value for party in step.stops] if step else [],
        "lost": step is not None and step.lost,
        "injected": event.get("origin") == "injected",
        "met": view.comparison.met.get(place),
        "diverges": row is not None and row.diverges,
        "line": _printable(event),
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
