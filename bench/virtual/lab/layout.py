"""Where does what lie in the folder of a lab, and how does a process of it live?"""

import asyncio
import os
import signal
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


def live(work: Coroutine[Any, Any, None]) -> int:
    """Do this until the process is ended; a Ctrl-C at the terminal is for the lab, not for us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(work)
    return 0


AIR = "air"
BENCH_TOML = "bench.toml"
TC_URI = "tc.uri"
SOCKET = "socket"


def home(folder: Path, name: str) -> Path:
    """The folder of one board, one station, or the air; made if it is not there."""
    there = folder / name
    there.mkdir(parents=True, exist_ok=True)
    return there


def port_link(folder: Path, name: str) -> Path:
    """The path of a board's serial port that stays the same; a link while it is plugged in."""
    return home(folder, "dev") / name


def log_file(folder: Path, name: str) -> Path:
    """What a process says, for people."""
    return home(folder, name) / "log"


@contextmanager
def socket_path(home: Path) -> Iterator[str]:
    """A short path of the socket in a folder, good while the context lasts."""
    handle = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)
