"""A network server with stations on links in memory, in virtual time.

Everything goes in as the text of a station and comes out as text, message or event.
"""

import asyncio
import json
import random
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime

from bench.chance import stream
from bench.clock import run
from bench.station.tap import MemoryLink, link_pair
from lns.clock import Utc, now_us, utc_counted_from
from lns.dedup.claim import Claims, OnOutage
from lns.dedup.claiming import SharedSessions
from lns.delivery.publisher import Message, UpstreamUnavailable
from lns.events import Claimed, Downlink, Event, Evicted, Outcome
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, MType, build_data, parse
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import EU868, Region
from lns.network_server import NetworkServer
from lns.station.messages import Dnmsg, UpInfo
from lns.station.protocol import LinkClosed
from lns.store.memory import MemoryStore
from lns.uplink.registry import Activation, EndDevice, SessionStore
from tests.station_texts import GetXtime, frame_text, parse_down, version_text, xtime_report_text

WEST, EAST, NORTH = (Eui(f"0016C001F150000{n}") for n in (1, 2, 3))
NAMES = {WEST: "west", EAST: "east", NORTH: "north"}
START_US = 1_000_000
EPOCH = datetime(2026, 11, 20, 2, 0, 0, tzinfo=UTC)

NWK_S_KEY = bytes.fromhex("44024241ED4CE9A68C6A8BC055233FD3")
APP_S_KEY = bytes.fromhex("EC925802AE430CA77FD3DD73CB2CC588")
APP_KEY = bytes.fromhex("00112233445566778899AABBCCDDEEFF")
KEYS = SessionKeys(NWK_S_KEY, APP_S_KEY)
DEV_ADDR = DevAddr("01ABCDEF")
JOIN_EUI = Eui("70B3D57ED0000000")

ALPHA = EndDevice(
    name="alpha",
    dev_eui=Eui("70B3D57ED0000001"),
    activation=Activation.ABP,
    dev_addr=DEV_ADDR,
    session_keys=KEYS,
)
GAMMA = EndDevice(
    name="gamma",
    dev_eui=Eui("70B3D57ED0000003"),
    activation=Activation.OTAA,
    join_eui=JOIN_EUI,
    app_key=APP_KEY,
)

Words = tuple[str, str, str, str, str]


def uplink(
    f_cnt: int,
    *,
    confirmed: bool = False,
    payload: bytes = b"\xc0\xff\xee",
    f_port: int | None = 2,
    f_opts: bytes = b"",
    adr: bool = False,
    adr_ack_req: bool = False,
    keys: SessionKeys = KEYS,
    dev_addr: DevAddr = DEV_ADDR,
) -> bytes:
    """A data uplink of `ALPHA`, or of whoever has these keys."""
    return build_data(
        MType.CONFIRMED_UP if confirmed else MType.UNCONFIRMED_UP,
        dev_addr=dev_addr,
        f_cnt=f_cnt,
        keys=keys,
        f_port=f_port,
        payload=payload if f_port is not None else b"",
        f_opts=f_opts,
        adr=adr,
        adr_ack_req=adr_ack_req,
    )


@dataclass
class Application:
    """Takes messages in memory; `refusals` and `delays_us` are for the next ones."""

    messages: list[Message] = field(default_factory=list)
    refused: list[Message] = field(default_factory=list)
    refusals: int = 0
    delays_us: list[int] = field(default_factory=list)

    async def publish(self, message: Message) -> None:
        refused = self.refusals > 0
        self.refusals -= refused
        if self.delays_us:
            await asyncio.sleep(self.delays_us.pop(0) / 1_000_000)
        (self.refused if refused else self.messages).append(message)
        if refused:
            raise UpstreamUnavailable("told to refuse")

    @property
    def ids(self) -> list[str]:
        return [message.message_id for message in self.messages]


class Station:
    """A station's end of a link: tells what it heard, keeps what it was told.

    Its clock is a session and the virtual time; `late_us` after the end of a frame it says so.
    """

    def __init__(self, eui: Eui, session: int) -> None:
        self.eui = eui
        self.session = session
        self.texts: list[str] = []
        self.link: MemoryLink

    def xtime_now(self) -> int:
        return self.session << 48 | now_us() + 10_000_077

    @property
    def dnmsgs(self) -> list[Dnmsg]:
        return [found for text in self.texts if isinstance(found := parse_down(text), Dnmsg)]

    @property
    def answers(self) -> list[Data]:
        """The data downlinks this station was given, their MIC not proven."""
        frames = [parse(dnmsg.pdu) for dnmsg in self.dnmsgs]
        return [frame for frame in frames if isinstance(frame, Data)]

    async def converse(self, link: MemoryLink) -> None:
        self.link = link
        await link.send(version_text("2.0.6(linux/std)"))
        try:
            while True:
                text = await link.receive()
                self.texts.append(text)
                if isinstance(parse_down(text), GetXtime):
                    await link.send(xtime_report_text(self.xtime_now(), mux_time=0.0, uptime_us=0))
        except LinkClosed:
            return

    async def says(self, text: str) -> None:
        """Send a text and give the server a millisecond."""
        await self.link.send(text)
        await asyncio.sleep(0.001)

    def text(
        self,
        phy: bytes,
        *,
        late_us: int = 0,
        dr: int = 5,
        freq_hz: int = 868_100_000,
        xtime: int | None = None,
        rctx: int = 0,
        snr_db: float = 9.5,
    ) -> str:
        """The text for a frame that ended `late_us` ago."""
        info = UpInfo(
            rctx=rctx,
            xtime=self.xtime_now() - late_us if xtime is None else xtime,
            rssi_dbm=-71,
            snr_db=snr_db,
        )
        text = frame_text(phy, dr=dr, freq_hz=freq_hz, upinfo=info)
        assert text is not None
        return text

    async def hears(self, phy: bytes, **how: int) -> None:
        """Tell of a frame and give the server a millisecond."""
        await self.says(self.text(phy, **how))


class Network:
    """A network server, three stations and an application; `events` is all the server reported."""

    def __init__(
        self,
        *devices: EndDevice,
        region: Region = EU868,
        store: SessionStore | None = None,
        entropy: random.Random | None = None,
        retention_us: int = 60_000_000,
        entries_max: int = 1000,
        lns: str = "lns-a",
        claims: Claims | None = None,
        on_outage: OnOutage = OnOutage.OPEN,
        shared: SharedSessions | None = None,
        utc: Utc | None = None,
    ) -> None:
        self.devices = devices
        self.lns = lns
        self._utc = utc or utc_counted_from(EPOCH)
        self._claims = claims
        self._on_outage = on_outage
        self._shared = shared
        self.region = region
        self.store = store or MemoryStore()
        self.application = Application()
        self.events: list[Event] = []
        self._entropy = entropy or stream(1, "lns")
        self._retention_us = retention_us
        self._entries_max = entries_max
        self.west, self.east, self.north = Station(WEST, 17), Station(EAST, 34), Station(NORTH, 51)
        self.server = self._server()

    def _server(self) -> NetworkServer:
        return NetworkServer(
            self.lns,
            self.region,
            self.devices,
            store=self.store,
            application=self.application,
            record=self.events.append,
            utc=self._utc,
            entropy=self._entropy,
            retention_us=self._retention_us,
            entries_max=self._entries_max,
            claims=self._claims,
            on_outage=self._on_outage,
            shared=self._shared,
        )

    async def connect(self, station: Station, tasks: asyncio.TaskGroup) -> None:
        """A new link of a station; one that it has already stays open."""
        near, far = link_pair()
        tasks.create_task(self.server.serve(station.eui, far))
        tasks.create_task(station.converse(near))
        await asyncio.sleep(0.001)

    async def play(self, scenario: Callable[["Network"], Awaitable[None]]) -> None:
        """Connect the stations, play, let everything under way come to its end."""
        async with asyncio.TaskGroup() as self.tasks:
            for station in (self.west, self.east, self.north):
                await self.connect(station, self.tasks)
            await scenario(self)
            await asyncio.sleep(0.001)
            for station in (self.west, self.east, self.north):
                station.link.close()

    async def restart(self) -> None:
        """The server restarts with the store it had; the stations connect again."""
        for station in (self.west, self.east, self.north):
            station.link.close()
        await asyncio.sleep(0.001)
        self.server = self._server()
        for station in (self.west, self.east, self.north):
            await self.connect(station, self.tasks)

    @property
    def outcomes(self) -> list[Outcome]:
        return [event for event in self.events if isinstance(event, Outcome)]

    @property
    def downlinks(self) -> list[Downlink]:
        return [event for event in self.events if isinstance(event, Downlink)]

    @property
    def claims(self) -> list[Claimed]:
        return [event for event in self.events if isinstance(event, Claimed)]

    @property
    def evictions(self) -> list[Evicted]:
        return [event for event in self.events if isinstance(event, Evicted)]

    @property
    def words(self) -> list[Words]:
        """Of each reception: station, status, upstream, reason, answer; "-" for absent."""
        return [
            (
                NAMES[outcome.station],
                outcome.status or "-",
                outcome.upstream,
                outcome.reason or "-",
                outcome.answer,
            )
            for outcome in self.outcomes
        ]

    @property
    def bodies(self) -> list[dict[str, object]]:
        """What the application got, as JSON says it."""
        return [
            json.loads(json.dumps(message.body(number)))
            for number, message in enumerate(self.application.messages, start=1)
        ]


def wait(seconds: float) -> Awaitable[None]:
    """Let virtual time pass."""
    return asyncio.sleep(seconds)


def serve(
    scenario: Callable[[Network], Awaitable[None]], *devices: EndDevice, **settings: object
) -> Network:
    """Play a scenario against a network server with these devices (`ALPHA` alone by default)."""
    network = Network(*(devices or (ALPHA,)), **settings)  # type: ignore[arg-type]
    run(network.play(scenario), start_us=START_US)
    return network
