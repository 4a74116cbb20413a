"""Where do captures come from and scores go to, and what is the content of score.json?

The only module here that knows a path.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from pathlib import Path
from time import monotonic
from typing import Any

from pyspark.sql import Row

from bench.capture.reading import capture_files, is_readable
from bench.capture.run_folder import manifest_of, replace
from bench.capture.wholeness import wholeness
from bench.lake.lake import Lake, refuse_what_executors_cannot_read, remember, run_rows, writing
from bench.lake.tables import OF_NIGHTS, RUNS, TABLES
from bench.night.record import INCONCLUSIVE_SHARE_MAX, SCORE_SCHEMA, share_max_of
from bench.score import expectations, findings, laws, oracle, read, receptions
from bench.score.read import STALL_US_MAX, unpacked
from bench.score.receptions import RX2_AFTER_RX1_US
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


Found = dict[str, Any]
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")
_FINDING = [name for name in TABLES["findings"].names if name != "result"]
_VERDICT = [name for name in TABLES["verdicts"].names if name != "superseded"]
_FIGURES = ("min_us", "p1_us", "p50_us", "p99_us")
_CONSUMED = ("p50_us", "p95_us", "p99_us", "max_us")
_LAB = TABLES["lab_nights"].names[2:]
_LEFT_OUT = ("case", "scenario", "file", "group", "title", "missing")
_STORE_CALLS = ("strategy", "status", "uplinks", "receptions", "asked")
_COUNTED = {
    "outcomes": "lns.outcome",
    "transmissions": "radio.transmit",
    "evicted": "lns.evicted",
    "deliveries": "upstream.published",
    "left_out": "case.left_out",
}

# An uplink has consumers or none. Of those with a consumer: once had one effect at each consumer,
# copies at some consumer one for each of several messages, more one message that had several, never
# none at some.
_UPLINKS = {
    "uplinks": "true",
    "delivered": "delivered",
    "consumed": "consumed",
    "once": "consumed AND once",
    "copies": "consumed AND NOT once AND NOT more AND NOT never",
    "more": "consumed AND more",
    "never": "consumed AND never AND NOT more",
}
_PARTS = {
    "counts": f"""SELECT run,
  sort_array(collect_list(struct(seq, case, {", ".join(f"rest.{one}" for one in _LEFT_OUT[1:])}))
    FILTER (WHERE kind = 'case.left_out')) AS cases_left_out,
  count(*) AS lines, count_if(kind IS NULL) AS torn_lines,
  max(rest.late_us) AS worst_stall_us, count_if(rest.late_us > {STALL_US_MAX}) AS stalls,
  {", ".join(f"count_if(kind = '{kind}') AS {name}" for name, kind in _COUNTED.items())}
FROM (SELECT *, if(kind IN ('case.left_out', 'host.stalled'),
    {unpacked("late_us " + " ".join(_LEFT_OUT[1:]))}, NULL) AS rest FROM read)
GROUP BY run""",
    # How often the oracle and the network server agree, by the words of both.
    "agreement": """SELECT run, unknowable, oracle_status,
  coalesce(observed_status, 'missing') AS observed, status_agrees, disposition_agrees,
  level2_agrees, count(*) AS count FROM oracle WHERE told GROUP BY ALL""",
    "verdicts": "SELECT * FROM verdicts",
    "findings": "SELECT * FROM findings",
    # How often each status stood where another was due.
    "confusion": """SELECT run, due_status AS expected,
  coalesce(observed_status, 'missing') AS observed, count(*) AS count
FROM scores WHERE due IS NOT NULL GROUP BY ALL""",
    "answers": "SELECT run, strategy, confirmed, answer, count FROM answers",
    "margins": "SELECT * FROM margins_of_runs",
    "lab": "SELECT * FROM lab_nights",
    "dispositions": """SELECT run, upstream, count(*) AS count FROM outcomes
WHERE upstream IS NOT NULL GROUP BY ALL""",
    "store_calls": f"SELECT run, {', '.join(_STORE_CALLS)} FROM store_calls",
    "uplinks": f"""SELECT run,
  {", ".join(f"count_if({is_so}) AS {name}" for name, is_so in _UPLINKS.items())}
FROM (
  SELECT run, bool_or(delivered > 0) AS delivered, bool_or(consumer IS NOT NULL) AS consumed,
    bool_and(effects = 1 OR (effects = 0 AND is_shared)) AS once, bool_or(effects > ids) AS more,
    bool_or(effects = 0 AND NOT is_shared) AS never
  FROM uplinks WHERE accepted > 0 GROUP BY run, case, which)
GROUP BY run""",
    # How many duplicates were born and died where.
    "duplicates": """SELECT run, born, died, count(*) AS count FROM ledger
WHERE what = 'duplicate' GROUP BY ALL""",
}


# What is only there at the end.
_LAST = ("agreement", "verdicts", "findings", "lab", "rows")


def summary_queries(counted: Mapping[str, str]) -> dict[str, str]:
    """All that the scores are made of, as rows of `part`, `run` and a JSON text: queries by name.

    `counted`: the tables of the lake, each with one that has as many rows of each run.
    """
    rows = "\nUNION ALL\n".join(
        f"SELECT run, '{name}' AS table, count(*) AS count FROM {table} GROUP BY run"
        for name, table in counted.items()
    )
    parts = {
        name: f"SELECT '{name}' AS part, run, to_json(struct(*), map('ignoreNullFields', 'false'))"
        f" AS row FROM ({query})"
        for name, query in {**_PARTS, "rows": rows}.items()
    }
    return {
        "summary": "\nUNION ALL\n".join(parts[name] for name in parts if name not in _LAST),
        "summary of the end": "\nUNION ALL\n".join(parts[name] for name in _LAST),
    }


def summaries(
    collected: Sequence[Row], runs: Sequence[str], tables: Collection[str]
) -> dict[str, dict[str, Any]]:
    """The scores of each run by its name, but for `spark`, wholeness and what the manifest says.

    `tables` are those of the lake whose rows were counted.
    """
    parts: dict[str, dict[str, list[Found]]] = {run: defaultdict(list) for run in runs}
    for part, run, row in collected:
        parts[run][part].append(json.loads(row))
    return {run: _summary(run, found, tables) for run, found in parts.items()}


def _summary(run: str, found: Mapping[str, list[Found]], tables: Collection[str]) -> Found:
    counts: Found = {"cases_left_out": [], "stalls": 0, "worst_stall_us": 0}
    counts |= dict.fromkeys(("lines", "torn_lines", *_COUNTED), 0)
    counts.update(*found["counts"])
    uplinks = Counter(*found["uplinks"])
    superseded = {row["case"] for row in found["verdicts"] if row["superseded"]}
    verdicts = [row for row in found["verdicts"] if not row["superseded"]]
    findings = [row for row in found["findings"] if row["case"] not in superseded]
    provoked = [row for row in findings if row["provoked"]]
    to_read = [row for row in findings if not row["provoked"]]
    totals = Counter(row["verdict"] for row in verdicts)
    return {
        "schema": SCORE_SCHEMA,
        "run": run,
        "totals": {word: totals[word] for word in VERDICTS},
        "counts": {
            **{name: counts[name] for name in ("lines", "torn_lines", *_COUNTED)},
            "receptions": sum(row["count"] for row in found["agreement"]),
            "repeated": len(superseded),
        },
        "verdicts": _objects(verdicts, _VERDICT, lambda row: (row["begin_us"], row["case"])),
        "confusion": _objects(found["confusion"], ("expected", "observed", "count"), str),
        **_oracle(found["agreement"]),
        "findings": _objects(to_read, _FINDING, _by_place),
        "provoked": _objects(provoked, _FINDING, _by_place),
        "answers": _objects(found["answers"], ("strategy", "confirmed", "answer", "count"), str),
        "dispositions": _objects(found["dispositions"], ("upstream", "count"), str),
        "margins": [_margins(row) for row in sorted(found["margins"], key=lambda row: row["kind"])],
        "lab": [
            {"kind": row["part_kind"], "name": row["part"], **{name: row[name] for name in _LAB}}
            for row in sorted(found["lab"], key=lambda row: (row["part_kind"], row["part"]))
        ],
        "store_calls": _objects(found["store_calls"], _STORE_CALLS, str),
        "ledger": {
            **{name: uplinks[name] for name in _UPLINKS},
            "duplicates": _objects(found["duplicates"], ("born", "died", "count"), str),
        },
        "rows": dict.fromkeys(tables, 0) | {row["table"]: row["count"] for row in found["rows"]},
        "left_out": [{name: case[name] for name in _LEFT_OUT} for case in counts["cases_left_out"]],
        "host": {name: counts[name] or 0 for name in ("stalls", "worst_stall_us")},
    }


def _margins(row: Found) -> Found:
    """The distribution of the margins of one kind ("data" or "join")."""
    names = ("kind", "answers", "disturbed", "late", "late_for_rx1", "from_air")
    said: Found = {name: row[name] for name in names}
    if row["answers"]:
        figures = row["min_us"], *(round(share_us) for share_us in row["shares_us"])
        for window, later_us in (("rx1", 0), ("rx2", RX2_AFTER_RX1_US)):
            said[window] = {
                name: figure + later_us for name, figure in zip(_FIGURES, figures, strict=True)
            }
        said["rx1_ms"] = [[cell["ms"], cell["count"]] for cell in row["counts"]]
        consumed = *row["consumed_shares_us"], row["consumed_max_us"]
        said["consumed"] = dict(zip(_CONSUMED, consumed, strict=True))
    return said


def _oracle(rows: Sequence[Found]) -> Found:
    cells: Counter[tuple[str, str]] = Counter()
    agreement: Counter[str] = Counter()
    unknowable: Counter[str] = Counter()
    for row in rows:
        if row["unknowable"] is not None:
            unknowable[row["unknowable"]] += row["count"]
            continue
        cells[row["oracle_status"], row["observed"]] += row["count"]
        agreement["receptions"] += row["count"]
        for word in ("status", "disposition", "level2"):
            agreement[f"{word}_agree"] += row["count"] * row[f"{word}_agrees"]
    names = ("receptions", "status_agree", "disposition_agree", "level2_agree")
    return {
        "oracle": [
            {"oracle": due, "observed": observed, "count": count}
            for (due, observed), count in sorted(cells.items())
        ],
        "oracle_agreement": {
            **{name: agreement[name] for name in names},
            "unknowable": dict(sorted(unknowable.items())),
        },
    }


def _objects(
    rows: Sequence[Found], names: Sequence[str], order: Callable[[Found], Any]
) -> list[Found]:
    found = [{name: row[name] for name in names} for row in rows]
    return sorted(found, key=order)


def _by_place(row: Found) -> tuple[str, int, str, str]:
    return row["case"] or "", row["t_us"] or 0, row["rule"], row["text"]
