"""One Spark session for all tests of the score, and captures written by hand."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from bench.score.read import kept, lines, within_cases
from bench.score.session import Profile, session

Line = tuple[str, int, str, dict[str, Any]]  # source, t_us, kind, fields


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session tuned for a quick start; `score` borrows it."""
    with session("local[2]", profile=Profile.QUICK_START, compiled=False) as spark:
        yield spark


def write_run(folder: Path, written: list[Line]) -> Path:
    """Write a run folder from its lines, in order; `seq` is counted per source."""
    folder.mkdir(parents=True)
    sources: defaultdict[str, list[str]] = defaultdict(list)
    for source, t_us, kind, fields in written:
        seq = len(sources[source])
        head = {"schema": 1, "run_id": "r1", "source": source, "seq": seq, "t_us": t_us}
        line = json.dumps({**head, "kind": kind, **fields}, separators=(",", ":"))
        sources[source].append(line + "\n")
    for source, texts in sources.items():
        (folder / f"{source}.jsonl").write_text("".join(texts), encoding="utf-8")
    manifest = {"schema": 1, "run_id": "r1", "seed": 1, "rig": "simulated"}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


@pytest.fixture
def read_lines(spark: SparkSession, tmp_path: Path) -> Callable[[list[Line]], DataFrame]:
    """The whole lines of a capture, each with its case."""

    def read(written: list[Line]) -> DataFrame:
        folder = write_run(tmp_path / "20261120T020003Z-7f3a", written)
        files = [str(file) for file in folder.glob("*.jsonl")]
        return kept(within_cases(lines(spark, files)))

    return read
