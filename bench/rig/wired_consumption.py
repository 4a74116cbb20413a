"""The consumers and the broker of one emulated case: real programs, which no other case uses."""

from contextlib import suppress

from bench.host.program import ConsumerDied
from bench.host.valkey import Valkey
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.consuming import CONSUMER
from bench.rig.consumption import PUBLISHED
from bench.rig.lns_programs import subfolder
from bench.rig.own_broker import OwnBroker
from bench.rig.wired_bench import LNS
from bench.rig.wired_consumer import WiredConsumer
from bench.rig.wired_faults import WiredFaults
from lns.clock import now_us

_DECIDED_WITHIN_US = 15_000_000
_AGAIN_US = 20_000


class WiredConsumption(WiredFaults):
    """The verbs of a scenario for what lies behind the network servers."""

    _broker: OwnBroker | None = None
    _inbox_store: Valkey | None = None
    _consumers: dict[str, WiredConsumer]

    @property
    def consumer_count(self) -> int:
        """How many consumers the case has."""
        return len(self._consumers)

    def new_consumer(self, settings: ConsumerSettings) -> WiredConsumer:
        if settings.elsewhere or settings.refuses is not None:
            raise self._is_missing("crash in a transaction")
        self.own_servers()
        return WiredConsumer(settings, self.record, self.case.collect, self._bench.consumers)

    async def start_application(self) -> None:
        """Start broker and consumers, before any network server runs."""
        if not self._consumers:
            return
        assert self._tasks is not None
        self._broker = OwnBroker(self._bench.new_folder("broker"), self.record)
        await self._broker.begin(self._tasks)
        for lns in self.lns_ids:
            self.wired_server(lns).broker_port = self._broker.port
        if any(consumer.settings.store for consumer in self._consumers.values()):
            self._inbox_store = await self._bench.new_store()
            if self._inbox_store is None:
                raise self._is_missing("own store")
        for name, consumer in self._consumers.items():
            store = self._inbox_store if consumer.settings.store else None
            url = None if store is None else store.url
            folder = subfolder(self._broker.folder, name.replace(" ", "-"))
            await consumer.prepare(folder, self._broker.port, url, self._tasks)
            await consumer.start()

    async def run_consumer(self, name: str) -> None:
        await self.consumer_of(name).start()

    async def publish(self, topic: str, body: dict[str, object]) -> None:
        assert self._broker is not None
        await self._broker.inject(topic, body)

    async def crash_consumer(self, at: str, name: str = CONSUMER) -> None:
        await self.start()
        await self._until_decided(name)
        await super().crash_consumer(at, name)

    async def start_consumer(self, name: str = CONSUMER, *, window: int | None = None) -> None:
        if self.consumer_of(name).crashes_at == "ack":
            await self._until_decided(name)
        await super().start_consumer(name, window=window)

    async def lose_acks(self, name: str = CONSUMER) -> None:
        await self.start()
        await self._until_decided(name)
        self.consumer_of(name).lose_acks()

    async def redeliver(self, name: str = CONSUMER) -> None:
        await self._until_decided(name)
        await self.consumer_of(name).redeliver()

    async def stop_broker(self) -> None:
        await self.start()
        assert self._broker is not None
        self.note_fault("broker", "stop")
        await self._broker.stop()

    async def start_broker(self) -> None:
        assert self._broker is not None
        self.note_fault("broker", "stop", "fault.end")
        await self._broker.start()

    async def lose_pubacks(self, lns: str = LNS) -> None:
        await self.start()
        self.wired_server(lns).own_program().to_broker.swallow("down")

    async def hold_messages(self, lns: str = LNS) -> None:
        await self.start()
        self.wired_server(lns).own_program().to_broker.hold()

    async def find_broker(self, lns: str = LNS) -> None:
        await self.wired_server(lns).own_program().to_broker.restore()

    async def wipe_producer(self, lns: str = LNS) -> None:
        await self.kill_lns(lns)
        self.wired_server(lns).own_program().lose_outbox()
        self.note_fault("upstream", "wipe", lns=lns)
        await self.start_lns(lns)

    def share_client_id(self, *lns: str) -> None:
        self._before_start("client id")
        for one in lns:
            self.wired_server(one).client_id = "shared"

    async def until_decided(self) -> None:
        """Wait until consumers say nothing more about messages, and end them."""
        sharing = [one for one in map(self.wired_server, self.lns_ids) if one.client_id is not None]
        if sharing and all(one.own_program().to_broker.connections < 2 for one in sharing):
            raise RuntimeError("no server was thrown out by the broker")
        for name, consumer in self._consumers.items():
            with suppress(TimeoutError):  # then what is missing is told as such
                await self._until_decided(name)
            while consumer.runs and not consumer.is_quiet:
                await self.pause(_AGAIN_US)
        for consumer in self._consumers.values():
            if consumer.died is not None:
                raise ConsumerDied(str(consumer.died)) from consumer.died
            await consumer.stop()

    async def _until_decided(self, name: str) -> None:
        """Wait until a consumer has decided on all messages that there are; TimeoutError."""
        consumer, until_us = self.consumer_of(name), now_us() + _DECIDED_WITHIN_US
        while consumer.runs and not consumer.has_decided_on(self._published()):
            if now_us() > until_us:
                raise TimeoutError(f"consumer {name} has not decided on every message")
            await self.pause(_AGAIN_US)

    def _published(self) -> set[str]:
        """The ids of all messages that the broker has had."""
        lines = self.case.events
        return {line["body"]["messageId"] for line in lines if line["kind"] in PUBLISHED}

    async def _switch_off(self) -> None:
        for consumer in self._consumers.values():
            await consumer.stop()
        if self._broker is not None:
            await self._broker.end()
        if self._inbox_store is not None:
            await self._inbox_store.stop()
        await super()._switch_off()
