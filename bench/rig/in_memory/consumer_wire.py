"""What is a consumer's way from the broker, with the real subscription on a socket?"""

from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

from bench.chance import stream
from bench.rig.in_memory.application import MemoryBroker
from bench.virtual.mqtt_broker import Client, Login, MqttBroker, Published
from lns.delivery.detectors import TOPIC, topic_of
from lns.delivery.mqtt_session import Broker
from lns.delivery.subscription import Delivery, HeldSubscription

_TOPIC = "lorawan/+/+/up"
_HELD_MAX, _KEEP_ALIVE_S, _SESSION_S, _PACKET_BYTES_MAX = 200, 30, 86_400, 1 << 20
_AT_LEAST_ONCE, _NOTHING_RETAINED = 1, 2 << 4
"""Options of a subscription (MQTT 5.0, 3.8.3.1): QoS 1, with what is retained or not."""
_ASKED = {_TOPIC: _AT_LEAST_ONCE | _NOTHING_RETAINED, TOPIC: _AT_LEAST_ONCE}
_PRODUCERS = tuple(enumerate(("producer", "another producer"), 1))
Brought = Callable[[str, bytes, Mapping[str, str], int], None]


class ConsumerWire:
    """One consumer's session at the broker, which outlives the consumer.

    `brought` is told of each message before it is on its way. Finds what is wrong with how the
    consumer connects, what it asks for, how many messages it takes at a time and which of them it
    acknowledges.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        folder: Path,
        memory: MemoryBroker,
        brought: Brought,
        found: Callable[[str], None],
    ) -> None:
        self._name, self._client_id = name, name.replace(" ", "-")
        self._memory, self._brought, self._found = memory, brought, found
        self._chance = stream(seed, name, "subscription")
        self._broker = MqttBroker(folder / "broker", self._take, found)
        self._broker.greeted, self._broker.subscribed = self._greet, self._subscribe
        self._broker.resumed, self._broker.left_by = self._resume, self._left
        self._broker.acknowledged = self._acknowledge
        self._client: Client | None = None
        self._on_the_way: dict[int, Callable[[], None]] = {}
        self._held: deque[list[bool]] = deque()
        self._subscription: HeldSubscription | None = None
        self._is_asked = self._stays = self._is_left_behind = False
        self._forget()

    @asynccontextmanager
    async def open(self, delivered: Callable[[Delivery], None]) -> AsyncIterator[None]:
        """Be subscribed, as a consumer is as long as it runs."""
        self._broker.listen()
        subscription = self._subscription = HeldSubscription(
            Broker(str(self._broker.path), 1), _TOPIC, self._client_id,
            lambda delivery: delivered(self._hold(delivery)),
            patient=True, chance=self._chance, retained=TOPIC, on_retained=self._hear,
        )  # fmt: skip
        async with subscription:
            yield
        self._subscription = None

    def ask(self) -> None:
        """Let the consumer have what is retained, behind all that was brought."""
        subscription = self._subscription
        if subscription is not None and subscription.connected and not self._is_asked:
            self._is_asked = True
            subscription.ask()

    def cut(self) -> None:
        """The consumer is gone, or its connection: nothing more of it is heard."""
        self._broker.hang_up()

    def stop(self) -> None:
        """The broker is away, until `start`."""
        self._broker.go()

    def start(self) -> None:
        self._broker.listen()

    def end(self) -> None:
        """The case is over, and the consumer has said goodbye."""
        if self._broker.without_a_word:
            self._wrong("a goodbye", "none")
        if self._told != self._done:
            self._wrong(f"{self._done} acknowledged", self._told)
        if self._retained and self._heard != self._retained:
            self._wrong(f"retained {self._retained}", self._heard)
        if self._stays:
            self._wrong("nothing asked for but uplinks", TOPIC)
        self._broker.go()

    def _forget(self) -> None:
        """Nothing is on its way on a new connection."""
        self._on_the_way.clear()
        self._held.clear()
        self._sent = self._done = self._told = 0
        self._retained: list[tuple[str, bytes]] = []
        self._heard: list[tuple[str, bytes]] = []
        self._behind = 0
        self._is_asked = self._stays = False

    def _greet(self, client: Client) -> None:
        """Its session goes on, and what it has not acknowledged comes again."""
        self._forget()
        self._is_left_behind = TOPIC in client.filters  # it died while it asked
        due = Login(self._client_id, False, _KEEP_ALIVE_S, _SESSION_S, _HELD_MAX, _PACKET_BYTES_MAX)
        if client.login != due:
            self._wrong(due, client.login)

    def _subscribe(self, client: Client, topic_filter: str, options: int) -> None:
        if _ASKED.get(topic_filter) != options:
            self._wrong(f"{_ASKED} asked for", f"{topic_filter} with options {options:#x}")
        elif topic_filter == TOPIC:
            self._behind = self._sent
            self._retained = [(topic_of(name), b"%d.5" % number) for number, name in _PRODUCERS]
            for topic, payload in self._retained:
                client.bring(topic, payload, {}, 1, retain=True)
        elif client is not self._client:
            self._resume(client)

    def _resume(self, client: Client) -> None:
        self._client = client
        self._memory.connect(self._name, self._bring)

    def _bring(
        self,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        assert self._client is not None
        self._brought(topic, payload, properties, qos)
        number = self._client.bring(topic, payload, properties, qos)
        if number:
            self._sent += 1
            self._on_the_way[number] = acknowledge

    def _hold(self, delivery: Delivery) -> Delivery:
        """A message is with the consumer, until it acknowledges it and all that came before."""
        if not delivery.qos:
            return delivery
        held = [True]
        self._held.append(held)
        if len(self._held) > _HELD_MAX + 1:
            self._wrong(f"{_HELD_MAX + 1} messages held at most", len(self._held))

        def acknowledge() -> None:
            held[0] = False
            while self._held and not self._held[0][0]:
                self._held.popleft()
                self._done += 1
            delivery.acknowledge()

        return replace(delivery, acknowledge=acknowledge)

    def _acknowledge(self, client: Client, number: int) -> None:
        if number in self._on_the_way:
            self._told += 1
            self._on_the_way.pop(number)()
            if self._told > self._done:
                self._wrong(f"{self._done} acknowledged", self._told)

    def _hear(self, topic: str, payload: bytes) -> None:
        self._heard.append((topic, payload))
        if self._done < self._behind:
            self._wrong(f"{self._behind} acknowledged before what is retained", self._done)

    def _left(self, client: Client) -> None:
        if client is self._client:
            self._client = None
            self._stays = TOPIC in client.filters and not self._is_left_behind
            self._memory.disconnect(self._name)

    def _take(self, message: Published) -> None:
        self._wrong("nothing published", message.topic)

    def _wrong(self, due: object, observed: object) -> None:
        self._found(f"{self._name}: expected {due}, observed {observed}")
