"""What do all cases of a run on real wires share, and when may a case begin?

A broker, a Redis-protocol server, a listener for the stations, and for each region one network
server, all of them programs of their own behind real sockets. A network server reads its devices
once, as it starts; so the cases that share one say first what they need (`enter`), and begin when
the last of them has.
"""

import asyncio
import json
import ssl
import tempfile
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.parse import urlsplit, urlunsplit

from bench.capture import Record
from bench.capture.reading import Event, contents
from bench.clock import until
from bench.host.fork_server import ForkServer
from bench.host.lns_files import Authority, write_server_files
from bench.host.lns_process import SQLITE, FollowedLns, Mosquitto, Starts, Valkey, source_folder
from bench.host.program import (
    LOOPBACK,
    HostGuard,
    Program,
    guard_machine,
    guard_program,
    take_all_allowed,
)
from bench.host.relay import Note, Relay
from bench.rig.case_setup import CaseSetup
from bench.rig.in_memory.application import STATUS_TOPIC, UP_TOPIC, Witness
from bench.rig.provisioning import Provisioned
from bench.station import web_socket
from bench.station.web_socket import StationTls, TapServer, WebSocketLink
from bench.verdict.case import Case
from lns.capture import Capture
from lns.clock import now_us
from lns.dedup.claim import OnOutage
from lns.delivery.mqtt_session import broker, post
from lns.delivery.subscription import HELD_PACKET_BYTES_MAX, Subscription
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Region
from lns.server.access import server_context
from lns.store.redis_wire import redis_server

STORE_FILE = f"{SQLITE}store.sqlite"
AT_ONCE = 80
SERVER_IMPORTS = ("lns.__main__",)
CONSUMER_IMPORTS = ("bench.cli.inbox",)
PLACES_OF_A_PROGRAM = 1
"""A program that only one case uses takes memory, and is more to do for this host."""
BETWEEN_BEGINS_S = 0.1
"""Cases begin one after another: all at once would make this host stall."""
KEPT_UP_US, KEPT_UP_WITHIN_US = 200_000, 300_000
"""How long this host should have kept up before another case begins, and how long to wait for that
at most: a host with other work has fewer of them side by side."""
QUIET_US, QUIET_WITHIN_US = 1_000_000, 10_000_000
"""The same before a case is played again."""


class Guest(Protocol):
    """A case, as far as the bench serves it; `consumer_count`: its consumers are programs too."""

    setup: CaseSetup
    has_own_server: bool

    @property
    def consumer_count(self) -> int: ...

    def use(self, program: FollowedLns) -> None:
        """Put the stations on this network server, which runs."""


class ProcessBench:
    """The programs of one run; use it as `async with`.

    `retention_us` is that of every network server; with `tls` all stations use wss://. The store is
    started too, unless `redis_url` names one. At most `at_once` cases run side by side, and fewer
    where they have network servers of their own.
    Entering: HostError when a program is missing or does not start.
    """

    def __init__(
        self,
        capture: Capture,
        *,
        retention_us: int,
        tls: bool = False,
        redis_url: str | None = None,
        at_once: int = AT_ONCE,
        has_past: bool = False,
    ) -> None:
        self.capture = capture
        self.retention_us = retention_us
        self.trust: Trust | None = None
        self.taps: TapServer
        self._tls = tls
        self._redis_url = redis_url
        self._has_past = has_past or redis_url is not None
        self._stack = AsyncExitStack()
        self._work: asyncio.TaskGroup = asyncio.TaskGroup()
        self._door = asyncio.Lock()
        self._places = asyncio.Semaphore(at_once)
        self._shared: list[FollowedLns] = []
        self._waiting: dict[Guest, asyncio.Future[None]] = {}
        self._still_to_come = 0
        self._owners: dict[Eui, Case] = {}
        self._cases: set[Case] = set()
        self._witnesses: dict[Case | None, Witness] = {}
        self._folders = 0
        self._starts = Starts()
        self._made = 0
        self._stalled_us = 0
        self._guarding: list[asyncio.Task[None]] = []
        self.guard = HostGuard(self._stalled)

    async def __aenter__(self) -> Self:
        await self._stack.__aenter__()
        try:
            await self._begin()
        except BaseException:
            await self._stack.aclose()
            raise
        return self

    async def _begin(self) -> None:
        keep = self._stack
        take_all_allowed()
        # Not in the run's folder: devices.toml holds keys.
        self.folder = Path(keep.enter_context(tempfile.TemporaryDirectory(prefix="lorabench-")))
        self._servers = self._new_starter("servers", SERVER_IMPORTS)
        self.consumers = self._new_starter("consumers", CONSUMER_IMPORTS)
        self._mosquitto = Mosquitto(subfolder(self.folder, "broker"))
        await self._mosquitto.start()
        keep.push_async_callback(self._mosquitto.stop)
        programs: list[Program] = [self._mosquitto]
        store_url = self._redis_url
        if store_url is None:
            valkey = Valkey(subfolder(self.folder, "redis"), append_only=False)
            await valkey.start()
            keep.push_async_callback(valkey.stop)
            store_url = valkey.url
            programs.append(valkey)
        self.trust = Trust(subfolder(self.folder, "trust")) if self._tls else None
        self.taps = self._new_tap_server()
        await self._listen()
        keep.push_async_callback(self.taps.stop)
        application = heard(self._mosquitto.url, "application", self._heard)
        await keep.enter_async_context(application)
        await keep.enter_async_context(self._work)
        self.store_url = store_url
        guards = (self.guard.run(), guard_machine(self._stalled))
        self._guarding += [self._work.create_task(guard) for guard in guards]
        keep.callback(lambda: [task.cancel() for task in self._guarding])
        for program in programs:
            self.watch(program)

    async def __aexit__(self, *raised: Any) -> None:
        for program in self._shared:
            await program.stop()
        await self._stack.__aexit__(*raised)

    def _new_starter(self, name: str, imports: Sequence[str]) -> ForkServer:
        log, env = self.folder / f"{name}.log", {"PYTHONPATH": source_folder()}
        starter = ForkServer(log, imports, env)
        self._stack.push_async_callback(starter.stop)
        return starter

    async def _listen(self) -> None:
        """Begin to listen for stations; OSError or HostError where that is not possible."""
        await self.taps.start()

    def _new_tap_server(self) -> TapServer:
        return TapServer(ssl=self.trust.server() if self.trust else None)

    # --- which case begins when --------------------------------------------------------------

    def expect(self, cases: int) -> None:
        """So many more cases are about to `enter` or to `leave`."""
        self._still_to_come += cases

    async def enter(self, rig: Guest) -> None:
        """Wait until the network servers know the devices of this case and there is room."""
        begins = self._waiting[rig] = asyncio.get_running_loop().create_future()
        self._came()
        await begins
        async with self._door:
            for _ in range(_places(rig)):
                await self._places.acquire()
            await asyncio.sleep(BETWEEN_BEGINS_S)
            await self.quiet(KEPT_UP_US, KEPT_UP_WITHIN_US)
        self._cases.add(rig.setup.case)

    def left_early(self) -> None:
        """A case ended that never entered."""
        self._came()

    def leave(self, rig: Guest) -> None:
        """The case is over; another one may begin."""
        for _ in range(_places(rig)):
            self._places.release()
        self._cases.discard(rig.setup.case)

    async def quiet(self, for_us: int = QUIET_US, within_us: int = QUIET_WITHIN_US) -> None:
        """Wait until this host has kept up for a while; no longer than is worth it."""
        with suppress(TimeoutError):
            await until(lambda: now_us() >= self._stalled_us + for_us, within_us, TimeoutError)

    def watch(self, program: Program) -> None:
        """Tell from now on when this host lets a program wait, until its process ends."""
        guarding = guard_program(program.pid, self._stalled)
        self._guarding.append(self._work.create_task(guarding))

    async def connect(self, uri: str, station: Eui) -> WebSocketLink:
        """A link for a station, by way of discovery at `uri`; LinkClosed with the reason."""
        tls = self.trust.station(station) if self.trust is not None else None
        return await web_socket.connect(await web_socket.discover(uri, station, tls=tls), tls=tls)

    async def post(self, topic: str, body: bytes) -> None:
        """Publish something as an application does; BrokerLost."""
        await post(broker(self._mosquitto.url), topic, body)

    async def new_store(self, *, port: int = 0) -> Valkey | None:
        """A store for one case alone, which knows nothing; None where the store was given."""
        if self._redis_url is not None:
            return None
        store = await Valkey(self.new_folder("store"), port=port).start()
        self.watch(store)
        return store

    def new_lns(
        self,
        lns: str,
        region: Region,
        *,
        store_url: str | None = None,
        on_outage: OnOutage = OnOutage.OPEN,
        note: Note | None = None,
        broker_port: int | None = None,
        client_id: str | None = None,
        take: Callable[[Event], None] | None = None,
        upstream: Mapping[str, int] | None = None,
    ) -> FollowedLns:
        """One more network server, not started yet.

        Its store is the shared one, unless `store_url` names another or is `STORE_FILE`. With
        `note`, which is told of faults, the bench stands on its wires to broker and store. `take`
        is told its capture instead of who is told all others.
        """
        has_past = self._has_past and store_url is None
        store_url = store_url or self.store_url
        relays: tuple[()] | tuple[Relay, Relay] = ()
        broker_port = broker_port or self._mosquitto.port
        if note is not None:
            store = redis_server(self.store_url if store_url == STORE_FILE else store_url)
            relays = (
                Relay(LOOPBACK, broker_port, name="upstream", note=note),
                Relay(store.host, store.port, name="store", note=note),
            )
            broker_port = relays[0].port
            if store_url != STORE_FILE:
                store_url = by_way_of(store_url, relays[1].port)
        self._made += 1
        name = f"{lns}-{self._made}"
        settings: dict[str, dict[str, Any]] = {
            "lns": {"id": lns, "listen": f"{LOOPBACK}:0", "region": region.name},
            "dedup": {"retention_s": self.retention_us // 1_000_000},
            "store": {"url": store_url, "on_outage": on_outage.value},
            "upstream": {
                "url": f"mqtt://{LOOPBACK}:{broker_port}",
                "outbox": "outbox.sqlite",
                "keep_s": 0,
                "client_id": client_id or name,
                **(upstream or {}),
            },
            "capture": {"path": f"{lns}.jsonl", "run_id": "collected"},
        }
        if self.trust is not None:
            settings["tls"] = dict(self.trust.settings)
        return FollowedLns(
            subfolder(self.folder, name), settings, take or self._said, self._work,
            self._starts, self._stalled, relays, has_past=has_past,
            starter=self._servers,
        )  # fmt: skip

    def new_folder(self, name: str) -> Path:
        self._folders += 1
        return subfolder(self.folder, f"{name}-{self._folders}")

    def own(self, case: Case, eui: Eui) -> None:
        """What is said of this device or station from now on belongs to this case."""
        self._owners[eui] = case

    def _came(self) -> None:
        self._still_to_come -= 1
        if self._still_to_come <= 0 and self._waiting:
            arrived, self._waiting = self._waiting, {}
            self._work.create_task(self._serve(arrived))

    async def _serve(self, arrived: dict[Guest, asyncio.Future[None]]) -> None:
        try:
            sharing: dict[tuple[str, str], list[Guest]] = {}
            for rig in arrived:
                for lns in () if rig.has_own_server else rig.setup.servers:
                    sharing.setdefault((lns, rig.setup.region.name), []).append(rig)
            for (lns, _), rigs in sharing.items():
                program = self.new_lns(lns, rigs[0].setup.region)
                devices = (device for rig in rigs for device in rig.setup.devices.values())
                await begin(program, [d.provisioned for d in devices if d.provisioned.known])
                for rig in rigs:
                    rig.use(program)
                self._shared.append(program)
        except Exception as error:
            for begins in arrived.values():
                begins.set_exception(error)
        else:
            for begins in arrived.values():
                begins.set_result(None)

    # --- what they share ----------------------------------------------------------------------

    def _said(self, event: Event) -> None:
        case = self._owners.get(_subject(event))
        if event["kind"] == "lns.request" and event.get("reason") == "UnknownDevice":
            case = None  # every server of this id hears what is asked of one of them
        if case is not None:
            case.collect(event)
        else:
            self.note(event)

    def note(self, event: Event) -> None:
        """Write down what is of no case."""
        source, kind = event["source"], event["kind"]
        self.capture.record(source, kind, contents(event), t_us=event["t_us"])

    def _heard(self, topic: str, payload: bytes, properties: dict[str, str]) -> None:
        case = self._owners.get(_device_of(topic))
        self.witness(case).hear(topic, json.loads(payload), properties)

    def witness(self, case: Case | None) -> Witness:
        """Who hears what servers tell the application of the devices of a case, or of others."""
        record: Record = self.capture.record if case is None else case.record
        return self._witnesses.setdefault(case, Witness(record))

    def _stalled(self, late_us: int) -> None:
        self._stalled_us = now_us()
        event = self.capture.record("bench", "host.stalled", {"late_us": late_us})
        for case in self._cases:
            case.witness(event)


def _places(rig: Guest) -> int:
    programs = rig.consumer_count + (len(rig.setup.servers) if rig.has_own_server else 0)
    return 1 + PLACES_OF_A_PROGRAM * programs


def _subject(event: Event) -> Eui:
    found = event.get("station") or event.get("dev_eui")
    return Eui(found) if found else _device_of(event.get("topic", ""))


def _device_of(topic: str) -> Eui:
    return Eui("".join(topic.split("/")[2:3]))


async def begin(program: FollowedLns, devices: Sequence[Provisioned]) -> None:
    """Start a network server with devices and the sessions that they begin with."""
    sessions = [session for device in devices if (session := device.stored)]
    await program.start_with([device.record for device in devices], sessions)


@asynccontextmanager
async def heard(
    url: str, name: str, take: Callable[[str, bytes, dict[str, str]], None]
) -> AsyncIterator[None]:
    """Let all that servers publish at a broker be taken, uplinks and what devices tell."""
    async with AsyncExitStack() as keep:
        for ending in (UP_TOPIC, STATUS_TOPIC):
            subscription = Subscription(
                broker(url),
                f"lorawan/+/+{ending}",
                name + ending.replace("/", "-"),
                take,
                packet_bytes_max=HELD_PACKET_BYTES_MAX,
            )
            await keep.enter_async_context(subscription)
        yield


def by_way_of(url: str, port: int) -> str:
    """The same URL, but of a relay on this host."""
    parts = urlsplit(url)
    login, at, _ = parts.netloc.rpartition("@")
    return urlunsplit(parts._replace(netloc=f"{login}{at}{LOOPBACK}:{port}"))


def subfolder(folder: Path, name: str) -> Path:
    made = folder / name
    made.mkdir(mode=0o700)
    return made


class Trust:
    """One throw-away authority for all of a run, its files in `folder`.

    Servers ask every station for a certificate of its own.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._authority = Authority()
        self._stations: dict[Eui, StationTls] = {}
        write_server_files(folder, self._authority, LOOPBACK)

    @property
    def settings(self) -> dict[str, str]:
        """The section `[tls]` of a network server."""
        names = {"cert": "server.crt", "key": "server.key", "client_ca": "stations-ca.crt"}
        return {key: str(self._folder / name) for key, name in names.items()}

    def server(self) -> ssl.SSLContext:
        """What a listener for stations shows and asks for."""
        return server_context(*(Path(path) for path in self.settings.values()))

    def station(self, station: Eui) -> StationTls:
        """What a station trusts and shows."""
        if station not in self._stations:
            self._authority.client(station).write(self._folder, station)
            crt, key = (self._folder / f"{station}.{suffix}" for suffix in ("crt", "key"))
            self._stations[station] = StationTls(self._folder / "stations-ca.crt", crt, key)
        return self._stations[station]
