"""What gets a build server of a run (JUnit), what a chat window, and what is said of a night?"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any
from xml.etree.ElementTree import Element, SubElement, indent, tostring

from bench.night.morning import GATED, KINDS, Change, Line, Night
from bench.report.conclusion import WORDS, conclusion
from bench.report.excerpts import shown
from bench.report.facts import facts, host_words, timing
from bench.report.score_file import Finding, LeftOut, Score, Verdict
from bench.report.tables import (
    STRATEGIES,
    Asked,
    calls,
    exceptions,
    left_out_groups,
    life_of,
    sentence,
)

FINDINGS_MAX = 20  # of one case
TEXT_MAX = 2000  # characters of one message


@dataclass(frozen=True, slots=True)
class CaseState:
    """How a case stands beside the nights before; `known`: the issue that excuses its failure."""

    state: str
    since: str = ""
    since_build: str = ""
    series: str = ""
    dut: str = ""
    known: str = ""


_OUTCOMES = {"FAIL": "failure", "INCONCLUSIVE": "skipped"}  # ERROR, and no known word: error


def junit(score: Score, states: Mapping[str, CaseState] | None = None) -> bytes:
    """JUnit XML, UTF-8: FAIL is a failure, ERROR an error, INCONCLUSIVE skipped with its reason.

    With `states` each case says how it stands, and a failure that somebody knows of is skipped. A
    pass on a repeated stimulus is a pass with a `flakyFailure`.

    So is a case that the rig could not play; one that was planned and is not there is an error, and
    so is the run itself where what is missing of it is of no case.
    Cases may run side by side: the suite takes as long as from the first begin to the last end, not
    as all cases together.
    """
    found: dict[str | None, list[Finding]] = defaultdict(list)
    for finding in score.findings:
        found[finding.case].append(finding)
    suites = Element("testsuites")
    suite = SubElement(suites, "testsuite", name=shown(score.run, 200))
    _properties(suite, _run_properties(score))
    for verdict in score.verdicts:
        state = (states or {}).get(verdict.case)
        _testcase(suite, verdict, found[verdict.case], score, state)
    for case in score.left_out:
        _left_out_case(suite, case)
    books = score.wholeness
    for name in books.unplayed:
        _missing(suite, name, f"planned, not there: {books.sentence}")
    if not (books.whole or books.unplayed or books.withheld):
        _missing(suite, score.run, books.sentence)
    for element in (suites, suite):
        element.set("tests", str(len(suite.findall("testcase"))))
        element.set("failures", str(len(suite.findall("testcase/failure"))))
        element.set("errors", str(len(suite.findall("testcase/error"))))
        element.set("skipped", str(len(suite.findall("testcase/skipped"))))
        element.set("time", _seconds(_span_us(score.verdicts)))
    indent(suites)
    content: bytes = tostring(suites, encoding="utf-8", xml_declaration=True)
    return content + b"\n"


def _testcase(
    suite: Element,
    verdict: Verdict,
    findings: Sequence[Finding],
    score: Score,
    state: CaseState | None,
) -> None:
    testcase = SubElement(
        suite,
        "testcase",
        classname=_classname(verdict),
        name=shown(verdict.case, 200),
        time=_seconds(_length_us(verdict)),
    )
    words = {True: "true", False: "false"}
    own = [
        ("scenario", verdict.scenario),
        ("strategy", verdict.strategy),
        ("confirmed", words[verdict.confirmed] if verdict.confirmed is not None else None),
        ("attempt", verdict.attempt),
        ("owner", verdict.owner),
    ]
    _properties(testcase, [*own, *_state_properties(state), *_run_properties(score)])
    if verdict.verdict == "PASS":
        if verdict.attempt > 1:
            why = f"passed at attempt {verdict.attempt}; what came before proved nothing"
            SubElement(testcase, "flakyFailure", message=why, type="repeated stimulus")
        return
    message = "; ".join(verdict.reasons) or verdict.verdict
    if verdict.verdict == "FAIL" and state is not None and state.known:
        SubElement(testcase, "skipped", message=shown(f"known: {state.known}", TEXT_MAX))
        return
    outcome = SubElement(
        testcase, _OUTCOMES.get(verdict.verdict, "error"), message=shown(message, TEXT_MAX)
    )
    if verdict.verdict != "INCONCLUSIVE":
        outcome.set("type", shown(verdict.owner or verdict.verdict, 40))
    outcome.text = "\n".join(_finding(finding) for finding in findings[:FINDINGS_MAX])


def _state_properties(state: CaseState | None) -> list[tuple[str, object]]:
    if state is None:
        return []
    return [
        ("state", state.state),
        ("since", state.since or None),
        ("series", state.series),
        ("dut", state.dut),
    ]


def _left_out_case(suite: Element, case: LeftOut) -> None:
    name = shown(case.case, 200)
    testcase = SubElement(suite, "testcase", classname=_classname(case), name=name, time="0.000")
    message = f"left out: this rig lacks {', '.join(case.missing) or 'something'}"
    SubElement(testcase, "skipped", message=shown(message, TEXT_MAX))


def _missing(suite: Element, case: str, why: str) -> None:
    place = shown(case.rpartition("/")[0] or "scenarios", 200)
    testcase = SubElement(suite, "testcase", classname=place, name=shown(case, 200), time="0.000")
    error = SubElement(testcase, "error", message=shown(why, TEXT_MAX))
    error.set("type", "incomplete")


def _classname(case: Verdict | LeftOut) -> str:
    path = (case.file or case.group or "scenarios").removesuffix(".py")
    return shown(path.replace("/", "."), 200)


def _finding(finding: Finding) -> str:
    parts = [f"{finding.owner}, {finding.rule}: {finding.text}"]
    if finding.frame_id:
        parts.append(f"frame {finding.frame_id}")
    if finding.station:
        parts.append(f"station {finding.station}")
    if finding.expected is not None or finding.observed is not None:
        parts.append(f"expected {finding.expected}, observed {finding.observed}")
    return shown("; ".join(parts), TEXT_MAX)


def _run_properties(score: Score) -> list[tuple[str, object]]:
    return [("seed", score.seed), ("run", score.run), ("rig", score.rig)]


def _properties(parent: Element, values: Sequence[tuple[str, object]]) -> None:
    properties = SubElement(parent, "properties")
    for name, value in values:
        if value is not None:
            SubElement(properties, "property", name=name, value=shown(str(value), 200))


def _length_us(verdict: Verdict) -> int:
    if verdict.begin_us is None or verdict.end_us is None:
        return 0
    return max(0, verdict.end_us - verdict.begin_us)


def _span_us(verdicts: Sequence[Verdict]) -> int:
    begins = [verdict.begin_us for verdict in verdicts if verdict.begin_us is not None]
    ends = [verdict.end_us for verdict in verdicts if verdict.end_us is not None]
    return max(0, max(ends) - min(begins)) if begins and ends else 0


def _seconds(time_us: int) -> str:
    return f"{time_us // 1_000_000}.{time_us % 1_000_000 // 1000:03d}"


CASES_MAX = 20
RULES_MAX = 20

_SYMBOLS = {"PASS": "✅", "PASS on repeat": "🔁", "FAIL": "❌", "INCONCLUSIVE": "❔", "ERROR": "⛔"}
_MEANING = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def summary(score: Score, manifest: dict[str, Any]) -> str:
    """The run in Markdown: the sentence, the totals, what did not pass, how to repeat it."""
    ended = conclusion(score)
    about = facts(score, manifest)
    parts = [
        f"# {_SYMBOLS.get(ended.verdict, '⛔')} {ended.verdict}: {_text(ended.sentence)}",
        *(f"- {_text(remark)}" for remark in ended.remarks),
        "",
        _totals(score),
        "",
        *_cases(score),
        *_rules(score),
        *_store_calls(score),
        *_duplicates(score),
        *_timing(score),
        *_left_out(score),
        "## Run",
        "",
        *(
            f"- {'⚠️ ' * (name in about.alarming)}{name}: {_text(value)}"
            for name, value in about.rows
        ),
        "",
        "Repeat it with:",
        "",
        f"    {shown(about.command).replace(chr(10), ' ')}",
    ]
    return "\n".join(parts) + "\n"


def _section(title: str, *lines: str) -> list[str]:
    return [f"## {title}", "", *lines, ""]


def _table(texts: Sequence[str], numbers: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    """Columns of text, which are escaped, before columns of numbers."""
    lines = [f"| {' | '.join((*texts, *numbers))} |"]
    lines.append(f"|{'---|' * len(texts)}{'---:|' * len(numbers)}")
    for row in rows:
        cells = [_text(str(cell)) for cell in row[: len(texts)]]
        lines.append(f"| {' | '.join((*cells, *map(str, row[len(texts) :])))} |")
    return "\n".join(lines)


def _totals(score: Score) -> str:
    words = Counter(verdict.wording for verdict in score.verdicts)
    counts = score.counts
    values = [words[word] for word in WORDS]
    values += [counts.receptions, counts.deliveries, len(score.findings)]
    return _table((), (*WORDS, "receptions", "deliveries", "findings"), [values])


def _cases(score: Score) -> list[str]:
    order = {word: rank for rank, word in enumerate(("FAIL", "ERROR", "INCONCLUSIVE"))}
    cases = sorted(
        (verdict for verdict in score.verdicts if not verdict.first_attempt_pass),
        key=lambda verdict: order.get(verdict.verdict, len(order)),
    )
    if not cases:
        return []
    rows = [
        (v.wording, v.case, _kind(v), v.owner or "–", shown("; ".join(v.reasons), 200))
        for v in cases[:CASES_MAX]
    ]
    more = len(cases) - len(rows)
    return _section(
        "Not a first-attempt PASS",
        _table(("verdict", "case", "kind", "owner", "why"), (), rows),
        *(["", f"… and {more} more, in report.html."] if more else []),
    )


def _rules(score: Score) -> list[str]:
    counts = Counter((finding.owner, finding.rule) for finding in score.findings)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:RULES_MAX]
    rows = [(owner, rule, n) for (owner, rule), n in ranked]
    return _section("Findings", _table(("owner", "rule"), ("count",), rows)) if rows else []


def _store_calls(score: Score) -> list[str]:
    found = calls(score.store_calls)
    if found is None:
        return []

    def told(place: Asked | None) -> str:
        return f"{place.asked} of {place.receptions}" if place else "–"

    rows = [(row.status, *map(told, row.places), told(row.total)) for row in found.rows]
    return _section(
        "Calls to the shared store",
        f"{found.asked} calls for {found.uplinks} uplinks, heard {found.receptions} times:"
        f" {found.per_uplink} calls an uplink. Duplicate and SoftDuplicate never ask.",
        "",
        _table(("status",), (*STRATEGIES, "all"), rows),
    )


def _duplicates(score: Score) -> list[str]:
    life = life_of(score.ledger.duplicates)
    if life is None and not score.ledger.uplinks:
        return []
    lines = [sentence(score.ledger), "", *(f"- {one}" for one in exceptions(score.ledger))]
    if life is not None:
        rows: list[Sequence[object]] = [
            (name, *(cell.count or "·" for cell in cells), total)
            for name, cells, total in life.rows
        ]
        rows.append(("all", *life.totals, life.total))
        lines += [""] * bool(lines[-1])
        lines.append(_table(("born, died",), (*map(_text, life.columns), "all"), rows))
    return _section("From uplink to effect", *lines)


def _timing(score: Score) -> list[str]:
    found, host = timing(score), host_words(score)
    if not found.rows and not host:
        return []
    lines = []
    if found.rows:
        numbers = ("answers", "least", "1 %", "median", "99 %")
        rows = [
            (row.kind, row.window, row.answers, row.min_ms, row.p1_ms, row.p50_ms, row.p99_ms)
            for row in found.rows
        ]
        lines += ["How long before its window an answer left for the station, in ms.", ""]
        lines += [_table(("answers to", "window"), numbers, rows), ""]
    lines += [f"- {_text(remark)}" for remark in found.remarks]
    return _section("Timing", *lines, *([f"- In this run {_text(host)}."] if host else []))


def _left_out(score: Score) -> list[str]:
    if not score.left_out:
        return []
    lines = ["| missing | cases | scenarios |", "|---|---:|---|"]
    for group in left_out_groups(score.left_out):
        names = _text(", ".join(scenario.name for scenario in group.scenarios))
        lines.append(f"| {_text(group.missing)} | {group.cases} | {names} |")
    what = "What this rig lacks, and the scenarios that need it."
    return _section("Left out", what, "", *lines)


def _kind(verdict: Verdict) -> str:
    confirmed = {True: "confirmed", False: "unconfirmed", None: ""}[verdict.confirmed]
    return ", ".join(part for part in (verdict.strategy or "", confirmed) if part) or "–"


def _text(text: str, text_max: int = 300) -> str:
    flat = " ".join(shown(text, text_max).split())
    return _MEANING.sub(r"\\\1", flat).replace("\\<", "&lt;").replace("\\&", "&amp;")


CHANGES_TOLD_MAX, LINES_TOLD_MAX = 20, 9

_QUIET = frozenset({"fixed", "flaky", "unsettled", "new_case", "lab_shift", "known_unused"})
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def morning_sentence(line: Line, night: Night) -> str:
    """The answer of the morning: what is new since the baseline, what was fixed, how the lab is."""
    if not night.proves:
        return f"No verdict counts: {night.trouble or 'there is no run of this night'}."
    if not night.baseline:
        return (
            f"No baseline: this is the first night of {line.line} that another can be set beside."
        )
    told = (kind for kind in KINDS if night.counts.get(kind) and kind not in _QUIET)
    found = [counted(night.counts[kind], kind) for kind in told]
    news = _listed(found) or "Nothing new"
    parts = [f"{news[:1].upper()}{news[1:]} since {base_of(line, night)}"]
    fixed = night.counts.get("fixed", 0)
    parts.append(f"{fixed} fixed" if fixed else "nothing fixed")
    still = sum(one.state == "still_failing" for one in line.series.values())
    if still:
        parts.append(f"{still} still failing")
    if line.real_time:
        parts.append(f"{_listed(sorted(night.sick))} sick" if night.sick else "lab well")
    return "; ".join(parts) + "."


def base_of(line: Line, night: Night) -> str:
    """The baseline as a sentence names it: `Friday's build 7e07562d1a2b`."""
    base = next((one for one in line.nights if one.night == night.baseline), None)
    if base is None:
        return "the night before"
    try:
        day = _WEEKDAYS[date.fromisoformat(base.night[:10]).weekday()]
    except ValueError:
        day = base.night
    build = short(base.build)
    if base.build == night.build:
        return f"{day} ({base.night}), the same build {build}"
    return f"{day}'s build {build} ({base.night})"


def short(build: str) -> str:
    """A commit as people write it; anything else as it is."""
    is_commit = len(build) == 12 and set(build) <= set("0123456789abcdef")
    return build[:7] if is_commit else build


def brief(night: Night) -> str:
    """What changed, as a line of a list has it: `+2 -1 ~1`."""
    new = sum(n for kind, n in night.counts.items() if kind in GATED)
    signs = [(new, "+"), (night.counts.get("fixed", 0), "−"), (night.counts.get("flaky", 0), "~")]
    return " ".join(f"{sign}{n}" for n, sign in signs if n)


def change_lines(changes: Sequence[Change]) -> list[str]:
    """The changes for a person at a console, and how many more there are."""
    lines = []
    for change in changes[:LINES_TOLD_MAX]:
        known = f" (known: {change.known})" if change.known else ""
        name = f" {change.case}" if change.case else ""
        text = f": {change.text}" if change.text else ""
        lines.append(f"{KINDS[change.kind][0]}{known}{name}{text}")
    more = len(changes) - len(lines)
    return [*lines, *([f"… and {more} more, in nights.html"] if more else [])]


def document(line: Line, night: Night) -> dict[str, Any]:
    """What programs elsewhere are told of a night: the baseline, and what changed since."""
    changes = night.changes[:CHANGES_TOLD_MAX]
    return {
        "id": night.runs[-1].run if night.runs else night.night,
        "night": night.night,
        "line": line.line,
        "build": night.build,
        "dirty": night.dirty,
        "baseline": night.baseline or None,
        "sentence": morning_sentence(line, night),
        "changes": [
            {
                "kind": one.kind, "case": one.case, "owner": one.owner, "text": one.text,
                "since": one.since, "repeat": one.repeat, "known": one.known, "gated": one.gated,
            }
            for one in changes
        ],
        "more": len(night.changes) - len(changes),
        "lab": {"sick": dict(sorted(night.sick.items()))},
        "margin": {
            kind: {"p50_us": one.p50_us, "p99_us": one.p99_us, "late": one.late}
            for kind, one in sorted(night.margins.items())
        },
    }  # fmt: skip


def counted(number: int, kind: str) -> str:
    """So many changes of a kind, in words."""
    return f"{number} {KINDS[kind][number != 1]}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
