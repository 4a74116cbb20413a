"""Sentinels in the URL: whichever they call the master is used, and nothing of it is lost that was
replicated."""

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from bench.host.relay import Relay
from lns.clock import StoreUnavailable
from lns.dedup.claim import Bid, Level2
from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.redis import RedisStore
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisServer, RedisWire, redis_server
from tests.lns.served_network import DEV_ADDR, KEYS
from tests.lns.store.replicated import pair_in, told
from tests.looped import on_a_loop

ALPHA = Eui("70B3D57ED0000001")
BID = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=10, takes_f_cnt_down=True)
SESSION = Session(dev_eui=ALPHA, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=10, f_cnt_down=7)
PATIENCE_US = 10_000_000  # this host may be busy


def claims_at(url: str, patience_us: int = PATIENCE_US) -> RedisClaims:
    return RedisClaims(redis_server(url), patience_us=patience_us)


async def owner(claims: RedisClaims, lns: str, f_cnt: int) -> tuple[str | None, int | None]:
    claim = await claims.claim(replace(BID, lns=lns, f_cnt=f_cnt))
    assert (claim.level2 is Level2.OWNER) == (claim.owner == lns)
    return claim.owner, claim.f_cnt_down


@pytest.mark.fault("store", "lost")
@on_a_loop
async def test_a_lost_master_is_followed_by_the_replica_that_the_sentinels_promote(
    tmp_path: Path,
) -> None:
    async with pair_in(tmp_path) as pair, claims_at(pair.url) as claims:
        for f_cnt in range(11):
            assert await owner(claims, "lns-a", f_cnt) == ("lns-a", f_cnt)
        await pair.replicated(pair.first)
        await pair.first.kill()
        with pytest.raises(StoreUnavailable):
            await owner(claims, "lns-b", 10)
        await pair.promote(pair.second)
        assert await owner(claims, "lns-b", 10) == ("lns-a", None)
        assert await owner(claims, "lns-b", 11) == ("lns-b", 11)
        await pair.first.start()
        await pair.until_following(pair.first, pair.second)
        assert await owner(claims, "lns-a", 11) == ("lns-b", None)


@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_a_master_that_became_a_replica_costs_nobody_an_answer(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as pair, claims_at(pair.url) as claims:
        assert await owner(claims, "lns-a", 10) == ("lns-a", 0)
        await pair.replicated(pair.first)
        await pair.change_places(pair.first, pair.second)
        assert await owner(claims, "lns-b", 10) == ("lns-a", None)
        assert await owner(claims, "lns-b", 11) == ("lns-b", 1)


@on_a_loop
async def test_one_sentinel_is_enough_to_be_told(tmp_path: Path) -> None:
    """Of the others one is gone, and one says nothing."""

    async with pair_in(tmp_path, password="hunter2") as pair:
        gone, hanging, _ = pair.sentinels
        await gone.kill()
        hanging.pause()
        async with claims_at(pair.url, 2_000_000) as claims:
            assert await owner(claims, "lns-a", 10) == ("lns-a", 0)


@on_a_loop
async def test_what_no_sentinel_knows_is_away(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as pair:
        async with claims_at(pair.url.replace("the-store", "another")) as claims:
            with pytest.raises(StoreUnavailable, match="no Sentinel knows a master of another"):
                await owner(claims, "lns-a", 10)
        for sentinel in pair.sentinels:
            sentinel.pause()
        # To look for them takes half of the patience: who says nothing is told from a slow master.
        async with claims_at(pair.url, 2_000_000) as claims:
            with pytest.raises(StoreUnavailable, match="no Sentinel knows a master of the-sto"):
                await owner(claims, "lns-a", 10)
        for sentinel in pair.sentinels:
            await sentinel.kill()
        async with claims_at(pair.url) as claims:
            with pytest.raises(StoreUnavailable, match="no Sentinel knows a master of the-sto"):
                await owner(claims, "lns-a", 10)


@pytest.mark.fault("store", "late")
@on_a_loop
async def test_a_master_that_hangs_is_away_until_the_sentinels_name_another(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as pair, claims_at(pair.url, 2_000_000) as claims:
        assert await owner(claims, "lns-a", 11) == ("lns-a", 0)
        await pair.replicated(pair.first)
        pair.first.pause()
        with pytest.raises(StoreUnavailable, match="does not answer within 2000000 us"):
            await owner(claims, "lns-a", 12)
        await pair.promote(pair.second)
        assert await owner(claims, "lns-b", 11) == ("lns-a", None)


@on_a_loop
async def test_sessions_and_dev_nonces_follow_too(tmp_path: Path) -> None:
    async with pair_in(tmp_path) as pair:
        server = redis_server(pair.url)
        async with RedisStore(server, "lns-a", [ALPHA], patience_us=PATIENCE_US) as store:
            assert await store.keep_join(ALPHA, 7, (SESSION,))
            await pair.replicated(pair.first)
            await pair.first.kill()
            with pytest.raises(StoreUnavailable):
                await store.keep_sessions(ALPHA, ())
            await pair.promote(pair.second)
            assert not await store.keep_join(ALPHA, 7, ())
            await store.refresh(ALPHA)
            assert store.sessions(ALPHA) == (SESSION,)
            await store.keep_sessions(ALPHA, (replace(SESSION, f_cnt_up=11),))
        async with RedisStore(server, "lns-b", [ALPHA], patience_us=PATIENCE_US) as other:
            [kept] = other.sessions(ALPHA)
            assert (kept.f_cnt_up, other.dev_nonces(ALPHA)) == (11, frozenset({7}))


@on_a_loop
async def test_a_server_that_is_the_only_one_is_asked_again_what_it_refused(tmp_path: Path) -> None:
    """Over a new connection: behind the same name there may be the new master by now."""

    async with (
        pair_in(tmp_path, watched=False) as pair,
        Relay("127.0.0.1", pair.second.port) as relay,
    ):
        alone = RedisServer("127.0.0.1", relay.port)
        async with RedisClaims(alone, patience_us=PATIENCE_US) as claims:
            for _ in range(2):
                before = relay.connections
                with pytest.raises(StoreUnavailable, match=r"refuses: .*read only replica"):
                    await owner(claims, "lns-a", 10)
                assert relay.connections > before
            await told(pair.second, "REPLICAOF", "NO", "ONE")
            assert await owner(claims, "lns-a", 10) == ("lns-a", 0)


@on_a_loop
async def test_a_replica_that_answers_some_commands_is_left_for_those_that_it_refuses(
    tmp_path: Path,
) -> None:
    async with (
        pair_in(tmp_path, watched=False) as pair,
        Relay("127.0.0.1", pair.second.port) as relay,
    ):
        wire = RedisWire(RedisServer("127.0.0.1", relay.port), patience_us=PATIENCE_US)
        assert await wire.do("GET", "name") is None
        with pytest.raises(StoreUnavailable, match=r"refuses: .*read only replica"):
            await wire.do_together(("GET", "name"), ("SET", "name", "value"))
        assert relay.connections == 2
        await wire.close()


@on_a_loop
async def test_whoever_has_left_comes_not_back_for_what_was_on_its_way(tmp_path: Path) -> None:
    async with (
        pair_in(tmp_path, watched=False) as pair,
        Relay("127.0.0.1", pair.first.port) as relay,
    ):
        wire = RedisWire(RedisServer("127.0.0.1", relay.port), patience_us=PATIENCE_US)
        assert await wire.do("GET", "name") is None
        asked = asyncio.create_task(wire.do("BLPOP", "list", 60))
        await asyncio.sleep(0.1)
        await wire.close()
        with pytest.raises(StoreUnavailable, match="it was left"):
            await asked
        assert relay.connections == 1


@on_a_loop
async def test_nothing_of_the_login_is_told(tmp_path: Path) -> None:
    async with pair_in(tmp_path, password="hunter2") as pair:
        async with claims_at(pair.url.replace("hunter2", "hunter3")) as claims:
            with pytest.raises(StoreUnavailable, match="invalid username-pass") as refused:
                await owner(claims, "lns-a", 10)
        assert "hunter" not in str(refused.value)
