"""What does a host see of a board's serial port? A real pty that can be taken away."""

import asyncio
import contextlib
import os
import tty
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

READ_BYTES = 4096
UNREAD_BYTES_MAX = 65_536
"""What is kept for a reader who is behind; more is lost, as on a serial line without a reader."""


class SerialPort(Protocol):
    """The side of a serial port on which the board is."""

    lost_bytes: int
    """How much nobody has read in time."""

    @property
    def path(self) -> str:
        """What the host opens."""

    def plug(self) -> None:
        """Give the host the port."""

    def unplug(self) -> None:
        """Take it away."""

    def write(self, data: bytes) -> None:
        """Say something to the host."""


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
        """What the host opens; the link, where there is one."""
        return self._path if self._link is None else str(self._link)

    def plug(self) -> None:
        """Give the host a port; OSError when it has none left."""
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
        """Take it away; who has it open gets a hang-up."""
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
        """Say something to the host; into the void while it is not plugged in."""
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
