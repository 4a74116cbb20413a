"""What lines do the captures hold, and to which case does each belong?"""

from collections.abc import Sequence

from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from bench.score.schema import CAPTURE, CAPTURE_NAMES, TORN

# The order of everything that happened in a run. Equal times are put in order as the plain-Python
# reading of a capture does it.
ARRIVAL = ("t_us", "source", "seq")
LIVES = ("lns_life", "stale_life", "stale")


def lines(spark: SparkSession, files: Sequence[str]) -> DataFrame:
    """Every line of these capture files, all kinds side by side, with the `run` it belongs to.

    `run` is the name of the folder, `night` its date ("2026-11-20"), `stream` the name of the file.
    A line that is not whole has nothing but `torn`, its text.
    """
    path = F.split(F.col("_metadata.file_path"), "/")
    whole = F.col(TORN).isNull()
    for field in ("t_us", "source", "seq", "kind"):
        whole = whole & F.col(field).isNotNull()
    fields = [F.when(whole, F.col(name)).alias(name) for name in CAPTURE_NAMES]
    return (
        spark.read.schema(CAPTURE)
        .option("mode", "PERMISSIVE")
        .option("columnNameOfCorruptRecord", TORN)
        .json(list(files))
        .select(
            _unquoted(F.element_at(path, -2)).alias("run"),
            F.regexp_replace(_unquoted(F.element_at(path, -1)), r"\.jsonl$", "").alias("stream"),
            F.when(~whole, F.coalesce(TORN, F.lit(""))).alias(TORN),
            *fields,
        )
        .select(night().alias("night"), "*")
    )


def night() -> Column:
    """The date at the head of a run's name; "undated" where there is none."""
    found = F.regexp_extract("run", r"^(\d{4})(\d{2})(\d{2})T", 0)
    dashed = F.regexp_replace("run", r"^(\d{4})(\d{2})(\d{2})T.*$", "$1-$2-$3")
    return F.when(found != "", dashed).when(found == "", F.lit("undated"))


def within_cases(lines: DataFrame) -> DataFrame:
    """The whole lines, each with the `case` whose begin and end it lies between, if any.

    Cases follow one another, so the last begin or end before a line tells. `lns_life` counts the
    restarts of network servers in the run up to the line, `stale_life` those that brought an older
    counter back, and `stale` is the last of these: its case and counter.
    """
    kind = F.col("kind")
    rank = F.when(kind == "case.begin", 0).when(kind == "case.end", 2)
    so_far = (
        Window.partitionBy("run")
        .orderBy("t_us", "rank", "source", "seq")
        .rowsBetween(Window.unboundedPreceding, Window.currentRow)
    )
    mark = F.when(kind.isin("case.begin", "case.end"), F.struct("kind", "case"))
    stale = F.when(
        (kind == "case.lns") & (F.col("event") == "restart") & F.col("f_cnt_up").isNotNull(),
        F.struct("case", "f_cnt_up"),
    )
    restart = (kind == "case.lns") & (F.col("event") == "restart")
    return (
        lines.select("*")
        .where(F.col(TORN).isNull())
        .withColumn("rank", F.coalesce(rank, F.lit(1)))
        .withColumn("mark", F.last(mark, ignorenulls=True).over(so_far))
        .withColumn("lns_life", F.count(F.when(restart, 1)).over(so_far))
        .withColumn("stale_life", F.count(stale).over(so_far))
        .withColumn("stale", F.last(stale, ignorenulls=True).over(so_far))
        .withColumn("inside", F.when(F.col("mark.kind") == "case.begin", F.col("mark.case")))
        .withColumn("case", F.coalesce("case", "inside"))
        .select(*(name for name in lines.columns if name != TORN), *LIVES)
    )


def _unquoted(part: Column) -> Column:
    # Spark writes a path as a URL, in which "+" stands for itself.
    return F.url_decode(F.replace(part, F.lit("+"), F.lit("%2B")))
