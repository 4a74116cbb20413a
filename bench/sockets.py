"""What is a TCP connection whose both ends are in this process, with no host between them?

For an event loop on virtual time: what is written arrives in order, at once or as much later as its
port is away (`Network.away_us`), and what nobody reads waits: first on the way (`ON_THE_WAY_MAX`,
as the buffers of two sockets), then at whoever wrote it, who is told so. TLS is that of asyncio.
"""

import asyncio
import socket
import ssl
from asyncio import sslproto
from collections import Counter, deque
from collections.abc import Callable
from typing import Any, TypeAlias
from weakref import ref

ON_THE_WAY_MAX = 16_384
LOCALHOST = "127.0.0.1"
_FIRST_PORT = 40_001
_S = 1_000_000
Address: TypeAlias = tuple[str, int]


class Wired(asyncio.Transport):
    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        *ends: Address,
        away_us: int,
    ) -> None:
        super().__init__({"sockname": ends[0], "peername": ends[1]})
        self.peer: Wired
        self._loop = loop
        self._away_s = away_us / _S
        self._protocol = protocol
        self._low, self._high = 16_384, 65_536
        self._unsent = bytearray()
        self._on_the_way = 0
        self._arrived: deque[bytes] = deque()
        self._ends = self._has_ended = False  # nothing follows: ours is said, theirs was heard
        self._closing = self._lost = False
        self.gone: asyncio.Future[None] = loop.create_future()
        self._reads, self._may_write = True, True

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def is_reading(self) -> bool:
        return self._reads and not self._closing

    def pause_reading(self) -> None:
        self._reads = False

    def resume_reading(self) -> None:
        self._reads = True
        self._loop.call_soon(self._read)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = 65_536 if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return len(self._unsent)

    def can_write_eof(self) -> bool:
        return True

    def write(self, data: Any) -> None:
        if self._closing or self._ends:
            return
        self._unsent += data
        self._push()
        if self._may_write and len(self._unsent) > self._high:
            self._may_write = False
            self._protocol.pause_writing()

    def write_eof(self) -> None:
        if not self._ends:
            self._ends = True
            self._push()

    def close(self) -> None:
        if not self._closing:
            self._closing = True
            self._push()

    def abort(self) -> None:
        self._force_close(None)

    def _force_close(self, error: Exception | None) -> None:
        self._closing = True
        self._unsent.clear()
        self._loop.call_soon(self._lose, error)

    def _push(self) -> None:
        room = ON_THE_WAY_MAX - self.peer._on_the_way
        if chunk := bytes(self._unsent[:room]):
            del self._unsent[: len(chunk)]
            self.peer._on_the_way += len(chunk)
            self._later(self.peer._arrive, chunk)
        if not self._may_write and len(self._unsent) <= self._low:
            self._may_write = True
            self._protocol.resume_writing()
        if not self._unsent and self._closing:
            self._loop.call_soon(self._lose, None)
        elif not self._unsent and self._ends:
            self._later(self.peer._arrive, b"")

    def _arrive(self, chunk: bytes) -> None:
        if self._lost:
            if chunk:
                self._later(self.peer._lose, ConnectionResetError("reset by the other side"))
        else:
            self._arrived.append(chunk)
            self._read()

    def _read(self) -> None:
        while self._arrived and self.is_reading():
            chunk = self._arrived.popleft()
            if chunk:
                self._on_the_way -= len(chunk)
                self._hand_over(chunk)
                self.peer._push()
            elif not self._has_ended:
                self._has_ended = True
                if not self._protocol.eof_received():  # type: ignore[attr-defined]
                    self.close()

    def _hand_over(self, chunk: bytes) -> None:
        protocol = self._protocol
        if isinstance(protocol, asyncio.Protocol):
            protocol.data_received(chunk)
            return
        assert isinstance(protocol, asyncio.BufferedProtocol)
        while chunk:
            into: Any = protocol.get_buffer(len(chunk))
            taken = min(len(into), len(chunk))
            into[:taken] = chunk[:taken]
            protocol.buffer_updated(taken)
            chunk = chunk[taken:]

    def _lose(self, error: Exception | None) -> None:
        if not self._lost:
            self._closing = self._lost = True
            self._protocol.connection_lost(error)
            self.gone.set_result(None)
            self._later(self.peer._arrive, b"")

    def _later(self, callback: Callable[..., None], *given: object) -> None:
        self._loop.call_later(self._away_s, callback, *given)


class _Listening:
    """What a server is asked of the socket that it listens on."""

    family = socket.AF_INET

    def __init__(self, address: Address) -> None:
        self._address = address

    def getsockname(self) -> Address:
        return self._address


class Listener(asyncio.AbstractServer):
    """Whoever listens at one address, until it is closed."""

    def __init__(
        self, network: "Network", factory: Callable[[], asyncio.BaseProtocol], address: Address
    ) -> None:
        self.factory = factory
        self.sockets = (_Listening(address),)
        self.connections: list[Wired] = []
        self._network = network
        self._port = address[1]

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._network.loop

    def is_serving(self) -> bool:
        return self._network.listening.get(self._port) is self

    async def start_serving(self) -> None:
        """It does so already."""

    async def serve_forever(self) -> None:
        await self.wait_closed()

    def close(self) -> None:
        if self.is_serving():
            del self._network.listening[self._port]

    async def wait_closed(self) -> None:
        if here := [one.gone for one in self.connections if not one._lost]:
            await asyncio.wait(here)


class Network:
    """All who listen on one event loop, by their ports; every host of this process is the same."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.listening: dict[int, Listener] = {}
        self.unreachable: set[int] = set()
        """Ports that nothing comes back from, not even a refusal."""
        self.away_us: Counter[int] = Counter()
        """How long each way between a port and whoever connects to it takes."""
        self._next_port = _FIRST_PORT
        self.begun: Counter[int] = Counter()
        """How many TLS handshakes whoever listens on a port has begun in this turn of the loop."""
        self.most_begun: Counter[int] = Counter()
        self._secured: list[ref[asyncio.Transport]] = []
        self._clients: list[Wired] = []

    def shut(self) -> None:
        """End what TLS somebody has left open, whoever that was: asyncio warns of it otherwise."""
        for secured in self._secured:
            transport = secured()
            if transport is not None:
                transport.abort()

    def left_open(self) -> list[str]:
        """Whose the connections are that nobody is closing: whoever accepts one may know (`of`)."""
        left = [one for one in self._clients if not one.is_closing()]
        return [getattr(one.peer.get_protocol(), "of", "somebody") for one in left]

    def listen(
        self, factory: Callable[[], asyncio.BaseProtocol], host: str | None, port: int | None
    ) -> Listener:
        """Accept connections; port 0 = any free one. OSError where somebody listens already."""
        number = port or self._free_port()
        if number in self.listening:
            raise OSError(98, f"somebody listens on port {number}")
        listener = Listener(self, factory, (host or LOCALHOST, number))
        self.listening[number] = listener
        return listener

    async def connect(
        self, factory: Callable[[], asyncio.BaseProtocol], port: int, *, host: str = LOCALHOST
    ) -> tuple[Wired, asyncio.BaseProtocol]:
        """One connection from this `host`; ConnectionRefusedError where nobody listens."""
        away_us = self.away_us[port]
        await asyncio.sleep(away_us / _S)
        if port in self.unreachable:
            await self.loop.create_future()
        listener = self.listening.get(port)
        if listener is None:
            raise ConnectionRefusedError(111, f"nobody listens on port {port}")
        ours, theirs = (host, self._free_port()), listener.sockets[0].getsockname()
        near, far = factory(), listener.factory()
        client = Wired(self.loop, near, ours, theirs, away_us=away_us)
        accepted = Wired(self.loop, far, theirs, ours, away_us=away_us)
        client.peer, accepted.peer = accepted, client
        listener.connections.append(accepted)
        self._clients.append(client)
        far.connection_made(accepted)
        near.connection_made(client)
        return client, near

    async def secure(
        self,
        plain: asyncio.Transport,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        *,
        server_side: bool = False,
        server_hostname: str | None = None,
        handshake_s: float | None = None,
        shutdown_s: float | None = None,
        is_new: bool = False,
    ) -> asyncio.Transport:
        """Begin TLS on a connection; who `is_new` is told of the connection once it is secure."""
        over: asyncio.Future[Any] = self.loop.create_future()
        timeouts: Any = {"ssl_handshake_timeout": handshake_s, "ssl_shutdown_timeout": shutdown_s}
        secured = sslproto.SSLProtocol(
            self.loop, protocol, context, over, server_side, server_hostname,
            call_connection_made=is_new, **timeouts,
        )  # fmt: skip
        if server_side:
            port = plain.get_extra_info("sockname")[1]
            self.begun[port] += 1
            self.most_begun[port] = max(self.most_begun[port], self.begun[port])
            self.loop.call_soon(self.begun.clear)
        plain.pause_reading()
        plain.set_protocol(secured)
        self.loop.call_soon(secured.connection_made, plain)
        self.loop.call_soon(plain.resume_reading)
        try:
            await over
        except BaseException:
            plain.close()
            raise
        transport: asyncio.Transport = secured._app_transport
        if transport is not None:  # it may be lost already
            self._secured.append(ref(transport))
        return transport

    def _free_port(self) -> int:
        self._next_port += 1
        return self._next_port - 1
