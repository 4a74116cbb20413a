"""Where do the stations of a rig connect, when their taps stand behind a real socket?

Many stations on one port, each told apart by the path of its data connection, which discovery
handed out: `<uri>/router-<EUI>`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from http import HTTPStatus
from ssl import SSLContext

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from bench.station.link import LinkClosed
from bench.station.web_socket import (
    CLOSING_S,
    MESSAGE_BYTES_MAX,
    TEXTS_WAITING_MAX,
    LinkSocket,
    WebSocketLink,
)
from lns.lorawan.identifiers import Eui, eui
from lns.server import address
from lns.station.messages import refusal_text, router_asked_for
from lns.station.spelling import router_info_answer_text

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
            compression=None,
            process_request=self._refuse,
            server_header=None,
            open_timeout=_OPENING_S,
            ping_interval=None,
            close_timeout=CLOSING_S,
            max_size=MESSAGE_BYTES_MAX,
            max_queue=TEXTS_WAITING_MAX,
            create_connection=_StationSocket,
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
        """Answer one question, then wait for the station to go."""
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
