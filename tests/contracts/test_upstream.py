"""What every way upstream does with a message; the application's side of it is what counts."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from bench.rig.in_memory.application import Outboxes
from lns.delivery.mqtt_sender import MqttUpstream
from lns.delivery.mqtt_session import broker
from lns.delivery.publisher import MemoryUpstream, Upstream
from tests.broker import Listener, Mosquitto
from tests.lns.delivery.sending import ALPHA, BETA, message
from tests.looped import on_a_loop

Got = Callable[[], list[tuple[str, Any]]]
Way = Callable[[Path], AbstractAsyncContextManager[tuple[Upstream, Got]]]


@asynccontextmanager
async def memory(folder: Path) -> AsyncIterator[tuple[Upstream, Got]]:
    """The upstream that ends in the process of the server."""
    upstream = MemoryUpstream()
    yield upstream, lambda: [(one.topic, one.body(number)) for number, one in upstream.numbered]


@asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[tuple[Upstream, Got]]:
    """The application of the simulated rig."""
    got: list[tuple[str, Any]] = []

    def record(source: str, kind: str, fields: dict[str, Any]) -> None:
        assert (source, kind) == ("upstream", "upstream.published")
        got.append((fields["topic"], fields["body"]))

    yield Outboxes(record), lambda: got


@asynccontextmanager
async def mqtt(folder: Path) -> AsyncIterator[tuple[Upstream, Got]]:
    """An outbox, a broker, and an application behind it."""
    server = Mosquitto(folder).start()
    listener = Listener(server.port)
    outbox = folder / "lns-a.outbox"
    at, chance = broker(server.url), random.Random(1)
    try:
        async with MqttUpstream(at, outbox, client_id="lns-a", chance=chance) as upstream:

            def got() -> list[tuple[str, Any]]:
                return [(one.topic, one.body) for one in listener.heard]

            yield upstream, got
    finally:
        listener.close()
        server.stop()


WAYS: dict[str, Way] = {"memory": memory, "bench": bench, "mqtt": mqtt}


@pytest.fixture(params=["memory", "bench", pytest.param("mqtt", marks=pytest.mark.broker)])
def way(request: pytest.FixtureRequest) -> Way:
    return WAYS[request.param]


async def arrived(got: Got, number: int) -> list[tuple[str, Any]]:
    async with asyncio.timeout(60):
        while len(got()) < number:  # noqa: ASYNC110 - the application tells nobody
            await asyncio.sleep(0.005)
    return got()


@on_a_loop
async def test_the_application_gets_topic_and_body(way: Way, tmp_path: Path) -> None:
    async with way(tmp_path) as (upstream, got):
        await upstream.publish(message(42))
        [(topic, body)] = await arrived(got, 1)
        assert topic == "lorawan/lns-a/70B3D57ED0000001/up"
        assert body == message(42).body(1)
        assert list(body) == list(message(42).body(1))


@on_a_loop
async def test_each_topic_is_numbered_from_1_without_gaps(way: Way, tmp_path: Path) -> None:
    async with way(tmp_path) as (upstream, got):
        for f_cnt, dev_eui in ((7, ALPHA), (8, BETA), (9, ALPHA)):
            await upstream.publish(message(f_cnt, dev_eui))
        bodies = [body for _, body in await arrived(got, 3)]
        assert [(body["fCnt"], body["sequenceNumber"]) for body in bodies] == [
            (7, 1),
            (8, 1),
            (9, 2),
        ]


@on_a_loop
async def test_many_at_once_keep_the_order_they_came_in(way: Way, tmp_path: Path) -> None:
    async with way(tmp_path) as (upstream, got):
        await asyncio.gather(*(upstream.publish(message(f_cnt)) for f_cnt in range(200)))
        bodies = [body for _, body in await arrived(got, 200)]
        assert [body["fCnt"] for body in bodies] == list(range(200))
        assert [body["sequenceNumber"] for body in bodies] == list(range(1, 201))


@on_a_loop
async def test_the_same_message_twice_is_two_deliveries_with_one_id(
    way: Way, tmp_path: Path
) -> None:
    """Who removes duplicates is the consumer; the way upstream only keeps their id."""

    async with way(tmp_path) as (upstream, got):
        for _ in range(2):
            await upstream.publish(message(42))
        bodies = [body for _, body in await arrived(got, 2)]
        assert [body["messageId"] for body in bodies] == [message(42).message_id] * 2
        assert [body["sequenceNumber"] for body in bodies] == [1, 2]
