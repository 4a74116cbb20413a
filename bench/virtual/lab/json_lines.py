"""How do the processes of an emulated lab talk? One JSON object a line, over UNIX sockets."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from bench.virtual.lab.layout import SOCKET, socket_path

LINE_BYTES_MAX = 1 << 16
Accept = Callable[["Wire"], Awaitable[None]]


class Wire:
    """One end of a connection."""

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
        """End it for both ends."""
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
