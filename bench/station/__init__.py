"""How do whole texts travel between a station, its tap and the network server?"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Protocol

from lns.clock import now_us
from lns.station.protocol import LinkClosed

__all__ = ["LinkClosed", "MemoryLink", "TextLink", "link_pair"]

TEXTS_MAX = 100_000


class TextLink(Protocol):
    """One end of a connection that carries whole texts, in order, both ways."""

    @property
    def closed(self) -> bool:
        """Whether this end can send no more."""

    async def send(self, text: str) -> None:
        """Hand over one text; LinkClosed if the connection is over."""

    async def receive(self) -> str:
        """The next text; LinkClosed once the connection is over and everything sent was read."""

    def close(self) -> None:
        """End the connection for both ends."""


def link_pair(latency_us: int = 0) -> tuple["MemoryLink", "MemoryLink"]:
    """The two ends of a connection in memory; a text arrives `latency_us` after it was sent."""
    left, right = MemoryLink(latency_us), MemoryLink(latency_us)
    left.peer, right.peer = right, left
    return left, right


class MemoryLink:
    """One end of a connection in memory.

    Remembers the texts that arrived and were not read. What was sent before `close` still arrives;
    the end that closed reads and sends nothing more. A reader further than 100 000 texts behind
    loses the connection, as it would to a full socket.
    """

    def __init__(self, latency_us: int) -> None:
        self._latency_us = latency_us
        self._arrived: deque[str] = deque()
        self._reader: asyncio.Future[None] | None = None
        self._closed = False
        self._ended = False
        self.peer: MemoryLink

    @property
    def closed(self) -> bool:
        return self._closed

    def send_now(self, text: str) -> None:
        """`send` for those who cannot wait; LinkClosed if the connection is over."""
        if self._closed:
            raise LinkClosed("the link is closed")
        self._after_latency(self.peer._arrive, text)

    async def send(self, text: str) -> None:
        self.send_now(text)

    async def receive(self) -> str:
        assert self._reader is None, "a link has one reader"
        while not self._arrived:
            if self._ended:
                raise LinkClosed("the link is closed")
            self._reader = asyncio.get_running_loop().create_future()
            try:
                await self._reader
            finally:
                self._reader = None
        return self._arrived.popleft()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._arrived.clear()
        self._end()
        self._after_latency(self.peer._end)

    def vanish(self, noticed_after_us: int) -> None:
        """End the connection for this end only; the other end notices so much later (half open)."""
        if self._closed:
            return
        self._arrived.clear()
        self._end()
        loop = asyncio.get_running_loop()
        loop.call_at((now_us() + noticed_after_us) / 1_000_000, self.peer._end)

    def _after_latency(self, callback: Callable[..., None], *args: str) -> None:
        loop = asyncio.get_running_loop()
        loop.call_at((now_us() + self._latency_us) / 1_000_000, callback, *args)

    def _arrive(self, text: str) -> None:
        if self._ended:
            return
        self._arrived.append(text)
        if len(self._arrived) > TEXTS_MAX:
            self.close()
        self._wake()

    def _end(self) -> None:
        self._ended = self._closed = True
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)
