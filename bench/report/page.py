"""What stands on the page of a run, and on that of all nights? Each is one self-contained file."""

import base64
import hashlib
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bench.capture.run_folder import replace
from bench.night.morning import KINDS, Change, Line, Night, with_known
from bench.night.record import FAIL, GLYPHS, LEFT_OUT, NOT_RUN, ExitCode, code_of
from bench.night.series import STEADY, Known, Series, State
from bench.night.statistics import shifts, wilson
from bench.report.conclusion import CAUSES_SHOWN, KINDS_SHOWN, WORDS, Cause, causes, conclusion, the
from bench.report.excerpts import shown
from bench.report.facts import AIM_GAP_MS, UNCOMMITTED, facts, host_words, timing
from bench.report.narration import seconds
from bench.report.score_file import Finding, Score, Verdict
from bench.report.stories import OUTSIDE_MAX, stories
from bench.report.summary import counted, morning_sentence
from bench.report.tables import (
    ANSWERS,
    IMPORTED,
    SCENARIOS_MAX,
    STRATEGIES,
    answer_rows,
    calls,
    exceptions,
    heat,
    left_out_groups,
    life_of,
    percent,
    sentence,
    situations,
)

TEXT_MAX = 2000  # characters of one text, whatever it is
REASONS_MAX = 5  # of one case, in the list of every case
SLOWEST_SHOWN = 5
MISSING_MAX = 100  # cases that are named, of each kind

_SYMBOLS = {"PASS": "✓", "PASS on repeat": "↻", "FAIL": "✗", "INCONCLUSIVE": "?", "ERROR": "!"}
_CLASSES = {"PASS": "ok", "PASS on repeat": "re", "FAIL": "no", "INCONCLUSIVE": "un"}


def page(run_folder: Path, score: Score, manifest: dict[str, Any]) -> str:
    """The whole page as HTML text. It asks for nothing from outside and works from a disk."""
    templates = environment()
    shown_stories = stories(run_folder, score)
    script = templates.get_template("report.js.j2").render()
    index_of = {verdict.case: index for index, verdict in enumerate(score.verdicts)}
    words = Counter(verdict.wording for verdict in score.verdicts)
    books = score.wholeness
    missing = {*books.unplayed, *(one.case for one in books.withheld)}
    not_judged = len(missing - index_of.keys())
    cases = len(score.verdicts) + not_judged
    found = causes(score, shown_stories.anchors)
    about = facts(score, manifest)
    return templates.get_template("report.html.j2").render(
        script=script,
        # For the content security policy of the page: this script, and no other, may run.
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        score=score,
        conclusion=conclusion(score),
        code=code_of(words, score.inconclusive_share_max)
        if score.wholeness.whole
        else ExitCode.BENCH_ERROR,
        tiles=[(word, words[word], percent(words[word], cases)) for word in WORDS],
        not_judged=not_judged,
        facts=about,
        causes=found,
        headline=_headline(found, conclusion(score).verdict),
        ladders={story.anchor: story.ladder for story in shown_stories.stories if story.ladder},
        dispositions=[(one.upstream, one.count) for one in score.dispositions],
        answer_tiles=_answers(score),
        slowest=_slowest(score),
        about_run=_about(dict(about.rows)),
        uncommitted=dict(about.rows).get(UNCOMMITTED, ""),
        nights="../nights.html" if manifest.get("night") else "",
        situations=situations(score.verdicts, shown_stories.anchors, imported=False),
        imported=situations(score.verdicts, shown_stories.anchors, imported=True),
        confusion=heat((row.expected, row.observed, row.count) for row in score.confusion),
        oracle=heat((row.oracle, row.observed, row.count) for row in score.oracle),
        rules=_rules(score.findings, index_of, shown_stories.anchors),
        stories=shown_stories,
        answer_names=ANSWERS,
        answers=answer_rows(score.answers),
        strategies=STRATEGIES,
        calls=calls(score.store_calls),
        chain=sentence(score.ledger),
        chain_exceptions=exceptions(score.ledger),
        life=life_of(score.ledger.duplicates),
        timing=timing(score),
        host=host_words(score),
        left_out=left_out_groups(score.left_out),
    )


def environment() -> Environment:
    """The templates of this package, with the words that they use."""
    made = Environment(
        loader=PackageLoader("bench.report"),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters |= {
        "shown": lambda value, text_max=600: shown(str(value), text_max),
        "thousands": lambda number: f"{number:,}".replace(",", "\N{NO-BREAK SPACE}"),
        "seconds": seconds,
        "percent": percent,
        "symbol": lambda word: _SYMBOLS.get(word, "!"),
        "tone": lambda word: _CLASSES.get(word, "er"),
        "status": _status,
        "breakable": lambda name: escape(name).replace("_", Markup("_<wbr>")),
        "owner": the,
        "plural": lambda number, noun: f"{number} {noun}" + ("" if number == 1 else "s"),
    }
    made.globals |= {
        "IMPORTED": IMPORTED,
        "REASONS_MAX": REASONS_MAX,
        "AIM_GAP_MS": AIM_GAP_MS,
        "SCENARIOS_MAX": SCENARIOS_MAX,
        "MISSING_MAX": MISSING_MAX,
        "CAUSES_SHOWN": CAUSES_SHOWN,
        "KINDS_SHOWN": KINDS_SHOWN,
    }
    return made


def _headline(found: Sequence[Cause], verdict: str) -> str:
    failing = [cause for cause in found if cause.fails]
    if verdict != "FAIL" or not failing:
        return ""
    more = len(failing) - 1
    others = f", and {more} more cause{'' if more == 1 else 's'}" if more else ""
    return f"{failing[0].sentence}: {failing[0].count}{others}."


def _about(rows: dict[str, str]) -> str:
    named = [("Night", "night of {}"), ("Started", "began {}"), ("Wall time", "took {}")]
    named += [("Host", "on {}"), ("Server under test", "tested {}"), ("Git commit", "commit {}")]
    rows_written = ", ".join(text.format(rows[name]) for name, text in named if rows.get(name))
    return f"{rows_written[:1].upper()}{rows_written[1:]}"


def _answers(score: Score) -> list[tuple[str, int]]:
    counted: Counter[str] = Counter()
    for row in score.answers:
        counted[row.answer] += row.count
    return [(name, counted[name]) for name in ANSWERS if counted[name]]


def _slowest(score: Score) -> list[tuple[Verdict, str]]:
    spans = [
        (verdict.end_us - verdict.begin_us, verdict)
        for verdict in score.verdicts
        if verdict.begin_us is not None and verdict.end_us is not None
    ]
    longest = sorted(spans, key=lambda one: (-one[0], one[1].case))[:SLOWEST_SHOWN]
    return [(verdict, f"{span_us / 1_000_000:.1f}") for span_us, verdict in longest]


def _clean(value: object) -> object:
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return shown(str(value), TEXT_MAX) if is_text else value


def _status(word: str) -> Markup:
    name = "no status" if word == "-" else shown(word, 40)
    return escape(name).replace("DueTo", Markup("<wbr>DueTo<wbr>"))


def _rules(
    findings: Sequence[Finding], index_of: dict[str, int], anchors: dict[int, str]
) -> list[dict[str, Any]]:
    counts: Counter[tuple[str, str]] = Counter()
    places: dict[tuple[str, str], str] = {}
    outside = 0
    for finding in findings:
        key = finding.owner, finding.rule
        counts[key] += 1
        index = index_of.get(finding.case) if finding.case is not None else None
        if index is None:
            anchor, outside = f"o{outside}" if outside < OUTSIDE_MAX else "", outside + 1
        else:
            anchor = anchors.get(index, f"c{index}")
        if anchor and (key not in places or places[key].startswith("c")):
            places[key] = anchor
    ordered = sorted(counts, key=lambda key: (-counts[key], key))
    return [
        {"owner": key[0], "rule": key[1], "count": counts[key], "anchor": places.get(key, "")}
        for key in ordered
    ]


PAGE = "nights.html"
NIGHTS_SHOWN = 30
ROWS_MAX = 160
CHANGES_SHOWN = 60

TONES = {"·": "ok", "r": "re", "F": "no", "?": "un", "!": "er", "–": "lo", " ": "nr", "x": "no"}
SHOWN = {"·": "·", "r": "↻", "F": "✗", "?": "?", "!": "!", "–": "–", " ": "", "x": "✗"}
MEANINGS = {
    "·": "passed", "r": "passed on a repeated stimulus", "F": "failed", "?": "inconclusive",
    "!": "error of the bench", "–": "left out", " ": "did not run", "x": "sick",
}  # fmt: skip
_WORST = "F!?r·– "
_KIND_TONES = {"fixed": "ok", "new_case": "ok", "flaky": "un", "unsettled": "un", "lab_shift": "un",
               "margin_shift": "un", "determinism_broken": "er", "known_unused": "un",
               "known_expired": "un"}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Cell:
    """A night of a row: its tone and sign; `edge` where the build is another one than before."""

    tone: str
    sign: str
    edge: bool
    title: str


@dataclass(frozen=True, slots=True)
class Row:
    """A scenario, or the quiet ones of a file, through the nights that are shown."""

    name: str
    group: str
    note: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class Rate:
    """A case or a part with its rate, and how sure that is."""

    name: str
    part: int
    whole: int
    low: int
    high: int
    strip: tuple[Cell, ...]
    note: str = ""


def write_nights(runs: Path, lines: Sequence[Line], known: Sequence[Known], today: str) -> Path:
    path = runs / PAGE
    replace(path, nights_page(lines, known, today).encode("utf-8", errors="replace"))
    return path


def nights_page(lines: Sequence[Line], known: Sequence[Known], today: str) -> str:
    """The whole page as HTML text; the line with the newest night first."""
    newest_first = sorted(
        (line for line in lines if line.nights),
        key=lambda line: max((run.run for run in line.nights[-1].runs), default=""),
        reverse=True,
    )
    chapters = [_chapter(line, known, date.fromisoformat(today)) for line in newest_first]
    words = environment()
    words.globals |= {"SHOWN": SHOWN, "MEANINGS": MEANINGS, "TONES": TONES, "counted": counted}
    return words.get_template("nights.html.j2").render(chapters=chapters)


def _chapter(line: Line, known: Sequence[Known], today: date) -> dict[str, Any]:
    night = with_known(line, known)
    word, tone = _word(night)
    states = Counter(series.state for series in line.series.values())
    counts = night.counts
    shown = tuple(line.nights[-NIGHTS_SHOWN:])
    rows = _rows(line, shown)
    kinds = {kind for night in shown for kind in night.margins}
    tiles = (
        (sum(change.gated for change in night.changes), "new tonight", "no"),
        (counts.get("fixed", 0), "fixed", "ok"),
        (states[State.STILL_FAILING] + states[State.CHANGED_FAILURE], "still failing", "no"),
        (states[State.FLAKY], "flaky", "un"),
        (states[State.UNSETTLED], "unsettled", "un"),
        (sum(bool(change.known) for change in night.changes), "known", "re"),
    )
    changes = _told([change for change in night.changes if change.kind != "new_case"])
    return {
        "line": line,
        "night": night,
        "word": word,
        "tone": tone,
        "sentence": morning_sentence(line, night),
        "tiles": tiles,
        "changes": changes[:CHANGES_SHOWN],
        "more": max(0, len(changes) - CHANGES_SHOWN),
        "nights": shown,
        "rows": rows[:ROWS_MAX],
        "rows_left_out": max(0, len(rows) - ROWS_MAX),
        "sparks": [_spark(line, kind) for kind in sorted(kinds)],
        "lab": _lab(line),
        "flaky": _flaky(line, shown),
        "known": [_excused(line, one, today) for one in known],
    }


def _told(changes: Sequence[Change]) -> list[dict[str, Any]]:
    together: dict[tuple[str, ...], list[Change]] = defaultdict(list)
    for one in changes:
        name = one.case.partition("[")[0]
        together[one.kind, name, one.owner, one.since, one.known].append(one)
    return [
        {
            "name": key[1],
            "kind": KINDS[key[0]][0],
            "tone": _KIND_TONES.get(key[0], "no"),
            "rows": [one.case.partition("[")[2].removesuffix("]") for one in of if "[" in one.case],
            "first": of[0],
        }
        for key, of in together.items()
    ]


def _word(night: Night) -> tuple[str, str]:
    if not night.proves or night.code in (2, 4, 12):
        return "! NO VERDICT" if not night.proves else "! BENCH ERROR", "er"
    gated = sum(change.gated for change in night.changes)
    if gated:
        return f"✗ {gated} NEW", "no"
    if not night.baseline:
        return "? NO BASELINE", "un"
    return ("✓ NOTHING NEW", "ok") if night.code in (0, 10) else ("= NOTHING NEW", "un")


def _rows(line: Line, nights: Sequence[Night]) -> list[Row]:
    scenarios: dict[tuple[str, str], list[tuple[str, Series]]] = defaultdict(list)
    for case, series in line.series.items():
        group, _, rest = case.rpartition("/") if "[" not in case else _parts(case)
        scenarios[group, rest.partition("[")[0]].append((case, series))
    loud: list[tuple[tuple[int, ...], Row]] = []
    quiet: dict[str, list[tuple[Series, ...]]] = defaultdict(list)
    for (group, name), cases in sorted(scenarios.items()):
        strips = [_shown_strip(series, len(nights)) for _, series in cases]
        worst = "".join(min(column, key=_WORST.index) for column in zip(*strips, strict=True))
        if set(worst) <= set("·– "):
            quiet[group].append(tuple(series for _, series in cases))
            continue
        failing = sum(series.last == FAIL for _, series in cases)
        note = f"{failing} of {len(cases)} fail" if failing else _note(cases)
        latest = max(n for n, glyph in enumerate(worst) if glyph not in "·– ")
        rank = (-failing, -latest, -worst.count(FAIL))
        loud.append((rank, Row(name, group, note, _cells(worst, nights))))
    rows = [row for _, row in sorted(loud, key=lambda one: (one[0], one[1].name))]
    for group, found in sorted(quiet.items()):
        strips = [_shown_strip(series, len(nights)) for of in found for series in of]
        best = "".join(min(column, key="·– ".index) for column in zip(*strips, strict=True))
        many = f"{len(found)} quiet scenario{'' if len(found) == 1 else 's'}"
        cases_n = sum(len(of) for of in found)
        rows.append(Row(many, group, f"{cases_n} cases", _cells(best, nights)))
    return rows


def _parts(case: str) -> tuple[str, str, str]:
    head, bracket, params = case.partition("[")
    group, slash, name = head.rpartition("/")
    return group, slash, name + bracket + params


def _note(cases: Sequence[tuple[str, Series]]) -> str:
    states = Counter(series.state for _, series in cases)
    worst = next((s for s in (State.FLAKY, State.UNSETTLED, State.LOST) if states[s]), None)
    return "" if worst is None else worst.value


def _shown_strip(series: Series, nights: int) -> str:
    return series.strip[-nights:].rjust(nights, NOT_RUN)


def _cells(strip: str, nights: Sequence[Night]) -> tuple[Cell, ...]:
    cells = []
    for place, (glyph, night) in enumerate(zip(strip, nights, strict=True)):
        edge = place > 0 and night.build != nights[place - 1].build
        quiet = glyph in (GLYPHS["PASS"], LEFT_OUT, NOT_RUN)
        title = "" if quiet else f"{night.night}, build {night.build}: {MEANINGS[glyph]}"
        cells.append(Cell(TONES[glyph], SHOWN[glyph], edge, title))
    return tuple(cells)


_WIDTH, _HEIGHT = 640, 74


def _spark(line: Line, kind: str) -> dict[str, Any]:
    nights = [one for one in line.nights if kind in one.margins][-NIGHTS_SHOWN * 2 :]
    p50 = [one.margins[kind].p50_us / 1000 for one in nights]
    p99 = [one.margins[kind].p99_us / 1000 for one in nights]
    low, high = min(p50), max(p99)
    spread = max(high - low, 1.0)
    step = _WIDTH / max(1, len(nights) - 1)

    def x(n: int) -> float:
        return round(n * step, 1)

    def y(value: float) -> float:
        return round(_HEIGHT - 4 - (value - low) / spread * (_HEIGHT - 12), 1)

    upper = [f"{x(n)},{y(value)}" for n, value in enumerate(p99)]
    lower = [f"{x(n)},{y(value)}" for n, value in enumerate(p50)]
    labels = [one.night for one in nights]
    shifted = {labels.index(label) for label in line.shifted.get(kind, []) if label in labels}
    points = sorted(shifted | set(shifts([value * 1000 for value in p50])))
    kept = [at for n, at in enumerate(points) if n == 0 or at - points[n - 1] > STEADY]
    if len(nights) == 1:
        upper, lower = [upper[0], f"{_WIDTH},{y(p99[0])}"], [lower[0], f"{_WIDTH},{y(p50[0])}"]
    now = f"{p50[-1]:.1f} ms, 99 % within {p99[-1]:.1f} ms"
    return {
        "kind": kind,
        "now": now,
        "band": " ".join([*upper, *reversed(lower)]),
        "line": " ".join(lower),
        "ticks": [(x(at), f"since {labels[at]}") for at in kept],
        "top_ms": f"{high:.1f}",
        "bottom_ms": f"{low:.1f}",
        "title": f"Answers to {kind}, {len(nights)} nights from {labels[0]} to {labels[-1]}: {now}",
    }


def _lab(line: Line) -> list[Rate]:
    if not line.real_time:
        return []
    nights = [night for night in line.nights if night.proves][-NIGHTS_SHOWN:]
    found = []
    for name in sorted({name for night in nights for name in night.lab}):
        newest = next(night for night in reversed(nights) if name in night.lab)
        part = newest.lab[name]
        strip = "".join(
            NOT_RUN if name not in night.lab else "x" if name in night.sick else "·"
            for night in nights
        )
        note = f"sick for {newest.sick[name]} nights" if name in newest.sick else "well"
        found.append(_rate(name, part.missed, part.opportunities, _cells(strip, nights), note))
    return sorted(found, key=lambda rate: (-rate.low, rate.name))


def _flaky(line: Line, nights: Sequence[Night]) -> list[Rate]:
    found = []
    for case, series in line.series.items():
        if series.state is State.FLAKY:
            of = line.recent(series)
            cells = _cells(_shown_strip(series, len(nights)), nights)
            found.append(_rate(case, of.fail30, of.n30, cells))
    return sorted(found, key=lambda rate: (-rate.part / max(1, rate.whole), rate.name))


def _rate(name: str, part: int, whole: int, strip: tuple[Cell, ...], note: str = "") -> Rate:
    low, high = wilson(part, whole)
    return Rate(name, part, whole, round(100 * low), round(100 * high), strip, note)


def _excused(line: Line, known: Known, today: date) -> dict[str, Any]:
    failing = [(case, one) for case, one in line.series.items() if one.last == FAIL]
    cases = sum(known.fits(case, one.signature, one.rules) for case, one in failing)
    days = (known.until - today).days if known.until else None
    return {"known": known, "days": days, "cases": cases}
