"""In which cases has the bench itself seen that a stimulus did not come about?

Such a case proves nothing, whatever else it shows: nothing of it fails.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.finding import COLUMNS, FAIL, INCONCLUSIVE, nothing

PHASE = -2
"""Such a finding comes before all others of its case."""


def missed_stimuli(lines: DataFrame) -> DataFrame:
    """One finding per stimulus that the bench itself missed."""
    return lines.where(F.col("kind") == "stimulus.missed").select(
        "night", "run", "case",
        F.coalesce("owner", F.lit("air")).alias("owner"),
        F.lit("stimulus").alias("rule"),
        *(nothing("string").alias(name) for name in ("frame_id", "station")),
        nothing("int").alias("n"),
        *(nothing("string").alias(name) for name in ("expected", "observed")),
        "t_us",
        F.col("reason").alias("text"),
        F.lit(INCONCLUSIVE).alias("result"),
        F.lit(PHASE).alias("phase"),
        F.col("t_us").alias("place"),
    )  # fmt: skip


def of_other_cases(rows: DataFrame, missed: DataFrame) -> DataFrame:
    """The rows of the cases in which no stimulus was missed."""
    return rows.join(F.broadcast(_cases(missed)), on=["run", "case"], how="left_anti")


def unproven(findings: DataFrame, missed: DataFrame) -> DataFrame:
    """The findings and the missed stimuli; where one was missed, nothing fails."""
    flagged = _cases(missed).withColumn("unproven", F.lit(True))
    failed = F.col("unproven").isNotNull() & (F.col("result") == FAIL)
    result = F.coalesce(F.when(failed, F.lit(INCONCLUSIVE)), F.col("result"))
    return (
        findings.join(F.broadcast(flagged), on=["run", "case"], how="left")
        .withColumn("result", result)
        .select(*COLUMNS)
        .unionByName(missed.select(*COLUMNS))
        .select(*COLUMNS)
    )


def _cases(missed: DataFrame) -> DataFrame:
    return missed.groupBy("run", "case").agg(F.count("*").alias("times")).select("run", "case")
