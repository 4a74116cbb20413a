"""The tables of the nights say what plain Python reads in the scores of the same nights."""

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.night.comparison import compared
from bench.night.memory import remembered
from bench.night.record import record_of
from bench.score.lake import Lake
from bench.score.nights import remember
from bench.score.read import night_of
from bench.score.tables import OF_NIGHTS, TABLES
from tests.bench.night.test_morning import WORDS
from tests.bench.night.written_nights import write_night
from tests.sizes import size

pytestmark = pytest.mark.spark

STRIPS = {
    "steady": "..............",
    "breaks": ".....FFFFFFFFF",
    "mended": ".FFFF.........",
    "flakes": "..F.F...F.....",
    "other": "..FFFGGG......",
    "doubts": "..???..F!F?...",
    "lost": ".....         ",
    "away": ".----..-.F-F..",
    "bridged": "....FFF..F...F",
    "late": "     .F.......",
}
NIGHTS = size(5, 14)
"""Small: the first nights alone."""


def facts(spark: SparkSession, folder: Path) -> dict[str, DataFrame]:
    """What the lake would have of a run, from its score."""
    score = json.loads((folder / "score.json").read_text())

    def table(name: str, rows: list[dict[str, Any]]) -> DataFrame:
        columns = [(column, type_) for column, type_, _ in TABLES[name].columns]
        types = ", ".join(f"`{column}` {type_}" for column, type_ in columns)
        filled = [tuple(row.get(column) for column, _ in columns) for row in rows]
        return spark.createDataFrame(filled, types)

    verdicts = [{**verdict, "superseded": False} for verdict in score["verdicts"]]
    return {
        "verdicts": table("verdicts", verdicts),
        "findings": table("findings", score["findings"]),
    }


def expected(runs: Path) -> dict[str, dict[str, Any]]:
    """How each case stands, by the plain reading."""
    [line] = remembered(runs).lines
    names = (
        "state", "since", "since_build", "last", "last_pass", "last_pass_build", "signature",
        "passes", "told", "quiet", "strip", "signatures", "confirmed",
    )  # fmt: skip
    return {
        case: {name: getattr(series, name) for name in names}
        for case, series in line.series.items()
    }


@pytest.mark.parametrize("rig", size(["emulated"], ["emulated", "simulated"]))
def test_every_night_the_tables_agree_with_the_scores(
    spark: SparkSession, tmp_path: Path, rig: str
) -> None:
    runs, store = tmp_path / "runs", Lake(spark, str(tmp_path / "lake"))
    for number in range(NIGHTS):
        glyphs = {case: strip[number] for case, strip in STRIPS.items()}
        outcomes = {case: WORDS[glyph] for case, glyph in glyphs.items() if glyph not in " -"}
        left_out = [case for case, glyph in glyphs.items() if glyph == "-"]
        # In between a night that was killed.
        whole = number != 3
        folder = write_night(runs, number, outcomes, rig=rig, left_out=left_out, whole=whole)  # type: ignore[arg-type]
        store.add(facts(spark, folder), folder.name)
        remember(spark, store, [folder], lambda text: None)
        due = expected(runs)
        if not whole:
            assert not store.has("trends", folder.name)
            continue
        rows = {row["case"]: row.asDict() for row in store.read("trends", [folder.name]).collect()}
        found = {case: {name: row[name] for name in due[case]} for case, row in rows.items()}
        assert found == due, f"night {number}"
        shown = {case: (row["n30"], row["fail30"], row["flips30"]) for case, row in rows.items()}
        assert shown == {case: counted(series["strip"]) for case, series in due.items()}
        [line] = remembered(runs).lines
        changes = store.read("changes", [folder.name]).collect()
        assert sorted((row["kind"], row["case"]) for row in changes) == sorted(
            (change.kind, change.case) for change in line.nights[-1].changes
        )
    compare_with_the_baseline(store, runs)
    for name in OF_NIGHTS:
        place = tmp_path / "lake" / name / f"night={night_of(folder.name)}"
        schema = spark.read.parquet(str(place / f"run={folder.name}")).schema
        assert schema == store.read(name, [folder.name]).schema, name


def counted(strip: str) -> tuple[int, int, int]:
    """How many of the last 30 conclusive nights there are, failed, and flipped."""
    last = [glyph == "F" for glyph in strip if glyph in "·rF"][-30:]
    return len(last), sum(last), sum(a != b for a, b in pairwise(last))


def compare_with_the_baseline(store: Lake, runs: Path) -> None:
    """The newest row of `comparisons` is what the plain comparison says."""
    [line] = remembered(runs).lines
    night = line.nights[-1]
    base = next(one for one in line.nights if one.night == night.baseline)
    old, new = (record_of(runs / one.runs[0].run) for one in (base, night))
    assert old is not None
    assert new is not None
    plain = compared([old], [new])
    rows = store.read("comparisons", [night.runs[0].run]).collect()
    relations = {row["case"]: row["relation"] for row in rows}
    differing = {case: relation for case, relation in relations.items() if relation != "same"}
    in_both = {case for case, relation in differing.items() if not relation.startswith("only")}
    assert {one.case: one.relation for one in plain.differences} == {
        case: differing[case] for case in sorted(in_both)
    }
    assert sum(not one.startswith("only") for one in relations.values()) == plain.pairs
