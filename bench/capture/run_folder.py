"""Where does a run live, and what does its manifest say?

`runs/20261120T020003Z-7f3a/` holds `manifest.json`, one JSON Lines file per source, and later the
score and the reports. The folder's name is the identity of the run. On the simulated rig the
`run_id` inside the lines depends on rig and seed alone, so that the same seed gives the same
bytes; the wall clock is found in the folder's name and in the manifest only.
"""

import hashlib
import json
import platform
import secrets
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any

from bench.capture.reading import RUN_BEGIN, RUN_END, capture_files, contents_of, stream
from bench.capture.source_tree import (
    catalogue_sha,
    device_under_test,
    git_commit,
    line_of,
    source_code,
    version,
)
from bench.capture.whole_file import replace
from lns.capture import SCHEMA, Capture
from lns.clock import utc_of_this_host
from lns.server.address import without_login

DISTRIBUTIONS = (
    "lorabench", "pyspark", "cryptography", "msgspec", "paho-mqtt", "pyserial", "pytest", "redis",
    "websockets",
)  # fmt: skip
MANIFEST = "manifest.json"
BENCH = "bench"


class Ending(StrEnum):
    """How a run ended that had the time to say so; one that was killed had not."""

    FINISHED = "finished"
    INTERRUPTED = "interrupted"
    STOPPED = "stopped"
    REFUSED = "refused"


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """What a run is part of, and what it tests, as far as somebody has said.

    `night`: the name of the night, which all its runs share. `line`: what is tested from night to
    night, such as `lns@main`. `dut`: a server that is not of this tree, as NAME@VERSION+COMMIT.
    `part`: what was chosen of the catalogue, "" for all of it. `explores`: its seed is another one
    each night.
    """

    night: str | None = None
    line: str | None = None
    dut: str | None = None
    part: str = ""
    explores: bool = False


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk; `path` exists. `planned`: the cases that it is to play."""

    path: Path
    run_id: str
    planned: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        """The name that identifies the run in lake and reports."""
        return self.path.name


def create(
    runs_dir: Path,
    *,
    rig: str,
    seed: int,
    started: datetime,
    argv: list[str],
    inventory: dict[str, object],
    planned: Iterable[str] = (),
    notices: list[str] | None = None,
    origin: Origin | None = None,
    configuration: Mapping[str, object] | None = None,
) -> RunFolder:
    """Create the folder of a new run and write its manifest; OSError where that cannot be.

    `configuration` is how the server under test was set; the manifest has a hash of it, as it has
    of catalogue and inventory.
    """
    origin = origin or Origin()
    run_id = _run_id(rig, seed)
    path = _new_folder(runs_dir, f"{started:%Y%m%dT%H%M%SZ}-{run_id[:4]}")
    run = RunFolder(path, run_id, tuple(planned))
    manifest: dict[str, Any] = {
        "schema": SCHEMA,
        "run_id": run_id,
        "seed": seed,
        "rig": rig,
        "started": _wall_clock(started),
        "host": platform.node(),
        "git_commit": git_commit(),
        **_origin(origin, configuration or {}),
        "catalogue_sha": catalogue_sha(),
        "inventory_sha": _sha(inventory),
        "versions": {"python": platform.python_version(), **_versions()},
        "inventory": inventory,
        "argv": argv,
        "notices": notices or [],
        "planned": list(run.planned),
    }
    try:
        _write(path / MANIFEST, manifest)
    except OSError:
        (path / MANIFEST).unlink(missing_ok=True)
        path.rmdir()
        raise
    return run


def _origin(origin: Origin, configuration: Mapping[str, object]) -> dict[str, Any]:
    dut = {**device_under_test(origin.dut), "configuration": _sha(configuration)}
    said: dict[str, Any] = {"night": origin.night} if origin.night is not None else {}
    said |= {"line": origin.line or line_of(dut["name"]), "dut": dut, "bench_code": source_code()}
    said |= {"part": origin.part} if origin.part else {}
    return said | ({"explores": True} if origin.explores else {})


def _sha(facts: Mapping[str, object]) -> str:
    text = json.dumps(facts, sort_keys=True, default=str)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def refuse(run: RunFolder, reason: str) -> None:
    """Write into the manifest that a run could not even begin, and why; it has no capture.

    OSError where that cannot be written.
    """
    manifest: dict[str, Any] = json.loads((run.path / MANIFEST).read_text("utf-8"))
    ended = {"how": Ending.REFUSED, "reason": reason, "at": _wall_clock(utc_of_this_host())}
    _write(run.path / MANIFEST, {**manifest, "ended": ended})


def begin(run: RunFolder, capture: Capture) -> None:
    """Write the first line of a run: that it begins, and how many cases it is to play."""
    capture.record(BENCH, RUN_BEGIN, {"planned": len(run.planned)})
    capture.flush()


def end(run: RunFolder, capture: Capture, how: Ending, *, reason: str = "") -> None:
    """Write the last line of a run, close its capture, and put its books into the manifest.

    The books are how many lines each stream has and a SHA-256 of its content. OSError where they
    cannot be written: then the run did not end, for whoever reads it.
    """
    told = {"how": how, **({"reason": reason} if reason else {})}
    capture.record(BENCH, RUN_END, dict(told), t_us=capture.latest_us)
    capture.close()
    manifest: dict[str, Any] = json.loads((run.path / MANIFEST).read_text("utf-8"))
    streams = {stream(path): _book(path) for path in capture_files(run.path)}
    ended = {**told, "at": _wall_clock(utc_of_this_host())}
    _write(run.path / MANIFEST, {**manifest, "ended": ended, "streams": streams})


def _book(path: Path) -> dict[str, object]:
    digest, lines = hashlib.sha256(), 0
    for block in contents_of(path):
        digest.update(block)
        lines += block.count(b"\n")
    return {"lines": lines, "sha256": digest.hexdigest()}


def _write(path: Path, manifest: dict[str, Any]) -> None:
    """Put a manifest in its place, whole or not at all."""
    replace(path, (json.dumps(manifest, indent=2) + "\n").encode())


def _wall_clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def latest(runs_dir: Path) -> Path | None:
    """The newest run below `runs_dir` that began, by name; None when there is none."""
    runs = [path for path in runs_dir.glob("*") if (path / "manifest.json").is_file()]
    begun = (run for run in sorted(runs, key=_age, reverse=True) if not _was_refused(run))
    return next(begun, None)


def _was_refused(run: Path) -> bool:
    try:
        manifest = json.loads((run / MANIFEST).read_text("utf-8"))
        return bool(manifest["ended"]["how"] == Ending.REFUSED)
    except (OSError, ValueError, LookupError, TypeError):
        return False


def _age(run: Path) -> tuple[str, int]:
    """A name in order of time; runs of one second and one `run_id` are numbered from 2."""
    stamp, _, rest = run.name.partition("-")
    run_id, _, number = rest.partition("-")
    return f"{stamp}-{run_id}", int(number) if number.isdecimal() else 1


def _run_id(rig: str, seed: int) -> str:
    if rig != "simulated":
        return secrets.token_hex(4)  # noqa: TID251 - a run on real time is like no other
    return hashlib.blake2b(f"{rig}|{seed}".encode(), digest_size=4).hexdigest()


def _new_folder(runs_dir: Path, name: str) -> Path:
    for attempt in range(1, 1000):
        path = runs_dir / (name if attempt == 1 else f"{name}-{attempt}")
        try:
            path.mkdir(parents=True)
        except FileExistsError:
            continue
        return path
    raise FileExistsError(f"{runs_dir / name}: too many runs in the same second")


def _versions() -> dict[str, str]:
    return {name: version(name) for name in DISTRIBUTIONS}


def argv_of_this_process() -> list[str]:
    """The command line of this process, as a person would type it again; no login of a URL."""
    program = Path(sys.argv[0])
    if program.name in ("__main__.py", ""):  # python -m bench, python -m pytest
        program = program.parent
    name = {"bench": "lorabench", "": "pytest"}.get(program.name, program.name)
    return [name, *map(without_login, sys.argv[1:])]
