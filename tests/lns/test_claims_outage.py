"""What a frame becomes while nobody can say who owns it, and when somebody can again."""

import asyncio
import logging
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.host.lns_process import Valkey
from bench.host.relay import Relay
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Level2, OnOutage
from lns.dedup.strategy import Strategy
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisServer, redis_server
from tests.lns.served_network import ALPHA, DEV_ADDR, GAMMA, uplink, wait
from tests.lns.several_servers import OutagedClaims, Servers, serve_both
from tests.lns.test_several_servers import counters, device, words
from tests.lns.uplink.test_join import request
from tests.looped import on_a_loop

FRAME = uplink(10, confirmed=True)
BID = Bid(lns="lns-a", dev_eui=ALPHA.dev_eui, dev_addr=DEV_ADDR, f_cnt=10)


def outaged(servers: Servers) -> OutagedClaims:
    assert servers.claims is not None
    return servers.claims


@pytest.mark.fault("store", "lost")
@pytest.mark.parametrize("strategy", Strategy)
def test_open_forwards_unverified_and_answers_nothing(strategy: Strategy) -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).away = True
        await servers.hear((servers.a.west, FRAME), (servers.b.east, FRAME))

    servers = serve_both(scenario, device(strategy))
    for network in (servers.a, servers.b):
        assert words(network) == [("NonDuplicate", "forwarded", "-", "Suppressed", "Unavailable")]
        [body] = network.bodies
        assert (body["unverified"], "dupMsg" in body) == (True, False)
        assert [(claim.decision, claim.owner) for claim in network.claims] == [
            (Level2.UNAVAILABLE, None)
        ]
    # The consumer tells both for the same message.
    assert servers.a.application.ids == servers.b.application.ids
    assert counters(servers.a, servers.b) == []


@pytest.mark.fault("store", "lost")
@pytest.mark.parametrize("strategy", Strategy)
def test_closed_drops_and_forgets_that_it_heard(strategy: Strategy) -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).away = True
        await servers.hear((servers.a.west, FRAME), (servers.a.east, FRAME))
        outaged(servers).away = False
        await servers.hear((servers.a.north, FRAME))

    servers = serve_both(scenario, device(strategy), on_outage=OnOutage.CLOSED)
    dropped = ("NonDuplicate", "dropped", "StoreUnavailable", "Suppressed", "Unavailable")
    assert words(servers.a) == [
        dropped,
        dropped,
        ("NonDuplicate", "forwarded", "-", "RX", "Owner"),
    ]
    assert servers.a.application.ids == ["70B3D57ED0000001-01ABCDEF-10"]
    assert "unverified" not in servers.a.bodies[0]


@pytest.mark.parametrize("on_outage", OnOutage)
def test_the_repetition_is_answered_when_the_claims_are_back(on_outage: OnOutage) -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).away = True
        for _ in range(5):
            await servers.hear((servers.a.west, FRAME))
        outaged(servers).away = False
        for _ in range(4):
            await servers.hear((servers.a.west, FRAME))
            await servers.hear((servers.b.east, FRAME))

    servers = serve_both(scenario, device(Strategy.DROP), on_outage=on_outage)
    answers = [word[3] for word in words(servers.a)]
    assert answers[:5] == ["Suppressed"] * 5
    assert answers[5:8] == ["RX"] * 3
    assert len(servers.a.application.ids) == 1
    assert servers.b.application.ids == []
    assert counters(servers.b) == []


@pytest.mark.fault("store", "late")
@pytest.mark.parametrize("on_outage", OnOutage)
def test_claims_that_take_too_long_are_given_up_before_rx1(on_outage: OnOutage) -> None:
    took_us: list[int] = []

    async def scenario(servers: Servers) -> None:
        outaged(servers).late_us = 5_000_000
        began_us = now_us()
        await servers.hear((servers.a.west, FRAME))
        took_us.append(now_us() - began_us)
        outaged(servers).late_us = 0
        await servers.hear((servers.a.west, uplink(11, confirmed=True)))
        await wait(10)

    servers = serve_both(scenario, device(), on_outage=on_outage)
    assert [claim.duration_us for claim in servers.a.claims] == [250_000, 0]
    assert took_us[0] <= 260_000
    upstream = "forwarded" if on_outage is OnOutage.OPEN else "dropped"
    assert [word[1] for word in words(servers.a)] == [upstream, "forwarded"]
    assert [word[3] for word in words(servers.a)] == ["Suppressed", "RX"]


@pytest.mark.fault("store", "late")
@pytest.mark.parametrize("on_outage", OnOutage)
def test_a_claim_whose_reply_was_late_still_counts(on_outage: OnOutage) -> None:
    """Nobody else takes the frame, and its owner is granted it when it comes again."""

    async def scenario(servers: Servers) -> None:
        outaged(servers).reply_late_us = 400_000
        await servers.hear((servers.a.west, FRAME))
        outaged(servers).reply_late_us = 0
        await servers.hear_in_turn((servers.b.east, FRAME), (servers.a.west, FRAME))

    servers = serve_both(scenario, device(Strategy.DROP), on_outage=on_outage)
    assert words(servers.b)[0][2] == "DuplicateAtOtherServer"
    assert words(servers.a)[1][3:] == ("RX", "Owner")
    assert len(servers.a.application.ids) == 1


def test_a_slow_claim_leaves_time_for_rx1() -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).late_us = 240_000
        await servers.hear((servers.a.west, FRAME))

    servers = serve_both(scenario, device())
    assert [outcome.answer for outcome in servers.a.outcomes] == ["RX1"]


def test_copies_wait_until_it_is_known_who_owns_the_first() -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).late_us = 100_000
        await servers.hear((servers.a.west, FRAME), (servers.a.east, FRAME))

    servers = serve_both(scenario, device(Strategy.MARK))
    assert [word[:2] for word in words(servers.a)] == [
        ("NonDuplicate", "forwarded"),
        ("SoftDuplicate", "marked"),
    ]


def test_an_outage_is_told_once_and_so_is_its_end(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(servers: Servers) -> None:
        outaged(servers).away = True
        for f_cnt in range(5):
            await servers.hear((servers.a.west, uplink(f_cnt)))
        outaged(servers).away = False
        for f_cnt in range(5, 8):
            await servers.hear((servers.a.west, uplink(f_cnt)))

    with caplog.at_level(logging.INFO, "lns.dedup.claiming"):
        serve_both(scenario, device())
    assert [record.getMessage() for record in caplog.records] == [
        "the claims are told to be away; nobody can say who owns a frame until it is back",
        "the store of the claims is back",
    ]


def test_a_join_needs_the_store_that_knows_of_other_joins() -> None:
    async def scenario(servers: Servers) -> None:
        assert servers.store is not None
        servers.store.away = True
        await servers.hear((servers.a.west, request(7)))
        await servers.hear((servers.a.west, uplink(0, dev_addr=type(DEV_ADDR)("26000001"))))
        servers.store.away = False
        await servers.hear((servers.a.west, request(7)))

    servers = serve_both(scenario, GAMMA)
    assert [word[2:4] for word in words(servers.a)] == [
        ("StoreUnavailable", "Suppressed"),
        ("UnknownDevice", "NotAsked"),
        ("-", "RX"),
    ]


@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_claims_outlive_a_restart_of_a_redis_that_persists(tmp_path: Path) -> None:
    server = await Valkey(tmp_path).start()
    async with RedisClaims(redis_server(server.url), patience_us=10_000_000) as claims:
        assert (await claims.claim(BID)).level2 is Level2.OWNER
        await server.kill()
        with pytest.raises(StoreUnavailable, match="is not available"):
            await claims.claim(BID)
        await server.start()
        again = await claims.claim(replace(BID, lns="lns-b"))
        assert (again.level2, again.owner) == (Level2.NOT_OWNER, "lns-a")
    await server.stop()


@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_a_redis_that_comes_back_empty_learns_the_downlink_counters_again(
    tmp_path: Path,
) -> None:
    server = await Valkey(tmp_path, append_only=False).start()
    async with RedisClaims(redis_server(server.url), patience_us=10_000_000) as claims:
        assert (await claims.claim(BID)).level2 is Level2.OWNER
        await server.kill()
        await server.start()
        claim = await claims.claim(
            replace(BID, lns="lns-b", f_cnt=11, f_cnt_down=5, takes_f_cnt_down=True)
        )
        assert (claim.level2, claim.f_cnt_down) == (Level2.OWNER, 5)
    await server.stop()


@pytest.mark.fault("store", "late")
@on_a_loop
async def test_a_redis_that_hangs_is_given_up_and_asked_again(tmp_path: Path) -> None:
    server = await Valkey(tmp_path).start()
    async with Relay("127.0.0.1", server.port) as relay:
        async with RedisClaims(RedisServer("127.0.0.1", relay.port)) as claims:
            relay.hold()
            with pytest.raises(StoreUnavailable, match="does not answer within 200000 us"):
                await claims.claim(BID)
            await relay.restore()
            async with asyncio.timeout(60):
                while True:
                    try:
                        assert (await claims.claim(BID)).level2 is Level2.OWNER
                        break
                    except StoreUnavailable:
                        continue  # this host is busy
    await server.stop()


@on_a_loop
async def test_a_redis_that_refuses_says_why_and_nothing_of_the_password(tmp_path: Path) -> None:
    server = await Valkey(tmp_path, password="hunter2").start()
    wrong = redis_server(f"redis://:hunter3@127.0.0.1:{server.port}/0")
    async with RedisClaims(wrong, patience_us=10_000_000) as claims:
        with pytest.raises(StoreUnavailable) as refused:
            await claims.claim(BID)
        assert "hunter" not in str(refused.value)
    async with RedisClaims(redis_server(server.url), patience_us=10_000_000) as claims:
        await claims.claim(BID)
        await claims._wire.do("CONFIG", "SET", "maxmemory", "1")
        with pytest.raises(StoreUnavailable, match=r"refuses: .*maxmemory"):
            await claims.claim(BID)
        await claims._wire.do("CONFIG", "SET", "maxmemory", "0")
        assert (await claims.claim(BID)).level2 is Level2.OWNER
    await server.stop()
