"""What becomes of a run that is not whole, in the tables of a score?

The plain-Python reading of its books (`bench.capture.wholeness`) says which cases are whole; the
lines of the others are taken out before anything is asked of them. Each of those is an ERROR of the
bench, and every hole is a finding of the bench.
"""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.capture.wholeness import Wholeness
from bench.score.finding import COLUMNS
from bench.score.read import night

_PHASE = 6
_FINDINGS = (
    "run STRING, case STRING, owner STRING, rule STRING, frame_id STRING, station STRING, n INT,"
    " expected STRING, observed STRING, t_us BIGINT, text STRING, result STRING, phase INT,"
    " place BIGINT"
)
_VERDICTS = (
    "run STRING, case STRING, scenario STRING, file STRING, group STRING, title STRING,"
    " strategy STRING, confirmed BOOLEAN, verdict STRING, reasons ARRAY<STRING>, owner STRING,"
    " attempt INT, superseded BOOLEAN, begin_us BIGINT, end_us BIGINT, receptions BIGINT"
)
_TEXTS = ("scenario", "file", "group", "title", "strategy")


def whole_cases_only(lines: DataFrame, books: Mapping[str, Wholeness]) -> DataFrame:
    """The lines but those of cases that are not whole."""
    withheld = [(run, one.case) for run, book in books.items() for one in book.withheld]
    if not withheld:
        return lines
    known = lines.sparkSession.createDataFrame(withheld, "run STRING, case STRING")
    return lines.join(F.broadcast(known), on=["run", "case"], how="left_anti")


def with_holes(findings: DataFrame, books: Mapping[str, Wholeness]) -> DataFrame:
    """The findings, and one of the bench for each hole in the books."""
    nothing = (None,) * 4
    rows = [
        (run, None, "bench", hole.rule.value, *nothing[:2], None, *nothing[:2], None, hole.text,
         None, _PHASE, place)
        for run, book in books.items()
        for place, hole in enumerate(book.holes)
    ]  # fmt: skip
    if not rows:
        return findings
    spark: SparkSession = findings.sparkSession
    holes = spark.createDataFrame(rows, _FINDINGS).withColumn("night", night())
    return findings.unionByName(holes.select(*COLUMNS))


def with_withheld(verdicts: DataFrame, books: Mapping[str, Wholeness]) -> DataFrame:
    """The verdicts, and an ERROR of the bench for each case that began and is not whole."""
    rows = []
    for run, book in books.items():
        for one in book.withheld:
            texts = [_text(one.begin.get(name)) for name in _TEXTS]
            texts[0] = texts[0] or one.case
            confirmed, begin_us = one.begin.get("confirmed"), one.begin.get("t_us")
            rows.append(
                (run, one.case, *texts, confirmed if isinstance(confirmed, bool) else None,
                 "ERROR", [one.reason], "bench", 1, False, begin_us or 0, None, 0)
            )  # fmt: skip
    if not rows:
        return verdicts
    spark: SparkSession = verdicts.sparkSession
    withheld = spark.createDataFrame(rows, _VERDICTS).withColumn("night", night())
    return verdicts.unionByName(withheld.select(*verdicts.columns))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
