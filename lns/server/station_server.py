"""Who is connected, and who may be?

Two kinds of WebSocket on one listener: `/router-info`, where a station asks for its server, and
`/router/<EUI>`, its data connection. Source: Basics Station, LNS protocol, version 2.
"""

import asyncio
import logging
import ssl
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Protocol, cast
from urllib.parse import unquote

from websockets.asyncio.server import Server, ServerConnection, serve
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from lns.complaints import Complaints, printable
from lns.events import Connection, Event
from lns.lorawan.identifiers import Eui, eui
from lns.server import address
from lns.server.access import CHALLENGE, Access, Refusal
from lns.server.web_socket import GOES_AWAY, Doors, Limits, TlsDoor, WebSocket, WebSocketLink
from lns.station.messages import refusal_text, router_asked_for, router_info_answer_text
from lns.station.protocol import TextLink

log = logging.getLogger(__name__)

_S = 1_000_000


class ForStations(Protocol):
    """What a station server listens for: a network server."""

    lns: str

    async def serve(self, station: Eui, link: TextLink) -> None:
        """Serve one station until its link closes."""


class StationServer:
    """Listens for stations; everything they tell goes through `network_server.serve`.

    `public_uri` is what discovery hands out, derived from where it listens if None. Remembers the
    link of every connected station: a newer one of the same station ends it at once.
    """

    def __init__(
        self,
        network_server: ForStations,
        record: Callable[[Event], None],
        *,
        access: Access | None = None,
        public_uri: str | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._network_server = network_server
        self._lns = network_server.lns
        self._record = record
        self._access = access or Access()
        self._public_uri = public_uri
        self._tls = tls
        self._limits = limits or Limits()
        self._doors = Doors(self._limits.opening_max)
        self._complaints = Complaints(log)
        # A station that comes and goes all the time is in the capture every time.
        self._arrivals = Complaints(log, level=logging.INFO)
        self._links: dict[Eui, WebSocketLink] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._server: Server | None = None

    @property
    def uri(self) -> str:
        """Where it listens: "ws://127.0.0.1:6090"; only once it does."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return address.uri("ws" if self._tls is None else "wss", host, port)

    @property
    def opening(self) -> int:
        """How many connections are not a station's yet."""
        return self._doors.opening

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; port 0 = any free one. OSError when that is not possible."""
        limits = self._limits
        self._server = await serve(
            self._serve,
            host,
            port,
            compression=None,
            process_request=self._refuse,
            create_connection=cast(type[ServerConnection], self._connection),
            server_header=None,
            open_timeout=limits.opening_us / _S,
            ping_interval=limits.ping_interval_us / _S,
            ping_timeout=limits.ping_timeout_us / _S,
            close_timeout=limits.closing_us / _S,
            max_size=limits.message_bytes_max,
            write_limit=limits.unsent_bytes_max,
        )
        self._public_uri = self._public_uri or self.uri

    def _connection(self, *arguments: Any, **settings: Any) -> asyncio.Protocol:
        never_opened = self._tell_never_opened
        socket = WebSocket(*arguments, doors=self._doors, never_opened=never_opened, **settings)
        if self._tls is None:
            return socket
        return TlsDoor(socket, self._doors, self._tls, self._limits, self._tell_handshake)

    async def stop(self) -> None:
        """Close every connection; receptions under way are finished if that does not take long."""
        assert self._server is not None
        self._server.close()
        self._doors.shut()
        try:
            async with asyncio.timeout(2 * self._limits.closing_us / _S):
                await self._server.wait_closed()
        except TimeoutError:
            for task in self._tasks:
                task.cancel()
            await self._server.wait_closed()

    def _refuse(self, connection: ServerConnection, request: Request) -> Response | None:
        assert isinstance(connection, WebSocket)
        path = unquote(request.path.partition("?")[0])
        if path == address.DISCOVERY_PATH:
            refusal = self._access.refusal_of_anybody(connection.shown)
        elif path.startswith(address.STATION_PATH):
            refusal = self._refusal_of_station(connection, path.removeprefix(address.STATION_PATH))
        else:
            refusal = Refusal(404, f"only {address.DISCOVERY_PATH} is here")
        if refusal is None:
            return None
        self._tell_refusal(connection, connection.station, refusal.why)
        response = connection.respond(HTTPStatus(refusal.status), f"{refusal.why}\n")
        if refusal.status == HTTPStatus.UNAUTHORIZED:
            response.headers["WWW-Authenticate"] = CHALLENGE
        return response

    def _refusal_of_station(self, connection: WebSocket, spelling: str) -> Refusal | None:
        try:
            connection.station = eui(spelling)
        except ValueError:
            return Refusal(404, "the path does not end with a station EUI")
        refusal = self._access.refusal(connection.station, connection.shown)
        if refusal is None and connection.station not in self._links:
            if len(self._links) >= self._limits.stations_max:
                return Refusal(503, "too many stations are connected")
        return refusal

    async def _serve(self, connection: ServerConnection) -> None:
        assert isinstance(connection, WebSocket)
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        try:
            if connection.station is None:
                await self._tell_server(connection)
            else:
                await self._serve_station(connection, connection.station)
        except Exception:
            log.exception("%s: the connection failed", connection.station or connection.peer)
            connection.drop("internal error")
        finally:
            self._tasks.discard(task)

    async def _tell_server(self, connection: WebSocket) -> None:
        asked = False
        try:
            async with asyncio.timeout(self._limits.question_us / _S):
                message = await connection.recv()
                asked = True
                await connection.send(self._answer(connection, message))
                await connection.wait_closed()
        except (ConnectionClosed, TimeoutError):
            if not asked and connection.dropped_for != GOES_AWAY:
                self._tell_refusal(connection, None, "asked nothing")

    def _answer(self, connection: WebSocket, message: str | bytes) -> str:
        router = router_asked_for(message)
        if router is None:
            why = 'not a question for a router: {"router": <EUI>}'
            self._tell_refusal(connection, None, why)
            return refusal_text(None, why)
        refusal = self._access.refusal(router, connection.shown)
        if refusal is not None:
            self._tell_refusal(connection, router, refusal.why)
            return refusal_text(router, refusal.why)
        assert self._public_uri is not None
        return router_info_answer_text(router, address.station_uri(self._public_uri, router))

    async def _serve_station(self, connection: WebSocket, station: Eui) -> None:
        self._doors.closed(connection)
        link = WebSocketLink(connection)
        replaced = self._links.get(station)
        self._links[station] = link
        if replaced is not None:
            replaced.drop("replaced by a newer connection")
        peer = connection.peer
        self._arrivals.complain("%s: connected from %s", station, peer)
        self._tell("connected", station, peer)
        try:
            await self._network_server.serve(station, link)
        finally:
            # The end of a replaced link must not unregister the newer one.
            if self._links.get(station) is link:
                del self._links[station]
            counts = link.texts, link.binaries
            said = "%s: disconnected (%s); %d texts, %d binary"
            self._arrivals.complain(said, station, printable(link.cause), *counts)
            self._tell("disconnected", station, peer, link.cause, counts)

    def _tell_never_opened(self, connection: WebSocket) -> None:
        if connection.dropped_for != GOES_AWAY:
            self._tell_refusal(connection, connection.station, connection.why_not_opened)

    def _tell_handshake(self, peer: str, why: str) -> None:
        self._complaints.complain("%s: refused: %s", peer, printable(why))
        self._tell("refused", None, peer, why)

    def _tell_refusal(self, connection: WebSocket, station: Eui | None, why: str) -> None:
        connection.refused = True
        self._complaints.complain("%s: refused: %s", station or connection.peer, printable(why))
        self._tell("refused", station, connection.peer, why)

    def _tell(
        self,
        stage: str,
        station: Eui | None,
        peer: str,
        cause: str | None = None,
        counts: tuple[int, int] | None = None,
    ) -> None:
        texts, binaries = counts or (None, None)
        self._record(
            Connection(
                stage=stage,
                lns=self._lns,
                station=station,
                peer=peer,
                cause=cause and printable(cause),
                texts=texts,
                binaries=binaries,
            )
        )
