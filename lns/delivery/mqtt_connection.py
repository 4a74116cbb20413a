"""What happens to messages on one connection to the broker, until it is lost?

A connection is used once; the messages that it leaves unacknowledged go out on the next one, in
their order, with the same ids.
"""

from collections.abc import Callable, Sequence
from typing import Any, NoReturn

from paho.mqtt.client import Client
from paho.mqtt.properties import Properties
from paho.mqtt.reasoncodes import ReasonCode

from lns.clock import now_us
from lns.delivery.broker import Broker
from lns.delivery.mqtt_wire import MqttWire, Patience
from lns.delivery.outbox import Entry

_QOS = 1
_USER_PROPERTY = 0x26  # MQTT 5.0, 3.3.2.3.7


class MqttConnection:
    """One connection: `open` it, `send` while there is `room`, `watch` it until it is lost.

    `acknowledged` is told the entries of every PUBACK, several at a time.
    """

    def __init__(
        self,
        broker: Broker,
        client_id: str,
        patience: Patience,
        acknowledged: Callable[[Sequence[Entry]], None],
    ) -> None:
        self._patience = patience
        self._tell = acknowledged
        self._in_flight: dict[int, Entry] = {}
        self._acknowledged: list[Entry] = []
        self._progress_us = 0
        self._told: set[int] = set()
        self.useful = False  # whether anything was ever acknowledged on it
        self._wire = MqttWire(broker, client_id, patience, self._tell_acknowledged)
        self._wire.client.on_publish = self._published

    @property
    def room(self) -> int:
        """How many messages may be sent now."""
        in_flight = len(self._in_flight) + len(self._told)
        return self._wire.receive_max - in_flight if self._wire.is_open else 0

    def unacknowledged(self) -> list[Entry]:
        """What was sent and not acknowledged, in the order of sending."""
        return list(self._in_flight.values())

    async def open(self) -> None:
        """Connect and log in; BrokerLost."""
        await self._wire.open()

    def send(self, entries: Sequence[Entry]) -> None:
        """Publish these, in this order; there must be `room` for them."""
        if not self._in_flight:
            self._progress_us = now_us()
        for entry in entries:
            sent = self._wire.client.publish(
                entry.topic, entry.body, qos=_QOS, properties=_UserProperties(entry)
            )
            # What could not be sent is unacknowledged like the rest, and goes out with it.
            self._in_flight[sent.mid] = entry
        self._wire.write_when_possible()

    def tell(self, topic: str, body: bytes) -> None:
        """Let the broker retain something; there must be `room` for it. It is not sent again."""
        sent = self._wire.client.publish(topic, body, qos=_QOS, retain=True)
        self._told.add(sent.mid)
        self._wire.write_when_possible()

    async def watch(self) -> NoReturn:
        """Keep the connection alive until it is lost; BrokerLost says why."""
        await self._wire.watch(self._look_at_deadline)

    def close(self) -> None:
        """Say goodbye if there is still somebody to say it to, and give the socket up."""
        self._wire.close()

    def _look_at_deadline(self) -> None:
        silent_us = now_us() - self._progress_us
        if self._in_flight and silent_us > self._patience.acknowledge_us:
            self._wire.lose(f"acknowledges nothing within {self._patience.acknowledge_us} us")

    def _tell_acknowledged(self) -> None:
        if self._acknowledged:
            told, self._acknowledged = self._acknowledged, []
            self._progress_us, self.useful = now_us(), True
            self._tell(told)

    def _published(self, client: Client, data: Any, mid: int, said: ReasonCode, more: Any) -> None:
        if mid in self._told:
            self._told.discard(mid)
            return  # a broker that lets nobody retain anything takes the messages
        if said.is_failure:
            topic = self._in_flight[mid].topic if mid in self._in_flight else "?"
            self._wire.lose(f"refuses a message on {topic}: {said}")
        elif not self._wire.is_lost and mid in self._in_flight:
            self._acknowledged.append(self._in_flight.pop(mid))


class _UserProperties(Properties):
    """The user properties of one message, packed at once: paho's own packing takes 50 µs."""

    def __init__(self, entry: Entry) -> None:
        pairs = (
            ("messageId", entry.message_id),
            ("removeDuplicatesKey", entry.remove_duplicates_key),
            ("partitionKey", entry.partition_key),
            ("sequenceNumber", str(entry.sequence_number)),
        )
        packed = b"".join(
            bytes([_USER_PROPERTY]) + _string(name) + _string(value) for name, value in pairs
        )
        object.__setattr__(self, "_packed", _variable_byte_integer(len(packed)) + packed)

    def pack(self) -> bytes:
        """The property length and the properties (MQTT 5.0, 2.2.2)."""
        packed: bytes = object.__getattribute__(self, "_packed")
        return packed


def _string(text: str) -> bytes:
    octets = text.encode()
    return len(octets).to_bytes(2, "big") + octets


def _variable_byte_integer(value: int) -> bytes:
    """MQTT 5.0, 1.5.5: seven bits an octet, the lowest first."""
    octets = bytearray()
    while value > 0x7F:
        octets.append(value & 0x7F | 0x80)
        value >>= 7
    octets.append(value)
    return bytes(octets)
