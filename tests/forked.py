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
from typing import IO, TextIO

from bench.host.fork_server import Adopted, adopt_orphans

ROOT = Path(__file__).resolve().parent.parent
HARDWARE = ("pytest", "bench.run.pytest_session", "bench.run.wall_clock", "bench.cli.program")
"""What a run on real things has, and nothing that is played."""
ANY_RIG = (*HARDWARE, "bench.run.simulated", "bench.run.emulated", "bench.cli.run")

SERVER = ("lns.__main__",)
"""What a network server has."""
CONSUMER = ("bench.__main__", "bench.cli.inbox")
"""What `lorabench inbox` has."""
SERVER_COMMAND = ("bench.__main__", "bench.cli.lns")
"""What `lorabench lns` has."""
BOARDS = ("bench.cli.program", "bench.cli.on_hardware.devices", "tests.firmware_scripts.as_program")
"""What scripts have that are commands of the bench."""

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


class Piped:
    """A program whose output is read here, as `subprocess.Popen` has it.

    In a network server a warning is an error. `stderr`: where its log goes; a pipe that nobody
    reads holds 64 kB.
    """

    def __init__(
        self,
        words: Sequence[str],
        stderr: TextIO | None = None,
        *,
        imports: tuple[str, ...] = SERVER,
    ) -> None:
        out, said = os.pipe()
        log, logged = os.pipe() if stderr is None else (None, os.dup(stderr.fileno()))
        self.stdout = os.fdopen(out, encoding="utf-8")
        self.stderr = None if log is None else os.fdopen(log, encoding="utf-8")
        try:
            forks = _Forks.of(imports)
            self._process = forks.fork(words, Path.cwd(), os.environ, (said, logged))
        finally:
            os.close(said)
            os.close(logged)
        self.pid = self._process.pid
        self.send_signal, self.kill = self._process.send_signal, self._process.kill
        self.wait, self.poll = self._process.wait, self._process.poll

    @property
    def returncode(self) -> int | None:
        """How it ended, if it has."""
        return self.poll()

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it says until it ends; its output is short."""
        err = "" if self.stderr is None or self.stderr.closed else self.stderr.read()
        out = "" if self.stdout.closed else self.stdout.read()
        self.wait(timeout)
        self.stdout.close()
        if self.stderr is not None:
            self.stderr.close()
        return out, err


class Starter:
    """Starts forks of what has these imports; see `bench.host.program.Starter`."""

    def __init__(self, imports: tuple[str, ...] = SERVER) -> None:
        self._imports = imports

    async def ready(self) -> None:
        """It always is."""

    async def fork(
        self, words: Sequence[str], env: Mapping[str, str] | None, log: IO[bytes], *, speaks: bool
    ) -> Adopted:
        """`python -m` with these words, its output on `log` or a pipe."""
        told, said = os.pipe() if speaks else (None, os.dup(log.fileno()))
        output = None if told is None else os.fdopen(told, "rb", 0)
        try:
            forks = _Forks.of(self._imports)
            process = forks.fork(words, Path.cwd(), env or os.environ, (said, log.fileno()))
        finally:
            os.close(said)
        process.stdout = output
        return process


class _Forks:
    """A fork server of this process, with these imports; see `bench.host.fork_server`."""

    def __init__(self, imports: tuple[str, ...]) -> None:
        warnings = {"PYTHONWARNINGS": "error"} if imports == SERVER else {}
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        handle = theirs.fileno()
        with theirs:
            self._server = subprocess.Popen(
                [sys.executable, "-m", "bench.host.fork_server", str(handle), *imports],
                cwd=ROOT,
                env={**os.environ, "PYTHONPATH": str(ROOT), **warnings},
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
