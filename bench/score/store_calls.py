"""How often was level 2 asked, and by which receptions?

ADR 007: `Duplicate` and `SoftDuplicate` never ask. Saving those calls was a goal of the design.
"""

from pyspark.sql import DataFrame, Window
from pyspark.sql import functions as F

from bench.score.level2 import NOT_ASKED
from bench.score.outcomes import ABSENT
from bench.score.read import ARRIVAL, of_kind


def store_calls(lines: DataFrame, outcomes: DataFrame) -> DataFrame:
    """The data receptions of the cases in which level 2 is asked, by run, strategy and status.

    `uplinks` counts frames, each at its first reception, `asked` the receptions that asked. That
    the servers recorded as many claims is a law of `bench.score.between_servers`.
    """
    asking = of_kind(lines, "lns.claim").where(F.col("case").isNotNull())
    of_frame = Window.partitionBy("frame_id", "run", "case").orderBy(*ARRIVAL)
    return (
        outcomes.where(F.col("confirmed").isNotNull() & F.col("dev_eui").isNotNull())
        .join(
            F.broadcast(asking.select("run", "case").dropDuplicates()),
            on=["run", "case"],
            how="left_semi",
        )
        .withColumn("copy", F.row_number().over(of_frame))
        .withColumn("status", F.coalesce("status", F.lit(ABSENT)))
        .groupBy("run", "strategy", "status")
        .agg(
            F.count(F.when(F.col("copy") == 1, 1)).alias("uplinks"),
            F.count("*").alias("receptions"),
            F.count(F.when(F.col("level2") != NOT_ASKED, 1)).alias("asked"),
        )
        .select("run", "strategy", "status", "uplinks", "receptions", "asked")
    )
