"""How does a message come from the broker, and what if the broker is away?

The other direction of `lns.delivery.mqtt`: one lasting subscription (MQTT 5.0, QoS 1). What the
broker takes while nobody is connected, it keeps for `session_s` and brings later; so a message may
arrive twice, and none is lost.
"""

import asyncio
import logging
import random
from collections.abc import Callable
from types import TracebackType
from typing import Any

from paho.mqtt.client import Client, MQTTMessage
from paho.mqtt.reasoncodes import ReasonCode
from paho.mqtt.subscribeoptions import SubscribeOptions

from lns.delivery.back_off import Attempts, BackOff
from lns.delivery.broker import Broker
from lns.delivery.mqtt_wire import PACKET_BYTES_MAX, BrokerLost, MqttWire, Patience
from lns.outage import Trouble

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
    the broker is sought for as long as that takes. Leaving does not end the session: what is
    published meanwhile comes next time. A packet of more than 64 KiB does not come. ValueError
    without a `client_id`, for its session would be lost with every connection, and for what is no
    topic filter.
    """

    def __init__(
        self,
        broker: Broker,
        topic_filter: str,
        client_id: str,
        received: Received,
        *,
        patient: bool = False,
        chance: random.Random | None = None,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        session_s: int = SESSION_S,
    ) -> None:
        expect_topic_filter(topic_filter)
        if not client_id:
            raise ValueError("a lasting subscription needs a client id")
        self._held_max = 0
        self._packet_bytes_max = PACKET_BYTES_MAX
        self._broker = broker
        self._topic_filter = topic_filter
        self._client_id = client_id
        self._received = received
        self._patient = patient
        self._patience = patience or Patience()
        self._attempts = Attempts(back_off or BackOff(), chance or random.SystemRandom())
        self._session_s = session_s
        self._trouble = Trouble(log, "is not connected yet")
        self._wire: MqttWire | None = None
        self._work: asyncio.Task[None] | None = None
        self._tasks = asyncio.TaskGroup()

    @property
    def connected(self) -> bool:
        """Whether the subscription is granted on a living connection."""
        return self._wire is not None and not self._wire.is_lost

    async def __aenter__(self) -> "Subscription":
        wire = self._wire = None if self._patient else await self._open()
        await self._tasks.__aenter__()
        self._work = self._tasks.create_task(self._stay(wire))
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._work is not None
        self._work.cancel()
        try:
            await self._tasks.__aexit__(kind, error, traceback)
        finally:
            if self._wire is not None:
                await self._wire.leave()  # the task had no time to begin

    async def _stay(self, wire: MqttWire | None) -> None:
        """Listen, and connect again whenever the broker is lost."""
        while True:
            self._attempts.begin()
            try:
                if wire is None:
                    wire = await self._open()
                self._wire = wire
                self._say(None)
                await wire.watch(lambda: None)
            except BrokerLost as lost:
                self._say(str(lost))
            finally:
                self._wire = None
                if wire is not None:
                    await wire.leave()
            wire = None
            await self._attempts.wait()

    async def _open(self) -> MqttWire:
        """A connection on which the subscription is granted; BrokerLost."""
        granted: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        wire = MqttWire(
            self._broker,
            self._client_id,
            self._patience,
            lambda: None,
            session_s=self._session_s,
            held_max=self._held_max,
            packet_bytes_max=self._packet_bytes_max,
        )

        def subscribed(
            client: Client, data: Any, mid: int, said: list[ReasonCode], more: Any
        ) -> None:
            if granted.done():
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

    def _granted_later(self, wire: MqttWire, said: ReasonCode) -> None:
        """The broker has answered another request than the one for the topic filter."""

    def _taker(self, wire: MqttWire) -> Callable[[Client, Any, MQTTMessage], None]:
        """What takes the messages of one connection."""

        def take(client: Client, data: Any, message: MQTTMessage) -> None:
            self._received(message.topic, bytes(message.payload), user_properties(message))

        return take

    def _say(self, state: str | None) -> None:
        """Tell the person at the console once what has become of the broker."""
        if state is None:
            said = f"brings {self._topic_filter}"
        else:
            said = f"{state}; {self._topic_filter} is not heard"
        self._trouble.is_now(state, "%s %s", self._broker, said)


def user_properties(message: MQTTMessage) -> dict[str, str]:
    """The user properties of a message; the last one of a name counts."""
    return dict(getattr(message.properties, "UserProperty", []))
