"""A lasting subscription over a real Mosquitto: what arrives, and what is kept meanwhile."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from lns.delivery.mqtt_session import BrokerLost, broker
from lns.delivery.subscription import Subscription
from tests.broker import Mosquitto
from tests.lns.delivery.sending import ALPHA, BETA, QUICK, Relay, message, until, way

pytestmark = pytest.mark.broker

Got = list[tuple[str, bytes, dict[str, str]]]


def subscription(url: str, got: Got, *, topic_filter: str = "lorawan/#", patient: bool = False):  # type: ignore[no-untyped-def]
    def received(topic: str, payload: bytes, properties: dict[str, str]) -> None:
        got.append((topic, payload, properties))

    return Subscription(
        broker(url), topic_filter, "application", received, patient=patient, back_off=QUICK
    )


def numbers(got: Got) -> list[str]:
    return [properties["messageId"].rpartition("-")[2] for _, _, properties in got]


def has(got: Got, number: int) -> Callable[[], bool]:
    return lambda: len(got) >= number


def test_a_message_arrives_with_topic_payload_and_user_properties(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: Got = []

    async def body() -> None:
        async with subscription(mosquitto.url, got) as heard, way(mosquitto.url, tmp_path) as up:
            assert heard.connected
            await up.publish(message(42))
            await until(has(got, 1))

    asyncio.run(body())
    [(topic, payload, properties)] = got
    assert topic == "lorawan/lns-a/70B3D57ED0000001/up"
    assert payload.startswith(b'{"messageId":"70B3D57ED0000001-01ABCDEF-42"')
    assert properties == {
        "messageId": "70B3D57ED0000001-01ABCDEF-42",
        "removeDuplicatesKey": "70B3D57ED0000001-01ABCDEF-42",
        "partitionKey": "70B3D57ED0000001",
        "sequenceNumber": "1",
    }


def test_many_arrive_in_order_and_only_what_the_filter_names(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: Got = []
    only = f"lorawan/+/{ALPHA}/up"

    async def body() -> None:
        async with (
            subscription(mosquitto.url, got, topic_filter=only),
            way(mosquitto.url, tmp_path) as up,
        ):
            sent = [message(n, dev_eui) for n in range(1000) for dev_eui in (BETA, ALPHA)]
            await asyncio.gather(*(up.publish(one) for one in sent))
            await until(has(got, 1000))

    asyncio.run(body())
    assert numbers(got) == [str(number) for number in range(1000)]
    assert {topic for topic, _, _ in got} == {f"lorawan/lns-a/{ALPHA}/up"}


def publish(port: int, *payloads: bytes) -> None:
    """As anybody may who is let in by the broker; returns when it has all of them."""
    client = Client(CallbackAPIVersion.VERSION2, "stranger", protocol=MQTTv5)
    client.connect("127.0.0.1", port)
    client.loop_start()
    for payload in payloads:
        client.publish("lorawan/lns-a/down", payload, qos=1).wait_for_publish(20)
    client.disconnect()
    client.loop_stop()


def test_a_message_of_megabytes_does_not_come_and_stops_nothing(mosquitto: Mosquitto) -> None:
    got: Got = []

    async def body() -> None:
        async with subscription(mosquitto.url, got):
            payloads = (b"a", bytes(60_000_000), bytes(70_000), bytes(60_000), b"b")
            sending = asyncio.create_task(asyncio.to_thread(publish, mosquitto.port, *payloads))
            await until(has(got, 3))
            await sending

    asyncio.run(body())
    assert [len(payload) for _, payload, _ in got] == [1, 60_000, 1]


def test_what_is_published_while_nobody_listens_comes_next_time(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: Got = []

    async def body() -> None:
        async with way(mosquitto.url, tmp_path) as up:
            async with subscription(mosquitto.url, got):
                await up.publish(message(1))
                await until(has(got, 1))
            await up.publish(message(2))
            await up.drained()
            async with subscription(mosquitto.url, got):
                await until(has(got, 2))

    asyncio.run(body())
    assert numbers(got) == ["1", "2"]


def test_a_cut_wire_and_a_restarted_broker_lose_nothing(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: Got = []

    async def body() -> None:
        async with (
            Relay(mosquitto.port) as relay,
            subscription(relay.url, got) as heard,
            way(mosquitto.url, tmp_path) as up,
        ):
            for f_cnt in range(300):
                await up.publish(message(f_cnt))
                if f_cnt % 50 == 25:
                    relay.cut()
                    await relay.restore()
            await until(lambda: len(set(numbers(got))) == 300)
            mosquitto.stop()
            await until(lambda: not heard.connected)
            await up.publish(message(300))
            mosquitto.start()
            await until(lambda: "300" in numbers(got))

    asyncio.run(body())
    assert list(dict.fromkeys(numbers(got))) == [str(number) for number in range(301)]


def test_a_broker_that_is_away_is_told_or_waited_for(tmp_path: Path) -> None:
    server = Mosquitto(tmp_path)
    got: Got = []

    async def body() -> None:
        with pytest.raises(BrokerLost, match="cannot be reached: "):
            async with subscription(server.url, got):
                pass
        async with subscription(server.url, got, patient=True) as heard:
            assert not heard.connected
            server.start()
            await until(lambda: heard.connected)

    try:
        asyncio.run(body())
    finally:
        server.stop()


@pytest.mark.parametrize("fit", ["#", "lorawan/+/+/up", "$share/app/lorawan/+/+/up", "/", "a/#"])
def test_what_a_topic_filter_may_be(fit: str) -> None:
    subscription("mqtt://127.0.0.1", [], topic_filter=fit)


@pytest.mark.parametrize("unfit", ["", "a/#/b", "a+/b", "a/b#", "##", "a\0", "a" * 65_536])
def test_what_is_no_topic_filter_is_refused_at_once(unfit: str) -> None:
    with pytest.raises(ValueError, match="topic filter"):
        subscription("mqtt://127.0.0.1", [], topic_filter=unfit)


def test_a_session_needs_a_name() -> None:
    with pytest.raises(ValueError, match="client id"):
        Subscription(broker("mqtt://127.0.0.1"), "#", "", lambda *_: None)
