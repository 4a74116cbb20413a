"""The simulated rig: everything in one process, on virtual time, from one seed."""

from datetime import UTC, datetime, timedelta
from typing import Any

from bench.rig.application import Application
from bench.rig.consumer_settings import ConsumerSettings
from bench.rig.consuming import CONSUMER
from bench.rig.consumption import Consumption
from bench.rig.injected import Witness
from bench.rig.memory_broker import MemoryBroker
from bench.rig.parts import NetworkServer
from bench.rig.request import posted, request
from bench.rig.simulated_consumer import SimulatedConsumer
from bench.rig.simulated_server import SimulatedServer
from bench.rig.simulated_store import SimulatedStore
from bench.rig.virtual_air import VirtualAir
from bench.verdict.mistake import not_there
from lns.clock import now_us
from lns.dedup.claim import Bid
from lns.downlink.downlink_queue import ApplicationDownlink, StatusWanted
from lns.store.inbox_entries import MemoryInboxStore

LNS = "lns-a"
WALL_CLOCK_START = datetime(2026, 1, 1, tzinfo=UTC)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class SimulatedRig(VirtualAir, Consumption):
    """The rig on which only links, store and application are kept in memory.

    With `wants_store` even a server that is alone asks who owns a frame.
    """

    capabilities = frozenset(
        {
            "virtual time",
            "known strength",
            "device time",
            "wall clock",
            "slow application",
            "own store",
            "twin stations",
            "any port",
            "session kept by a failed join",
            "crash in a transaction",
        }
    )

    def __init__(self, *, wants_store: bool = False, **facts: Any) -> None:
        super().__init__(wall_clock_start=WALL_CLOCK_START, **facts)
        self.clock_began = WALL_CLOCK_START
        self._broker = MemoryBroker(Witness(self.record))
        self.application = Application(self.record, self._broker)
        self._inboxes: dict[str, MemoryInboxStore] = {}
        self._consumers: dict[str, SimulatedConsumer] = {}
        self._store = SimulatedStore(retention_us=self._retention_us)
        if wants_store:
            self._store.begin_claims()
        self._servers: dict[str, SimulatedServer] = {}
        self.server = self._new_server(LNS)

    async def queue_downlink(
        self, device: Any, *, payload: bytes, port: int = 2, confirmed: bool = False
    ) -> None:
        await self._request(device, ApplicationDownlink(port, payload, confirmed))

    async def queue_status(self, device: Any) -> None:
        await self._request(device, StatusWanted(True))

    async def _request(self, device: Any, wanted: ApplicationDownlink | StatusWanted) -> None:
        await self.start()
        self.note_request(device, wanted if isinstance(wanted, ApplicationDownlink) else None)
        self._servers[LNS].receive_request(*request(LNS, device.provisioned.dev_eui, wanted))

    async def post_request(self, device: Any, body: bytes) -> None:
        await self.start()
        self.note_unreadable_request(device)
        self._servers[LNS].receive_request(*posted(LNS, device.provisioned.dev_eui, body))

    def new_server(self, lns: str) -> NetworkServer:
        self._store.begin_claims()
        return self._new_server(lns)

    def _new_server(self, lns: str) -> SimulatedServer:
        server = self._servers[lns] = SimulatedServer(
            lns, self.region, self._store, self.application, self._seed, self.record,
            WALL_CLOCK_START, level_1=lambda: (self._retention_us, self._entries_max),
        )  # fmt: skip
        return server

    def dedup(self, *, retention: int | None = None, entries_max: int | None = None) -> None:
        super().dedup(retention=retention, entries_max=entries_max)
        self._store.remember_for(self._retention_us)

    def cut_store(self, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.delay(us)

    async def restore_store(self, lns: str | None = None) -> None:
        for server in self._some(lns):
            server.to_store.restore()

    async def restart_store(self, *, empty: bool) -> None:
        await self.start()
        self.note_store("fault.begin", "restart", empty=empty)
        if empty:
            self._store.lose_everything()
        self.note_store("fault.end", "restart", empty=empty)

    async def claim(self, bid: Bid) -> None:
        assert self._store.claims is not None, "a server that is alone asks nobody"
        await self._store.claims.claim(bid)

    def _some(self, lns: str | None) -> list[SimulatedServer]:
        """One server by its id, or all of them."""
        return list(self._servers.values()) if lns is None else [self._running(lns)]

    def _running(self, lns: str) -> SimulatedServer:
        if lns not in self._servers:
            raise not_there("network server", lns, self._servers)
        return self._servers[lns]

    def delay_upstream(self, us: int, messages: int = 1) -> None:
        self._longest_delay_us = max(self._longest_delay_us, us)
        self.application.delay(us, messages)

    def refuse_upstream(self, messages: int = 1) -> None:
        self.application.refuse(messages)

    async def fill_disk(self, lns: str = LNS) -> None:
        await self.start()
        self.application.fill_disk(lns)

    async def free_disk(self, lns: str = LNS) -> None:
        self.application.free_disk(lns)

    def step_wall_clock(self, us: int, *, lns: str = LNS) -> None:
        self._running(lns).step_wall_clock(us)

    # --- consumers ------------------------------------------------------------------------------

    def new_consumer(self, settings: ConsumerSettings) -> SimulatedConsumer:
        store = self._inboxes.setdefault(settings.store or settings.name, MemoryInboxStore())
        return SimulatedConsumer(settings, store, self._broker, self.record, _utc_us)

    async def ready(self) -> None:
        for name in self._consumers:
            await self.run_consumer(name)

    async def run_consumer(self, name: str) -> None:
        assert self._tasks is not None
        await self.consumer_of(name).start(self._tasks)

    async def publish(self, topic: str, body: dict[str, object]) -> None:
        self._broker.publish(topic, body, injected=True)

    async def lose_acks(self, name: str = CONSUMER) -> None:
        await self.start()
        self.note_fault("broker", "lose acknowledgements", consumer=name)
        self._broker.lose_acks(name)

    async def redeliver(self, name: str = CONSUMER) -> None:
        await self.consumer_of(name).settled()
        self._broker.redeliver(name)

    async def stop_broker(self) -> None:
        await self.start()
        self.note_fault("broker", "stop")
        self._broker.stop()

    async def start_broker(self) -> None:
        self.note_fault("broker", "stop", "fault.end")
        self._broker.start()
        self.application.send_again()

    async def lose_pubacks(self, lns: str = LNS) -> None:
        await self.start()
        self.application.lose_pubacks(lns)

    async def hold_messages(self, lns: str = LNS) -> None:
        await self.start()
        self.application.hold(lns)

    async def find_broker(self, lns: str = LNS) -> None:
        self.application.find_broker(lns)

    async def wipe_producer(self, lns: str = LNS) -> None:
        await self.kill_lns(lns)
        self.application.wipe(lns)
        await self.start_lns(lns)

    def share_client_id(self, *lns: str) -> None:
        raise self._is_missing("wires")

    async def _switch_off(self) -> None:
        for consumer in self._consumers.values():
            await consumer.kill()
        await super()._switch_off()


def _utc_us() -> int:
    return (WALL_CLOCK_START - _EPOCH) // timedelta(microseconds=1) + now_us()
