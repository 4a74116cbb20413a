"""Which URIs and credentials does a station get from here?

A listener of its own for `POST /update-info`: WebSockets and requests with a body do not share
one. One request a connection, answered in one piece. Source: Basics Station, CUPS protocol.
"""

import asyncio
import logging
import re
import ssl
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http import HTTPStatus

from lns.complaints import Complaints
from lns.events import Connection, Event
from lns.lorawan.identifiers import Eui
from lns.server import address
from lns.server.access import CHALLENGE, Access, Shown, shown_certificate
from lns.server.web_socket import GOES_AWAY, Doors, Limits, TlsDoor, host_of, peer_of
from lns.station.cups import PATH, Category, answer, parse_request
from lns.station.messages import Malformed

log = logging.getLogger(__name__)

HEAD_BYTES_MAX = 8_192
BODY_BYTES_MAX = 16_384
_REQUEST_LINE = re.compile(r"([A-Z]+) (/[!-~]*) HTTP/1\.[01]")
_HEADER = re.compile(r"([!#$%&'*+.^_`|~0-9A-Za-z-]+):[ \t]*([ -~\t]*)")


@dataclass(frozen=True, slots=True)
class RequestHead:
    """Method, path without query, headers by lower-case name (the last of a name counts)."""

    method: str
    path: str
    headers: dict[str, str] = field(repr=False)

    @property
    def body_bytes(self) -> int | None:
        """The length of the body; None when it is not told as one number.

        A station pads the number with leading blanks.
        """
        length = self.headers.get("content-length", "")
        return int(length) if length.isascii() and length.isdigit() and len(length) < 10 else None


def parse_head(head: bytes) -> RequestHead | None:
    """The head of a request up to its empty line; None if it is none."""
    try:
        first, *lines = head.decode("ascii").rstrip("\r\n").split("\r\n")
    except UnicodeDecodeError:
        return None
    request = _REQUEST_LINE.fullmatch(first)
    headers = [_HEADER.fullmatch(line) for line in lines]
    if request is None or not all(headers):
        return None
    found = {header[1].lower(): header[2].strip() for header in headers if header is not None}
    return RequestHead(request[1], request[2].partition("?")[0], found)


def response(status: int, reason: str, body: bytes, content_type: str) -> bytes:
    """A whole response; a station needs its Content-Length and takes no chunks."""
    challenge = f"WWW-Authenticate: {CHALLENGE}\r\n" if status == HTTPStatus.UNAUTHORIZED else ""
    head = (
        f"HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\n{challenge}"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode("ascii") + body


_S = 1_000_000


@dataclass(frozen=True, slots=True)
class StationSetup:
    """What one station is to have."""

    cups: Category = field(default_factory=Category)
    tc: Category = field(default_factory=Category)


class _Visitor:
    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self._transport = writer.transport
        self.host, self.peer = host_of(self._transport), peer_of(self._transport)
        self.dropped_for = ""

    def drop(self, cause: str) -> None:
        self.dropped_for = cause
        self._transport.abort()


class CupsServer:
    """Listens for `POST /update-info` and hands each station what it is to have.

    `stations` by EUI; `otherwise` is for a station that is not among them.
    """

    def __init__(
        self,
        lns: str,
        stations: Mapping[Eui, StationSetup],
        record: Callable[[Event], None],
        *,
        otherwise: StationSetup | None = None,
        access: Access | None = None,
        tls: ssl.SSLContext | None = None,
        limits: Limits | None = None,
    ) -> None:
        self._lns = lns
        self._stations = stations
        self._record = record
        self._otherwise = otherwise or StationSetup()
        self._access = access or Access()
        self._tls = tls
        self._limits = limits or Limits()
        self._complaints = Complaints(log)
        self._answers = Complaints(log, level=logging.INFO)
        self._doors = Doors(self._limits.opening_max)
        self._server: asyncio.Server | None = None

    @property
    def uri(self) -> str:
        """Where it listens: "http://127.0.0.1:6091"; only once it does."""
        assert self._server is not None
        host, port = self._server.sockets[0].getsockname()[:2]
        return address.uri("http" if self._tls is None else "https", host, port)

    @property
    def opening(self) -> int:
        """How many connections are not answered yet."""
        return self._doors.opening

    async def start(self, host: str, port: int) -> None:
        """Begin to listen; port 0 = any free one. OSError when that is not possible."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._connection, host, port)

    def _connection(self) -> asyncio.Protocol:
        reader = asyncio.StreamReader(limit=HEAD_BYTES_MAX)
        stream = asyncio.StreamReaderProtocol(reader, self._serve)
        if self._tls is None:
            return stream
        return TlsDoor(stream, self._doors, self._tls, self._limits, self._tell_refusal)

    async def stop(self) -> None:
        """Close every connection."""
        assert self._server is not None
        self._server.close()
        self._doors.shut()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        visitor = _Visitor(writer)
        self._doors.opened(visitor)
        answered = False
        try:
            async with asyncio.timeout(self._limits.question_us / _S):
                writer.write(await self._response(reader, writer))
                answered = True
                await writer.drain()
                await _finish(reader, writer)
        except (TimeoutError, OSError, EOFError, asyncio.LimitOverrunError):
            if not answered and visitor.dropped_for != GOES_AWAY:
                self._tell_refusal(visitor.peer, visitor.dropped_for or "no whole request")
        except Exception:
            log.exception("CUPS: the request of %s failed", visitor.peer)
        finally:
            self._doors.closed(visitor)
            writer.transport.abort()

    async def _response(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        head = parse_head(await reader.readuntil(b"\r\n\r\n"))
        peer = peer_of(writer.transport)
        if head is None:
            return self._refuse(HTTPStatus.BAD_REQUEST, "no HTTP request", peer)
        if head.path != PATH:
            return self._refuse(HTTPStatus.NOT_FOUND, f"only {PATH} is here", peer)
        if head.method != "POST":
            return self._refuse(HTTPStatus.METHOD_NOT_ALLOWED, "only POST is served", peer)
        if head.body_bytes is None:
            return self._refuse(HTTPStatus.LENGTH_REQUIRED, "no Content-Length", peer)
        if head.body_bytes > BODY_BYTES_MAX:
            return self._refuse(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, "the body is too large", peer)
        body = await reader.readexactly(head.body_bytes)
        shown = Shown(head.headers.get("authorization"), shown_certificate(writer.transport))
        return self._answer(head, shown, body, peer)

    def _answer(self, head: RequestHead, shown: Shown, body: bytes, peer: str) -> bytes:
        request = parse_request(body)
        if isinstance(request, Malformed):
            return self._refuse(HTTPStatus.BAD_REQUEST, "no update-info request", peer)
        station = request.router
        refusal = self._access.refusal(station, shown)
        if refusal is not None:
            return self._refuse(HTTPStatus(refusal.status), refusal.why, peer, station)
        setup = self._stations.get(station, self._otherwise)
        given = answer(request, cups=setup.cups, tc=setup.tc)
        changes = ", ".join(given.changes) or "nothing changes"
        self._answers.complain("%s: CUPS: %s", station, changes)
        return response(200, "OK", given.body, "application/octet-stream")

    def _refuse(self, status: HTTPStatus, why: str, peer: str, station: Eui | None = None) -> bytes:
        self._tell_refusal(peer, why, station)
        return response(status, status.phrase, f"{why}\n".encode(), "text/plain")

    def _tell_refusal(self, peer: str, why: str, station: Eui | None = None) -> None:
        self._complaints.complain("%s: CUPS: refused: %s", station or peer, why)
        cause = f"CUPS: {why}"
        self._record(
            Connection(stage="refused", lns=self._lns, station=station, peer=peer, cause=cause)
        )


async def _finish(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """End a connection so that the answer arrives: closing with something unread resets it."""
    if writer.can_write_eof():
        writer.write_eof()
        while await reader.read(BODY_BYTES_MAX):
            pass
    else:
        writer.close()
        await writer.wait_closed()
