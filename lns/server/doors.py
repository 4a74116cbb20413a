"""Who has connected and is not served yet, how many are they, and does their TLS handshake end?

A connection counts from the moment that it is accepted: half a TLS handshake costs 300 kB, and
whoever has begun one has shown nothing yet.
"""

import asyncio
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, cast

from lns.server.access import refused_handshake


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
        self._of_host: dict[str, dict[Visitor, None]] = {}
        self._turn = asyncio.Lock()
        self.dropped = 0

    @property
    def opening(self) -> int:
        """How many there are now."""
        return len(self._opening)

    def opened(self, visitor: Visitor) -> None:
        """Somebody connected, or has got as far as a request."""
        self._opening[visitor] = visitor.host
        self._of_host.setdefault(visitor.host, {})[visitor] = None
        if len(self._opening) > self._opening_max:
            most = max(self._of_host.values(), key=len)
            oldest = next(iter(most))
            self.closed(oldest)
            self.dropped += 1
            oldest.drop(TOO_MANY)

    def closed(self, visitor: Visitor) -> None:
        """It is a station's connection now, or over."""
        host = self._opening.pop(visitor, None)
        if host is not None:
            del self._of_host[host][visitor]
            if not self._of_host[host]:
                del self._of_host[host]

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
        """The connection after its handshake; None when it ended without an error."""
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
