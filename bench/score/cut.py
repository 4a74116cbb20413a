"""Where is a plan cut off from the one that made it, and what did each table cost?

Plans that contain each other's plans grow faster than the captures. On this machine a table is kept
in memory (a local checkpoint); that would be lost with an executor of a cluster, so there it is
written to the folder of the lake, which all executors share, and read again.
"""

from dataclasses import dataclass, field
from threading import Lock
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession

from bench.spark import is_local


@dataclass(slots=True)
class Cost:
    """What Spark has done so far: seconds and planning time by table, in order of their end.

    Tables are made side by side, so their seconds overlap; `planning_ms` is the time in which Spark
    turned queries into plans.
    """

    tables: dict[str, dict[str, float]] = field(default_factory=dict)
    lock: Lock = field(default_factory=Lock)

    def note(self, name: str, table: DataFrame, began: float) -> None:
        """Note a table whose query has been run; `began` is a moment of `monotonic`."""
        seconds = round(monotonic() - began, 2)
        with self.lock:
            self.tables[name] = {"seconds": seconds, "planning_ms": _planning_ms(table)}


class Cutter:
    """Makes tables for once and all; remembers what they cost until the session ends."""

    def __init__(self, spark: SparkSession, shared: str) -> None:
        """`shared` is a folder that all executors see, used on a cluster only."""
        context = spark.sparkContext
        self._spark = spark
        self._is_local = is_local(context.master or "")
        self._jobs_before = _jobs(spark)
        self._one_partition = spark.conf.get("spark.sql.codegen.wholeStage") == "false"
        self.shared = f"{shared}/{context.applicationId}"
        self.cost = Cost()

    def __call__(self, name: str, table: DataFrame) -> DataFrame:
        """The same rows, cut off from the plan that makes them."""
        began = monotonic()
        if self._one_partition:  # as it is, though after some joins Spark does not know
            table = table.coalesce(1)
        if self._is_local:
            made = table.localCheckpoint()
        else:
            path = f"{self.shared}/{name}"
            table.write.mode("overwrite").parquet(path)
            made = self._spark.read.schema(table.schema).parquet(path)
        self.cost.note(name, table, began)
        return made

    def gathered(self, lines: DataFrame) -> DataFrame:
        """The lines, shuffled once for all: nearly every key of what follows holds run and case.

        Small captures lie in one partition, and nothing of them is ever shuffled again.
        """
        if self._one_partition:
            return lines.repartition(1)
        return lines.repartition("run", "case")

    def collected(self, name: str, table: DataFrame) -> list[Row]:
        """The rows of a small table."""
        began = monotonic()
        rows = table.collect()
        self.cost.note(name, table, began)
        return rows

    def told(self) -> dict[str, Any]:
        """What it all cost, as score.json has it."""
        jobs = [job for job in _jobs(self._spark) if job not in set(self._jobs_before)]
        store = _status(self._spark)
        return {
            "jobs": len(jobs),
            "stages": sum(store.job(job).numCompletedStages() for job in jobs),
            "planning_ms": sum(int(cost["planning_ms"]) for cost in self.cost.tables.values()),
            "tables": self.cost.tables,
        }


def _status(spark: SparkSession) -> Any:
    return spark.sparkContext._jsc.sc().statusStore()


def _jobs(spark: SparkSession) -> list[int]:
    found = _status(spark).jobsList(None)
    return [found.apply(place).jobId() for place in range(found.size())]


def _planning_ms(table: DataFrame) -> int:
    phases = table._jdf.queryExecution().tracker().phases().values().iterator()
    spent_ms = 0
    while phases.hasNext():
        spent_ms += phases.next().durationMs()
    return spent_ms
