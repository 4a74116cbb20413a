"""Did messages have their effect on the application as often as the scenarios say?

What is written here is what consumers said of their decisions and what the application had in the
end. A message belongs to the uplink that its id names, copies included.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.read import of_kind

_MESSAGE_ID = (
    r"^([0-9A-F]{16})-([0-9A-F]{8})(?:\.[0-9]+)?-([0-9]+)(?:\.[0-9A-F]{8})?"
    r"(?:-[0-9A-F]{16}-[0-9]+)?$"
)
_PARTS = (1, 2, 3)  # DevEUI, DevAddr, FCnt
EFFECT = "effect"


def uplink_key(dev_eui: str, dev_addr: str, f_cnt: str) -> Column:
    """An uplink as the ids of its messages name it; null where a part is."""
    return F.concat(dev_eui, F.lit("-"), dev_addr, F.lit("-"), F.col(f_cnt).cast("string"))


def uplink_of(message_id: Column) -> Column:
    """The uplink that a message id names; null where it names none."""
    parts = [F.regexp_extract(message_id, _MESSAGE_ID, part) for part in _PARTS]
    return F.when(message_id.rlike(_MESSAGE_ID), F.concat_ws("-", *parts))


def due_effects(lines: DataFrame) -> DataFrame:
    """One row per expectation of effects, or of duplicates ignored `by` a detector: `observed`.

    `which` is an uplink or a message id. No `consumer`: all consumers of the case together.
    """
    expects = F.col("expect").isin(EFFECT, "ignored")
    uplink = uplink_key("dev_eui", "dev_addr", "f_cnt")
    which = F.coalesce("message_id", uplink)
    due = of_kind(lines, "case.expect").where(expects).select(
        "night", "run", "case", "seq", "consumer", "by", "count", "dev_eui", "f_cnt", "message_id",
        which.alias("which"), F.coalesce("by", F.lit(EFFECT)).alias("fate"),
    )  # fmt: skip
    names = F.array(uplink_of(F.col("message_id")), F.col("message_id"))
    seen = (
        of_kind(lines, "application.effect", "inbox.ignored")
        .select(
            "run",
            "case",
            F.explode(F.array_distinct(F.array_compact(names))).alias("which"),
            F.coalesce("by", F.lit(EFFECT)).alias("fate"),
            F.col("consumer").alias("at"),
        )
        .groupBy("run", "case", "which", "fate", "at")
        .agg(F.count("*").alias("times"))
    )
    of_consumer = F.col("consumer").isNull() | (F.col("consumer") == F.col("at"))
    observed = F.coalesce(F.sum(F.when(of_consumer, F.col("times"))), F.lit(0))
    return (
        due.join(seen, on=["run", "case", "which", "fate"], how="left")
        .groupBy("night", *due.columns[1:])
        .agg(observed.alias("observed"))
        .select(*due.columns, "observed")
    )


def wrong_effects(due: DataFrame) -> DataFrame:
    """The expectations of `due_effects` that do not hold, as `text` tells it."""
    what = F.coalesce(F.concat("by", F.lit(" duplicates")), F.lit("effects"))
    which = F.coalesce(
        F.concat(F.lit("message "), "message_id"),
        F.format_string("%s FCnt %s", "dev_eui", "f_cnt"),
    )
    text = F.format_string(
        "%s of %s at %s: expected %s, observed %s",
        what, which, F.coalesce("consumer", F.lit("all consumers")), "count", "observed",
    )  # fmt: skip
    return due.where(F.col("count") != F.col("observed")).select(
        "night", "run", "case", "count", "observed", text.alias("text"), "seq"
    )
