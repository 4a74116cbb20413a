"""Where does a run live, and what does its manifest say?

`runs/20261120T020003Z-7f3a/` holds `manifest.json`, one JSON Lines file per source, and later the
score and the reports. The folder's name is the identity of the run. On the simulated rig the
`run_id` inside the lines depends on rig and seed alone, so that the same seed gives the same
bytes; the wall clock is found in the folder's name and in the manifest only.
"""

import hashlib
import json
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

from bench.capture.reading import (
    RUN_BEGIN,
    RUN_END,
    Event,
    capture_files,
    content,
    contents_of,
    of_kinds,
    stream,
)
from lns.capture import SCHEMA, Capture, naming
from lns.clock import utc_of_this_host
from lns.server.address import without_login

PROGRAM = "lorabench"
UNKNOWN = "unknown"
SERVER = "lns"
_CODE = ("lns", "bench", "scenarios")
_SCENARIOS = "scenarios"
_BRANCH_OF_JOB = ("GITHUB_REF_NAME", "CI_COMMIT_REF_NAME")
_PATIENCE_S = 20


def device_under_test(named: str | None = None) -> dict[str, object]:
    """The network server under test, as a manifest has it: name, version, commit, dirty.

    `named`, as NAME, NAME@VERSION or NAME@VERSION+COMMIT, is another one than that of this tree.
    """
    if named is None:
        return {"name": SERVER, "version": version(PROGRAM), **source_code()}
    name, _, rest = named.partition("@")
    release, _, commit = rest.partition("+")
    return {"name": name, "version": release or UNKNOWN, "commit": commit or UNKNOWN, "dirty": None}


def source_code() -> dict[str, object]:
    """The commit of this tree, and whether it is `dirty`: None where there is no git to ask.

    `difference` is a hash of what differs from the commit, files that git does not know included.
    """
    commit = git_commit(short=False)
    difference = None if commit == UNKNOWN else _difference()
    return {
        "commit": commit,
        "dirty": None if commit == UNKNOWN else difference is not None,
        **({"difference": difference} if difference is not None else {}),
    }


def line_of(dut: object) -> str:
    """What is tested, for all nights to come: the server of this tree by its branch, else its name.

    A build job has a commit checked out and no branch; then the environment of the job says it.
    """
    if dut != SERVER:
        return str(dut)
    found = (_git("rev-parse", "--abbrev-ref", "HEAD") or b"").decode().strip()
    named = (os.environ.get(name, "") for name in _BRANCH_OF_JOB)
    branch = found if found not in ("", "HEAD") else next(filter(None, named), "")
    return f"{SERVER}@{branch}" if branch else SERVER


@cache
def catalogue_sha() -> str:
    """A hash of all scenarios, as they lie on the disk."""
    digest = hashlib.blake2b(digest_size=8)
    for path in sorted((_root() / _SCENARIOS).rglob("*.py")):
        digest.update(path.name.encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.hexdigest()


@cache
def git_commit(*, short: bool = True) -> str:
    """The commit of this source tree; "unknown" where there is no git to ask."""
    found = _git("rev-parse", *(["--short=12"] if short else []), "HEAD")
    return UNKNOWN if found is None else found.decode().strip()


def version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        return "not installed"


def _difference() -> str | None:
    changed = _git("diff", "--no-ext-diff", "--binary", "HEAD", "--", *_CODE)
    strange = _git("ls-files", "--others", "--exclude-standard", "-z", "--", *_CODE)
    if not changed and not strange:
        return None
    digest = hashlib.blake2b(changed or b"", digest_size=8)
    for name in sorted(filter(None, (strange or b"").split(b"\0"))):
        path = _root() / name.decode(errors="surrogateescape")
        digest.update(b"\0" + name + b"\0" + (path.read_bytes() if path.is_file() else b""))
    return digest.hexdigest()


def _git(*words: str) -> bytes | None:
    if not (_root() / ".git").exists():  # installed, perhaps in the repository of somebody else
        return None
    command = ("git", "-C", str(_root()), *words)
    try:
        done = subprocess.run(command, capture_output=True, check=True, timeout=_PATIENCE_S)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout


def _root() -> Path:
    return Path(__file__).resolve().parent.parent.parent


# A run folder may come from somewhere else, with links in it. What is written takes the place of a
# link; nothing is ever written through one.
@contextmanager
def replacing(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends; OSError.

    What was there before stays as it is when the block ends with an error.
    """
    # In the same folder, or the rename would not be atomic.
    aside = path.with_name(f".{path.name}.{os.getpid()}.unfinished")
    aside.unlink(missing_ok=True)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        with naming(path), open(os.open(aside, flags, 0o666), "w+b") as file:
            yield file
        aside.replace(path)
    finally:
        aside.unlink(missing_ok=True)


def replace(path: Path, content: bytes) -> None:
    """Put a whole file in the place of `path`; OSError."""
    with replacing(path) as file:
        file.write(content)


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
        "versions": {
            "python": platform.python_version(),
            **{name: version(name) for name in DISTRIBUTIONS},
        },
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
    end = {"how": how, **({"reason": reason} if reason else {})}
    with closing(capture):
        capture.record(BENCH, RUN_END, dict(end), t_us=capture.latest_us)
    manifest: dict[str, Any] = json.loads((run.path / MANIFEST).read_text("utf-8"))
    streams = {stream(path): _book(path) for path in capture_files(run.path)}
    ended = {**end, "at": _wall_clock(utc_of_this_host())}
    _write(run.path / MANIFEST, {**manifest, "ended": ended, "streams": streams})


def _book(path: Path) -> dict[str, object]:
    digest, lines = hashlib.sha256(), 0
    for block in contents_of(path):
        digest.update(block)
        lines += block.count(b"\n")
    return {"lines": lines, "sha256": digest.hexdigest()}


def _write(path: Path, manifest: dict[str, Any]) -> None:
    replace(path, (json.dumps(manifest, indent=2) + "\n").encode())


def _wall_clock(moment: datetime) -> str:
    return f"{moment:%Y-%m-%dT%H:%M:%SZ}"


def latest(runs_dir: Path) -> Path | None:
    """The newest run below `runs_dir` that began, by name; None when there is none."""
    runs = [path for path in runs_dir.glob("*") if (path / "manifest.json").is_file()]
    begun = (run for run in sorted(runs, key=_age, reverse=True) if not _was_refused(run))
    return next(begun, None)


def manifest_of(folder: Path) -> dict[str, Any]:
    """The manifest of a run, {} if it is missing or torn."""
    try:
        found = msgspec.json.decode(content(folder / MANIFEST))
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def _was_refused(run: Path) -> bool:
    ended = manifest_of(run).get("ended")
    return isinstance(ended, dict) and ended.get("how") == Ending.REFUSED


def _age(run: Path) -> tuple[str, int]:
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


def argv_of_this_process() -> list[str]:
    """The command line of this process, as a person would type it again; no login of a URL."""
    program = Path(sys.argv[0])
    if program.name in ("__main__.py", ""):  # python -m bench, python -m pytest
        program = program.parent
    name = {"bench": "lorabench", "": "pytest"}.get(program.name, program.name)
    return [name, *map(without_login, sys.argv[1:])]


# It tells of many `TooLate` in a row through one station as `lns.too_late`.
KIND = "lns.too_late"
_LIVING = "hardware"


def captures_to_ask(runs: Path, capture: Path | None) -> list[Path]:
    """The capture that is named; without one those of the newest run, if that had real gateways.

    OSError when the one that is named cannot be read.
    """
    if capture is not None:
        capture.open("rb").close()
        return [capture]
    run = latest(runs)
    if run is None:
        return []
    return capture_files(run) if manifest_of(run).get("rig") == _LIVING else []


def unanswering(files: Iterable[Path]) -> dict[str, str]:
    """By EUI, what a server said last of each station that it could not answer through since."""
    last: dict[tuple[object, object], Event] = {}
    for path in files:
        for found in of_kinds(path, KIND):
            last[found.get("lns"), found.get("station")] = found
    return {
        str(found["station"]): _sentence(found)
        for found in last.values()
        if found.get("stage") == "going on" and isinstance(found.get("station"), str)
    }


def _sentence(event: Event) -> str:
    return (
        f"{event.get('lns')} could not answer through it {event.get('n')} times in a row,"
        f" at last because {event.get('cause')}: what it hears first stays unanswered"
    )
