"""Where is a query worked out, how often, and what did it cost?

A score is a list of named queries that read each other by name. What is *kept* is worked out once
and cut off from its plan: plans that contain each other's plans grow faster than the captures. On
this machine a kept table lies in memory (a local checkpoint); that would be lost with an executor
of a cluster, so there it is written to the folder of the lake, which all executors share, and read
again. Any other query is worked out where it is read.
"""

import json
import re
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from graphlib import TopologicalSorter
from threading import Lock
from time import monotonic
from typing import Any, TypeVar

from pyspark import cloudpickle
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F

from bench.spark.session import is_local

# A third one takes the processor away from whichever all others wait for.
_MADE_SIDE_BY_SIDE = 2
T = TypeVar("T")
_READ = re.compile(r"\b(?:FROM|JOIN)\s+(\w+)")
# What Hadoop's file system reads as a pattern in a path.
_PATTERN = re.compile(r"[\\{}\[\]*?]")


@dataclass(frozen=True, slots=True)
class Fold:
    """A table of groups that plain Python works out: one call for the `rows` of each group.

    `groups` is a query with the array `rows`, whose structs have a `row_id`; `function` gives a
    tuple of `columns` (SQL) for each of them. The table has `row_id` and these columns.
    """

    groups: str
    function: Callable[[Sequence[Any]], Sequence[tuple[object, ...]]]
    columns: str


Queries = Mapping[str, str | Fold]


class Tables:
    """The tables of a score by name, as Spark sees them; remembers what each of them cost.

    Tables are made side by side, so their seconds overlap; `planning_ms` is the time in which Spark
    turned queries into plans.
    """

    def __init__(self, spark: SparkSession, shared: str, hashed: Collection[str] = ()) -> None:
        """`shared` is a folder that all executors see, used on a cluster only.

        What is joined with tables that are `hashed` need not be sorted, but each of them must fit
        into a share of the memory.
        """
        context = spark.sparkContext
        self._spark = spark
        self._is_local = is_local(context.master or "")
        self._jobs_before = set(_jobs(spark))
        self._small = spark.conf.get("spark.sql.codegen.wholeStage") == "false"
        self._shared = f"{shared}/kept"
        self._hashed = frozenset(hashed)
        self._lock = Lock()
        self._costs: dict[str, dict[str, float]] = {}
        self._made: dict[str, DataFrame] = {}

    def make(
        self,
        queries: Queries,
        kept: Collection[str],
        wanted: Collection[str],
        write: Callable[[str], None],
        asked: Mapping[str, str],
    ) -> list[Row]:
        """Make these tables, each as soon as those are there that stand before it and in it.

        `write` is called for each that is `wanted`, when nothing is left to begin that others wait
        for; what nobody reads or wants is not made. The rows of the small queries that are `asked`,
        all together.
        """
        used = {one for query in (*queries.values(), *asked.values()) for one in _reads(query)}
        tables = {name: query for name, query in queries.items() if name in used or name in wanted}
        needs = {name: _reads(one) & tables.keys() for name, one in {**tables, **asked}.items()}
        writes = {f"write {name}": name for name in wanted}

        def work(name: str) -> list[Row]:
            if name in asked:
                return self._rows(name, asked[name])
            if name in writes:
                write(writes[name])
                return []
            query = tables[name]
            if isinstance(query, Fold):
                self._fold(name, query)
            else:
                table = self._spark.sql(query)
                self.put(name, self._cut(name, table) if name in kept else table)
            return []

        found = side_by_side(needs | {one: {name} for one, name in writes.items()}, work)
        return [row for name in asked for row in found[name]]

    def put(self, name: str, table: DataFrame) -> None:
        """Let queries read this table by its name."""
        if name in self._hashed:
            table = table.hint("shuffle_hash")
        table.createOrReplaceTempView(name)
        self._made[name] = table

    def put_lines(self, name: str, lines: DataFrame) -> None:
        """Keep the lines of captures, shuffled once for all: nearly every key holds run and case.

        Small captures lie in one partition, and nothing of them is ever shuffled again.
        """
        if self._small and self._is_local:  # read by all cores, and put together as they lie
            self.put(name, self._cut(name, lines, whole=False).coalesce(1))
        else:
            lines = lines if self._small else lines.repartition("run", "case")
            self.put(name, self._cut(name, lines))

    def put_rows(self, name: str, schema: str, rows: Sequence[Mapping[str, object]]) -> None:
        """Let queries read a few rows of this process; no worker of Python has to be started."""
        self.put(name, rows_of(self._spark, schema, rows))

    def table(self, name: str) -> DataFrame:
        return self._made[name]

    def _rows(self, name: str, query: str) -> list[Row]:
        began = monotonic()
        table = self._spark.sql(query)
        rows = table.collect()
        self.note(name, began, table)
        return rows

    def note(self, name: str, began: float, table: DataFrame | None = None) -> None:
        """Note what a table cost that was begun at this moment of `monotonic`."""
        planning_ms = 0 if table is None else _planning_ms(table)
        seconds = round(monotonic() - began, 2)
        with self._lock:
            self._costs[name] = {"seconds": seconds, "planning_ms": planning_ms}

    def cost(self) -> dict[str, Any]:
        """What it all cost, as score.json has it."""
        jobs = [job for job in _jobs(self._spark) if job not in self._jobs_before]
        store = _status(self._spark)
        return {
            "jobs": len(jobs),
            "stages": sum(store.job(job).numCompletedStages() for job in jobs),
            "planning_ms": sum(int(cost["planning_ms"]) for cost in self._costs.values()),
            "tables": self._costs,
        }

    def close(self) -> None:
        """Forget the tables: the session may be used for other scores."""
        for name in self._made:
            self._spark.catalog.dropTempView(name)
        self._spark.catalog.clearCache()

    def _cut(self, name: str, table: DataFrame, *, whole: bool = True) -> DataFrame:
        began = monotonic()
        if self._small and whole:  # as it is, though after some joins Spark does not know
            table = table.coalesce(1)
        if self._is_local:
            made = table.localCheckpoint()
        else:
            path = f"{self._shared}/{name}"
            table.write.mode("overwrite").parquet(path)
            made = self._spark.read.schema(table.schema).parquet(path)
        self.note(name, began, table)
        return made

    def _fold(self, name: str, fold: Fold) -> None:
        """In this process where the captures are small: a worker takes seconds to start."""
        groups = self._spark.sql(fold.groups)
        columns = [column.split()[0] for column in fold.columns.split(", ")]
        if self._small:
            began = monotonic()
            found = [
                {"row_id": row["row_id"], **dict(zip(columns, judged, strict=True))}
                for group in groups.select("rows").collect()
                for row, judged in zip(group["rows"], fold.function(group["rows"]), strict=True)
            ]
            self.note(name, began, groups)
            self.put_rows(name, f"row_id BIGINT, {fold.columns}", found)
            return
        # Workers of a cluster do not have the bench: they are sent the module itself.
        cloudpickle.register_pickle_by_value(sys.modules[fold.function.__module__])  # type: ignore[no-untyped-call]
        function = F.udf(fold.function, f"ARRAY<STRUCT<{fold.columns}>>", useArrow=False)
        found_rows = groups.select("rows", function("rows").alias("found"))
        pairs = found_rows.select(F.inline(F.arrays_zip(F.col("rows")["row_id"], "found")))
        self.put(name, self._cut(name, pairs.toDF("row_id", "found").select("row_id", "found.*")))


def side_by_side(needs: Mapping[str, Collection[str]], work: Callable[[str], T]) -> dict[str, T]:
    """What `work` gives for each name, begun as soon as all that it needs is there.

    Of what may begin, that comes first which the longest chain of others waits for. What fails is
    raised when what is under way has ended.
    """
    behind = dict.fromkeys(needs, 0)
    for name in reversed(tuple(TopologicalSorter(needs).static_order())):
        for one in needs[name]:
            behind[one] = max(behind[one], behind[name] + 1)
    order = TopologicalSorter(needs)
    order.prepare()
    found: dict[str, T] = {}
    ready: list[str] = []
    at_work: dict[Future[T], str] = {}
    with ThreadPoolExecutor(_MADE_SIDE_BY_SIDE) as threads:
        while order.is_active():
            ready = sorted([*ready, *order.get_ready()], key=behind.__getitem__)
            while ready and len(at_work) < _MADE_SIDE_BY_SIDE:
                name = ready.pop()
                at_work[threads.submit(work, name)] = name
            ended, _ = wait(at_work, return_when=FIRST_COMPLETED)
            for future in ended:
                name = at_work.pop(future)
                found[name] = future.result()
                order.done(name)
    return found


def rows_of(spark: SparkSession, types: str, rows: Sequence[Mapping[str, object]]) -> DataFrame:
    """A few rows of this process with these columns (SQL); what a row does not have is null."""
    text = f"SELECT inline(from_json(:rows, 'ARRAY<STRUCT<{types}>>')) LIMIT {len(rows)}"
    return spark.sql(text, args={"rows": json.dumps(rows)})


def literal(path: str) -> str:
    """A path as Spark takes it for this one file, and not for a pattern of names."""
    return _PATTERN.sub(r"\\\g<0>", path)


def _reads(query: str | Fold) -> set[str]:
    return set(_READ.findall(query if isinstance(query, str) else query.groups))


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
