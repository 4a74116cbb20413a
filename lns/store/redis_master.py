"""Which of the servers that a URL names takes what is written, and what does it say?

Replicas follow their master a little behind and refuse every write (READONLY). Who becomes master
when one is lost is decided elsewhere, by a person or a program of theirs; it is found here. Two
masters are none: whatever one of them grants, the other may grant too.
"""

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from hashlib import sha1
from typing import Any

from redis.asyncio import Connection, SSLConnection
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from lns.store.redis_server import Address, RedisServer, spelled


class Script:
    """A script that Redis runs in one step; sent once a connection, then named by its digest."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


Word = str | int | bytes
Command = tuple[Word | Script, ...]
"""A script, as the first word, stands for running it."""


class RedisMaster:
    """The connection to a server, or to the master where the URL names several.

    Kept until it is lost or its server says that it is no master any more; then the master is
    looked for again, among all of them at once. Those that say nothing within `search_us` are away.
    A server that is the only one is not asked what it is.
    """

    def __init__(self, server: RedisServer, *, search_us: int) -> None:
        self._server = server
        self._search_us = search_us
        self._connection: Connection | None = None
        self._scripts_known: set[Script] = set()

    async def replies(self, commands: Sequence[Command]) -> list[object]:
        """The replies to commands that may be done twice, refusals among them, in one round trip.

        RedisError or OSError when there is no master, or it is lost before all have answered.
        """
        if self._connection is not None:
            # It may have ended since the last command, or with this one.
            with suppress(NotConnected, OSError):
                replies = await self._exchange(self._connection, commands)
                if not any(isinstance(reply, ReadOnlyError) for reply in replies):
                    return replies
            await self.close()
        self._connection = await self._find()
        return await self._exchange(self._connection, commands)

    async def close(self) -> None:
        """End the connection, if there is one."""
        connection, self._connection = self._connection, None
        self._scripts_known.clear()
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def _exchange(self, connection: Connection, commands: Sequence[Command]) -> list[object]:
        try:
            packed = b"".join(_packed(self._words(command)) for command in commands)
            await connection.send_packed_command(packed, check_health=False)
            replies = [await _reply(connection) for _ in commands]
        except BaseException:
            # What is still on its way would answer the next command.
            await self.close()
            raise
        for command, reply in zip(commands, replies, strict=True):
            self._learn(command[0], reply)
        return replies

    def _words(self, command: Command) -> Command:
        """A script is sent whole until it ran: what waits behind it must not overtake it."""
        script, rest = command[0], command[1:]
        if not isinstance(script, Script):
            return command
        if script in self._scripts_known:
            return ("EVALSHA", script.digest, *rest)
        return ("EVAL", script.text, *rest)

    def _learn(self, first: Word | Script, reply: object) -> None:
        if not isinstance(first, Script):
            return
        if isinstance(reply, NoScriptError):
            self._scripts_known.discard(first)
        elif not isinstance(reply, ResponseError):
            self._scripts_known.add(first)

    async def _find(self) -> Connection:
        """A new connection to the master; RedisError when nobody is, or more than one."""
        connections = [self._connection_to(address) for address in self._server.addresses]
        found: Connection | None = None
        try:
            if self._server.others:
                found = self._only_master(connections, await self._roles(connections))
            else:
                await connections[0].connect()  # type: ignore[no-untyped-call]
                found = connections[0]
            return found
        finally:
            for connection in connections:
                if connection is not found:
                    await connection.disconnect(nowait=True)

    def _only_master(self, connections: Sequence[Connection], roles: Sequence[str]) -> Connection:
        masters = [one for one, role in zip(connections, roles, strict=True) if role == "master"]
        if len(masters) == 1:
            return masters[0]
        told = zip(map(spelled, self._server.addresses), roles, strict=True)
        said = ", ".join(f"{address} {role}" for address, role in told)
        if masters:
            raise NotConnected(f"more than one is master, so none is used ({said})")
        raise NotConnected(f"none is master ({said})")

    async def _roles(self, connections: Sequence[Connection]) -> list[str]:
        return await asyncio.gather(*map(self._role, connections))

    async def _role(self, connection: Connection) -> str:
        """What a server is: "master", "slave", or why nobody knows."""
        try:
            async with asyncio.timeout(self._search_us / 1_000_000):
                await connection.connect()  # type: ignore[no-untyped-call]
                await connection.send_command("ROLE", check_health=False)
                reply: list[Any] = await connection.read_response()
                return str(reply[0].decode())
        except TimeoutError:
            return f"does not answer within {self._search_us} us"
        except (RedisError, OSError) as error:
            return f"is away: {error}"

    def _connection_to(self, address: Address) -> Connection:
        server = self._server
        kind = SSLConnection if server.tls else Connection
        host, port = address
        return kind(
            host=host,
            port=port,
            db=server.database,
            username=server.user,
            password=server.password,
            protocol=2,
            # Whoever asks says how long it may take.
            socket_timeout=None,
            socket_connect_timeout=None,
        )


def _packed(command: Command) -> bytes:
    """A command as servers read it; what `redis` does for this takes a quarter of a claim."""
    parts = [part if isinstance(part, bytes) else str(part).encode() for part in command]
    octets = [b"$%d\r\n%b\r\n" % (len(part), part) for part in parts]
    return b"*%d\r\n%b" % (len(parts), b"".join(octets))


async def _reply(connection: Connection) -> object:
    try:
        reply: object = await connection.read_response()
        return reply
    except ResponseError as refused:
        return refused
