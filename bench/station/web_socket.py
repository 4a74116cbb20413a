"""How does a station reach its server over a real socket?

As Basics Station 2.0.6 does: no compression, no pings of its own, no redirects, no proxy, TLS 1.2
at most. It asks `/router-info` first, then connects to the URI of the answer.
"""

import asyncio
from typing import Any
from urllib.parse import urlsplit

from websockets.asyncio.client import ClientConnection
from websockets.asyncio.client import connect as open_web_socket
from websockets.exceptions import InvalidHandshake, InvalidStatus, InvalidURI

from bench.station.link import LinkClosed
from bench.station.station_tls import Headers, StationTls
from bench.station.web_socket_link import (
    CLOSING_S,
    MESSAGE_BYTES_MAX,
    TEXTS_WAITING_MAX,
    LinkSocket,
    WebSocketLink,
)
from lns.lorawan.identifiers import Eui
from lns.server.address import DISCOVERY_PATH, STATION_URI_MAX
from lns.station.json_fields import Malformed, json_object
from lns.station.spelling import router_info_text

__all__ = ["StationLinks", "StationRefused", "StationTls", "WebSocketLink", "connect", "discover"]

OPENING_S = 10


class StationRefused(LinkClosed):
    """A network server was asked, and does not take this station."""


async def discover(
    uri: str, station: Eui, *, tls: StationTls | None = None, headers: Headers = ()
) -> str:
    """The URI that `/router-info` has for this station; LinkClosed with the reason for none.

    StationRefused where the server itself says so.

    `uri` has no path, as in `tc.uri`.
    """
    link = await connect(uri + DISCOVERY_PATH, tls=tls, headers=headers)
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
    """What a station accepts as the URI of its data connection."""
    if not isinstance(found, str) or len(found) > STATION_URI_MAX:
        raise LinkClosed(f"no URI of at most {STATION_URI_MAX} characters: {found!r}")
    parts = urlsplit(found)
    if parts.scheme not in ("ws", "wss") or not parts.netloc.rpartition(":")[2].isdigit():
        raise LinkClosed(f"no URI with scheme and port: {found!r}")
    return found


async def connect(
    uri: str, *, tls: StationTls | None = None, headers: Headers = ()
) -> WebSocketLink:
    """One WebSocket to this very URI; LinkClosed with the reason when there is none."""
    settings: dict[str, Any] = {}
    if uri.startswith("wss:"):
        if tls is None:
            raise LinkClosed(f"{uri}: a station needs a .trust file for wss://")
        settings["ssl"] = tls.context
        headers = (*tls.headers, *headers)
    try:
        connection = await _Opening(
            uri,
            compression=None,
            additional_headers=list(headers),
            user_agent_header=None,
            proxy=None,
            open_timeout=OPENING_S,
            ping_interval=None,
            close_timeout=CLOSING_S,
            max_size=MESSAGE_BYTES_MAX,
            max_queue=TEXTS_WAITING_MAX,
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


class StationLinks:
    """The links of stations that were opened here: `close` ends all that are left."""

    def __init__(self) -> None:
        self._links: set[WebSocketLink] = set()

    async def connect(
        self, uri: str, station: Eui, *, tls: StationTls | None = None
    ) -> WebSocketLink:
        """Discovery at `uri`, then the data connection; LinkClosed with the reason for none."""
        return await self.open(await discover(uri, station, tls=tls), tls=tls)

    async def open(self, uri: str, *, tls: StationTls | None = None) -> WebSocketLink:
        """The data connection alone; LinkClosed with the reason for none."""
        link = await connect(uri, tls=tls)
        self._links.add(link)
        link.when_over(lambda: self._links.discard(link))
        return link

    async def close(self) -> None:
        """End every link and wait until its socket is closed."""
        links = list(self._links)
        for link in links:
            link.close()
        for link in links:
            await link.wait_closed()


class _ClientSocket(LinkSocket, ClientConnection):
    pass


class _Opening(open_web_socket):
    def process_redirect(self, exc: Exception) -> Exception | str:
        """A station follows no redirect."""
        return exc
