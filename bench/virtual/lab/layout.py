"""Where is what in the folder of an emulated lab?

A UNIX socket must have a short path, and folders of tests have long ones: sockets are reached by
the folder's handle.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
