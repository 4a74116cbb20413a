"""Does what was observed equal what was due, reception by reception?

The n-th expectation of a frame stands against its n-th reception. Where another station delivered
it, or none, the stimulus was not what the scenario set up and nothing follows for the network
server.
"""

from enum import StrEnum

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.outcomes import ABSENT, WORDS, sentence, told
from bench.score.settling import settled


class Grade(StrEnum):
    """How one expectation and one reception go together."""

    AGREES = "agrees"
    DIFFERS = "differs"
    NO_OUTCOME = "no outcome"
    NOT_DELIVERED = "not delivered"
    OTHER_STATION = "other station"
    NOT_EXPECTED = "not expected"


def scores(expectations: DataFrame, matched: DataFrame) -> DataFrame:
    """One row per reception that is due or that a frame with expectations had, with its `grade`."""
    key = ["run", "case", "frame_id", "copy"]
    frames = expectations.select("run", "case", "frame_id").dropDuplicates()
    due = expectations.select(
        "night",
        *key,
        F.col("station").alias("due_station"),
        _due_sentence().alias("due"),
        F.col("status").alias("due_status"),
        F.struct(*WORDS, "level2").alias("due_words"),
        "race",
        F.col("seq").alias("due_seq"),
    )
    seen = (
        matched.where("heard")
        .join(F.broadcast(frames), on=["run", "case", "frame_id"], how="left_semi")
        .select(
            F.col("night").alias("heard_night"),
            *key,
            F.col("station").alias("heard_station"),
            "told",
            sentence(*(told(word) for word in WORDS)).alias("observed"),
            told("status").alias("observed_status"),
            F.struct(*(told(word).alias(word) for word in (*WORDS, "level2"))).alias(
                "observed_words"
            ),
            "t_us",
        )
    )
    return (
        due.join(seen, on=key, how="full")
        .withColumns(
            {
                "night": F.coalesce("night", "heard_night"),
                # The word of level 2 counts only where one is due.
                "observed": F.concat_ws(" ", "observed", _if_due(F.col("observed_words.level2"))),
                "observed_words": F.col("observed_words").withField(
                    "level2", _if_due(F.col("observed_words.level2"))
                ),
            }
        )
        .transform(settled)
        .withColumn("grade", _grade())
        .select(
            "night",
            *key,
            "due_station",
            "heard_station",
            "due",
            "due_status",
            F.when(F.col("told"), F.col("observed")).alias("observed"),
            F.when(F.col("told"), F.col("observed_status")).alias("observed_status"),
            "grade",
            "t_us",
            "due_seq",
        )
    )


def confusion(scores: DataFrame) -> DataFrame:
    """How often each status stood where another was due; "missing" where nothing was observed."""
    return (
        scores.where(F.col("due").isNotNull())
        .withColumn("observed_status", F.coalesce("observed_status", F.lit("missing")))
        .groupBy("run", "due_status", "observed_status")
        .count()
        .select("run", "due_status", "observed_status", "count")
    )


def _due_sentence() -> Column:
    return F.concat_ws(" ", sentence(*(F.col(word) for word in WORDS)), F.col("level2"))


def _if_due(level2: Column) -> Column:
    return F.when(F.col("due_words.level2").isNotNull(), F.coalesce(level2, F.lit(ABSENT)))


def _grade() -> Column:
    agrees = F.col("due_words").eqNullSafe(F.col("observed_words"))
    return (
        F.when(F.col("due").isNull(), Grade.NOT_EXPECTED.value)
        .when(F.col("heard_station").isNull(), Grade.NOT_DELIVERED.value)
        .when(F.col("heard_station") != F.col("due_station"), Grade.OTHER_STATION.value)
        .when(~F.col("told"), Grade.NO_OUTCOME.value)
        .when(agrees, Grade.AGREES.value)
        .when(~agrees, Grade.DIFFERS.value)
    )
