"""A message stays with the broker until it is acknowledged by hand."""

import asyncio
import os
from pathlib import Path

import pytest
from paho.mqtt.client import Client, MQTTv5
from paho.mqtt.enums import CallbackAPIVersion

from lns.delivery.mqtt_session import Patience, broker
from lns.delivery.subscription import Delivery, HeldSubscription, Subscription
from tests.broker import Mosquitto
from tests.lns.delivery.sending import QUICK, Relay, message, until, way
from tests.lns.delivery.test_subscription import publish
from tests.looped import on_a_loop

pytestmark = pytest.mark.broker
CLOSES = int(os.environ.get("LORABENCH_CLOSES", "30"))


def subscription(url: str, got: list[Delivery], *, held_max: int = 200) -> HeldSubscription:
    return HeldSubscription(
        broker(url), "lorawan/+/+/up", "inbox", got.append, held_max=held_max, back_off=QUICK
    )


def numbers(got: list[Delivery]) -> list[int]:
    return [int(one.properties["messageId"].rpartition("-")[2]) for one in got]


async def send(url: str, folder: Path, f_cnts: range) -> None:
    async with way(url, folder) as up:
        await asyncio.gather(*(up.publish(message(f_cnt)) for f_cnt in f_cnts))
        await up.drained()


def test_what_is_not_acknowledged_comes_again_with_the_next_connection(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: list[Delivery] = []

    async def body() -> None:
        async with Relay(mosquitto.port) as relay, subscription(relay.url, got):
            await send(mosquitto.url, tmp_path, range(4))
            await until(lambda: len(got) == 4)
            for one in got[:2]:
                one.acknowledge()
            # The broker has read the acknowledgements when it has carried a later message.
            await send(mosquitto.url, tmp_path, range(4, 5))
            await until(lambda: len(got) == 5)
            relay.cut()
            await relay.restore()
            await until(lambda: len(got) >= 8)
            for one in got:
                one.acknowledge()

    asyncio.run(body())
    assert numbers(got) == [0, 1, 2, 3, 4, 2, 3, 4]
    assert [one.repeated for one in got] == [False] * 5 + [True] * 3
    assert {one.qos for one in got} == {1}


def test_an_acknowledged_message_never_comes_again(mosquitto: Mosquitto, tmp_path: Path) -> None:
    got: list[Delivery] = []

    async def body() -> None:
        async with subscription(mosquitto.url, got):
            await send(mosquitto.url, tmp_path, range(3))
            await until(lambda: len(got) == 3)
            for one in reversed(got):
                one.acknowledge()
                one.acknowledge()
        async with subscription(mosquitto.url, got):
            await send(mosquitto.url, tmp_path, range(3, 4))
            await until(lambda: len(got) >= 4)

    asyncio.run(body())
    assert numbers(got) == [0, 1, 2, 3]


def test_a_close_waits_until_the_broker_has_read_what_was_acknowledged(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """A busy broker would read the next connection first, and forget what this one said last."""
    got: list[Delivery] = []

    async def go_on() -> None:
        await asyncio.sleep(0.3)
        mosquitto.resume()

    async def body() -> None:
        async with asyncio.TaskGroup() as tasks:
            async with subscription(mosquitto.url, got):
                await send(mosquitto.url, tmp_path, range(40))
                await until(lambda: len(got) == 40)
                mosquitto.pause()
                for one in got:
                    one.acknowledge()
                tasks.create_task(go_on())
            async with subscription(mosquitto.url, got):
                await send(mosquitto.url, tmp_path, range(40, 41))
                await until(lambda: numbers(got)[-1] == 40)

    asyncio.run(body())
    assert numbers(got) == list(range(41))


def test_whoever_leaves_at_once_is_not_brought_anything(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: list[Delivery] = []

    async def body() -> None:
        async with subscription(mosquitto.url, got):
            pass
        await send(mosquitto.url, tmp_path, range(3))
        assert not got
        async with subscription(mosquitto.url, got):
            await until(lambda: len(got) == 3)

    asyncio.run(body())
    assert numbers(got) == [0, 1, 2]
    assert not any(one.repeated for one in got)


@on_a_loop
async def test_a_broker_that_hears_nothing_holds_a_close_up_only_so_long(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: list[Delivery] = []
    hasty = Patience(connect_us=200_000)
    async with asyncio.timeout(60):
        try:
            async with HeldSubscription(
                broker(mosquitto.url), "lorawan/+/+/up", "inbox", got.append, patience=hasty
            ):
                mosquitto.pause()
        finally:
            mosquitto.resume()


def test_what_was_acknowledged_right_before_a_close_never_comes_again(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """`LORABENCH_CLOSES` says how often."""
    got: list[Delivery] = []

    async def body() -> None:
        async with way(mosquitto.url, tmp_path) as up:
            async with subscription(mosquitto.url, got):
                pass
            for number in range(CLOSES):
                first = 3 * number
                for f_cnt in range(first, first + 3):
                    await up.publish(message(f_cnt))
                async with subscription(mosquitto.url, got):
                    await until(lambda: len(got) >= first + 3)  # noqa: B023 - called at once
                    for one in got[first:]:
                        one.acknowledge()

    asyncio.run(body())
    assert numbers(got) == list(range(3 * CLOSES))


def test_what_is_retained_is_told_behind_what_the_broker_had_before(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """It is asked for, and there is no subscription to it: none is kept for who is away."""
    got: list[Delivery] = []
    told: list[tuple[str, bytes]] = []
    client = Client(CallbackAPIVersion.VERSION2, protocol=MQTTv5)
    client.connect("127.0.0.1", mosquitto.port)
    client.loop_start()

    def retain(body: bytes) -> None:
        client.publish("said/a", body, qos=1, retain=True).wait_for_publish(10)

    def asking() -> HeldSubscription:
        return HeldSubscription(
            broker(mosquitto.url), "lorawan/+/+/up", "inbox", got.append, back_off=QUICK,
            retained="said/+", on_retained=lambda topic, payload: told.append((topic, payload)),
        )  # fmt: skip

    async def body() -> None:
        await asyncio.to_thread(retain, b"1")
        async with asking():
            pass
        await send(mosquitto.url, tmp_path, range(3))
        async with asking() as heard:
            heard.ask()
            await until(lambda: len(got) == 3)
            for one in (got[0], got[2]):
                one.acknowledge()
            await asyncio.sleep(0.3)
            assert told == [], "one of before is still held"
            got[1].acknowledge()
            await until(lambda: told == [("said/a", b"1")])
            await asyncio.to_thread(retain, b"2")
            heard.ask()
            await until(lambda: len(told) == 2)
        await asyncio.to_thread(retain, b"3")
        async with asking():
            await send(mosquitto.url, tmp_path, range(3, 4))
            await until(lambda: len(got) == 4)

    try:
        asyncio.run(body())
    finally:
        client.disconnect()
        client.loop_stop()
    assert [payload for _, payload in told] == [b"1", b"2"]
    assert numbers(got) == [0, 1, 2, 3]


@on_a_loop
async def test_what_a_killed_consumer_had_asked_for_is_no_message(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """Killed while it asks, it leaves a subscription behind: what is said next comes unretained."""
    got: list[Delivery] = []
    told: list[tuple[str, bytes]] = []
    url = broker(mosquitto.url)
    async with Subscription(url, "lorawan/+/down", "inbox", lambda *_: None, back_off=QUICK):
        pass
    heard = HeldSubscription(
        url, "lorawan/+/+/up", "inbox", got.append, back_off=QUICK,
        retained="lorawan/+/down", on_retained=lambda *said: told.append(said),
    )  # fmt: skip
    async with heard:
        await asyncio.to_thread(publish, mosquitto.port, b"1")
        await send(mosquitto.url, tmp_path, range(1))
        await until(lambda: len(got) == 1)
        got[0].acknowledge()
        await until(lambda: told == [("lorawan/lns-a/down", b"1")])
    assert numbers(got) == [0]


def test_acknowledgements_leave_in_the_order_of_arrival(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    """The one that is missing holds up those behind it (MQTT 5.0, 4.6)."""
    got: list[Delivery] = []

    async def body() -> None:
        async with subscription(mosquitto.url, got):
            await send(mosquitto.url, tmp_path, range(4))
            await until(lambda: len(got) == 4)
            for number in (0, 2, 3):
                got[number].acknowledge()
        async with subscription(mosquitto.url, got):
            await until(lambda: len(got) >= 7)

    asyncio.run(body())
    assert numbers(got) == [0, 1, 2, 3, 1, 2, 3]


def test_the_broker_brings_no_more_than_may_be_held(mosquitto: Mosquitto, tmp_path: Path) -> None:
    got: list[Delivery] = []
    held: list[int] = []

    async def body() -> None:
        async with subscription(mosquitto.url, got, held_max=5):
            await send(mosquitto.url, tmp_path, range(100))
            done = 0
            while done < 100:
                await until(lambda: len(got) > done)  # noqa: B023 - called at once
                held.append(len(got) - done)
                got[done].acknowledge()
                done += 1

    asyncio.run(body())
    assert numbers(got) == list(range(100))
    assert max(held) <= 6


def test_the_acknowledgement_of_a_lost_connection_does_nothing(
    mosquitto: Mosquitto, tmp_path: Path
) -> None:
    got: list[Delivery] = []

    async def body() -> None:
        async with Relay(mosquitto.port) as relay, subscription(relay.url, got) as heard:
            await send(mosquitto.url, tmp_path, range(1))
            await until(lambda: len(got) == 1)
            relay.cut()
            await relay.restore()
            await until(lambda: len(got) == 2 and heard.connected)
            got[0].acknowledge()
            assert heard.connected
            relay.cut()
            await relay.restore()
            await until(lambda: len(got) == 3)
            got[2].acknowledge()

    asyncio.run(body())
    assert numbers(got) == [0, 0, 0]


def test_a_consumer_takes_a_mebibyte_and_no_more(mosquitto: Mosquitto) -> None:
    got: list[Delivery] = []

    async def body() -> None:
        async with HeldSubscription(broker(mosquitto.url), "#", "inbox", got.append):
            payloads = (bytes(2 << 20), bytes(1_000_000), b"b")
            sending = asyncio.create_task(asyncio.to_thread(publish, mosquitto.port, *payloads))
            await until(lambda: len(got) == 2)
            await sending

    asyncio.run(body())
    assert [len(one.payload) for one in got] == [1_000_000, 1]
