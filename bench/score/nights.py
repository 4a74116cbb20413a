"""What does a run leave for the comparison of nights, and what changed between them?

`stimuli`, `margin_nights` and `lab_nights` are small tables made of the facts of a run. `trends`,
`changes` and `comparisons` set a night beside the nights before it: they read the newest rows of
`trends` and tonight's verdicts, and nothing else. bench.night finds the same from score.json.
"""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from pyspark.sql import Column, DataFrame, Row, SparkSession, Window
from pyspark.sql import functions as F

from bench.night.memory import remembered
from bench.night.morning import SICK_SHARE, Line, Night
from bench.night.record import (
    CONCLUSIVE,
    FAIL,
    GLYPHS,
    LEFT_OUT,
    NOT_RUN,
    PASSES,
    manifest_of,
    record_of,
)
from bench.night.series import (
    PASSES_BRIDGED,
    PASSES_CONFIRM,
    QUIETLY,
    RECENT,
    STRIP_MAX,
    Facts,
    Recent,
    State,
    recent,
    state_of,
)
from bench.night.statistics import wilson
from bench.score.expectations import Grade
from bench.score.lake import Lake
from bench.score.tables import TABLES

_SHARES = {"p50": 0.5, "p95": 0.95, "p99": 0.99}
_SIGNATURE_DIGITS = 12


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

CONSUMED = f"""
SELECT run, kind,
  {
    ", ".join(
        f"cast(round(percentile(consumed_us, {share})) AS BIGINT) AS {name}_us"
        for name, share in _SHARES.items()
    )
},
  max(consumed_us) AS max_us
FROM margins WHERE NOT disturbed GROUP BY run, kind"""

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


TRENDS = """
    case STRING, state STRING, confirmed BOOLEAN, since STRING, since_build STRING,
    last STRING, last_pass STRING, last_pass_build STRING, signature STRING, passes INT,
    told BOOLEAN, quiet INT, n30 INT, fail30 INT, lo DOUBLE, hi DOUBLE, flips30 INT,
    strip STRING, nights ARRAY<STRING>, builds ARRAY<STRING>, signatures MAP<STRING,STRING>,
    segments ARRAY<STRUCT<since: STRING, until: STRING, n: INT, fails: INT, lo: DOUBLE, hi: DOUBLE,
    earliest: STRING, latest: STRING>>
"""


def tonight(verdicts: DataFrame, findings: DataFrame, left_out: Sequence[str]) -> DataFrame:
    """One row per case: its glyph of this night, and of a failure its signature."""
    parts = (F.coalesce(name, F.lit("")) for name in ("owner", "rule", "expected", "observed"))
    signatures = (
        findings.where(F.col("case").isNotNull())
        .groupBy("case")
        .agg(F.array_sort(F.collect_set(F.concat_ws("\x1f", *parts))).alias("rows"))
        .select("case", F.concat_ws("\x1e", "rows").alias("broken"))
    )
    verdict, repeated = F.col("verdict"), F.coalesce("attempt", F.lit(1)) > 1
    glyph = F.when((verdict == "PASS") & repeated, GLYPHS["PASS on repeat"])
    for word in ("PASS", "FAIL", "INCONCLUSIVE"):
        glyph = glyph.when(verdict == word, GLYPHS[word])
    nothing_said = F.concat(F.coalesce("owner", F.lit("")), F.lit("\x1f" * 3))
    text = F.coalesce("broken", nothing_said)
    signature = F.substring(F.sha2(text, 256), 1, _SIGNATURE_DIGITS)
    suffix = F.format_string(r" \(attempt %d\)$", F.coalesce("attempt", F.lit(1)))
    played = (
        verdicts.where(~F.col("superseded"))
        .join(signatures, on="case", how="left")
        .withColumn("glyph", glyph.otherwise(GLYPHS["ERROR"]))
        .select(
            F.regexp_replace("case", suffix, F.lit("")).alias("case"),
            "glyph",
            F.when(F.col("glyph") == FAIL, signature).otherwise("").alias("signature_tonight"),
        )
    )
    spark = verdicts.sparkSession
    rows = [(case, LEFT_OUT, "") for case in left_out]
    return played.unionAll(
        spark.createDataFrame(rows, "case STRING, glyph STRING, signature_tonight STRING")
    )


def strips(before: DataFrame, tonight: DataFrame, gaps: int) -> DataFrame:
    """One row per case with its strip, tonight's glyph at its end, and how its streaks stand.

    `gaps`: nights in between that proved nothing. n30, fail30 and flips30 are of the last 30
    conclusive nights; `island` is the place at which the last streak begins, `chain` that of a
    failure that a few passes have interrupted.
    """
    glyph = F.coalesce("glyph", F.lit(NOT_RUN))
    whole = F.concat(F.coalesce("strip", F.lit("")), F.lit(NOT_RUN * gaps), glyph)
    joined = (
        before.join(tonight, on="case", how="full")
        .withColumn("strip", F.right(whole, F.lit(STRIP_MAX)))
        .withColumn("glyph", glyph)
        .withColumn("signature_tonight", F.coalesce("signature_tonight", F.lit("")))
    )
    return joined.join(_streaks(joined, gaps), on="case", how="left")


def _streaks(strips: DataFrame, gaps: int) -> DataFrame:
    ago = F.length("strip") - 1 - F.col("place")
    places = strips.select(
        "case", "signatures", "nights", "signature_tonight",
        F.posexplode(F.split("strip", "")).alias("place", "shown"), "strip",
    ).where(F.col("shown").isin(*sorted(CONCLUSIVE)))  # fmt: skip
    night = F.get("nights", F.size("nights") + gaps - ago)
    signature = F.when(ago == 0, F.col("signature_tonight")).otherwise(F.col("signatures")[night])
    of_case = Window.partitionBy("case").orderBy("place")
    rows = (
        places.withColumn("failed", F.col("shown") == FAIL)
        .withColumn("broken", F.when(F.col("failed"), signature))
        .withColumn("number", F.row_number().over(of_case))
        .withColumn("newest", F.row_number().over(of_case.orderBy(F.desc("place"))))
        .withColumn("was", F.lag("failed").over(of_case))
        .withColumn("flip", F.coalesce(F.col("was") != F.col("failed"), F.lit(False)))
        .withColumn("same", F.lag("broken").over(of_case).eqNullSafe(F.col("broken")))
        .withColumn("begins", F.col("was").isNull() | F.col("flip") | ~F.col("same"))
    )
    of_failures = Window.partitionBy("case", "failed").orderBy("place")
    passes = F.col("number") - F.lag("number").over(of_failures) - 1
    held = (passes <= PASSES_BRIDGED) & F.lag("broken").over(of_failures).eqNullSafe(
        F.col("broken")
    )
    chained = rows.withColumn("anew", F.col("failed") & ~F.coalesce(held, F.lit(False)))
    recent = F.col("newest") <= RECENT
    return chained.groupBy("case").agg(
        F.count(F.when(recent, 1)).cast("int").alias("n30"),
        F.count(F.when(recent & F.col("failed"), 1)).cast("int").alias("fail30"),
        F.count(F.when((F.col("newest") < RECENT) & F.col("flip"), 1)).cast("int").alias("flips30"),
        F.max(F.when(F.col("begins"), F.col("place"))).alias("island"),
        F.max(F.when(F.col("anew"), F.col("place"))).alias("chain"),
    )


def trend_rows(
    rows: Sequence[Row],
    nights: Sequence[str],
    builds: Sequence[str],
    *,
    baseline_ago: int | None,
    real_time: bool,
) -> list[dict[str, Any]]:
    """The rows of `trends` from those of `strips`: what only plain Python can say is added."""
    made = []
    for row in rows:
        trend = _trend(row.asDict(), nights, builds, real_time=real_time)
        if row["glyph"] == NOT_RUN and _was_there(row["strip"], baseline_ago):
            trend["state"] = State.LOST.value
        made.append(trend)
    return made


def _was_there(strip: str, baseline_ago: int | None) -> bool:
    if baseline_ago is None or baseline_ago >= len(strip):
        return False
    return strip[-1 - baseline_ago] not in (NOT_RUN, LEFT_OUT)


def _trend(
    row: dict[str, Any], nights: Sequence[str], builds: Sequence[str], *, real_time: bool
) -> dict[str, Any]:
    strip, glyph, signature = row["strip"], row["glyph"], row["signature_tonight"]
    own_nights, own_builds = nights[-len(strip) :], builds[-len(strip) :]
    last, quiet = row["last"] or "", row["quiet"] or 0
    quiet = quiet if glyph == NOT_RUN else 0 if glyph in CONCLUSIVE else quiet + 1
    before = State(row["state"] or State.UNPROVEN)
    found = recent(strip, own_builds, real_time=real_time)
    facts = Facts(
        glyph, signature, last, row["signature"] or "", row["passes"] or 0, bool(row["told"]),
        quiet, before, found.flips_brief, found.both, found.broke,
    )  # fmt: skip
    unseen = QUIETLY.get(before, before)
    state = unseen if glyph == NOT_RUN else state_of(facts, real_time=real_time)
    after = {**row, "state": state, "quiet": quiet}
    if glyph in CONCLUSIVE:
        after |= _after(after, facts, own_nights, own_builds, real_time=real_time)
    kept = set(own_nights)
    signatures = {n: s for n, s in (row["signatures"] or {}).items() if n in kept}
    if glyph == FAIL:
        signatures[own_nights[-1]] = signature
    n30, fail30 = row["n30"] or 0, row["fail30"] or 0
    lo, hi = wilson(fail30, n30)
    passes, told = after["passes"] or 0, bool(after["told"])
    last_signature = after["signature"] or ""
    return {
        **{name: after[name] or "" for name in
           ("case", "since", "since_build", "last", "last_pass", "last_pass_build")},
        "state": after["state"].value, "signature": last_signature, "passes": passes, "told": told,
        "confirmed": not last_signature or passes >= PASSES_CONFIRM,
        "quiet": quiet, "n30": n30, "fail30": fail30, "lo": lo, "hi": hi,
        "flips30": row["flips30"] or 0, "strip": strip, "nights": list(own_nights),
        "builds": list(own_builds), "signatures": signatures,
        "segments": _segments(found, own_nights),
    }  # fmt: skip


def _after(
    row: dict[str, Any], facts: Facts, nights: Sequence[str], builds: Sequence[str], *,
    real_time: bool,
) -> dict[str, Any]:  # fmt: skip
    """How a case stands after a conclusive night; streaks are those that Spark has found."""
    passed = facts.glyph in PASSES
    bridged = row["state"] is State.STILL_FAILING and facts.last != FAIL
    place = row["chain"] if bridged else row["island"]
    goes_on = place == 0 and facts.last != ""  # longer than the strip
    since = (row["since"], row["since_build"]) if goes_on else (nights[place], builds[place])
    told = {"since": since[0], "since_build": since[1], "last": "·" if passed else FAIL}
    if passed:
        passes = facts.passes + 1
        forgotten = passes > (PASSES_BRIDGED if real_time else 0)
        told |= {"last_pass": nights[-1], "last_pass_build": builds[-1]}
        return {**told, "passes": passes, "told": facts.told and not forgotten}
    is_told = facts.told or row["state"] is not State.FLAKY
    return {**told, "passes": 0, "signature": facts.signature, "told": is_told}


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


COMPARED = """
    comparison STRING, case STRING, seed BIGINT, a STRING, b STRING, relation STRING,
    a_run STRING, b_run STRING, signature_a STRING, signature_b STRING
"""
_CARRIED = (
    "case", "state", "since", "since_build", "last", "last_pass", "last_pass_build", "signature",
    "passes", "told", "quiet", "strip", "nights", "signatures",
)  # fmt: skip
"""What one night more needs of a case besides what tonight has shown."""


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
                _write(spark, store, runs, line)


def _write(spark: SparkSession, store: Lake, runs: Path, line: Line) -> None:
    night, main = line.nights[-1], _main(line.nights[-1])
    trends = trends_of(spark, store, runs, line).localCheckpoint()
    key = [
        F.lit(name).alias(kind)
        for kind, name in (
            ("bench", line.bench),
            ("rig", line.rig),
            ("line", line.line),
            ("of_night", night.night),
        )
    ]
    number = F.xxhash64(*(F.lit(name) for name in line.key), "case").alias("series")
    changes = [
        (change.kind, change.case, change.owner, change.text, change.since, change.since_build,
         change.run, change.repeat, change.signature, change.gated) for change in night.changes
    ]  # fmt: skip
    columns = [f"{name} {type_}" for name, type_, _ in TABLES["changes"].columns[len(key) :]]
    store.add(
        {
            "trends": trends.select(number, *key, "*"),
            "changes": spark.createDataFrame(changes, ", ".join(columns)).select(*key, "*"),
            "comparisons": comparisons(trends, line).select(*key, "*"),
        },
        main,
    )


def _main(night: Night) -> str:
    """The run of a night under whose name its comparison lies."""
    return max(run.run for run in night.runs if not run.explores)


def trends_of(spark: SparkSession, store: Lake, runs: Path, line: Line) -> DataFrame:
    """How every case of a line stands in its newest night.

    What is not in the lake counts for nothing: the strip then begins with the nights that are.
    """
    night = line.nights[-1]
    before, gaps = _before(spark, store, line)
    main = [run.run for run in night.runs if not run.explores]
    records = {run: record_of(runs / run) for run in main}
    left_out = {case for record in records.values() if record for case in record.left_out}
    now = tonight(store.read("verdicts", main), store.read("findings", main), sorted(left_out))
    found = strips(before, now, gaps).collect()
    base = next((n for n, one in enumerate(line.nights) if one.night == night.baseline), None)
    rows = trend_rows(
        found,
        [one.night for one in line.nights],
        [one.build for one in line.nights],
        baseline_ago=None if base is None else len(line.nights) - 1 - base,
        real_time=line.real_time,
    )
    return spark.createDataFrame(rows, TRENDS)


def _before(spark: SparkSession, store: Lake, line: Line) -> tuple[DataFrame, int]:
    """The newest trends before tonight, and how many nights that proved nothing came since."""
    for gaps, night in enumerate(reversed(line.nights[:-1])):
        if gaps >= STRIP_MAX:
            break
        if night.proves and store.has("trends", _main(night)):
            return store.read("trends", [_main(night)]).select(*_CARRIED), gaps
    return spark.createDataFrame([], TRENDS).select(*_CARRIED), 0


def comparisons(trends: DataFrame, line: Line) -> DataFrame:
    """One row per case: what it was in the baseline, and what it is tonight."""
    night = line.nights[-1]
    base = next((one for one in line.nights if one.night == night.baseline), None)
    if base is None or not base.proves:
        return trends.sparkSession.createDataFrame([], COMPARED)
    ago = len(line.nights) - 1 - line.nights.index(base)

    def glyph(back: int) -> Column:
        return F.substring("strip", F.length("strip") - back, 1)

    def result(back: int) -> Column:
        known = glyph(back).isin(*sorted(CONCLUSIVE)) & (F.length("strip") > back)
        return F.when(known & (glyph(back) == FAIL), "FAIL").when(known, "PASS")

    def signature(back: int) -> Column:
        label = F.get("nights", F.size("nights") - 1 - back)
        return F.when(result(back) == "FAIL", F.col("signatures")[label])

    seed = next((run.seed for run in night.runs if not run.explores), None)
    rows = trends.select(
        F.lit(f"{base.night}..{night.night}").alias("comparison"), "case",
        F.lit(seed).cast("bigint").alias("seed"),
        result(ago).alias("a"), result(0).alias("b"),
        F.lit(_main(base)).alias("a_run"), F.lit(_main(night)).alias("b_run"),
        signature(ago).alias("signature_a"), signature(0).alias("signature_b"),
    )  # fmt: skip
    a, b = F.col("a"), F.col("b")
    relation = (
        F.when(a.isNull() & b.isNull(), None)
        .when(a.isNull(), "only b").when(b.isNull(), "only a")
        .when((a == "PASS") & (b == "FAIL"), "worse").when((a == "FAIL") & (b == "PASS"), "better")
        .when(F.col("signature_a").eqNullSafe(F.col("signature_b")), "same")
        .otherwise("fails otherwise")
    )  # fmt: skip
    names = [field.split()[0] for field in COMPARED.split(",")]
    return rows.withColumn("relation", relation).where("relation IS NOT NULL").select(*names)
