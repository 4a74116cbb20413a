"""The Redis store beyond the contract of `tests/contracts/test_session_store.py`: its outages."""

import ast
import asyncio
import json
import re
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import datetime, timedelta
from importlib import import_module
from itertools import cycle
from pathlib import Path
from typing import Any

import msgspec
import pytest
from msgspec.structs import replace
from redis.asyncio import Redis

import lns
from bench.host.lns_process import Valkey
from bench.host.relay import Relay
from lns.clock import StoreUnavailable, Utc
from lns.dedup import claiming
from lns.dedup.claim import Bid, Level2
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.redis import RedisStore
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import PATIENCE_US, RedisServer, RedisWire, Script, redis_server
from tests.host_time import Watch
from tests.lns import served_network
from tests.lns.served_network import DEV_ADDR, KEYS, uplink
from tests.lns.several_servers import Servers, play_over_redis
from tests.lns.test_several_servers import counters, device, words
from tests.looped import on_a_loop

ALPHA, BETA = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")
SESSION = Session(dev_eui=ALPHA, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=0x1FFFE, f_cnt_down=7)
BUSY_HOST_US = 10_000_000
SHAPE = re.escape("redis://[[user]:password@]host[:port][/database], or rediss://, or redis+senti")


def store_at(
    port: int, lns: str = "lns-a", *devices: Eui, patience_us: int = BUSY_HOST_US
) -> RedisStore:
    server = RedisServer("127.0.0.1", port)
    return RedisStore(server, lns, devices or (ALPHA, BETA), patience_us=patience_us)


@asynccontextmanager
async def valkey_at(folder: Path, password: str | None = None) -> AsyncIterator[Valkey]:
    server = await Valkey(folder, password=password).start()
    try:
        yield server
    finally:
        await server.stop()


@asynccontextmanager
async def wired(folder: Path) -> AsyncIterator[tuple[Relay, Valkey]]:
    async with valkey_at(folder) as server, Relay("127.0.0.1", server.port) as relay:
        yield relay, server


async def told(port: int, *command: Any) -> Any:
    async with Redis(host="127.0.0.1", port=port) as client:
        return await client.execute_command(*command)


@pytest.mark.parametrize(
    ("url", "server", "shown"),
    [
        ("redis://cache", RedisServer("cache"), "redis://cache:6379/0"),
        ("redis://[::1]:7000/3", RedisServer("::1", 7000, 3), "redis://[::1]:7000/3"),
        (
            "rediss://:p%40ss@cache/",
            RedisServer("cache", tls=True, password="p@ss"),
            "rediss://cache:6379/0",
        ),
        (
            "redis://me:hunter2@cache:7000/1",
            RedisServer("cache", 7000, 1, user="me", password="hunter2"),
            "redis://cache:7000/1",
        ),
        (
            "redis+sentinel://me:hunter2@one,two:7000,[::1]:7001/cache-1/1",
            RedisServer(
                port=0,
                database=1,
                user="me",
                password="hunter2",
                sentinels=(("one", 26379), ("two", 7000), ("::1", 7001)),
                service="cache-1",
            ),
            "redis+sentinel://one:26379,two:7000,[::1]:7001/cache-1/1",
        ),
        (
            "rediss+sentinel://one/cache",
            RedisServer(port=0, tls=True, sentinels=(("one", 26379),), service="cache"),
            "rediss+sentinel://one:26379/cache/0",
        ),
    ],
)
def test_a_url_names_a_server_and_shows_no_password(
    url: str, server: RedisServer, shown: str
) -> None:
    found = redis_server(url)
    assert (found, str(found)) == (server, shown)
    assert "hunter2" not in repr(found) and "'me'" not in repr(found)


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis://", "not the URL of"),
        ("redis://:hunter2@:6379", "not the URL of"),
        ("redis://:hunter2@cache:0", "not the URL of"),
        ("redis://:hunter2@cache:port", "not the URL of"),
        ("memcached://cache", "not the URL of"),
        ("redis://:hunter2@cache/first", "ends with a database"),
        ("redis://cache/0?password=hunter2", "ends with a database"),
        ("redis://cache/\u00b2", "ends with a database"),
        ("redis://:hunter2@cache,", "not the URL of"),
        ("redis://:hunter2@cache:1,spare:99999", "not the URL of"),
        ("redis://:hunter2@cache:1,spare:2/0", "which of several is the master the Sentinels tell"),
        ("redis+sentinel://:hunter2@one,two/cache/first", "ends with a database"),
        ("redis+sentinel://:hunter2@one,two", "names the service they watch"),
        ("redis+sentinel://:hunter2@one,two/a b", "names the service they watch"),
        ("redis+sentinel://:hunter2@one,two,one:26379/cache", "names one of its hosts twice"),
        ("redis+sentinel://:hunter2@one,:hunter2@two/cache", "user and password stand once"),
    ],
)
def test_another_url_is_refused_with_its_shape(url: str, why: str) -> None:
    with pytest.raises(ValueError, match=f"{why}.*{SHAPE}") as refused:
        redis_server(url)
    assert "hunter2" not in str(refused.value)


@on_a_loop
async def test_everything_of_many_devices_is_read_when_it_is_opened(tmp_path: Path) -> None:
    devices = [Eui(f"70B3D57ED000{number:04X}") for number in range(1200)]
    async with valkey_at(tmp_path) as server:
        async with store_at(server.port, "lns-a", *devices) as store:
            for dev_eui in devices[::7]:
                await store.keep_join(dev_eui, 7, (SESSION,))
        async with store_at(server.port, "lns-a", *devices) as again:
            kept = [dev_eui for dev_eui in devices if again.sessions(dev_eui) == (SESSION,)]
            used = [dev_eui for dev_eui in devices if again.dev_nonces(dev_eui) == {7}]
    assert kept == used == devices[::7]


@on_a_loop
async def test_the_keys_have_a_prefix_and_say_who_used_a_dev_nonce(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        await store.keep_join(ALPHA, 7, (SESSION,))
        keys = sorted(await told(server.port, "KEYS", "*"))
        assert keys == [
            b"lns:dev_addr:01ABCDEF",
            b"lns:{70B3D57ED0000001}:dev_nonces",
            b"lns:{70B3D57ED0000001}:f_cnt_down",
            b"lns:{70B3D57ED0000001}:sessions",
        ]
        assert await told(server.port, "HGET", keys[1], "7") == b"lns-a"


@on_a_loop
async def test_a_dev_nonce_that_another_server_used_is_used(tmp_path: Path) -> None:
    async with (
        valkey_at(tmp_path) as server,
        store_at(server.port, "lns-a") as a,
        store_at(server.port, "lns-b") as b,
    ):
        answers = await asyncio.gather(
            *(store.keep_join(ALPHA, nonce, ()) for nonce in range(100) for store in (a, b))
        )
        assert [sum(pair) for pair in zip(answers[::2], answers[1::2], strict=True)] == ([1] * 100)


@on_a_loop
async def test_a_join_begins_no_downlink_counter_of_a_session_that_another_server_has_ended(
    tmp_path: Path,
) -> None:
    async with valkey_at(tmp_path) as server:
        async with store_at(server.port, "lns-a") as a:
            await a.keep_sessions(ALPHA, (SESSION,))
            async with store_at(server.port, "lns-b") as b:
                assert b.sessions(ALPHA) == (SESSION,)
                other = replace(SESSION, dev_addr=DevAddr("26000009"))
                await a.keep_sessions(ALPHA, (other,))
                assert await b.keep_join(ALPHA, 1, (SESSION,))
                assert b.sessions(ALPHA) == (other,)
                assert await told(server.port, "HKEYS", f"lns:{{{ALPHA}}}:f_cnt_down") == []


@on_a_loop
async def test_a_join_nonce_is_taken_by_one_server_only(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server:
        async with store_at(server.port, "lns-a") as a, store_at(server.port, "lns-b") as b:
            asked = (store.next_join_nonce(ALPHA, 1) for _ in range(100) for store in (a, b))
            assert sorted(await asyncio.gather(*asked)) == list(range(1, 201))
            await a.forget(ALPHA)
            assert await b.next_join_nonce(ALPHA, 1) == 201, "a device remembers the last one"
        async with store_at(server.port, "lns-c") as later:
            assert await later.next_join_nonce(ALPHA, 1) == 202
            await told(server.port, "SET", f"lns:{{{ALPHA}}}:join_nonce", "something else")
            with pytest.raises(StoreUnavailable, match="not an integer"):
                await later.next_join_nonce(ALPHA, 1)


@pytest.mark.fault("store", "lost")
@on_a_loop
async def test_a_server_that_is_away_is_told(tmp_path: Path) -> None:
    async with wired(tmp_path) as (relay, _), store_at(relay.port) as store:
        relay.cut()
        with pytest.raises(StoreUnavailable, match=rf"redis://127.0.0.1:{relay.port}/0 is not"):
            await store.keep_sessions(ALPHA, (SESSION,))
        with pytest.raises(StoreUnavailable, match="is not available"):
            async with store_at(relay.port):
                pass
        assert store.sessions(ALPHA) == ()
        await relay.restore()
        await store.keep_sessions(ALPHA, (SESSION,))
        assert store.sessions(ALPHA) == (SESSION,)


@pytest.mark.fault("store", "late")
@on_a_loop
async def test_a_server_that_does_not_answer_is_given_up_before_rx1(tmp_path: Path) -> None:
    async with (
        wired(tmp_path) as (relay, _),
        store_at(relay.port, patience_us=PATIENCE_US) as store,
    ):
        await store.keep_sessions(ALPHA, (SESSION,))
        relay.hold()
        watch = Watch()
        said = await asyncio.gather(
            *(store.keep_sessions(dev_eui, ()) for dev_eui in (ALPHA, BETA) * 50),
            return_exceptions=True,
        )
        assert {str(error).partition(" ")[2] for error in said} == {
            "does not answer within 250000 us"
        }
        assert watch.seconds < 1
        assert store.sessions(ALPHA) == (SESSION,)
        await relay.restore()
        await store.keep_sessions(BETA, (SESSION,))


@pytest.mark.fault("store", "late")
@on_a_loop
async def test_no_connection_stays_to_a_server_that_hangs_at_the_login() -> None:
    said: asyncio.Queue[bytes] = asyncio.Queue()

    async def hang(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        said.put_nowait(await reader.read())
        writer.close()

    async with await asyncio.start_server(hang, "127.0.0.1", 0) as listener:
        port = listener.sockets[0].getsockname()[1]
        server = RedisServer("127.0.0.1", port, password="hunter2")
        async with RedisClaims(server) as claims:
            with pytest.raises(StoreUnavailable, match="does not answer within"):
                await claims.claim(Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=1))
            async with asyncio.timeout(60):
                assert (await said.get()).startswith(b"*2\r\n$4\r\nAUTH")  # then the end


@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_a_restarted_server_is_found_again_at_the_first_try(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        await store.keep_join(ALPHA, 7, (SESSION,))
        await server.kill()
        await server.start()
        await store.keep_sessions(BETA, (SESSION,))
        async with store_at(server.port) as again:
            assert again.sessions(ALPHA) == again.sessions(BETA) == (SESSION,)
            assert again.dev_nonces(ALPHA) == {7}


@on_a_loop
async def test_a_join_whose_reply_was_lost_may_be_tried_again_here_and_nowhere_else(
    tmp_path: Path,
) -> None:
    async with (
        wired(tmp_path) as (relay, server),
        store_at(relay.port, patience_us=2_000_000) as store,
    ):
        await store.keep_sessions(BETA, ())
        relay.swallow("down")
        with pytest.raises(StoreUnavailable):
            await store.keep_join(ALPHA, 7, (SESSION,))
        assert await told(server.port, "HLEN", "lns:{70B3D57ED0000001}:dev_nonces") == 1
        assert (store.sessions(ALPHA), store.dev_nonces(ALPHA)) == ((), frozenset())
        await relay.restore()
        async with store_at(server.port, "lns-b", BETA) as other:
            assert not await other.keep_join(ALPHA, 7, ())
        await store.refresh(ALPHA)
        assert store.dev_nonces(ALPHA) == frozenset()
        assert await store.keep_join(ALPHA, 7, (SESSION,))
        assert not await store.keep_join(ALPHA, 7, (SESSION,))


def stored(**fields: object) -> str:
    """What another program may have written for a session of ALPHA."""
    [session] = json.loads(msgspec.json.encode((SESSION,)))
    return json.dumps([session | fields])


@pytest.mark.fault("store", "corrupted")
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (("SET", f"lns:{{{ALPHA}}}:sessions", "hello"), "something else than a session"),
        (
            ("SET", f"lns:{{{ALPHA}}}:sessions", '[{"z":' + "[" * 60_000),
            "something else than a session",
        ),
        (("HSET", f"lns:{{{ALPHA}}}:dev_nonces", "x", "lns-a"), "something else than a session"),
        (("SET", f"lns:{{{ALPHA}}}:sessions", stored(f_cnt_down=1 << 40)), "something else than"),
        (("SET", f"lns:{{{ALPHA}}}:sessions", stored(f_cnt_up=1 << 32)), "something else than"),
        (("SET", f"lns:{{{ALPHA}}}:dev_nonces", "7"), "refuses: WRONGTYPE"),
    ],
)
@on_a_loop
async def test_a_foreign_value_under_our_key_is_told(
    tmp_path: Path, command: tuple[str, ...], said: str
) -> None:
    async with valkey_at(tmp_path) as server:
        await told(server.port, *command)
        with pytest.raises(StoreUnavailable, match=said):
            async with store_at(server.port):
                pass


@pytest.mark.fault("store", "corrupted")
@on_a_loop
async def test_a_session_out_of_range_that_another_server_wrote_is_told_when_it_is_met(
    tmp_path: Path,
) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        await store.keep_sessions(ALPHA, (SESSION,))
        foreign = stored(f_cnt_down=1 << 40)
        await told(server.port, "SET", f"lns:{{{ALPHA}}}:sessions", foreign)
        with pytest.raises(StoreUnavailable, match="something else than a session"):
            await store.refresh(ALPHA)
        with pytest.raises(StoreUnavailable, match="something else than a session"):
            await store.keep_sessions(ALPHA, (SESSION,))
        assert store.sessions(ALPHA) == (SESSION,)


@pytest.mark.fault("store", "corrupted")
@on_a_loop
async def test_a_name_that_nobody_can_read_is_nobodys(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        for name in (b"\xff\xfe", b"hello", ALPHA.encode()):
            await told(server.port, "SADD", f"lns:dev_addr:{SESSION.dev_addr}", name)
        assert await store.devices_with(SESSION.dev_addr) == (ALPHA,)
        claim = f"lns:{{{ALPHA}}}:claim:{SESSION.dev_addr}"
        await told(server.port, "HSET", claim, "f_cnt_up", 9, "owner", b"\xff\x1b[2J", "life", 0)
        async with RedisClaims(redis_server(f"redis://127.0.0.1:{server.port}")) as claims:
            bid = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=SESSION.dev_addr, f_cnt=9)
            claimed = await claims.claim(bid)
        assert (claimed.level2, claimed.owner) == (Level2.NOT_OWNER, "??[2J")


@pytest.mark.fault("store", "corrupted")
@on_a_loop
async def test_a_downlink_counter_out_of_range_is_told_and_never_used(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server:
        counters = f"lns:{{{ALPHA}}}:f_cnt_down"
        await told(server.port, "HSET", counters, SESSION.dev_addr, 1 << 40)
        async with RedisClaims(redis_server(f"redis://127.0.0.1:{server.port}")) as claims:
            for takes in (False, True):
                bid = Bid(
                    lns="lns-a", dev_eui=ALPHA, dev_addr=SESSION.dev_addr, f_cnt=9,
                    takes_f_cnt_down=takes,
                )  # fmt: skip
                with pytest.raises(StoreUnavailable, match=r"downlink counter of .* out of range"):
                    await claims.claim(bid)


@pytest.mark.fault("store", "reordered")
@on_a_loop
async def test_no_claim_overtakes_one_that_waits_for_its_script(tmp_path: Path) -> None:
    """Nobody has run it yet; another server does while this one is on its way."""

    async with (
        wired(tmp_path) as (relay, server),
        RedisClaims(RedisServer("127.0.0.1", relay.port), patience_us=BUSY_HOST_US) as a,
        RedisClaims(RedisServer("127.0.0.1", server.port), patience_us=BUSY_HOST_US) as b,
    ):
        bid = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=0)
        await a._wire.do("PING")
        relay.delay(200_000, "down")
        before = relay.octets("up")
        first = asyncio.create_task(a.claim(bid))
        while relay.octets("up") == before:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.001)
        second = asyncio.create_task(a.claim(replace(bid, f_cnt=1)))
        await b.claim(replace(bid, lns="lns-b", dev_eui=BETA))
        assert [(await one).level2 for one in (first, second)] == [Level2.OWNER] * 2


@on_a_loop
async def test_a_script_that_was_forgotten_is_sent_again(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server:
        there = RedisServer("127.0.0.1", server.port)
        async with RedisClaims(there, patience_us=BUSY_HOST_US) as claims:
            for f_cnt in range(3):
                bid = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=f_cnt)
                assert (await claims.claim(bid)).owner == "lns-a"
                await told(server.port, "SCRIPT", "FLUSH")
        runs = await told(server.port, "INFO", "commandstats")
        calls = [runs[f"cmdstat_{name}"]["calls"] for name in ("eval", "evalsha")]
        assert calls == [3, 2]  # by its digest, unknown, whole


@on_a_loop
async def test_a_script_that_was_refused_is_sent_whole_again(tmp_path: Path) -> None:
    """Redis may have refused it unread, as when it has no memory left."""
    refused = Script("return redis.error_reply('no room')")
    async with valkey_at(tmp_path) as server:
        wire = RedisWire(RedisServer("127.0.0.1", server.port), patience_us=BUSY_HOST_US)
        for _ in range(2):
            with pytest.raises(StoreUnavailable, match="refuses: no room"):
                await wire.run(refused, ())
        await wire.close()
        runs = await told(server.port, "INFO", "commandstats")
        assert runs["cmdstat_eval"]["calls"] == 2
        assert "cmdstat_evalsha" not in runs


@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_a_server_that_restarted_is_sent_a_script_whole_at_once(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server:
        there = RedisServer("127.0.0.1", server.port)
        async with RedisClaims(there, patience_us=BUSY_HOST_US) as claims:
            for f_cnt in range(2):
                bid = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=f_cnt)
                assert (await claims.claim(bid)).owner == "lns-a"
                await server.kill()
                await server.start()
            assert (await claims.claim(bid)).owner == "lns-a"
        runs = await told(server.port, "INFO", "commandstats")
        assert runs["cmdstat_eval"]["calls"] == 1
        assert "cmdstat_evalsha" not in runs


@on_a_loop
async def test_one_refused_command_takes_nobody_with_it(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        await told(server.port, "SET", f"lns:{{{ALPHA}}}:dev_nonces", "7")
        said = await asyncio.gather(
            store.keep_sessions(ALPHA, (SESSION,)),
            store.keep_join(ALPHA, 7, ()),
            store.keep_join(BETA, 7, ()),
            return_exceptions=True,
        )
        assert [type(one) for one in said] == [type(None), StoreUnavailable, bool]


@on_a_loop
async def test_a_password_opens_and_is_never_shown(tmp_path: Path) -> None:
    async with valkey_at(tmp_path, password="hunter2 @/") as server:
        async with RedisStore(redis_server(server.url), "lns-a", (ALPHA,)) as store:
            await store.keep_sessions(ALPHA, (SESSION,))
        wrong = redis_server(f"redis://:hunter3@127.0.0.1:{server.port}/0")
        with pytest.raises(StoreUnavailable, match="is not available: ") as refused:
            async with RedisStore(wrong, "lns-a", (ALPHA,)):
                pass
        assert "hunter" not in str(refused.value)


@on_a_loop
async def test_whoever_gives_up_takes_nobody_with_it(tmp_path: Path) -> None:
    async with wired(tmp_path) as (relay, _), store_at(relay.port) as store:
        relay.delay(50_000, "up")
        async with asyncio.TaskGroup() as tasks:
            hasty = tasks.create_task(store.keep_sessions(ALPHA, (SESSION,)))
            late = tasks.create_task(store.keep_sessions(BETA, (SESSION,)))
            await asyncio.sleep(0.01)
            hasty.cancel()
        assert (hasty.cancelled(), late.done()) == (True, True)
        assert store.sessions(BETA) == (SESSION,)


def of(dev_addr: str, **known: int) -> Session:
    return replace(SESSION, dev_addr=DevAddr(dev_addr), **known)


@on_a_loop
async def test_what_another_server_kept_is_not_undone(tmp_path: Path) -> None:
    """Its newer counters stay, and so does a session that it added; what is over goes."""

    async with (
        valkey_at(tmp_path) as server,
        store_at(server.port, "lns-a") as a,
        store_at(server.port, "lns-b") as b,
    ):
        await a.keep_sessions(ALPHA, (of("26000001", f_cnt_up=5, f_cnt_down=2),))
        await b.refresh(ALPHA)
        assert b.sessions(ALPHA) == (of("26000001", f_cnt_up=5, f_cnt_down=2),)
        newer = of("26000001", f_cnt_up=6, f_cnt_down=3)
        assert await b.keep_join(ALPHA, 8, (of("26000002"), newer))
        for _ in range(2):
            await a.keep_sessions(ALPHA, (of("26000001", f_cnt_up=5, f_cnt_down=4),))
        await b.refresh(ALPHA)
        kept = of("26000001", f_cnt_up=6, f_cnt_down=4)
        assert b.sessions(ALPHA) == (of("26000002"), kept)
        assert await a.devices_with(DevAddr("26000002")) == (ALPHA,)
        await b.keep_sessions(ALPHA, (of("26000002"),))
        assert await b.keep_join(ALPHA, 9, (of("26000003"),))
        assert await a.devices_with(DevAddr("26000002")) == ()
        await a.refresh(ALPHA)
        assert a.sessions(ALPHA) == (of("26000003"),)
        assert a.dev_nonces(ALPHA) == {8, 9}


@on_a_loop
async def test_a_preset_device_begins_as_if_no_server_had_met_it(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        async with RedisClaims(RedisServer("127.0.0.1", server.port)) as claims:
            asked = Bid(lns="lns-a", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=1)
            for f_cnt in (0, 1):
                bid = replace(asked, f_cnt=f_cnt, first_message=True, mic=Mic("2B11FF0D"))
                await claims.claim(replace(bid, f_cnt_down=7, takes_f_cnt_down=True))
            await store.preset(ALPHA, (SESSION,))
            keys = await told(server.port, "KEYS", "*")
            assert keys == [b"lns:{70B3D57ED0000001}:sessions"]
            assert store.sessions(ALPHA) == (SESSION,)


@on_a_loop
async def test_the_downlink_counters_of_a_session_end_with_it(tmp_path: Path) -> None:
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        key = "lns:{70B3D57ED0000001}:f_cnt_down"
        await told(server.port, "HSET", key, "26000001", "3", "26000002", "4")
        await store.keep_join(ALPHA, 8, (of("26000003"), of("26000002")))
        assert await told(server.port, "HKEYS", key) == [b"26000002", b"26000003"]


@on_a_loop
async def test_the_downlink_counter_of_a_session_begins_with_it(tmp_path: Path) -> None:
    """Whoever hears its first frame, FCnt 1, need not think that FCnt 0 was answered."""

    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        async with RedisClaims(RedisServer("127.0.0.1", server.port)) as claims:
            opened = replace(SESSION, f_cnt_up=None, f_cnt_down=0)
            assert await store.keep_join(ALPHA, 8, (opened,))
            asked = Bid(lns="lns-b", dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=1)
            bid = replace(asked, takes_f_cnt_down=True, f_cnt_down_missed=4)
            assert (await claims.claim(bid)).f_cnt_down == 0


SOURCE = Path(lns.__path__[0])
LEVEL_2 = sorted([*(SOURCE / "dedup").glob("*.py"), *(SOURCE / "store").glob("redis*.py")])
MONOTONIC = {"now_us", "in_time", "within", "Patience", "StoreUnavailable"}
"""What `lns.clock` has that is no time of day."""
JUMPS_S = (0, 400 * 86_400, -400 * 86_400, 3_600, -1)


@pytest.mark.parametrize("file", LEVEL_2, ids=lambda file: file.stem)
def test_nothing_of_level_2_can_read_a_wall_clock(file: Path) -> None:
    tree = ast.parse(file.read_text("utf-8"))
    imported = {
        (node.module if isinstance(node, ast.ImportFrom) else "", alias.name)
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    modules = {module or name for module, name in imported}
    assert not {module.partition(".")[0] for module in modules} & {"time", "datetime", "calendar"}
    assert {name for module, name in imported if module == "lns.clock"} <= MONOTONIC


def test_no_script_asks_redis_for_the_time_or_names_a_moment() -> None:
    texts = []
    for file in (SOURCE / "store").glob("redis*.py"):
        known = vars(import_module(f"lns.store.{file.stem}"))
        texts += [one.text for one in known.values() if isinstance(one, Script)]
    assert len(texts) >= 4
    moments = re.compile(r"'(TIME|PXAT|EXAT|EXPIREAT|PEXPIREAT)'|os\.(time|clock)")
    assert [text for text in texts if moments.search(text)] == []


def jumping(clock: Callable[[], float]) -> Callable[[], float]:
    jumps = cycle(JUMPS_S)
    return lambda: clock() + next(jumps)


def jumping_utc(start: datetime) -> Utc:
    jumps = cycle(JUMPS_S)
    return lambda: start + timedelta(seconds=next(jumps))


@pytest.mark.fault("clock", "corrupted")
def test_two_servers_whose_wall_clocks_jump_agree(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Back and forth by more than a year, at every look; each server by itself."""
    monkeypatch.setattr(claiming, "CLAIM_US", 60_000_000)
    monkeypatch.setattr(served_network, "utc_counted_from", jumping_utc)
    monkeypatch.setattr(time, "time", jumping(time.time))  # noqa: TID251 - to break it

    async def scenario(servers: Servers) -> None:
        a, b = servers.a.west, servers.b.east
        for f_cnt in range(20):
            frame = uplink(f_cnt, confirmed=True)
            await servers.hear_in_turn(*((s, frame) for s in ((a, b) if f_cnt % 2 else (b, a))))

    async def body() -> Servers:
        valkey = await Valkey(tmp_path, append_only=False).start()
        try:
            alpha = device(Strategy.DROP)
            return await play_over_redis(scenario, valkey.url, alpha, claims_us=10_000_000)
        finally:
            await valkey.stop()

    servers = asyncio.run(body())
    for network, first in ((servers.a, 1), (servers.b, 0)):
        owners = [word[4] for word in words(network)]
        assert [n for n, word in enumerate(owners) if word == "Owner"] == list(range(first, 20, 2))
        assert owners.count("NotOwner") == 10
    assert sorted(counters(servers.a, servers.b)) == list(range(20))
    received = [message.received_at.year for message in servers.a.application.messages]
    assert len(set(received)) > 1  # the clocks did jump
