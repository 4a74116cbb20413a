"""What lines do the captures hold, and to which case does each belong?"""

import re
from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.score.schema import CAPTURE, CAPTURE_NAMES, KINDS, TORN

SUFFIX = r"\.jsonl(\.gz)?$"

# The order of everything that happened in a run. Equal times are put in order as the plain-Python
# reading of a capture does it.
ARRIVAL = ("t_us", "source", "seq")
# What Hadoop's file system reads as a pattern in a path.
_PATTERN = re.compile(r"[\\{}\[\]*?]")
HEAD = ("night", "run", "stream", "case", "kind", *ARRIVAL)
_REST = tuple(name for name in CAPTURE_NAMES if name not in HEAD)


def lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Every line of these capture files, with the `run` it belongs to.

    `run` is the name of the folder, `night` its date ("2026-11-20"), `stream` the name of the file,
    which may have been compressed (`.gz`). What only some kinds say lies in `rest` (`of_kind`).
    A line that is not whole has nothing but `torn`, its text. The files are these and no others,
    whatever characters their names have.
    """
    path = F.split(F.col("_metadata.file_path"), "/")
    whole = F.col(TORN).isNull()
    for field in ("t_us", "source", "seq", "kind"):
        whole = whole & F.col(field).isNotNull()
    return (
        spark.read.schema(CAPTURE)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", TORN)
        .json([literal(file) for file in files])
        .select(
            _unquoted(F.element_at(path, -2)).alias("run"),
            F.regexp_replace(_unquoted(F.element_at(path, -1)), SUFFIX, "").alias("stream"),
            F.when(~whole, F.coalesce(TORN, F.lit(""))).alias(TORN),
            *(F.when(whole, F.col(name)).alias(name) for name in ("case", "kind", *ARRIVAL)),
            F.when(whole, F.struct(*_REST)).alias("rest"),
        )
        .select(night().alias("night"), "*")
    )


def literal(path: str) -> str:
    """A path as Spark takes it for this one file, and not for a pattern of names."""
    return _PATTERN.sub(r"\\\g<0>", path)


def of_kind(lines: DataFrame, *kinds: str) -> DataFrame:
    """The lines of these kinds as a narrow table: what every line has, and what these say."""
    said = {name for kind in kinds for name in KINDS[kind]}
    fields = (F.col("rest")[name].alias(name) for name in _REST if name in said)
    return lines.where(F.col("kind").isin(*kinds)).select(*HEAD, *fields)


def night_of(run: str) -> str:
    """The date at the head of a run's name; "undated" where there is none."""
    found = re.match(r"(\d{4})(\d{2})(\d{2})T", run)
    return "-".join(found.groups()) if found else "undated"


def night() -> Column:
    """The same of the column `run`."""
    found = F.regexp_extract("run", r"^(\d{4})(\d{2})(\d{2})T", 0)
    dashed = F.regexp_replace("run", r"^(\d{4})(\d{2})(\d{2})T.*$", "$1-$2-$3")
    return F.when(found != "", dashed).otherwise("undated")


def within_cases(lines: DataFrame) -> DataFrame:
    """The whole lines, each with its `case`, if it has one.

    A line belongs to the case it names. One that names none belongs to the case that was open
    then, if it was the only one: cases may run side by side.
    """
    whole = lines.where(F.col(TORN).isNull()).drop(TORN)
    nameless = _opened(whole).unionByName(
        whole.where(F.col("case").isNull()).withColumn("rank", F.lit(1)), allowMissingColumns=True
    )
    so_far = (
        Window.partitionBy("run")
        .orderBy("t_us", "rank")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    alone = (
        nameless.withColumn("open", F.sum("opens").over(so_far))
        .withColumn("number", F.sum(F.col("opens") * F.col("number")).over(so_far))
        .where(F.col("kind").isNotNull())
        .withColumn("number", F.when(F.col("open") == 1, F.col("number")))
        .drop("case")
        .join(F.broadcast(_numbered(whole)), on=["run", "number"], how="left")
    )
    named = whole.where(F.col("case").isNotNull())
    return named.unionByName(alone.select(*named.columns))


def windows(lines: DataFrame) -> DataFrame:
    """One row per case: the first and the last µs in which it was open.

    A case without an end, as in a run that was killed, is open until another one begins; the last
    one has no `end_us`.
    """
    kind = F.col("kind")
    in_order = Window.partitionBy("run").orderBy("begin_us")
    following = in_order.rangeBetween(1, Window.unboundedFollowing)
    end_us = F.coalesce("end_us", F.min("begin_us").over(following) - 1)
    return (
        lines.where(kind.isin("case.begin", "case.end") & F.col("case").isNotNull())
        .groupBy("run", "case")
        .agg(
            F.max(F.when(kind == "case.begin", F.col("t_us"))).alias("begin_us"),
            F.max(F.when(kind == "case.end", F.col("t_us"))).alias("end_us"),
        )
        .where(F.col("begin_us").isNotNull())
        .select("run", "case", "begin_us", end_us.alias("end_us"))
    )


def _numbered(lines: DataFrame) -> DataFrame:
    in_order = Window.partitionBy("run").orderBy("begin_us", "case")
    number = F.row_number().over(in_order)
    return windows(lines).select("run", "case", number.alias("number"), "begin_us", "end_us")


def _opened(lines: DataFrame) -> DataFrame:
    """Each beginning and end of a case: the sum of `opens` so far is how many are open."""
    begin = F.struct(F.col("begin_us").alias("t_us"), F.lit(0).alias("rank"), F.lit(1).alias("o"))
    end = F.struct(F.col("end_us").alias("t_us"), F.lit(2).alias("rank"), F.lit(-1).alias("o"))
    return (
        _numbered(lines)
        .select("run", "number", F.explode(F.array(begin, end)).alias("mark"))
        .where(F.col("mark.t_us").isNotNull())
        .select("run", "number", "mark.t_us", "mark.rank", F.col("mark.o").alias("opens"))
    )


def _unquoted(part: Column) -> Column:
    # Spark writes a path as a URL, in which "+" stands for itself.
    return F.url_decode(F.replace(part, F.lit("+"), F.lit("%2B")))
