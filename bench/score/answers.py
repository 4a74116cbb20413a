"""Was the device answered, and did it hear what it had to hear?"""

from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def answers(outcomes: DataFrame) -> DataFrame:
    """How many receptions of each strategy and kind ended in each answer."""
    return (
        outcomes.groupBy("night", "run", "strategy", "confirmed", "answer")
        .count()
        .select("night", "run", "strategy", "confirmed", "answer", "count")
    )


def unsaid(expected_lines: DataFrame, said_lines: DataFrame, downlinks: DataFrame) -> DataFrame:
    """One row per line that a device should have said and did not, `answered` or not.

    Lines are due in order: each is looked for after the one before it, and after one that is missing
    nothing is found any more.
    """
    answered = (
        downlinks.groupBy("run", "case", "dev_eui")
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


def _missing(due: F.Column, said: F.Column) -> F.Column:
    """Those of `due` that are not found in `said` in this order."""
    start = F.struct(
        F.lit(0).cast("long").alias("passed"), F.array().cast("array<string>").alias("missing")
    )

    def look(state: F.Column, line: F.Column) -> F.Column:
        rest = F.slice(said, state.passed.cast("int") + 1, F.size(said))
        place = F.array_position(rest, line)
        missed = F.struct(
            F.size(said).cast("long").alias("passed"),
            F.concat(state.missing, F.array(line)).alias("missing"),
        )
        found = F.struct((state.passed + place).alias("passed"), state.missing.alias("missing"))
        return F.when(place == 0, missed).when(place != 0, found)

    return F.aggregate(due, start, look, lambda state: state.missing)
