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

from lns.clock import now_us
from lns.delivery.broker import Broker
from lns.delivery.mqtt_sender import BackOff
from lns.delivery.mqtt_wire import BrokerLost, MqttWire, Patience

log = logging.getLogger(__name__)

SESSION_S = 86_400
# What a broker retains was told before: it would come again with every connection.
_OPTIONS = SubscribeOptions(qos=1, retainHandling=SubscribeOptions.RETAIN_DO_NOT_SEND)

Received = Callable[[str, bytes, dict[str, str]], None]


class Subscription:
    """One topic filter, heard as long as `async with` lasts; reconnects by itself.

    `received` is told topic, payload and user properties of every message, in order of arrival;
    the broker is told that it arrived once `received` has returned. `client_id` names the session
    at the broker and must be this subscriber's own. Entering returns when the broker has granted
    the subscription: BrokerLost when it is away or refuses. With `patient` it returns at once, and
    the broker is sought for as long as that takes. Leaving does not end the session: what is
    published meanwhile comes next time.
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
        self._held_max = 0
        self._broker = broker
        self._topic_filter = topic_filter
        self._client_id = client_id
        self._received = received
        self._patient = patient
        self._chance = chance or random.SystemRandom()
        self._patience = patience or Patience()
        self._back_off = back_off or BackOff()
        self._session_s = session_s
        self._state: str | None = "is not connected yet"
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
        await self._tasks.__aexit__(kind, error, traceback)

    async def _stay(self, wire: MqttWire | None) -> None:
        """Listen, and connect again whenever the broker is lost."""
        failures = 0
        while True:
            began_us = now_us()
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
                    wire.close()
            wire = None
            stayed = now_us() - began_us > self._back_off.max_us
            failures = 1 if stayed else failures + 1
            await asyncio.sleep(self._back_off.wait_us(failures, self._chance) / 1_000_000)

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
        )

        def subscribed(
            client: Client, data: Any, mid: int, said: list[ReasonCode], more: Any
        ) -> None:
            if said[0].is_failure:
                wire.lose(f"refuses the subscription to {self._topic_filter}: {said[0]}")
            elif not granted.done():
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

    def _taker(self, wire: MqttWire) -> Callable[[Client, Any, MQTTMessage], None]:
        """What takes the messages of one connection."""

        def take(client: Client, data: Any, message: MQTTMessage) -> None:
            self._received(message.topic, bytes(message.payload), user_properties(message))

        return take

    def _say(self, state: str | None) -> None:
        """Tell the person at the console once what has become of the broker."""
        if state == self._state:
            return
        self._state = state
        if state is None:
            log.info("%s brings %s", self._broker, self._topic_filter)
        else:
            log.warning("%s %s; %s is not heard", self._broker, state, self._topic_filter)


def user_properties(message: MQTTMessage) -> dict[str, str]:
    """The user properties of a message; the last one of a name counts."""
    return dict(getattr(message.properties, "UserProperty", []))
