"""Two real stores, of which one follows the other, and the Sentinels that watch them."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from redis.asyncio import Redis
from redis.exceptions import RedisError

from bench.host.lns_process import PolledListener, Valkey, valkey_program
from bench.host.program import LOOPBACK

FOLLOWS_S = 60
TRIES = 5
SERVICE = "the-store"
QUORUM = 2
# A replica is served at once, not after five seconds in which more of them could come.
_AT_ONCE = "repl-diskless-sync-delay 0"
# How often a Sentinel looks and tells, in ms: otherwise every second, or every ten. A store that
# calls itself master and should not be one is made a replica after four times `publish`.
# What was heard of a replica of a lost master, once a second, is good for five times `ping`.
_OFTEN = {"info": 100, "ping": 600, "ask": 100, "min-link-reconnect": 100, "publish": 500}


class SentinelProgram(PolledListener):
    """One Sentinel of three; two of them make a master of a replica.

    The third only votes: three that want to be the leader at the same moment have one vote each,
    and try again no sooner than ten seconds later.
    """

    def __init__(self, folder: Path, number: int, master: Valkey, password: str | None) -> None:
        super().__init__("sentinel", valkey_program(), folder, ())
        self._down_after_ms = 1000 if number < QUORUM else 60_000
        self._master = master
        self._password = password

    def _begin(self) -> None:
        lines = [f"bind {LOOPBACK}", f"port {self.port}", f'dir "{self._folder}"']
        lines += [f"sentinel monitor {SERVICE} {LOOPBACK} {self._master.port} {QUORUM}"]
        lines += [f"sentinel down-after-milliseconds {SERVICE} {self._down_after_ms}"]
        lines += [f"sentinel failover-timeout {SERVICE} 5000"]
        lines += [f"sentinel auth-pass {SERVICE} {self._password}"] if self._password else []
        config = self._folder / "sentinel.conf"
        config.write_text("\n".join(lines) + "\n")
        self.launch([self._program, str(config), "--sentinel"])

    def _is_ready(self) -> bool:
        return "+monitor master" in self.tail()


async def told(valkey: Valkey, *command: Any) -> Any:
    """What a store says to one command; a Sentinel that demotes it ends all its connections."""
    for _ in range(TRIES - 1):
        with suppress(RedisError):
            return await _told(valkey, *command)
    return await _told(valkey, *command)


async def _told(valkey: Valkey, *command: Any) -> Any:
    async with Redis.from_url(valkey.url) as client:
        return await client.execute_command(*command)


@dataclass(frozen=True, slots=True)
class Pair:
    """`first` is the master and `second` its replica, until the Sentinels say otherwise."""

    first: Valkey
    second: Valkey
    sentinels: tuple[SentinelProgram, ...]
    password: str | None

    @property
    def url(self) -> str:
        """That of the Sentinels."""
        login = f":{self.password}@" if self.password else ""
        hosts = ",".join(f"{LOOPBACK}:{sentinel.port}" for sentinel in self.sentinels)
        return f"redis+sentinel://{login}{hosts}/{SERVICE}"

    async def follow(self, replica: Valkey, master: Valkey) -> None:
        """Make one a replica, and wait until it has everything."""
        await told(replica, "REPLICAOF", "127.0.0.1", master.port)
        await self.until_following(replica, master)

    async def until_following(self, replica: Valkey, master: Valkey) -> None:
        """Wait until one has everything of the other."""
        async with asyncio.timeout(FOLLOWS_S):
            while not await self._follows(replica):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.02)
        await self.replicated(master)

    async def _follows(self, replica: Valkey) -> bool:
        said = await told(replica, "INFO", "replication")
        return bool(said["role"] == "slave" and said["master_link_status"] == "up")

    async def replicated(self, master: Valkey) -> None:
        """Wait until its replica has what was written by now."""
        async with Redis.from_url(master.url) as client:
            # WAIT counts what the same connection wrote, so this one writes too.
            await client.set("replicated", 1)
            assert await client.wait(1, FOLLOWS_S * 1000) == 1

    async def promote(self, replica: Valkey) -> None:
        """Wait until the Sentinels, who have lost the master, have made it one."""
        async with asyncio.timeout(FOLLOWS_S):
            while not await self._is_master(replica):  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    async def change_places(self, master: Valkey, replica: Valkey) -> None:
        """Have the Sentinels make a living master a replica, as for its maintenance."""
        async with asyncio.timeout(FOLLOWS_S):
            while not await self._is_master(replica):
                state = await self._state(0)
                # It may have given up, where this host was late.
                is_over = "failover_in_progress" not in state["flags"]
                if is_over and state["port"] == master.port:
                    with suppress(RedisError):  # no good replica yet
                        await self._ask("SENTINEL", "FAILOVER", SERVICE)
                await asyncio.sleep(0.1)
        await self.until_following(master, replica)

    async def _is_master(self, store: Valkey) -> bool:
        """For itself, and for all Sentinels."""
        [role, *_] = await told(store, "ROLE")
        port = str(store.port).encode()
        named = [
            await self._ask("SENTINEL", "GET-MASTER-ADDR-BY-NAME", SERVICE, number=number)
            for number in range(len(self.sentinels))
        ]
        return bool(role == b"master" and all(address[1] == port for address in named))

    async def _ask(self, *command: str, number: int = 0) -> Any:
        async with Redis(host=LOOPBACK, port=self.sentinels[number].port) as client:
            return await client.execute_command(*command)

    async def known(self) -> None:
        """Wait until the Sentinels know the replica, and each other."""
        async with asyncio.timeout(FOLLOWS_S):
            while not await self._are_known():  # noqa: ASYNC110 - nobody tells
                await asyncio.sleep(0.05)

    async def _are_known(self) -> bool:
        for number in range(len(self.sentinels)):
            state = await self._state(number)
            if (state["num-slaves"], state["num-other-sentinels"]) != (1, 2):
                return False
        return True

    async def _state(self, number: int) -> Any:
        """What a Sentinel knows of the master."""
        async with Redis(host=LOOPBACK, port=self.sentinels[number].port) as client:
            return (await client.sentinel_masters())[SERVICE]


@asynccontextmanager
async def pair_in(
    folder: Path, password: str | None = None, *, watched: bool = True
) -> AsyncIterator[Pair]:
    """All running, the second one with everything the first one has; Sentinels if `watched`."""
    lines = [_AT_ONCE] + ([f"masterauth {password}"] if password else [])
    stores, sentinels = [], []
    started: list[SentinelProgram] = []
    for name in ("first", "second"):
        (folder / name).mkdir()
        stores.append(Valkey(folder / name, *lines, password=password))
    for number in range(3):
        (folder / f"sentinel-{number}").mkdir()
        sentinels.append(
            SentinelProgram(folder / f"sentinel-{number}", number, stores[0], password)
        )
    pair = Pair(stores[0], stores[1], tuple(sentinels), password)
    try:
        for store in stores:
            await store.start()
        await pair.follow(pair.second, pair.first)
        for sentinel in sentinels if watched else ():
            await sentinel.start()
            started.append(sentinel)
            async with Redis(host=LOOPBACK, port=sentinel.port) as client:
                often = [word for name, ms in _OFTEN.items() for word in (f"{name}-period", ms)]
                assert await client.execute_command("SENTINEL", "DEBUG", *often) == b"OK"
        if watched:
            await pair.known()
        yield pair
    finally:
        for program in (*started, *stores):
            await program.kill()
