"""How does a message stay with the broker until what it was for is done?

A subscription whose messages are acknowledged by hand. There is no visibility timeout as in other
queues: on a living connection the broker never brings a message again (MQTT 5.0, 4.4), however
long it is held. It does so with the next connection only.
"""

import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client, MQTTMessage

from lns.delivery.back_off import BackOff
from lns.delivery.broker import Broker
from lns.delivery.mqtt_wire import MqttWire, Patience
from lns.delivery.subscription import SESSION_S, Subscription, user_properties

HELD_MAX = 200
# A consumer may be of other producers too; more would hold up what comes behind it.
PACKET_BYTES_MAX = 1 << 20
_QOS = 1


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message as the broker brought it; it has it until `acknowledge` is called.

    `acknowledge` may be called at any time, and does nothing when the connection is gone: then the
    message comes again. `repeated`: the broker says that it brought the message before.
    """

    topic: str
    payload: bytes
    properties: dict[str, str]
    qos: int
    repeated: bool
    acknowledge: Callable[[], None]


class HeldSubscription(Subscription):
    """A subscription whose messages stay with the broker until each is acknowledged.

    `delivered` is told of every message, in order of arrival. At most `held_max` and one more are
    delivered and not acknowledged; the broker keeps the rest. Acknowledgements go out in order of
    arrival (MQTT 5.0, 4.6), so one that waits holds up those of later messages. A packet of more
    than 1 MiB does not come.
    """

    def __init__(
        self,
        broker: Broker,
        topic_filter: str,
        client_id: str,
        delivered: Callable[[Delivery], None],
        *,
        held_max: int = HELD_MAX,
        patient: bool = False,
        chance: random.Random | None = None,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        session_s: int = SESSION_S,
    ) -> None:
        super().__init__(
            broker,
            topic_filter,
            client_id,
            lambda topic, payload, properties: None,
            patient=patient,
            chance=chance,
            patience=patience,
            back_off=back_off,
            session_s=session_s,
        )
        self._delivered = delivered
        self._held_max = held_max
        self._packet_bytes_max = PACKET_BYTES_MAX
        self._held: _Held | None = None

    def stop_listening(self) -> None:
        """Take no more messages; those that were delivered may still be acknowledged."""
        if self._held is not None:
            self._held.stop_listening()

    def renew(self, why: str) -> None:
        """Begin again with another connection: what is not acknowledged comes once more."""
        if self._wire is not None:
            self._wire.lose(why)

    def _taker(self, wire: MqttWire) -> Callable[[Client, Any, MQTTMessage], None]:
        held = self._held = _Held(wire, self._held_max)

        def take(client: Client, data: Any, message: MQTTMessage) -> None:
            self._delivered(
                Delivery(
                    message.topic,
                    bytes(message.payload),
                    user_properties(message),
                    message.qos,
                    message.dup,
                    held.hold(message.mid) if message.qos else lambda: None,
                )
            )

        return take


class _Held:
    """What one connection has brought and nobody has acknowledged.

    A broker should bring no more than Receive Maximum; Mosquitto 2.0.11 does when it has a backlog,
    so no more is read than that.
    """

    def __init__(self, wire: MqttWire, held_max: int) -> None:
        self._wire = wire
        self._held_max = held_max
        self._packet_bytes_max = PACKET_BYTES_MAX
        self._listening = True
        self._order: deque[int] = deque()
        self._done: set[int] = set()

    def hold(self, mid: int) -> Callable[[], None]:
        """Hold one more message, by its packet identifier; what is returned lets it go."""
        self._order.append(mid)
        self._listen()
        left = [mid]

        def acknowledge() -> None:
            if left:
                self._done.add(left.pop())
                self._let_go()

        return acknowledge

    def stop_listening(self) -> None:
        """Read nothing more."""
        self._held_max = -1
        self._listen()

    def _let_go(self) -> None:
        while self._order and self._order[0] in self._done:
            mid = self._order.popleft()
            self._done.discard(mid)
            if not self._wire.is_lost:
                self._wire.client.ack(mid, _QOS)
        self._wire.write_when_possible()
        self._listen()

    def _listen(self) -> None:
        listening = len(self._order) <= self._held_max
        if listening is not self._listening:
            self._listening = listening
            self._wire.listen(listening=listening)
