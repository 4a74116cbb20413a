"""What does a board do that is plugged into a serial port? A virtual device behind a real pty.

The other side of the wire: it hears bytes as a RAK3172 under RUI3 does, and writes what the
firmware says with RUI3's line ends.
"""

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from types import TracebackType
from typing import Any

from bench.capture import Record
from bench.device.at_session import leave
from bench.device.interfaces import Joining, Sent
from bench.virtual.board.device import VirtualDevice
from bench.virtual.board.port import Port, SerialPort


class Board:
    """One board; `async with` plugs it in, and takes it away at the end.

    `port` is the device path while it is plugged in; `link`, if given, a name that stays the same
    over `unplug` and `plug`. One task per message under way, no thread. `new_port` makes another
    port than a pty, one in memory; it is given what is to hear the host.
    """

    def __init__(
        self,
        make_firmware: Callable[[Record], VirtualDevice],
        *,
        link: Path | None = None,
        new_port: Callable[[Callable[[bytes], None]], SerialPort] | None = None,
    ) -> None:
        self.firmware = make_firmware(lambda *_: None)  # whoever is at the port captures
        hear = self.firmware.hear
        self._port = Port(link, hear) if new_port is None else new_port(hear)
        self.firmware.write, self.firmware.spawn = self._port.write, self._spawn
        self._tasks: asyncio.TaskGroup | None = None
        self._under_way: list[asyncio.Task[Any]] = []

    @property
    def port(self) -> str:
        """The device path to open; the link, where there is one."""
        return self._port.path

    @property
    def lost_bytes(self) -> int:
        """What nobody has read in time."""
        return self._port.lost_bytes

    @property
    def last_sent(self) -> Sent | None:
        """The message that it accepted last; complete once its MAC cycle is over."""
        return self.firmware.last_sent

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
        self._port.plug()

    def unplug(self) -> None:
        """Take the port away; the firmware goes on, as one with a battery does."""
        self._port.unplug()

    async def restart(self, memory: bool = True) -> None:
        """Press the reset button, or with `memory=False` take the battery out; returns at the boot.

        With memory session, counters and DevNonce are kept; without, an OTAA device must join again
        and an ABP device counts anew.
        """
        await self.firmware.restart(memory=memory)

    def set_nb_trans(self, transmissions: int) -> None:
        """How often every frame is sent, 1..15, as LinkADRReq would set it."""
        self.firmware.set_nb_trans(transmissions)

    def write_raw(self, data: bytes) -> None:
        """Put bytes on the wire that the firmware does not mean: noise."""
        self._port.write(data)

    def _spawn(self, work: Coroutine[Any, Any, Any]) -> None:
        assert self._tasks is not None, "a board is used inside `async with`"
        task = self._tasks.create_task(work)
        self._under_way.append(task)
        task.add_done_callback(self._under_way.remove)
