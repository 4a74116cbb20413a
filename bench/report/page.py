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

from bench.night.exit_code import exit_code
from bench.report.conclusion import WORDS, conclusion, the
from bench.report.facts import facts
from bench.report.foreign_text import shown
from bench.report.histogram import AIM_GAP_MS
from bench.report.left_out import SCENARIOS_MAX, left_out_groups
from bench.report.life_of_duplicates import exceptions, life_of, sentence
from bench.report.narration import seconds
from bench.report.score_file import Finding, Score, Verdict
from bench.report.store_calls import calls
from bench.report.stories import OUTSIDE_MAX, stories
from bench.report.tables import (
    ANSWERS,
    IMPORTED,
    STRATEGIES,
    answer_rows,
    heat,
    percent,
    situations,
)
from bench.report.timing import host_words, timing

TEXT_MAX = 2000  # characters of one text, whatever it is
REASONS_MAX = 5  # of one case, in the list of every case
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
    environment = _environment()
    told = stories(run_folder, score)
    script = environment.get_template("report.js.j2").render()
    index_of = {verdict.case: index for index, verdict in enumerate(score.verdicts)}
    words = Counter(verdict.wording for verdict in score.verdicts)
    return environment.get_template("report.html.j2").render(
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
        facts=facts(score, manifest),
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


def _environment() -> Environment:
    environment = Environment(
        loader=PackageLoader("bench.report", package_path=""),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
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
    environment.globals |= {
        "IMPORTED": IMPORTED,
        "REASONS_MAX": REASONS_MAX,
        "AIM_GAP_MS": AIM_GAP_MS,
        "SCENARIOS_MAX": SCENARIOS_MAX,
        "MISSING_MAX": MISSING_MAX,
    }
    return environment


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
