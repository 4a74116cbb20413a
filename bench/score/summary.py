"""What do the scores of a run say in short? The content of score.json, one object per run."""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from bench.score.ledger import of_duplicates, of_uplinks
from bench.score.margins import RX2_AFTER_RX1_US, of_run
from bench.score.outcomes import told
from bench.score.scores import confusion
from bench.score.stalls import STALL_US_MAX

SCHEMA = 1
Found = dict[str, Any]
_ONE_A_RUN = ("counts", "receptions", "uplinks")
VERDICTS = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")
_FINDING = (
    "case", "owner", "rule", "frame_id", "station", "n", "expected", "observed", "t_us", "text",
)  # fmt: skip
_VERDICT = (
    "case", "scenario", "file", "group", "title", "strategy", "confirmed", "verdict", "reasons",
    "owner", "attempt", "begin_us", "end_us", "receptions",
)  # fmt: skip
_FIGURES = ("min_us", "p1_us", "p50_us", "p99_us")
_LEFT_OUT = ("case", "scenario", "file", "group", "title", "missing")
_STORE_CALLS = ("strategy", "status", "uplinks", "receptions", "asked")
_UPLINKS = ("uplinks", "delivered", "consumed", "once", "copies", "more", "never")
_COUNTED = {
    "outcomes": "lns.outcome",
    "transmissions": "radio.transmit",
    "evicted": "lns.evicted",
    "deliveries": "upstream.published",
    "left_out": "case.left_out",
}


@dataclass(frozen=True, slots=True)
class Tables:
    """The tables that a score is made of, as Spark left them."""

    lines: DataFrame
    judged: DataFrame
    outcomes: DataFrame
    expectations: DataFrame
    scores: DataFrame
    answers: DataFrame
    verdicts: DataFrame
    findings: DataFrame
    margins: DataFrame
    store_calls: DataFrame
    accounts: DataFrame
    ledger: DataFrame


def summaries(
    tables: Tables,
    into_lake: Mapping[str, DataFrame],
    runs: Sequence[str],
    collect: Callable[[str, DataFrame], list[Row]],
) -> dict[str, dict[str, Any]]:
    """The scores of each run by its name, but for `spark`, wholeness and what the manifest says.

    `rows` are those of each table of the lake. All that they are made of is collected at once.
    """
    parts = {
        "counts": _counts(tables.lines),
        "receptions": _receptions(tables.judged),
        "agreement": _agreement(tables.judged),
        "verdicts": tables.verdicts,
        "findings": tables.findings,
        "confusion": confusion(tables.scores),
        "answers": tables.answers,
        "margins": of_run(tables.margins),
        "asked": tables.store_calls,
        "uplinks": of_uplinks(tables.accounts),
        "duplicates": of_duplicates(tables.ledger),
        "rows": reduce(
            DataFrame.unionAll,
            (
                table.groupBy("run").agg(F.lit(name).alias("table"), F.count("*").alias("count"))
                for name, table in into_lake.items()
            ),
        ),
    }
    as_text = [
        part.select(
            F.lit(name).alias("part"),
            "run",
            F.to_json(F.struct("*"), {"ignoreNullFields": "false"}).alias("row"),
        )
        for name, part in parts.items()
    ]
    by_run: dict[str, dict[str, list[Found]]] = {name: {} for name in parts}
    for part, run, row in collect("summary", reduce(DataFrame.unionAll, as_text)):
        by_run[part].setdefault(run, []).append(json.loads(row))
    found = {name: {run: rows[0] for run, rows in by_run[name].items()} for name in _ONE_A_RUN}
    counts, uplinks = found["counts"], found["uplinks"]
    heard = {run: row["receptions"] for run, row in found["receptions"].items()}
    of_all_cases = [row for rows in by_run["verdicts"].values() for row in rows]
    superseded = {(row["run"], row["case"]) for row in of_all_cases if row["superseded"]}
    verdicts = {
        run: [row for row in rows if not row["superseded"]]
        for run, rows in by_run["verdicts"].items()
    }
    findings = {
        run: [row for row in rows if (run, row["case"]) not in superseded]
        for run, rows in by_run["findings"].items()
    }
    agreements, confusions = by_run["agreement"], by_run["confusion"]
    answers, margins, asked = by_run["answers"], by_run["margins"], by_run["asked"]
    duplicates = by_run["duplicates"]
    rows_of = {
        run: {row["table"]: row["count"] for row in rows} for run, rows in by_run["rows"].items()
    }
    return {
        run: {
            "schema": SCHEMA,
            "run": run,
            "totals": _totals(verdicts.get(run, [])),
            "counts": {
                **_counted(counts.get(run)),
                "receptions": heard.get(run, 0),
                "repeated": sum(of == run for of, _ in superseded),
            },
            "verdicts": _objects(sorted(verdicts.get(run, []), key=_by_time), _VERDICT),
            "confusion": sorted(
                (
                    {
                        "expected": row["due_status"],
                        "observed": row["observed_status"],
                        "count": row["count"],
                    }
                    for row in confusions.get(run, [])
                ),
                key=str,
            ),
            **_oracle(agreements.get(run, [])),
            "findings": _objects(sorted(findings.get(run, []), key=_by_place), _FINDING),
            "answers": sorted(
                _objects(answers.get(run, []), ("strategy", "confirmed", "answer", "count")),
                key=str,
            ),
            "margins": [_margins(row) for row in sorted(margins.get(run, []), key=_by_kind)],
            "store_calls": sorted(_objects(asked.get(run, []), _STORE_CALLS), key=str),
            "ledger": {
                **{name: uplinks[run][name] if run in uplinks else 0 for name in _UPLINKS},
                "duplicates": sorted(
                    _objects(duplicates.get(run, []), ("born", "died", "count")), key=str
                ),
            },
            "rows": {name: rows_of.get(run, {}).get(name, 0) for name in into_lake},
            "left_out": _left_out(counts.get(run)),
            "host": _host(counts.get(run)),
        }
        for run in runs
    }


def _counts(lines: DataFrame) -> DataFrame:
    of_kind = [F.count(F.when(F.col("kind") == k, 1)).alias(name) for name, k in _COUNTED.items()]
    facts = (F.col(name if name == "case" else f"rest.{name}") for name in _LEFT_OUT)
    left_out = F.when(F.col("kind") == "case.left_out", F.struct("seq", *facts))
    return (
        lines.groupBy("run")
        .agg(
            F.sort_array(F.collect_list(left_out)).alias("cases_left_out"),
            F.count("*").alias("lines"),
            F.count("torn").alias("torn_lines"),
            F.max("rest.run_id").alias("run_id"),
            F.max("rest.late_us").alias("worst_stall_us"),
            F.count(F.when(F.col("rest.late_us") > STALL_US_MAX, 1)).alias("stalls"),
            *of_kind,
        )
        .select(
            "run", "run_id", "cases_left_out", "worst_stall_us", "stalls", "lines", "torn_lines",
            *_COUNTED,
        )
    )  # fmt: skip


def _left_out(row: Found | None) -> list[dict[str, Any]]:
    """The cases that the rig could not play, in order, and what it lacks for each."""
    return _objects(row["cases_left_out"] if row is not None else [], _LEFT_OUT)


def _host(row: Found | None) -> dict[str, int]:
    """How often the host stalled for too long, and its worst stall of any length, in µs."""
    names = ("stalls", "worst_stall_us")
    return {name: (row[name] or 0) if row is not None else 0 for name in names}


def _margins(row: Found) -> dict[str, Any]:
    """The distribution of the margins of one kind ("data" or "join")."""
    names = ("answers", "disturbed", "late", "late_for_rx1", "from_air")
    told = {"kind": row["kind"], **{name: row[name] for name in names}}
    if row["answers"]:
        figures = row["min_us"], *(round(share_us) for share_us in row["shares_us"])
        for window, later_us in (("rx1", 0), ("rx2", RX2_AFTER_RX1_US)):
            told[window] = {
                name: figure + later_us for name, figure in zip(_FIGURES, figures, strict=True)
            }
        told["rx1_ms"] = [[cell["ms"], cell["count"]] for cell in row["counts"]]
    return told


def _receptions(judged: DataFrame) -> DataFrame:
    return judged.groupBy("run").agg(F.count("*").alias("receptions")).select("run", "receptions")


def _agreement(judged: DataFrame) -> DataFrame:
    """How often the oracle and the network server agree, by the words of both."""
    key = (
        "run", "unknowable", "oracle_status", "observed",
        "status_agrees", "disposition_agrees", "level2_agrees",
    )  # fmt: skip
    return (
        judged.withColumn("observed", F.coalesce(told("status"), F.lit("missing")))
        .groupBy(*key)
        .count()
        .select(*key, "count")
    )


def _oracle(rows: Sequence[Found]) -> dict[str, Any]:
    known = [row for row in rows if row["unknowable"] is None]
    cells: dict[tuple[str, str], int] = {}
    reasons: dict[str, int] = {}
    for row in known:
        cell = row["oracle_status"], row["observed"]
        cells[cell] = cells.get(cell, 0) + row["count"]
    for row in rows:
        if row["unknowable"] is not None:
            reasons[row["unknowable"]] = reasons.get(row["unknowable"], 0) + row["count"]
    return {
        "oracle": [
            {"oracle": due, "observed": observed, "count": count}
            for (due, observed), count in sorted(cells.items())
        ],
        "oracle_agreement": {
            "receptions": sum(row["count"] for row in known),
            "status_agree": sum(row["count"] for row in known if row["status_agrees"]),
            "disposition_agree": sum(row["count"] for row in known if row["disposition_agrees"]),
            "level2_agree": sum(row["count"] for row in known if row["level2_agrees"]),
            "unknowable": dict(sorted(reasons.items())),
        },
    }


def _counted(row: Found | None) -> dict[str, int]:
    names = ("lines", "torn_lines", *_COUNTED)
    return {name: row[name] if row is not None else 0 for name in names}


def _totals(rows: Sequence[Found]) -> dict[str, int]:
    return {word: sum(row["verdict"] == word for row in rows) for word in VERDICTS}


def _objects(rows: Sequence[Found], names: Sequence[str]) -> list[dict[str, Any]]:
    return [{name: row[name] for name in names} for row in rows]


def _by_time(row: Found) -> tuple[int, str]:
    return row["begin_us"], row["case"]


def _by_kind(row: Found) -> str:
    return str(row["kind"])


def _by_place(row: Found) -> tuple[str, int, str, str]:
    return row["case"] or "", row["t_us"] or 0, row["rule"], row["text"]
