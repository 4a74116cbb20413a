"""What does a run leave for the comparison of nights, and what changed between them?

`stimuli`, `margin_nights` and `lab_nights` are small tables made of the facts of a run. `trends`,
`changes` and `comparisons` are what `bench.night` remembers of the newest night of a line.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.night.memory import remembered
from bench.night.morning import SICK_SHARE, Line, Night
from bench.night.record import CONCLUSIVE, FAIL, manifest_of
from bench.night.series import Recent, Series, recent
from bench.night.statistics import wilson
from bench.score.cut import rows_of
from bench.score.expectations import Grade
from bench.score.lake import Lake
from bench.score.tables import TABLES

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_Z = 1.959963984540054
_RATE = "sum(missed) / sum(planned)"
_WILSON_LOW = f"""if(sum(missed) = 0, 0.0, ({_RATE} + {_Z * _Z / 2} / sum(planned)
  - {_Z} * sqrt({_RATE} * (1 - {_RATE}) / sum(planned)
    + {_Z * _Z / 4} / (sum(planned) * sum(planned)))) / (1 + {_Z * _Z} / sum(planned)))"""

STIMULI = f"""
-- One row per case, device and station: how many receptions were planned and how many missed.
-- One is missed where the station that was to hear the frame did not deliver it.
SELECT run, case, attempt, device, station, planned, planned - missed AS heard, missed,
  reason, rssi_p50, snr_p50
FROM (
  SELECT run, case, coalesce(dev_eui, 'unknown') AS device, due_station AS station,
    cast(count(*) AS INT) AS planned,
    cast(count_if(grade IN ('{Grade.NOT_DELIVERED}', '{Grade.OTHER_STATION}')) AS INT) AS missed
  FROM scores LEFT JOIN senders USING (run, case, frame_id)
  WHERE due_station IS NOT NULL AND grade != '{Grade.NOT_EXPECTED}'
  GROUP BY ALL)
LEFT JOIN (
  SELECT run, case, station, median(rssi_dbm) AS rssi_p50, median(snr_db) AS snr_p50
  FROM matched WHERE heard GROUP BY ALL) USING (run, case, station)
LEFT JOIN (
  SELECT run, case, attempt, if(verdict = 'INCONCLUSIVE', get(reasons, 0), NULL) AS reason
  FROM verdicts) USING (run, case)"""

SENDERS = """
-- Who sent each frame, as the air tells, or the receptions of it.
SELECT run, case, frame_id, min(dev_eui) AS dev_eui FROM (
  SELECT run, case, frame_id, dev_eui FROM radio_transmit WHERE direction = 'up'
  UNION ALL SELECT run, case, frame_id, dev_eui FROM matched WHERE heard)
WHERE dev_eui IS NOT NULL AND frame_id IS NOT NULL GROUP BY ALL"""

_CLEAN = "FILTER (WHERE NOT disturbed)"
MARGIN_NIGHTS = f"""
-- One row per run, station, kind and place of measuring: the time that answers consumed.
SELECT run, station, kind, measured_from, cast(count_if(NOT disturbed) AS INT) AS n,
  cast(count_if(disturbed) AS INT) AS disturbed,
  {
    ", ".join(
        f"cast(round(percentile(consumed_us, {share}) {_CLEAN}) AS BIGINT) AS consumed_{name}_us"
        for name, share in _SHARES.items()
    )
},
  max(consumed_us) {_CLEAN} AS consumed_max_us,
  min(margin_rx1_us) {_CLEAN} AS margin_min_us,
  cast(round(percentile(margin_rx1_us, 0.01) {_CLEAN}) AS BIGINT) AS margin_p1_us,
  cast(count_if(NOT disturbed AND usable = 'none') AS INT) AS late,
  cast(count_if(NOT disturbed AND aimed = 'RX1' AND usable = 'RX2') AS INT) AS late_for_rx1
FROM margins GROUP BY run, station, kind, measured_from"""

LAB_NIGHTS = f"""
-- One row per run and part of the lab: what became of the stimuli that needed it.
SELECT run, part_kind, part, cast(sum(planned) AS INT) AS opportunities,
  cast(sum(missed) AS INT) AS missed, cast(count_if(superseded) AS INT) AS repeats,
  cast(count_if(verdict = 'INCONCLUSIVE') AS INT) AS inconclusive,
  cast(count_if(verdict = 'ERROR') AS INT) AS errors, median(rssi_p50) AS rssi_p50,
  median(snr_p50) AS snr_p50, {_WILSON_LOW} > {SICK_SHARE} AS sick
FROM (
  SELECT run, case, part_kind, part, sum(planned) AS planned, sum(missed) AS missed,
    median(rssi_p50) AS rssi_p50, median(snr_p50) AS snr_p50
  FROM (
    SELECT *, 'station' AS part_kind, station AS part FROM stimuli
    UNION ALL SELECT *, 'device', device FROM stimuli WHERE device != 'unknown')
  GROUP BY ALL)
LEFT JOIN (SELECT run, case, superseded, verdict FROM verdicts) USING (run, case)
GROUP BY run, part_kind, part"""

QUERIES = {
    "senders": SENDERS, "stimuli": STIMULI, "margin_nights": MARGIN_NIGHTS,
    "lab_nights": LAB_NIGHTS,
}  # fmt: skip


def remember(
    spark: SparkSession, store: Lake, folders: Sequence[Path], progress: Callable[[str], None]
) -> None:
    """Write trends, changes and comparisons of the nights that these runs belong to.

    Only the newest night of a line has any: what comes after an old one is not made anew.
    """
    of_nights = [folder for folder in folders if manifest_of(folder).get("night") is not None]
    for runs in sorted({folder.parent for folder in of_nights}):
        names = {folder.name for folder in folders if folder.parent == runs}
        for line in remembered(runs).lines:
            night = line.nights[-1]
            if night.proves and any(run.run in names for run in night.runs):
                progress(f"comparing {night.night} with the nights before")
                tables = {
                    "trends": trends_of(line),
                    "changes": changes_of(night),
                    "comparisons": comparisons_of(line),
                }
                key = {"bench": line.bench, "rig": line.rig, "line": line.line}
                key["of_night"] = night.night
                store.add(
                    {name: _table(spark, name, rows, key) for name, rows in tables.items()},
                    _main(night),
                )


def _table(
    spark: SparkSession, name: str, rows: list[dict[str, Any]], key: Mapping[str, str]
) -> DataFrame:
    series = F.xxhash64(*(F.lit(key[part]) for part in ("bench", "rig", "line")), "case")
    table = rows_of(spark, TABLES[name].types, [{**key, **row} for row in rows])
    return table.withColumn("series", series) if name == "trends" else table


def _main(night: Night) -> str:
    """The run of a night under whose name its comparison lies."""
    return max(run.run for run in night.runs if not run.explores)


def _nights(line: Line, strip: str) -> list[Night]:
    """Those that the glyphs of a strip stand for; it never reaches before the first one."""
    return line.nights[-len(strip) :]


def trends_of(line: Line) -> list[dict[str, Any]]:
    """How every case of a line stands in its newest night."""
    return [_trend(case, series, line) for case, series in line.series.items()]


def _trend(case: str, series: Series, line: Line) -> dict[str, Any]:
    nights = [night.night for night in _nights(line, series.strip)]
    builds = [night.build for night in _nights(line, series.strip)]
    found = recent(series.strip, builds, real_time=line.real_time)
    lo, hi = wilson(found.fail30, found.n30)
    said = (
        "since", "since_build", "last", "last_pass", "last_pass_build", "signature", "passes",
        "told", "quiet", "strip", "signatures", "confirmed",
    )  # fmt: skip
    return {
        "case": case, "state": series.state.value, "n30": found.n30, "fail30": found.fail30,
        "flips30": found.flips30, "lo": lo, "hi": hi, "nights": nights, "builds": builds,
        **{name: getattr(series, name) for name in said},
        "segments": _segments(found, nights),
    }  # fmt: skip


def _segments(found: Recent, nights: Sequence[str]) -> list[dict[str, Any]]:
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


def changes_of(night: Night) -> list[dict[str, Any]]:
    """What changed tonight."""
    names = ("kind", "case", "owner", "text", "since", "since_build", "repeat", "signature")
    return [
        {**{name: getattr(change, name) for name in names}, "in_run": change.run,
         "gated": change.gated}
        for change in night.changes
    ]  # fmt: skip


def comparisons_of(line: Line) -> list[dict[str, Any]]:
    """One row per case: what it was in the baseline, and what it is tonight."""
    night = line.nights[-1]
    base = next((one for one in line.nights if one.night == night.baseline), None)
    if base is None or not base.proves:
        return []
    ago = len(line.nights) - 1 - line.nights.index(base)
    of_both = {
        "comparison": f"{base.night}..{night.night}", "a_run": _main(base), "b_run": _main(night),
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
