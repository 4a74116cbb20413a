"""How is a server under load started and stopped, and what does it cost the host?"""

import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from time import clock_gettime
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

from tests.benchmarks.load.traffic import Devices

ROOT = Path(__file__).resolve().parents[3]
STOP_S = 30
_OF_ALL_THREADS = 2  # as clock_getcpuclockid(3) makes the number of a process's clock


class Program:
    """A server in a process of its own that prints `listening <uri>`; stopped by `with`."""

    def __init__(self, command: Sequence[str], log: Path) -> None:
        with log.open("wb") as errors:
            self._process = subprocess.Popen(
                [sys.executable, *command],
                cwd=ROOT,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
            )
        assert self._process.stdout is not None
        said = self._process.stdout.readline()
        assert said.startswith("listening "), f"{said!r}; {log.read_text()}"
        self.port = urlsplit(said.split()[1]).port or 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._process.terminate()
        self._process.wait(STOP_S)
        assert self._process.stdout is not None
        self._process.stdout.close()

    def cpu_s(self) -> float:
        """Seconds of processor time so far, of all its threads, to the nanosecond."""
        return clock_gettime(~self._process.pid << 3 | _OF_ALL_THREADS)

    def memory_kb(self) -> int:
        """Memory of its own that it holds now, files mapped not counted (proc(5), RssAnon)."""
        status = Path(f"/proc/{self._process.pid}/status").read_text("ascii")
        [line] = [line for line in status.splitlines() if line.startswith("RssAnon:")]
        return int(line.split()[1])


def echo_server(folder: Path) -> Program:
    """The yardstick."""
    return Program(["-m", "tests.benchmarks.load.echo"], folder / "echo.log")


class NetworkServer(Program):
    """`python -m lns` with capture on; `upstream` is the text of its [upstream], if it has one."""

    def __init__(self, folder: Path, devices: Devices, upstream: str = "") -> None:
        folder.mkdir(parents=True)
        (folder / "devices.toml").write_text(devices.toml())
        (folder / "lns.toml").write_text(
            f'[lns]\nid = "lns-bench"\nlisten = "127.0.0.1:0"\n'
            f'[capture]\npath = "lns-bench.jsonl"\n{upstream}'
        )
        super().__init__(["-m", "lns", str(folder / "lns.toml")], folder / "lns.log")
        self._capture = (folder / "lns-bench.jsonl").open("rb")
        self._torn = b""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._capture.close()

    def new_lines(self, *marks: bytes) -> list[int]:
        """How often each mark stands in the capture since the last call."""
        lines, end, self._torn = (self._torn + self._capture.read()).rpartition(b"\n")
        return [(lines + end).count(mark) for mark in marks]
