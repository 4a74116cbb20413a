"""Nights of servers broken on purpose: real runs of the simulated rig, laid down by date."""

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.night.written_nights import night_of
from tests.mutants import level_1

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Build:
    """A server that is tested for some nights, from one of them on."""

    since: int
    mutant: str | None = None
    chosen: str = ""

    @property
    def commit(self) -> str:
        return f"{self.since:02d}c0ffee".ljust(40, "0")


def tree_of(build: Build, folder: Path) -> Path:
    """A copy of this tree with the server of a build."""
    for name in ("lns", "bench", "firmware_scripts", "scenarios"):
        shutil.copytree(ROOT / name, folder / name)  # with what is compiled already
    shutil.copy(ROOT / "pyproject.toml", folder)
    for mutant in level_1.MUTANTS:
        if mutant.name == build.mutant:
            file = folder / mutant.file
            text = file.read_text("utf-8")
            assert text.count(mutant.old) == 1
            file.write_text(text.replace(mutant.old, mutant.new), "utf-8")
    return folder


def played(build: Build, folder: Path, scenarios: Sequence[str]) -> Path:
    """The folder of a real run of a build."""
    tree = tree_of(build, folder / "tree")
    words = [sys.executable, "-m", "pytest", *scenarios, "-q", "-p", "no:cacheprovider"]
    words += ["--capture-dir", str(folder), *(["-k", build.chosen] if build.chosen else [])]
    words += ["-p", "lorabench", "-p", "pytest_timeout"]
    environment = {"PYTHONPATH": str(tree), "PATH": "/usr/bin:/bin"}
    environment |= {"PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"}  # others take longer than the scenarios
    subprocess.run(words, cwd=tree, env=environment, capture_output=True, timeout=600, check=False)
    [run] = folder.glob("*/manifest.json")
    return run.parent.rename(run.parent.with_name(f"build-{build.since:02d}"))


def lay_down(runs: Path, number: int, run: Path, build: Build) -> None:
    """A night as it would lie there: the run of its build, with its own date."""
    folder = runs / f"{night_of(number).replace('-', '')}T020000Z-0001"
    folder.mkdir(parents=True)
    manifest = json.loads((run / "manifest.json").read_text("utf-8"))
    manifest |= {"night": night_of(number), "line": "lns@main", "catalogue_sha": build.chosen}
    manifest["dut"] |= {"commit": build.commit, "dirty": False}
    manifest["bench_code"] = {"commit": "b" * 40, "dirty": False}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    shutil.copy(run / "score.json", folder)
