"""What stands on the report's page? One self-contained HTML file, made by the templates here."""

import base64
import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape

from bench.night.record import exit_code
from bench.report.conclusion import CAUSES_SHOWN, KINDS_SHOWN, WORDS, Cause, causes, conclusion, the
from bench.report.facts import AIM_GAP_MS, UNCOMMITTED, facts, host_words, timing
from bench.report.foreign_text import shown
from bench.report.narration import seconds
from bench.report.score_file import Finding, Score, Verdict
from bench.report.stories import OUTSIDE_MAX, stories
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


@dataclass(frozen=True, slots=True)
class Rule:
    """How many findings of one owner and rule there are, and where the first one is told."""

    owner: str
    rule: str
    count: int
    anchor: str


def page(run_folder: Path, score: Score, manifest: dict[str, Any]) -> str:
    """The whole page as HTML text. It asks for nothing from outside and works from a disk."""
    templates = environment()
    told = stories(run_folder, score)
    script = templates.get_template("report.js.j2").render()
    index_of = {verdict.case: index for index, verdict in enumerate(score.verdicts)}
    words = Counter(verdict.wording for verdict in score.verdicts)
    found = causes(score, told.anchors)
    about = facts(score, manifest)
    return templates.get_template("report.html.j2").render(
        script=script,
        script_hash=_hash(script),
        score=score,
        conclusion=conclusion(score),
        code=exit_code(
            {
                "verdicts": [_verdict_words(v) for v in score.verdicts],
                "wholeness": {"whole": score.wholeness.whole},
            }
        ),
        tiles=[(word, words[word], percent(words[word], len(score.verdicts))) for word in WORDS],
        facts=about,
        causes=found,
        headline=_headline(found, conclusion(score).verdict),
        ladders={story.anchor: story.ladder for story in told.told if story.ladder},
        dispositions=_dispositions(score),
        answer_tiles=_answers(score),
        slowest=_slowest(score),
        about_run=_about(dict(about.rows)),
        uncommitted=dict(about.rows).get(UNCOMMITTED, ""),
        nights="../nights.html" if manifest.get("night") else "",
        situations=situations(score.verdicts, told.anchors, imported=False),
        imported=situations(score.verdicts, told.anchors, imported=True),
        confusion=heat((row.expected, row.observed, row.count) for row in score.confusion),
        oracle=heat((row.oracle, row.observed, row.count) for row in score.oracle),
        rules=_rules(score.findings, index_of, told.anchors),
        stories=told,
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
        loader=PackageLoader("bench.report", package_path=""),
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
        "breakable": _breakable,
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
    """The causes of a red run in one sentence; "" of any other, which says how it went."""
    failing = [cause for cause in found if cause.fails]
    if verdict != "FAIL" or not failing:
        return ""
    more = len(failing) - 1
    others = f", and {more} more cause{'' if more == 1 else 's'}" if more else ""
    return f"{failing[0].sentence}: {failing[0].count}{others}."


def _about(rows: dict[str, str]) -> str:
    """When it began, how long it took and where, and what was tested."""
    named = [("Night", "night of {}"), ("Started", "began {}"), ("Wall time", "took {}")]
    named += [("Host", "on {}"), ("Server under test", "tested {}"), ("Git commit", "commit {}")]
    told = ", ".join(text.format(rows[name]) for name, text in named if rows.get(name))
    return f"{told[:1].upper()}{told[1:]}"


def _dispositions(score: Score) -> list[tuple[str, int]]:
    return [(one.upstream, one.count) for one in score.dispositions]


def _answers(score: Score) -> list[tuple[str, int]]:
    counted: Counter[str] = Counter()
    for row in score.answers:
        counted[row.answer] += row.count
    return [(name, counted[name]) for name in ANSWERS if counted[name]]


def _slowest(score: Score) -> list[tuple[Verdict, str]]:
    """The cases that took longest by the run's own clock, and how long."""
    spans = [
        (verdict.end_us - verdict.begin_us, verdict)
        for verdict in score.verdicts
        if verdict.begin_us is not None and verdict.end_us is not None
    ]
    longest = sorted(spans, key=lambda one: (-one[0], one[1].case))[:SLOWEST_SHOWN]
    return [(verdict, f"{span_us / 1_000_000:.1f}") for span_us, verdict in longest]


def _clean(value: object) -> object:
    """Every text that a template prints, whoever wrote it: without keys, with nothing invisible."""
    is_text = isinstance(value, str) and not isinstance(value, Markup)
    return shown(str(value), TEXT_MAX) if is_text else value


def _status(word: str) -> Markup:
    """The exact word of the closed list; a long one may break between its parts."""
    name = "no status" if word == "-" else shown(word, 40)
    return escape(name).replace("DueTo", Markup("<wbr>DueTo<wbr>"))


def _breakable(name: str) -> Markup:
    """A function's name, that may break at its underscores."""
    return escape(name).replace("_", Markup("_<wbr>"))


def _rules(
    findings: Sequence[Finding], index_of: dict[str, int], anchors: dict[int, str]
) -> list[Rule]:
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
    return [Rule(*key, counts[key], places.get(key, "")) for key in ordered]


def _verdict_words(verdict: Verdict) -> dict[str, Any]:
    return {"verdict": verdict.verdict, "attempt": verdict.attempt}


def _hash(script: str) -> str:
    """For the page's content security policy: this script, and no other, may run."""
    return base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
