"""How is what the nights have shown kept from one night to the next, here and in the lake?

Whatever is known of them follows from manifests and scores alone; `nights.json` beside the runs
keeps it, so that one night more costs the reading of that one. It may be deleted at any time.
A part of a lab that was sick in three nights running takes no more cases with it: what needs it is
left out with that reason, until `lorabench doctor --bench` has heard it (`lab.json`). The lake
keeps the newest night of a line in plain rows, by table and column.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from bench.capture.reading import content
from bench.capture.run_folder import manifest_of, replace
from bench.lab.inventory import Inventory
from bench.night.morning import SICK_NIGHTS, Line, Night, with_one_more
from bench.night.record import CONCLUSIVE, FAIL, Recorded, record_of
from bench.night.series import Recent, Series
from lns.clock import utc_of_this_host

FILE = "nights.json"
SCHEMA = 1


class Memory(msgspec.Struct, kw_only=True):
    """The lines of a folder of runs; `folded`: the runs in it, with the stamps of their scores.

    `lost`: those whose manifest nobody can read, so that they are of no night.
    """

    schema: int = SCHEMA
    lines: list[Line] = []
    folded: dict[str, tuple[int, int]] = {}
    lost: list[str] = []

    def line(self, key: tuple[str, str, str]) -> Line:
        found = next((line for line in self.lines if line.key == key), None)
        if found is None:
            found = Line(bench=key[0], rig=key[1], line=key[2])
            self.lines.append(found)
        return found


_decode = msgspec.json.Decoder(Memory).decode


def remembered(runs: Path) -> Memory:
    """The memory of a folder of runs, brought up to date; what cannot be read counts for nothing.

    Where a night came late, was scored again, or has one run more than when it was looked at in
    between, everything is read anew: that takes longer.
    """
    path = runs / FILE
    stamps = _stamps(runs)
    memory = _read(path)
    new = [run for run in stamps if memory.folded.get(run) != stamps[run]]
    if any(run in memory.folded for run in new) or _is_late(memory, runs, new):
        gone = _without_folders(memory, stamps)
        memory, new = Memory(), sorted(stamps)
        if gone:
            memory.lines = gone
    memory.lost = [run for run in memory.lost if run in stamps]
    if new:
        _fold(memory, runs, new, stamps)
        with suppress(OSError):  # it is read anew the next time
            replace(path, msgspec.json.encode(memory))
    return memory


def _read(path: Path) -> Memory:
    try:
        found = _decode(content(path))
    except (OSError, ValueError, RecursionError):
        return Memory()
    return found if found.schema == SCHEMA else Memory()


def _stamps(runs: Path) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = {}
    if not runs.is_dir():
        return found
    for folder in sorted(runs.iterdir()):
        for name in ("score.json", "manifest.json"):
            try:
                about = (folder / name).stat()
            except OSError:
                continue
            found[folder.name] = (about.st_size, about.st_mtime_ns)
            break
    return found


def _is_late(memory: Memory, runs: Path, new: Sequence[str]) -> bool:
    newest = max((run for run in memory.folded), default="")
    known = [night.night for line in memory.lines for night in line.nights]
    return any(run < newest or manifest_of(runs / run).get("night") in known for run in new)


def _without_folders(memory: Memory, stamps: Mapping[str, object]) -> list[Line]:
    """What is remembered of nights whose runs somebody has deleted: it cannot be read again."""

    def is_gone(line: Line) -> bool:
        return not any(run.run in stamps for night in line.nights for run in night.runs)

    return [line for line in memory.lines if line.nights and is_gone(line)]


def _fold(
    memory: Memory,
    runs: Path,
    new: Sequence[str],
    stamps: Mapping[str, tuple[int, int]],
) -> None:
    nights: dict[tuple[str, str, str, str], list[Recorded]] = {}
    for run in new:
        memory.folded[run] = stamps[run]
        if (manifest := manifest_of(runs / run)) and manifest.get("night") is None:
            continue
        found = record_of(runs / run)
        if found is None or found.night is None:
            memory.lost.append(run)
        else:
            nights.setdefault((found.bench, found.rig, found.line, found.night), []).append(found)
    for (bench, rig, name, _), recorded in nights.items():
        with_one_more(memory.line((bench, rig, name)), recorded)


SEEN_WELL = "lab.json"
"""Beside the runs: of each bench, when each part was last seen well."""


def sick_parts(runs: Path, inventory: Inventory) -> dict[str, str]:
    """The boards and gateways of a bench that are to be left out, by name, and why.

    A device is known by its DevEUI, a station by the name of a gateway.
    """
    names = {f"device {entry.dev_eui}": entry.name for entry in inventory.devices}
    names |= {f"station {entry.name}": entry.name for entry in inventory.gateways}
    well = _seen_well(runs).get(inventory.name, {})
    nights = _nights(runs, inventory.name)
    found = {}
    for part, name in names.items():
        since = well.get(name, "")
        of_part = [one for one in nights if part in one.lab and one.started > since]
        newest = of_part[-SICK_NIGHTS:]
        if len(newest) == SICK_NIGHTS and all(part in one.sick for one in newest):
            found[name] = f"sick since {_begin_of(part, of_part).night}"
    return found


def note_well(runs: Path, bench: str, names: Iterable[str]) -> None:
    """Remember that these parts of a bench are well now; OSError where that cannot be written."""
    now = f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}"
    seen = _seen_well(runs)
    seen[bench] = {**seen.get(bench, {}), **dict.fromkeys(names, now)}
    runs.mkdir(parents=True, exist_ok=True)
    replace(runs / SEEN_WELL, (json.dumps(seen, indent=2, sort_keys=True) + "\n").encode())


def _nights(runs: Path, bench: str) -> list[Night]:
    lines = (line for line in remembered(runs).lines if line.bench == bench and line.real_time)
    return sorted((n for line in lines for n in line.nights if n.proves), key=lambda n: n.started)


def _begin_of(part: str, nights: list[Night]) -> Night:
    begin = nights[-1]
    for night in reversed(nights):
        if part not in night.sick:
            break
        begin = night
    return begin


def _seen_well(runs: Path) -> dict[str, dict[str, str]]:
    try:
        return _decode_seen(content(runs / SEEN_WELL))
    except (OSError, ValueError, RecursionError):
        return {}


_decode_seen = msgspec.json.Decoder(dict[str, dict[str, str]]).decode


Row = dict[str, Any]


def newest_night(line: Line) -> dict[str, list[Row]]:
    """The rows of trends, changes and comparisons; some say more than their table has columns."""
    night = line.nights[-1]
    tables = {
        "trends": [_trend(case, series, line) for case, series in line.series.items()],
        "changes": [
            msgspec.to_builtins(change) | {"in_run": change.run} for change in night.changes
        ],
        "comparisons": _comparisons(line),
    }
    key = {"bench": line.bench, "rig": line.rig, "line": line.line, "of_night": night.night}
    return {name: [key | row for row in rows] for name, rows in tables.items()}


def main_run(night: Night) -> str:
    """The run of a night under whose name its comparison lies.

    One with a seed of the day only where no other is there any more.
    """
    return max((not run.explores, run.run) for run in night.runs)[1]


def _trend(case: str, series: Series, line: Line) -> Row:
    shown = line.nights[-len(series.strip) :]
    nights, builds = [night.night for night in shown], [night.build for night in shown]
    found = line.recent(series)
    lo, hi = found.interval
    return {
        **msgspec.to_builtins(series), "case": case, "confirmed": series.confirmed,
        "n30": found.n30, "fail30": found.fail30, "flips30": found.flips30, "lo": lo, "hi": hi,
        "nights": nights, "builds": builds, "segments": _segments(found, nights),
    }  # fmt: skip


def _segments(found: Recent, nights: Sequence[str]) -> list[Row]:
    def label(n: int) -> str:
        return nights[found.places[min(n, len(found.places) - 1)]]

    return [
        {
            "since": label(one.begin), "until": label(one.end - 1), "n": one.n,
            "fails": one.fails, "lo": one.interval[0], "hi": one.interval[1],
            "earliest": label(one.earliest), "latest": label(one.latest),
        }
        for one in found.segments
    ]  # fmt: skip


def _comparisons(line: Line) -> list[Row]:
    night = line.nights[-1]
    base = next((one for one in line.nights if one.night == night.baseline), None)
    if base is None or not base.proves:
        return []
    ago = len(line.nights) - 1 - line.nights.index(base)
    of_both = {
        "comparison": f"{base.night}..{night.night}",
        "a_run": main_run(base), "b_run": main_run(night),
        "seed": next((run.seed for run in night.runs if not run.explores), None),
    }  # fmt: skip
    rows = []
    for case, series in line.series.items():
        (a, was), (b, now) = (_shown(series, line, back) for back in (ago, 0))
        if a or b:
            relation = _relation(a, b, same=was == now)
            rows.append({**of_both, "case": case, "a": a, "b": b, "relation": relation,
                         "signature_a": was, "signature_b": now})  # fmt: skip
    return rows


def _shown(series: Series, line: Line, ago: int) -> tuple[str | None, str | None]:
    place = len(series.strip) - 1 - ago
    glyph = series.strip[place] if place >= 0 else ""
    if glyph not in CONCLUSIVE:
        return None, None
    if glyph != FAIL:
        return "PASS", None
    return "FAIL", series.signatures.get(line.nights[-1 - ago].night)


def _relation(a: str | None, b: str | None, *, same: bool) -> str:
    if a is None or b is None:
        return "only b" if a is None else "only a"
    if a != b:
        return "worse" if b == "FAIL" else "better"
    return "same" if same else "fails otherwise"
