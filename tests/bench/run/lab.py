"""A lab without hardware for tests: its boards, stations and air run as processes of their own."""

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from bench.host.ports import free_port

START_S = 60


class Lab:
    """A running lab: its inventory, and its hands."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.inventory = folder / "bench.toml"

    def work(self, verb: str, name: str) -> None:
        """Do something to a board or a station."""
        words = [sys.executable, "-m", "bench.emulation.control", str(self.folder), verb, name]
        subprocess.run(words, check=True, timeout=START_S)


@contextmanager
def running_lab(folder: Path) -> Iterator[Lab]:
    """A lab on a free port; it ends with the context."""
    tap = f"127.0.0.1:{free_port()}"
    words = [sys.executable, "-m", "bench", "emulate", "--folder", str(folder), "--tap", tap]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        assert process.stdout.readline().strip().endswith("bench.toml")
        yield Lab(folder)
    finally:
        process.terminate()
        process.communicate(timeout=START_S)
