"""What lies between a consumer and the broker, and between it and its store?

The real subscription, on a socket; and a Redis or a file, which may be slow or cut off.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from sqlite3 import Connection

from bench.chance import stream
from bench.clock import is_disk_slow
from bench.rig.in_memory.application import MemoryBroker
from bench.rig.in_memory.promises import broken_promises
from bench.rig.in_memory.written_files import seize
from bench.rig.interfaces import Wire
from bench.virtual.mqtt_broker import Client, MqttBroker
from bench.virtual.mqtt_packets import Login
from lns.clock import now_us
from lns.delivery.detectors import TOPIC, topic_of
from lns.delivery.mqtt_session import Broker, Patience
from lns.delivery.subscription import Delivery, HeldSubscription

_TOPIC, _ALL = "lorawan/+/+/up", "lorawan/#"
_HELD_MAX, _KEEP_ALIVE_S, _SESSION_S, _PACKET_BYTES_MAX = 200, 30, 86_400, 1 << 20
_AT_LEAST_ONCE, _NOTHING_RETAINED = 1, 2 << 4
"""Options of a subscription (MQTT 5.0, 3.8.3.1): QoS 1, with what is retained or not."""
_ASKED = dict.fromkeys((_TOPIC, _ALL), _AT_LEAST_ONCE | _NOTHING_RETAINED) | {TOPIC: _AT_LEAST_ONCE}
_PRODUCERS = tuple(enumerate(("producer", "another producer"), 1))
_TOO_LATE = "lorawan/bench/late/up"
_OF_NO_MEANING = {f"of no meaning {number}": "" for number in range(5)}
_LEFT_WITHIN_US = _SAID_WITHIN_US = 100_000
_AGAIN_WITHIN_US = 600_000  # half a second, and a moment
_LONGEST_WAIT_US = 30_100_000  # however often in a row it was refused
Brought = Callable[[str, bytes, Mapping[str, str], int], None]


class ConsumerWire:
    """One consumer's session at the broker, which outlives the consumer.

    `brought` is told of each message as it was sent, when the consumer is handed it. Finds what is
    wrong with how the consumer connects, what it asks for, how many messages it takes at a time and
    which of them it acknowledges.
    """

    def __init__(
        self,
        name: str,
        seed: int,
        folder: Path,
        memory: MemoryBroker,
        brought: Brought,
        found: Callable[[str], None],
        hears_all: bool,
    ) -> None:
        self._topics = _ALL if hears_all else _TOPIC
        self._name, self._client_id = name, name.replace(" ", "-")
        self._memory, self._brought, self._found = memory, brought, found
        self._chance = stream(seed, name, "subscription")
        published = partial(self._wrong, "nothing published")
        self._broker = MqttBroker(folder / "broker", published, found)
        self._broker.greeted, self._broker.subscribed = self._greet, self._subscribe
        self._broker.resumed, self._broker.left_by = self._resume, self._left
        self._broker.acknowledged, self.start = self._acknowledge, self._broker.listen
        self._client: Client | None = None
        self._on_the_way: dict[int, Callable[[], None]] = {}
        self._under_way: list[tuple[str, bytes, Mapping[str, str], int]] = []
        self._held: deque[list[bool]] = deque()
        self._subscription: HeldSubscription | None = None
        self._stays = self._is_left_behind = self._is_over = False
        self._renewals = self._asked_us = 0
        self._renewed_us: int | None = None
        self._refused_us: int | None = None
        self._known: set[tuple[object, ...]] = set()  # what was brought, however long ago
        self._forget()
        for text in broken_promises():
            found(f"{name}: {text}")

    @asynccontextmanager
    async def open(self, delivered: Callable[[Delivery], None]) -> AsyncIterator[None]:
        """Be subscribed, as a consumer is as long as it runs; for the first time at once."""
        self._broker.listen()
        broker, self._refused_us = self._broker, None
        is_patient = broker.connections > 0 or broker.subscription_refusals > 0
        subscription = self._subscription = HeldSubscription(
            Broker(str(broker.path), 1), self._topics, self._client_id,
            lambda delivery: delivered(self._hold(delivery)),
            patient=is_patient, patience=Patience(in_flight_max=1), chance=self._chance,
            retained=TOPIC, on_retained=self._hear,
        )  # fmt: skip
        async with subscription:
            yield
        self._subscription = None

    def ask(self) -> None:
        """Let the consumer have what is retained, behind all that was brought."""
        subscription = self._subscription
        if subscription is not None and subscription.connected and not self._asked_us:
            self._asked_us = now_us()
            subscription.ask()

    def renew(self, why: str) -> None:
        """Let the consumer begin another connection: it has no room for what it is brought."""
        assert self._subscription is not None
        self._renewals += 1
        self._renewed_us = now_us()
        self._subscription.renew(why)
        if self._subscription.connected:
            self._wrong("not connected when it has given that up", "connected")

    async def fall_silent(self) -> None:
        """Let a consumer that is about to end take nothing more, whatever it is brought."""
        if self._subscription is not None and self._client is not None:
            self._subscription.stop_listening()
            self._is_over = True
            self._client.bring(_TOO_LATE, b"{}", (), _AT_LEAST_ONCE)
            heard: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(0, heard.set_result, None)
            await heard  # whoever reads has done so by then

    def unlimit(self) -> None:
        """Let the broker bring more at a time than the consumer takes (Receive Maximum)."""
        self._broker.is_unlimited = True

    def refuse(self, subscriptions: int) -> None:
        """Let the broker refuse what it asks for, so many times; it leaves without a word then."""
        self._broker.subscription_refusals = subscriptions
        self._renewals += subscriptions

    def cut(self) -> None:
        """The consumer is gone, or its connection: nothing more of it is heard."""
        self._broker.hang_up()

    def stop(self) -> None:
        """The broker is away, until `start`."""
        self._broker.stop()
        self._renewed_us = self._refused_us = None

    def end(self, took_us: int) -> None:
        """The case is over, and the consumer has said goodbye, which took it so long."""
        if self._client is not None:
            self._wrong("ended when the broker has read all of it", "it is connected yet")
        if took_us > _LEFT_WITHIN_US:
            self._wrong(f"ended within {_LEFT_WITHIN_US} us", f"{took_us} us")
        if self._broker.without_a_word > self._renewals:
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
        self._under_way.clear()
        self._held.clear()
        self._flags: deque[bool] = deque()
        self._sent = self._told = self._behind = self._asked_us = 0
        self._done_us: list[int] = []  # when each could be acknowledged
        self._retained, self._heard = list[tuple[str, bytes]](), list[tuple[str, bytes]]()
        self._stays = False

    def _greet(self, client: Client) -> None:
        """Its session goes on, and what it has not acknowledged comes again."""
        self._forget()
        late_us = 0 if self._renewed_us is None else now_us() - self._renewed_us
        # Of several in a row each may wait for longer than the one before.
        if self._renewals == 1 and late_us > _AGAIN_WITHIN_US and not is_disk_slow():
            self._wrong(f"again within {_AGAIN_WITHIN_US} us", f"{late_us} us")
        self._renewed_us = None
        if self._refused_us is not None and now_us() - self._refused_us > _LONGEST_WAIT_US:
            self._wrong(f"again within {_LONGEST_WAIT_US} us", f"{now_us() - self._refused_us} us")
        self._refused_us = now_us() if self._broker.subscription_refusals else None
        self._is_left_behind = TOPIC in client.filters  # it died while it asked
        due = Login(self._client_id, False, _KEEP_ALIVE_S, _SESSION_S, _HELD_MAX, _PACKET_BYTES_MAX)
        if client.login != due:
            self._wrong(due, client.login)

    def _subscribe(self, client: Client, topic_filter: str, options: int) -> None:
        if _ASKED.get(topic_filter) != options:
            self._wrong(f"{_ASKED} asked for", f"{topic_filter} with options {options:#x}")
        elif topic_filter == TOPIC:
            self._behind = self._sent
            for number, name in _PRODUCERS:
                self._state(client, name, b"%d.5" % number, retain=True)
        elif client is not self._client:
            self._resume(client)

    def _resume(self, client: Client) -> None:
        self._client = client
        if self._is_left_behind:
            for number, name in _PRODUCERS:
                self._state(client, name, b"%d.25" % number, retain=False)
        self._memory.connect(self._name, self._bring)

    def _state(self, client: Client, producer: str, payload: bytes, *, retain: bool) -> None:
        """Bring what a producer has said of itself, before or just now."""
        self._retained.append((topic_of(producer), payload))
        client.bring(topic_of(producer), payload, (), _AT_LEAST_ONCE, retain=retain)

    def _bring(
        self,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        acknowledge: Callable[[], None],
    ) -> None:
        assert self._client is not None
        self._under_way.append((topic, payload, properties, qos))
        this = topic, payload, tuple(properties.items())
        again = qos > 0 and this in self._known
        # Of one name the last one counts.
        told = [(name, text + "x") for name, text in properties.items() if text]
        told += [*_OF_NO_MEANING.items(), *properties.items()]
        number = self._client.bring(topic, payload, told, qos, again=again)
        if number:
            self._sent += 1
            self._on_the_way[number] = acknowledge
            self._known.add(this)
            self._flags.append(again)

    @property
    def _done(self) -> int:
        """How many messages the broker may forget."""
        return len(self._done_us)

    @property
    def under_way(self) -> int:
        """How many messages were sent on this connection that the consumer was not handed yet."""
        return len(self._under_way)

    def _hold(self, delivery: Delivery) -> Delivery:
        """A message is with the consumer, until it acknowledges it and all that came before."""
        handed = delivery.topic, delivery.qos
        sent = next((one for one in self._under_way if (one[0], one[3]) == handed), None)
        if sent is not None:
            self._under_way.remove(sent)
            self._brought(*sent)
        if self._is_over:
            self._wrong("nothing taken by a consumer that ends", delivery.topic)
        if not delivery.qos:
            return delivery
        again = self._flags.popleft() if self._flags else None
        if delivery.repeated is not again:
            self._wrong(f"repeated {again}", f"{delivery.repeated}, {delivery.topic}")
        held = [True]
        self._held.append(held)
        if len(self._held) > _HELD_MAX + 1:
            self._wrong(f"{_HELD_MAX + 1} messages held at most", len(self._held))

        def acknowledge() -> None:
            held[0] = False
            while self._held and not self._held[0][0]:
                self._held.popleft()
                self._done_us.append(now_us())
            delivery.acknowledge()

        return replace(delivery, acknowledge=acknowledge)

    def _acknowledge(self, client: Client, number: int) -> None:
        if number in self._on_the_way:
            self._told += 1
            self._on_the_way.pop(number)()
            if self._told > self._done:
                self._wrong(f"{self._done} acknowledged", self._told)
            elif (late_us := now_us() - self._done_us[self._told - 1]) > _SAID_WITHIN_US:
                self._wrong(f"acknowledged within {_SAID_WITHIN_US} us", f"{late_us} us")

    def _hear(self, topic: str, payload: bytes) -> None:
        self._heard.append((topic, payload))
        if self._done < self._behind:
            self._wrong(f"{self._behind} acknowledged before what is retained", self._done)

    def _left(self, client: Client) -> None:
        if client is self._client:
            is_due = self._asked_us and now_us() - self._asked_us > _SAID_WITHIN_US
            if is_due and not self._retained:
                self._wrong(f"{TOPIC} asked for", "nothing")
            self._client = None
            self._stays = TOPIC in client.filters and not self._is_left_behind
            self._memory.disconnect(self._name)

    def _wrong(self, due: object, observed: object) -> None:
        self._found(f"{self._name}: expected {due}, observed {observed}")


class InboxWire(Wire):
    """The wire of one consumer to a Redis, or the file that it has: whole, slow or cut.

    What is cut takes nothing and says nothing; of a file only writing is kept from it. `fault` is
    told what begins and what ends.
    """

    def __init__(self, file: Callable[[], Path | None], fault: Callable[..., None]) -> None:
        self._file = file
        self._fault = fault
        self.is_cut = False
        self.delay_us = 0
        self._seized: Connection | None = None

    def cut(self) -> None:
        self.is_cut = True
        file = self._file()
        if file is not None:
            self._seized = seize(file)
        self._fault("cut", "fault.begin")

    def delay(self, us: int) -> None:
        self.delay_us = us
        self._fault("delay", "fault.begin", after_us=us)

    async def restore(self) -> None:
        self.end()
        self._fault("cut", "fault.end")

    def end(self) -> None:
        """Let everything pass again."""
        self.is_cut, self.delay_us = False, 0
        if self._seized is not None:
            self._seized.close()
            self._seized = None
