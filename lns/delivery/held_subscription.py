"""How does a message stay with the broker until what it was for is done?

A subscription whose messages are acknowledged by hand. There is no visibility timeout as in other
queues: on a living connection the broker never brings a message again (MQTT 5.0, 4.4), however
long it is held. It does so with the next connection only.
"""

import logging
import random
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from paho.mqtt.client import Client, MQTTMessage, topic_matches_sub
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from lns.delivery.back_off import BackOff
from lns.delivery.broker import Broker
from lns.delivery.mqtt_wire import MqttWire, Patience
from lns.delivery.subscription import SESSION_S, Subscription, expect_topic_filter, user_properties

HELD_MAX = 200
# A consumer may be of other producers too; more would hold up what comes behind it.
PACKET_BYTES_MAX = 1 << 20
_QOS = 1
_PASSES = -1  # no packet identifier: a message that nobody has to acknowledge
_RETAINED = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)

log = logging.getLogger(__name__)


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

    `retained`: a topic filter whose retained messages are brought when they are asked for (`ask`),
    behind what the broker has for this session; `told` gets topic and payload of each when all that
    came before it is acknowledged. There is no subscription to them in between, so that none is
    kept for a subscriber that is away.
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
        retained: str | None = None,
        told: Callable[[str, bytes], None] = lambda topic, payload: None,
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
        if retained is not None:
            expect_topic_filter(retained)
        self._retained = retained
        self._told = told

    def ask(self) -> None:
        """Have what is retained brought once more, if the broker is there."""
        wire = self._wire
        if self._retained is not None and wire is not None and not wire.is_lost:
            wire.client.subscribe(self._retained, options=_RETAINED)
            wire.write_when_possible()

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
            topic, payload = message.topic, bytes(message.payload)
            if self._is_retained(message):
                return held.pass_by(message.mid, lambda: self._told(topic, payload))
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

    def _granted_later(self, wire: MqttWire, said: ReasonCode) -> None:
        """What is retained is on its way, behind everything else; that was all."""
        assert self._retained is not None
        if said.is_failure:
            log.warning("%s lets nobody read %s: %s", self._broker, self._retained, said)
        wire.client.unsubscribe(self._retained)
        wire.write_when_possible()

    def _is_retained(self, message: MQTTMessage) -> bool:
        wanted = self._retained
        return wanted is not None and message.retain and topic_matches_sub(wanted, message.topic)


class _Held:
    """What one connection has brought and nobody has acknowledged.

    A broker should bring no more than Receive Maximum; Mosquitto 2.0.11 does when it has a backlog,
    so no more is read than that.
    """

    def __init__(self, wire: MqttWire, held_max: int) -> None:
        self._wire = wire
        self._held_max = held_max
        self._listening = True
        self._order: deque[int] = deque()
        self._done: set[int] = {_PASSES}
        self._passing: deque[tuple[int, Callable[[], None]]] = deque()

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

    def pass_by(self, mid: int, then: Callable[[], None]) -> None:
        """Let one go when its turn comes, and do this then; `mid` 0: nobody waits for it."""
        self._order.append(_PASSES)
        self._passing.append((mid, then))
        self._let_go()

    def stop_listening(self) -> None:
        """Read nothing more."""
        self._held_max = -1
        self._listen()

    def _let_go(self) -> None:
        while self._order and self._order[0] in self._done:
            mid = self._order.popleft()
            if mid == _PASSES:
                mid, then = self._passing.popleft()
                then()
            else:
                self._done.discard(mid)
            if mid and not self._wire.is_lost:
                self._wire.client.ack(mid, _QOS)
        self._wire.write_when_possible()
        self._listen()

    def _listen(self) -> None:
        listening = len(self._order) <= self._held_max
        if listening is not self._listening:
            self._listening = listening
            self._wire.listen(listening=listening)
