"""The parts of a rig as programs on real wires: network servers, and the store that they share.

The network server is a program of its own, between a real broker and a real Redis-protocol server.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence

from bench.capture.reading import Event
from bench.clock import until
from bench.host.lns_process import FollowedLns, ServerDied, Valkey
from bench.host.relay import Relay
from bench.rig.case_setup import CaseSetup
from bench.rig.interfaces import NetworkServer, Servers, Store, Wire
from bench.rig.programs.process_application import ProcessApplication
from bench.rig.programs.process_bench import STORE_FILE, ProcessBench, begin
from bench.rig.stations import ServerSilent
from bench.station import LinkClosed, TextLink
from bench.station.web_socket import WebSocketLink
from bench.verdict.case import Case
from bench.verdict.wire import is_reception
from lns.clock import now_us
from lns.dedup.claim import Bid
from lns.lorawan.identifiers import Eui
from lns.store.redis import keys_of, sessions_of
from lns.store.redis_claims import RedisClaims
from lns.store.redis_wire import RedisWire, redis_server

COLLECTED_WITHIN_US = 5_000_000
TAKEN_WITHIN_US = 20_000_000
SHARED = (
    "this case shares its {what} with others: mark the scenario with"
    ' @pytest.mark.fault("{seam}", …), so that it gets one of its own'
)


class RelayWire(Wire):
    """A wire on which the bench stands with a relay."""

    def __init__(self, relay: Relay) -> None:
        self.relay = relay

    def cut(self) -> None:
        self.relay.cut()

    def delay(self, us: int) -> None:
        self.relay.delay(us, "down")

    def lose_answers(self) -> None:
        self.relay.swallow("down")

    def hold(self) -> None:
        self.relay.hold()

    async def restore(self) -> None:
        await self.relay.clear()


class ProcessServer(NetworkServer):
    """A network server of one case: one that it shares, or one of its own.

    The store of its own one is a file, or what `store_url` names; None: what all cases share.
    Its broker is that of all cases, unless `broker_port` is another one.
    """

    def __init__(
        self,
        bench: ProcessBench,
        lns: str,
        setup: CaseSetup,
        application: ProcessApplication,
        take: Callable[[Event], None] | None,
        *,
        own: bool,
    ) -> None:
        self.lns = lns
        self.own = own
        self.program: FollowedLns | None = None
        self.store_url: str | None = STORE_FILE
        self.client_id: str | None = None
        self._bench = bench
        self._setup = setup
        self._application = application
        self._take = take
        self._upstream: dict[str, int] = {}
        self._pausing: asyncio.Task[None] | None = None
        self._links: dict[Eui, WebSocketLink] = {}

    async def start(self) -> None:
        if not self.own:
            return  # the one that is shared runs already
        setup = self._setup
        self.program = self._bench.new_lns(
            self.lns,
            setup.region,
            store_url=self.store_url,
            on_outage=setup.on_outage,
            note=lambda kind, fields: setup.record("bench", kind, {"lns": self.lns, **fields}),
            broker_port=self._application.port,
            client_id=self.client_id,
            take=self._take,
            upstream=self._upstream,
        )
        devices = [device.provisioned for device in setup.devices.values()]
        known = [device for device in devices if device.is_known_to(self.lns)]
        await begin(self.program, known)

    async def connect(self, station: Eui) -> TextLink:
        assert self.program is not None
        if not self.program.running:
            raise LinkClosed("the network server does not run")
        link = self._links[station] = await self._bench.connect(self.program.uri, station)
        return link

    async def kill(self) -> None:
        await self.own_program().kill()

    async def start_again(self, *, f_cnt_up: int | None = None) -> None:
        await self.own_program().begin_again(f_cnt_up=f_cnt_up)

    async def ask(self, dev_eui: Eui, body: bytes, *, waits_until_queued: bool) -> None:
        events = self._setup.case.events
        due = waits_until_queued + _times_queued(events, dev_eui)
        await self._application.post(f"lorawan/{self.lns}/{dev_eui}/down", body)
        await until(
            lambda: _times_queued(events, dev_eui) >= due,
            TAKEN_WITHIN_US,
            lambda: ServerSilent(f"{self.lns} has not queued the downlink for {dev_eui}"),
        )

    def leave_half_open(self, station: Eui, noticed_after_us: int) -> None:
        self._links[station].vanish(noticed_after_us)

    def stop(self) -> None:
        if self._pausing is not None:
            self._pausing.cancel()
        for link in self._links.values():
            link.close()

    def own_program(self) -> FollowedLns:
        """The program, to be disturbed; RuntimeError if this case shares it with others."""
        if not self.own:
            raise RuntimeError(SHARED.format(what="network server", seam="lns"))
        assert self.program is not None, "it is started by the first act"
        return self.program

    @property
    def to_broker(self) -> Wire:
        return RelayWire(self.own_program().to_broker)

    @property
    def to_store(self) -> Wire:
        return RelayWire(self.own_program().to_store)

    def pause(self) -> None:
        self.own_program().pause()
        self._note("fault.begin", "pause")

    def resume(self) -> None:
        self._note("fault.end", "pause")
        self.own_program().resume()

    def pause_in_mid_claim(self) -> None:
        self._pausing = self._setup.tasks.create_task(self._pause_once_it_asks())

    async def _pause_once_it_asks(self) -> None:
        await self.own_program().to_store.hold_after_next()
        self.pause()

    def fill_disk(self, breaks_after: int = 0, writes: int = 0) -> None:
        assert not breaks_after and not writes, "that takes a server of this process"
        self.own_program().fill_disk()
        self._setup.case.fault("upstream", "disk full", "fault.begin", lns=self.lns)

    def free_disk(self) -> None:
        self._setup.case.fault("upstream", "disk full", "fault.end", lns=self.lns)
        self.own_program().free_disk()

    def set_upstream(self, key: str, value: int) -> None:
        self._upstream[key] = value

    async def release_parked(self) -> None:
        await self.own_program().release_parked()

    def lose_outbox(self) -> None:
        self.own_program().lose_outbox()
        self._bench.witness(self._setup.case).forget(self.lns)
        self._setup.case.fault("upstream", "wipe", lns=self.lns)

    def share_client_id(self) -> None:
        self.client_id = "shared"

    def _note(self, kind: str, fault: str) -> None:
        fields = {"lns": self.lns, "seam": "lns", "fault": fault, "origin": "injected"}
        self._setup.record("bench", kind, dict(fields))


class ProcessServers(Servers):
    """The network servers of one case on a bench that it shares with others (see `Guest` there).

    With `own` they are this case's alone, at the end of wires that can be cut; one that is alone
    keeps its sessions in a file. `take` is told every line of their captures, instead of who is
    told those of all others.
    """

    capabilities = frozenset({"wires", "outbox"})

    def __init__(
        self,
        setup: CaseSetup,
        bench: ProcessBench,
        application: ProcessApplication,
        *,
        own: bool,
        take: Callable[[Event], None] | None = None,
    ) -> None:
        self.setup = setup
        self.has_own_server = own
        self._bench = bench
        self._application = application
        self._take = take
        self._servers: dict[str, ProcessServer] = {}
        self._has_entered = False

    def new(self, lns: str) -> NetworkServer:
        server = self._servers[lns] = ProcessServer(
            self._bench, lns, self.setup, self._application, self._take, own=self.has_own_server
        )
        return server

    def own(self) -> None:
        self.has_own_server = True
        for server in self._servers.values():
            server.own = True

    def must_be_own(self, why: str) -> None:
        if not self.has_own_server:
            raise RuntimeError(why)

    @property
    def consumer_count(self) -> int:
        return self._application.consumer_count

    def use(self, program: FollowedLns) -> None:
        self._servers[program.lns].program = program

    def keep_in(self, store_url: str | None) -> None:
        """Let all of them have one store; None: that of the bench."""
        for server in self._servers.values():
            server.store_url = store_url

    async def ready(self) -> None:
        setup, bench = self.setup, self._bench
        await bench.enter(self)
        self._has_entered = True
        for device in setup.devices.values():
            bench.own(setup.case, device.dev_eui)
        for station in setup.stations.values():
            bench.own(setup.case, station.eui)

    async def settle(self) -> None:
        until_us = now_us() + COLLECTED_WITHIN_US
        while now_us() < until_us and not _is_complete(self.setup.case):  # noqa: ASYNC110
            await asyncio.sleep(0.02)
        sharing = [server for server in self._servers.values() if server.client_id is not None]
        if sharing and all(one.own_program().to_broker.connections < 2 for one in sharing):
            raise RuntimeError("no server was thrown out by the broker")

    def check(self) -> None:
        for server in self._servers.values():
            if server.program is not None and server.program.died is not None:
                raise ServerDied(str(server.program.died)) from server.program.died

    def logs(self) -> Sequence[str]:
        programs = [server.program for server in self._servers.values()]
        return [program.said() for program in programs if program is not None]

    async def end(self) -> None:
        try:
            for server in self._servers.values():
                if server.own and server.program is not None:
                    await server.program.stop()
        finally:
            if self._has_entered:
                self._bench.leave(self)
            elif not self.setup.is_started:
                self._bench.left_early()


class ProcessStore(Store):
    """The store of one case: its own, where it `wants` one, or that of the bench."""

    capabilities = frozenset({"own store"})

    def __init__(
        self, setup: CaseSetup, bench: ProcessBench, servers: ProcessServers, *, wants: bool
    ) -> None:
        self._setup = setup
        self._bench = bench
        self._servers = servers
        self._wants = wants
        self._valkey: Valkey | None = None

    async def ready(self) -> None:
        if self._wants:
            self._valkey = await self._bench.new_store()
        if self._wants or len(self._setup.servers) > 1:
            self._servers.keep_in(None if self._valkey is None else self._valkey.url)

    def must_be_own(self) -> None:
        self._own()

    async def claim(self, bid: Bid) -> None:
        url = self._bench.store_url if self._valkey is None else self._valkey.url
        async with RedisClaims(redis_server(url)) as claims:
            await claims.claim(bid)

    async def restart(self, *, empty: bool) -> None:
        store = self._own()
        await store.kill()
        if empty:
            self._valkey = await self._bench.new_store(port=store.port)
        else:
            await store.start()
            self._bench.watch(store)

    def pause(self) -> None:
        self._own().pause()

    def resume(self) -> None:
        self._own().resume()

    async def spoil(self, dev_eui: Eui) -> None:
        wire = RedisWire(redis_server(self._own().url))
        known = [key.decode() for key in await wire.do("KEYS", keys_of(dev_eui))]
        for key in sorted({sessions_of(dev_eui), *known}):
            await wire.do("SET", key, "what somebody else has written")
        await wire.close()

    async def mend(self, dev_eui: Eui) -> None:
        wire = RedisWire(redis_server(self._own().url))
        await wire.do("DEL", *await wire.do("KEYS", keys_of(dev_eui)))
        await wire.close()

    async def end(self) -> None:
        if self._valkey is not None:
            await self._valkey.stop()

    def _own(self) -> Valkey:
        if self._valkey is None:
            raise RuntimeError(SHARED.format(what="store", seam="store"))
        return self._valkey


def _times_queued(events: Iterable[Event], dev_eui: Eui) -> int:
    return sum(
        event["kind"] == "lns.request"
        and event["stage"] == "queued"
        and event.get("dev_eui") == dev_eui
        for event in events
    )


def _is_complete(case: Case) -> bool:
    receptions = outcomes = accepted = published = 0
    for event in case.events:
        match event["kind"]:
            case "station.text":
                is_up = event["direction"] == "up" and "dropped" not in event
                receptions += is_up and is_reception(event["text"])
            case "lns.outcome":
                outcomes += 1
                accepted += event["upstream"] != "dropped"
            case "upstream.published":
                published += 1
    return outcomes >= receptions and published >= accepted
