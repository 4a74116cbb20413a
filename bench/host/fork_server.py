"""How does a Python program start without importing everything once more?

`python -m lns` takes half a second of a processor before its first own line, and a run on real
wires starts it a hundred times. A fork server has imported what it needs; each program is a fork of
it, which then does just what `python -m` does. What comes of that is a process like any other, and
a child of the bench: it has files, a number and an end of its own. What is to be worked out beside
this process has one of its own as well (`beside`).
"""

import asyncio
import ctypes
import gc
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from pathlib import Path
from typing import IO, Any, TypeVar

from bench.host.program import HostError, Process, Program

START_S = 60
_REQUEST_BYTES, _ANSWER_BYTES = 1 << 17, 64
_SET_PDEATHSIG, _SET_CHILD_SUBREAPER = 1, 36
T = TypeVar("T")


class ForkServer(Program):
    """Starts `python -m` of what these modules belong to as a fork; they are imported once.

    It begins when it is first asked to be ready; until then it costs nothing.
    """

    def __init__(self, log: Path, modules: Sequence[str], env: Mapping[str, str]) -> None:
        super().__init__("fork server", log)
        self._modules = modules
        self._env = env
        self._beginning = asyncio.Lock()
        self._asking = asyncio.Lock()
        self._channel: socket.socket | None = None

    async def ready(self) -> None:
        async with self._beginning:
            if self._channel is not None:
                return
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            try:
                with theirs:
                    handle = theirs.fileno()
                    command = [sys.executable, "-m", __name__, str(handle), *self._modules]
                    self.launch(command, speaks=True, env=self._env, handles=[handle])
                await self.first_line(START_S)
            except BaseException:
                ours.close()
                raise
            adopt_orphans()
            ours.setblocking(False)
            self._channel = ours

    async def fork(
        self, words: Sequence[str], env: Mapping[str, str] | None, log: IO[bytes], *, speaks: bool
    ) -> Process:
        """`python -m` with these words; HostError when the server is gone.

        What it says is appended to `log`; with `speaks` its standard output goes to a pipe.
        """
        assert self._channel is not None, "it is not ready"
        wanted = {
            "words": list(words),
            "env": dict(os.environ if env is None else env),
            "folder": os.getcwd(),
            "parent": os.getpid(),
        }
        output_end, said = os.pipe() if speaks else (None, os.dup(log.fileno()))
        output = None if output_end is None else os.fdopen(output_end, "rb", 0)
        asked = asyncio.ensure_future(self._ask(json.dumps(wanted).encode(), [said, log.fileno()]))
        try:
            return Adopted(await asyncio.shield(asked), output)
        except BaseException as error:
            if output is not None:
                output.close()
            if isinstance(error, asyncio.CancelledError):
                Adopted(await asked, None).kill()
            raise
        finally:
            os.close(said)

    async def _ask(self, wanted: bytes, handles: Sequence[int]) -> int:
        assert self._channel is not None
        try:
            async with self._asking:
                socket.send_fds(self._channel, [wanted], handles)
                loop = asyncio.get_running_loop()
                answer = await loop.sock_recv(self._channel, _ANSWER_BYTES)
        except OSError as error:
            raise HostError(f"{self.name} starts nothing any more: {error}") from error
        if not answer:
            raise HostError(f"{self.name} has ended; the end of {self.log}:\n{self.tail()}")
        return int(answer)

    async def stop(self, limit_s: float = 10) -> None:
        await super().stop(limit_s)
        if self._channel is not None:
            self._channel.close()


class Adopted:
    """A process that somebody else has begun and that is a child of this one; as `Popen` is."""

    def __init__(self, pid: int, stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdout = stdout
        self._code: int | None = None
        self.poll()  # ChildProcessError where it is nobody's, or somebody else's

    def poll(self) -> int | None:
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self._code = os.waitstatus_to_exitcode(status)
        return self._code

    def wait(self, timeout: float | None = None) -> int:
        handle = os.pidfd_open(self.pid) if self.poll() is None else None
        if handle is not None:
            try:
                ended, _, _ = select.select([handle], [], [], timeout)
            finally:
                os.close(handle)
            if not ended:
                raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        code = self.poll()
        assert code is not None
        return code

    def send_signal(self, sig: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, sig)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)
        self.wait()


def adopt_orphans() -> None:
    """Whatever loses its parent below this process becomes a child of it from now on."""
    _prctl(_SET_CHILD_SUBREAPER, 1)


def _prctl(option: int, value: int) -> None:
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


@contextmanager
def beside(work: Callable[..., T], *arguments: object) -> Iterator[Callable[[], T]]:
    """Let `work` be done meanwhile, in a process of its own, which ends with the block.

    What is handed out waits for what comes of it; EOFError where that process has died. Ctrl-C is
    not for it: it is ended by SIGTERM.
    """
    context = get_context("spawn")
    ours, theirs = context.Pipe(duplex=False)
    process = context.Process(target=_work_into, args=(theirs, work, arguments), daemon=True)
    process.start()
    theirs.close()
    try:
        yield ours.recv
    finally:
        process.terminate()
        process.join()
        ours.close()


def _work_into(result: Connection, work: Callable[..., Any], arguments: tuple[object, ...]) -> None:
    leave_ctrl_c()
    with suppress(KeyboardInterrupt):  # where the work takes SIGTERM for one
        result.send(work(*arguments))


def leave_ctrl_c() -> None:
    """Whoever waits for this process ends it, at once."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for number in (signal.SIGTERM, signal.SIGHUP):
        if callable(signal.getsignal(number)):
            signal.signal(number, signal.SIG_DFL)


# --- in the process of the fork server, and in its forks ----------------------------------------


def main(handle: int, modules: Sequence[str]) -> None:
    """Import these, say so, and start what is asked for until nobody asks any more."""
    leave_ctrl_c()  # it ends with the bench, not with one run
    for module in modules:
        import_module(module)
        if module.endswith(".__main__"):
            del sys.modules[module]  # what it imports stays; it is run anew in each fork
    gc.collect()
    gc.freeze()
    print("ready", flush=True)
    with socket.socket(fileno=handle) as channel:
        wanted = _serve(channel)
    if wanted is not None:
        runpy.run_module(wanted, run_name="__main__", alter_sys=True)


def _serve(channel: socket.socket) -> str | None:
    while True:
        asked, handles, _, _ = socket.recv_fds(channel, _REQUEST_BYTES, 2)
        if not asked:
            return None
        wanted = json.loads(asked)
        (number, tells), (waits, goes) = os.pipe(), os.pipe()
        between = os.fork()
        if between == 0:
            # Its child loses it at once, and so becomes a child of the bench, which adopts it.
            if child := os.fork():
                os.write(tells, str(child).encode())
                os._exit(0)
            for mine in (number, tells, goes):
                os.close(mine)
            os.read(waits, 1)
            os.close(waits)
            return _become(wanted, handles)
        os.waitpid(between, 0)
        channel.send(os.read(number, _ANSWER_BYTES))
        for mine in (number, tells, waits, goes, *handles):
            os.close(mine)


def _become(wanted: Mapping[str, Any], handles: Sequence[int]) -> str:
    _prctl(_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != wanted["parent"]:
        os._exit(1)
    for handle, standard in zip(handles, (1, 2), strict=True):
        os.dup2(handle, standard)
        os.close(handle)
    os.chdir(wanted["folder"])
    sys.path[0] = wanted["folder"]  # as `python -m` has it
    os.environ.clear()
    os.environ.update(wanted["env"])
    signal.signal(signal.SIGINT, signal.default_int_handler)
    module, *words = wanted["words"]
    sys.argv = [module, *words]
    return str(module)


if __name__ == "__main__":
    main(int(sys.argv[1]), sys.argv[2:])
