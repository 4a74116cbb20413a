"""Which Redis does a URL name, what goes to it together, and what if it is away?

One connection, to the server of a URL or to the master that Sentinels name. Commands that arrive
while a round trip is under way go together into the next one, so they reach Redis in the order they
were given, and a thousand of them cost few round trips.
"""

import asyncio
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from redis.asyncio import Connection, SSLConnection
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.driver_info import DriverInfo
from redis.exceptions import ConnectionError as NotConnected
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError

from lns.clock import StoreUnavailable

_PORT = 6379
_SENTINEL_PORT = 26379
_SHAPE = (
    "redis://[[user]:password@]host[:port][/database], or rediss://, or"
    " redis+sentinel://[[user]:password@]host[:port][,host[:port]...]/service[/database]"
)
_URL = re.compile(
    r"redis(?P<tls>s)?(?P<sentinel>\+sentinel)?://"
    r"(?:(?P<login>[^/?#]*)@)?(?P<hosts>[^/?#@]*)(?P<rest>.*)",
    re.DOTALL,
)
_SERVICE = re.compile(r"[A-Za-z0-9._-]{1,100}")
_DRIVER = DriverInfo()  # each connection would otherwise read the version from a file

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server as its URL names it; neither `str` nor `repr` shows user or password.

    With a `service` it is whichever server the `sentinels` call the master of that name; user and
    password are those of the server, the Sentinels are asked without.
    """

    host: str = ""
    port: int = _PORT
    database: int = 0
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)
    sentinels: tuple[Address, ...] = ()
    service: str = ""

    def __str__(self) -> str:
        scheme = "rediss" if self.tls else "redis"
        if not self.service:
            return f"{scheme}://{spelled((self.host, self.port))}/{self.database}"
        hosts = ",".join(map(spelled, self.sentinels))
        return f"{scheme}+sentinel://{hosts}/{self.service}/{self.database}"


def spelled(address: Address) -> str:
    """`host:port`, with brackets where an IPv6 address needs them."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def redis_server(url: str) -> RedisServer:
    """The server of a `redis[s]://` or `redis[s]+sentinel://` URL; ValueError, without password."""
    parts = _URL.fullmatch(url)
    if parts is None:
        raise _mistake("not the URL of a Redis server")
    by_sentinel = parts["sentinel"] is not None
    hosts = parts["hosts"].split(",")
    addresses = [_address(text, _SENTINEL_PORT if by_sentinel else _PORT) for text in hosts]
    if len(addresses) > 1 and not by_sentinel:
        raise _mistake(
            "a redis:// URL names one host; which of several is the master the Sentinels tell"
        )
    if len(set(addresses)) < len(addresses):
        raise _mistake("the URL of a Redis server names one of its hosts twice")
    user, _, password = (parts["login"] or "").partition(":")
    if "@" in password and "," in password:
        raise _mistake("user and password stand once, before the first host")
    service, database = "", parts["rest"].strip("/")
    if by_sentinel:
        service, _, database = database.partition("/")
        if not _SERVICE.fullmatch(service):
            raise _mistake("a URL of Sentinels names the service they watch, as in /mymaster")
    if not re.fullmatch("[0-9]*", database):
        raise _mistake(
            "the URL of a Redis server ends with a database, a number",
            " (write / ? # @ in a password as %2F %3F %23 %40)",
        )
    host, port = ("", 0) if by_sentinel else addresses[0]
    return RedisServer(
        host=host,
        port=port,
        database=int(database or 0),
        tls=parts["tls"] is not None,
        user=unquote(user) or None,
        password=unquote(password) or None,
        sentinels=tuple(addresses) if by_sentinel else (),
        service=service,
    )


def _address(text: str, usual_port: int) -> Address:
    try:
        parts = urlsplit(f"//{text}")
        port = parts.port
    except ValueError:
        port = 0
    if port == 0 or not parts.hostname:
        raise _mistake("not the URL of a Redis server")
    return parts.hostname, usual_port if port is None else port


def _mistake(said: str, advice: str = "") -> ValueError:
    return ValueError(f"{said}; it is {_SHAPE}{advice}")


PATIENCE_US = 250_000  # two round trips end before RX1 opens
_AT_ONCE = 500  # more of them could take longer than patience lasts

Waiter: TypeAlias = "asyncio.Future[Any]"


class Script:
    """A script that Redis runs in one step; sent once a connection, then named by its digest."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


Word = str | int | bytes
Command = tuple[Word | Script, ...]
"""A script, as the first word, stands for running it."""


class ScriptUnknown(StoreUnavailable):
    """Redis has forgotten a script while the connection stayed (SCRIPT FLUSH)."""


class RedisWire:
    """The way to one Redis, or to whichever of several is the master; connects when there is
    something to say, again and again.

    Replies are as RESP2 has them: text is bytes, and a hash is a list of names and values in turn.
    Each round trip has `patience_us`; a command waits for at most one other, unless more than 500
    come at once.
    """

    def __init__(self, server: RedisServer, *, patience_us: int = PATIENCE_US) -> None:
        self._server = server
        self._patience_us = patience_us
        self._waiting: list[tuple[Command, Waiter]] = []
        self._round_trip = asyncio.Lock()
        self._master = _Master(server, search_us=patience_us // 2)

    async def do(self, *command: Word) -> Any:
        """The reply to a command that may be done twice; StoreUnavailable when there is none.

        What was refused was not done; what was not answered in time may still be done.
        """
        [reply] = await self.do_together(command)
        return reply

    async def do_together(self, *commands: Command) -> list[Any]:
        """The replies to commands that leave in one round trip; StoreUnavailable if any has none.

        They are done in this order, and others may come between.
        """
        loop = asyncio.get_running_loop()
        waiters: list[Waiter] = [loop.create_future() for _ in commands]
        self._waiting.extend(zip(commands, waiters, strict=True))
        try:
            async with self._round_trip:
                while not all(waiter.done() for waiter in waiters):
                    batch, self._waiting = self._waiting[:_AT_ONCE], self._waiting[_AT_ONCE:]
                    await self._send(batch)
        except asyncio.CancelledError:
            for waiter in waiters:
                waiter.cancel()
            raise
        failed = [error for waiter in waiters if (error := waiter.exception()) is not None]
        if failed:
            raise failed[0]
        return [waiter.result() for waiter in waiters]

    async def run(self, script: Script, keys: Sequence[str], *values: Word) -> Any:
        """The reply of a script that may run twice; StoreUnavailable when there is none.

        A second round trip only where Redis was told to forget its scripts.
        """
        command: Command = (script, len(keys), *keys, *values)
        try:
            [reply] = await self.do_together(command)
        except ScriptUnknown:
            [reply] = await self.do_together(command)
        return reply

    async def close(self) -> None:
        await self._master.leave()

    async def _send(self, batch: Sequence[tuple[Command, Waiter]]) -> None:
        replies: Sequence[object] = ()
        why = "was left before it answered"
        try:
            async with asyncio.timeout(self._patience_us / 1_000_000):
                replies = await self._master.replies([command for command, _ in batch])
        except TimeoutError:
            why = f"does not answer within {self._patience_us} us"
        except (RedisError, OSError) as error:
            why = f"is not available: {error}"
        finally:
            lost = StoreUnavailable(f"{self._server} {why}")
            for number, (_, waiter) in enumerate(batch):
                self._tell(waiter, replies[number] if replies else lost)

    def _tell(self, waiter: Waiter, reply: object) -> None:
        if waiter.done():
            return
        if isinstance(reply, NoScriptError):
            reply = ScriptUnknown(f"{self._server} does not know a script")
        elif isinstance(reply, RedisError):
            reply = StoreUnavailable(f"{self._server} refuses: {reply}")
        if isinstance(reply, StoreUnavailable):
            waiter.set_exception(reply)
        else:
            waiter.set_result(reply)


class _Master:
    """The connection to a server, or to whichever the Sentinels call the master.

    Kept until it is lost or its server says that it is no master any more (READONLY: replicas
    refuse every write); then the Sentinels are asked again. Those that say nothing within
    `search_us` are away. Whoever has left comes not back, whatever was on its way.
    """

    def __init__(self, server: RedisServer, *, search_us: int) -> None:
        self._server = server
        self._search_us = search_us
        self._connection: Connection | None = None
        self._sentinels: Sentinel | None = None
        self._scripts_known: set[Script] = set()
        self._has_left = False

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
        connection, self._connection = self._connection, None
        self._scripts_known.clear()
        if connection is not None:
            await connection.disconnect(nowait=True)

    async def leave(self) -> None:
        self._has_left = True
        await self.close()
        sentinels, self._sentinels = self._sentinels, None
        if sentinels is not None:
            await sentinels.aclose()

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
        server = self._server
        if self._has_left:
            raise NotConnected("it was left")
        address = server.host, server.port
        if server.service:
            address = await self._told_by_sentinels()
        connection = self._connection_to(address)
        try:
            await connection.connect()  # type: ignore[no-untyped-call]
        except BaseException:
            await connection.disconnect(nowait=True)
            raise
        return connection

    async def _told_by_sentinels(self) -> Address:
        """Where the master is, as the first Sentinel says that knows one; each has its share of
        `search_us`.
        """
        server = self._server
        if self._sentinels is None:
            self._sentinels = Sentinel(  # type: ignore[no-untyped-call]
                server.sentinels,
                sentinel_kwargs={
                    "ssl": server.tls,
                    "protocol": 2,
                    "retry": Retry(NoBackoff(), 0),
                    "socket_timeout": self._search_us / len(server.sentinels) / 1_000_000,
                    "socket_connect_timeout": self._search_us / len(server.sentinels) / 1_000_000,
                },
            )
        try:
            host, port = await self._sentinels.discover_master(server.service)
            return host, port
        except MasterNotFoundError:
            raise NotConnected(f"no Sentinel knows a master of {server.service}") from None

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
            driver_info=_DRIVER,
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
