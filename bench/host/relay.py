"""What is wrong with the wire between a program and what it needs?

A relay on the loopback, between clients and a broker, a store or a network server: it carries
octets both ways, late, not at all, or until it is cut.
"""

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field

from bench.host.program import LOOPBACK, free_port
from lns.clock import now_us

_CHUNK = 65_536


@dataclass(slots=True)
class Way:
    """One direction of all connections, and what happens to octets on it."""

    delay_us: int = 0
    swallowed: bool = False
    octets: int = 0


class Ended(Exception):
    """A connection is to end."""


@dataclass(slots=True, eq=False)
class Connection:
    """One client, and its connection to the other side."""

    client: asyncio.StreamWriter
    server: asyncio.StreamWriter
    ended: asyncio.Event = field(default_factory=asyncio.Event)

    def abort(self) -> None:
        self.client.transport.abort()
        self.server.transport.abort()
        self.ended.set()

    async def close(self) -> None:
        for writer in (self.client, self.server):
            writer.close()
        for writer in (self.client, self.server):
            with suppress(OSError):
                await writer.wait_closed()


async def until_ended(connection: Connection) -> None:
    await connection.ended.wait()
    raise Ended


async def take(
    reader: asyncio.StreamReader, waiting: asyncio.Queue[tuple[int, bytes]], way: Way
) -> None:
    """Put what comes into `waiting`, with the time at which it is due; b"" is the end."""
    while True:
        octets = await reader.read(_CHUNK)
        await waiting.put((now_us() + way.delay_us, octets))
        if not octets:
            return


Note = Callable[[str, Mapping[str, object]], None]

_WAITING_MAX = 256
_BACKLOG = 100


class Relay:
    """Carries what clients of `port` say to `to_host:to_port`, and back.

    "up" is from client to server. `note` is told of each fault: "fault.begin" or "fault.end" with
    the fault, the name of the wire and its detail. Remembers `connections` accepted so far.
    With `tls` clients have to encrypt what goes on in clear.
    """

    def __init__(
        self,
        to_host: str,
        to_port: int,
        *,
        name: str = "wire",
        note: Note | None = None,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        self.name = name
        self.port = free_port()
        self.connections = 0
        self._to = to_host, to_port
        self._note = note or (lambda kind, fields: None)
        self._tls = tls
        self._ways = {"up": Way(), "down": Way()}
        self._faults: dict[str, dict[str, object]] = {}
        self._passing = asyncio.Event()
        self._passing.set()
        self._asked: asyncio.Future[None] | None = None
        self._listener: socket.socket | None = None
        self._reserved: socket.socket | None = None
        self._opening: set[socket.socket] = set()
        self._open: set[Connection] = set()
        self._serving: set[asyncio.Task[None]] = set()

    async def start(self) -> "Relay":
        # Keeps the port while nobody listens on it: whoever connects then is refused.
        self._reserved = _bound(self.port)
        self._listen()
        return self

    async def stop(self) -> None:
        self._refuse()
        self._end_all()
        for line in self._opening:
            with suppress(OSError):
                line.shutdown(socket.SHUT_RDWR)  # nobody waits for the rest of its handshake
        self._passing.set()
        if self._serving:
            await asyncio.wait(self._serving)
        if self._reserved is not None:
            self._reserved.close()

    async def __aenter__(self) -> "Relay":
        return await self.start()

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    def octets(self, direction: str) -> int:
        return self._ways[direction].octets

    def delay(self, us: int, direction: str | None = None) -> None:
        """Carry what comes from now on so much later, one way ("up", "down") or both."""
        for way in self._chosen(direction):
            way.delay_us = us
        self._begin("delay", {"after_us": us, "direction": direction or "both"})

    def cut(self) -> None:
        """End all connections, and refuse new ones until `restore`."""
        self._begin("cut", {})
        self._refuse()
        self._end_all()

    def swallow(self, direction: str | None = None) -> None:
        """Accept clients and octets, and let nothing of them arrive, one way or both.

        What was swallowed is lost, so `restore` ends the connections.
        """
        for way in self._chosen(direction):
            way.swallowed = True
        self._begin("swallow", {"direction": direction or "both"})

    def hold(self) -> None:
        """Accept clients and let nothing pass; what waits goes on after `restore`: a partition."""
        self._passing.clear()
        self._begin("hold", {})

    def hold_after_next(self) -> asyncio.Future[None]:
        """Carry the next octets on the way up, then `hold`; done when that has happened."""
        self._asked = asyncio.get_running_loop().create_future()
        return self._asked

    async def restore(self) -> None:
        """Undo `cut`, `hold` and `swallow`."""
        for way in self._ways.values():
            if way.swallowed:
                way.swallowed = False
                self._end_all()
        self._passing.set()
        if self._listener is None and self._reserved is not None:
            self._listen()
        for fault in ("cut", "swallow", "hold"):
            self._end(fault)

    async def clear(self) -> None:
        for way in self._ways.values():
            way.delay_us = 0
        self._end("delay")
        await self.restore()

    def _chosen(self, direction: str | None) -> list[Way]:
        return list(self._ways.values()) if direction is None else [self._ways[direction]]

    def _begin(self, fault: str, detail: dict[str, object]) -> None:
        self._end(fault)
        self._faults[fault] = detail
        self._note("fault.begin", self._told(fault, detail))

    def _end(self, fault: str) -> None:
        detail = self._faults.pop(fault, None)
        if detail is not None:
            self._note("fault.end", self._told(fault, detail))

    def _told(self, fault: str, detail: dict[str, object]) -> dict[str, object]:
        return {"seam": self.name, "fault": fault, "origin": "injected", "detail": detail}

    def _listen(self) -> None:
        listener = self._listener = _bound(self.port)
        listener.listen(_BACKLOG)
        listener.setblocking(False)
        asyncio.get_running_loop().add_reader(listener, self._take, listener)

    def _take(self, listener: socket.socket) -> None:
        # Not asyncio.start_server: of who connects while that ends, nobody closes the socket.
        with suppress(OSError):
            client, _ = listener.accept()
            client.setblocking(False)
            self._opening.add(client)
            task = asyncio.create_task(self._accept(client))
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)

    def _refuse(self) -> None:
        if self._listener is not None:
            asyncio.get_running_loop().remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _end_all(self) -> None:
        for connection in list(self._open):
            connection.abort()

    async def _accept(self, line: socket.socket) -> None:
        self.connections += 1
        try:
            reader, client = await _streams(line, self._tls)
        except OSError:
            return
        finally:
            self._opening.discard(line)
        try:
            from_server, server = await asyncio.open_connection(*self._to)
        except OSError:
            client.transport.abort()
        else:
            await self._serve(reader, from_server, Connection(client, server))

    async def _serve(
        self,
        from_client: asyncio.StreamReader,
        from_server: asyncio.StreamReader,
        connection: Connection,
    ) -> None:
        self._open.add(connection)
        if self._listener is None:  # cut while the other side was being reached
            connection.abort()
        try:
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(until_ended(connection))
                async with asyncio.TaskGroup() as ways:
                    ways.create_task(self._carry(from_client, connection.server, "up"))
                    ways.create_task(self._carry(from_server, connection.client, "down"))
                raise Ended
        except* (OSError, Ended):
            pass
        finally:
            await connection.close()
            self._open.discard(connection)

    async def _carry(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, direction: str
    ) -> None:
        waiting: asyncio.Queue[tuple[int, bytes]] = asyncio.Queue(_WAITING_MAX)
        way = self._ways[direction]
        async with asyncio.TaskGroup() as ends:
            ends.create_task(take(reader, waiting, way))
            ends.create_task(self._give(writer, waiting, way))

    async def _give(
        self, writer: asyncio.StreamWriter, waiting: asyncio.Queue[tuple[int, bytes]], way: Way
    ) -> None:
        while True:
            due_us, octets = await waiting.get()
            await asyncio.sleep(max(0, due_us - now_us()) / 1_000_000)
            await self._passing.wait()
            if way.swallowed:
                continue
            if not octets:
                if not writer.can_write_eof():
                    raise Ended  # TLS ends both ways at once
                return writer.write_eof()
            asked = self._asked if way is self._ways["up"] else None
            if asked is not None:
                self._asked = None
                self.hold()  # before the other side can reply
            way.octets += len(octets)
            writer.write(octets)
            await writer.drain()
            if asked is not None and not asked.done():
                asked.set_result(None)


async def _streams(
    line: socket.socket, tls: ssl.SSLContext | None
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Both ends of a client that was accepted, encrypted with `tls`; OSError if it is gone."""
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await loop.connect_accepted_socket(lambda: protocol, line, ssl=tls)
    return reader, asyncio.StreamWriter(transport, protocol, reader, loop)


def _bound(port: int) -> socket.socket:
    bound = socket.socket()
    try:
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        bound.bind((LOOPBACK, port))
    except OSError:
        bound.close()
        raise
    return bound
