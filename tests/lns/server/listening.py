"""A network server that listens on loopback, in the process of the test."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager

from bench.chance import stream
from lns.clock import utc_of_this_host
from lns.delivery.publisher import MemoryUpstream
from lns.events import Connection, Event, Outcome
from lns.lorawan.region import EU868
from lns.network_server import NetworkServer
from lns.server.access import Access
from lns.server.station_server import StationServer
from lns.server.web_socket import Limits
from lns.store.memory import MemoryStore
from lns.uplink.registry import EndDevice
from tests.lns.served_network import ALPHA
from tests.lns.server.basics_station import StationSocket

PATIENCE_S = 60


class Listening:
    """The server, and all that it reported."""

    def __init__(
        self,
        devices: tuple[EndDevice, ...],
        access: Access | None,
        limits: Limits | None,
        tls: ssl.SSLContext | None,
        public_uri: str | None,
    ) -> None:
        self.events: list[Event] = []
        self._reported = asyncio.Event()
        self.upstream = MemoryUpstream()
        self.network_server = NetworkServer(
            "lns-a",
            EU868,
            devices,
            store=MemoryStore(),
            application=self.upstream,
            record=self._record,
            utc=utc_of_this_host,
            entropy=stream(1, "lns"),
        )
        self.server = StationServer(
            self.network_server,
            self._record,
            access=access,
            limits=limits,
            tls=tls,
            public_uri=public_uri,
        )

    def _record(self, event: Event) -> None:
        self.events.append(event)
        self._reported.set()

    @property
    def uri(self) -> str:
        return self.server.uri

    @property
    def port(self) -> int:
        return int(self.uri.rpartition(":")[2])

    @property
    def outcomes(self) -> list[Outcome]:
        return [event for event in self.events if isinstance(event, Outcome)]

    @property
    def words(self) -> list[tuple[str, str, str, str]]:
        return [(o.status or "-", o.upstream, o.reason or "-", o.answer) for o in self.outcomes]

    def connections(self, stage: str) -> list[Connection]:
        found = [event for event in self.events if isinstance(event, Connection)]
        return [event for event in found if event.stage == stage]

    @property
    def causes(self) -> list[str | None]:
        return [event.cause for event in self.connections("disconnected")]

    async def until(self, happened: Callable[[], object]) -> None:
        """Wait for something that the server reports."""
        async with asyncio.timeout(PATIENCE_S):
            while not happened():
                self._reported.clear()
                await self._reported.wait()


@asynccontextmanager
async def listening(
    *devices: EndDevice,
    access: Access | None = None,
    limits: Limits | None = None,
    tls: ssl.SSLContext | None = None,
    public_uri: str | None = None,
) -> AsyncIterator[Listening]:
    """A server with these devices (`ALPHA` alone by default) that listens on any free port."""
    served = Listening(devices or (ALPHA,), access, limits, tls, public_uri)
    await served.server.start("127.0.0.1", 0)
    try:
        yield served
    finally:
        # Stations that nobody plays any more would not answer the server's farewell.
        await StationSocket.reset_all()
        await served.server.stop()


def play(
    scenario: Callable[[Listening], Awaitable[None]],
    *,
    devices: Sequence[EndDevice] = (),
    **how: object,
) -> Listening:
    """Play a scenario against such a server, on the wall clock."""

    async def playing() -> Listening:
        async with listening(*devices, **how) as served:  # type: ignore[arg-type]
            await scenario(served)
        return served

    return asyncio.run(playing())
