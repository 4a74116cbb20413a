"""How does one message go to the broker, and when has the broker taken it?

For whoever says something now and then, as an application that asks for a downlink: a connection
of its own for each message, and nothing is tried again.
"""

import asyncio
from typing import Any

from paho.mqtt.client import Client
from paho.mqtt.reasoncodes import ReasonCode

from lns.delivery.broker import Broker
from lns.delivery.mqtt_wire import MqttWire, Patience


async def post(
    broker: Broker, topic: str, body: bytes, *, patience: Patience | None = None
) -> None:
    """Publish one message (MQTT 5.0, QoS 1); the broker has it when this returns, or BrokerLost."""
    patience = patience or Patience()
    taken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    wire = MqttWire(broker, "", patience, lambda: None)

    def published(client: Client, data: Any, mid: int, said: ReasonCode, more: Any) -> None:
        if said.is_failure:
            wire.lose(f"refuses a message on {topic}: {said}")
        elif not taken.done():
            taken.set_result(None)

    wire.client.on_publish = published
    try:
        await wire.open()
        wire.client.publish(topic, body, qos=1)
        wire.write_when_possible()
        await wire.until(taken, f"no PUBACK within {patience.connect_us} us")
    finally:
        wire.close()
