"""The tables of the nights say what plain Python reads in the scores of the same nights."""

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from bench.lake.lake import Lake, night_of, remember
from bench.lake.tables import OF_NIGHTS, TABLES
from bench.night.comparison import compared
from bench.night.memory import remembered
from bench.night.record import record_of
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


def lines_of(place: Path, name: str, run: str) -> list[dict[str, Any]]:
    """The rows that the lake at this place has of a night."""
    rows = SparkSession.active().read.parquet(str(place_of(place, name, run))).collect()
    return [row.asDict(recursive=True) for row in rows]


def place_of(lake: Path, name: str, run: str) -> Path:
    return lake / name / f"night={night_of(run)}" / f"run={run}"


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
    runs, lake = tmp_path / "runs", tmp_path / "lake"
    store = Lake(spark, str(lake))
    for number in range(NIGHTS):
        glyphs = {case: strip[number] for case, strip in STRIPS.items()}
        outcomes = {case: WORDS[glyph] for case, glyph in glyphs.items() if glyph not in " -"}
        left_out = [case for case, glyph in glyphs.items() if glyph == "-"]
        # In between a night that was killed.
        whole = number != 3
        folder = write_night(runs, number, outcomes, rig=rig, left_out=left_out, whole=whole)  # type: ignore[arg-type]
        remember(spark, store, [folder], lambda text: None)
        due = expected(runs)
        if not whole:
            assert not place_of(lake, "trends", folder.name).exists()
            continue
        rows = {row["case"]: row for row in lines_of(lake, "trends", folder.name)}
        found = {case: {name: row[name] for name in due[case]} for case, row in rows.items()}
        assert found == due, f"night {number}"
        shown = {case: (row["n30"], row["fail30"], row["flips30"]) for case, row in rows.items()}
        assert shown == {case: counted(series["strip"]) for case, series in due.items()}
        [line] = remembered(runs).lines
        changes = lines_of(lake, "changes", folder.name)
        assert sorted((row["kind"], row["case"]) for row in changes) == sorted(
            (change.kind, change.case) for change in line.nights[-1].changes
        )
    compare_with_the_baseline(lake, runs)
    for name in OF_NIGHTS:
        schema = spark.read.parquet(str(place_of(lake, name, folder.name))).schema
        assert schema == spark.sql(f"SELECT from_json('', '{TABLES[name].types}') AS row").schema[
            "row"].dataType, name  # fmt: skip


def counted(strip: str) -> tuple[int, int, int]:
    """How many of the last 30 conclusive nights there are, failed, and flipped."""
    last = [glyph == "F" for glyph in strip if glyph in "·rF"][-30:]
    return len(last), sum(last), sum(a != b for a, b in pairwise(last))


def compare_with_the_baseline(lake: Path, runs: Path) -> None:
    """The newest row of `comparisons` is what the plain comparison says."""
    [line] = remembered(runs).lines
    night = line.nights[-1]
    base = next(one for one in line.nights if one.night == night.baseline)
    old, new = (record_of(runs / one.runs[0].run) for one in (base, night))
    assert old is not None
    assert new is not None
    plain = compared([old], [new])
    rows = lines_of(lake, "comparisons", night.runs[0].run)
    relations = {row["case"]: row["relation"] for row in rows}
    differing = {case: relation for case, relation in relations.items() if relation != "same"}
    in_both = {case for case, relation in differing.items() if not relation.startswith("only")}
    assert {one.case: one.relation for one in plain.differences} == {
        case: differing[case] for case in sorted(in_both)
    }
    assert sum(not one.startswith("only") for one in relations.values()) == plain.pairs
