"""What may happen to the programs of an emulated case, to their wires and to their store?"""

import asyncio
from abc import abstractmethod
from typing import Any

from bench.host.relay import Relay
from bench.host.valkey import Valkey
from bench.rig.consumption import Consumption
from bench.rig.tapped_station import TappedStation
from bench.rig.wired_bench import LNS, WiredBench
from bench.rig.wired_server import WiredServer
from lns.dedup.claim import Bid
from lns.store.redis import keys_of, sessions_of
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisWire, redis_server


class WiredFaults(Consumption):
    """The verbs of a scenario that disturb network servers; these must be the case's own."""

    has_own_server: bool
    _bench: WiredBench
    _store: Valkey | None
    """The store of this case alone, while it runs."""
    _pausing: asyncio.Task[None] | None = None

    @property
    def lns_ids(self) -> list[str]:
        """The ids of the network servers that the case needs."""
        return [server.lns for server in self.servers]

    def own_servers(self) -> None:
        """Have network servers of its own; before they are started."""
        self.has_own_server = True
        for lns in self.lns_ids:
            self.wired_server(lns).own = True

    def wired_server(self, lns: str) -> WiredServer:
        """A network server by its id."""
        server = self.server_of(lns)
        assert isinstance(server, WiredServer)
        return server

    def dedup(self, *, retention: int | None = None, entries_max: int | None = None) -> None:
        raise self._is_missing("virtual time")

    def on_outage(self, word: str) -> None:
        if not self.has_own_server:
            raise RuntimeError('on_outage: mark the scenario with @pytest.mark.fault("store", …)')
        super().on_outage(word)

    def pause_lns(self, lns: str = LNS) -> None:
        server = self.wired_server(lns)
        server.own_program().pause()
        server.note("fault.begin", {"seam": "lns", "fault": "pause", "origin": "injected"})

    def resume_lns(self, lns: str = LNS) -> None:
        server = self.wired_server(lns)
        server.note("fault.end", {"seam": "lns", "fault": "pause", "origin": "injected"})
        server.own_program().resume()

    async def fill_disk(self, lns: str = LNS) -> None:
        await self.start()
        server = self.wired_server(lns)
        server.own_program().fill_disk()
        server.note("fault.begin", {"seam": "lns", "fault": "disk full", "origin": "injected"})

    async def free_disk(self, lns: str = LNS) -> None:
        server = self.wired_server(lns)
        server.note("fault.end", {"seam": "lns", "fault": "disk full", "origin": "injected"})
        server.own_program().free_disk()

    def park_after(self, us: int) -> None:
        self._before_start("when messages are parked")
        for lns in self.lns_ids:
            self.wired_server(lns).park_after_us = us

    async def release_parked(self, lns: str = LNS) -> None:
        await self.kill_lns(lns)
        await self.wired_server(lns).own_program().release_parked()
        await self.start_lns(lns)

    async def spoil_store(self, device: Any) -> None:
        await self.start()
        dev_eui = device.provisioned.dev_eui
        self.note_store("fault.begin", "foreign value", dev_eui=dev_eui)
        wire = RedisWire(redis_server(self._own_store().url))
        known = [key.decode() for key in await wire.do("KEYS", keys_of(dev_eui))]
        for key in sorted({sessions_of(dev_eui), *known}):
            await wire.do("SET", key, "what somebody else has written")
        await wire.close()

    async def mend_store(self, device: Any) -> None:
        dev_eui = device.provisioned.dev_eui
        wire = RedisWire(redis_server(self._own_store().url))
        await wire.do("DEL", *await wire.do("KEYS", keys_of(dev_eui)))
        await wire.close()
        self.note_store("fault.end", "foreign value", dev_eui=dev_eui)

    def cut_upstream(self) -> None:
        self.wired_server(LNS).own_program().to_broker.cut()

    async def restore_upstream(self) -> None:
        await self.wired_server(LNS).own_program().to_broker.restore()

    def cut_store(self, lns: str | None = None) -> None:
        for wire in self._to_store(lns):
            wire.cut()

    def slow_store(self, us: int, lns: str | None = None) -> None:
        for wire in self._to_store(lns):
            wire.delay(us, "down")

    async def restore_store(self, lns: str | None = None) -> None:
        for wire in self._to_store(lns):
            await wire.clear()

    def _to_store(self, lns: str | None) -> list[Relay]:
        ids = self.lns_ids if lns is None else [lns]
        return [self.wired_server(lns).own_program().to_store for lns in ids]

    async def restart_store(self, *, empty: bool) -> None:
        await self.start()
        store = self._own_store()
        self.note_store("fault.begin", "restart", empty=empty)
        await store.kill()
        if empty:
            self._store = await self._bench.new_store(port=store.port)
        else:
            await store.start()
        self.note_store("fault.end", "restart", empty=empty)

    def pause_store(self) -> None:
        self._own_store().pause()
        self.note_store("fault.begin", "pause")

    def resume_store(self) -> None:
        self.note_store("fault.end", "pause")
        self._own_store().resume()

    def _own_store(self) -> Valkey:
        if self._store is None:
            raise RuntimeError(
                "this case shares its store with others: mark the scenario with"
                ' @pytest.mark.fault("store", …), so that it gets one of its own'
            )
        return self._store

    async def claim(self, bid: Bid) -> None:
        url = self._bench.programs.store_url if self._store is None else self._store.url
        async with RedisClaims(redis_server(url)) as claims:
            await claims.claim(bid)

    async def pause_lns_in_mid_claim(self, lns: str = LNS) -> None:
        await self.start()
        assert self._tasks is not None
        self._pausing = self._tasks.create_task(self._pause_once_it_asks(lns))

    async def _pause_once_it_asks(self, lns: str) -> None:
        wire = self.wired_server(lns).own_program().to_store
        await wire.hold_after_next()
        self.pause_lns(lns)

    async def kill_lns(self, lns: str = LNS) -> None:
        await super().kill_lns(lns)
        for station in self._stations_on(lns):
            # Nobody is behind the tap: a station is refused before it tells anything.
            self.shut_out(station)

    async def _run_server_again(self, lns: str, f_cnt_up: int | None) -> None:
        await super()._run_server_again(lns, f_cnt_up)
        for station in self._stations_on(lns):
            self.let_in(station)

    @abstractmethod
    def shut_out(self, station: TappedStation) -> None:
        """Refuse a station, whatever it is connected to."""

    @abstractmethod
    def let_in(self, station: TappedStation) -> None:
        """Serve a station by its tap again."""

    def _stations_on(self, lns: str) -> list[TappedStation]:
        return [s for s in self._stations.values() if s.server.lns == lns]

    async def _switch_off(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        await super()._switch_off()
