"""Where do captures come from and scores go to? The only module here that knows a path."""

import json
from collections.abc import Callable, Mapping, Sequence
from functools import reduce
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from bench.capture.whole_file import replace
from bench.capture.wholeness import Wholeness, wholeness
from bench.score.accounts import accounts
from bench.score.answers import answers
from bench.score.effects import due_effects
from bench.score.expectations import expectations
from bench.score.findings import findings
from bench.score.incomplete import whole_cases_only, with_holes, with_withheld
from bench.score.ledger import ledger
from bench.score.margins import margins
from bench.score.missed_stimuli import missed_stimuli, of_other_cases, unproven
from bench.score.oracle import judged
from bench.score.outcomes import WORDS, matched, outcomes, told
from bench.score.read import kept, lines, within_cases
from bench.score.receptions import receptions
from bench.score.scores import scores
from bench.score.session import session
from bench.score.stalls import excused, stalled
from bench.score.store_calls import store_calls
from bench.score.summary import Tables, summaries
from bench.score.verdicts import verdicts

_PARTITIONS = ("night", "run")
# Below this, compiling the queries takes longer than running them.
_INTERPRETED_BYTES_MAX = 64 << 20


def score(
    run_folders: Sequence[str | Path],
    *,
    lake: str | Path,
    master: str | None = None,
    progress: Callable[[str], None] = lambda text: None,
) -> dict[str, dict[str, Any]]:
    """Score these runs: Parquet into the lake, score.json into each folder; the scores by run.

    A run is known by the name of its folder, and its earlier scores in the lake are replaced.
    `lake` is a path or any URI that Spark can write to. FileNotFoundError when a folder holds no
    capture, ValueError when two folders have one name, JavaMissing (bench.score.java) when there
    is no Java.
    """
    folders = [Path(folder).resolve() for folder in run_folders]
    files = [file for folder in folders for file in _captures(folder)]
    runs = [folder.name for folder in folders]
    if len(set(runs)) < len(runs):
        raise ValueError(f"two of these run folders have the same name: {', '.join(sorted(runs))}")
    began = monotonic()
    progress("looking for holes in the captures")
    books = {folder.name: wholeness(folder) for folder in folders}
    progress("starting Spark")
    size = sum(file.stat().st_size for file in files)
    with session(master, compiled=size > _INTERPRETED_BYTES_MAX, progress=progress) as spark:
        progress(f"reading {len(files)} capture files")
        read = lines(spark, [str(file) for file in files])
        tables = _tables(read, books)
        progress("working out what was due")
        found = summaries(tables, runs)
        progress("writing the lake")
        found_nights = read.select("run", "night").distinct().collect()
        nights = {row["run"]: row["night"] for row in found_nights}
        _write(_of_lake(tables), str(lake), nights)
        spark.catalog.clearCache()
        about = {"version": spark.version, "master": spark.sparkContext.master}
    seconds = round(monotonic() - began, 1)
    for folder in folders:
        manifest = _manifest(folder)
        facts = {name: manifest.get(name) for name in ("run_id", "rig", "seed")}
        found[folder.name] |= {**facts, "spark": {**about, "seconds": seconds}}
        found[folder.name]["wholeness"] = books[folder.name].as_json()
        text = json.dumps(found[folder.name], indent=1) + "\n"
        replace(folder / "score.json", text.encode())
    return found


def _tables(read: DataFrame, books: Mapping[str, Wholeness]) -> Tables:
    # Each table is cut off from the plan that made it: plans that contain each other's plans grow
    # faster than the captures.
    whole = kept(whole_cases_only(within_cases(read), books))
    said = outcomes(whole).localCheckpoint()
    both = matched(receptions(whole), said).localCheckpoint()
    due = expectations(whole)
    graded = scores(due, both).localCheckpoint()
    rows = judged(both, whole).localCheckpoint()
    effects = due_effects(whole).localCheckpoint()
    followed = accounts(whole, said, effects).localCheckpoint()
    life = ledger(both, followed).localCheckpoint()
    all_found = findings(whole, both, said, graded, rows, effects, followed).localCheckpoint()
    missed = missed_stimuli(whole)
    late = of_other_cases(stalled(whole), missed)
    of_cases = unproven(excused(all_found, late), missed).localCheckpoint()
    cases = with_withheld(verdicts(whole, both, of_cases), books).localCheckpoint()
    found = with_holes(of_cases, books)
    early = margins(both, whole).localCheckpoint()
    asked = store_calls(whole, said)
    return Tables(
        read, rows, said, due, graded, answers(said), cases, found, early, asked, followed, life
    )


def _of_lake(tables: Tables) -> dict[str, DataFrame]:
    observed = [told(word).alias(f"observed_{word}") for word in WORDS]
    return {
        "receptions": tables.judged.select("*", *observed).drop(
            "outcome", "heard", "stale", "stale_life"
        ),
        "outcomes": tables.outcomes,
        "expectations": tables.expectations,
        "scores": tables.scores,
        "answers": tables.answers,
        "verdicts": tables.verdicts,
        "findings": tables.findings.drop("phase", "place"),
        "margins": tables.margins,
        "ledger": tables.ledger,
    }


def _write(tables: dict[str, DataFrame], lake: str, nights: dict[str, str]) -> None:
    """Replace the partitions of these runs in every table; other partitions stay."""
    for name, table in tables.items():
        (
            table.repartition(*_PARTITIONS)
            .write.mode("overwrite")
            .partitionBy(*_PARTITIONS)
            .parquet(f"{lake}/{name}")
        )
    # A run without rows in a table is no reason for Spark to touch its partition there.
    filled = [
        table.select(F.lit(name).alias("table"), "run").distinct() for name, table in tables.items()
    ]
    present = {(row["table"], row["run"]) for row in reduce(DataFrame.unionAll, filled).collect()}
    for name, table in tables.items():
        for run, night in sorted(nights.items()):
            if (name, run) not in present:
                empty = table.drop(*_PARTITIONS).limit(0)
                empty.write.mode("overwrite").parquet(f"{lake}/{name}/night={night}/run={run}")


def _captures(folder: Path) -> list[Path]:
    # A stream that is there in both forms was being compressed when something died.
    packed = {path.stem: path for path in folder.glob("*.jsonl.gz")}
    plain = {path.name: path for path in folder.glob("*.jsonl")}
    files = [path for _, path in sorted((packed | plain).items())]
    if not files:
        raise FileNotFoundError(f"{folder}: no capture (*.jsonl) in this folder")
    return files


def _manifest(folder: Path) -> dict[str, Any]:
    try:
        manifest = json.loads((folder / "manifest.json").read_text("utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return manifest if isinstance(manifest, dict) else {}
