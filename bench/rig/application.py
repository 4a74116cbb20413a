"""What lies behind the servers of this process: outboxes, a broker, consumers."""

import asyncio
from collections import Counter
from collections.abc import Callable

from bench.capture import Record
from bench.rig.broker import MemoryBroker, Witness
from bench.rig.case_setup import CaseSetup
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.interfaces import Application, Consumer, Wire
from bench.rig.memory_consumer import MemoryConsumer
from bench.verdict.case import fault_fields
from lns.delivery.publisher import ForApplication, UpstreamUnavailable
from lns.store.inbox_entries import MemoryInboxStore

_Body = dict[str, object]
_Published = tuple[str, _Body]


class Outboxes:
    """The outboxes of all servers: take messages durably and bring them to the broker.

    Numbers the messages of each topic from 1. `refuse` and `delay` force an outbox that cannot be
    written, or is slow; both act on the next `messages` messages.
    """

    def __init__(self, record: Record, broker: MemoryBroker | None = None) -> None:
        self._record = record
        self._broker = broker or MemoryBroker(Witness(record))
        self._numbers: Counter[str] = Counter()
        self._refusals = 0
        self._full: set[str] = set()
        self._delays_us: list[int] = []
        self._away: dict[str, str] = {}
        self._kept: list[_Published] = []

    def refuse(self, messages: int = 1) -> None:
        """Take none of the next messages."""
        self._refusals += messages
        self._fault("refuse", messages=messages)

    def delay(self, us: int, messages: int = 1) -> None:
        """Take each of the next messages only after `us`."""
        self._delays_us += [us] * messages
        self._fault("delay", us=us, messages=messages)

    def fill_disk(self, lns: str) -> None:
        """Take nothing of a server, until `free_disk`."""
        self._full.add(lns)
        self._fault("disk full", lns=lns)

    def free_disk(self, lns: str) -> None:
        """Take what it has to tell again."""
        self._full.discard(lns)
        self._fault("disk full", "fault.end", lns=lns)

    def lose_pubacks(self, lns: str) -> None:
        """Let the messages of a server be published, and published again after `find_broker`."""
        self._away[lns] = "swallow"
        self._fault("swallow", lns=lns)

    def hold(self, lns: str) -> None:
        """Let the messages of a server wait for `find_broker`."""
        self._away[lns] = "hold"
        self._fault("hold", lns=lns)

    def find_broker(self, lns: str) -> None:
        """Publish what was not acknowledged to a server."""
        self._away.pop(lns, None)
        self.send_again()

    def send_again(self) -> None:
        """Publish what was not acknowledged, as far as the broker can be reached."""
        kept, self._kept = self._kept, []
        for topic, body in kept:
            if body["lns"] in self._away:
                self._kept.append((topic, body))
            else:
                self._send(topic, body)

    def wipe(self, lns: str) -> None:
        """Forget the messages and the numbers of a server."""
        self._kept = [(topic, body) for topic, body in self._kept if body["lns"] != lns]
        for topic in [topic for topic in self._numbers if topic.split("/")[1] == lns]:
            del self._numbers[topic]
        self._fault("wipe", lns=lns)

    async def publish(self, message: ForApplication) -> None:
        """Take one message; UpstreamUnavailable where a scenario wants it so."""
        if self._delays_us:
            await asyncio.sleep(self._delays_us.pop(0) / 1_000_000)
        if self._refusals or message.lns in self._full:
            cause = "refused by the application" if self._refusals else "the disk is full"
            self._refusals = max(0, self._refusals - 1)
            fields: dict[str, object] = {"topic": message.topic, "cause": cause}
            fields["message_id"] = message.message_id
            self._record("upstream", "upstream.failed", fields)
            raise UpstreamUnavailable(cause)
        self._numbers[message.topic] += 1
        self._send(message.topic, message.body(self._numbers[message.topic]))

    def _send(self, topic: str, body: _Body) -> None:
        away = self._away.get(str(body["lns"]))
        if away is not None or not self._broker.is_up:
            self._kept.append((topic, body))
        if self._broker.is_up and away != "hold":
            self._broker.publish(topic, body)

    def _fault(self, fault: str, kind: str = "fault.begin", **detail: int | str) -> None:
        self._record("bench", kind, fault_fields("upstream", fault, detail))


class OutboxWire(Wire):
    """The wire between one of them and the broker."""

    def __init__(self, outboxes: Outboxes, lns: str) -> None:
        self._outboxes = outboxes
        self._lns = lns

    def lose_answers(self) -> None:
        self._outboxes.lose_pubacks(self._lns)

    def hold(self) -> None:
        self._outboxes.hold(self._lns)

    async def restore(self) -> None:
        self._outboxes.find_broker(self._lns)


class MemoryApplication(Application):
    """The broker and the consumers of one simulated case."""

    capabilities = frozenset({"slow application", "crash in a transaction"})

    def __init__(
        self,
        setup: CaseSetup,
        broker: MemoryBroker,
        outboxes: Outboxes,
        utc_us: Callable[[], int],
    ) -> None:
        self._setup = setup
        self._broker = broker
        self._outboxes = outboxes
        self._utc_us = utc_us
        self._inboxes: dict[str, MemoryInboxStore] = {}
        self._consumers: dict[str, MemoryConsumer] = {}

    def new_consumer(self, settings: ConsumerSettings) -> Consumer:
        store = self._inboxes.setdefault(settings.store or settings.name, MemoryInboxStore())
        consumer = MemoryConsumer(settings, store, self._broker, self._setup, self._utc_us)
        self._consumers[settings.name] = consumer
        return consumer

    async def ready(self) -> None:
        for consumer in self._consumers.values():
            await consumer.start()

    async def publish(self, topic: str, body: dict[str, object]) -> None:
        self._broker.publish(topic, body, injected=True)

    async def stop_broker(self) -> None:
        self._broker.stop()

    async def start_broker(self) -> None:
        self._broker.start()
        self._outboxes.send_again()

    def delay(self, us: int, messages: int) -> None:
        self._outboxes.delay(us, messages)

    def refuse(self, messages: int) -> None:
        self._outboxes.refuse(messages)

    async def end(self) -> None:
        for consumer in self._consumers.values():
            await consumer.kill()
