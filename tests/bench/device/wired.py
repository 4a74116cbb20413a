"""A serial line in memory, a board at it that says what a test tells it to, and how to play.

What a driver makes of what a board says needs no wire: it is played on virtual time. Real ports
have `test_serial_line.py`, `test_discovery.py` (opens them itself), `test_transcripts.py` (every
recorded dialogue) and those of `test_attached.py` that are about ports that come and go.
"""

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from bench import clock
from bench.device.interfaces import Deadlines
from bench.device.rui3 import Rui3Device
from bench.device.serial_line import LineLost, PortUnavailable
from lns.lorawan.identifiers import Eui

P = ParamSpec("P")
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


def play_in_memory(scene: Coroutine[Any, Any, T]) -> T:
    """Run a scene on virtual time."""
    return clock.run(asyncio.wait_for(scene, PLAY_S))


def on_wires(scene: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test that is a scene to `play`."""
    return wraps(scene)(lambda *given, **facts: play(scene(*given, **facts)))


def in_memory(scene: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, T]:
    """A test that is a scene to `play_in_memory`."""
    return wraps(scene)(lambda *given, **facts: play_in_memory(scene(*given, **facts)))


class MemoryLine:
    """A serial line; `received` is given what the bench writes.

    Remembers what has arrived and was not read, whether there is a port, and why nobody can read.
    """

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self._received = received
        self._arrived = b""
        self._is_there = True
        self._lost = "it was never opened"
        self._changed = asyncio.Event()

    async def open(self) -> None:
        """As `SerialLine` does it."""
        if not self._is_there:
            raise PortUnavailable("memory: no such port; is the board plugged in?")
        self._arrived, self._lost = b"", ""

    async def read(self) -> bytes:
        """As `SerialLine` does it."""
        while not self._arrived:
            if self._lost:
                raise LineLost(f"memory: {self._lost}")
            self._changed.clear()
            await self._changed.wait()
        data, self._arrived = self._arrived, b""
        return data

    def write(self, data: bytes) -> None:
        """As `SerialLine` does it."""
        if self._lost:
            raise LineLost(f"memory: {self._lost}")
        asyncio.get_running_loop().call_soon(self._pass_on, data)

    async def close(self) -> None:
        """As `SerialLine` does it."""
        self._lose("it was closed by the bench")

    def say(self, data: bytes) -> None:
        """What the board says; nobody hears it where the line is not open."""
        if not self._lost:
            self._arrived += data
            self._changed.set()

    def plug(self) -> None:
        """Give the bench a port."""
        self._is_there = True

    def unplug(self) -> None:
        """Take it away."""
        self._is_there = False
        self._lose("it was unplugged or closed")

    def _pass_on(self, data: bytes) -> None:
        if self._is_there:
            self._received(data)

    def _lose(self, why: str) -> None:
        self._lost = self._lost or why
        self._changed.set()


class MemoryPort:
    """A port of a virtual board that is no pty: `line` is its other end."""

    path = "memory"
    lost_bytes = 0

    def __init__(self, received: Callable[[bytes], None]) -> None:
        self.line = MemoryLine(received)
        self.plug, self.unplug, self.write = self.line.plug, self.line.unplug, self.line.say


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
        self._line = MemoryLine(self._readable)

    async def __aenter__(self) -> "ScriptedBoard":
        return self

    async def __aexit__(self, *_: object) -> None:
        self.unplug()

    def device(self, **deadlines: int) -> Rui3Device:
        """The driver at this board's line; it has not been opened."""
        patience = Deadlines(**deadlines) if deadlines else None
        return Rui3Device("alpha", DEV_EUI, self._line, self.record, deadlines=patience)

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        assert (source, fields["dev_eui"]) == ("device-alpha", DEV_EUI)
        assert set(fields) == {"dev_eui", "text"}
        self._seen(str(fields["text"])).set()
        self.captured.append((kind.removeprefix("device."), str(fields["text"])))

    @property
    def lines(self) -> list[str]:
        return [text for kind, text in self.captured if kind == "line"]

    def say(self, data: bytes) -> None:
        self._line.say(data)

    def unplug(self) -> None:
        self._line.unplug()

    async def asked(self, command: str) -> None:
        """Wait until this command has come (again)."""
        await self._asked.setdefault(command, asyncio.Event()).wait()
        self._asked[command].clear()

    async def heard(self, line: str) -> None:
        """Wait until the driver has captured this line."""
        await self._seen(line).wait()

    def _seen(self, text: str) -> asyncio.Event:
        return self._captures.setdefault(text, asyncio.Event())

    def _readable(self, data: bytes) -> None:
        self._heard += data
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
                asyncio.get_running_loop().call_soon(self.say, piece)
