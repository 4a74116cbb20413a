"""What does one more night cost a lake that holds a year of them?

Writes a lake of 365 nights with two runs each (closed months in one file a table), then puts the
tables of one more run into it and into an empty lake, in turn, and prints the seconds of each.

    python -m tests.benchmarks.a_year_of_nights
"""

import sys
import tempfile
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from time import perf_counter

from pyspark.sql import DataFrame, SparkSession

from bench.score.lake import Lake
from bench.score.tables import RUNS, TABLES
from bench.spark import Profile, session

NIGHTS, RUNS_A_NIGHT, ROWS, TIMES = 365, 2, 1000, 7
FIRST = date(2025, 11, 1)
SHARE_MAX = 1.2


def rows(spark: SparkSession, table: str, nights: list[date], runs: range, count: int) -> DataFrame:
    """`count` rows of a table for each of these runs of these nights, all null."""
    columns = ", ".join(
        f"CAST(NULL AS {type_}) `{name}`" for name, type_, _ in TABLES[table].columns
    )
    dates = ", ".join(f"DATE'{night}'" for night in nights)
    return spark.sql(f"""
        SELECT {columns}, night, concat(date_format(night, 'yyyyMMdd'), 'T02000', number, 'Z-7f3a')
          AS run
        FROM (SELECT explode(array({dates})) AS night),
          (SELECT explode(sequence({runs.start}, {runs.stop - 1})) AS number), range({count})""")


def put(spark: SparkSession, lake: Lake, nights: list[date], runs: range) -> None:
    """These runs into the lake, as a score does it."""
    tables = {
        name: rows(spark, name, nights, runs, ROWS).coalesce(1) for name in TABLES if name != RUNS
    }
    which = {
        f"{night:%Y%m%d}T02000{number}Z-7f3a": str(night) for night in nights for number in runs
    }
    lake.replace(tables, rows(spark, RUNS, nights, runs, 1).coalesce(1), which)
    lake.compact()


def main() -> int:
    """Run the benchmark; 1 where the full lake is too slow."""
    with (
        tempfile.TemporaryDirectory() as folder,
        session("local[2]", profile=Profile.QUICK_START, compiled=False, records=False) as spark,
    ):
        full, empty = (Lake(spark, f"{folder}/{name}") for name in ("full", "empty"))
        days = [FIRST + timedelta(days) for days in range(NIGHTS)]
        for month in sorted({(day.year, day.month) for day in days}):
            nights = [day for day in days if (day.year, day.month) == month]
            put(spark, full, nights, range(RUNS_A_NIGHT))
            print(f"{nights[-1]}: {sum(1 for _ in Path(folder).rglob('*.parquet'))} files")
        seconds: dict[str, list[float]] = {"full": [], "empty": []}
        for number in range(2, 2 + TIMES):
            for name, lake in (("full", full), ("empty", empty)):
                began = perf_counter()
                put(spark, lake, [days[-1]], range(number, number + 1))
                seconds[name].append(perf_counter() - began)
    share = median(seconds["full"]) / median(seconds["empty"])
    for name, found in seconds.items():
        print(f"{name:6} {', '.join(f'{one:.2f}' for one in found)} s")
    print(f"full / empty, median: {share:.2f} (at most {SHARE_MAX})")
    return int(share > SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
