"""What does one WebSocket of a station do that others do not?

It never waits for its reader, takes a few messages a turn of the event loop, and remembers why
it ended. Frames go out whole and uncompressed: a station closes on anything else (Basics Station,
net.c).
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.protocol import State

from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.outage import rest_of
from lns.server.access import Shown, shown_certificate
from lns.server.doors import Doors, host_of, peer_of
from lns.station.protocol import LinkClosed

_SOCKET_BUFFER_BYTES = 65_536
# About 1 ms of work; a turn of its own for each message would cost an eighth more.
_MESSAGES_A_TURN = 8
# Where the work is more (a thousand devices of one address), a message is a turn, and whoever has
# more to say leaves the others as much time as it took.
_TURN_MAX_US = 5_000
_LEFT_TO_OTHERS_MAX_US = 100_000
_OPENED = 101  # Switching Protocols
READS_TOO_SLOWLY = "reads too slowly"


class WebSocket(ServerConnection):
    """A connection whose write buffer is bounded by dropping it; told of in `opened`, `closed`.

    `never_opened` is told of one that ends and was no WebSocket. `refused`: somebody was told why.
    `peer` is the address at the other side, for people to read, `host` the same without the port.
    """

    def __init__(
        self,
        *arguments: Any,
        doors: Doors,
        never_opened: Callable[["WebSocket"], None],
        **settings: Any,
    ) -> None:
        super().__init__(*arguments, **settings)
        self._doors = doors
        self._never_opened = never_opened
        self.host = self.peer = "-"
        self.station: Eui | None = None
        self.dropped_for = ""
        self.refused = False

    @property
    def why_not_opened(self) -> str:
        """What was wrong with the request, for a connection that is over and was never open."""
        if self.dropped_for:
            return self.dropped_for
        wrong = self.protocol.handshake_exc
        return "no request" if wrong is None else f"no WebSocket request: {wrong}"

    @property
    def _was_open(self) -> bool:
        return self.response is not None and self.response.status_code == _OPENED

    @property
    def shown(self) -> Shown:
        """What came with the request that opened it."""
        headers = self.request.headers.get_all("Authorization") if self.request else []
        authorization = headers[0] if len(headers) == 1 else None
        return Shown(authorization, shown_certificate(self.transport))

    def drop(self, cause: str) -> None:
        """End the connection at once, whatever is still to be sent."""
        self.dropped_for = self.dropped_for or cause
        self.transport.abort()

    def send_at_once(self, text: str) -> None:
        """`send` without its wait for the reader, and at half its price; only while it is open."""
        self.protocol.send_text(text.encode())
        self.send_data()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Small socket buffers: a message that waits for longer is of no use any more."""
        super().connection_made(transport)
        # Over TLS nobody knows it any more once the connection is lost.
        self.host, self.peer = host_of(transport), peer_of(transport)
        plain = transport.get_extra_info("socket")
        if plain is not None:
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER_BYTES)
            plain.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SOCKET_BUFFER_BYTES)
        self._doors.opened(self)

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection is over for whatever reason."""
        super().connection_lost(exc)
        self._doors.closed(self)
        if not self.refused and not self._was_open:
            self._never_opened(self)

    def pause_writing(self) -> None:
        """The write buffer is full: no other station waits for this one."""
        super().pause_writing()
        self.drop(READS_TOO_SLOWLY)


class WebSocketLink:
    """The link of one station over its WebSocket; see `lns.station.protocol.TextLink`."""

    def __init__(self, connection: WebSocket) -> None:
        self._connection = connection
        self.texts = 0
        self.binaries = 0
        self.cause = ""
        self._turn_messages = self._left_in_turn = 1

    async def send(self, text: str) -> None:
        """Hand one text to the socket; LinkClosed if the connection is over or ending."""
        if self._connection.state is not State.OPEN:
            raise LinkClosed(self._ended("the connection is over"))
        self._connection.send_at_once(text)
        if self._connection.dropped_for:
            raise LinkClosed(self._ended(self._connection.dropped_for))

    async def receive(self) -> str:
        """The next text; binary messages (the remote shell's) are counted and not read."""
        while True:
            if self._left_in_turn == 0:
                await self._leave_to_others()
            try:
                message = await self._next()
            except ConnectionClosed as error:
                raise LinkClosed(self._ended(str(error))) from error
            if isinstance(message, str):
                self.texts += 1
                return message
            self.binaries += 1

    def drop(self, cause: str) -> None:
        """End the connection at once."""
        self._connection.drop(cause)

    async def _next(self) -> str | bytes:
        work = self._connection.recv()
        try:
            waits_for = work.send(None)
        except StopIteration as there_already:
            self._left_in_turn -= 1
            message: str | bytes = there_already.value
            return message
        self._turn_messages = self._left_in_turn = 1
        return await rest_of(work, waits_for)

    async def _leave_to_others(self) -> None:
        """Whoever sends a thousand messages at once gets turns like everybody else."""
        began_us = now_us()
        await asyncio.sleep(0)
        took_us = now_us() - began_us
        if took_us < _TURN_MAX_US:
            self._turn_messages = min(2 * self._turn_messages, _MESSAGES_A_TURN)
        else:
            await asyncio.sleep(min(took_us, _LEFT_TO_OTHERS_MAX_US) / 1_000_000)
            self._turn_messages = 1
        self._left_in_turn = self._turn_messages

    def _ended(self, cause: str) -> str:
        self.cause = self.cause or self._connection.dropped_for or cause
        return self.cause
