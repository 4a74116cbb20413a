"""What goes to Redis together, and what if it is away?

One connection. Commands that arrive while a round trip is under way go together into the next
one, so they reach Redis in the order they were given, and a thousand of them cost few round trips.
"""

import asyncio
from collections.abc import Sequence
from typing import Any, TypeAlias

from redis.exceptions import NoScriptError, RedisError

from lns.outage import StoreUnavailable
from lns.store.redis_master import Command, RedisMaster, Script, Word
from lns.store.redis_server import RedisServer, redis_server

__all__ = ["PATIENCE_US", "Command", "RedisServer", "RedisWire", "Script", "redis_server"]

PATIENCE_US = 250_000  # two round trips end before RX1 opens
_AT_ONCE = 500  # more of them could take longer than patience lasts

Waiter: TypeAlias = "asyncio.Future[Any]"


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
        self._master = RedisMaster(server, search_us=patience_us // 2)

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
        """End the connection."""
        await self._master.close()

    async def _send(self, batch: Sequence[tuple[Command, Waiter]]) -> None:
        """One round trip; afterwards everyone in it knows the reply, or why there is none."""
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
