"""In which cases has the bench itself seen that a stimulus did not come about?

Such a case proves nothing, whatever else it shows: nothing of it fails.
"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.finding import COLUMNS, FAIL, INCONCLUSIVE, finding_rows
from bench.score.read import of_kind

PHASE = -2
"""Such a finding comes before all others of its case."""


def missed_stimuli(lines: DataFrame) -> DataFrame:
    """One finding per stimulus that the bench itself missed."""
    return finding_rows(
        of_kind(lines, "stimulus.missed"),
        owner=F.coalesce("owner", F.lit("air")),
        rule="stimulus",
        text=F.col("reason"),
        result=INCONCLUSIVE,
        phase=PHASE,
        place=F.col("t_us"),
        t_us=F.col("t_us"),
    )


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
        .unionAll(missed)
    )


def _cases(missed: DataFrame) -> DataFrame:
    return missed.groupBy("run", "case").agg(F.count("*").alias("times")).select("run", "case")
