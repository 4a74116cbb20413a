"""One message to a real Mosquitto: it is there, or whoever sent it is told."""

import asyncio
from pathlib import Path

import pytest

from lns.delivery.mqtt_session import BrokerLost, broker, post
from tests.broker import Listener, Mosquitto

pytestmark = pytest.mark.broker

TOPIC = "lorawan/lns-a/70B3D57ED0000001/down"


def test_the_broker_has_what_was_posted(mosquitto: Mosquitto, listener: Listener) -> None:
    async def body() -> None:
        for number in (b"1", b"2"):
            await post(broker(mosquitto.url), TOPIC, number)

    asyncio.run(body())
    assert [(heard.topic, heard.payload) for heard in listener.count(2)] == [
        (TOPIC, b"1"),
        (TOPIC, b"2"),
    ]


def test_a_broker_that_is_away_has_nothing(mosquitto: Mosquitto) -> None:
    mosquitto.stop()
    with pytest.raises(BrokerLost, match="cannot be reached"):
        asyncio.run(post(broker(mosquitto.url), TOPIC, b"1"))


def test_a_message_that_the_broker_refuses_is_no_success(tmp_path: Path) -> None:
    access = tmp_path / "access"
    access.write_text("topic read lorawan/#\n")
    access.chmod(0o700)
    server = Mosquitto(tmp_path, f"acl_file {access}").start()
    try:
        with pytest.raises(BrokerLost, match="refuses a message on lorawan/lns-a/"):
            asyncio.run(post(broker(server.url), TOPIC, b"1"))
    finally:
        server.stop()
