"""How is a virtual device plugged into a host: a board with a serial port?"""

import asyncio
import contextlib
import os
import tty
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from bench.capture import Record
from bench.device.at_session import task_group
from bench.virtual.device import VirtualDevice

READ_BYTES = 4096
UNREAD_BYTES_MAX = 65_536
"""What is kept for a reader who is behind; more is lost, as on a serial line without a reader."""


class Port:
    """The USB side of one board; remembers what nobody has read yet.

    `link`, if given, is a name for it that stays the same over `unplug` and `plug`. `received` is
    given what the host writes. `lost_bytes`: how much nobody has read in time.
    """

    def __init__(self, link: Path | None, received: Callable[[bytes], None]) -> None:
        self.lost_bytes = 0
        self._path = ""
        self._link = link
        self._received = received
        self._unread = bytearray()
        self._master: int | None = None
        self._slave: int | None = None

    @property
    def path(self) -> str:
        return self._path if self._link is None else str(self._link)

    def plug(self) -> None:
        """Give it to the host; OSError when that has none left."""
        if self._master is not None:
            return
        self._master, self._slave = os.openpty()
        # Held open by us too: without any opener a pty reports a hang-up, a port does not.
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._path = os.ttyname(self._slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._path)
        asyncio.get_running_loop().add_reader(self._master, self._readable)

    def unplug(self) -> None:
        """Take it away; the firmware goes on, as one with a battery does."""
        if self._master is None or self._slave is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        loop.remove_writer(self._master)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = None
        self._unread.clear()

    def write(self, data: bytes) -> None:
        if self._master is not None:
            self._unread += data
            self._flush()

    def _readable(self) -> None:
        assert self._master is not None
        with contextlib.suppress(BlockingIOError):
            self._received(os.read(self._master, READ_BYTES))

    def _flush(self) -> None:
        if self._master is None:
            return
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            while self._unread:
                del self._unread[: os.write(self._master, self._unread)]
        if not self._unread:
            loop.remove_writer(self._master)
            return
        over = len(self._unread) - UNREAD_BYTES_MAX
        if over > 0:  # what is oldest waits in the pty already
            del self._unread[-over:]
            self.lost_bytes += over
        loop.add_writer(self._master, self._flush)


# The other side of the wire: it hears bytes as a RAK3172 under RUI3 does, and writes what the
# firmware says with RUI3's line ends.
class Board:
    """One board, for as long as it is `plugged`.

    The host finds it at `port` meanwhile. One task per message under way, no thread. `new_port`
    makes another port than a pty; it is given what is to hear the host.
    """

    def __init__(
        self,
        make_firmware: Callable[[Record], VirtualDevice],
        *,
        new_port: Callable[[Callable[[bytes], None]], Port] = lambda received: Port(None, received),
    ) -> None:
        self.firmware = make_firmware(lambda *_: None)  # whoever is at the port captures
        self.port = new_port(self.firmware.hear)
        self.firmware.write, self.firmware.spawn = self.port.write, self._spawn
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: list[asyncio.Task[Any]] = []

    @asynccontextmanager
    async def plugged(self) -> AsyncIterator[None]:
        """Plug it in, and take it away at the end."""
        async with task_group() as self._tasks:
            try:
                self.port.plug()
                yield
            finally:
                self.port.unplug()
                for task in self._under_way:
                    task.cancel()

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._tasks is not None, "a board is used inside `plugged`"
        task = self._tasks.create_task(work)
        self._under_way.append(task)
        task.add_done_callback(self._under_way.remove)
