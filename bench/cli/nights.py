"""What have the nights shown, and the morning after? `lorabench nights`, `history`, `compare`, ….

`flaky`, `lab`, `known` too, and what the newest night says to people, programs and build servers.
"""

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from cyclopts import Parameter

from bench.cli.output import (
    RUNS,
    AsJson,
    Refused,
    RunsRead,
    answer,
    facts_of,
    labelled,
    print_error,
    refusing,
    shown_path,
)
from bench.cli.report import LATEST, REPORT, missing_rows, oracle_words, resolve, timing_rows
from bench.night.comparison import Outcome, compared, table
from bench.night.comparison import sentence as answer_of
from bench.night.memory import remembered
from bench.night.morning import KINDS, Line, Night, gate, with_known
from bench.night.record import FAIL, PASSES, ExitCode, Recorded, exit_code, in_words, record_of
from bench.night.series import Known, KnownUnreadable, Series, State, add_known, read_known
from bench.night.statistics import wilson
from bench.report.page import PAGE
from bench.report.page import write_nights as write_page
from bench.report.summary import CaseState, brief, change_lines, document, morning_sentence
from lns.clock import utc_of_this_host

EXAMPLES = (
    "lorabench nights -n 7",
    "lorabench nights --page",
    "lorabench history 'second_station Mark-confirmed'",
    "lorabench compare latest lns@main@7e07562",
    "lorabench compare 2026-11-20 2026-11-21",
    "lorabench flaky",
    "lorabench lab --json",
    "lorabench known add 'restart/*' --issue LNS-42 --until 2026-12-24",
    "lorabench known expired",
)
CODES = {
    "compare": {
        0: "the new one is not worse",
        1: "the new one is worse",
        2: "interrupted",
        4: "they have nothing in common, or usage: the message says what to change",
        10: "different, but undecided",
        11: "too few conclusive pairs",
    }
}
KNOWN = Path("known.toml")
NIGHTS_SHOWN = 14
# What began with the streak is not the state to which it has led.
_OF_NO_STREAK = {State.FLAKY, State.LOST, State.UNSETTLED}
LISTED_MAX = 20

LineName = Annotated[
    str | None, Parameter(name="--line", help="Only this line, such as lns@main. All if left out.")
]
KnownFile = Annotated[
    Path, Parameter(name="--known", help="The file of failures that somebody knows of.")
]


def nights(
    *,
    number: Annotated[int, Parameter(name=["--number", "-n"])] = NIGHTS_SHOWN,
    line: LineName = None,
    runs: RunsRead = RUNS,
    known: KnownFile = KNOWN,
    page: Annotated[bool, Parameter(negative="")] = False,
    as_json: AsJson = False,
) -> int:
    """A line a night: when, what, which build, verdicts, what changed, how long answers took.

    What changed: + new, − fixed, ~ flaky. The last column is the exit code of the night.

    :param number: So many nights.
    :param page: Write the page of all nights anew, runs/nights.html.
    """
    if number < 1:
        raise Refused("--number is a number of nights, 1 at least.")
    rules = known_of(known)
    found = _lines(runs, line)
    if page:
        write_nights(runs, rules)
    shown = [(one, night) for one in found for night in reversed(one.nights[-number:])]
    head = ("night", "line", "build", "rig", "verdicts", "changed", "RX1 99 %", "exit")
    lines = _aligned([head, *(_night_row(*one) for one in shown)])
    for one in found:
        lines += ["", morning_sentence(one, with_known(one, rules))]
    return answer([_night_document(*one) for one in shown], lines, as_json=as_json)


def history(
    case: str, /, *, line: LineName = None, runs: RunsRead = RUNS, as_json: AsJson = False
) -> int:
    """The nights of one case: strip, segments with their rates, first bad build, its runs.

    :param case: Name of a case, or a part of it, or several parts, that fit only one.
    """
    parts = case.lower().split()
    found = [
        (one, name)
        for one in _lines(runs, line)
        for name in one.series
        if all(part in name.lower() for part in parts)
    ]
    chosen = [pair for pair in found if pair[1] == case] or found
    if not chosen:
        names = sorted({name for one in _lines(runs, line) for name in one.series})
        near = ", ".join(get_close_matches(case, names, n=3, cutoff=0.3))
        raise Refused(f"No case of any night has {case!r} in its name. The nearest: {near}.")
    listed = sorted({name for _, name in chosen})
    if len(listed) > 1:
        more = f" and {len(listed) - LISTED_MAX} more" if len(listed) > LISTED_MAX else ""
        raise Refused(f"{case!r} fits {', '.join(listed[:LISTED_MAX])}{more}: say more of it.")
    documents = [_history(one, name, one.series[name], runs) for one, name in chosen]
    lines = (text for document in documents for text in _history_lines(document))
    return answer(documents, lines, as_json=as_json)


def flaky(*, line: LineName = None, runs: RunsRead = RUNS, as_json: AsJson = False) -> int:
    """Cases that fail now and then, by their rate of failures, each with its 95 % interval."""
    rows: list[dict[str, Any]] = []
    seen = 0
    for one in _lines(runs, line):
        for case, series in sorted(one.series.items()):
            found = one.recent(series)
            seen = max(seen, found.n30)
            if series.state is not State.FLAKY:
                continue
            low, high = found.interval
            rows.append(
                {
                    "case": case, "line": one.line, "rig": one.rig, "strip": series.strip,
                    "fails": found.fail30, "nights": found.n30, "lo": low, "hi": high,
                    "flips": found.flips30,
                }
            )  # fmt: skip
    rows.sort(key=lambda row: (-row["fails"] / max(1, row["nights"]), row["case"]))
    head = ("case", "fails", "95 %", "flips", "nights")
    shown = [
        (row["case"], f"{row['fails']}/{row['nights']}", _interval(row), str(row["flips"]),
         row["strip"][-30:]) for row in rows
    ]  # fmt: skip
    # What fails so seldom need not have been seen in so few nights.
    unseen = f"No case flakes. (Seen 0/{seen}: up to {100 * wilson(0, seen)[1]:.0f} %.)"
    lines = _aligned([head, *shown]) if shown else [unseen]
    return answer(rows, lines, as_json=as_json)


def lab(*, line: LineName = None, runs: RunsRead = RUNS, as_json: AsJson = False) -> int:
    """The parts of the lab, worst first, by the stimuli that each missed in its newest night."""
    rows = [row for one in _lines(runs, line) if one.real_time for row in _lab_rows(one)]
    rows.sort(key=lambda row: (-float(row["lo"]), str(row["part"])))
    shown = [
        (
            row["part"], row["bench"] or row["rig"], f"{row['missed']}/{row['opportunities']}",
            _interval(row), row["state"], row["strip"],
        )
        for row in rows
    ]  # fmt: skip
    head = ("part", "bench", "missed", "95 %", "state", "nights")
    lines = _aligned([head, *shown]) if shown else ["No night on real time has been scored."]
    return answer(rows, lines, as_json=as_json)


def known(
    action: Literal["list", "add", "expired"] = "list",
    case: str | None = None,
    /,
    *,
    issue: str | None = None,
    until: date | None = None,
    owner: str | None = None,
    rule: str | None = None,
    signature: str | None = None,
    file: KnownFile = KNOWN,
    as_json: AsJson = False,
) -> int:
    """Failures that somebody knows of: they count, and do not make a night red until their day.

    :param action: What to do; list, if left out.
    :param case: To add: name of the case; * fits anything.
    :param issue: To add: where it is written down.
    :param until: To add: the last day it is excused.
    :param owner: To add: who sees to it.
    :param rule: To add: only a failure that breaks this rule.
    :param signature: To add: only this very failure, as `history` tells it.
    """
    today = utc_of_this_host().date()
    if action == "add":
        if case is None or issue is None:
            raise Refused("To add one, say which and why: known add CASE --issue X --until DATE.")
        one = Known(
            case=case, issue=issue, until=until, owner=owner, rule=rule, signature=signature
        )
        known_of(file)
        add_known(file, one)
    rows = [
        {
            **facts_of(one, "case", "issue", "owner", "rule", "signature"),
            "until": one.until and one.until.isoformat(),
            "days_left": (one.until - today).days if one.until else None,
        }
        for one in known_of(file)
        if action != "expired" or one.is_over(today.isoformat())
    ]
    names = ("case", "issue", "owner", "until", "days_left")
    shown = [tuple("–" if row[name] is None else str(row[name]) for name in names) for row in rows]
    head = tuple(name.replace("_", " ") for name in names)
    lines = _aligned([head, *shown]) if shown else [f"Nothing, in {file}."]
    return answer(rows, lines, as_json=as_json)


def compare(old: str, new: str, /, *, runs: RunsRead = RUNS, as_json: AsJson = False) -> int:
    """Say whether one build is worse than another, from what both have been through.

    :param old: A run, `latest`, a night, a line, or LINE@BUILD.
    :param new: The same, of the build in question.
    """
    both = [runs_named(name, runs) for name in (old, new)]
    found = compared(both[0], both[1])
    labels = [label_of(name, records) for name, records in zip((old, new), both, strict=True)]
    answer(comparison_document(found, labels, both), table(found, *labels), as_json=as_json)
    return int(found.outcome)


def comparison_document(
    found: Any, labels: Sequence[str], both: Sequence[Sequence[Recorded]]
) -> dict[str, Any]:
    return {
        "old": {"name": labels[0], "runs": [run.run for run in both[0]]},
        "new": {"name": labels[1], "runs": [run.run for run in both[1]]},
        "pairs": found.pairs, "worse": found.worse, "better": found.better, "p": found.p,
        "evidence": found.evidence, "left_aside": dict(found.left),
        "differences": [
            facts_of(one, "case", "relation", "old", "new", "p", "text")
            for one in found.differences
        ],
        "sentence": answer_of(found), "exit_code": int(found.outcome),
        "outcome": Outcome(found.outcome).name.lower(),
    }  # fmt: skip


def runs_named(name: str, runs: Path) -> list[Recorded]:
    """The runs that a person means by a name: a run, `latest`, a night, a line, or LINE@BUILD."""
    every = remembered(runs).lines
    named = [
        night
        for line in every
        for night in line.nights
        if name == night.night or _is_build(name, line, night)
    ]
    named = named or [line.nights[-1] for line in every if line.line == name and line.nights]
    of_nights = [run.run for night in named for run in night.runs]
    if name == LATEST or not of_nights:
        folders = resolve([name], runs=runs)
    else:
        folders = [runs / run for run in of_nights if (runs / run).is_dir()]
    found = [record for record in map(record_of, folders) if record is not None]
    if unscored := [record.run for record in found if not record.scored]:
        raise Refused(f"{unscored[0]} was not scored. First: lorabench score {unscored[0]}")
    return found


def _is_build(name: str, line: Line, night: Night) -> bool:
    build = name.removeprefix(f"{line.line}@")
    return build != name and len(build) >= 4 and night.build.startswith(build)


def label_of(name: str, records: Sequence[Recorded]) -> str:
    """A side of a comparison for people: its name, what was tested, and how many runs there are."""
    builds = sorted({record.build for record in records})
    many = f"{len(records)} run{'' if len(records) == 1 else 's'}"
    return f"{name}: build {', '.join(builds)} ({many})"


def known_of(file: Path) -> tuple[Known, ...]:
    """What is known; Refused where the file cannot be used."""
    with refusing(KnownUnreadable):
        return read_known(file)


def _lines(runs: Path, name: str | None) -> list[Line]:
    memory = remembered(runs)
    for run in memory.lost:
        print_error(f"{runs / run} is of no night: its manifest cannot be read.")
    found = [line for line in memory.lines if name in (None, line.line) and line.nights]
    if not found:
        of_line = f" of {name}" if name else ""
        raise Refused(f"There is no night{of_line} in {runs} yet. `lorabench nightly` makes one.")
    return found


def _interval(rate: dict[str, Any]) -> str:
    return f"{100 * rate['lo']:.0f}–{100 * rate['hi']:.0f} %"


def _night_row(line: Line, night: Night) -> tuple[str, ...]:
    words = {"·": "PASS", "r": "repeat", "F": "FAIL", "?": "INC", "!": "ERR"}
    verdicts = " ".join(f"{night.totals[g]} {w}" for g, w in words.items() if night.totals.get(g))
    data = night.margins.get("data")
    build = night.build + (" (uncommitted)" if night.dirty and "+" not in night.build else "")
    return (
        night.night,
        line.line,
        build,
        f"{line.bench or line.rig}{f' [{night.part}]' if night.part else ''}",
        verdicts or night.trouble[:40] or "nothing",
        brief(night) or "–",
        "–" if data is None else f"{data.p99_us / 1000:.1f} ms",
        str(night.code),
    )


def _night_document(line: Line, night: Night) -> dict[str, Any]:
    data = night.margins.get("data")
    return {
        "night": night.night, "line": line.line, "rig": line.rig, "bench": line.bench,
        "build": night.build, "dirty": night.dirty, "part": night.part,
        "baseline": night.baseline or None, "totals": night.totals, "changed": night.counts,
        "rx1_p99_consumed_us": None if data is None else data.p99_us, "exit_code": night.code,
        "gate_new": gate(night), "trouble": night.trouble,
        "runs": [run.run for run in night.runs],
    }  # fmt: skip


def _history(line: Line, case: str, series: Series, runs: Path) -> dict[str, Any]:
    nights = line.nights[-len(series.strip) :]
    found = line.recent(series)
    low, high = found.interval
    of_case = [nights[place] for place in found.places]
    segments = [
        {
            "since": of_case[one.begin].night, "build": of_case[one.begin].build,
            "between": [of_case[one.earliest].build, of_case[one.latest].build],
            "fails": one.fails, "nights": one.n, "lo": one.interval[0], "hi": one.interval[1],
        }
        for one in found.segments
    ]  # fmt: skip
    failed = [n for n, glyph in enumerate(series.strip) if glyph == FAIL]
    shown = [n for n in failed[:1] + failed[-2:] if n < len(nights)]
    return {
        "case": case, "line": line.line, "rig": line.rig, "bench": line.bench,
        "state": series.state.value, **facts_of(series, "confirmed", "strip"),
        "first_night": nights[0].night, "last_night": nights[-1].night,
        **facts_of(series, "last", "since", "since_build", "last_pass", "last_pass_build"),
        "fails": found.fail30, "nights": found.n30, "lo": low, "hi": high,
        "segments": segments, **facts_of(series, "signatures", "reason", "owner"),
        "runs": [
            str(runs / run.run / "report.html")
            for n in dict.fromkeys(shown)
            for run in nights[n].runs[:1]
        ],
    }  # fmt: skip


def _history_lines(found: dict[str, Any]) -> Iterator[str]:
    where = found["bench"] or found["rig"]
    yield f"{found['case']}  ({found['line']}, {where})"
    passes = found["last"] in PASSES
    streak = f"; {'passing' if passes else 'failing'}" if found["state"] in _OF_NO_STREAK else ""
    begun = f"{streak} since {found['since']} (build {found['since_build'] or '–'})"
    is_open = passes and not found["confirmed"]
    unconfirmed = ", unconfirmed until it has passed three times" if is_open else ""
    yield f"{found['state'].replace('_', ' ')}{begun if found['since'] else ''}{unconfirmed}"
    yield f"{found['first_night']}  {found['strip']}  {found['last_night']}"
    yield f"{found['fails']}/{found['nights']} failed of the last 30 (95 % {_interval(found)})"
    for one in found["segments"]:
        rate = f"{100 * one['fails'] / one['nights']:.0f} % ({one['fails']}/{one['nights']})"
        between = " .. ".join(dict.fromkeys(one["between"]))
        yield f"  since {one['since']}: {rate}, build {one['build']} (between {between})"
    if found["last_pass"]:
        yield f"last pass  {found['last_pass']}, build {found['last_pass_build']}"
    for night, signature in sorted(found["signatures"].items())[-3:]:
        yield f"failure    {night}, signature {signature}"
    if found["reason"] and found["signatures"]:
        yield f"reason     {found['reason']}"
    for run in found["runs"]:
        yield f"report     {run}"
    yield ""


def _lab_rows(line: Line) -> Iterator[dict[str, Any]]:
    proven = [night for night in line.nights if night.proves]
    names = sorted({name for night in proven[-30:] for name in night.lab})
    for name in names:
        of_part = [night for night in proven if name in night.lab]
        part, night = of_part[-1].lab[name], of_part[-1]
        low, high = wilson(part.missed, part.opportunities)
        days = night.sick.get(name, 0)
        yield {
            "part": name, "bench": line.bench, "rig": line.rig, "line": line.line,
            "night": night.night, **facts_of(part, "missed", "opportunities", "repeats"),
            **facts_of(part, "inconclusive", "errors", "rssi_p50", "snr_p50"),
            "lo": low, "hi": high,
            "state": f"sick ({days} nights)" if days else "well",
            "strip": "".join("x" if name in one.sick else "·" for one in of_part[-30:]),
        }  # fmt: skip


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    widths = [max(len(row[n]) for row in rows) for n in range(len(rows[0]))]
    return [
        "  ".join(f"{cell:{width}}" for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


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


def morning_of(runs: Path, folder: Path, known: Sequence[Known]) -> Morning | None:
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
        return exit_code(self.score)

    @property
    def findings(self) -> int:
        return len(self.score.get("findings", []))


def summary(
    judged: Sequence[Judged], code: ExitCode, repeat: str, morning: Morning | None = None
) -> list[str]:
    """How the night went and what changed, in lines for a person."""
    lines: list[str] = []
    for run in judged:
        rows = [
            *missing_rows(run.score),
            ("receptions", run.score.get("counts", {}).get("receptions", 0)),
            ("oracle", oracle_words(run.score)),
            *timing_rows(run.score),
            ("findings", run.findings),
            ("report", shown_path(run.folder / REPORT)),
        ]
        lines += ["", f"{run.what}: {in_words(run.score.get('totals', {}))}"]
        lines += [f"  {line}" for line in labelled(rows)]
    findings = sum(run.findings for run in judged)
    return [*lines, "", *_changed(morning), sentence(code, findings), f"Repeat it: {repeat}"]


def _changed(morning: Morning | None) -> list[str]:
    if morning is None:
        return []
    night = morning.night
    changes = [one for one in night.changes if one.kind != "new_case"]
    page = f"All nights: {shown_path(morning.page)}"
    return [morning_sentence(morning.line, night), *change_lines(changes), page, ""]


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
    runs = [
        {
            "what": run.what,
            "run": str(run.folder),
            "report": str(run.folder / REPORT),
            "totals": run.score.get("totals", {}),
            "findings": run.findings,
            "exit_code": int(run.exit_code),
        }
        for run in judged
    ]
    return {"runs": runs, "exit_code": int(code)}
