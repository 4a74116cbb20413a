"""What does a network server that is alone keep and read, where it has files?"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from shutil import rmtree
from sqlite3 import Connection
from tempfile import mkdtemp
from weakref import finalize

from bench.host.lns_process import toml_text
from bench.rig.disk_outbox import memory_of_this_host, seize
from lns.config import Config, load
from lns.store.sqlite import SqliteStore


class DiskStore:
    """The file of one server, which outlives it; whoever opens it reads what is there."""

    def __init__(self) -> None:
        folder = Path(mkdtemp(prefix="lorabench-store-", dir=memory_of_this_host()))
        self._path = folder / "sessions"
        self._full: Connection | None = None
        self._opened = [SqliteStore(self._path)]
        self.end = finalize(self, _remove, folder, self._opened)
        """Removes it all; so does whoever forgets it."""

    @property
    def newest(self) -> SqliteStore:
        """The store of the server that runs."""
        return self._opened[0]

    def open(self) -> SqliteStore:
        """A store of what the file has by now; the one before it takes nothing more."""
        self.newest.close()
        self._opened[0] = SqliteStore(self._path)
        return self.newest

    def configured(
        self, settings: Mapping[str, object], devices: Sequence[Mapping[str, object]]
    ) -> Config:
        """What a server reads of its configuration."""
        lns = self._path.with_name("lns.toml")
        lns.write_text(toml_text(settings), "utf-8")
        lns.with_name("devices.toml").write_text(toml_text({"device": devices}), "utf-8")
        return load(lns)

    def fill(self) -> None:
        """Let nothing more be written, until `free`."""
        self._full = seize(self._path)

    def free(self) -> None:
        if self._full is not None:
            self._full.close()
            self._full = None


def _remove(folder: Path, opened: list[SqliteStore]) -> None:
    opened[0].close()
    rmtree(folder, ignore_errors=True)
