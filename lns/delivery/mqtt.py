"""How does a message reach the application over MQTT?

The outbox makes it durable; a sender takes the outbox to the broker and clears what the broker has
acknowledged (`lns.delivery.mqtt_sender`). So each arrives at least once, with the same id.
"""

import random
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from lns.delivery.back_off import BackOff
from lns.delivery.broker import Broker
from lns.delivery.mqtt_sender import MqttSender, Producer
from lns.delivery.mqtt_wire import Patience
from lns.delivery.outbox import MESSAGES_MAX, Entry, Outbox
from lns.delivery.publisher import ForApplication, UpstreamUnavailable


class MqttUpstream:
    """The way to the application over a broker; an `Upstream`, running as `async with`.

    `client_id` must be this server's own. `chance` draws the jitter of the back-off. Entering
    opens the outbox: UpstreamUnavailable when it is in use or unusable; a broker that is away is
    no error. `acknowledged` is told of every message that the broker has taken, and how many it has
    not. At the end, what is on its way gets `drain_us` to be acknowledged; the rest stays in the
    outbox for the next start. `keep_us`: how long an acknowledged message stays, see `MqttSender`.
    """

    def __init__(
        self,
        broker: Broker,
        outbox: Path,
        *,
        client_id: str,
        chance: random.Random,
        messages_max: int = MESSAGES_MAX,
        acknowledged: Callable[[Entry, int], None] | None = None,
        patience: Patience | None = None,
        back_off: BackOff | None = None,
        drain_us: int = 1_000_000,
        keep_us: int = 0,
        producer: Producer | None = None,
    ) -> None:
        self._broker = broker
        self._path, self._messages_max = outbox, messages_max
        self._outbox: Outbox | None = None
        self._sender: MqttSender | None = None

        def sender(outbox: Outbox) -> MqttSender:
            return MqttSender(
                broker,
                outbox,
                client_id=client_id,
                chance=chance,
                acknowledged=acknowledged,
                patience=patience,
                back_off=back_off,
                drain_us=drain_us,
                keep_us=keep_us,
                producer=producer,
            )

        self._new_sender = sender

    @property
    def connected(self) -> bool:
        """Whether the broker takes messages now."""
        return self._running.connected

    @property
    def waiting(self) -> int:
        """How many messages are durable here and not yet acknowledged by the broker."""
        return self._running.waiting

    @property
    def _running(self) -> MqttSender:
        assert self._sender is not None, "only inside `async with`"
        return self._sender

    async def __aenter__(self) -> "MqttUpstream":
        self._outbox = Outbox(self._path, messages_max=self._messages_max)
        self._sender = self._new_sender(self._outbox)
        await self._sender.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        assert self._outbox is not None
        try:
            await self._running.__aexit__(kind, error, traceback)
        finally:
            self._outbox.close()

    async def publish(self, message: ForApplication) -> None:
        """Take one message; it is on the disk when this returns, else UpstreamUnavailable."""
        assert self._outbox is not None, "only inside `async with`"
        try:
            await self._outbox.add(message)
        except UpstreamUnavailable as unavailable:
            state = self._running.state
            if state is None:
                raise
            raise UpstreamUnavailable(f"{unavailable}; {self._broker} {state}") from None
        finally:
            # Also when nobody waits any more: the message may become durable yet.
            self._running.look()

    async def drained(self) -> None:
        """Wait until the broker has acknowledged everything; for as long as that takes."""
        await self._running.drained()
