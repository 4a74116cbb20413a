"""Where do captures come from and scores go to? The only module here that knows a path."""

import json
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import DataFrame

from bench.capture.whole_file import replace
from bench.capture.wholeness import Wholeness, wholeness
from bench.score.accounts import accounts
from bench.score.answers import answers
from bench.score.conservation import published
from bench.score.cut import Cutter
from bench.score.effects import due_effects
from bench.score.expectations import expectations
from bench.score.findings import findings
from bench.score.incomplete import whole_cases_only, with_holes, with_withheld
from bench.score.lake import Lake, refuse_what_executors_cannot_read, run_rows, writing
from bench.score.ledger import ledger
from bench.score.margins import margins
from bench.score.missed_stimuli import missed_stimuli, of_other_cases, unproven
from bench.score.oracle import judged
from bench.score.outcomes import WORDS, matched, outcomes, told
from bench.score.read import lines, night_of, within_cases
from bench.score.receptions import receptions
from bench.score.scores import scores
from bench.score.stalls import excused, stalled
from bench.score.station_text import dnmsgs
from bench.score.store_calls import store_calls
from bench.score.summary import Tables, summaries
from bench.score.verdicts import verdicts
from bench.spark import Profile, session

# Below this, a better compiler of Java takes longer than it saves.
_QUICK_BYTES_MAX = 64 << 20
# Below this, compiling the queries takes longer than running them.
_INTERPRETED_BYTES_MAX = 512 << 20
_SIDE_BY_SIDE = 2
_OF_MANIFEST = ("run_id", "rig", "seed")


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
    capture, ValueError when two folders have one name, JavaMissing (bench.spark) when there
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
    with (
        writing(str(lake)),
        session(
            master,
            profile=Profile.QUICK_START if size <= _QUICK_BYTES_MAX else Profile.THROUGHPUT,
            compiled=size > _INTERPRETED_BYTES_MAX,
            progress=progress,
        ) as spark,
    ):
        store = Lake(spark, str(lake))
        refuse_what_executors_cannot_read(spark, files, store)
        progress(f"reading {len(files)} capture files")
        cut = Cutter(spark, store.shared)
        tables = _tables(cut, lines(spark, [str(file) for file in files]), books)
        into_lake = _of_lake(tables)
        progress("working out what was due")
        found = summaries(tables, into_lake, runs, cut.collected)
        manifests = {folder.name: _manifest(folder) for folder in folders}
        for run, score_object in found.items():
            score_object |= {name: manifests[run].get(name) for name in _OF_MANIFEST}
            score_object["wholeness"] = books[run].as_json()
        progress("writing the lake")
        store.replace(
            into_lake,
            run_rows(spark, manifests, found),
            {run: night_of(run) for run in runs},
        )
        cost = cut.told()
        store.tidy()
        spark.catalog.clearCache()
        about = {"version": spark.version, "master": spark.sparkContext.master, **cost}
    seconds = round(monotonic() - began, 1)
    for folder in folders:
        found[folder.name]["spark"] = {**about, "seconds": seconds}
        text = json.dumps(found[folder.name], indent=1) + "\n"
        replace(folder / "score.json", text.encode())
    return found


def _tables(cut: Cutter, captured: DataFrame, books: Mapping[str, Wholeness]) -> Tables:
    read = cut("read", cut.gathered(captured))
    whole = cut("lines", whole_cases_only(within_cases(read), books))
    with ThreadPoolExecutor(_SIDE_BY_SIDE) as threads:

        def begin(name: str, table: Callable[[], DataFrame]) -> Callable[[], DataFrame]:
            return threads.submit(lambda: cut(name, table())).result

        sent = begin("downlink texts", lambda: dnmsgs(whole))
        got = begin("published", lambda: published(whole))
        said = cut("outcomes", outcomes(whole))
        both = cut("receptions", matched(receptions(whole), said))
        rows = begin("oracle", lambda: judged(both, whole, cut))
        due = expectations(whole)
        graded = begin("scores", lambda: scores(due, both))
        effects = cut("effects", due_effects(whole))
        followed = cut("accounts", accounts(whole, said, effects))
        life = begin("ledger", lambda: ledger(both, followed))
        early = begin("margins", lambda: margins(both, sent(), whole))
        missed = missed_stimuli(whole)
        late = of_other_cases(stalled(whole), missed)
        all_found = cut(
            "all findings",
            findings(whole, both, said, got(), sent(), graded(), rows(), effects, followed),
        )
        of_cases = cut("findings", unproven(excused(all_found, late), missed))
        cases = cut("verdicts", with_withheld(verdicts(whole, both, of_cases), books))
        found = with_holes(of_cases, books)
        return Tables(
            read, rows(), said, due, graded(), answers(said), cases, found, early(),
            store_calls(whole, said), followed, life(),
        )  # fmt: skip


def _of_lake(tables: Tables) -> dict[str, DataFrame]:
    observed = [told(word).alias(f"observed_{word}") for word in WORDS]
    return {
        "receptions": tables.judged.select("*", *observed),
        "outcomes": tables.outcomes,
        "expectations": tables.expectations,
        "scores": tables.scores,
        "answers": tables.answers,
        "verdicts": tables.verdicts,
        "findings": tables.findings,
        "margins": tables.margins,
        "ledger": tables.ledger,
    }


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
