"""What is between a consumer of this process and its store, and what a fault does to that?"""

from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from sqlite3 import Connection, connect

from bench.rig.in_memory.disk_outbox import seize
from bench.rig.interfaces import Wire


def forget_topics(file: Path) -> None:
    """Write an inbox as an earlier version did, which knew of no id on which topic it was.

    Where two topics have one id, there was no such version.
    """
    with closing(connect(file)) as db, db:
        names = [name for (name,) in db.execute("SELECT name FROM inbox_window")]
        ids = {name: _without_topic(name) for name in names}
        if len(set(ids.values())) == len(ids):
            for name, without in ids.items():
                db.execute("UPDATE inbox_window SET name = ? WHERE name = ?", (without, name))
            db.execute("DELETE FROM inbox_number WHERE name = 'has_topics'")


def _without_topic(name: str) -> str:
    """What stands behind bus and channel, each of which has its length before it."""
    for _ in range(2):
        length, _, rest = name.partition(":")
        name = rest[int(length) + 1 :]
    return name


class InboxWire(Wire):
    """The wire of one consumer to a Redis, or the file that it has: whole, slow or cut.

    What is cut takes nothing and says nothing; of a file only writing is kept from it. `fault` is
    told what begins and what ends.
    """

    def __init__(self, file: Callable[[], Path | None], fault: Callable[..., None]) -> None:
        self._file = file
        self._fault = fault
        self._is_cut = False
        self._delay_us = 0
        self._seized: Connection | None = None

    @property
    def is_cut(self) -> bool:
        return self._is_cut

    @property
    def delay_us(self) -> int:
        return self._delay_us

    def cut(self) -> None:
        self._is_cut = True
        file = self._file()
        if file is not None:
            self._seized = seize(file)
        self._fault("cut", "fault.begin")

    def delay(self, us: int) -> None:
        self._delay_us = us
        self._fault("delay", "fault.begin", after_us=us)

    async def restore(self) -> None:
        self.end()
        self._fault("cut", "fault.end")

    def end(self) -> None:
        """Let everything pass again."""
        self._is_cut, self._delay_us = False, 0
        if self._seized is not None:
            self._seized.close()
            self._seized = None
