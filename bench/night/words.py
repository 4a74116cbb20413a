"""How is a night told: in one sentence, in a line, and to programs elsewhere?"""

from collections.abc import Sequence
from datetime import date
from typing import Any

from bench.night.morning import GATED, Change, Line, Night

CHANGES_TOLD_MAX = 20

KINDS = {
    "determinism_broken": ("broken determinism", "broken determinisms"),
    "new_failure": ("new failure", "new failures"),
    "changed_failure": ("changed failure", "changed failures"),
    "new_case_failing": ("new case that fails", "new cases that fail"),
    "seed_dependent": ("failure of a seed", "failures of a seed"),
    "lost": ("lost case", "lost cases"),
    "margin_limit": ("kind of answers too late", "kinds of answers too late"),
    "margin_shift": ("shift in time", "shifts in time"),
    "fixed": ("fixed", "fixed"),
    "lab_shift": ("change in the lab", "changes in the lab"),
    "flaky": ("flaky", "flaky"),
    "unsettled": ("unsettled", "unsettled"),
    "new_case": ("new case", "new cases"),
    "known_expired": ("known failure past its day", "known failures past their day"),
    "known_unused": ("known failure that is gone", "known failures that are gone"),
}  # fmt: skip
"""Every kind of change, for one and for many."""
_WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")


def sentence(line: Line, night: Night) -> str:
    """The answer of the morning: what is new since the baseline, what was fixed, how the lab is."""
    if not night.proves:
        return f"No verdict counts: {night.trouble or 'there is no run of this night'}."
    if not night.baseline:
        return (
            f"No baseline: this is the first night of {line.line} that another can be set beside."
        )
    found = [_count(kind, night.counts[kind]) for kind in KINDS if _is_told(kind, night)]
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


def _is_told(kind: str, night: Night) -> bool:
    quiet = {"fixed", "flaky", "unsettled", "new_case", "lab_shift", "known_unused"}
    return bool(night.counts.get(kind)) and kind not in quiet


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


def change_lines(changes: Sequence[Change], told_max: int = 9) -> list[str]:
    """The changes for a person at a console, and how many more there are."""
    lines = []
    for change in changes[:told_max]:
        known = f" (known: {change.known})" if change.known else ""
        name = f" {change.case}" if change.case else ""
        text = f": {change.text}" if change.text else ""
        lines.append(f"{KINDS[change.kind][0]}{known}{name}{text}")
    more = len(changes) - len(lines)
    return [*lines, *([f"… and {more} more, in nights.html"] if more else [])]


def document(line: Line, night: Night) -> dict[str, Any]:
    """What programs elsewhere are told of a night: the baseline, and what changed since."""
    told = night.changes[:CHANGES_TOLD_MAX]
    return {
        "id": night.runs[-1].run if night.runs else night.night,
        "night": night.night,
        "line": line.line,
        "build": night.build,
        "dirty": night.dirty,
        "baseline": night.baseline or None,
        "sentence": sentence(line, night),
        "changes": [
            {
                "kind": one.kind, "case": one.case, "owner": one.owner, "text": one.text,
                "since": one.since, "repeat": one.repeat, "known": one.known, "gated": one.gated,
            }
            for one in told
        ],
        "more": len(night.changes) - len(told),
        "lab": {"sick": dict(sorted(night.sick.items()))},
        "margin": {
            kind: {"p50_us": one.p50_us, "p99_us": one.p99_us, "late": one.late}
            for kind, one in sorted(night.margins.items())
        },
    }  # fmt: skip


def _count(kind: str, number: int) -> str:
    return f"{number} {KINDS[kind][number != 1]}"


def _listed(words: Sequence[str]) -> str:
    return ", ".join(words[:-1]) + " and " + words[-1] if len(words) > 1 else "".join(words)
