"""What does the lake keep of the newest night of a line? Plain rows by table and column."""

from collections.abc import Sequence
from typing import Any

import msgspec

from bench.night.morning import Line, Night
from bench.night.record import CONCLUSIVE, FAIL
from bench.night.series import Recent, Series, recent
from bench.night.statistics import wilson

Row = dict[str, Any]


def newest_night(line: Line) -> dict[str, list[Row]]:
    """The rows of trends, changes and comparisons; some say more than their table has columns."""
    night = line.nights[-1]
    tables = {
        "trends": [_trend(case, series, line) for case, series in line.series.items()],
        "changes": [
            msgspec.to_builtins(change) | {"in_run": change.run} for change in night.changes
        ],
        "comparisons": _comparisons(line),
    }
    key = {"bench": line.bench, "rig": line.rig, "line": line.line, "of_night": night.night}
    return {name: [key | row for row in rows] for name, rows in tables.items()}


def main_run(night: Night) -> str:
    """The run of a night under whose name its comparison lies."""
    return max(run.run for run in night.runs if not run.explores)


def _trend(case: str, series: Series, line: Line) -> Row:
    # The strip never reaches before the first night.
    shown = line.nights[-len(series.strip) :]
    nights, builds = [night.night for night in shown], [night.build for night in shown]
    found = recent(series.strip, builds, real_time=line.real_time)
    lo, hi = wilson(found.fail30, found.n30)
    return {
        **msgspec.to_builtins(series), "case": case, "confirmed": series.confirmed,
        "n30": found.n30, "fail30": found.fail30, "flips30": found.flips30, "lo": lo, "hi": hi,
        "nights": nights, "builds": builds, "segments": _segments(found, nights),
    }  # fmt: skip


def _segments(found: Recent, nights: Sequence[str]) -> list[Row]:
    def label(n: int) -> str:
        return nights[found.places[min(n, len(found.places) - 1)]]

    return [
        {
            "since": label(one.begin), "until": label(one.end - 1), "n": one.n,
            "fails": one.fails, "lo": one.interval[0], "hi": one.interval[1],
            "earliest": label(one.earliest), "latest": label(one.latest),
        }
        for one in found.segments
    ]  # fmt: skip


def _comparisons(line: Line) -> list[Row]:
    """One row per case: what it was in the baseline, and what it is tonight."""
    night = line.nights[-1]
    base = next((one for one in line.nights if one.night == night.baseline), None)
    if base is None or not base.proves:
        return []
    ago = len(line.nights) - 1 - line.nights.index(base)
    of_both = {
        "comparison": f"{base.night}..{night.night}",
        "a_run": main_run(base), "b_run": main_run(night),
        "seed": next((run.seed for run in night.runs if not run.explores), None),
    }  # fmt: skip
    rows = []
    for case, series in line.series.items():
        (a, was), (b, now) = (_shown(series, line, back) for back in (ago, 0))
        if a or b:
            relation = _relation(a, b, same=was == now)
            rows.append({**of_both, "case": case, "a": a, "b": b, "relation": relation,
                         "signature_a": was, "signature_b": now})  # fmt: skip
    return rows


def _shown(series: Series, line: Line, ago: int) -> tuple[str | None, str | None]:
    """PASS or FAIL so many nights ago, None for neither; and the signature of a failure."""
    place = len(series.strip) - 1 - ago
    glyph = series.strip[place] if place >= 0 else ""
    if glyph not in CONCLUSIVE:
        return None, None
    if glyph != FAIL:
        return "PASS", None
    return "FAIL", series.signatures.get(line.nights[-1 - ago].night)


def _relation(a: str | None, b: str | None, *, same: bool) -> str:
    if a is None or b is None:
        return "only b" if a is None else "only a"
    if a != b:
        return "worse" if b == "FAIL" else "better"
    return "same" if same else "fails otherwise"
