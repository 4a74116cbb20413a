"""One Spark session for all tests of the score, and captures written by hand."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.score.read import lines, within_cases
from bench.score.session import Profile, session

Line = tuple[str, int, str, dict[str, Any]]  # source, t_us, kind, fields


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session tuned for a quick start; `score` borrows it."""
    with session("local[2]", profile=Profile.QUICK_START, compiled=False) as spark:
        yield spark


WriteRun = Callable[..., Path]


@pytest.fixture
def write_run(tmp_path: Path) -> WriteRun:
    """Write a run folder from its lines, in order; `seq` is counted per source."""

    def write(lines: list[Line], name: str = "20261120T020003Z-7f3a") -> Path:
        folder = tmp_path / "runs" / name
        folder.mkdir(parents=True)
        counts: Counter[str] = Counter()
        for source, t_us, kind, fields in lines:
            head = {"schema": 1, "run_id": "r1", "source": source, "seq": counts[source]}
            counts[source] += 1
            line = json.dumps({**head, "t_us": t_us, "kind": kind, **fields}, separators=(",", ":"))
            with (folder / f"{source}.jsonl").open("a", encoding="utf-8") as file:
                file.write(line + "\n")
        manifest = {"schema": 1, "run_id": "r1", "seed": 1, "rig": "simulated"}
        (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
        return folder

    return write


@pytest.fixture
def read_lines(spark: SparkSession, write_run: WriteRun) -> Callable[[list[Line]], DataFrame]:
    """The whole lines of a capture, each with its case."""

    def read(written: list[Line]) -> DataFrame:
        folder = write_run(written)
        return within_cases(lines(spark, [str(file) for file in folder.glob("*.jsonl")]))

    return read
