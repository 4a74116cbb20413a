"""The code that runs, and what differs from its commit: asked of a real repository."""

import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def git(tree: Path, *words: str) -> None:
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    subprocess.run(["git", "-C", str(tree), *names, *words], check=True, capture_output=True)


def told(tree: Path) -> tuple[str, str]:
    """What a run from this tree would say of itself: dirty, and the hash of the difference."""
    code = (
        "from bench.capture.run_folder import device_under_test as d;"
        "print(d()['dirty'], d().get('difference'))"
    )
    ran = subprocess.run(
        [sys.executable, "-c", code], cwd=tree, capture_output=True, text=True, check=True
    )
    dirty, difference = ran.stdout.split()
    return dirty, difference


def test_changes_and_new_files_make_the_code_another_one(tmp_path: Path) -> None:
    capture = tmp_path / "bench" / "capture"
    capture.mkdir(parents=True)
    for place in (
        "__init__.py",
        "capture/__init__.py",
        "capture/reading.py",
        "capture/run_folder.py",
    ):
        shutil.copy(ROOT / "bench" / place, tmp_path / "bench" / place)
    (tmp_path / ".gitignore").write_text("__pycache__\n")
    assert told(tmp_path) == ("None", "None")
    git(tmp_path, "init")
    git(tmp_path, "add", "-A")
    git(tmp_path, "commit", "-m", "x")
    assert told(tmp_path) == ("False", "None")
    (tmp_path / "notes.txt").write_text("no code")
    assert told(tmp_path) == ("False", "None")
    (tmp_path / "bench" / "__init__.py").write_text("# changed\n")
    dirty, changed = told(tmp_path)
    assert dirty == "True"
    (tmp_path / "bench" / "new.py").write_text("1\n")
    _, more = told(tmp_path)
    (tmp_path / "bench" / "new.py").write_text("2\n")
    _, other = told(tmp_path)
    assert len({changed, more, other}) == 3
    git(tmp_path, "checkout", "bench/__init__.py")
    (tmp_path / "bench" / "new.py").unlink()
    assert told(tmp_path) == ("False", "None")
