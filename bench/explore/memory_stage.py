"""How fast can a history be played? Network servers in this process, and nothing around them.

Servers are real, with a store in memory as the simulated rig has it; stations are the least that a
server can talk to: they tell what they are told to, answer `getxtime`, and report every downlink
on the air at once. Nothing is captured.
"""

import asyncio
from collections import deque
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import cache

from bench.chance import stream
from bench.clock import VirtualTimeLoop
from bench.explore.history import SERVERS, Device, History, StationRestart
from bench.explore.play import DR, FREQ_HZ, ON_AIR_US, Conductor, Secrets, reception_text
from bench.explore.trace import Delivered, Frame, Kept, Trace, Words
from bench.rig.in_memory.shared_store import FarStore, SharedStore, StoreWire
from bench.verdict import wire
from lns.clock import now_us
from lns.dedup.claim import OnOutage
from lns.dedup.session import Session
from lns.dedup.strategy import Strategy
from lns.delivery.publisher import ForApplication, Message, UpstreamUnavailable
from lns.downlink.downlink_queue import ApplicationDownlink
from lns.events import Event, Failure, Outcome
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import Eui, dev_addr
from lns.lorawan.region import EU868
from lns.network_server import NetworkServer
from lns.station.protocol import LinkClosed
from lns.uplink.registry import Activation, EndDevice, LoRaWanVersion

START_US = 1_000_000
RETENTION_US = 60_000_000
CONNECTING_US = 1_000
EPOCH = datetime(2026, 1, 1, tzinfo=UTC)
JOIN_EUI = Eui("70B3D57ED0000000")
COUNTER_AT_START_US = 77
_VERSION = wire.version_told(station="2.0.6(linux/std)", firmware=None, features=())


def play_in_memory(history: History) -> Trace:
    """Play one history to its end, on a virtual clock of its own.

    Without `asyncio.Runner`, whose look after Ctrl-C takes a tenth of a history.
    """
    loop = VirtualTimeLoop(START_US)
    playing = loop.create_task(_play(history, loop))
    try:
        return loop.run_until_complete(playing)
    except BaseException:
        for task in asyncio.all_tasks(loop):
            task.cancel()
        with suppress(Exception, asyncio.CancelledError):
            loop.run_until_complete(asyncio.wait(asyncio.all_tasks(loop) or {playing}))
        raise
    finally:
        loop.close()


async def _play(history: History, loop: VirtualTimeLoop) -> Trace:
    async with asyncio.TaskGroup() as tasks:
        stage = MemoryStage(history, tasks, loop)
        await stage.connect()
        trace = await Conductor(history, stage).play()
        stage.close()
        return trace


class MemoryLink:
    """The server's end of a link; the station behind it reads what is sent at once."""

    closed = False

    def __init__(self, station: "Station") -> None:
        self._station = station
        self._texts: deque[str] = deque()
        self._reader: asyncio.Future[None] | None = None

    def bring(self, text: str) -> None:
        if self.closed:
            return
        self._texts.append(text)
        self._wake()

    async def send(self, text: str) -> None:
        """Hand over one text; LinkClosed if the connection is over."""
        if self.closed:
            raise LinkClosed("the link is closed")
        self._station.read(self, text)

    async def receive(self) -> str:
        while not self._texts:
            if self.closed:
                raise LinkClosed("the link is closed")
            self._reader = asyncio.get_running_loop().create_future()
            await self._reader
            self._reader = None
        return self._texts.popleft()

    def close(self) -> None:
        self.closed = True
        self._texts.clear()
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None and not self._reader.done():
            self._reader.set_result(None)


class Station:
    """A station without a radio; remembers its session and every downlink that it was given."""

    def __init__(self, eui: Eui, session: int) -> None:
        self.eui = eui
        self.session = session
        self.is_away = False
        self.downlinks: list[wire.Wanted] = []
        self.link: MemoryLink | None = None
        self._is_mute = False
        self._began_us = now_us()
        self._counter_at_start_us = COUNTER_AT_START_US

    def xtime_now(self) -> int:
        return self.session << 48 | now_us() - self._began_us + self._counter_at_start_us

    def begin(self, *, again: bool, mute: bool = False) -> None:
        """Begin a new session, of the same byte or of the next one."""
        self._is_mute = mute
        self.session = self.session if again else self.session % 255 + 1
        self._began_us = now_us()
        self._counter_at_start_us += COUNTER_AT_START_US  # no two frames have one xtime

    def read(self, link: MemoryLink, text: str) -> None:
        """Take what the server says, and answer it."""
        if text.startswith('{"msgtype":"router_config"'):
            return
        if text.startswith('{"msgtype":"getxtime"'):
            if not self._is_mute:
                xtime = self.xtime_now()
                link.bring(wire.clocks_told(xtime, mux_time=0.0, up_us=0, utc_us=0))
            return
        said = wire.wanted(wire.understood(text))
        if said is not None:
            self.downlinks.append(said)
            xtime = self.xtime_now()
            sent = wire.sent_told(said, dr=DR, freq_hz=FREQ_HZ, xtime=xtime, up_us=0, gpstime=0)
            assert sent is not None, "no device has a DevEUI of zeros"
            link.bring(sent)


class Server:
    """One network server with its stations and its application."""

    def __init__(self, stage: "MemoryStage", number: int) -> None:
        self.lns = f"lns-{SERVERS[number].lower()}"
        self._stage = stage
        # The model has done at once what a server asks for.
        self.wire = StoreWire(self.lns, lambda *_: None, asking=0)
        self.stations = {
            station: Station(Eui(f"0016C001F15{server}000{station}"), 16 * server + station + 1)
            for server, station in stage.history.places
            if server == number
        }
        self.events: list[Event] = []
        self.messages: list[Message] = []
        self.slow_us = 0
        self.refuses = False
        self._starts = 0
        self.server = self._new_server()

    async def publish(self, message: ForApplication) -> None:
        """Take one message, as slowly as was asked for; UpstreamUnavailable."""
        assert isinstance(message, Message)
        slow_us, self.slow_us = self.slow_us, 0
        refuses, self.refuses = self.refuses, False
        if slow_us:
            await asyncio.sleep(slow_us / 1_000_000)
        if refuses:
            raise UpstreamUnavailable("told to refuse")
        self.messages.append(message)

    def begin_again(self) -> None:
        self.slow_us, self.refuses = 0, False
        self.server = self._new_server()

    def connect(self, station: Station) -> None:
        station.link = MemoryLink(station)
        self._stage.tasks.create_task(self.server.serve(station.eui, station.link))
        station.link.bring(_VERSION)

    def _new_server(self) -> NetworkServer:
        self._starts += 1
        stage = self._stage
        store = FarStore(self.lns, stage.store, self.wire)
        shared = stage.store.claims is not None
        return NetworkServer(
            self.lns,
            EU868,
            stage.devices,
            store=store,
            application=self,
            record=self.events.append,
            utc=lambda: EPOCH + timedelta(microseconds=now_us()),
            entropy=stream(1, self.lns, str(self._starts)),
            retention_us=RETENTION_US,
            entries_max=1000,
            claims=store if shared else None,
            shared=store if shared else None,
            on_outage=OnOutage.CLOSED if stage.history.closed else OnOutage.OPEN,
        )


class MemoryStage:
    """Plays in this process; see `bench.explore.play.Stage`."""

    retention_us = RETENTION_US
    on_air_us = ON_AIR_US

    def __init__(self, history: History, tasks: asyncio.TaskGroup, loop: VirtualTimeLoop) -> None:
        self.history = history
        self.tasks = tasks
        self._loop = loop
        self.devices = [device_record(n, device) for n, device in enumerate(history.devices)]
        self.store = SharedStore(retention_us=RETENTION_US)
        if history.servers > 1:
            self.store.begin_claims()
        for device, facts in zip(self.devices, history.devices, strict=True):
            if device.session_keys is not None and facts.begins_at:
                assert device.dev_addr is not None
                begun = Session(
                    dev_eui=device.dev_eui,
                    dev_addr=device.dev_addr,
                    keys=device.session_keys,
                    f_cnt_up=facts.begins_at - 1,
                )
                self.store.of("lns-a").preset(device.dev_eui, (begun,))
        self.servers = [Server(self, number) for number in range(history.servers)]
        self._numbers: dict[tuple[Eui, int], int] = {}

    async def connect(self) -> None:
        for server in self.servers:
            for station in server.stations.values():
                server.connect(station)
        await self.until(now_us() + CONNECTING_US)

    def close(self) -> None:
        for server in self.servers:
            _hang_up(server)

    async def until(self, us: int) -> None:
        if not self._loop.skip_to(us):
            await asyncio.sleep(max(0, us - now_us()) / 1_000_000)

    def secrets(self, device: int) -> Secrets:
        record = self.devices[device]
        return Secrets(
            record.dev_eui,
            JOIN_EUI,
            record.app_key or b"",
            record.dev_addr or dev_addr("00000000"),
            record.session_keys,
        )

    def text(self, server: int, station: int, frame: Frame, number: int) -> str:
        told_by = self.servers[server].stations[station]
        xtime = told_by.xtime_now()
        self._numbers[told_by.eui, xtime] = number
        return reception_text(frame, xtime, number)

    async def tell(self, server: int, station: int, text: str) -> None:
        link = self.servers[server].stations[station].link
        assert link is not None
        link.bring(text)

    async def restart_server(self, server: int) -> None:
        restarted = self.servers[server]
        _hang_up(restarted)
        await self.until(now_us() + CONNECTING_US)
        restarted.begin_again()
        for station in restarted.stations.values():
            if not station.is_away:
                station.begin(again=False)
                restarted.connect(station)
        await self.until(now_us() + CONNECTING_US)

    async def take_away(self, server: int, station: int) -> None:
        gone = self.servers[server].stations[station]
        assert gone.link is not None
        gone.link.close()
        gone.is_away = True

    async def bring_back(self, step: StationRestart) -> None:
        back = self.servers[step.server].stations[step.station]
        back.is_away = False
        back.begin(again=step.again, mute=step.mute)
        self.servers[step.server].connect(back)

    def disturb_upstream(self, server: int, slow_us: int, *, refused: bool) -> None:
        self.servers[server].slow_us, self.servers[server].refuses = slow_us, refused

    def disturb_store(self, server: int, late_us: int) -> None:
        wire = self.servers[server].wire
        wire.mend()
        if late_us:
            wire.delay(late_us)
        else:
            wire.cut()

    async def restore_store(self, server: int) -> None:
        self.servers[server].wire.mend()

    def empty_store(self) -> None:
        self.store.lose_everything()

    async def want_downlink(self, server: int, device: int) -> None:
        wanted = ApplicationDownlink(7, b"on")
        self.servers[server].server.enqueue(self.devices[device].dev_eui, wanted)

    def downlinks(self) -> list[tuple[int, bytes]]:
        return [
            (self._numbers[station.eui, said.xtime], said.pdu)
            for server in self.servers
            for station in server.stations.values()
            for said in station.downlinks
        ]

    def keep(self, trace: Trace, devices: int) -> None:
        # Whoever looks is one more server: the others are not to know that it looked.
        store = self.store.of("nobody" if len(self.servers) > 1 else "lns-a")
        for number in range(devices):
            sessions = store.kept(self.devices[number].dev_eui)
            came = tuple(
                (s.dev_addr, s.life, -1 if s.f_cnt_up is None else s.f_cnt_up) for s in sessions
            )
            trace.kept.append(Kept(number, now_us(), came))

    def see(self, trace: Trace) -> None:
        for number, server in enumerate(self.servers):
            for event in server.events:
                if isinstance(event, Outcome):
                    self._see_outcome(trace, event)
                elif isinstance(event, Failure):
                    trace.failures.append(f"{event.during}: {event.error}")
            for message in server.messages:
                trace.delivered.append(
                    Delivered(
                        round(-message.rssi_dbm),
                        number,
                        message.message_id,
                        message.remove_duplicates_key,
                        message.dup_msg,
                        message.unverified,
                    )
                )

    def _see_outcome(self, trace: Trace, outcome: Outcome) -> None:
        number = (
            None if outcome.xtime is None else self._numbers.get((outcome.station, outcome.xtime))
        )
        if number is None:
            trace.strays += 1
            return
        words = Words(
            outcome.status or "-",
            outcome.upstream.value,
            outcome.reason or "-",
            outcome.answer.value,
            outcome.level2.value,
        )
        trace.outcomes[number].append(words)


@cache
def device_record(number: int, device: Device) -> EndDevice:
    """The record of a device; keys are of no interest but differ. There are a few hundred."""
    chance = stream(number, "explored device")
    key, dev_eui = chance.randbytes(16), Eui(f"70B3D57ED000010{number}")
    facts = {
        "name": f"device-{'abc'[number]}",
        "dev_eui": dev_eui,
        "strategy": Strategy(device.strategy),
        "f_cnt_bits": device.bits,
        "lorawan": LoRaWanVersion.V1_0_4 if device.counts else LoRaWanVersion.V1_0_3,
        "server": None if device.pinned is None else f"lns-{SERVERS[device.pinned].lower()}",
    }
    if device.kind == "otaa":
        return EndDevice(activation=Activation.OTAA, join_eui=JOIN_EUI, app_key=key, **facts)  # type: ignore[arg-type]
    return EndDevice(
        activation=Activation.ABP,
        dev_addr=dev_addr(f"0100000{9 if device.alike else number}"),
        session_keys=SessionKeys(key, chance.randbytes(16)),
        relaxed_f_cnt=device.kind == "relaxed",
        **facts,  # type: ignore[arg-type]
    )


def _hang_up(server: Server) -> None:
    for station in server.stations.values():
        if station.link is not None:
            station.link.close()
