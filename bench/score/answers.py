"""Was the device answered, and did it hear what it had to hear?"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.expectations import without_signal
from bench.score.read import ARRIVAL, of_kind


def answers(outcomes: DataFrame) -> DataFrame:
    """How many receptions of each strategy and kind ended in each answer."""
    return (
        outcomes.groupBy("night", "run", "strategy", "confirmed", "answer")
        .count()
        .select("night", "run", "strategy", "confirmed", "answer", "count")
    )


def unsaid(expected_lines: DataFrame, said_lines: DataFrame, dnmsgs: DataFrame) -> DataFrame:
    """One row per line that a device should have said and did not, `answered` or not.

    Lines are due in order: each is looked for after the one before it, and after one that is
    missing nothing is found any more.
    """
    answered = (
        dnmsgs.groupBy("run", "case", "dev_eui")
        .agg(F.lit(True).alias("answered"))
        .select("run", "case", "dev_eui", "answered")
    )
    key = ["run", "case", "dev_eui"]
    nothing = F.array().cast("array<string>")
    return (
        expected_lines.join(said_lines, on=key, how="left")
        .join(answered, on=key, how="left")
        .withColumn("said", F.coalesce("said", nothing))
        .withColumn("missing", _missing(F.col("due"), F.col("said")))
        .withColumn("answered", F.coalesce("answered", F.lit(False)))
        .select("night", *key, "seq", "answered", F.posexplode("missing").alias("nth", "line"))
    )


def wrong_windows(expected_windows: DataFrame, lines: DataFrame) -> DataFrame:
    """One row per frame whose answers went on the air in other windows than due."""
    key = ["run", "case", "frame_id"]
    on_air = F.sort_array(F.collect_list(F.struct(*ARRIVAL, "window"))).getField("window")
    observed = (
        of_kind(lines, "lns.downlink")
        .where(F.col("stage") == "transmitted")
        .groupBy(*key)
        .agg(on_air.alias("observed"))
        .select(*key, "observed")
    )
    nothing = F.array().cast("array<string>")
    return (
        expected_windows.join(observed, on=key, how="left")
        .withColumn("observed", F.coalesce("observed", nothing))
        .where(F.col("observed") != F.col("due"))
        .select("night", *key, "due", "observed", "seq")
    )


def wrong_answers(expected_answers: DataFrame, matched: DataFrame, dnmsgs: DataFrame) -> DataFrame:
    """One row per field of an answer that is not as due; one per answer that was never sent."""
    uplinks = (
        matched.where("heard")
        .groupBy("run", "case", "station", F.col("xtime").alias("tap_xtime"))
        .agg(F.max_by("frame_id", "t_us").alias("frame_id"))
        .select("run", "case", "station", "tap_xtime", "frame_id")
    )
    of_frame = Window.partitionBy("run", "case", "frame_id").orderBy("t_us", "station", "seq")
    said = (
        dnmsgs.join(uplinks, on=["run", "case", "station", "tap_xtime"], how="inner")
        .withColumn("n", F.row_number().over(of_frame) - 1)
        .select("run", "case", "frame_id", "n", "says", F.lit(True).alias("sent"))
    )
    is_first = (F.col("pos") == 0) & F.col("sent").isNull()
    observed = F.col("says")[F.col("field")]
    return (
        expected_answers.join(said, on=["run", "case", "frame_id", "n"], how="left")
        .withColumn("observed", observed)
        .where(is_first | (F.col("sent") & ~F.col("observed").eqNullSafe(F.col("due"))))
        .select(
            "night", "run", "case", "frame_id", "n", "pos", "field", "due", "observed",
            F.coalesce("sent", F.lit(False)).alias("sent"), "seq",
        )
    )  # fmt: skip


def wrong_bodies(expected_bodies: DataFrame, published: DataFrame) -> DataFrame:
    """One row per field of a message that is not as due."""
    observed = F.col("said")[F.col("field")]
    return (
        expected_bodies.join(
            published.drop("t_us", "marked"),
            on=["run", "case", "dev_eui", "f_cnt", "station"],
            how="inner",
        )
        .withColumn("observed", observed)
        .where(~F.col("observed").eqNullSafe(F.col("due")))
        .select("night", "run", "case", "station", "message_id", "field", "due", "observed", "seq")
    )


def wrong_evictions(expected_evictions: DataFrame, lines: DataFrame) -> DataFrame:
    """One row per case in which level 1 forgot frames too early not as often as due."""
    told = (
        of_kind(lines, "lns.evicted")
        .groupBy("run", "case")
        .agg(F.count("*").alias("observed"))
        .select("run", "case", "observed")
    )
    return (
        expected_evictions.join(told, on=["run", "case"], how="left")
        .withColumn("observed", F.coalesce("observed", F.lit(0)))
        .where(F.col("observed") != F.col("due"))
        .select("night", "run", "case", "due", "observed", "seq")
    )


def wrong_statuses(expected_statuses: DataFrame, lines: DataFrame) -> DataFrame:
    """One row per device whose status the application was told not as often as due."""
    key = ["run", "case", "dev_eui"]
    told = (
        of_kind(lines, "upstream.status")
        .withColumn("dev_eui", F.get_json_object("body", "$.devEui"))
        .groupBy(*key)
        .agg(F.countDistinct(F.get_json_object("body", "$.messageId")).alias("observed"))
        .select(*key, "observed")
    )
    return (
        expected_statuses.join(told, on=key, how="left")
        .withColumn("observed", F.coalesce("observed", F.lit(0)))
        .where(F.col("observed") != F.col("due"))
        .select("night", *key, "due", "observed", "seq")
    )


def _missing(due: Column, said: Column) -> Column:
    """Those of `due` that are not found in `said` in this order."""
    start = F.struct(
        F.lit(0).cast("long").alias("passed"), F.array().cast("array<string>").alias("missing")
    )

    def look(state: Column, line: Column) -> Column:
        rest = F.slice(said, state.passed.cast("int") + 1, F.size(said))
        place = F.array_position(rest, without_signal(line))
        missed = F.struct(
            F.size(said).cast("long").alias("passed"),
            F.concat(state.missing, F.array(line)).alias("missing"),
        )
        found = F.struct((state.passed + place).alias("passed"), state.missing.alias("missing"))
        return F.when(place == 0, missed).when(place != 0, found)

    return F.aggregate(due, start, look, lambda state: state.missing)
