"""Network servers that share their devices, each with stations and an application of its own.

Over memory in virtual time, or over a real Redis in real time; the scenarios are the same.
"""

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass

from bench.chance import stream
from bench.clock import run
from bench.host.lns_process import Valkey
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Claim, OnOutage
from lns.lorawan.identifiers import DevAddr, Eui
from lns.store.memory import MemoryClaims, MemoryStore
from lns.store.redis import RedisStore
from lns.store.redis_claims import PATIENCE_US as CLAIMS_US
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisWire, redis_server
from lns.uplink.registry import EndDevice
from tests.lns.served_network import START_US, Network, Station

PATIENCE_US = 10_000_000  # of the store; this host may be busy
UNTIL_S = 60

Scenario = Callable[["Servers"], Awaitable[None]]
ServeTwo = Callable[..., "Servers"]  # a scenario and the devices of both


@dataclass
class Servers:
    """`a` and `b` share their devices; in memory, by `claims` and by `store`, the one of `a`."""

    a: Network
    b: Network
    claims: "OutagedClaims | None" = None
    store: "CountedStore | None" = None
    forget: Callable[[], Awaitable[None]] | None = None

    async def forget_everything(self) -> None:
        """Let the store that they share be empty, as after a restart without persistence."""
        assert self.forget is not None
        await self.forget()

    async def settled(self, receptions: int) -> None:
        """Until both together have told what became of so many receptions, and answers arrived."""
        async with asyncio.timeout(UNTIL_S):
            while not self._is_settled(receptions):  # noqa: ASYNC110
                await asyncio.sleep(0.001)

    def _is_settled(self, receptions: int) -> bool:
        outcomes = self.a.outcomes + self.b.outcomes
        answered = sum(outcome.answer in ("RX1", "RX2") for outcome in outcomes)
        stations = [s for n in (self.a, self.b) for s in (n.west, n.east, n.north)]
        arrived = sum(len(station.dnmsgs) for station in stations)
        return len(outcomes) == receptions and arrived == answered

    async def hear(self, *heard: tuple[Station, bytes]) -> None:
        """Stations tell of frames, all at the same moment, and the servers do what they do."""
        before = len(self.a.outcomes) + len(self.b.outcomes)
        for station, phy in heard:
            await station.link.send(station.text(phy))
        await self.settled(before + len(heard))

    async def hear_in_turn(self, *heard: tuple[Station, bytes]) -> None:
        """The same one after the other."""
        for one in heard:
            await self.hear(one)


class OutagedClaims(MemoryClaims):
    """Claims in memory that can be `away`, or `late_us`: before it decides, or with its reply."""

    def __init__(self) -> None:
        super().__init__(now_us)
        self.away = False
        self.late_us = 0
        self.reply_late_us = 0
        self.asked = 0

    async def claim(self, bid: Bid) -> Claim:
        self.asked += 1
        await self._fail()
        claim = await super().claim(bid)
        if self.reply_late_us:
            await asyncio.sleep(self.reply_late_us / 1_000_000)
        return claim

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        await self._fail()
        return await super().take_f_cnt_down(bid)

    async def release(self, bid: Bid, claim: Claim) -> None:
        await self._fail()
        await super().release(bid, claim)

    async def _fail(self) -> None:
        if self.late_us:
            await asyncio.sleep(self.late_us / 1_000_000)
        if self.away:
            raise StoreUnavailable("the claims are told to be away")


class CountedStore(MemoryStore):
    """Sessions in memory that count how often they are asked, and can be away."""

    def __init__(self, beside: MemoryStore | None = None) -> None:
        super().__init__(beside)
        self.asked = 0
        self.away = False

    async def refresh(self, dev_eui: Eui) -> None:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the store is told to be away")

    def forget(self, dev_eui: Eui) -> None:
        """Know nothing of its sessions: that is not to know of none."""
        self._sessions.pop(dev_eui, None)

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        self.asked += 1
        if self.away:
            raise StoreUnavailable("the store is told to be away")
        return await super().devices_with(dev_addr)


def serve_both(
    scenario: Scenario, *devices: EndDevice, on_outage: OnOutage = OnOutage.OPEN
) -> Servers:
    """Play over memory, in virtual time."""
    claims, of_a = OutagedClaims(), CountedStore()
    of_b = CountedStore(of_a)

    def server(lns: str, store: CountedStore) -> Network:
        return Network(
            *devices,
            lns=lns,
            store=store,
            claims=claims,
            shared=store,
            on_outage=on_outage,
            entropy=stream(1, lns),
        )

    async def forget() -> None:
        for device in devices:
            claims.forget(device.dev_eui)
            of_a.forget(device.dev_eui)

    servers = Servers(server("lns-a", of_a), server("lns-b", of_b), claims, of_a, forget)
    run(_play(scenario, servers), start_us=START_US)
    return servers


def serve_both_over_redis(
    scenario: Scenario, valkey: Valkey, *devices: EndDevice, on_outage: OnOutage = OnOutage.OPEN
) -> Servers:
    """Play over a Redis, with connections of its own for each server."""
    playing = play_over_redis(
        scenario, valkey.url, *devices, on_outage=on_outage, claims_us=PATIENCE_US
    )
    return asyncio.run(playing)


async def play_over_redis(
    scenario: Scenario,
    url: str,
    *devices: EndDevice,
    on_outage: OnOutage = OnOutage.OPEN,
    claims_us: int = CLAIMS_US,
    patience_us: int = PATIENCE_US,
) -> Servers:
    """The same inside a running loop; so long may a claim take, and whatever else is kept."""
    async with AsyncExitStack() as stack:

        async def server(lns: str) -> Network:
            there, known = redis_server(url), [device.dev_eui for device in devices]
            store = RedisStore(there, lns, known, patience_us=patience_us)
            claims = RedisClaims(there, patience_us=claims_us)
            return Network(
                *devices,
                lns=lns,
                store=await stack.enter_async_context(store),
                claims=await stack.enter_async_context(claims),
                shared=store,
                on_outage=on_outage,
                entropy=random.Random(lns),
            )

        async def forget() -> None:
            wire = RedisWire(redis_server(url), patience_us=patience_us)
            await wire.do("FLUSHALL")
            await wire.close()

        servers = Servers(await server("lns-a"), await server("lns-b"), forget=forget)
        await _play(scenario, servers)
        return servers


async def _play(scenario: Scenario, servers: Servers) -> None:
    async def with_b(b: Network) -> None:
        await scenario(servers)

    async def with_a(a: Network) -> None:
        await servers.b.play(with_b)

    await servers.a.play(with_a)
