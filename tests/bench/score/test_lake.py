"""The lake: what its page says is what lies in it, and what a crash leaves is healed."""

import subprocess
import sys
from pathlib import Path

import duckdb
import pytest
from pyspark.sql import SparkSession

from bench.cli.exit_code import ExitCode
from bench.cli.program import main
from bench.score.lake import Lake, LakeBusy, writing
from bench.score.tables import PAGE, RUNS, TABLES, document
from tests.bench.score.conftest import Rescored, Scored

_SPELLED = {"VARCHAR": "STRING", "INTEGER": "INT", "VARCHAR[]": "ARRAY<STRING>",
            "MAP(VARCHAR, BIGINT)": "MAP<STRING,BIGINT>"}  # fmt: skip


def test_the_page_is_made_from_the_tables() -> None:
    assert PAGE.read_text("utf-8") == document(), "python -m bench.score.tables"


@pytest.mark.spark
@pytest.mark.parametrize("name", TABLES)
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
        counted = {table: len(scored.rows(table, name)) for table in TABLES if table != RUNS}
        assert row["rows"] == score["rows"] == counted


@pytest.mark.spark
def test_the_examples_of_the_page_are_queries(scored: Scored, spark: SparkSession) -> None:
    in_duckdb, in_spark = (part.partition("```")[0] for part in document().split("```sql")[1:])
    query = in_duckdb.replace("'lake/", f"'{scored.lake}/")
    rows = duckdb.execute(query).fetchall()
    by_spark = spark.sql(in_spark.strip().rstrip(";").replace("`lake/", f"`{scored.lake}/"))
    assert [tuple(row) for row in by_spark.collect()] == rows != []


@pytest.mark.spark
def test_a_crash_between_two_tables_leaves_no_row_in_runs_and_is_healed(
    spark: SparkSession, tmp_path: Path
) -> None:
    lake, nights = Lake(spark, str(tmp_path)), {"r": "2026-11-20"}
    words = ", ".join(
        f"CAST(NULL AS {type_}) `{name}`" for name, type_, _ in TABLES["answers"].columns
    )
    of_run = "'2026-11-20' night, 'r' run"
    good = spark.sql(f"SELECT {words}, {of_run}")
    named = ", ".join(f"CAST(NULL AS {type_}) `{name}`" for name, type_, _ in TABLES[RUNS].columns)
    runs = spark.sql(f"SELECT {named}, {of_run}")
    lake.replace({"answers": good}, runs, nights)
    assert len(list((tmp_path / RUNS).glob("*/*/*.parquet"))) == 1
    broken = good.withColumn("count", good["count"] + spark.sql("SELECT 1").count())
    broken = broken.selectExpr("* EXCEPT (count)", "raise_error('killed') AS count")
    with pytest.raises(Exception, match="killed"):
        lake.replace({"answers": broken}, runs, nights)
    assert not list((tmp_path / RUNS).glob("*/*/*.parquet"))
    lake.replace({"answers": good}, runs, nights)
    lake.tidy()
    assert len(list((tmp_path / RUNS).glob("*/*/*.parquet"))) == 1
    assert len(list((tmp_path / "answers").glob("*/*/*.parquet"))) == 1
    assert not (tmp_path / "_unfinished").exists()


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
    text = f"from bench.score.lake import writing\nwriting({str(tmp_path)!r}).__enter__()"
    subprocess.run([sys.executable, "-c", text], check=True)
    with writing(str(tmp_path)):
        assert (tmp_path / ".lock").read_text().startswith("process ")
