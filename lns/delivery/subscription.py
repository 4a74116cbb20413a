"""What does a broker bring on a topic filter, and how does it stay there until it is acknowledged?

A held message is acknowledged by hand. There is no visibility timeout as in other queues: on a
living connection the broker never brings a message again (MQTT 5.0, 4.4), however long it is held.
It does so with the next connection only.
"""

import asyncio
import logging
import random
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any, TypedDict, Unpack

from paho.mqtt.client import Client, MQTTMessage, topic_matches_sub
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from lns.clock import Trouble
from lns.delivery.mqtt_session import (
    PACKET_BYTES_MAX,
    Attempts,
    BackOff,
    Broker,
    MqttSession,
    Patience,
)

log = logging.getLogger(__name__)

SESSION_S = 86_400
_FILTER_BYTES_MAX = 65_535
# What a broker retains was told before: it would come again with every connection.
_OPTIONS = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)

Received = Callable[[str, bytes, dict[str, str]], None]


def expect_topic_filter(text: str) -> None:
    """ValueError if no broker takes this topic filter (MQTT 5.0, 4.7)."""
    levels = text.split("/")
    wild = [level for level in levels if set(level) & set("+#")]
    if not text or "\0" in text or len(text.encode("utf-8", "replace")) > _FILTER_BYTES_MAX:
        raise ValueError(f"a topic filter has 1 to {_FILTER_BYTES_MAX} octets, and no NUL")
    if "#" in levels[:-1] or any(level not in ("+", "#") for level in wild):
        raise ValueError(
            f"{text} is no topic filter: + stands for one whole level, # for all levels at the end"
        )


class Subscription:
    """One topic filter, heard as long as `async with` lasts; reconnects by itself.

    `received` is told topic, payload and user properties of every message, in order of arrival;
    the broker is told that it arrived once `received` has returned. `client_id` names the session
    at the broker and must be this subscriber's own. Entering returns when the broker has granted
    the subscription: BrokerLost when it is away or refuses. With `patient` it returns at once, and
    the broker is sought for as long as that takes. `chance` draws the jitter of the back-off.
    Leaving does not end the session: what is published meanwhile comes next time. What has more
    than `packet_bytes_max` octets does not come.
    ValueError without a `client_id`, for its session would be lost with every connection, and for
    what is no topic filter.
    """

    def __init__(
        self,
        broker: Broker,
        topic_filter: str,
        client_id: str,
        received: Received,
        *,
        patient: bool = False,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        chance: random.Random | None = None,
        packet_bytes_max: int = PACKET_BYTES_MAX,
    ) -> None:
        expect_topic_filter(topic_filter)
        if not client_id:
            raise ValueError("a lasting subscription needs a client id")
        self._held_max = 0
        self._packet_bytes_max = packet_bytes_max
        self._broker = broker
        self._topic_filter = topic_filter
        self._client_id = client_id
        self._received = received
        self._patient = patient
        self._patience = patience or Patience()
        self._attempts = Attempts(back_off or BackOff(), chance or random.SystemRandom())
        self._trouble = Trouble(log, "is not connected yet")
        self._wire: MqttSession | None = None
        self._work: asyncio.Task[None] | None = None
        self._tasks = asyncio.TaskGroup()

    @property
    def connected(self) -> bool:
        """Whether the subscription is granted on a living connection."""
        return self._wire is not None and not self._wire.is_lost

    async def __aenter__(self) -> "Subscription":
        self._wire = None if self._patient else await self._open()
        await self._tasks.__aenter__()
        self._work = self._tasks.create_task(self._attempts.hold(self._listen, self._say))
        return self

    async def __aexit__(self, *raised: Any) -> None:
        assert self._work is not None
        self._work.cancel()
        try:
            await self._tasks.__aexit__(*raised)
        finally:
            if self._wire is not None:
                await self._wire.leave()  # the task had no time to begin

    @asynccontextmanager
    async def _listen(self) -> AsyncIterator[MqttSession]:
        wire = self._wire = self._wire or await self._open()
        try:
            self._say(None)
            yield wire
        finally:
            self._wire = None
            await wire.leave()

    async def _open(self) -> MqttSession:
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wire = MqttSession(
            self._broker,
            self._client_id,
            self._patience,
            lambda: None,
            session_s=SESSION_S,
            held_max=self._held_max,
            packet_bytes_max=self._packet_bytes_max,
        )

        def subscribed(
            client: Client, data: Any, mid: int, said: list[ReasonCode], more: Any
        ) -> None:
            if not said:  # MQTT 5.0, 3.9.3: there is a reason code for each filter
                wire.lose(f"grants nothing and refuses nothing of {self._topic_filter}")
            elif granted.done():
                self._granted_later(wire, said[0])
            elif said[0].is_failure:
                wire.lose(f"refuses the subscription to {self._topic_filter}: {said[0]}")
            else:
                granted.set_result(None)

        wire.client.on_subscribe = subscribed
        wire.client.on_message = self._taker(wire)
        try:
            await wire.open()
            wire.client.subscribe(self._topic_filter, options=_OPTIONS)
            wire.write_when_possible()
            await wire.until(granted, f"no SUBACK within {self._patience.connect_us} us")
        except BaseException:
            wire.close()
            raise
        return wire

    def _granted_later(self, wire: MqttSession, said: ReasonCode) -> None:
        """The broker has answered another request than the one for the topic filter."""

    def _taker(self, wire: MqttSession) -> Callable[[Client, Any, MQTTMessage], None]:
        def take(client: Client, data: Any, message: MQTTMessage) -> None:
            self._received(message.topic, bytes(message.payload), user_properties(message))

        return take

    def _say(self, state: str | None) -> None:
        if state is None:
            said = f"brings {self._topic_filter}"
        else:
            said = f"{state}; {self._topic_filter} is not heard"
        self._trouble.is_now(state, "%s %s", self._broker, said)


def user_properties(message: MQTTMessage) -> dict[str, str]:
    """The user properties of a message; the last one of a name counts."""
    return dict(getattr(message.properties, "UserProperty", []))


HELD_MAX = 200
# A consumer may be of other producers too; more would hold up what comes behind it.
HELD_PACKET_BYTES_MAX = 1 << 20
_QOS = 1
_PASSES = -1  # no packet identifier: a message that nobody has to acknowledge
_RETAINED = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_SEND_ON_SUBSCRIBE)


class Hearing(TypedDict, total=False):
    """How a `Subscription` hears."""

    patient: bool
    patience: Patience
    back_off: BackOff
    chance: random.Random


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
    behind what the broker has for this session; `on_retained` gets topic and payload of each when
    all that came before it is acknowledged. There is no subscription to them in between, so that
    none is kept for a subscriber that is away.
    """

    def __init__(
        self,
        broker: Broker,
        topic_filter: str,
        client_id: str,
        delivered: Callable[[Delivery], None],
        *,
        held_max: int = HELD_MAX,
        retained: str | None = None,
        on_retained: Callable[[str, bytes], None] = lambda topic, payload: None,
        **hearing: Unpack[Hearing],
    ) -> None:
        super().__init__(
            broker,
            topic_filter,
            client_id,
            lambda *message: None,
            packet_bytes_max=HELD_PACKET_BYTES_MAX,
            **hearing,
        )
        self._delivered = delivered
        self._held_max = held_max
        self._held: _Held | None = None
        if retained is not None:
            expect_topic_filter(retained)
        self._retained = retained
        self._on_retained = on_retained

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
        if self._held is not None:  # a broker brings some before it has granted anything
            self._held.renew(why)

    def _taker(self, wire: MqttSession) -> Callable[[Client, Any, MQTTMessage], None]:
        held = self._held = _Held(wire, self._held_max)

        def take(client: Client, data: Any, message: MQTTMessage) -> None:
            topic, payload = message.topic, bytes(message.payload)
            if self._is_retained(message):
                return held.pass_by(message.mid, lambda: self._on_retained(topic, payload))
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

    def _granted_later(self, wire: MqttSession, said: ReasonCode) -> None:
        """What is retained is on its way, behind everything else; that was all."""
        assert self._retained is not None
        if said.is_failure:
            log.warning("%s lets nobody read %s: %s", self._broker, self._retained, said)
        wire.client.unsubscribe(self._retained)
        wire.write_when_possible()

    def _is_retained(self, message: MQTTMessage) -> bool:
        wanted, topic = self._retained, message.topic
        if wanted is None or not topic_matches_sub(wanted, topic):
            return False
        # Who dies while it asks leaves a subscription behind: what is said then comes unretained.
        return bool(message.retain) or not topic_matches_sub(self._topic_filter, topic)


class _Held:
    """What one connection has brought and nobody has acknowledged.

    A broker should bring no more than Receive Maximum; Mosquitto 2.0.11 does when it has a backlog,
    so no more is read than that.
    """

    def __init__(self, wire: MqttSession, held_max: int) -> None:
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

    def renew(self, why: str) -> None:
        """Give the connection up, and with it what it has brought."""
        self._wire.lose(why)

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
