"""The Redis of simulated servers: where its messages end, and that one server asks it in order."""

import asyncio
from contextlib import AsyncExitStack

import pytest

from bench import clock
from bench.inspection.store import OTHERS, read
from bench.rig.in_memory.real_redis import RealRedis, exchange
from lns.clock import StoreUnavailable, now_us
from lns.dedup.claim import Bid, Level2
from lns.lorawan.identifiers import Mic, dev_addr, eui
from lns.store.redis import sessions_of
from lns.uplink.registry import Activation, EndDevice

# Examples of the specification of RESP2.
WHOLE = (
    b"+OK\r\n",
    b"-ERR unknown command 'foo'\r\n",
    b":1000\r\n",
    b"$6\r\nfoobar\r\n",
    b"$0\r\n\r\n",
    b"$-1\r\n",
    b"*0\r\n",
    b"*-1\r\n",
    b"*2\r\n$3\r\nfoo\r\n$3\r\nbar\r\n",
    b"*3\r\n:1\r\n:2\r\n:3\r\n",
    b"*2\r\n*2\r\n:1\r\n$2\r\n\r\n\r\n*1\r\n+Foo\r\n",
)
DEVICE = eui(0x70B3D57ED0000001)
KNOWN = EndDevice(name="alpha", dev_eui=DEVICE, activation=Activation.OTAA)


class Wire:
    is_cut, delay_us = False, 0


def bid(lns: str, f_cnt: int) -> Bid:
    return Bid(
        lns=lns, dev_eui=DEVICE, dev_addr=dev_addr(0x26000001), f_cnt=f_cnt, mic=Mic("00000007")
    )


@pytest.mark.parametrize("octets", WHOLE)
def test_where_a_message_ends(octets: bytes) -> None:
    for before, behind in ((b"", b""), (b"", b"+OK\r\n"), (b"+OK\r\n", b"")):
        found = read(before + octets + behind, len(before))
        assert found is not None
        assert found[1] == len(before + octets)


@pytest.mark.parametrize("octets", WHOLE)
def test_a_message_that_is_not_whole_has_no_end(octets: bytes) -> None:
    for count in range(len(octets)):
        assert read(octets[:count]) is None


@pytest.mark.parametrize(
    ("octets", "said"),
    [
        (b"$-1\r\n", None),
        (b"-NOSCRIPT No\r\n", b"-NOSCRIPT No"),
        (b"*2\r\n*2\r\n:1\r\n$2\r\n\r\n\r\n*1\r\n+Foo\r\n", [[1, b"\r\n"], [b"+Foo"]]),
    ],
)
def test_what_a_message_says(octets: bytes, said: object) -> None:
    assert read(octets) == (said, len(octets))


def test_each_case_begins_with_what_is_somebody_elses() -> None:
    exchange(b"*3\r\n$3\r\nSET\r\n$1\r\nb\r\n$1\r\nb\r\n", 1)
    RealRedis(retention_us=60_000_000, found=pytest.fail)
    assert exchange(b"*1\r\n$6\r\nDBSIZE\r\n", 1)[1] == [len(OTHERS)]


def test_it_answers_when_the_wire_lets_it() -> None:
    async def play() -> None:
        wire, redis = Wire(), RealRedis(retention_us=60_000_000, found=pytest.fail)
        async with AsyncExitStack() as stack:
            _, claims = await redis.open("lns-a", [KNOWN], wire, stack)
            began_us = now_us()
            assert (await claims.claim(bid("lns-a", 10))).level2 is Level2.OWNER
            assert now_us() == began_us
            wire.delay_us = 50_000
            assert (await claims.claim(bid("lns-b", 10))).level2 is Level2.NOT_OWNER
            assert now_us() == began_us + 50_000
            wire.delay_us = 10_000_000
            with pytest.raises(StoreUnavailable, match="does not answer within 200000 us"):
                await claims.claim(bid("lns-a", 11))
            wire.is_cut, wire.delay_us = True, 0
            with pytest.raises(StoreUnavailable, match="is not available"):
                await claims.claim(bid("lns-a", 12))
            wire.is_cut = False
            assert (await claims.claim(bid("lns-a", 11))).level2 is Level2.OWNER
        redis.end()
        with pytest.raises(ConnectionRefusedError):
            await asyncio.get_running_loop().create_connection(asyncio.Protocol, "", 6379)

    clock.run(play())


def test_what_a_stranger_has_written_is_no_session_of_a_server() -> None:
    async def play() -> None:
        redis = RealRedis(retention_us=60_000_000, found=pytest.fail)
        async with AsyncExitStack() as stack:
            store, _ = await redis.open("lns-a", [KNOWN], Wire(), stack)
            key = sessions_of(DEVICE).encode()
            exchange(b"*3\r\n$3\r\nSET\r\n$%d\r\n%b\r\n$2\r\n{}\r\n" % (len(key), key), 1)
            with pytest.raises(StoreUnavailable, match="something else than a session"):
                await store.refresh(DEVICE)
            assert store.sessions(DEVICE) == ()

    clock.run(play())
