"""Programs of this tree as forks of a process that has imported what they need.

Most of what a short run of pytest or of `lorabench` takes is imports, and the suite starts a
hundred of them. Whoever is about imports, signals or how Python starts, starts a program anew.
"""

import atexit
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

from bench.host.fork_server import Adopted, adopt_orphans

ROOT = Path(__file__).resolve().parent.parent
HARDWARE = ("pytest", "bench.run.pytest_session", "bench.run.hardware", "bench.cli.program")
"""What a run on real things has, and nothing that is played."""
ANY_RIG = (*HARDWARE, "bench.run.simulated", "bench.run.emulated", "bench.cli.run")

IMPORTED_BEFORE = ("-W", "ignore:Module already imported:pytest.PytestAssertRewriteWarning")
"""For a pytest of which every warning is an error: it would like to see first what it imports."""


def run(
    words: Sequence[str],
    *,
    cwd: Path = ROOT,
    env: Mapping[str, str] | None = None,
    timeout: float = 500,
    imports: tuple[str, ...] = ANY_RIG,
) -> "subprocess.CompletedProcess[str]":
    """What `python -m` with these words does and says; TimeoutExpired."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = _Forks.of(imports).fork(
            words, cwd, env or os.environ, (out.fileno(), err.fileno())
        )
        try:
            code = process.wait(timeout)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        said = []
        for file in (out, err):
            file.seek(0)
            said.append(file.read().decode("utf-8", "replace"))
    return subprocess.CompletedProcess([sys.executable, "-m", *words], code, *said)


class _Forks:
    """A fork server of this process, with these imports; see `bench.host.fork_server`."""

    def __init__(self, imports: tuple[str, ...]) -> None:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handle = theirs.fileno()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "bench.host.fork_server", str(handle), *imports],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                pass_fds=[handle],
            )
        assert self._server.stdout is not None
        assert self._server.stdout.readline() == b"ready\n"
        adopt_orphans()
        self._channel = ours
        atexit.register(self._end)

    @staticmethod
    @cache
    def of(imports: tuple[str, ...]) -> "_Forks":
        return _Forks(imports)

    def fork(
        self, words: Sequence[str], cwd: Path, env: Mapping[str, str], handles: tuple[int, int]
    ) -> Adopted:
        wanted = {"words": list(words), "env": dict(env), "folder": str(cwd), "parent": os.getpid()}
        socket.send_fds(self._channel, [json.dumps(wanted).encode()], handles)
        return Adopted(int(self._channel.recv(64)), None)

    def _end(self) -> None:
        self._channel.close()
        self._server.wait()
