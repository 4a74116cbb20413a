"""One Spark session for all tests of the score, and all their captures scored in one job."""

import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from bench.night.memory import compact
from bench.report import write

if TYPE_CHECKING:  # whoever leaves Spark out reads this file too
    from pyspark.sql import SparkSession

TABLES = (
    "receptions", "outcomes", "expectations", "scores", "answers", "verdicts", "findings",
    "margins", "ledger", "stimuli", "margin_nights", "lab_nights",
)  # fmt: skip
Line = tuple[str, int, str, dict[str, Any]]  # source, t_us, kind, fields


@pytest.fixture(scope="session")
def spark() -> "Iterator[SparkSession]":
    """A session tuned for a quick start; `score` borrows it."""
    from bench.spark.session import Profile, session

    with session("local[2]", profile=Profile.QUICK_START, compiled=False, records=False) as spark:
        yield spark


def unsealed(event: dict[str, Any]) -> dict[str, Any]:
    """A line, or a manifest, that does not say how many lines there are, as in older versions.

    So a capture can be damaged in what it says, and not in its books.
    """
    counts = ("books", "planned", "ended", "streams")
    return {name: value for name, value in event.items() if name not in counts}


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
    manifest |= {"inventory": {"inconclusive_share_max": 0.05}}
    (folder / "manifest.json").write_text(json.dumps(manifest), encoding="utf-8")
    return folder


@dataclass(frozen=True)
class Scored:
    """Every capture that the tests wrote, scored in one job: folders and scores by their names."""

    folders: dict[str, Path]
    scores: dict[str, dict[str, Any]]
    lake: Path

    def rows(self, table: str, name: str) -> list[dict[str, Any]]:
        """The rows of one run in a table of the lake, in order of time where they have one."""
        import duckdb

        files = str(self.lake / table / "*" / "*" / "*.parquet")
        query = "SELECT * FROM read_parquet(?, hive_partitioning = true) WHERE run = ?"
        found = duckdb.execute(query, [files, self.folders[name].name])
        names = [column[0] for column in found.description or ()]
        rows = [dict(zip(names, row, strict=True)) for row in found.fetchall()]
        return sorted(rows, key=lambda row: row.get("t_us") or 0)


_WRITTEN: dict[str, Callable[[Path], dict[str, Path]]] = {}
_OF_RESCORED = ("test_compacted", "test_job")
"""Whose captures are scored again: they are there whichever files are collected."""


def captures(write: Callable[[Path], dict[str, Path]]) -> Callable[[Path], dict[str, Path]]:
    """Register what writes run folders into a folder; `scored` scores them with all others.

    The folders are named anew, so that each is a run of its own in the lake.
    """
    _WRITTEN[f"{write.__code__.co_filename}:{write.__qualname__}"] = write
    return write


@pytest.fixture(scope="session")
def scored(spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory) -> Scored:
    """All captures of the modules that were collected, and of `_OF_RESCORED`, in one job."""
    from bench.score.job import score

    root = tmp_path_factory.mktemp("scored")
    folders: dict[str, Path] = {}
    for module in _OF_RESCORED:
        import_module(f"tests.bench.score.{module}")
    for number, written in enumerate(_WRITTEN.values()):
        for name, folder in written(root / f"written-{number}").items():
            assert name not in folders, f"two captures are called {name}"
            folders[name] = folder.rename(root / f"20261120T{len(folders):06d}Z-7f3a")
    found = score(list(folders.values()), lake=root / "lake")
    scores = {name: found[folder.name] for name, folder in folders.items()}
    return Scored(folders, scores, root / "lake")


@dataclass(frozen=True)
class Rescored:
    """Two runs that were scored again: one mended meanwhile (`again`), one compressed."""

    scored: Scored
    before: dict[str, dict[str, Any]]
    after: dict[str, dict[str, Any]]
    findings_before: list[dict[str, Any]]
    pages: tuple[str, str]


@pytest.fixture(scope="session")
def rescored(scored: Scored) -> Rescored:
    """The second job of the suite; whatever is not scored again stays."""
    from bench.score.job import score

    found = scored.rows("findings", "again")
    mended, compressed = scored.folders["again"], scored.folders["compacted"]
    (mended / "lns-a.jsonl").write_bytes((scored.folders["good"] / "lns-a.jsonl").read_bytes())
    said = (compressed / "score.json").read_text()
    write(compressed)
    page = (compressed / "report.html").read_text()
    assert compact(compressed).files > 2
    assert not list(compressed.glob("*.jsonl"))
    after = score([mended, compressed], lake=scored.lake)
    (compressed / "score.json").write_text(said)  # this one took as long as that one
    write(compressed)
    pages = page, (compressed / "report.html").read_text()
    names = ("again", "compacted")
    return Rescored(
        scored,
        {name: scored.scores[name] for name in names},
        {name: after[scored.folders[name].name] for name in names},
        found,
        pages,
    )
