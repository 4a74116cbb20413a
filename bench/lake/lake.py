"""How do the tables of a run get into the lake, whole or not at all?

`lake/<table>/night=2026-11-20/run=20261120T020003Z-7f3a/` holds the rows of one run. Whatever was
there of the same run goes first; the row in `runs` is taken away before everything and written
after everything, so a run without one was not scored to the end: scoring it again heals it.

Months before that of the newest night are closed: `lake/closed/<table>/month=2026-10/` holds their
rows in one file. What a crash left in both places is taken out of the first one the next time, and
a month of which it left none is put back.
"""

import fcntl
import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from py4j.protocol import Py4JJavaError  # type: ignore[import-untyped]
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bench.capture.run_folder import manifest_of
from bench.lake.tables import RUNS, TABLES
from bench.night.memory import main_run, newest_night, remembered
from bench.night.record import build_of, exit_code
from bench.spark.cut import literal, rows_of
from bench.spark.session import is_local
from lns.server.address import without_login

_PARTITIONS = ("night", "run")
_LOCK = ".lock"
_UNDATED = "undated"
# The night of a run: the date at the head of its name.
NIGHT = r"""if(run RLIKE r'^\d{8}T', concat_ws('-', left(run, 4), substr(run, 5, 2),
    substr(run, 7, 2)), 'undated')"""


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


def night_of(run: str) -> str:
    """The date at the head of a run's name; "undated" where there is none."""
    found = re.match(r"(\d{4})(\d{2})(\d{2})T", run)
    return "-".join(found.groups()) if found else "undated"


def run_rows(
    spark: SparkSession, manifests: Mapping[str, Mapping[str, Any]], scores: Mapping[str, Any]
) -> DataFrame:
    """One row per run for the table of runs, from its manifest and its score."""
    rows = [_run_row(run, manifests[run], score) for run, score in scores.items()]
    found = rows_of(spark, f"{TABLES[RUNS].types}, run STRING", rows)
    return found.withColumn("scored_at", F.current_timestamp()).coalesce(1)


def _run_row(run: str, manifest: Mapping[str, Any], score: Mapping[str, Any]) -> dict[str, Any]:
    inventory, ended, dut = (manifest.get(name) for name in ("inventory", "ended", "dut"))
    return {
        **{name: manifest.get(name) for name in TABLES[RUNS].names},
        "bench": inventory.get("name") if isinstance(inventory, dict) else None,
        "ended": ended.get("at") if isinstance(ended, dict) else None,
        "of_night": manifest.get("night"),
        "dut": None if dut is None else json.dumps(dut, sort_keys=True),
        "build": build_of(manifest)[0],
        "explores": manifest.get("explores") is True,
        "cases": len(score["verdicts"]),
        "exit_code": int(exit_code(dict(score))),
        **{word.lower(): count for word, count in score["totals"].items()},
        **{name: score["counts"][name] for name in ("left_out", "repeated")},
        "whole": score["wholeness"]["whole"],
        "rows": score["rows"],
        "run": run,
    }


def _of_run(run: str) -> str:
    return f"night={night_of(run)}/run={run}"


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


class LakeOutOfReach(Exception):
    """Spark has no way to the URI of a lake."""


class Lake:
    """A folder of tables, at a path or a URI that Spark can write to."""

    def __init__(self, spark: SparkSession, uri: str) -> None:
        self._spark = spark
        folder = local_path(uri)
        self.uri = uri if folder is None else f"file:{folder}"
        self._folders = _Folders(spark)
        self.shared = f"{self.uri}/_unfinished/{spark.sparkContext.applicationId}"

    def look(self, progress: Callable[[str], None]) -> None:
        """LakeOutOfReach where Spark cannot look into it; a path of this host is not asked."""
        if local_path(self.uri) is not None:
            return
        progress(f"looking into the lake {without_login(self.uri)}, as long as its server is tried")
        try:
            self._folders.exists(self.uri)
        except Py4JJavaError as error:
            why = str(error.java_exception.getMessage()).partition("\n")[0]
            raise LakeOutOfReach(
                f"--lake {without_login(self.uri)}: {without_login(why)}. Spark has file: and hdfs:"
                " of its own; s3a: and its like take jars of your own, in the folder of Spark."
            ) from None

    def put_aside(self, name: str, table: DataFrame, runs: Collection[str]) -> None:
        """Write a table of these runs where no reader looks, until `commit` moves it."""
        names, aside = TABLES[name].names, self._aside(name)
        if len(runs) == 1:  # straight to where it belongs, without a sort by run
            [run] = runs
            table.select(*names).write.mode("overwrite").parquet(f"{aside}/{_of_run(run)}")
        else:
            table = table.select(*names, F.expr(NIGHT).alias("night"), "run")
            table.write.mode("overwrite").partitionBy(*_PARTITIONS).parquet(aside)

    def commit(self, names: Iterable[str], run_rows: DataFrame, runs: Collection[str]) -> None:
        """Put what stands aside in the place of what the lake holds of these runs."""
        self._put_back()
        for run in runs:
            self._folders.delete(self._place(RUNS, run))
        for month in sorted({night_of(run)[:7] for run in runs}):
            self._open_again(month, runs)
        self.put_aside(RUNS, run_rows, runs)
        for name in (*names, RUNS):
            for run in runs:
                self._move(name, run)

    def add(self, tables: Mapping[str, DataFrame], run: str) -> None:
        """Put these tables in the place of what the lake holds of this run, beside the rest."""
        for name, table in tables.items():
            self.put_aside(name, table, [run])
            self._move(name, run)

    def _place(self, name: str, run: str) -> str:
        return f"{self.uri}/{name}/{_of_run(run)}"

    def compact(self) -> None:
        """Close the months before the newest one: one file for each table and month."""
        by_month: dict[str, list[str]] = {}
        for place in self._folders.like(f"{self.uri}/{RUNS}", "night=*/run=*"):
            of_run = "/".join(place.split("/")[-2:])
            by_month.setdefault(of_run.removeprefix("night=")[:7], []).append(of_run)
        months = sorted(month for month in by_month if month != _UNDATED)
        for month in months[:-1]:
            self._close(month, by_month[month])

    def tidy(self) -> None:
        """Remove what stood aside; on a disk, what killed processes left there too."""
        self._folders.delete(
            self.shared if local_path(self.uri) is None else f"{self.uri}/_unfinished"
        )

    def _close(self, month: str, runs: Sequence[str]) -> None:
        known = set(self._closed_runs(month))  # closed before something ended between two tables
        fresh = [of_run for of_run in runs if of_run.partition("/run=")[2] not in known]
        names = [name for name in TABLES if self._folders.exists(f"{self.uri}/{name}")]
        for name in names if fresh else ():
            root = f"{self.uri}/{name}"
            places = [
                f"{root}/{of_run}" for of_run in fresh if self._folders.exists(f"{root}/{of_run}")
            ]
            rows = self._spark.read.option("basePath", root).parquet(*places)
            rows = rows.select(*TABLES[name].names, *_PARTITIONS)
            if known:
                closed = self._closed(name, month)
                rows = rows.unionByName(closed.where(F.col("run").isin(*known)))
            self._put_closed(name, month, rows)
        for name in (*names[names.index(RUNS) + 1 :], RUNS) if fresh else ():
            self._swap(name, month)
        for name in reversed(names):  # `runs` goes last: by it the rest is found the next time
            for of_run in runs:
                self._folders.delete(f"{self.uri}/{name}/{of_run}")

    def _open_again(self, month: str, runs: Collection[str]) -> None:
        names = [name for name in TABLES if self._folders.exists(self._closed_at(name, month))]
        for name in names:
            self._put_closed(
                name, month, self._closed(name, month).where(~F.col("run").isin(*runs))
            )
        for name in names:  # `runs` comes first: a run without a row in it was not scored
            self._swap(name, month)

    def _closed_runs(self, month: str) -> list[str]:
        if not self._folders.exists(self._closed_at(RUNS, month)):
            return []
        return [row["run"] for row in self._closed(RUNS, month).select("run").collect()]

    def _closed_at(self, name: str, month: str) -> str:
        return f"{self.uri}/closed/{name}/month={month}"

    def _closed(self, name: str, month: str) -> DataFrame:
        return self._spark.read.parquet(self._closed_at(name, month))

    def _put_closed(self, name: str, month: str, rows: DataFrame) -> None:
        aside = f"{self.shared}/closed/{name}/month={month}"
        ordered = rows.coalesce(1).sortWithinPartitions("night", "run")
        ordered.write.mode("overwrite").parquet(aside)
        assert self._spark.read.parquet(aside).count() == rows.count(), aside

    def _swap(self, name: str, month: str) -> None:
        """Other runs lie in it too: it is never gone without being somewhere else."""
        aside, place = f"{self.shared}/closed/{name}/month={month}", self._closed_at(name, month)
        if self._folders.exists(place):
            self._folders.move(place, f"{self.uri}/_replaced/{name}/month={month}")
        self._folders.move(aside, place)
        self._folders.delete(f"{self.uri}/_replaced")

    def _put_back(self) -> None:
        """Bring back the months that were being replaced when a process was killed."""
        for before in self._folders.like(f"{self.uri}/_replaced", "*/month=*"):
            name, month = before.split("/")[-2:]
            place = f"{self.uri}/closed/{name}/{month}"
            if not self._folders.exists(place):
                self._folders.move(before, place)
        self._folders.delete(f"{self.uri}/_replaced")

    def _aside(self, name: str) -> str:
        return f"{self.shared}/lake/{name}"

    def _move(self, name: str, run: str) -> None:
        written, place = f"{self._aside(name)}/{_of_run(run)}", self._place(name, run)
        if self._folders.exists(written):
            self._folders.move(written, place)
        else:  # a reader finds the columns even where there is no row
            self._folders.copy(self._empty(name), place)

    def _empty(self, name: str) -> str:
        folder = f"{self.shared}/empty/{name}"
        if not self._folders.exists(folder):
            empty = rows_of(self._spark, TABLES[name].types, [])
            empty.coalesce(1).write.parquet(folder)
        return folder


def remember(
    spark: SparkSession, store: Lake, folders: Sequence[Path], progress: Callable[[str], None]
) -> None:
    """Write trends, changes and comparisons of the nights that these runs belong to.

    Only the newest night of a line has any: what comes after an old one is not made anew.
    """
    of_nights = [folder for folder in folders if manifest_of(folder).get("night") is not None]
    for runs in sorted({folder.parent for folder in of_nights}):
        names = {folder.name for folder in folders if folder.parent == runs}
        for line in remembered(runs).lines:
            night = line.nights[-1]
            if night.proves and any(run.run in names for run in night.runs):
                progress(f"comparing {night.night} with the nights before")
                tables = {
                    name: rows_of(spark, TABLES[name].types, rows)
                    for name, rows in newest_night(line).items()
                }
                series = F.xxhash64("bench", "rig", "line", "case")
                tables["trends"] = tables["trends"].withColumn("series", series)
                store.add(tables, main_run(night))


class _Folders:
    """The folders of a lake, wherever it is, as Hadoop's file systems have them."""

    def __init__(self, spark: SparkSession) -> None:
        # Looked up once: each part of the name costs a search through all jars.
        hadoop = spark.sparkContext._jvm.org.apache.hadoop.fs  # type: ignore[union-attr]
        self._path, self._copy = hadoop.Path, hadoop.FileUtil.copy
        self._configuration = spark.sparkContext._jsc.hadoopConfiguration()

    def exists(self, uri: str) -> bool:
        return bool(self._files(uri).exists(self._path(uri)))

    def delete(self, uri: str) -> None:
        self._files(uri).delete(self._path(uri), True)

    def move(self, uri: str, place: str) -> None:
        """Put a folder in the place of what is there."""
        self.delete(place)
        self._files(place).mkdirs(self._path(place).getParent())
        assert self._files(place).rename(self._path(uri), self._path(place)), place

    def copy(self, uri: str, place: str) -> None:
        """Put the files of a folder in the place of what is there."""
        self.delete(place)
        files = self._files(place)
        self._copy(files, self._path(uri), files, self._path(place), False, self._configuration)

    def like(self, uri: str, pattern: str) -> list[str]:
        found = self._files(uri).globStatus(self._path(f"{literal(uri)}/{pattern}"))
        return [str(status.getPath()) for status in found or ()]

    def _files(self, uri: str) -> Any:
        return self._path(uri).getFileSystem(self._configuration)
