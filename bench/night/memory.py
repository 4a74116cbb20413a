"""How is what the nights have shown kept, here and in the lake, and who is told of it?

Whatever is known of them follows from manifests and scores alone; `nights.json` beside the runs
keeps it, so that one night more costs the reading of that one. It may be deleted at any time.
A part of a lab that was sick in three nights running takes no more cases with it: what needs it is
left out with that reason, until `lorabench doctor --bench` has heard it (`lab.json`). The lake
keeps the newest night of a line in plain rows, by table and column.

That the runs fit on the disk of a lab PC, the captures of old ones are compressed where they lie;
whatever reads a capture reads both forms. Scores, reports and manifest stay as they are, and the
manifest says what was done. Nothing is ever deleted but a file whose compressed form was read back
and found equal.
"""

import asyncio
import base64
import gzip
import json
import os
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO
from urllib.parse import unquote, urlsplit

import msgspec

from bench.capture.reading import CAPTURE, COMPRESSED, content
from bench.capture.run_folder import manifest_of, replace, replacing
from bench.lab.inventory import Inventory
from bench.lab.inventory.sections import ReportSection
from bench.night.morning import SICK_NIGHTS, Line, Night, with_one_more
from bench.night.record import CONCLUSIVE, FAIL, Recorded, record_of
from bench.night.series import Recent, Series
from lns.clock import utc_of_this_host
from lns.delivery.mqtt_session import BrokerLost, broker, post
from lns.server.address import without_login

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
    memory: Memory, runs: Path, new: Sequence[str], stamps: Mapping[str, tuple[int, int]]
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


MANIFEST = "manifest.json"
_NIGHT = re.compile(r"(\d{8})T\d{6}Z-")
_BLOCK_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class Compacted:
    """One run whose captures were compressed; `trouble` is what kept the rest from it."""

    run: Path
    files: int
    before_bytes: int
    after_bytes: int
    trouble: str | None = None

    def __str__(self) -> str:
        sizes = f"{_megabytes(self.before_bytes)} to {_megabytes(self.after_bytes)}"
        many = f"{self.files} capture file{'' if self.files == 1 else 's'}"
        line = f"{self.run.name}: {many} compressed, {sizes}; nothing deleted"
        return line if self.trouble is None else f"{line}; then {self.trouble}"


def compact_runs(runs: Path, *, nights_kept: int) -> Iterator[Compacted]:
    """Compress the captures of all runs older than the newest nights, the oldest first.

    A run that is compressed already is passed over. Trouble with one, such as a full disk, ends it
    and is told; every file is whole in one form or the other at any time.
    """
    for run in old_runs(runs, nights_kept=nights_kept):
        done = compact(run)
        if done.files or done.trouble is not None:
            yield done


def old_runs(runs: Path, *, nights_kept: int) -> list[Path]:
    """The runs of all but the newest nights, oldest first; a run without a date is none of them.

    A night is the date at the head of a run's name, and counts when it has a run.
    """
    if not runs.is_dir():
        return []
    dated = sorted(
        (found[1], folder)
        for folder in runs.iterdir()
        if (found := _NIGHT.match(folder.name)) and (folder / MANIFEST).is_file()
    )
    newest = sorted({night for night, _ in dated})[-nights_kept:] if nights_kept > 0 else []
    return [folder for night, folder in dated if night not in newest]


def compact(run: Path) -> Compacted:
    """Compress the captures of one run, and write into its manifest what they were."""
    packed: dict[str, int] = {}
    after_bytes, trouble = 0, None
    try:
        for path in sorted(filter(Path.is_file, run.glob(f"*{CAPTURE}"))):
            before_bytes = path.stat().st_size
            after_bytes += _compress(path)
            packed[path.name] = before_bytes
    except OSError as error:
        trouble = f"stopped: {error.strerror or error}"
    try:
        if packed:
            _note(run / MANIFEST, packed)
    except OSError as error:
        trouble = trouble or f"its manifest could not be written: {error.strerror or error}"
    return Compacted(run, len(packed), sum(packed.values()), after_bytes, trouble)


def _compress(path: Path) -> int:
    packed = path.with_name(f"{path.name}{COMPRESSED}")
    with path.open("rb") as plain, replacing(packed) as file:
        # No name and no time inside: the same capture always gives the same bytes.
        with gzip.GzipFile(filename="", mode="wb", fileobj=file, mtime=0) as into:
            shutil.copyfileobj(plain, into, _BLOCK_BYTES)
        file.flush()
        os.fsync(file.fileno())
        after_bytes = file.tell()
        if not _is_same(path, file):
            raise OSError(f"{path.name} changed while it was compressed")
    path.unlink()
    return after_bytes


def _is_same(plain: Path, packed: BinaryIO) -> bool:
    packed.seek(0)
    with plain.open("rb") as one, gzip.open(packed, "rb") as other:
        while block := one.read(_BLOCK_BYTES):
            if other.read(len(block)) != block:
                return False
        return not other.read(1)


def _note(manifest: Path, packed: dict[str, int]) -> None:
    said: dict[str, Any] = json.loads(manifest.read_text(encoding="utf-8"))
    before = said.get("compacted", {}).get("files", {})
    said["compacted"] = {
        "at": f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}",
        "files": {**before, **packed},
    }
    replace(manifest, (json.dumps(said, indent=2) + "\n").encode())


def _megabytes(size: int) -> str:
    return f"{size / 1e6:.1f} MB"


# A broker, on a topic of the bench, and a web hook. Neither can change how the night went: whatever
# goes wrong here is a line for the person who reads the log. URLs may hold passwords or tokens; of
# them nothing but scheme and host is ever shown.
LIMIT_US = 10_000_000


def topic(bench: str) -> str:
    return f"lorabench/{bench}/night"


def publish(
    report_to: ReportSection, bench: str, summary: Mapping[str, object], *, limit_us: int = LIMIT_US
) -> list[str]:
    """Tell everybody who is to be told; a line on each."""
    body = json.dumps(summary, ensure_ascii=False).encode()
    lines = []
    if report_to.mqtt is not None:
        lines.append(_publish(report_to.mqtt, topic(bench), body, limit_us))
    if report_to.webhook is not None:
        lines.append(_post(report_to.webhook, body, limit_us))
    return lines


def _publish(url: str, where: str, body: bytes, limit_us: int) -> str:
    async def posted() -> None:
        async with asyncio.timeout(limit_us / 1_000_000):
            await post(broker(url), where, body)

    try:
        asyncio.run(posted())
    except (BrokerLost, TimeoutError, ValueError, OSError) as error:
        why = str(error) or "no answer in time"
        return f"The summary was not published to {_place_of(url)}: {why}."
    return f"The summary is published to {_place_of(url)}, topic {where}."


def _post(url: str, body: bytes, limit_us: int) -> str:
    request = urllib.request.Request(
        without_login(url), data=body, headers=_headers(url), method="POST"
    )
    try:
        with urllib.request.urlopen(request, timeout=limit_us / 1_000_000):
            return f"The summary is posted to {_place_of(url)}."
    except urllib.error.HTTPError as error:
        error.close()
        why = f"it answers {error.code} {error.reason}"
    except (OSError, ValueError) as error:
        reason = error.reason if isinstance(error, urllib.error.URLError) else error
        why = str(reason) or "no answer in time"
    return f"The summary was not posted to {_place_of(url)}: {why}."


def _headers(url: str) -> dict[str, str]:
    """What a web hook is told besides: the login of its URL, which is no part of an address."""
    headers = {"Content-Type": "application/json"}
    parts = urlsplit(url)
    if parts.username is not None:
        login = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["Authorization"] = f"Basic {base64.b64encode(login.encode()).decode()}"
    return headers


def _place_of(url: str) -> str:
    """Scheme and host of a URL, and its port: neither login nor path, which may be secret."""
    parts = urlsplit(url)
    host = parts.hostname or "?"
    port = f":{parts.port}" if parts.port is not None else ""
    return f"{parts.scheme}://{f'[{host}]' if ':' in host else host}{port}"
