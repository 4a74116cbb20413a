"""How does a station reach its server over a real socket, and a tap its stations?

As Basics Station 2.0.6 does: no compression, no pings of its own, no redirects, no proxy, TLS 1.2
at most. It asks `/router-info` first, then connects to the URI of the answer. A `TapServer` has
many stations on one port, each told apart by the path that discovery handed out:
`<uri>/router-<EUI>`.
"""

import asyncio
import ssl
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from pathlib import Path
from ssl import SSLContext
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_web_socket
from websockets.asyncio.connection import Connection
from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidStatus,
    InvalidURI,
    TooManyFragments,
)
from websockets.http11 import Request, Response
from websockets.protocol import Event, State

from bench.station import LinkClosed
from lns.lorawan.identifiers import Eui, eui
from lns.server import address
from lns.server.address import DISCOVERY_PATH, STATION_URI_MAX
from lns.station.messages import (
    Malformed,
    json_object,
    refusal_text,
    router_asked_for,
    router_info_answer_text,
    router_info_text,
)

# Its home has up to four files a category ("tc" or "cups"): `.uri`, `.trust`, `.crt`, `.key`.


class StationTls:
    """What a station trusts and shows: a CA, and a client certificate or a token, or neither.

    `token` is the value of the `Authorization` header. A station speaks TLS 1.2 at most. OSError
    (ssl.SSLError too) if a file cannot be used.
    """

    def __init__(
        self,
        trust: Path,
        crt: Path | None = None,
        key: Path | None = None,
        *,
        token: str | None = None,
    ) -> None:
        self.headers = Headers() if token is None else Headers(Authorization=token)
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        self.context.maximum_version = ssl.TLSVersion.TLSv1_2
        self.context.load_verify_locations(trust)
        if crt is not None:
            # An empty password, or OpenSSL would ask for one at the terminal.
            self.context.load_cert_chain(crt, key, password="")


def station_files(folder: Path, category: str = "tc") -> tuple[str, StationTls | None]:
    """The URI in a station's home, and what `.trust`, `.crt` and `.key` beside it make of TLS.

    Without `.crt` the `.key` is a token: header lines. OSError if the URI's file is not there.
    """
    uri = (folder / f"{category}.uri").read_text(encoding="ascii").strip()
    trust, crt, key = (folder / f"{category}.{suffix}" for suffix in ("trust", "crt", "key"))
    if not trust.exists():
        return uri, None
    if crt.exists():
        return uri, StationTls(trust, crt, key)
    lines = key.read_text(encoding="ascii").splitlines() if key.exists() else []
    header = next((line for line in lines if line.startswith("Authorization: ")), None)
    return uri, StationTls(trust, token=header and header.partition(": ")[2].strip())


# For both ends. A link may also be left half open, as by a station that lost its power.
MESSAGE_BYTES_MAX = 4 << 20
CLOSING_S = 1
TEXTS_WAITING_MAX = 256
_SETTINGS: dict[str, Any] = {
    "compression": None,
    "ping_interval": None,
    "close_timeout": CLOSING_S,
    "max_size": MESSAGE_BYTES_MAX,
    "max_queue": TEXTS_WAITING_MAX,
}


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
    """One end of a station's connection over a WebSocket; see `bench.station.TextLink`.

    What arrived before the other side closed can still be read; the end that closed reads nothing
    more. The socket itself is gone once `wait_closed` returns, at most a second after `close`.
    `binary` is told of each message that is no text.
    """

    def __init__(self, connection: LinkSocket) -> None:
        self.binary: Callable[[bytes], None] = lambda octets: None
        self._connection = connection
        self._why = ""
        self._left_alone = False

    @property
    def closed(self) -> bool:
        return bool(self._why) or self._connection.state is not State.OPEN

    async def send(self, text: str) -> None:
        if self._left_alone:
            return
        if self.closed:
            raise LinkClosed(self._cause())
        try:
            await self._connection.send(text)
        except ConnectionClosed as error:
            raise LinkClosed(self._cause()) from error

    async def receive(self) -> str:
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
            self.binary(message)
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
        await asyncio.shield(self._connection.connection_lost_waiter)

    def when_over(self, callback: Callable[[], None]) -> None:
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


OPENING_S = 10


class StationRefused(LinkClosed):
    """A network server was asked, and does not take this station."""


async def discover(uri: str, station: Eui, *, tls: StationTls | None = None) -> str:
    """The URI that `/router-info` has for this station; LinkClosed with the reason for none.

    StationRefused where the server itself says so.

    `uri` has no path, as in `tc.uri`.
    """
    link = await connect(uri + DISCOVERY_PATH, tls=tls)
    try:
        async with asyncio.timeout(OPENING_S):
            await link.send(router_info_text(station))
            answer = json_object(await link.receive())
    except TimeoutError as error:
        raise LinkClosed(f"{uri} does not answer {DISCOVERY_PATH}") from error
    finally:
        link.close()
        await link.wait_closed()
    if isinstance(answer, Malformed):
        raise LinkClosed(f"{uri}: the answer of {DISCOVERY_PATH} cannot be read: {answer.why}")
    if answer.get("error"):
        raise StationRefused(f"{uri} refuses {station}: {answer['error']}")
    return _data_uri(answer.get("uri"))


def _data_uri(found: object) -> str:
    if not isinstance(found, str) or len(found) > STATION_URI_MAX:
        raise LinkClosed(f"no URI of at most {STATION_URI_MAX} characters: {found!r}")
    parts = urlsplit(found)
    if parts.scheme not in ("ws", "wss") or not parts.netloc.rpartition(":")[2].isdigit():
        raise LinkClosed(f"no URI with scheme and port: {found!r}")
    return found


async def connect(uri: str, *, tls: StationTls | None = None) -> WebSocketLink:
    """One WebSocket to this very URI; LinkClosed with the reason when there is none."""
    settings, headers = _SETTINGS, Headers()
    if uri.startswith("wss:"):
        if tls is None:
            raise LinkClosed(f"{uri}: a station needs a .trust file for wss://")
        settings = {**settings, "ssl": tls.context}
        headers = tls.headers
    try:
        connection = await _Opening(
            uri,
            additional_headers=headers,
            user_agent_header=None,
            proxy=None,
            open_timeout=OPENING_S,
            create_connection=_ClientSocket,
            **settings,
        )
    except InvalidStatus as error:
        said = error.response.body.decode(errors="replace").strip() if error.response.body else ""
        status = error.response.status_code
        raise LinkClosed(f"{uri}: refused with {status} {said}".rstrip()) from error
    except (OSError, TimeoutError, EOFError, InvalidHandshake, InvalidURI) as error:
        raise LinkClosed(f"{uri}: {str(error) or type(error).__name__}") from error
    assert isinstance(connection, _ClientSocket)
    return WebSocketLink(connection)


class _ClientSocket(LinkSocket, ClientConnection):
    pass


class _Opening(open_web_socket):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """A station follows no redirect."""
        return exc


Accept = Callable[[WebSocketLink], Awaitable[None]]

_PATH = "/router-"
_OPENING_S = 5


class TapServer:
    """Listens for stations and hands the link of each to whoever registered its EUI.

    With `ssl` stations connect over wss://; `public_uri` is how they reach it, where that is
    another address than it has here. An EUI that nobody registered is refused, in discovery and at
    the door. An error in an `accept` is raised by `stop`.
    """

    def __init__(
        self,
        host: str = "127.0.0.1",
        port: int = 0,
        ssl: SSLContext | None = None,
        *,
        public_uri: str | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._tls = ssl
        self._public_uri = public_uri
        self._accepts: dict[Eui, Accept] = {}
        self._server: Server | None = None
        self._failed: Exception | None = None

    @property
    def uri(self) -> str:
        """Where it listens, without a path: "ws://127.0.0.1:40123"; only once it does."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return address.uri("ws" if self._tls is None else "wss", host, port)

    async def start(self) -> None:
        """Begin to listen; OSError when that is not possible."""
        self._server = await serve(
            self._serve,
            self._host,
            self._port,
            ssl=self._tls,
            process_request=self._refuse,
            server_header=None,
            open_timeout=_OPENING_S,
            create_connection=_StationSocket,
            **_SETTINGS,
        )

    async def stop(self) -> None:
        """Close every connection and wait until it is closed; raises what an `accept` raised."""
        if self._server is not None:
            self._server.close()
            await self._server.wait_closed()
            self._server = None
        if self._failed is not None:
            raise self._failed

    def register(self, station: Eui, accept: Accept) -> None:
        """Serve this station from now on: `accept` runs for each of its links."""
        assert station not in self._accepts, f"{station} has a tap already"
        self._accepts[station] = accept

    def unregister(self, station: Eui) -> None:
        """Refuse this station from now on; a link that is open stays open."""
        self._accepts.pop(station, None)

    def _refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        if request.path == address.DISCOVERY_PATH or self._station(request.path) in self._accepts:
            return None
        return connection.respond(HTTPStatus.NOT_FOUND, "no tap of this bench is here\n")

    def _station(self, path: str) -> Eui | None:
        try:
            return eui(path.removeprefix(_PATH)) if path.startswith(_PATH) else None
        except ValueError:
            return None

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, _StationSocket) and connection.request is not None
        station = self._station(connection.request.path)
        if station is None:
            return await self._tell_uri(connection)
        accept = self._accepts.get(station)
        link = WebSocketLink(connection)
        try:
            if accept is not None:
                await accept(link)
        except LinkClosed:
            pass
        except Exception as error:  # websockets would swallow it
            self._failed = self._failed or error
        finally:
            link.close()
            await link.wait_closed()

    async def _tell_uri(self, connection: ServerConnection) -> None:
        try:
            async with asyncio.timeout(_OPENING_S):
                router = router_asked_for(await connection.recv())
                await connection.send(self._answer(router))
                await connection.wait_closed()
        except (ConnectionClosed, TimeoutError):
            return

    def _answer(self, router: Eui | None) -> str:
        if router is None:
            return refusal_text(None, 'not a question for a router: {"router": <EUI>}')
        if router not in self._accepts:
            return refusal_text(router, "no tap of this bench has this EUI")
        uri = self._public_uri or self.uri
        return router_info_answer_text(router, f"{uri}{_PATH}{router}")


class _StationSocket(LinkSocket, ServerConnection):
    pass
