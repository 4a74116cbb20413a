"""The links of stations that a test has opened."""

from bench.station.web_socket import StationTls, WebSocketLink, connect, discover
from lns.lorawan.identifiers import Eui


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
        links = list(self._links)
        for link in links:
            link.close()
        for link in links:
            await link.wait_closed()
