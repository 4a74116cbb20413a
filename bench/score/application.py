"""What is wrong on the application's side, in the shape of findings?"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.score.closing import open_entries
from bench.score.effects import wrong_effects
from bench.score.finding import FAIL, nothing


def of_effects(due_effects: DataFrame) -> DataFrame:
    """Messages that had another number of effects, or were ignored as often, than due."""
    return wrong_effects(due_effects).select(
        "night", "run", "case",
        F.lit("application").alias("owner"),
        F.lit("effect").alias("rule"),
        nothing("string").alias("frame_id"),
        nothing("string").alias("station"),
        nothing("int").alias("n"),
        F.col("count").cast("string").alias("expected"),
        F.col("observed").cast("string").alias("observed"),
        nothing("bigint").alias("t_us"),
        "text",
        F.lit(FAIL).alias("result"),
        F.lit(4).alias("phase"),
        F.col("seq").alias("place"),
    )  # fmt: skip


def of_ledger(accounts: DataFrame) -> DataFrame:
    """Where the ledger between acceptance and effect stays open."""
    return open_entries(accounts).select(
        "night", "run", "case", "owner", "rule",
        nothing("string").alias("frame_id"),
        nothing("string").alias("station"),
        nothing("int").alias("n"),
        nothing("string").alias("expected"),
        nothing("string").alias("observed"),
        "t_us",
        F.concat("rule", F.lit(": "), "text").alias("text"),
        nothing("string").alias("result"),
        F.lit(8).alias("phase"),
        F.col("t_us").alias("place"),
    )  # fmt: skip
