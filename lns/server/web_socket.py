"""What does one WebSocket of a station do that others do not?

It never waits for its reader, takes a few messages a turn of the event loop, and remembers why
it ended. Frames go out whole and uncompressed: a station closes on anything else (Basics Station,
net.c). Who has connected and is not served yet is counted from the moment that it is accepted: half
a TLS handshake costs 300 kB, and whoever has begun one has shown nothing yet.
"""

import asyncio
import socket
import ssl
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, cast

from websockets.asyncio.server import ServerConnection
from websockets.exceptions import ConnectionClosed
from websockets.frames import Frame, Opcode
from websockets.protocol import State

from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.server.access import Shown, refused_handshake, shown_certificate
from lns.station.protocol import LinkClosed


@dataclass(frozen=True, slots=True)
class Limits:
    """The deadlines (µs) and bounds of one listener.

    A station answers pings at once but while it connects elsewhere, so it is given a minute; it
    notices a dead peer itself after two (Basics Station, TCP keep-alive). A real message has less
    than 2 kB. A station that leaves 64 kB unread is dropped, never waited for. `opening_max`
    counts connections that are not yet a station's, from when they are accepted: of more than that
    the oldest are dropped. A TLS handshake takes a station two round trips.
    """

    handshake_us: int = 5_000_000
    opening_us: int = 10_000_000
    question_us: int = 10_000_000
    ping_interval_us: int = 30_000_000
    ping_timeout_us: int = 60_000_000
    closing_us: int = 5_000_000
    message_bytes_max: int = 65_536
    unsent_bytes_max: int = 65_536
    opening_max: int = 256
    stations_max: int = 4096


TOO_MANY = "too many connections that say nothing"
GOES_AWAY = "the server goes away"
_S = 1_000_000


class Visitor(Protocol):
    """A connection that is not served yet."""

    @property
    def host(self) -> str:
        """The address that it comes from, without the port."""
        ...

    def drop(self, cause: str) -> None:
        """End it at once."""


class Doors:
    """Connections that are not yet a station's; of more than `opening_max` some go at once.

    A station is through in milliseconds. Whoever opens connections and says nothing only shortens
    the time that others of his address have: the oldest goes of the address that has most.
    """

    def __init__(self, opening_max: int) -> None:
        self._opening_max = opening_max
        self._opening: dict[Visitor, str] = {}
        self._turn = asyncio.Lock()
        self.arrived = 0

    @property
    def opening(self) -> int:
        """How many there are now."""
        return len(self._opening)

    def opened(self, visitor: Visitor) -> None:
        """Somebody connected, or has got as far as a request."""
        self._opening[visitor] = visitor.host
        if len(self._opening) > self._opening_max:
            ((most, _),) = Counter(self._opening.values()).most_common(1)
            oldest = next(visitor for visitor, host in self._opening.items() if host == most)
            self.closed(oldest)
            oldest.drop(TOO_MANY)

    def closed(self, visitor: Visitor) -> None:
        """It is a station's connection now, or over."""
        self._opening.pop(visitor, None)

    async def turn(self) -> None:
        """Wait until it is one's turn: one in each turn of the event loop, in order of arrival.

        A hundred connections are accepted at once; as many handshakes begun at once would keep
        every station waiting.
        """
        async with self._turn:
            await asyncio.sleep(0)

    def shut(self) -> None:
        """Drop all of them: the server goes away."""
        for visitor in list(self._opening):
            visitor.drop(GOES_AWAY)


_OCTETS_A_TURN = 4096


class InSips(asyncio.BufferedProtocol):
    """Takes 4 KiB of a connection in one turn of the event loop, and not all that has come.

    Of the shortest frames of a WebSocket ten thousand are in 64 KiB: whoever sends nothing but
    pings kept every station waiting for a second, again and again.
    """

    def __init__(self, of: asyncio.BaseProtocol) -> None:
        self._of = cast(asyncio.Protocol | asyncio.BufferedProtocol, of)
        self._octets = memoryview(bytearray(_OCTETS_A_TURN))

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._octets

    def buffer_updated(self, nbytes: int) -> None:
        octets = self._octets[:nbytes]
        if isinstance(self._of, asyncio.Protocol):
            self._of.data_received(bytes(octets))
        else:
            cast(memoryview, self._of.get_buffer(nbytes))[:nbytes] = octets
            self._of.buffer_updated(nbytes)

    def eof_received(self) -> bool | None:
        return self._of.eof_received()

    def connection_lost(self, exc: Exception | None) -> None:
        self._of.connection_lost(exc)

    def pause_writing(self) -> None:
        self._of.pause_writing()

    def resume_writing(self) -> None:
        self._of.resume_writing()


class TlsDoor(asyncio.Protocol):
    """One accepted connection until its TLS handshake is over; then it is `behind`'s.

    `refused` is told the peer and why, of a handshake that fails or does not end in time.
    """

    def __init__(
        self,
        behind: asyncio.Protocol,
        doors: Doors,
        context: ssl.SSLContext,
        limits: Limits,
        refused: Callable[[str, str], None],
    ) -> None:
        self._behind = behind
        self._doors = doors
        self._context = context
        self._limits = limits
        self._refused = refused
        self._plain: asyncio.Transport
        self.host = self._peer = "-"
        self._early: list[bytes] = []
        self._ended = self._lost = False
        self._dropped_for = ""
        self._handshake: asyncio.Task[None] | None = None

    def drop(self, cause: str) -> None:
        self._dropped_for = self._dropped_for or cause
        self._plain.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is accepted: from now on it counts."""
        self._plain = cast(asyncio.Transport, transport)
        self.host, self._peer = host_of(transport), peer_of(transport)
        # What it has said already belongs to the handshake.
        self._plain.pause_reading()
        self._doors.opened(self)
        self._handshake = asyncio.get_running_loop().create_task(self._shake_hands())

    def data_received(self, data: bytes) -> None:
        """A request that came with the last words of the handshake waits for a moment."""
        self._early.append(data)

    def eof_received(self) -> None:
        """Nothing follows."""
        self._ended = True

    def connection_lost(self, exc: Exception | None) -> None:
        """It was over before it was anybody's."""
        self._lost = True

    async def _shake_hands(self) -> None:
        why = ""
        try:
            secured = await self._secured()
            if secured is None or self._lost:
                why = "left in the TLS handshake"
            else:
                self._hand_over(secured)
        except OSError as error:
            why = refused_handshake(error)
        finally:
            self._doors.closed(self)
        if why and self._dropped_for != GOES_AWAY:
            self._refused(self._peer, self._dropped_for or why)

    async def _secured(self) -> asyncio.Transport | None:
        await self._doors.turn()
        if self._plain.is_closing():
            return None
        return await asyncio.get_running_loop().start_tls(
            self._plain,
            self,
            self._context,
            server_side=True,
            ssl_handshake_timeout=self._limits.handshake_us / _S,
            ssl_shutdown_timeout=self._limits.closing_us / _S,
        )

    def _hand_over(self, secured: asyncio.Transport) -> None:
        self._doors.closed(self)
        self._plain.set_protocol(InSips(self._plain.get_protocol()))
        secured.set_protocol(self._behind)
        self._behind.connection_made(secured)
        for data in self._early:
            self._behind.data_received(data)
        if self._ended:
            self._behind.eof_received()


def host_of(transport: asyncio.BaseTransport) -> str:
    """The address at the other side, without its port."""
    peername = transport.get_extra_info("peername")
    return str(peername[0]) if peername else "-"


def peer_of(transport: asyncio.BaseTransport) -> str:
    """The address at the other side, for people to read."""
    peername = transport.get_extra_info("peername")
    return f"{peername[0]}:{peername[1]}" if peername else "-"


_SOCKET_BUFFER_BYTES = 65_536
# About 1 ms of work; a turn of its own for each message would cost an eighth more.
_MESSAGES_A_TURN = 8
# Where the work is more (a thousand devices of one address), a message is a turn, and whoever has
# more to say leaves the others as much time as it took.
_TURN_MAX_US = 5_000
_LEFT_TO_OTHERS_MAX_US = 100_000
_OPENED = 101  # Switching Protocols
_TEXT = Opcode.TEXT
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
        doors.arrived += 1
        self._number = doors.arrived
        super().__init__(*arguments, **settings)
        self._doors = doors
        self._never_opened = never_opened
        self.host = self.peer = "-"
        self.station: Eui | None = None
        self.dropped_for = ""
        self.refused = False

    def __hash__(self) -> int:
        """In order of arrival: a server that ends closes a set of connections, one by one."""
        return self._number

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

    @property
    def unread(self) -> deque[Frame]:
        """What has come that nobody has received yet."""
        return self.recv_messages.frames.queue

    async def arrival(self) -> None:
        """Wait until something has come, or nothing will any more: `recv` says why."""
        messages = self.recv_messages
        if messages.closed:
            return
        waiter = messages.frames.get_waiter = self.loop.create_future()
        try:
            await waiter
        except EOFError:
            return
        finally:
            messages.frames.get_waiter = None

    def text_there(self) -> str | None:
        """The next text, if it has come in one piece: `recv` at a fifth of its price.

        None also where it is no UTF-8: `recv` ends the connection then, and says why.
        """
        messages = self.recv_messages
        unread = messages.frames.queue
        if not unread:
            return None
        first = unread[0]
        if first.opcode is not _TEXT or not first.fin:
            return None
        try:
            text = str(first.data, "utf-8")
        except UnicodeDecodeError:
            return None
        unread.popleft()
        if messages.paused:
            messages.maybe_resume()
        return text

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
        if transport.get_extra_info("ssl_object") is None:  # else there is a `TlsDoor` before it
            self.transport.set_protocol(InSips(self))
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
        if self._connection.state is not State.OPEN:
            raise LinkClosed(self._ended("the connection is over"))
        self._connection.send_at_once(text)
        if self._connection.dropped_for:
            raise LinkClosed(self._ended(self._connection.dropped_for))

    async def receive(self) -> str:
        """The next text; binary messages (the remote shell's) are counted and not read.

        Who waits for it leaves the others their turn.
        """
        connection = self._connection
        while True:
            if not connection.unread:
                self._turn_messages, self._left_in_turn = 1, 2
                await connection.arrival()
            elif self._left_in_turn == 0:
                await self._leave_to_others()
            self._left_in_turn -= 1
            message: str | bytes | None = connection.text_there()
            if message is None:
                message = await self._whatever_comes()
            if isinstance(message, str):
                self.texts += 1
                return message
            self.binaries += 1

    def drop(self, cause: str) -> None:
        """End the connection at once."""
        self._connection.drop(cause)

    async def _whatever_comes(self) -> str | bytes:
        try:
            return await self._connection.recv()
        except ConnectionClosed as error:
            raise LinkClosed(self._ended(str(error))) from error

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
