"""Which receptions can nobody judge from what the captures show, and why?"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bench.score.facts import evicted
from bench.score.read import of_kind

DUE = "due"  # an answer is owed: RX1, RX2, or TooLate when both are gone
OPEN = "open"  # the frame may carry a request that only the keys show
ANSWERED = ("RX1", "RX2", "TooLate")


def with_unknowable(rows: DataFrame, lines: DataFrame, *, order: tuple[str, ...]) -> DataFrame:
    """Why the right words of a row cannot be told from receptions; null when they can.

    A failure that the network server reports is believed only where the capture shows one: an
    `upstream.failed`, or a fault at the store or the upstream.
    """
    failing = (F.col("kind") == "upstream.failed") | F.col("seam").isin(
        "upstream", "store", "broker", "redis"
    )
    failed_cases = (
        of_kind(lines, "upstream.failed", "fault.begin")
        .where(failing & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(F.lit(True).alias("has_failure"))
        .select("run", "case", "has_failure")
    )
    requested = (
        of_kind(lines, "lns.request")
        .where(F.col("stage") == "queued")
        .groupBy("run", "case", "dev_eui")
        .agg(F.lit(True).alias("has_request"))
        .select("run", "case", "dev_eui", "has_request")
    )
    so_far = (
        Window.partitionBy("dev_eui_no", "session", "run", "case")
        .orderBy(*order)
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    failed = F.col("has_failure") & (F.col("outcome.reason") == "UpstreamUnavailable")
    touched = F.max(F.when(failed, F.col("f_cnt"))).over(so_far)
    data_key = F.concat_ws(":", "dev_eui", "mic", "f_cnt_wire")
    # An answer that nobody asked for carries what the application wants sent.
    went_down = (
        F.col("has_request")
        & F.col("outcome.answer").isin(*ANSWERED)
        & ~F.col("oracle_answer").isin(DUE, OPEN)
    )
    unkept = F.col("unkept") & (F.col("oracle_answer") == DUE)
    is_join = F.col("is_join")
    level1_key = F.when(is_join, F.col("frame_id")).when(~is_join, data_key)
    return (
        rows.join(F.broadcast(failed_cases), on=["run", "case"], how="left")
        .join(F.broadcast(requested), on=["run", "case", "dev_eui"], how="left")
        .withColumn("level1_key", level1_key)
        .join(
            F.broadcast(evicted(lines)).withColumnRenamed("key", "level1_key"),
            on=["run", "case", "level1_key"],
            how="left",
        )
        .withColumn("touched", touched)
        .withColumn(
            "unknowable",
            F.when(failed, F.lit("upstream or store failed"))
            .when(F.col("touched") >= F.col("f_cnt"), F.lit("upstream or store had failed"))
            .when(F.col("nonce_doubtful"), F.lit("upstream or store had failed"))
            .when(F.col("doubtful"), F.lit("the store was away"))
            .when(unkept, F.lit("the store failed before the answer"))
            .when(F.col("evicted_us") <= F.col("t_us"), F.lit("level 1 was full"))
            .when(went_down, F.lit("the application had something to send")),
        )
        .select("*")
    )
