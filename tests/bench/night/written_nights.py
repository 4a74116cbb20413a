"""Nights as they lie on the disk: a manifest and a score for each run, without the captures."""

import json
from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from typing import Any

FIRST = date(2026, 9, 1)
Outcome = str | tuple[str, str]
"""A verdict; of a failure also what was observed, which is another signature if it differs."""


def night_of(number: int) -> str:
    """The name of a night, counted from 0."""
    return (FIRST + timedelta(days=number)).isoformat()


def write_night(
    runs: Path,
    number: int,
    outcomes: Mapping[str, Outcome],
    *,
    rig: str = "emulated",
    build: str | None = None,
    **more: Any,
) -> Path:
    """Write the run of one night; the build is another one each night unless it is said."""
    stamp = night_of(number).replace("-", "")
    folder = runs / f"{stamp}T{more.get('time', '020000')}Z-{more.get('seed', 1):04x}"
    folder.mkdir(parents=True)
    commit = build or f"{number:08x}".ljust(40, "0")
    manifest = {
        "schema": 1, "seed": more.get("seed", 1), "rig": rig, "line": more.get("line", "lns@main"),
        "started": f"{night_of(number)}T02:00:00Z", "host": "lab-pc",
        "dut": {"name": "lns", "version": "0.1.0", "commit": commit, "dirty": False,
                **more.get("dut", {})},
        "bench_code": {"commit": "b" * 40, "dirty": False}, "catalogue_sha": "cafe",
        "inventory": {"devices": "virtual", "name": more.get("bench", "")},
        "planned": sorted(outcomes), "part": more.get("part", ""), "versions": {"python": "3.11"},
        "streams": {"bench": {"lines": 1, "sha256": more.get("content", "same")}},
    }  # fmt: skip
    manifest |= {"night": night_of(number)} if more.get("is_night", True) else {}
    manifest |= {"explores": True} if more.get("explores") else {}
    if more.get("ended", True):
        manifest["ended"] = {"how": "finished", "at": f"{night_of(number)}T02:20:00Z"}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    if more.get("scored", True):
        (folder / "score.json").write_text(json.dumps(score(folder.name, outcomes, rig, more)))
    return folder


def score(run: str, outcomes: Mapping[str, Outcome], rig: str, more: Mapping[str, Any]) -> Any:
    """A score with these verdicts."""
    verdicts, findings = [], []
    for case, outcome in outcomes.items():
        word, seen = outcome if isinstance(outcome, tuple) else (outcome, "SoftDuplicate")
        failed = word == "FAIL"
        text = f"{case}: expected Duplicate, observed {seen}"
        verdicts.append(
            {
                "case": case, "scenario": f"test_{case}", "file": "scenarios/test_x.py",
                "group": "x", "title": case, "strategy": "Drop", "confirmed": True,
                "verdict": "PASS" if word == "REPEAT" else word,
                "attempt": 2 if word == "REPEAT" else 1,
                "reasons": [] if word in ("PASS", "REPEAT") else [text],
                "owner": "LNS" if failed else None, "begin_us": 0, "end_us": 5_000_000,
                "receptions": 2,
            }
        )  # fmt: skip
        if failed:
            findings.append(
                {"case": case, "owner": "LNS", "rule": "expectation", "expected": "Duplicate",
                 "observed": seen, "text": text, "frame_id": None, "station": None, "n": 1,
                 "t_us": 1_000_000}
            )  # fmt: skip
    words = ("PASS", "FAIL", "INCONCLUSIVE", "ERROR")
    totals = {word: sum(v["verdict"] == word for v in verdicts) for word in words}
    whole = more.get("whole", True)
    return {
        "schema": 1, "run": run, "rig": rig, "seed": 1, "totals": totals, "verdicts": verdicts,
        "findings": findings,
        "left_out": [
            {"case": case, "scenario": "test_x", "file": "scenarios/test_x.py", "group": "x",
             "title": case, "missing": ["attenuator"]}
            for case in more.get("left_out", ())
        ],
        "margins": [margins(kind, *figures) for kind, figures in more.get("margins", {}).items()],
        "lab": [
            {"kind": kind, "name": name, "opportunities": whole_n, "missed": missed}
            for (kind, name), (missed, whole_n) in more.get("lab", {}).items()
        ],
        "wholeness": {"whole": whole, "sentence": "" if whole else "incomplete: killed at case 3"},
    }  # fmt: skip


def margins(kind: str, p50_us: int, p99_us: int, late: int = 0) -> dict[str, Any]:
    rx1 = {"min_us": 900_000, "p1_us": 1_000_000 - p99_us, "p50_us": 1_000_000 - p50_us,
           "p99_us": 999_000}  # fmt: skip
    consumed = {"p50_us": p50_us, "p95_us": p99_us, "p99_us": p99_us, "max_us": p99_us}
    return {"kind": kind, "answers": 100, "late": late, "rx1": rx1, "consumed": consumed}
