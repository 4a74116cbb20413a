"""What is the verdict of each case, and for which reasons?"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bench.score.finding import FAIL, INCONCLUSIVE
from bench.score.missed_stimuli import PHASE
from bench.score.read import of_kind

_REASONS_MAX = 20
_PROMISES = ("outcome", "device", "upstream", "answer", "evicted", "on_air", "effect", "ignored")


def verdicts(lines: DataFrame, matched: DataFrame, findings: DataFrame) -> DataFrame:
    """One row per case. FAIL beats ERROR beats INCONCLUSIVE beats PASS.

    The scenario's own ERROR (the bench broke) stays, and a case that expects nothing proves
    nothing: it is an ERROR of the bench.
    """
    key = ["run", "case"]
    begins = of_kind(lines, "case.begin").select(
        "night", *key, "scenario", "file", "group", "title", "strategy", "confirmed",
        F.col("t_us").alias("begin_us"),
    )  # fmt: skip
    promises = of_kind(lines, "case.expect").where(F.col("expect").isin(*_PROMISES))
    expects = _count(promises, "expectations")
    nothing_due = F.when(F.col("expectations").isNull(), F.lit("the scenario expects nothing"))
    heard = _count(matched.where("heard"), "receptions")
    breaker = F.coalesce("breaker", F.lit("bench"))
    return (
        begins.join(_ends(lines), on=key, how="left")
        .join(expects, on=key, how="left")
        .join(heard, on=key, how="left")
        .join(_reasons(findings, FAIL, "failures"), on=key, how="left")
        .join(_reasons(findings, INCONCLUSIVE, "doubts"), on=key, how="left")
        .withColumn("error", F.when(~_is_missed(), F.coalesce("broken", nothing_due)))
        .withColumn("verdict", _verdict())
        .select(
            "night", *key, "scenario", "file", "group", "title", "strategy", "confirmed", "verdict",
            _of_verdict("text", F.array(F.col("error"))).alias("reasons"),
            F.get(_of_verdict("owner", F.array(breaker)), 0).alias("owner"),
            F.coalesce("attempt", F.lit(1)).alias("attempt"),
            # A case that proved nothing and was played again does not count.
            (F.coalesce("repeated", F.lit(False)) & F.col("verdict").isin(INCONCLUSIVE, "ERROR"))
            .alias("superseded"),
            "begin_us",
            "end_us",
            F.coalesce("receptions", F.lit(0)).alias("receptions"),
        )
    )  # fmt: skip


def _is_missed() -> Column:
    """Whether the bench itself has missed a stimulus of the case."""
    return F.coalesce(F.exists("doubts", lambda doubt: doubt.phase == PHASE), F.lit(False))


def _ends(lines: DataFrame) -> DataFrame:
    """How each case ended by its own account."""
    said = F.concat_ws("; ", "reasons")
    broke = F.col("verdict") == "ERROR"
    why = F.when(broke & (said != ""), said).when(broke, F.lit("the bench failed"))
    return (
        of_kind(lines, "case.end")
        .withColumn("why", why)
        .groupBy("run", "case")
        .agg(
            F.max("t_us").alias("end_us"),
            F.max("attempt").alias("attempt"),
            F.max("repeated").alias("repeated"),
            F.max("why").alias("broken"),
            F.max(F.when(broke, F.col("owner"))).alias("breaker"),
        )
        .select("run", "case", "end_us", "attempt", "repeated", "broken", "breaker")
    )


def _count(rows: DataFrame, name: str) -> DataFrame:
    return rows.groupBy("run", "case").agg(F.count("*").alias(name)).select("run", "case", name)


def _reasons(findings: DataFrame, result: str, name: str) -> DataFrame:
    """The findings of one result as an ordered array of structs with `text` and `owner`."""
    ordered = F.sort_array(F.collect_list(F.struct("phase", "place", "n", "text", "owner")))
    return (
        findings.where((F.col("result") == result) & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(F.slice(ordered, 1, _REASONS_MAX).alias(name))
        .select("run", "case", name)
    )


def _verdict() -> Column:
    return (
        F.when(F.col("failures").isNotNull(), F.lit(FAIL))
        .when(F.col("error").isNotNull(), F.lit("ERROR"))
        .when(F.col("doubts").isNotNull(), F.lit(INCONCLUSIVE))
        .when(F.col("error").isNull(), F.lit("PASS"))
    )


def _of_verdict(field: str, of_error: Column) -> Column:
    """A field of the findings that made the verdict, in their order; empty for a PASS."""
    return (
        F.when(F.col("verdict") == FAIL, F.col("failures").getField(field))
        .when(F.col("verdict") == "ERROR", of_error)
        .when(F.col("verdict") == INCONCLUSIVE, F.col("doubts").getField(field))
        .when(F.col("verdict") == "PASS", F.array().cast("array<string>"))
    )
