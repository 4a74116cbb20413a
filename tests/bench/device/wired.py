"""A board that says what a test tells it to, at a real pty, and how to play with one."""

import asyncio
import os
import tty
from collections.abc import Coroutine
from typing import Any, TypeVar

from bench.device.deadlines import Deadlines
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import SerialLine
from lns.lorawan.identifiers import Eui

T = TypeVar("T")
DEV_EUI = Eui("70B3D57ED0000001")
PLAY_S = 60

IDENTITY: dict[str, bytes | list[bytes]] = {
    "AT": b"OK\r\n",
    "AT+VER=?": b"AT+VER=RUI_4.1.0_RAK3172-H\r\nOK\r\n",
    "AT+DEVEUI=?": b"AT+DEVEUI=70B3D57ED0000001\r\nOK\r\n",
    "AT+NJM=?": b"AT+NJM=1\r\nOK\r\n",
    "AT+CFM=?": b"AT+CFM=0\r\nOK\r\n",
}


def play(scene: Coroutine[Any, Any, T]) -> T:
    """Run a scene on the real clock; a hanging one fails long before the suite does."""
    return asyncio.run(asyncio.wait_for(scene, PLAY_S))


class ScriptedBoard:
    """Answers each command as the script says: always so, or one answer after the other.

    An answer is written in the pieces that b"|" cuts it into. What is not in the script is not
    answered.
    """

    def __init__(self, script: dict[str, bytes | list[bytes]] | None = None) -> None:
        self.script = {**IDENTITY, **(script or {})}
        self.commands: list[str] = []
        self.captured: list[tuple[str, str]] = []
        self._heard = bytearray()
        self._asked: dict[str, asyncio.Event] = {}
        self._captures: dict[str, asyncio.Event] = {}
        self.master, self.slave = os.openpty()
        tty.setraw(self.slave)
        self.port = os.ttyname(self.slave)
        asyncio.get_running_loop().add_reader(self.master, self._readable)

    def __enter__(self) -> "ScriptedBoard":
        return self

    def __exit__(self, *_: object) -> None:
        self.unplug()

    def device(self, **deadlines: int) -> Rui3Device:
        """The driver at this board's port; it has not been opened."""
        patience = Deadlines(**deadlines) if deadlines else None
        line = SerialLine(self.port)
        return Rui3Device("alpha", DEV_EUI, line, self.record, deadlines=patience)

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        assert (source, fields["dev_eui"]) == ("device-alpha", DEV_EUI)
        assert set(fields) == {"dev_eui", "text"}
        self._seen(str(fields["text"])).set()
        self.captured.append((kind.removeprefix("device."), str(fields["text"])))

    @property
    def lines(self) -> list[str]:
        return [text for kind, text in self.captured if kind == "line"]

    def say(self, data: bytes) -> None:
        os.write(self.master, data)

    def unplug(self) -> None:
        if self.master >= 0:
            asyncio.get_running_loop().remove_reader(self.master)
            os.close(self.master)
            os.close(self.slave)
            self.master = -1

    async def asked(self, command: str) -> None:
        """Wait until this command has come (again)."""
        await self._asked.setdefault(command, asyncio.Event()).wait()
        self._asked[command].clear()

    async def heard(self, line: str) -> None:
        """Wait until the driver has captured this line."""
        await self._seen(line).wait()

    def _seen(self, text: str) -> asyncio.Event:
        return self._captures.setdefault(text, asyncio.Event())

    def _readable(self) -> None:
        self._heard += os.read(self.master, 4096)
        while b"\r\n" in self._heard:
            raw, _, rest = self._heard.partition(b"\r\n")
            self._heard = bytearray(rest)
            self._obey(raw.decode())

    def _obey(self, command: str) -> None:
        self.commands.append(command)
        self._asked.setdefault(command, asyncio.Event()).set()
        answer = self.script.get(command, b"")
        if isinstance(answer, list):
            answer = answer.pop(0) if answer else b""
        for piece in answer.split(b"|"):
            if piece:
                self.say(piece)
