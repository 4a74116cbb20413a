"""Who uses the bench?

A lock of the kernel on a file that also says who holds it. The kernel frees it when its owner dies,
however that happens, so that nobody ever has to remove it.
"""

import contextlib
import fcntl
import getpass
import json
import os
import socket
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from bench.lab.inventory.entries import Inventory
from lns.clock import utc_of_this_host
from lns.complaints import printable

_COMMAND_MAX = 100


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a bench; `since` is the wall clock of its host, UTC."""

    user: str
    host: str
    pid: int
    since: str
    command: str

    def __str__(self) -> str:
        text = f"{self.user}@{self.host}, process {self.pid}, since {self.since}: {self.command}"
        return printable(text)


class LockHeld(Exception):
    """Somebody else uses the bench; `owner` is None if the file does not say who."""

    def __init__(self, name: str, path: Path, owner: Owner | None) -> None:
        who = f"it is used by {owner}" if owner else "somebody uses it"
        end = f"end process {owner.pid} on {owner.host}" if owner else "end it"
        super().__init__(
            f"the bench {name} is taken: {who}. Wait until that is done, or {end}; the lock"
            f" file {path} need not be removed (`fuser -v` tells who has it open)"
        )
        self.owner = owner


class BenchLock:
    """The bench, for one process at a time; LockHeld on entering if somebody else has it.

    OSError, which says what to do, if the lock file cannot be written. Remembers the open file
    while it is held.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.name = inventory.name
        self.path = inventory.lock
        self._file: int | None = None

    def __enter__(self) -> "BenchLock":
        assert self._file is None, f"{self.path} is held already"
        file = self._open()
        try:
            with contextlib.suppress(PermissionError):  # made by somebody else, who did this
                os.fchmod(file, 0o666)  # people share a lab computer
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read_owner(file)
            os.close(file)
            raise LockHeld(self.name, self.path, owner) from None
        except BaseException:
            os.close(file)
            raise
        self._file = file
        with contextlib.suppress(OSError):  # a full disk: held all the same, by nobody known
            os.ftruncate(file, 0)
            os.pwrite(file, f"{json.dumps(asdict(_ourselves()))}\n".encode(), 0)
        return self

    def __exit__(self, *raised: Any) -> None:
        assert self._file is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)
        self._file = None

    def _open(self) -> int:
        try:
            # In a folder like /run/lock nobody may "create" a file that somebody else has made.
            with contextlib.suppress(FileNotFoundError):
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OSError(
                f"the lock file {self.path} cannot be written: {error.strerror}; name another in"
                f' bench.toml, such as lock = "/run/lock/{self.path.name}" under [bench]'
            ) from None


def owner_of(inventory: Inventory) -> Owner | None:
    """Who has the bench, as far as its file says; None if that process is no more.

    For people to read. It asks the lock itself nothing, which would be in the way of who takes it.
    """
    try:
        file = os.open(inventory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        owner = _read_owner(file)
    finally:
        os.close(file)
    gone = owner is not None and owner.host == socket.gethostname() and not _lives(owner.pid)
    return None if gone else owner


def _lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def _ourselves() -> Owner:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = str(os.getuid())
    return Owner(
        user=user,
        host=socket.gethostname(),
        pid=os.getpid(),
        since=f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}",
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_MAX],
    )


def _read_owner(file: int) -> Owner | None:
    try:
        told = json.loads(os.pread(file, 4096, 0))
        return Owner(
            user=str(told["user"]),
            host=str(told["host"]),
            pid=int(told["pid"]),
            since=str(told["since"]),
            command=str(told["command"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
