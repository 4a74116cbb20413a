"""What fits into a chat message or the summary of a build job? The run in Markdown."""

import re
from collections import Counter
from typing import Any

from bench.report.conclusion import WORDS, conclusion
from bench.report.facts import facts, host_words, timing
from bench.report.foreign_text import shown
from bench.report.score_file import Score, Verdict
from bench.report.tables import (
    STRATEGIES,
    Asked,
    calls,
    exceptions,
    left_out_groups,
    life_of,
    sentence,
)

CASES_MAX = 20
RULES_MAX = 20

_SYMBOLS = {"PASS": "✅", "PASS on repeat": "🔁", "FAIL": "❌", "INCONCLUSIVE": "❔", "ERROR": "⛔"}
_MEANING = re.compile(r"([\\`*_{}\[\]<>#|~!&])")


def summary(score: Score, manifest: dict[str, Any]) -> str:
    """The run in Markdown: the sentence, the totals, what did not pass, how to repeat it."""
    told = conclusion(score)
    about = facts(score, manifest)
    parts = [
        f"# {_SYMBOLS.get(told.verdict, '⛔')} {told.verdict}: {_text(told.sentence)}",
        *(f"- {_text(remark)}" for remark in told.remarks),
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


def _totals(score: Score) -> str:
    words = Counter(verdict.wording for verdict in score.verdicts)
    counts = score.counts
    names = [*WORDS, "receptions", "deliveries", "findings"]
    values = [words[word] for word in WORDS]
    values += [counts.receptions, counts.deliveries, len(score.findings)]
    return "\n".join(
        [
            f"| {' | '.join(names)} |",
            f"|{'---:|' * len(names)}",
            f"| {' | '.join(str(value) for value in values)} |",
        ]
    )


def _cases(score: Score) -> list[str]:
    order = {word: rank for rank, word in enumerate(("FAIL", "ERROR", "INCONCLUSIVE"))}
    cases = sorted(
        (verdict for verdict in score.verdicts if not verdict.first_attempt_pass),
        key=lambda verdict: order.get(verdict.verdict, len(order)),
    )
    if not cases:
        return []
    rows = [
        f"| {_text(v.wording)} | {_text(v.case)} | {_kind(v)} | {_text(v.owner or '–')} "
        f"| {_text('; '.join(v.reasons), 200)} |"
        for v in cases[:CASES_MAX]
    ]
    more = len(cases) - len(rows)
    return [
        "## Not a first-attempt PASS",
        "",
        "| verdict | case | kind | owner | why |",
        "|---|---|---|---|---|",
        *rows,
        *(["", f"… and {more} more, in report.html."] if more else []),
        "",
    ]


def _rules(score: Score) -> list[str]:
    if not score.findings:
        return []
    counts = Counter((finding.owner, finding.rule) for finding in score.findings)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [
        "## Findings",
        "",
        "| owner | rule | count |",
        "|---|---|---:|",
        *(f"| {_text(owner)} | {_text(rule)} | {n} |" for (owner, rule), n in ranked[:RULES_MAX]),
        "",
    ]


def _store_calls(score: Score) -> list[str]:
    found = calls(score.store_calls)
    if found is None:
        return []

    def told(place: Asked | None) -> str:
        return f"{place.asked} of {place.receptions}" if place else "–"

    return [
        "## Calls to the shared store",
        "",
        f"{found.asked} calls for {found.uplinks} uplinks, heard {found.receptions} times:"
        f" {found.per_uplink} calls an uplink. Duplicate and SoftDuplicate never ask.",
        "",
        f"| status | {' | '.join(STRATEGIES)} | all |",
        f"|---|{'---:|' * (len(STRATEGIES) + 1)}",
        *(
            f"| {_text(row.status)} | {' | '.join(told(place) for place in row.places)} "
            f"| {told(row.total)} |"
            for row in found.rows
        ),
        "",
    ]


def _duplicates(score: Score) -> list[str]:
    life = life_of(score.ledger.duplicates)
    if life is None and not score.ledger.uplinks:
        return []
    told = ["## From uplink to effect", "", sentence(score.ledger), ""]
    told += [f"- {remark}" for remark in exceptions(score.ledger)]
    if life is None:
        return [*told, ""]
    return [
        *told,
        *([""] if told[-1] else []),
        f"| born, died | {' | '.join(map(_text, life.columns))} | all |",
        f"|---|{'---:|' * (len(life.columns) + 1)}",
        *(
            f"| {_text(name)} | {' | '.join(str(cell.count or '·') for cell in cells)} | {total} |"
            for name, cells, total in life.rows
        ),
        f"| all | {' | '.join(map(str, life.totals))} | {life.total} |",
        "",
    ]


def _timing(score: Score) -> list[str]:
    found, host = timing(score), host_words(score)
    if not found.rows and not host:
        return []
    head = ["answers to", "window", "answers", "least", "1 %", "median", "99 %"]
    rows = [
        f"| {_text(row.kind)} | {row.window} | {row.answers} | {row.min_ms} | {row.p1_ms} "
        f"| {row.p50_ms} | {row.p99_ms} |"
        for row in found.rows
    ]
    return [
        "## Timing",
        "",
        *(
            [
                "How long before its window an answer left for the station, in ms.",
                "",
                f"| {' | '.join(head)} |",
                "|---|---|---:|---:|---:|---:|---:|",
                *rows,
                "",
            ]
            if rows
            else []
        ),
        *(f"- {_text(remark)}" for remark in found.remarks),
        *([f"- In this run {_text(host)}."] if host else []),
        "",
    ]


def _left_out(score: Score) -> list[str]:
    if not score.left_out:
        return []
    return [
        "## Left out",
        "",
        "What this rig lacks, and the scenarios that need it.",
        "",
        "| missing | cases | scenarios |",
        "|---|---:|---|",
        *(
            f"| {_text(group.missing)} | {group.cases} "
            f"| {_text(', '.join(scenario.name for scenario in group.scenarios))} |"
            for group in left_out_groups(score.left_out)
        ),
        "",
    ]


def _kind(verdict: Verdict) -> str:
    confirmed = {True: "confirmed", False: "unconfirmed", None: ""}[verdict.confirmed]
    return _text(", ".join(part for part in (verdict.strategy or "", confirmed) if part) or "–")


def _text(text: str, text_max: int = 300) -> str:
    """Plain words inside Markdown: nothing in them opens a table cell, a link or a tag."""
    flat = " ".join(shown(text, text_max).split())
    return _MEANING.sub(r"\\\1", flat).replace("\\<", "&lt;").replace("\\&", "&amp;")
