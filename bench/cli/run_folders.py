"""Which run folders does a person mean?"""

from collections.abc import Sequence
from difflib import get_close_matches
from pathlib import Path

from bench.capture.run_folder import latest
from bench.cli.exit_code import Refused

LATEST = "latest"
MANIFEST = "manifest.json"


class NoSuchRun(Refused):
    """There is no run folder of this name."""


def run_folders_in(runs: Path) -> list[Path]:
    """The run folders in `runs`, oldest first: their names begin with the time of the run."""
    if not runs.is_dir():
        return []
    return sorted(folder for folder in runs.iterdir() if _is_run(folder))


def resolve(names: Sequence[str], *, runs: Path) -> list[Path]:
    """The run folders that names stand for, once each: a path, a name in `runs`, or `latest`."""
    return list(dict.fromkeys(_resolve(name, runs) for name in names))


def _resolve(name: str, runs: Path) -> Path:
    if name == LATEST:
        return _latest(runs)
    for folder in (Path(name), runs / name):
        if _is_run(folder):
            return folder
    if Path(name).is_dir():
        raise NoSuchRun(f"{name} is a folder, but not of a run: it holds no {MANIFEST}.")
    known = [folder.name for folder in run_folders_in(runs)]
    near = get_close_matches(Path(name).name, known, n=3) or known[-3:]
    found = f"The nearest in {runs}: {', '.join(near)}." if near else f"{runs} holds no run yet."
    raise NoSuchRun(f"There is no run {name}. {found} `lorabench run` makes a new one.")


def _latest(runs: Path) -> Path:
    folder = latest(runs)
    if folder is None:
        raise NoSuchRun(f"There is no run in {runs} yet. `lorabench run` makes one.")
    return folder


def _is_run(folder: Path) -> bool:
    return (folder / MANIFEST).is_file()
