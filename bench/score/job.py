"""Where do captures come from and scores go to? The only module here that knows a path."""

import json
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

from bench.capture.reading import capture_files, is_readable
from bench.capture.run_folder import manifest_of, replace
from bench.capture.wholeness import wholeness
from bench.lake.lake import Lake, refuse_what_executors_cannot_read, remember, run_rows, writing
from bench.lake.tables import OF_NIGHTS, RUNS, TABLES
from bench.night.record import INCONCLUSIVE_SHARE_MAX, share_max_of
from bench.score import expectations, findings, laws, oracle, read, receptions
from bench.score.summary import summaries, summary_queries
from bench.spark.cut import Queries, Tables
from bench.spark.session import Profile, session

# Below this, a better compiler of Java takes longer than it saves.
_QUICK_BYTES_MAX = 64 << 20
# Below this, compiling the queries takes longer than running them.
_INTERPRETED_BYTES_MAX = 512 << 20
# The tables of the lake that are made of captures, each with one that has as many rows.
_LAKE = {name: name for name in TABLES if name not in (RUNS, *OF_NIGHTS)}
_LAKE["receptions"] = "oracle"
# What is worked out once, beside these; the others are worked out where they are read.
_KEPT = {
    *_LAKE.values(), "nameless", "others", "case_expect", "radio_transmit", "station_text",
    "lns_claim", "lns_downlink", "cases", "matched", "published", "dnmsgs", "facts", "statuses",
    "shared", "uplinks", "effects_due", "contradictions", "disagreements", "opportunities",
} - {"answers"}  # fmt: skip
# A few rows a case, or a few words a reception: they fit into memory beside all the others.
_HASHED = {
    "cases", "devices", "addresses", "stalls", "evicted", "judged", "radio_transmit", "outcomes",
    "expectations", "oracle",
}  # fmt: skip
_QUERIES: Queries = {
    **read.QUERIES, **receptions.QUERIES, **expectations.QUERIES, **laws.QUERIES,
    **oracle.QUERIES, **findings.QUERIES,
}  # fmt: skip


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
    capture, ValueError when two folders have one name, JavaMissing (bench.spark.session) when there
    is no Java.
    """
    folders = [Path(folder).resolve() for folder in run_folders]
    # What cannot be read is a hole in the books, and would be the end of Spark.
    files = [file for folder in folders for file in capture_files(folder) if is_readable(file)]
    if empty := [folder for folder in folders if not capture_files(folder)]:
        raise FileNotFoundError(f"{empty[0]}: no capture (*.jsonl) in this folder")
    if not files:
        raise FileNotFoundError(f"{folders[0]}: none of its captures (*.jsonl) can be read")
    runs = [folder.name for folder in folders]
    if len(set(runs)) < len(runs):
        raise ValueError(f"two of these run folders have the same name: {', '.join(sorted(runs))}")
    began = monotonic()
    size = sum(file.stat().st_size for file in files)
    progress("starting Spark, and looking for holes in the captures")
    with (
        writing(str(lake)),
        ThreadPoolExecutor(1) as thread,
        nullcontext(thread.map(wholeness, folders)) as found_whole,
        session(
            master,
            profile=_profile(size),
            compiled=size > _INTERPRETED_BYTES_MAX,
            progress=progress,
        ) as spark,
    ):
        store = Lake(spark, str(lake))
        store.look(progress)
        refuse_what_executors_cannot_read(spark, files, store)
        progress(f"reading {len(files)} capture files")
        tables = Tables(spark, store.shared, _HASHED)
        books = dict(zip(runs, found_whole, strict=True))
        withheld = findings.withheld(books)
        cases = [(one["run"], one["case"]) for one in withheld]
        cases += [(run, case) for run, book in books.items() for case in book.strange]
        tables.put_lines("read", read.lines(spark, [str(file) for file in files], cases))
        tables.put_rows("holes", findings.HOLES, findings.holes(books))
        tables.put_rows("withheld", findings.WITHHELD, withheld)
        progress("working out what was due")

        def into_lake(name: str) -> None:
            begun = monotonic()
            store.put_aside(name, tables.table(name), runs)
            tables.note(f"lake {name}", begun)

        rows = tables.make(_QUERIES, _KEPT, _LAKE, into_lake, summary_queries(_LAKE))
        found = summaries(rows, runs, _LAKE)
        manifests = {folder.name: manifest_of(folder) for folder in folders}
        for run, score_object in found.items():
            score_object |= {name: manifests[run].get(name) for name in ("run_id", "rig", "seed")}
            share_max = share_max_of(manifests[run].get("inventory"))
            score_object[INCONCLUSIVE_SHARE_MAX] = share_max
            score_object["wholeness"] = books[run].as_json()
        progress("writing the lake")
        begun = monotonic()
        store.commit(_LAKE, run_rows(spark, manifests, found), runs)
        tables.note("lake runs", begun)
        about = {"version": spark.version, "master": spark.sparkContext.master, **tables.cost()}
        seconds = round(monotonic() - began, 1)
        for folder in folders:
            found[folder.name]["spark"] = {**about, "seconds": seconds}
            text = json.dumps(found[folder.name], indent=1) + "\n"
            replace(folder / "score.json", text.encode())
        remember(spark, store, folders, progress)
        store.compact()
        store.tidy()
        tables.close()
    return found


def _profile(size_bytes: int) -> Profile:
    if size_bytes <= _QUICK_BYTES_MAX:
        return Profile.QUICK_START
    interpreted = size_bytes <= _INTERPRETED_BYTES_MAX
    return Profile.MANY_TABLES if interpreted else Profile.THROUGHPUT
