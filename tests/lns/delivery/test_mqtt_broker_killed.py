"""A broker that is killed forgets what it acknowledged; what is kept for a while is not lost."""

import asyncio
from pathlib import Path

import pytest

from bench.host.lns_process import Mosquitto
from lns.delivery.mqtt_session import broker
from lns.delivery.outbox import state_of
from lns.delivery.subscription import Delivery, HeldSubscription
from tests.lns.delivery.sending import QUICK, Relay, message, until, way
from tests.looped import on_a_loop

pytestmark = pytest.mark.broker

KEEP_US = 10_000_000
KILLS = 4


def subscription(url: str, got: dict[str, int]) -> HeldSubscription:
    def delivered(delivery: Delivery) -> None:
        message_id = delivery.properties["messageId"]
        got[message_id] = got.get(message_id, 0) + 1
        delivery.acknowledge()

    return HeldSubscription(
        broker(url), "lorawan/#", "app", delivered, patient=True, back_off=QUICK
    )


def test_what_a_killed_broker_had_not_written_goes_out_again(tmp_path: Path) -> None:
    """Mosquitto saves once a second here; a message is kept ten times as long."""
    (tmp_path / "broker").mkdir()
    server = Mosquitto(tmp_path / "broker", "autosave_interval 1")
    saved = tmp_path / "broker" / "mosquitto.db"
    got: dict[str, int] = {}
    sent: list[str] = []

    async def body() -> None:
        await server.start()
        async with (
            subscription(server.url, got) as heard,
            way(server.url, tmp_path, keep_us=KEEP_US) as up,
        ):
            await until(lambda: heard.connected and up.connected)
            await up.publish(message(0))
            await until(lambda: len(got) == 1 and saved.exists())
            for kill in range(1, KILLS + 1):
                for number in range(200):
                    sent.append(message(1000 * kill + number).message_id)
                    await up.publish(message(1000 * kill + number))
                await up.drained()
                await server.kill()
                await until(lambda: not up.connected and not heard.connected)
                await server.start()
            await until(lambda: set(sent) <= set(got))
        await server.stop()

    try:
        asyncio.run(body())
    finally:
        server.kill_now()
    assert sum(got.values()) > len(got), "kept messages go out again, whether lost or not"


def test_kept_messages_are_sent_before_later_ones_and_removed_in_time(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    order: list[str] = []

    def delivered(delivery: Delivery) -> None:
        order.append(delivery.properties["sequenceNumber"])
        delivery.acknowledge()

    async def body() -> None:
        async with (
            HeldSubscription(broker(mosquitto.url), "lorawan/#", "app", delivered),
            Relay(mosquitto.port) as relay,
            way(relay.url, tmp_path, keep_us=2_000_000) as up,
        ):
            for f_cnt in range(3):
                await up.publish(message(f_cnt))
            await up.drained()
            assert (up.waiting, state_of(tmp_path / "lns-a.outbox").waiting) == (0, 3)
            relay.cut()
            await relay.restore()
            await until(lambda: up.waiting == 3)
            await up.publish(message(3))
            await up.drained()
            await until(lambda: len(order) == 7)
            await until(lambda: state_of(tmp_path / "lns-a.outbox").waiting == 0)

    asyncio.run(body())
    assert order == ["1", "2", "3", "1", "2", "3", "4"]


@on_a_loop
async def test_what_is_kept_at_the_end_goes_out_with_the_next_start(
    tmp_path: Path, mosquitto: Mosquitto
) -> None:
    async with way(mosquitto.url, tmp_path, keep_us=KEEP_US) as up:
        await up.publish(message(1))
        await up.drained()
    assert state_of(tmp_path / "lns-a.outbox").waiting == 1
    async with way(mosquitto.url, tmp_path) as up:
        assert up.waiting == 1
        await up.drained()
    assert state_of(tmp_path / "lns-a.outbox").waiting == 0
