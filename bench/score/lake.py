"""How do the tables of a run get into the lake, whole or not at all?

`lake/<table>/night=2026-11-20/run=20261120T020003Z-7f3a/` holds the rows of one run. Whatever was
there of the same run goes first; the row in `runs` is taken away before everything and written
after everything, so a run without one was not scored to the end: scoring it again heals it.
"""

import fcntl
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.score.read import night as night_column
from bench.score.tables import RUNS, TABLES
from bench.spark import is_local

_PARTITIONS = ("night", "run")
_SIDE_BY_SIDE = 2
_LOCK = ".lock"


class LakeBusy(Exception):
    """Another process writes to the lake."""


@contextmanager
def writing(uri: str) -> Iterator[None]:
    """The lake, for one process at a time; LakeBusy if another one has it.

    A lake at a URI that is no path of this host has no lock.
    """
    folder = local_path(uri)
    if folder is None:
        yield
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
    try:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.read(file, 100).decode("utf-8", "replace") or "another process"
            raise LakeBusy(
                f"{owner} is writing to the lake {folder}. Wait until it is done, or name another "
                f"--lake; the file {folder / _LOCK} need not be removed."
            ) from None
        os.truncate(file, 0)
        os.pwrite(file, f"process {os.getpid()}".encode(), 0)
        yield
    finally:
        os.close(file)


def local_path(uri: str) -> Path | None:
    """The folder of this host that a lake is; None for any other URI."""
    if uri.startswith("file:"):
        return Path("/" + uri.removeprefix("file:").lstrip("/"))
    return None if "://" in uri or uri.startswith("hdfs:") else Path(uri).absolute()


def run_rows(
    spark: SparkSession, manifests: Mapping[str, Mapping[str, Any]], scores: Mapping[str, Any]
) -> DataFrame:
    """One row per run for the table of runs, from its manifest and its score."""
    rows = [_run_row(run, manifests[run], score) for run, score in scores.items()]
    types = [f"{name} {type_}" for name, type_, _ in TABLES[RUNS].columns if name != "scored_at"]
    schema = ", ".join([*types, "run STRING"])
    made = spark.createDataFrame(rows, schema).withColumn("night", night_column())
    return made.withColumn("scored_at", F.current_timestamp()).coalesce(1)


def _run_row(run: str, manifest: Mapping[str, Any], score: Mapping[str, Any]) -> dict[str, Any]:
    inventory = manifest.get("inventory")
    bench = inventory.get("name") if isinstance(inventory, dict) else None
    dut = manifest.get("dut")
    seed = manifest.get("seed")
    texts = {"bench": bench, "line": manifest.get("line"), "git_commit": manifest.get("git_commit")}
    texts |= {name: manifest.get(name) for name in ("run_id", "rig")}
    return {
        **{name: value if isinstance(value, str) else None for name, value in texts.items()},
        "dut": None if dut is None else json.dumps(dut, sort_keys=True),
        "seed": seed if isinstance(seed, int) else None,
        **{word.lower(): count for word, count in score["totals"].items()},
        **{name: score["counts"][name] for name in ("left_out", "repeated")},
        "whole": score["wholeness"]["whole"],
        "rows": score["rows"],
        "run": run,
    }


class CapturesOutOfReach(Exception):
    """Executors of a cluster do not see the captures, or the lake."""


def refuse_what_executors_cannot_read(
    spark: SparkSession, files: Sequence[Path], lake: "Lake"
) -> None:
    """CapturesOutOfReach where some executor of a cluster does not see what this process sees."""
    context = spark.sparkContext
    if is_local(context.master or ""):
        return
    needed = [str(file) for file in files]
    folder = local_path(lake.uri)
    if folder is not None:
        needed.append(str(folder / _LOCK))

    def missing(_: object) -> list[str]:
        return [name for name in needed if not os.path.isfile(name)]

    places = 4 * context.defaultParallelism  # more than one for each executor
    unseen = sorted(set(context.parallelize(range(places), places).flatMap(missing).collect()))
    if unseen:
        more = f" and {len(unseen) - 1} more" if len(unseen) > 1 else ""
        raise CapturesOutOfReach(
            f"An executor of {context.master} does not see {unseen[0]}{more}. Captures and lake "
            "must lie on a folder that all executors share under the same path; or score without "
            "--master, on this machine."
        )


class Lake:
    """A folder of tables, at a path or a URI that Spark can write to."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        folder = local_path(uri)
        self.uri = uri if folder is None else folder.as_uri()
        self.shared = f"{self.uri}/_unfinished/{spark.sparkContext.applicationId}"

    def replace(
        self, tables: Mapping[str, DataFrame], runs: DataFrame, nights: Mapping[str, str]
    ) -> None:
        """Put these tables in the place of what the lake holds of these runs, `runs` last."""
        for run, night in nights.items():
            self._delete(f"{self.uri}/{RUNS}/night={night}/run={run}")
        with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:
            list(threads.map(lambda name: self._put(name, tables[name], nights), tables))
        self._put(RUNS, runs, nights)

    def tidy(self) -> None:
        """Remove what stood aside; on a disk, what killed processes left there too."""
        self._delete(self.shared if local_path(self.uri) is None else f"{self.uri}/_unfinished")

    def _put(self, name: str, table: DataFrame, nights: Mapping[str, str]) -> None:
        aside = f"{self.shared}/lake/{name}"
        table = table.select(*TABLES[name].names, *_PARTITIONS)
        table.write.mode("overwrite").partitionBy(*_PARTITIONS).parquet(aside)
        for run, night in nights.items():
            written = f"{aside}/night={night}/run={run}"
            place = f"{self.uri}/{name}/night={night}/run={run}"
            self._delete(place)
            if self._exists(written):
                self._files(place).mkdirs(self._path(place).getParent())
                assert self._files(place).rename(self._path(written), self._path(place)), place
            else:  # a reader finds the columns even where there is no row
                empty = table.drop(*_PARTITIONS).limit(0)
                empty.coalesce(1).write.mode("overwrite").parquet(place)

    def _path(self, uri: str) -> Any:
        return self._spark.sparkContext._jvm.org.apache.hadoop.fs.Path(uri)  # type: ignore[union-attr]

    def _files(self, uri: str) -> Any:
        return self._path(uri).getFileSystem(self._spark.sparkContext._jsc.hadoopConfiguration())

    def _exists(self, uri: str) -> bool:
        return bool(self._files(uri).exists(self._path(uri)))

    def _delete(self, uri: str) -> None:
        self._files(uri).delete(self._path(uri), True)
