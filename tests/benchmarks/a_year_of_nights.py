"""What does one more night cost a lake that holds a year of them?

Makes a lake of 365 nights with two runs each, as scores leave it: closed months in one file a
table, the newest one in a folder a run. Then scores one capture into it and into an empty lake, in
turn, and prints the seconds of processor time that each took.

    python -m tests.benchmarks.a_year_of_nights
"""

import os
import shutil
import sys
import tempfile
from collections.abc import Iterator
from datetime import date, timedelta
from pathlib import Path
from statistics import median
from time import process_time

from pyspark import SparkContext
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from bench.lake.lake import NIGHT
from bench.lake.tables import RUNS, TABLES
from bench.score.job import score
from bench.spark.session import Profile, session
from tests.bench.score.conftest import write_run
from tests.bench.score.test_job import case, good

NIGHTS, RUNS_A_NIGHT, ROWS, TIMES = 365, 2, 100, 5
LAST = date(2026, 11, 30)
SHARE_MAX = 1.2


def make(spark: SparkSession, lake: Path) -> None:
    """Write the nights before the last one; of each run `ROWS` rows in every table, all null."""
    days = [LAST - timedelta(ago) for ago in range(NIGHTS, 0, -1)]
    names = [f"{day:%Y%m%d}T02000{number}Z-7f3a" for day in days for number in range(RUNS_A_NIGHT)]
    for table, about in TABLES.items():
        columns = ", ".join(f"CAST(NULL AS {type_}) `{name}`" for name, type_, _ in about.columns)
        rows = spark.sql(
            f"SELECT {columns}, explode(:runs) AS run FROM range({1 if table == RUNS else ROWS})",
            args={"runs": names},
        ).select("*", F.expr(NIGHT).alias("night"), F.expr(f"left({NIGHT}, 7)").alias("month"))
        is_open = F.col("month") == f"{LAST:%Y-%m}"
        for part, partitions, place in (
            (rows.where(is_open).drop("month"), ("night", "run"), lake / table),
            (rows.where(~is_open), ("month",), lake / "closed" / table),
        ):
            part.coalesce(1).write.partitionBy(*partitions).parquet(str(place))


def costs(lakes: dict[str, Path], folder: Path) -> Iterator[tuple[str, float]]:
    """The seconds of scoring one more run of the last night, for each lake in turn."""
    for number in range(TIMES):
        for name, lake in lakes.items():
            run = write_run(folder / f"{name}-{number}" / _run(number), case("one", 0, good("one")))
            begun_s = _spent_s()
            score([run], lake=lake)
            yield name, _spent_s() - begun_s
            shutil.rmtree(run.parent)


def _run(number: int) -> str:
    return f"{LAST:%Y%m%d}T02000{number}Z-7f3a"


def _spent_s() -> float:
    """Processor time of this process and of its Java machine so far."""
    pid = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
    fields = Path(f"/proc/{pid}/stat").read_text("ascii").rpartition(")")[2].split()
    return process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> int:
    """Run the benchmark; 1 where the full lake is too slow."""
    with (
        tempfile.TemporaryDirectory() as folder,
        session("local[2]", profile=Profile.QUICK_START, compiled=False, records=False) as spark,
    ):
        lakes = {name: Path(folder) / name for name in ("full", "empty")}
        make(spark, lakes["full"])
        files = sum(1 for _ in lakes["full"].rglob("*.parquet"))
        print(f"{NIGHTS} nights with {RUNS_A_NIGHT} runs each: {files} files")
        seconds: dict[str, list[float]] = {name: [] for name in lakes}
        for name, spent_s in costs(lakes, Path(folder) / "runs"):
            seconds[name].append(spent_s)
            print(f"{name:6} {spent_s:.2f} s", flush=True)
    # The first score of each pays for what Java has not met yet.
    share = median(seconds["full"][1:]) / median(seconds["empty"][1:])
    print(f"full / empty, median but for the first: {share:.2f} (at most {SHARE_MAX})")
    return int(share > SHARE_MAX)


if __name__ == "__main__":
    sys.exit(main())
