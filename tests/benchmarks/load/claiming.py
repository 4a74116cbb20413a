"""How are claims asked for under load, and what do bare round trips of the same size cost?

The bare ones run a script that does nothing, with as many keys and values of the same length and
a reply of the same shape, through the client of `redis` as it comes or through a plain socket.
"""

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from time import perf_counter_ns
from typing import Any

from redis.asyncio import Redis

from lns.dedup.claim import Bid, Claim, Level2
from lns.lorawan.identifiers import Mic, dev_addr, eui
from lns.store import redis_claims
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import Script, redis_server

SERVERS = 4
DEVICES = 1000  # more than are asked for at once: frames of one device come in order
PATIENCE_US = 10_000_000
TRIVIAL = Script("""
return {1, 1, 0, ARGV[1], 9, 0, 0, '', ARGV[3], 8, 0, 0, '', ARGV[3], '0', -1, 0}
""")
CLAIM = redis_claims._CLAIM
_READ_BYTES = 1 << 16
_REPLY_PARTS, _REPLY_TEXTS = 17, 6


@dataclass(frozen=True, slots=True)
class Asked:
    """What one measurement found: questions a second, and the microseconds of each, sorted."""

    rate: float
    took_us: Sequence[int]

    def part_ms(self, percent: int) -> float:
        """So many percent of the answers came within so many milliseconds."""
        return self.took_us[(len(self.took_us) - 1) * percent // 100] / 1000


def bid(server: int, number: int) -> Bid:
    """What a server asks about the n-th frame of all."""
    device, f_cnt = number % DEVICES, number // DEVICES + 1
    return Bid(
        lns=f"lns-{server}",
        dev_eui=eui(0x70B3D57ED1000000 + device),
        dev_addr=dev_addr(0x26000000 + device),
        f_cnt=f_cnt,
        mic=Mic(f"{number & 0xFFFFFFFF:08X}"),
        takes_f_cnt_down=True,
    )


async def claims(url: str, frames: int, at_once: int) -> tuple[Asked, list[list[Claim]]]:
    """Every frame is claimed by all servers in the same moment, `at_once` frames at a time.

    Each server has a connection of its own. The claims by frame.
    """
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(RedisClaims(redis_server(url), patience_us=PATIENCE_US))
            for _ in range(SERVERS)
        ]
        found: list[list[Claim]] = [[] for _ in range(frames)]

        async def ask(server: int, number: int) -> None:
            found[number].append(await servers[server].claim(bid(server, number)))

        return await _asked(ask, frames, at_once), found


async def bare(url: str, frames: int, at_once: int) -> Asked:
    """The same with the client of `redis` as it comes, and a script that does nothing."""
    async with AsyncExitStack() as stack:
        clients = [await stack.enter_async_context(Redis.from_url(url)) for _ in range(SERVERS)]
        await clients[0].script_load(TRIVIAL.text)

        async def ask(server: int, number: int) -> None:
            keys, values = words(bid(server, number))
            await clients[server].evalsha(TRIVIAL.digest, len(keys), *keys, *values)

        return await _asked(ask, frames, at_once)


def over_socket(port: int, script: Script, questions: int, depth: int) -> Asked:
    """Scripts over one plain socket, `depth` of them a round trip; all of it packed before."""
    packed = [
        b"".join(_packed(script, bid(0, number)) for number in range(first, first + depth))
        for first in range(0, questions, depth)
    ]
    took_us = []
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(_command("EVAL", script.text, *_counted(bid(0, 0))))
        _read(connection, 1)
        began = perf_counter_ns()
        for octets in packed:
            left = perf_counter_ns()
            connection.sendall(octets)
            _read(connection, depth)
            took_us.append((perf_counter_ns() - left) // 1000)
        rate = len(packed) * depth / (perf_counter_ns() - began) * 1e9
    return Asked(rate, sorted(took_us))


def words(asked: Bid) -> tuple[tuple[str, ...], tuple[str | int, ...]]:
    """Keys and values of a claim, as `RedisClaims` sends them."""
    keys, values = redis_claims.asked_by(asked)
    return keys, (*values, 86_400_000, 60_000)


async def _asked(ask: Callable[[int, int], Awaitable[None]], frames: int, at_once: int) -> Asked:
    took_us: list[int] = []
    numbers = iter(range(frames))

    async def timed(server: int, number: int) -> None:
        began = perf_counter_ns()
        await ask(server, number)
        took_us.append((perf_counter_ns() - began) // 1000)

    async def one_after_the_other() -> None:
        for number in numbers:
            await asyncio.gather(*(timed(server, number) for server in range(SERVERS)))

    began = perf_counter_ns()
    await asyncio.gather(*(one_after_the_other() for _ in range(at_once)))
    seconds = (perf_counter_ns() - began) / 1e9
    return Asked(SERVERS * frames / seconds, sorted(took_us))


def owners(found: Sequence[Claim]) -> int:
    """How many servers were granted one frame."""
    return [claim.level2 for claim in found].count(Level2.OWNER)


def _counted(asked: Bid) -> tuple[Any, ...]:
    keys, values = words(asked)
    return len(keys), *keys, *values


def _packed(script: Script, asked: Bid) -> bytes:
    return _command("EVALSHA", script.digest, *_counted(asked))


def _command(*parts: str | int) -> bytes:
    octets = [str(part).encode() for part in parts]
    return b"*%d\r\n" % len(octets) + b"".join(b"$%d\r\n%b\r\n" % (len(o), o) for o in octets)


def _read(connection: socket.socket, replies: int) -> None:
    """Read so many replies: one line for each part, and one more for each text."""
    lines = replies * (1 + _REPLY_PARTS + _REPLY_TEXTS)
    while lines > 0:
        some = connection.recv(_READ_BYTES)
        assert some and not some.startswith(b"-"), some
        lines -= some.count(b"\n")
