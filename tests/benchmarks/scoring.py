"""How fast does Spark score level 1, next to DuckDB on the same Parquet?

`python -m tests.benchmarks.scoring --rows 1000000,10000000` makes receptions with observed
statuses, works the statuses out again with both engines, each in a process of its own, and
compares their confusion matrices. Exit status 1 when these differ. Beside the seconds that passed
stand those of the processors, which say the same on a machine that others use too.

Of the receptions, there are 2.10 for each uplink; 3 % of the uplinks are sent again through the
same station, 2 % are replayed 55 to 600 s later, and 1 % of the observed statuses are wrong.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from time import perf_counter, process_time
from typing import Any

RUNS = 3
RETENTION_US = 60_000_000
CORES = 2
HEAP = "3g"  # of Java, which fills what it gets
# Seconds measured once for this job (EUIs as integers, 2 cores): rows -> engine -> cold, best.
REFERENCE_S = {
    1_000_000: {"duckdb": (0.40, 0.38), "spark": (4.04, 1.40)},
    10_000_000: {"duckdb": (4.03, 4.00), "spark": (12.9, 8.95)},
    50_000_000: {"duckdb": (20.5, 20.5), "spark": (48.5, 44.5)},
}

# Everything random is a hash of what it belongs to, so the same rows come out every time.
_MAKE = """
COPY (
    WITH uplinks AS (
        SELECT u, hash(u, 'copies') % 100 AS draw, hash(u, 'again') % 100 AS fate
        FROM range({uplinks}) AS r(u)
    ), copies AS (
        SELECT u, c, c AS station, (hash(u, c, 'late') % 400000)::BIGINT AS later_us
        FROM uplinks, range(4) AS r(c)
        WHERE c = 0 OR (c = 1 AND draw >= 35) OR (c = 2 AND draw >= 70) OR (c = 3 AND draw >= 90)
        UNION ALL
        SELECT u, 4, 0, 4000000 + (hash(u, 'retry') % 2000000)::BIGINT FROM uplinks WHERE fate < 3
        UNION ALL
        SELECT u, 5, (hash(u, 'from') % 4)::INT, 55000000 + (hash(u, 'replay') % 545000000)::BIGINT
        FROM uplinks WHERE fate BETWEEN 3 AND 4
    ), receptions AS (
        SELECT
            '20261120T020003Z-' || lpad((u % 8)::VARCHAR, 4, '0') AS run,
            'case-' || (hash(u % 20000, 'case') % 40) AS "case",
            8121069065000000000 + (u % 20000)::BIGINT AS dev_eui_no,
            (hash(u, 'mic') % 4294967296)::BIGINT AS mic_no,
            ((u // 20000) % 65536)::BIGINT AS f_cnt_wire,
            13277000000000000000 - 18446744073709551616 + (hash(u, 'at') % 50)::BIGINT * 8 + station
                AS wide_station,
            ['Drop', 'Mark', 'None'][1 + (u % 20000) % 3] AS strategy,
            u * 40000 + later_us * 10 + c AS t_us,
            hash(u, c, 'wrong') % 400 AS wrong
        FROM copies
    )
    SELECT run, "case", dev_eui_no, mic_no, f_cnt_wire, wide_station::BIGINT AS station_no,
        strategy, t_us, CASE wrong
            WHEN 0 THEN 'NonDuplicate' WHEN 1 THEN 'Duplicate' WHEN 2 THEN 'SoftDuplicate'
            WHEN 3 THEN 'DuplicateDueToResubmission' ELSE status END AS observed
    FROM ({level1})
) TO '{path}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE 500000)
"""

_LEVEL1 = """
    SELECT *, CASE
        WHEN is_new THEN 'NonDuplicate'
        WHEN station_no_ = first_station THEN 'DuplicateDueToResubmission'
        WHEN strategy = 'Drop' THEN 'Duplicate'
        ELSE 'SoftDuplicate' END AS status
    FROM (
        SELECT *, last_value(CASE WHEN is_new THEN station_no_ END IGNORE NULLS) OVER key
            AS first_station
        FROM (
            SELECT *, {station} AS station_no_,
                coalesce(t_us - lag(t_us) OVER key >= {retention_us}, true) AS is_new
            FROM {source}
            WINDOW key AS (PARTITION BY mic_no, f_cnt_wire, dev_eui_no, run, "case" ORDER BY t_us)
        )
        WINDOW key AS (PARTITION BY mic_no, f_cnt_wire, dev_eui_no, run, "case" ORDER BY t_us
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW)
    )
"""

Matrix = list[list[Any]]


def make(rows: int, path: Path) -> int:
    """Write about `rows` receptions; returns how many."""
    import duckdb

    level1 = _LEVEL1.format(station="wide_station", source="receptions", retention_us=RETENTION_US)
    with duckdb.connect(config={"threads": CORES}) as db:
        db.execute(_MAKE.format(uplinks=round(rows / 2.10), level1=level1, path=path))
        [found] = db.execute(f"SELECT count(*) FROM '{path}'").fetchall()
    return int(found[0])


def score_with_duckdb(path: Path) -> dict[str, Any]:
    """Seconds of each run, peak memory in MB, and the confusion matrix."""
    import duckdb

    level1 = _LEVEL1.format(station="station_no", source=f"'{path}'", retention_us=RETENTION_US)
    query = f'SELECT run, "case", status, observed, count(*) FROM ({level1}) GROUP BY ALL'
    began = perf_counter()
    with duckdb.connect(config={"threads": CORES}) as db:
        up_s = perf_counter() - began
        timed = _timed(lambda: [list(row) for row in db.execute(query).fetchall()])
    return {"up_s": up_s, "peak_mb": _peak_mb(os.getpid()), **timed}


def score_with_spark(path: Path) -> dict[str, Any]:
    """Seconds of each run, peak memory in MB with the Java machine, and the confusion matrix."""
    from pyspark import SparkContext

    from bench.score.oracle import with_status
    from bench.spark.session import session

    began = perf_counter()
    with session(f"local[{CORES}]", memory=HEAP, shuffle_partitions=8) as spark:
        up_s = perf_counter() - began

        def run() -> Matrix:
            spark.read.parquet(str(path)).createOrReplaceTempView("receptions")
            judged = with_status("FROM receptions", station="station_no")
            counts = f"""{judged}
                |> AGGREGATE count(*) AS count GROUP BY run, case, status, observed"""
            return [list(row) for row in spark.sql(counts).collect()]

        java = SparkContext._gateway.proc.pid  # type: ignore[union-attr]
        timed = _timed(run, java)
        peak_mb = _peak_mb(os.getpid()) + _peak_mb(java)
        operators = _operators(spark)
    return {"up_s": up_s, "peak_mb": peak_mb, "operators": operators, **timed}


ENGINES: dict[str, Callable[[Path], dict[str, Any]]] = {
    "duckdb": score_with_duckdb,
    "spark": score_with_spark,
}


def main(arguments: list[str]) -> int:
    """Run the benchmark and print its table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--rows", default="1000000", help="receptions, e.g. 1000000,10000000")
    parser.add_argument("--engine", choices=sorted(ENGINES), help=argparse.SUPPRESS)
    parser.add_argument("--parquet", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.engine:
        print(json.dumps(ENGINES[options.engine](options.parquet)))
        return 0
    return max(_compare(int(rows)) for rows in options.rows.split(","))


def _compare(rows: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "receptions.parquet"
        found = make(rows, path)
        print(f"{found} receptions, {path.stat().st_size / 1e6:.0f} MB of Parquet, {CORES} cores")
        results = {name: _in_own_process(name, path) for name in ("duckdb", "spark")}
    heads = f"{'start s':>8} {'cold s':>8} {'best s':>8} {'CPU s':>8} {'peak GB':>8}"
    print(f"{'engine':8} {heads} {'reference cold/best s':>24}")
    for name, result in results.items():
        cold_s, best_s = result["seconds"][0], min(result["seconds"])
        spent_s = min(result["spent"])
        reference = REFERENCE_S.get(rows, {}).get(name)
        known = f"{reference[0]:.2f} / {reference[1]:.2f}" if reference else "-"
        print(
            f"{name:8} {result['up_s']:8.2f} {cold_s:8.2f} {best_s:8.2f} {spent_s:8.2f} "
            f"{result['peak_mb'] / 1000:8.2f} {known:>24}"
        )
    _print_ratios(rows, results)
    print("Spark's operators:", *results["spark"]["operators"], sep="\n  ")
    same = sorted(results["duckdb"]["matrix"]) == sorted(results["spark"]["matrix"])
    print(f"confusion matrices: {'identical' if same else 'DIFFERENT'}\n")
    return 0 if same else 1


def _print_ratios(rows: int, results: dict[str, dict[str, Any]]) -> None:
    reference = REFERENCE_S.get(rows)
    for what, place in (("cold", 0), ("best", 1)):
        seconds = {
            name: result["seconds"][0] if place == 0 else min(result["seconds"])
            for name, result in results.items()
        }
        known = reference and reference["spark"][place] / reference["duckdb"][place]
        said = f" (reference {known:.1f})" if known else ""
        print(f"Spark / DuckDB, {what}: {seconds['spark'] / seconds['duckdb']:.1f}{said}")
    spent = [min(results[name]["spent"]) for name in ("spark", "duckdb")]
    print(f"Spark / DuckDB, best seconds of the processors: {spent[0] / spent[1]:.1f}")
    memory = results["spark"]["peak_mb"] / results["duckdb"]["peak_mb"]
    print(f"Spark / DuckDB, peak memory: {memory:.2f}")


def _in_own_process(engine: str, path: Path) -> dict[str, Any]:
    command = [sys.executable, "-m", "tests.benchmarks.scoring"]
    command += ["--engine", engine, "--parquet", str(path)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def _timed(run: Callable[[], Matrix], java: int | None = None) -> dict[str, Any]:
    """The seconds of each run, those of the processors, and the matrix."""
    seconds: list[float] = []
    spent: list[float] = []
    matrix: Matrix = []
    for _ in range(RUNS):
        began, had_s = perf_counter(), _spent_s(java)
        matrix = run()
        seconds.append(round(perf_counter() - began, 3))
        spent.append(round(_spent_s(java) - had_s, 3))
    return {"seconds": seconds, "spent": spent, "matrix": matrix}


def _spent_s(java: int | None) -> float:
    """The processor time of this process so far, and of its Java machine."""
    if java is None:
        return process_time()
    fields = Path(f"/proc/{java}/stat").read_text("ascii").rpartition(")")[2].split()
    return process_time() + (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _operators(spark: Any) -> list[str]:
    """Where the time of the last query went: what its operators measured themselves.

    A stage that is compiled as a whole has one time for all that is in it; its tasks run side by
    side, so times add up to more than what passed.
    """
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    number = executions.apply(executions.size() - 1).executionId()
    values, nodes = store.executionMetrics(number), store.planGraph(number).allNodes()
    found = []
    for node in (nodes.apply(place) for place in range(nodes.size())):
        measured = (node.metrics().apply(place) for place in range(node.metrics().size()))
        for metric in measured:
            value = values.get(metric.accumulatorId())
            if "iming" in metric.metricType() and value.isDefined():
                said = str(value.get()).splitlines()[-1].partition(" (")[0]
                found.append(f"{node.name()}, {metric.name()}: {said}")
    return found


def _peak_mb(pid: int) -> float:
    """The most memory that a process ever held; 0 where the system does not tell."""
    status = Path(f"/proc/{pid}/status")
    lines = status.read_text("ascii").splitlines() if status.is_file() else []
    return sum(int(line.split()[1]) for line in lines if line.startswith("VmHWM")) / 1000


if __name__ == "__main__":
    os.environ.setdefault("PYTHONHASHSEED", "0")
    sys.exit(main(sys.argv[1:]))
