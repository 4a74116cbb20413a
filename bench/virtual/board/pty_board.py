"""What does a board do that is plugged into a serial port? The virtual firmware behind a real pty.

The other side of the wire: it reads AT commands as a RAK3172 under RUI3 does, and writes what the
firmware says with RUI3's line ends. Not simulated: the attempts and the period of AT+JOIN (it
joins once), the empty frame after a payload that is too long, help texts, P2P.
"""

import asyncio
import contextlib
import os
import tty
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.capture import Record
from bench.device.at_grammar import LineCutter
from bench.device.at_session import leave
from bench.device.interfaces import Joining, Sent
from bench.virtual.board.device import VirtualDevice
from bench.virtual.board.rui3_commands import Rui3Commands

READ_BYTES = 4096
UNREAD_BYTES_MAX = 65_536
"""What is kept for a reader who is behind; more is lost, as on a serial line without a reader."""
_BOOT = "Current Work Mode: "


class Board:
    """One board; `async with` plugs it in, and takes it away at the end.

    Remembers what nobody has read yet, and whether it is starting: then it hears nothing.
    `port` is the device path while it is plugged in; `link`, if given, a name that stays the same
    over `unplug` and `plug`. One task per message under way, no thread.
    """

    def __init__(
        self,
        make_firmware: Callable[[Record], VirtualDevice],
        *,
        version: str = "RUI_4.1.0_RAK3172-H",
        link: Path | None = None,
    ) -> None:
        self.firmware = make_firmware(self._say)
        self.lost_bytes = 0
        self._commands = Rui3Commands(self.firmware, version)
        self._link = link
        self._cutter = LineCutter()
        self._unread = bytearray()
        self._master: int | None = None
        self._slave: int | None = None
        self._port = ""
        self._booting = 0
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: list[asyncio.Task[Any]] = []

    @property
    def port(self) -> str:
        """The device path to open; the link, where there is one."""
        return str(self._link) if self._link is not None else self._port

    @property
    def last_sent(self) -> Sent | None:
        """The message that it accepted last; complete once its MAC cycle is over."""
        return self._commands.last_sent

    @property
    def last_join(self) -> Joining | None:
        """The last attempt to join; complete once it is over."""
        return self.firmware.last_join

    async def __aenter__(self) -> "Board":
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        self.plug()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        self.unplug()
        for task in self._under_way:
            task.cancel()
        await leave(self._tasks, kind, error, trace)

    def plug(self) -> None:
        """Give it a port; OSError when the host has none left."""
        assert self._master is None, "it is plugged in"
        self._master, self._slave = os.openpty()
        # Held open by us too: without any opener a pty reports a hang-up, a port does not.
        tty.setraw(self._slave)
        os.set_blocking(self._master, False)
        self._port = os.ttyname(self._slave)
        if self._link is not None:
            self._link.unlink(missing_ok=True)
            self._link.symlink_to(self._port)
        asyncio.get_running_loop().add_reader(self._master, self._readable)

    def unplug(self) -> None:
        """Take the port away; the firmware goes on, as one with a battery does."""
        if self._master is None or self._slave is None:
            return
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._master)
        loop.remove_writer(self._master)
        os.close(self._master)
        os.close(self._slave)
        self._master = self._slave = None
        self._cutter.forget()
        self._unread.clear()
        if self._link is not None:
            self._link.unlink(missing_ok=True)

    async def restart(self, memory: bool = True) -> None:
        """Press the reset button, or with `memory=False` take the battery out; returns at the boot.

        With memory session, counters and DevNonce are kept; without, an OTAA device must join again
        and an ABP device counts anew.
        """
        self._cutter.forget()
        self._booting += 1
        await self._boot(memory=memory)

    async def _boot(self, *, memory: bool) -> None:
        try:
            await self.firmware.restart(memory=memory)
        finally:
            self._booting -= 1

    def set_nb_trans(self, transmissions: int) -> None:
        """How often every frame is sent, 1..15, as LinkADRReq would set it."""
        self.firmware.set_nb_trans(transmissions)

    def write_raw(self, data: bytes) -> None:
        """Put bytes on the wire that the firmware does not mean: noise."""
        self._unread += data
        self._flush()

    def _say(self, source: str, kind: str, fields: dict[str, object]) -> None:
        """What the firmware tells the capture: a line goes on the wire, a command came from it."""
        if kind == "device.line":
            text = str(fields["text"])
            begin = "\r\n" if text.startswith(_BOOT) else ""
            self.write_raw(f"{begin}{text}\r\n".encode())

    def _readable(self) -> None:
        assert self._master is not None
        try:
            data = os.read(self._master, READ_BYTES)
        except BlockingIOError:
            return
        if self._booting:
            return  # nobody is there to hear it
        if self._commands.echo:
            self.write_raw(data.replace(b"\r\n", b"\n\r"))
        for raw, cut in self._cutter.receive_bytes(data):
            self._obey("" if cut else raw.decode("ascii", "replace"))

    def _obey(self, text: str) -> None:
        if self._booting:  # an earlier line of the same bytes was a reset
            return
        reply = self._commands.obey(text)
        self.write_raw(reply.text.encode())
        if reply.resets:
            self._booting += 1
            self._spawn(self._boot(memory=self._commands.keeps_session_over_reset))
        elif reply.goes_on is not None:
            self._spawn(reply.goes_on)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._tasks is not None, "a board is used inside `async with`"
        task = self._tasks.create_task(work)
        self._under_way.append(task)
        task.add_done_callback(self._under_way.remove)

    def _flush(self) -> None:
        if self._master is None:
            self._unread.clear()
            return
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            while self._unread:
                del self._unread[: os.write(self._master, self._unread)]
        if not self._unread:
            loop.remove_writer(self._master)
            return
        over = len(self._unread) - UNREAD_BYTES_MAX
        if over > 0:
            del self._unread[-over:]
            self.lost_bytes += over
        loop.add_writer(self._master, self._flush)
