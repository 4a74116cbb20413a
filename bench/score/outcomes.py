"""What did the network server say became of each reception?"""

from pyspark.sql import Column, DataFrame, Window
from pyspark.sql import functions as F

from bench.score.read import ARRIVAL, of_kind

WORDS = ("status", "upstream", "reason", "answer")
ABSENT = "-"


def outcomes(lines: DataFrame) -> DataFrame:
    """One row per outcome; `turn` counts those with the same station and xtime in a case."""
    by_xtime = Window.partitionBy("xtime", "station", "run", "case").orderBy(*ARRIVAL)
    return (
        of_kind(lines, "lns.outcome")
        .select(
            "night",
            "run",
            "case",
            "station",
            "xtime",
            "lns",
            "frame_id",
            "dev_eui",
            "dev_addr",
            "f_cnt",
            "confirmed",
            "strategy",
            *WORDS,
            "level2",
            *ARRIVAL,
        )
        .withColumn("turn", F.row_number().over(by_xtime))
    )


def matched(receptions: DataFrame, outcomes: DataFrame) -> DataFrame:
    """Receptions and outcomes side by side, `heard` and `told` say which of the two is there.

    They belong together by station, xtime and their turn among those. The outcome is the struct
    `outcome`, null where there is none.
    """
    key = ("xtime", "station", "turn", "run", "case")
    left = receptions.select(*(F.col(name).alias(f"left_{name}") for name in key), "*")
    right = outcomes.select(
        *(F.col(name).alias(f"right_{name}") for name in key),
        F.struct("*").alias("outcome"),
    )
    same = F.lit(True)
    for name in key:
        same = same & F.col(f"left_{name}").eqNullSafe(F.col(f"right_{name}"))
    own = [name for name in receptions.columns if name not in ("night", *key, *ARRIVAL)]
    shared = [
        F.coalesce(F.col(name), F.col(f"outcome.{name}")).alias(name)
        for name in ("night", *key, *ARRIVAL)
    ]
    return (
        left.join(right, on=same, how="full")
        .withColumn("heard", F.col("left_turn").isNotNull())
        .withColumn("told", F.col("right_turn").isNotNull())
        .select("heard", "told", *shared, *own, "outcome")
    )


def told(word: str) -> Column:
    """A word of the struct `outcome`, "-" where it is absent; null where there is no outcome."""
    return F.when(F.col("told"), F.coalesce(F.col(f"outcome.{word}"), F.lit(ABSENT)))


def sentence(status: Column, upstream: Column, reason: Column, answer: Column) -> Column:
    """The words as people write them: "status upstream(reason) answer"."""
    bracketed = F.when(reason != ABSENT, F.concat(F.lit("("), reason, F.lit(")")))
    return F.concat_ws(" ", status, F.concat(upstream, F.coalesce(bracketed, F.lit(""))), answer)
