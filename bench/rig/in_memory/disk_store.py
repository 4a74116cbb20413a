"""What does a network server that is alone keep and read, where it has files?"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from sqlite3 import Connection
from weakref import finalize

from bench.host.lns_process import toml_text
from bench.rig.in_memory.disk_outbox import new_folder, seize
from lns.config import Config, ConfigError, load
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.sqlite import SqliteStore


class ToldStore(SqliteStore):
    """A file that tells of each write as soon as it is on the disk."""

    def __init__(self, path: Path, wrote: Callable[[], None]) -> None:
        super().__init__(path)
        self._wrote = wrote

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        await super().keep_sessions(dev_eui, sessions)
        self._wrote()

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        kept = await super().keep_join(dev_eui, dev_nonce, sessions)
        self._wrote()
        return kept

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        join_nonce = await super().next_join_nonce(dev_eui, least)
        self._wrote()
        return join_nonce


def configuration_in(file: Path) -> Config:
    """What a server reads of its configuration; ConfigError names files, and no folder."""
    try:
        return load(file)
    except ConfigError as error:  # the folder has another name in each run
        raise ConfigError(str(error).replace(f"{file.parent}/", "")) from None


class DiskStore:
    """The file of one server, which outlives it; whoever opens it reads what is there."""

    def __init__(self) -> None:
        folder = new_folder("store")
        self._path = folder / "sessions"
        self._full: Connection | None = None
        self._writes_left = 0
        self._opened = [ToldStore(self._path, self._count)]
        self.end = finalize(self, _remove, folder, self._opened)
        """Removes it all; so does whoever forgets it."""

    @property
    def newest(self) -> SqliteStore:
        """The store of the server that runs."""
        return self._opened[0]

    def open(self) -> SqliteStore:
        """A store of what the file has by now; the one before it takes nothing more."""
        self.newest.close()
        self._opened[0] = ToldStore(self._path, self._count)
        return self.newest

    def configured(
        self, settings: Mapping[str, object], devices: Sequence[Mapping[str, object]]
    ) -> Config:
        """What a server reads of its configuration; ConfigError names files, and no folder."""
        lns = self._path.with_name("lns.toml")
        lns.write_text(toml_text(settings), "utf-8")
        lns.with_name("devices.toml").write_text(toml_text({"device": devices}), "utf-8")
        return configuration_in(lns)

    def fill(self, after: int = 0) -> None:
        """Let nothing more be written than so many writes, until `free`."""
        self._writes_left = after
        if not after:
            self._full = seize(self._path)

    def _count(self) -> None:
        if self._writes_left:
            self._writes_left -= 1
            if not self._writes_left:
                self.fill()

    def free(self) -> None:
        if self._full is not None:
            self._full.close()
            self._full = None


def _remove(folder: Path, opened: list[ToldStore]) -> None:
    opened[0].close()
    rmtree(folder, ignore_errors=True)
