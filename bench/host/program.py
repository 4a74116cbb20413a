"""How does a program of this host live while the bench needs it, and how does its end get known?

Linux only: a program dies with the bench, whatever kills that, and its end is an event of the loop.
What this host has for them: free ports, open files, and the time to judge a server by.
"""

import asyncio
import errno
import os
import resource
import shutil
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import count
from pathlib import Path
from threading import Event
from typing import IO, NoReturn, Protocol

from lns.clock import now_us

STOP_S = 10
_LOOK_S = 0.01
_TAIL_LINES = 20
# Becomes the program, after it asked the kernel to be killed when the bench is gone (prctl(2),
# PR_SET_PDEATHSIG). Not done between fork and exec: there no Python may run beside other threads.
_LAUNCHER = """
import ctypes, os, sys, time
ctypes.CDLL(None).prctl(1, 9)
*waits, last = [*map(float, sys.argv[2].split()), None]
for wait in (*waits, last):
    if os.getppid() != int(sys.argv[1]):
        break
    try:
        os.execv(sys.argv[4], sys.argv[5:])
    except OSError as error:
        if wait is None or error.errno not in map(int, sys.argv[3].split()):
            raise
        print(f"the kernel refused to start it ({error}); once more", file=sys.stderr, flush=True)
        time.sleep(wait)
"""
REFUSED_WAITS_S = (0.01, 0.02, 0.04, 0.08, 0.16)
"""How long to wait before a start is tried again that the kernel refused."""
_MOMENTARY = (errno.EAGAIN, errno.EFAULT, errno.EINTR, errno.ENFILE, errno.ENOMEM, errno.ETXTBSY)
"""Why the kernel refuses a start for the moment: the same one works a little later."""


def bound_to_this(name: str, command: Sequence[str]) -> list[str]:
    """What starts a program that ends when this process is gone; ProgramMissing without one."""
    program = shutil.which(command[0])
    if program is None:
        raise ProgramMissing(f"{name} cannot be started: no program {command[0]}")
    launcher = [sys.executable, "-I", "-S", "-c", _LAUNCHER, str(os.getpid())]
    launcher += [" ".join(map(str, numbers)) for numbers in (REFUSED_WAITS_S, _MOMENTARY)]
    return [*launcher, program, *command]


class HostError(Exception):
    """A program of this host is missing or does not do what it should; the text says more."""


def first_cause(failure: BaseException) -> BaseException:
    """What broke first, in a group of groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure


class ProgramMissing(HostError):
    """A program is not installed; the text says what to do."""


class ProgramDied(HostError):
    """A program ended, and nobody had asked it to; with the end of what it said."""


class ConsumerDied(ProgramDied):
    """A consumer of the application ended while it was to take messages."""


class ConsumerSilent(HostError):
    """A consumer of the application has messages, and says of one of them nothing."""


class ProgramSilent(HostError):
    """A program runs and does not become ready; with the end of what it said."""


class Process(Protocol):
    """A child of this process, as `subprocess.Popen` is one."""

    pid: int
    stdout: IO[bytes] | None

    def poll(self) -> int | None:
        """How it ended, if it has."""

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; subprocess.TimeoutExpired."""

    def send_signal(self, sig: int, /) -> None:
        """Send it a signal, if it is still there."""


class Starter(Protocol):
    """Starts `python -m` in another way than the operating system does."""

    async def ready(self) -> None:
        """Wait until it can; ProgramDied, ProgramSilent."""

    async def fork(
        self, words: Sequence[str], env: Mapping[str, str] | None, log: IO[bytes], *, speaks: bool
    ) -> Process:
        """`python -m` with these words, its output on `log` or a pipe; HostError."""


class Program:
    """One process at a time, started again and again; what it says is appended to `log`.

    Start it from the thread that lives as long as the bench: it is killed when that thread ends.
    `died`: the end of the last process, if nobody here asked for it, as soon as the loop that
    started it has seen it. With `starter`, `begin` lets it start what is `python -m` of something.
    """

    def __init__(self, name: str, log: Path, *, starter: Starter | None = None) -> None:
        self.name = name
        self.log = log
        self.died: ProgramDied | None = None
        self.starter = starter
        self._process: Process | None = None
        self._watched: tuple[asyncio.AbstractEventLoop, int] | None = None
        self._waiting: list[asyncio.Future[None]] = []
        self._asked_to_end = False

    @property
    def running(self) -> bool:
        """Whether the process is there, also while it is paused."""
        return self._process is not None and self._process.poll() is None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self.name} was not started"
        return self._process.pid

    def launch(
        self,
        command: Sequence[str],
        *,
        speaks: bool = False,
        env: Mapping[str, str] | None = None,
        handles: Sequence[int] = (),
    ) -> None:
        """Start the process; ProgramMissing if there is no such program.

        A start that the kernel refuses for the moment is tried again a few times, and the log says
        so; OSError if it goes on refusing.
        With `speaks` its standard output is for `first_line`; else it goes to the log too. It keeps
        the files of these `handles` open.
        """
        assert not self.running, f"{self.name} runs already"
        self.died, self._asked_to_end = None, False
        environ = None if env is None else {**os.environ, **env}
        bound = bound_to_this(self.name, command)
        self._process = self._begun(bound, speaks, environ, handles)
        self._watch_end()

    async def begin(
        self, command: Sequence[str], *, speaks: bool = False, env: Mapping[str, str] | None = None
    ) -> None:
        """`launch`, by way of the starter if there is one."""
        if self.starter is None or list(command[:2]) != [sys.executable, "-m"]:
            return self.launch(command, speaks=speaks, env=env)
        assert not self.running, f"{self.name} runs already"
        self.died, self._asked_to_end = None, False
        environ = None if env is None else {**os.environ, **env}
        await self.starter.ready()
        with self.log.open("ab", buffering=0) as log:
            self._process = await self.starter.fork(command[2:], environ, log, speaks=speaks)
        self._watch_end()

    def _begun(
        self,
        command: Sequence[str],
        speaks: bool,
        env: Mapping[str, str] | None,
        handles: Sequence[int],
    ) -> subprocess.Popen[bytes]:
        with self.log.open("ab", buffering=0) as log:
            stdout = subprocess.PIPE if speaks else log
            waits_s = [*REFUSED_WAITS_S]
            while True:
                try:
                    return subprocess.Popen(
                        command, stdin=subprocess.DEVNULL, stdout=stdout, stderr=log, env=env,
                        pass_fds=handles,
                    )  # fmt: skip
                except OSError as error:
                    if error.errno not in _MOMENTARY or not waits_s:
                        raise
                    log.write(f"the kernel refused to start it ({error}); once more\n".encode())
                    Event().wait(waits_s.pop(0))

    async def first_line(self, deadline_s: float) -> str:
        """The first line of its standard output; ProgramDied or ProgramSilent otherwise."""
        assert self._process is not None and self._process.stdout is not None
        # Its own handle: the end of the process closes the other one.
        pipe, line = os.dup(self._process.stdout.fileno()), b""
        try:
            async with asyncio.timeout(deadline_s):
                while not line.endswith(b"\n"):
                    await _readable(pipe)
                    # One byte at a time: nothing behind the line may be lost.
                    octet = os.read(pipe, 1)
                    if not octet:
                        await self._gone()
                        self._is(lambda: False)
                    line += octet
        except TimeoutError:
            await self.kill()
            raise self._silent(deadline_s) from None
        except asyncio.CancelledError:
            self.kill_now()
            raise
        finally:
            os.close(pipe)
        return line.decode("utf-8", "replace").rstrip("\n")

    async def until(self, ready: Callable[[], bool], deadline_s: float) -> None:
        """Wait until it is ready, which nobody tells; ProgramDied or ProgramSilent otherwise."""
        try:
            async with asyncio.timeout(deadline_s):
                while not self._is(ready):  # noqa: ASYNC110 - nobody tells
                    await asyncio.sleep(_LOOK_S)
        except TimeoutError:
            await self.kill()
            raise self._silent(deadline_s) from None
        except asyncio.CancelledError:
            self.kill_now()
            raise

    async def watch(self) -> NoReturn:
        """Wait until the process ends by itself, then raise ProgramDied; restarts are fine."""
        while self.died is None:
            await self._some_end()
        raise self.died

    async def stop(self, limit_s: float = STOP_S) -> None:
        """End it with SIGTERM, and with SIGKILL if it takes longer than that."""
        self._ask_to_end(signal.SIGTERM)
        try:
            async with asyncio.timeout(limit_s):
                await self._gone()
        except TimeoutError:
            pass
        finally:  # also when nobody waits any more
            self.kill_now()

    async def kill(self) -> None:
        """End it with SIGKILL, and wait until it is gone."""
        self._ask_to_end(signal.SIGKILL)
        await self._gone()
        self._forget()

    def kill_now(self) -> None:
        """`kill` for those who have no loop."""
        self._ask_to_end(signal.SIGKILL)
        if self._process is not None:
            self._process.wait()
        self._forget()

    def pause(self) -> None:
        """Let it do nothing until `resume`; once this returns it does nothing."""
        self._send(signal.SIGSTOP)
        with suppress(ChildProcessError):
            os.waitid(os.P_PID, self.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)

    def resume(self) -> None:
        self._send(signal.SIGCONT)

    def tail(self, lines: int = _TAIL_LINES) -> str:
        """The end of its log, for a person to read."""
        return "\n".join(self.said().splitlines()[-lines:]) or "(it said nothing)"

    def said(self) -> str:
        """All that is in its log."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    def _is(self, ready: Callable[[], bool]) -> bool:
        if not self.running:
            self._note_end()
            raise self.died or ProgramDied(f"{self.name} was ended before it was ready")
        return ready()

    def _silent(self, deadline_s: float) -> ProgramSilent:
        return ProgramSilent(
            f"{self.name} is not ready after {deadline_s:g} s; the end of {self.log}:\n"
            f"{self.tail()}"
        )

    def _send(self, number: signal.Signals) -> None:
        assert self._process is not None, f"{self.name} was not started"
        self._process.send_signal(number)

    def _ask_to_end(self, number: signal.Signals) -> None:
        self._note_end()  # before it counts as asked for
        self._asked_to_end = True
        if self._process is not None:
            self._process.send_signal(number)
            self._process.send_signal(signal.SIGCONT)

    async def _gone(self) -> None:
        while self.running:
            if self._watched is None:
                await asyncio.sleep(_LOOK_S)
            else:
                await self._some_end()

    async def _some_end(self) -> None:
        future = asyncio.get_running_loop().create_future()
        self._waiting.append(future)
        await future

    def _watch_end(self) -> None:
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            return
        assert sys.platform == "linux", "the programs of a rig need Linux"
        handle = os.pidfd_open(self.pid)
        self._watched = loop, handle
        loop.add_reader(handle, self._note_end)

    def _note_end(self) -> None:
        if self._process is None or self._process.poll() is None:
            return
        if not self._asked_to_end and self.died is None:
            code = self._process.wait()
            how = f"by signal {-code}" if code < 0 else f"with exit code {code}"
            self.died = ProgramDied(
                f"{self.name} ended {how}; the end of {self.log}:\n{self.tail()}"
            )
        self._forget()
        waiting, self._waiting = self._waiting, []
        for future in waiting:
            if not future.done():
                future.set_result(None)

    def _forget(self) -> None:
        if self._watched is not None:
            loop, handle = self._watched
            self._watched = None
            if not loop.is_closed():
                loop.remove_reader(handle)
            os.close(handle)
        if self._process is not None and self._process.stdout is not None:
            self._process.stdout.close()


async def _readable(pipe: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(pipe, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(pipe)


LOOPBACK = "127.0.0.1"
_FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_LOWEST = 32_768
_chosen = count(os.getpid() * 41)  # benches that run side by side look at different ports first


def why_no_listener(error: OSError) -> str:
    """Why nothing can listen at an address that a person has given, and what to give instead."""
    number = error.errno or 0  # less than none: a name without an address
    why = os.strerror(number) if number > 0 else error.strerror or error
    return f"{why}. Give an address of this host (`ip address` lists them) and a free port"


def free_port() -> int:
    """A TCP port of the loopback that nobody has, and no outgoing connection will get.

    Not one of the ports that the kernel hands out by itself: while a server is stopped, another
    connection could be given its port, or a client that tries to reach it could reach itself.
    """
    ports = range(_FIRST, _lowest_of_the_kernel())
    for number, _ in zip(_chosen, ports, strict=False):
        port = ports[number % len(ports)]
        if _can_be_had(port):
            return port
    with socket.create_server((LOOPBACK, 0)) as server:
        return int(server.getsockname()[1])


def is_answered(port: int) -> bool:
    """Whether somebody on the loopback accepts connections on this port."""
    try:
        socket.create_connection((LOOPBACK, port), timeout=1).close()
    except OSError:
        return False
    return True


def _can_be_had(port: int) -> bool:
    try:
        # Without SO_REUSEADDR: nor may a connection of an earlier server linger there.
        with socket.socket() as server:
            server.bind((LOOPBACK, port))
    except OSError:
        return False
    return True


def _lowest_of_the_kernel() -> int:
    try:
        lowest = int(_RANGE.read_text().split()[0])
    except (OSError, ValueError, IndexError):
        lowest = _USUAL_LOWEST
    return max(lowest, _FIRST)


def take_all_allowed() -> int:
    """Raise the limit of this process, and of its children, as far as it may; the new limit.

    The usual 1024 are fewer than the sockets and ptys of many cases side by side.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def limit_file_size(pid: int, octets: int | None) -> None:
    """Let no file of another process grow beyond this, as on a full disk; None: as far as it may.

    HostError where the kernel has no such limit for others.
    """
    try:
        _, hard = resource.prlimit(pid, resource.RLIMIT_FSIZE)
        resource.prlimit(pid, resource.RLIMIT_FSIZE, (hard if octets is None else octets, hard))
    except (AttributeError, OSError) as error:
        raise HostError(f"no limit for the files of process {pid}: {error}") from error


# On a wall clock the bench itself can be late: another program takes the processor, or the disk.
# The guard asks the event loop to be woken every few milliseconds and notes whenever that came too
# late. Of a program the kernel tells how long it was ready to run and had to wait for a processor;
# of the whole machine, how long somebody waited for a disk, and how long the processors were those
# of another machine on the same host.
EVERY_US = 10_000
STALLED_US = 50_000
_LOOK_EVERY_US = 100_000
_PRESSURE, _PROCESSORS = Path("/proc/pressure/io"), Path("/proc/stat")


class HostGuard:
    """Tells `stalled` by how much (µs) the event loop woke too late, if that is 50 ms or more.

    Remembers the worst (`worst_us`), also below that.
    """

    def __init__(self, stalled: Callable[[int], None]) -> None:
        self._stalled = stalled
        self.worst_us = 0

    async def run(self) -> None:
        while True:
            due_us = now_us() + EVERY_US
            await asyncio.sleep(EVERY_US / 1_000_000)
            late_us = now_us() - due_us
            self.worst_us = max(self.worst_us, late_us)
            if late_us >= STALLED_US:
                self._stalled(late_us)


async def guard_program(pid: int, stalled: Callable[[int], None]) -> None:
    """Tell `stalled` how long (µs) a process waited for a processor in a tenth of a second.

    Only if that is 50 ms or more. Source: Linux, Documentation/scheduler/sched-stats.rst.
    """
    before_us = _waited_us(pid)
    while before_us is not None:
        await asyncio.sleep(_LOOK_EVERY_US / 1_000_000)
        waited_us = _waited_us(pid)
        if waited_us is not None and waited_us - before_us >= STALLED_US:
            stalled(waited_us - before_us)
        before_us = waited_us


async def guard_machine(stalled: Callable[[int], None]) -> None:
    """Tell `stalled` how long (µs) this machine had no disk or no processor in a tenth second.

    Only if that is 50 ms or more. Sources: Linux, Documentation/accounting/psi.rst ("some" of io)
    and proc_stat(5) ("steal").
    """
    before_us = away_us()
    while True:
        await asyncio.sleep(_LOOK_EVERY_US / 1_000_000)
        now_away_us = away_us()
        grown_us = (now - old for now, old in zip(now_away_us, before_us, strict=True))
        longest_us, before_us = max(grown_us), now_away_us
        if longest_us >= STALLED_US:
            stalled(longest_us)


def away_us() -> tuple[int, int]:
    """How long disks and processors have been waited for so far; 0 where the kernel is silent."""
    return disk_us(_said(_PRESSURE)), stolen_us(_said(_PROCESSORS))


def disk_us(pressure: str) -> int:
    """How long some program waited for a disk, from /proc/pressure/io."""
    for line in pressure.splitlines():
        if line.startswith("some "):
            return int(line.rpartition("total=")[2])
    return 0


def stolen_us(processors: str) -> int:
    """How long another machine had the processors of this one, from /proc/stat."""
    words = processors.partition("\n")[0].split()
    ticks = int(words[8]) if len(words) > 8 and words[0] == "cpu" else 0
    return ticks * 1_000_000 // os.sysconf("SC_CLK_TCK")


def _said(file: Path) -> str:
    try:
        return file.read_text("ascii")
    except OSError:
        return ""


def _waited_us(pid: int) -> int | None:
    """How long a process has waited for a processor so far; None for one that is gone."""
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) // 1_000
    except (OSError, IndexError):
        return None
