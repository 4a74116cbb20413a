"""Where does a run live, and what does its manifest say?

`runs/20261120T020003Z-7f3a/` holds `manifest.json`, one JSON Lines file per source, and later the
score and the reports. The folder's name is the identity of the run. On the simulated rig the
`run_id` inside the lines depends on rig and seed alone, so that the same seed gives the same
bytes; the wall clock is found in the folder's name only.
"""

import hashlib
import json
import platform
import secrets
import subprocess
import sys
from dataclasses import dataclass
from datetime import datetime
from importlib import metadata
from pathlib import Path

from lns.address import without_login
from lns.capture import SCHEMA

DISTRIBUTIONS = (
    "lorabench", "pyspark", "cryptography", "msgspec", "paho-mqtt", "pyserial", "pytest", "redis",
    "websockets",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class RunFolder:
    """A run on disk; `path` exists."""

    path: Path
    run_id: str

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
    notices: list[str] | None = None,
) -> RunFolder:
    """Create the folder of a new run and write its manifest; OSError where that cannot be."""
    run_id = _run_id(rig, seed)
    path = _new_folder(runs_dir, f"{started:%Y%m%dT%H%M%SZ}-{run_id[:4]}")
    manifest = {
        "schema": SCHEMA,
        "run_id": run_id,
        "seed": seed,
        "rig": rig,
        "git_commit": _git_commit(),
        "versions": {"python": platform.python_version(), **_versions()},
        "inventory": inventory,
        "argv": argv,
        "notices": notices or [],
    }
    (path / "manifest.json").write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    return RunFolder(path, run_id)


def latest(runs_dir: Path) -> Path | None:
    """The newest run below `runs_dir`, by name; None when there is none."""
    runs = [path for path in runs_dir.glob("*") if (path / "manifest.json").is_file()]
    return max(runs, key=_age, default=None)


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


def _git_commit() -> str:
    here = Path(__file__).parent
    command = ("git", "-C", str(here), "rev-parse", "--short=12", "HEAD")
    try:
        found = subprocess.run(command, capture_output=True, text=True, check=True, timeout=5)
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return found.stdout.strip()


def _versions() -> dict[str, str]:
    versions = {}
    for name in DISTRIBUTIONS:
        try:
            versions[name] = metadata.version(name)
        except metadata.PackageNotFoundError:
            versions[name] = "not installed"
    return versions


def argv_of_this_process() -> list[str]:
    """The command line of this process, as a person would type it again; no login of a URL."""
    program = Path(sys.argv[0])
    if program.name in ("__main__.py", ""):  # python -m bench, python -m pytest
        program = program.parent
    name = {"bench": "lorabench", "": "pytest"}.get(program.name, program.name)
    return [name, *map(without_login, sys.argv[1:])]
