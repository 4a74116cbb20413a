"""Which tests are about a module, and does one of them notice a fault in it?"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.mutants.faults import ROOT, Fault

COPIED = (
    "lns", "bench", "scenarios", "tests", "firmware_scripts", ".ci", "Makefile", "pyproject.toml",
    "requirements.lock", "README.md", "CONTRIBUTING.md", "CHANGELOG.md", "hardware.md",
)  # fmt: skip
RUN_TIMEOUT_S = 900


def play_tests(fault: Fault) -> str:
    """The first test that fails with a fault in a copy of the tree; "" where none does."""
    files = list(dict.fromkeys(test_files(fault.file)))
    if not files:
        return ""
    with tempfile.TemporaryDirectory(prefix="lorabench-fault-") as folder:
        tree = copy_of_the_tree(Path(folder))
        (tree / fault.file).write_text(fault.broken(), "utf-8")
        ran = tested(tree, [*files, "-x", "--tb=line", "-m", "not spark"], RUN_TIMEOUT_S)
    if ran is None:
        return f"no end within {RUN_TIMEOUT_S} s"
    if ran.returncode == 0:
        return ""
    found = re.search(r"^(?:FAILED|ERROR) (\S+)", ran.stdout, re.MULTILINE)
    return found[1] if found else ran.stdout.strip()[-120:].replace("\n", " ")


def tested(
    tree: Path, options: Sequence[str], within_s: int
) -> subprocess.CompletedProcess[str] | None:
    """What pytest says of a copy of the tree; None where that has no end in time."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options]
    # Python looks into the tree before it looks for an installed project.
    environment = {**os.environ, "PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    try:
        return subprocess.run(
            command, cwd=tree, env=environment, capture_output=True, text=True,
            timeout=within_s, check=False,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return None


def copy_of_the_tree(folder: Path) -> Path:
    """All that tests need, below a folder."""
    for name in COPIED:
        if (ROOT / name).is_dir():
            no_caches = shutil.ignore_patterns("__pycache__")
            shutil.copytree(ROOT / name, folder / name, ignore=no_caches)
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


def test_files(file: str) -> Iterator[str]:
    """The tests of a module: first its own, then those that import it, the shortest first.

    One that no test knows is tested through those that import it.
    """
    path = Path(file)
    own = [
        *_there(ROOT / "tests" / path.parent, f"test_{path.stem}.py"),
        *_there(ROOT / "tests" / path.parent, f"test_{path.stem}_*.py"),
        *_there(ROOT / "tests" / "contracts", f"test_*{path.stem}*.py"),
    ]
    found = [*own, *_importing(path, "tests", "test_*.py")]
    for user in () if found else _importing(path, "lns", "*.py"):
        found += test_files(user)
    yield from found


def _importing(path: Path, folder: str, pattern: str) -> Iterator[str]:
    module = ".".join(path.with_suffix("").parts)
    parent, _, name = module.rpartition(".")
    imports = re.compile(
        rf"from {re.escape(module)} import|import {re.escape(module)}\b"
        rf"|from {re.escape(parent)} import [^\n]*\b{name}\b"
    )
    users = [f for f in (ROOT / folder).rglob(pattern) if imports.search(f.read_text("utf-8"))]
    yield from (_named(file) for file in sorted(users, key=lambda file: file.stat().st_size))


def _there(folder: Path, pattern: str) -> Iterator[str]:
    yield from (_named(file) for file in sorted(folder.glob(pattern)))


def _named(file: Path) -> str:
    return file.relative_to(ROOT).as_posix()
