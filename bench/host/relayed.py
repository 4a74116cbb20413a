"""What is one connection through a relay, and one direction of all of them?"""

import asyncio
from contextlib import suppress
from dataclasses import dataclass, field

from lns.clock import now_us

_CHUNK = 65_536


@dataclass(slots=True)
class Way:
    """One direction of all connections, and what happens to octets on it."""

    delay_us: int = 0
    swallowed: bool = False
    octets: int = 0


class Ended(Exception):
    """A connection is to end."""


@dataclass(slots=True, eq=False)
class Connection:
    """One client, and its connection to the other side."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        """End it at once."""
        self.client.transport.abort()
        self.server.transport.abort()
        self.ended.set()

    async def close(self) -> None:
        """End it, and wait until it is gone."""
        for writer in (self.client, self.server):
            writer.close()
        for writer in (self.client, self.server):
            with suppress(OSError):
                await writer.wait_closed()


async def until_ended(connection: Connection) -> None:
    """Wait for the end of a connection, then raise Ended."""
    await connection.ended.wait()
    raise Ended


async def take(
    reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[int, bytes]], way: Way
) -> None:
    """Put what comes into `waiting`, with the time at which it is due; b"" is the end."""
    while True:
        octets = await reader.read(_CHUNK)
        await waiting.put((now_us() + way.delay_us, octets))
        if not octets:
            return
