"""How do files of real traffic go through the network server, as a run like any other?

`run` reads them (see `conformance`, `campus_iot`), plays each log once for each strategy on virtual
time, and leaves one run folder with one case per log and strategy.
"""

import gc
import gzip
import zlib
from collections.abc import Iterator, Sequence
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO

from bench import clock
from bench.capture import run_folder
from bench.capture.run_folder import Ending, Origin
from bench.traffic import campus_iot, conformance
from bench.traffic.playing import Progress, play
from bench.traffic.recording import Log, TrafficError, TrafficFile
from bench.verdict.case import Case, Title
from lns.capture import Capture
from lns.clock import now_us
from lns.dedup.strategy import Strategy

__all__ = ["TrafficError", "read", "run"]

KNOWN = (conformance.FORMAT, campus_iot.FORMAT)
TEXT_BYTES_MAX = 256 << 20
_GZIP = b"\x1f\x8b"
_HEAD_BYTES = 65_536


def read(
    path: Path,
    *,
    seed: int = 1,
    limit: int | None = None,
    stations: int = 1,
    bytes_max: int = TEXT_BYTES_MAX,
) -> TrafficFile:
    """Read a file of real traffic, whatever its name.

    TrafficError, with the file and the place, where it is cut short, of no known format, longer
    than `bytes_max` (unpacked, if it is compressed), or without a single uplink that can be used;
    OSError where it cannot be opened. A single broken record is left out and told in `left_out`.
    `limit`: at most so many uplinks of the file. `stations`: how many deliver traffic that one
    gateway heard.
    """
    text = _text(path, bytes_max)
    head = text[:_HEAD_BYTES]
    if b'"logs"' in head:
        found = conformance.read(path, text, seed=seed, limit=limit, stations=stations)
    elif b'"devEUI"' in head or b'"rxInfo"' in head:
        found = campus_iot.read(path, text, seed=seed, limit=limit)
    else:
        raise TrafficError(path, "", f"unknown format; known are: {'; '.join(KNOWN)}")
    if not found.logs:
        reason = f"; the first record left out: {found.left_out[0]}" if found.left_out else ""
        raise TrafficError(path, "", f"no uplink that can be used{reason}")
    return found


def _text(path: Path, bytes_max: int) -> bytes:
    with path.open("rb") as file:
        packed = file.read(len(_GZIP)) == _GZIP
        file.seek(0)
        text = _unpacked(path, file, bytes_max) if packed else file.read(bytes_max + 1)
    if len(text) > bytes_max:
        unpacked = " unpacked" if packed else ""
        limit = f"{bytes_max / (1 << 20):g} MiB"
        raise TrafficError(path, "", f"more than {limit}{unpacked}, which is the limit; split it")
    return text


def _unpacked(path: Path, file: BinaryIO, bytes_max: int) -> bytes:
    """At most one octet more than `bytes_max`: a small file may hold terabytes."""
    try:
        with gzip.open(file, "rb") as stream:
            return stream.read(bytes_max + 1)
    except (EOFError, OSError, zlib.error) as error:
        place = f"after {file.tell()} compressed bytes"
        raise TrafficError(path, place, f"the gzip file is cut short or broken: {error}") from error


RIG = "simulated"
GROUP = "imported"
BETWEEN_CASES_US = 1_000_000


def _silent(text: str, done: int = 0, total: int = 0) -> None:
    """Tell nobody."""


def run(
    files: Sequence[Path],
    *,
    runs_dir: Path,
    strategy: str | None,
    seed: int,
    limit: int | None = None,
    stations: int = 1,
    origin: Origin | None = None,
    progress: Progress = _silent,
) -> Path:
    """Play files of real traffic and return the folder of the run.

    `strategy` None: once for each. `limit`: at most so many uplinks of each file. `stations`: how
    many deliver what one gateway heard, each with its own delay. TrafficError where a file cannot
    be used, before anything runs; ValueError for an unknown strategy. Records left out are told to
    `progress` and stand in the manifest.
    """
    strategies = list(Strategy) if strategy is None else [Strategy(strategy)]
    traffic = []
    for file in files:
        progress(f"reading {file.name}")
        traffic.append(read(file, seed=seed, limit=limit, stations=stations))
        if out := traffic[-1].left_out:
            progress(f"{len(out)} record{'s' * (len(out) != 1)} left out, the first: {out[0]}")
    cases = list(_cases(traffic, strategies))
    folder = run_folder.create(
        runs_dir,
        rig=RIG,
        seed=seed,
        started=datetime.now(UTC),  # noqa: TID251 - names the folder, decides nothing
        argv=run_folder.argv_of_this_process(),
        inventory={
            "devices": "recorded",
            "stations": "recorded",
            "traffic": [found.facts() for found in traffic],
        },
        planned=[title.case for _, title in cases],
        origin=origin,
        configuration={"rig": RIG, "limit": limit, "stations": stations},
        notices=list(dict.fromkeys(notice for found in traffic for notice in found.notices)),
    )
    capture = Capture(folder.path, folder.run_id, now_us, buffered=True)
    how, next_us = Ending.STOPPED, 0
    collects = gc.isenabled()
    gc.disable()  # of all that is kept for the verdict nothing is garbage
    try:
        for log, title in cases:
            case = Case(title, capture, rig=RIG)
            playing = play(
                log, case, strategy=Strategy(title.strategy or ""), seed=seed, progress=progress
            )
            _, over_us = clock.run(playing, start_us=next_us)
            next_us = over_us + BETWEEN_CASES_US
        how = Ending.FINISHED
    except KeyboardInterrupt:
        how = Ending.INTERRUPTED
        raise
    finally:
        if collects:
            gc.enable()
        with suppress(OSError) if how is not Ending.FINISHED else nullcontext():
            run_folder.end(folder, capture, how)
    return folder.path


def _cases(
    traffic: Sequence[TrafficFile], strategies: Sequence[Strategy]
) -> Iterator[tuple[Log, Title]]:
    names: set[str] = set()
    for found in traffic:
        for log in found.logs:
            place = "/".join(part for part in (GROUP, found.path.name, log.name) if part)
            number = 1
            while (name := place if number == 1 else f"{place}#{number}") in names:
                number += 1
            names.add(name)
            params = {
                "format": found.file_format,
                "uplinks": str(len(log.uplinks)),
                "receptions": str(log.receptions),
                **{fact: str(count) for fact, count in log.facts.items()},
            }
            for strategy in strategies:
                title = Title(
                    case=f"{name}[{strategy.value}]",
                    scenario=found.path.name,
                    file=found.path.name,
                    group=GROUP,
                    title=log.title,
                    strategy=strategy.value,
                    params=params,
                )
                yield log, title
