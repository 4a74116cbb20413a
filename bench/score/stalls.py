"""Was the host itself too slow while a case ran?

A host whose event loop stood still for a while makes devices, stations and network servers late.
What went wrong in a case that was open when it woke is nobody's failure: a slow machine is never
reported as a failing network server.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.finding import COLUMNS, FAIL, INCONCLUSIVE, finding_rows
from bench.score.read import of_kind, windows

STALL_US_MAX = 50_000
BENCH = "bench"


def stalled(lines: DataFrame) -> DataFrame:
    """One row per case in which the host stalled for too long: the longest stall, in µs."""
    woke = of_kind(lines, "host.stalled").where(F.col("late_us") > STALL_US_MAX)
    within = (F.col("woke_us") >= F.col("begin_us")) & (
        F.col("end_us").isNull() | (F.col("woke_us") <= F.col("end_us"))
    )
    return (
        windows(lines)
        .join(F.broadcast(_named(woke)), on="run", how="inner")
        .where(within)
        .groupBy("run", "case")
        .agg(F.max("late_us").alias("stall_us"), F.max_by("woke_us", "late_us").alias("woke_us"))
        .select("run", "case", "stall_us", "woke_us")
    )


def _named(woke: DataFrame) -> DataFrame:
    return woke.select("run", F.col("t_us").alias("woke_us"), "late_us")


def excused(findings: DataFrame, stalled: DataFrame) -> DataFrame:
    """The findings; those of a stalled case are the bench's, and fail nothing.

    Where something would have failed, the stall itself stands before it as a finding.
    """
    is_stalled = F.col("stall_us").isNotNull()
    owner = F.when(is_stalled, F.lit(BENCH)).otherwise(F.col("owner"))
    failed = F.col("result") == FAIL
    result = F.coalesce(F.when(is_stalled & failed, F.lit(INCONCLUSIVE)), F.col("result"))
    joined = findings.join(F.broadcast(stalled), on=["run", "case"], how="left")
    return (
        joined.withColumns({"owner": owner, "result": result})
        .select(*COLUMNS)
        .unionAll(_stalls(joined.where(is_stalled & failed)))
    )


def _stalls(failures: DataFrame) -> DataFrame:
    """One row per stalled case in which something would have failed."""
    said = F.format_string("host stalled %d ms", F.expr("(stall_us + 500) div 1000"))
    stalled = failures.groupBy("night", "run", "case").agg(
        F.max("stall_us").alias("stall_us"), F.max("woke_us").alias("t_us")
    )
    return finding_rows(
        stalled,
        owner=BENCH,
        rule="host stall",
        text=said,
        result=INCONCLUSIVE,
        phase=-1,
        place=F.col("t_us"),
        t_us=F.col("t_us"),
    )
