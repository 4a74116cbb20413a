"""What goes to Redis together, and what if it is away?

One connection. Commands that arrive while a round trip is under way go together into the next
one, so they reach Redis in the order they were given, and a thousand of them cost few round trips.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from hashlib import sha1
from typing import Any, TypeAlias
from urllib.parse import unquote, urlsplit

from redis.asyncio import Redis
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, RedisError
from redis.exceptions import TimeoutError as RedisTimeout

from lns.outage import StoreUnavailable

PATIENCE_US = 250_000  # two round trips end before RX1 opens
_AT_ONCE = 500  # more of them could take longer than patience lasts
_SHAPE = "redis://[[user]:password@]host[:port][/database], or rediss://"

Command = tuple[str | int | bytes, ...]
Waiter: TypeAlias = "asyncio.Future[Any]"


class ScriptUnknown(StoreUnavailable):
    """Redis has not seen a script yet, or has forgotten it: it restarted."""


class Script:
    """A script that Redis runs in one step; sent once, then named by its digest."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.digest = sha1(text.encode(), usedforsecurity=False).hexdigest()


@dataclass(frozen=True, slots=True)
class RedisServer:
    """A server as its URL names it; neither `str` nor `repr` shows user or password."""

    host: str
    port: int = 6379
    database: int = 0
    tls: bool = False
    user: str | None = field(default=None, repr=False)
    password: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{'rediss' if self.tls else 'redis'}://{host}:{self.port}/{self.database}"


def redis_server(url: str) -> RedisServer:
    """The server of `redis[s]://[[user]:password@]host[:port][/database]`.

    ValueError, without the password.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ValueError(f"not the URL of a Redis server; it is {_SHAPE}") from None
    database = parts.path.strip("/") or "0"
    if parts.scheme not in ("redis", "rediss") or not parts.hostname or port == 0:
        raise ValueError(f"not the URL of a Redis server; it is {_SHAPE}")
    if not database.isdecimal() or parts.query or parts.fragment:
        raise ValueError(
            f"the URL of a Redis server ends with a database, a number; it is {_SHAPE}"
            " (write / ? # @ in a password as %2F %3F %23 %40)"
        )
    return RedisServer(
        host=parts.hostname,
        port=port or 6379,
        database=int(database),
        tls=parts.scheme == "rediss",
        user=unquote(parts.username) if parts.username else None,
        password=unquote(parts.password) if parts.password else None,
    )


class RedisWire:
    """The way to one Redis server; connects when there is something to say, again and again.

    Each round trip has `patience_us`; a command waits for at most one other, unless more than 500
    come at once.
    """

    def __init__(self, server: RedisServer, *, patience_us: int = PATIENCE_US) -> None:
        self._server = server
        self._patience_us = patience_us
        self._waiting: list[tuple[Command, Waiter]] = []
        self._round_trip = asyncio.Lock()
        patience_s = patience_us / 1_000_000
        self._client: Redis = Redis(
            host=server.host,
            port=server.port,
            db=server.database,
            username=server.user,
            password=server.password,
            ssl=server.tls,
            socket_timeout=patience_s,
            socket_connect_timeout=patience_s,
            # An idle connection that was ended meanwhile: every command here may go out twice.
            retry=Retry(NoBackoff(), 1),
        )

    async def do(self, *command: str | int | bytes) -> Any:
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

    async def run(self, script: Script, keys: Sequence[str], *values: str | int | bytes) -> Any:
        """The reply of a script that may run twice; StoreUnavailable when there is none.

        A second round trip only where Redis does not know the script.
        """
        try:
            return await self.do("EVALSHA", script.digest, len(keys), *keys, *values)
        except ScriptUnknown:
            return await self.do("EVAL", script.text, len(keys), *keys, *values)

    async def close(self) -> None:
        """End the connection."""
        await self._client.aclose()

    async def _send(self, batch: Sequence[tuple[Command, Waiter]]) -> None:
        """One round trip; afterwards everyone in it knows the reply, or why there is none."""
        replies: Sequence[object] = ()
        why = "was left before it answered"
        try:
            async with asyncio.timeout(self._patience_us / 1_000_000):
                replies = await self._replies([command for command, _ in batch])
        except (TimeoutError, RedisTimeout):
            why = f"does not answer within {self._patience_us} us"
        except (RedisError, OSError) as error:
            why = f"is not available: {error}"
        finally:
            lost = StoreUnavailable(f"{self._server} {why}")
            for number, (_, waiter) in enumerate(batch):
                self._tell(waiter, replies[number] if replies else lost)

    async def _replies(self, commands: Sequence[Command]) -> Sequence[object]:
        async with self._client.pipeline(transaction=False) as pipeline:
            for command in commands:
                pipeline.execute_command(*command)
            replies: list[object] = await pipeline.execute(raise_on_error=False)
            return replies

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
