"""What does this host have for a run: free ports, open files, and the time to judge a server by?"""

import asyncio
import os
import resource
import socket
from collections.abc import Callable
from itertools import count
from pathlib import Path

from bench.host.program import HostError
from lns.clock import now_us

LOOPBACK = "127.0.0.1"
_FIRST = 10_000
_RANGE = Path("/proc/sys/net/ipv4/ip_local_port_range")
_USUAL_LOWEST = 32_768
_chosen = count(os.getpid() * 41)  # benches that run side by side look at different ports first


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
        """Watch until cancelled."""
        while True:
            due_us = now_us() + EVERY_US
            await asyncio.sleep(EVERY_US / 1_000_000)
            late_us = now_us() - due_us
            self.worst_us = max(self.worst_us, late_us)
            if late_us >= STALLED_US:
                self._stalled(late_us)


class ProgramGuard:
    """Tells `stalled` how long (µs) a process waited for a processor in a tenth of a second.

    Only if that is 50 ms or more. Source: Linux, Documentation/scheduler/sched-stats.rst.
    """

    def __init__(self, stalled: Callable[[int], None]) -> None:
        self._stalled = stalled

    async def run(self, pid: int) -> None:
        """Watch until cancelled, or until the process is gone."""
        before_us = _waited_us(pid)
        while before_us is not None:
            await asyncio.sleep(_LOOK_EVERY_US / 1_000_000)
            waited_us = _waited_us(pid)
            if waited_us is not None and waited_us - before_us >= STALLED_US:
                self._stalled(waited_us - before_us)
            before_us = waited_us


class MachineGuard:
    """Tells `stalled` how long (µs) this machine had no disk or no processor in a tenth second.

    Only if that is 50 ms or more. Sources: Linux, Documentation/accounting/psi.rst ("some" of io)
    and proc_stat(5) ("steal").
    """

    def __init__(self, stalled: Callable[[int], None]) -> None:
        self._stalled = stalled

    async def run(self) -> None:
        """Watch until cancelled."""
        before_us = away_us()
        while True:
            await asyncio.sleep(_LOOK_EVERY_US / 1_000_000)
            now_away_us = away_us()
            grown_us = (now - old for now, old in zip(now_away_us, before_us, strict=True))
            longest_us, before_us = max(grown_us), now_away_us
            if longest_us >= STALLED_US:
                self._stalled(longest_us)


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
