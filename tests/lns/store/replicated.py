"""Two real stores, of which one follows the other, and what becomes of them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis

from bench.host.valkey import Valkey

FOLLOWS_S = 30
# A replica is served at once, not after five seconds in which more of them could come.
_AT_ONCE = "repl-diskless-sync-delay 0"


async def told(valkey: Valkey, *command: Any) -> Any:
    """What a store says to one command."""
    async with Redis.from_url(valkey.url) as client:
        return await client.execute_command(*command)


@dataclass(frozen=True, slots=True)
class Pair:
    """`first` is the master and `second` its replica, until somebody says otherwise."""

    first: Valkey
    second: Valkey

    @property
    def url(self) -> str:
        """Both, the master first."""
        return self.first.url.replace("/0", f",127.0.0.1:{self.second.port}/0")

    async def follow(self, replica: Valkey, master: Valkey) -> None:
        """Make one a replica, and wait until it has everything."""
        await told(replica, "REPLICAOF", "127.0.0.1", master.port)
        async with asyncio.timeout(FOLLOWS_S):
            while not await self._follows(replica):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        await self.replicated(master)

    async def _follows(self, replica: Valkey) -> bool:
        said = await told(replica, "INFO", "replication")
        return bool(said["master_link_status"] == "up")

    async def replicated(self, master: Valkey) -> None:
        """Wait until its replica has what was written by now."""
        async with Redis.from_url(master.url) as client:
            # WAIT counts what the same connection wrote, so this one writes too.
            await client.set("replicated", 1)
            assert await client.wait(1, FOLLOWS_S * 1000) == 1

    async def promote(self, replica: Valkey) -> None:
        """Make it a master."""
        await told(replica, "REPLICAOF", "NO", "ONE")


@asynccontextmanager
async def pair_in(folder: Path, password: str | None = None) -> AsyncIterator[Pair]:
    """Both running, the second one with everything the first one has."""
    lines = [_AT_ONCE] + ([f"masterauth {password}"] if password else [])
    stores = []
    for name in ("first", "second"):
        (folder / name).mkdir()
        stores.append(Valkey(folder / name, *lines, password=password))
    pair = Pair(*stores)
    try:
        for store in stores:
            await store.start()
        await pair.follow(pair.second, pair.first)
        yield pair
    finally:
        for store in stores:
            await store.kill()
