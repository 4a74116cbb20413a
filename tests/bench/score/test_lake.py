"""The lake: what its page says is what lies in it, and what a crash leaves is healed."""

import shutil
import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.cli.program import main
from bench.lake.lake import Lake, LakeBusy, LakeOutOfReach, writing
from bench.lake.tables import OF_NIGHTS, RUNS, TABLES
from bench.night.record import ExitCode
from tests.bench.score.conftest import Rescored, Scored
from tests.pages import ROOT

_SPELLED = {"VARCHAR": "STRING", "INTEGER": "INT", "VARCHAR[]": "ARRAY<STRING>",
            "MAP(VARCHAR, BIGINT)": "MAP<STRING,BIGINT>"}  # fmt: skip


@pytest.mark.spark
@pytest.mark.parametrize("name", [name for name in TABLES if name not in OF_NIGHTS])
def test_a_table_has_the_columns_that_its_page_names(scored: Scored, name: str) -> None:
    files = str(scored.lake / name / "*" / "*" / "*.parquet")
    found = duckdb.execute(
        "DESCRIBE SELECT * FROM read_parquet(?, hive_partitioning = false)", [files]
    ).fetchall()
    spelled = [(row[0], _SPELLED.get(row[1], row[1].partition(" WITH")[0])) for row in found]
    assert spelled == [(column, type_) for column, type_, _ in TABLES[name].columns]


@pytest.mark.spark
def test_every_run_has_a_row_that_counts_its_rows(rescored: Rescored) -> None:
    scored = rescored.scored
    assert not (scored.lake / "_unfinished").exists()
    for name, score in scored.scores.items():
        if name in rescored.after:
            score = rescored.after[name]
        [row] = scored.rows(RUNS, name)
        assert (row["run"], row["run_id"]) == (score["run"], score["run_id"])
        words = ("pass", "fail", "inconclusive", "error")
        assert [row[word] for word in words] == [*score["totals"].values()]
        assert row["whole"] is score["wholeness"]["whole"]
        counted = {
            table: len(scored.rows(table, name))
            for table in TABLES
            if table not in (RUNS, *OF_NIGHTS)
        }
        assert row["rows"] == score["rows"] == counted


def examples() -> list[str]:
    """The queries of the page: in DuckDB, in Spark, and of closed months in DuckDB."""
    page = (ROOT / "bench/score/README.md").read_text("utf-8")
    return [part.partition("```")[0] for part in page.split("```sql")[1:]]


@pytest.mark.spark
def test_the_examples_of_the_page_are_queries(scored: Scored, spark: SparkSession) -> None:
    in_duckdb, in_spark, _ = examples()
    query = in_duckdb.replace("'lake/", f"'{scored.lake}/")
    rows = duckdb.execute(query).fetchall()
    by_spark = spark.sql(in_spark.strip().rstrip(";").replace("`lake/", f"`{scored.lake}/"))
    assert [tuple(row) for row in by_spark.collect()] == rows != []


def rows_of(spark: SparkSession, table: str, run: str, **values: str) -> DataFrame:
    """One row of a table of the lake: null where no value is given as SQL."""
    given = ", ".join(
        f"CAST({values.get(name, 'NULL')} AS {type_}) `{name}`"
        for name, type_, _ in TABLES[table].columns
    )
    return spark.sql(f"SELECT {given}, '{run}' run")


def replace(lake: Lake, tables: dict[str, DataFrame], rows: DataFrame, run: str) -> None:
    """Put these tables of a run in the place of what the lake holds of it, as a score does."""
    for name, table in tables.items():
        lake.put_aside(name, table, [run])
    lake.commit(tables, rows, [run])


@pytest.mark.spark
def test_closed_months_lie_in_one_file_and_open_again(spark: SparkSession, tmp_path: Path) -> None:
    tmp_path /= "a lake, 100 %25"
    lake = Lake(spark, str(tmp_path))

    def score(run: str, count: int) -> None:
        answers = rows_of(spark, "answers", run, count=str(count))
        replace(lake, {"answers": answers}, rows_of(spark, RUNS, run), run)
        lake.compact()

    def counts() -> list[tuple[object, ...]]:
        found: list[tuple[object, ...]] = []
        for files, is_hive in (
            ("answers/*/*/*.parquet", True),
            ("closed/answers/*/*.parquet", False),
        ):
            if list(tmp_path.glob(files)):
                found += duckdb.execute(
                    "SELECT night::VARCHAR, run, count FROM read_parquet(?, hive_partitioning = ?)",
                    [str(tmp_path / files), is_hive],
                ).fetchall()
        return sorted(found, key=str)

    october = [("2026-10-30", "20261030T0", 1), ("2026-10-31", "20261031T0", 2)]
    for row in october:
        score(*row[1:])
    assert not (tmp_path / "closed").exists()
    score("20261101T0", 3)
    assert counts() == [*october, ("2026-11-01", "20261101T0", 3)]
    for table in ("answers", RUNS):
        assert len(list(tmp_path.glob(f"closed/{table}/month=2026-10/*.parquet"))) == 1
        assert len(list(tmp_path.glob(f"{table}/*/*/*.parquet"))) == 1
    score("20261031T0", 5)  # scored again: it replaces its rows
    assert counts() == [
        october[0],
        ("2026-10-31", "20261031T0", 5),
        ("2026-11-01", "20261101T0", 3),
    ]


@pytest.mark.spark
def test_a_month_that_was_being_replaced_when_its_process_was_killed_is_put_back(
    spark: SparkSession, tmp_path: Path
) -> None:
    def score(run: str, count: int) -> None:
        lake = Lake(spark, str(tmp_path))
        answers = rows_of(spark, "answers", run, count=str(count))
        replace(lake, {"answers": answers}, rows_of(spark, RUNS, run), run)
        lake.compact()

    def seen() -> list[tuple[object, ...]]:
        view = examples()[2].replace("verdicts", "answers").replace("'lake/", f"'{tmp_path}/")
        with duckdb.connect() as of_page:
            of_page.execute(view)
            return of_page.execute("SELECT run, count FROM answers ORDER BY run").fetchall()

    for row in (("20261030T0", 1), ("20261031T0", 2)):
        score(*row)
    shutil.copytree(tmp_path, tmp_path / "before")
    score("20261101T0", 3)
    for table in (RUNS, "answers"):  # as it lies before what is closed was removed
        shutil.copytree(tmp_path / "before" / table, tmp_path / table, dirs_exist_ok=True)
    assert seen() == [("20261030T0", 1), ("20261031T0", 2), ("20261101T0", 3)]
    for table in (RUNS, "answers"):  # as it lies between two renames
        (tmp_path / "_replaced" / table).mkdir(parents=True)
        month = tmp_path / "closed" / table / "month=2026-10"
        month.rename(tmp_path / "_replaced" / table / "month=2026-10")
    score("20261031T0", 5)
    assert seen() == [("20261030T0", 1), ("20261031T0", 5), ("20261101T0", 3)]
    assert not (tmp_path / "_replaced").exists()
    assert not list(tmp_path.glob("answers/night=2026-10-*/*"))


@pytest.mark.spark
def test_a_crash_between_two_tables_leaves_no_row_in_runs_and_is_healed(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, run = Lake(spark, str(tmp_path)), "20261120T0"
    runs = rows_of(spark, RUNS, run)
    tables = {name: rows_of(spark, name, run) for name in ("answers", "ledger")}
    replace(lake, tables, runs, run)
    assert len(list((tmp_path / RUNS).glob("*/*/*.parquet"))) == 1
    # What ends in the midst of making the tables has replaced none of them.
    tables["answers"] = rows_of(spark, "answers", run, count="7")
    broken = rows_of(spark, "ledger", run, effects="raise_error('killed')")
    with pytest.raises(Exception, match="killed"):
        replace(lake, {**tables, "ledger": broken}, runs, run)
    assert len(list((tmp_path / RUNS).glob("*/*/*.parquet"))) == 1
    # What ends between two tables leaves them without the row that commits the run.
    shutil.rmtree(tmp_path / "ledger")
    (tmp_path / "ledger").touch()
    with pytest.raises(Exception, match="ledger"):
        replace(lake, tables, runs, run)
    assert not list((tmp_path / RUNS).glob("*/*/*.parquet"))
    (tmp_path / "ledger").unlink()
    replace(lake, tables, runs, run)
    for name in ("answers", "ledger", RUNS):
        assert len(list((tmp_path / name).glob("*/*/*.parquet"))) == 1
    lake.tidy()
    assert not (tmp_path / "_unfinished").exists()


@pytest.mark.spark
def test_a_lake_that_spark_has_no_way_to_is_told_before_anything_is_read(
    spark: SparkSession, tmp_path: Path
) -> None:
    told: list[str] = []
    for uri in ("s3://user:secret@bucket/x", "nonsense://bucket/x"):
        scheme = uri.partition(":")[0]
        with pytest.raises(LakeOutOfReach, match=f'No FileSystem for scheme "{scheme}"') as refused:
            Lake(spark, uri).look(told.append)
        assert "secret" not in f"{refused.value} {told}"
    assert len(told) == 2 and all(text.startswith("looking into the lake") for text in told)
    Lake(spark, str(tmp_path / "of this host")).look(told.append)
    assert len(told) == 2


def test_one_process_at_a_time_writes_to_a_lake(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with writing(str(tmp_path / "lake")):
        with pytest.raises(LakeBusy, match=r"process \d+ is writing to the lake"):
            with writing(str(tmp_path / "lake")):
                pass
        run = tmp_path / "20261120T020003Z-7f3a"
        run.mkdir()
        (run / "manifest.json").write_text("{}")
        (run / "bench.jsonl").write_text("")
        code = main(["score", str(run), "--lake", str(tmp_path / "lake")])
    assert code == ExitCode.BENCH_ERROR
    assert "need not be removed" in capsys.readouterr().err


def test_a_lock_ends_with_its_process(tmp_path: Path) -> None:
    text = f"from bench.lake.lake import writing\nwriting({str(tmp_path)!r}).__enter__()"
    subprocess.run([sys.executable, "-c", text], check=True)
    with writing(str(tmp_path)):
        assert (tmp_path / ".lock").read_text().startswith("process ")
