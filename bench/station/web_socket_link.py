"""How do texts travel over one real WebSocket, and how does such a link end?

For both ends. A link may also be left half open, as by a station that lost its power.
"""

import asyncio
from collections.abc import Callable

from websockets.asyncio.connection import Connection
from websockets.exceptions import ConnectionClosed, TooManyFragments
from websockets.protocol import Event, State

from bench.station.link import LinkClosed

MESSAGE_BYTES_MAX = 4 << 20
CLOSING_S = 1
TEXTS_WAITING_MAX = 256


class LinkSocket(Connection):
    """A WebSocket whose link may be over before the socket is: then it takes no more texts."""

    over = False

    def process_event(self, event: Event) -> None:
        """Frames for a link that is over would fill the queue, and nobody would see the end."""
        if not self.over:
            super().process_event(event)


class _Nobody(asyncio.Protocol):
    """Who has a socket when its station is gone: nobody reads, answers or hangs up."""

    def __init__(self, connection: LinkSocket) -> None:
        self._connection = connection

    def eof_received(self) -> bool:
        return True

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)


class WebSocketLink:
    """One end of a station's connection over a WebSocket; see `bench.station.link.TextLink`.

    What arrived before the other side closed can still be read; the end that closed reads nothing
    more. The socket itself is gone once `wait_closed` returns, at most a second after `close`.
    """

    def __init__(self, connection: LinkSocket) -> None:
        self._connection = connection
        self._why = ""
        self._left_alone = False

    @property
    def closed(self) -> bool:
        """Whether this end can send no more."""
        return bool(self._why) or self._connection.state is not State.OPEN

    @property
    def tls_version(self) -> str | None:
        """The TLS version that was agreed on, such as "TLSv1.2"; None without TLS."""
        agreed = self._connection.transport.get_extra_info("ssl_object")
        return agreed.version() if agreed is not None else None

    async def send(self, text: str) -> None:
        """Hand over one text; LinkClosed if the connection is over."""
        if self._left_alone:
            return
        if self.closed:
            raise LinkClosed(self._cause())
        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise LinkClosed(self._cause()) from error

    async def receive(self) -> str:
        """The next text, binary messages left out; LinkClosed once the connection is over."""
        while not self._why:
            if self._left_alone:
                await self.wait_closed()
                break
            try:
                # Not recv(), which would first wait for the end of the socket.
                message = await self._connection.recv_messages.get()
            except EOFError:
                break
            except (UnicodeDecodeError, TooManyFragments):
                self._end("a text that nobody can read")
                break
            if isinstance(message, str):
                return message
        raise LinkClosed(self._cause())

    def close(self) -> None:
        """End the connection for both ends, as a station does: with code 1000."""
        transport = self._connection.transport
        if self._left_alone:
            self._left_alone = False
            self._why = self._why or "this end is gone"
            transport.abort()
        elif not self._why:
            self._end("closed by this end")

    def abandon(self) -> None:
        """Leave a half-open connection: read, answer and send nothing more until `close`.

        Until then `send` drops its text and `receive` does not return.
        """
        if not self.closed and not self._left_alone:
            self._left_alone = True
            transport = self._connection.transport
            transport.pause_reading()
            transport.set_protocol(_Nobody(self._connection))

    def vanish(self, noticed_after_us: int) -> None:
        """Be over for this end now; the socket stays open, half open, for so much longer."""
        if self.closed:
            return
        self.abandon()
        self._left_alone = False
        self._why = "this end vanished"
        self._connection.over = True
        self._connection.recv_messages.close()
        self._abort_after(noticed_after_us / 1_000_000)

    async def wait_closed(self) -> None:
        """Return once the socket is closed."""
        await asyncio.shield(self._connection.connection_lost_waiter)

    def when_over(self, callback: Callable[[], None]) -> None:
        """Call back as soon as the socket is closed."""
        self._connection.connection_lost_waiter.add_done_callback(lambda _: callback())

    def _end(self, why: str) -> None:
        self._why = why
        connection = self._connection
        connection.over = True
        connection.recv_messages.close()
        if connection.state is State.OPEN:
            connection.protocol.send_close(1000)
            connection.send_data()
        connection.transport.resume_reading()
        self._abort_after(CLOSING_S)

    def _abort_after(self, seconds: float) -> None:
        loop = asyncio.get_running_loop()
        late = loop.call_later(seconds, self._connection.transport.abort)
        self.when_over(late.cancel)

    def _cause(self) -> str:
        if self._why:
            return self._why
        if self._connection.state is State.CLOSED:
            return str(self._connection.close_exc)
        return "the other side closes"
