"""How do the processes of an emulated lab live in its folder, and how do they talk?

One JSON object a line, over UNIX sockets. `python -m bench.virtual.lab.lab_folder DIR VERB NAME
[VALUE]` asks the lab in that folder to do something to a board, a station or the air.
"""

import asyncio
import json
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any


def live(work: Coroutine[Any, Any, None]) -> int:
    """Do this until the process is ended; a Ctrl-C at the terminal is for the lab, not for us."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    asyncio.run(work)
    return 0


AIR = "air"
BENCH_TOML = "bench.toml"
TC_URI = "tc.uri"
SOCKET = "socket"


def home(folder: Path, name: str) -> Path:
    """The folder of one board, one station, or the air; made if it is not there."""
    there = folder / name
    there.mkdir(parents=True, exist_ok=True)
    return there


def port_link(folder: Path, name: str) -> Path:
    """The path of a board's serial port that stays the same; a link while it is plugged in."""
    return home(folder, "dev") / name


def log_file(folder: Path, name: str) -> Path:
    return home(folder, name) / "log"


@contextmanager
def socket_path(home: Path) -> Iterator[str]:
    """A short path of the socket in a folder, good while the context lasts."""
    handle = os.open(home, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{handle}/{SOCKET}"
    finally:
        os.close(handle)


LINE_BYTES_MAX = 1 << 16
Accept = Callable[["Wire"], Awaitable[None]]


class Wire:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    def send(self, message: Mapping[str, object]) -> None:
        """Hand over one message; nothing happens if nobody is there any more."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    async def receive(self) -> dict[str, Any] | None:
        """The next message; None once the connection is over."""
        with suppress(ConnectionError):
            line = await self._reader.readline()
            if line.endswith(b"\n"):
                message: dict[str, Any] = json.loads(line)
                return message
        return None

    async def close(self) -> None:
        self._writer.close()
        with suppress(ConnectionError):
            await self._writer.wait_closed()


async def connect(home: Path) -> Wire:
    """A connection to the process that lives in this folder; OSError if it does not listen."""
    with socket_path(home) as path:
        return Wire(*await asyncio.open_unix_connection(path, limit=LINE_BYTES_MAX))


async def serve(home: Path, accept: Accept) -> asyncio.Server:
    """Listen in this folder; `accept` serves one connection until it returns."""

    async def opened(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(reader, writer)
        try:
            await accept(wire)
        finally:
            await wire.close()

    (home / SOCKET).unlink(missing_ok=True)
    with socket_path(home) as path:
        return await asyncio.start_unix_server(opened, path, limit=LINE_BYTES_MAX)


ANSWER_S = 30
Obey = Callable[[str, str, str], Awaitable[str]]
"""Carries out a verb for a name with a value; what was wrong, "" if nothing was."""

VERBS = {
    "unplug": "take the USB plug of a board out; the board goes on",
    "plug": "put it in again",
    "power-off": "cut the power of a board or a station",
    "power-on": "give it back",
    "power-cycle": "cut it and give it back",
    "reset": "press NRST of a board",
    "reboot": "let a board start anew by itself, as after a brown-out",
    "mute": "let the firmware of a board hang: it answers nothing",
    "unmute": "let it go on",
    "kill-station": "kill the process of a station",
    "start-station": "start it",
    "restart-station": "kill it, if it runs, and start it",
    "deaf": "put a radio into a box that no signal enters or leaves",
    "hearing": "take it out",
    "attenuate": "set its step attenuator to this many dB",
}


class ControlRefused(Exception):
    """The lab cannot do that; the text says why."""


async def ask(home: Path, verb: str, name: str, value: str = "") -> None:
    """Let the process in this folder do something; ControlRefused with the reason otherwise."""
    try:
        async with asyncio.timeout(ANSWER_S):
            wire = await connect(home)
            try:
                wire.send({"verb": verb, "name": name, "value": value})
                answer = await wire.receive()
            finally:
                await wire.close()
    except OSError as error:
        raise ControlRefused(f"nothing runs in {home} ({error.strerror or error})") from None
    except TimeoutError:
        raise ControlRefused(f"what runs in {home} does not answer") from None
    if answer is None or answer["refused"]:
        raise ControlRefused(answer["refused"] if answer else f"{home}: it ended meanwhile")


async def listen(home: Path, obey: Obey) -> asyncio.Server:
    """Let this process be asked, in its folder."""

    async def accept(wire: Wire) -> None:
        while (request := await wire.receive()) is not None:
            wire.send({"refused": await obey(request["verb"], request["name"], request["value"])})

    return await serve(home, accept)


def main(words: list[str]) -> int:
    """Ask once; 0 if it was done."""
    if len(words) not in (3, 4) or words[1] not in VERBS:
        print(f"usage: DIR VERB NAME [VALUE]; verbs: {', '.join(VERBS)}", file=sys.stderr)
        return 4
    try:
        asyncio.run(ask(Path(words[0]), *words[1:]))
    except ControlRefused as refusal:
        print(refusal, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
