"""A station by the name a scenario knows: the tap on its link, and what is said in its name.

Frames that no device sends now are delivered by one: said again, built by the bench, or forged.
"""

from collections.abc import Sequence
from typing import Any, TypedDict

from bench.capture.reading import Event
from bench.clock import until
from bench.device.interfaces import NOT_JOINED, CommandRefused, Joining, Sent
from bench.inspection.requests import OF_LINKS
from bench.plan import Item, needs
from bench.rig.case_setup import LNS, CaseSetup
from bench.rig.interfaces import CaseStation, Frame, RigDevice, Stations
from bench.rig.provisioning import PAYLOAD
from bench.station.tap import Tap, frame_id_of
from bench.verdict import wire
from bench.verdict.case import fault_fields
from bench.verdict.expectation import LINK
from bench.verdict.owner import ScenarioMistake
from bench.verdict.wire import json_of, reception_in
from bench.virtual import crafted
from bench.virtual.air import uplink_in
from bench.virtual.crafted import Identity
from bench.virtual.lorawan.air_interface import Keys
from bench.virtual.lorawan.channel_plan import Lora, channel_plan
from bench.virtual.lorawan.join_frames import JoinRequest, read_join_accept, session_keys
from lns.clock import now_us
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import DataRate, Region

RSSI_DBM = -80
SNR_DB = 7.5
DATA_RATE = DataRate(7, 125_000)


class Signal(TypedDict):
    """Data rate, frequency and strength of a reception."""

    dr: int
    freq_hz: int
    rssi_dbm: int
    snr_db: float


def reception_text(
    phy: bytes, region: Region, xtime: int, *, dr: int | None = None, freq_hz: int | None = None
) -> str:
    """The text of a station that has heard this frame at `xtime`.

    By default with SF7 on the first channel that the devices of this bench use in the region.
    """
    heard = first_channel(region)
    text = wire.frame_told(
        phy,
        dr=heard["dr"] if dr is None else dr,
        freq_hz=heard["freq_hz"] if freq_hz is None else freq_hz,
        heard=wire.Upinfo(
            rctx=0, xtime=xtime, rssi_dbm=RSSI_DBM, snr_db=SNR_DB, gpstime=0, rxtime=0.0
        ),
        ref_time=0.0,
    )
    assert text is not None, "a station would not report this frame"
    return text


def sent_text(events: Sequence[Event], station: Eui, *, late_us: int = 0) -> str:
    """The text of a station that has sent the newest downlink that it was handed, so late in RX1.

    LookupError where it was handed none.
    """
    for event in reversed(events):
        if event["kind"] != "station.text" or event["station"] != station:
            continue
        wanted = wire.wanted(wire.understood(event["text"]))
        if event["direction"] == "up" or wanted is None:
            continue
        assert wanted.xtime, "only an answer has a window"
        xtime = wanted.xtime + wanted.rx_delay_s * 1_000_000 + late_us
        text = wire.sent_told(wanted, dr=0, freq_hz=868_100_000, xtime=xtime, up_us=0, gpstime=0)
        assert text is not None, "no device has a DevEUI of zeros"
        return text
    raise LookupError("this station was handed no downlink")


def first_channel(region: Region) -> Signal:
    """How a station hears what `reception_text` tells by default."""
    plan = channel_plan(region.name)
    freq_hz, dr = plan.own_channels[0].freq_hz, plan.up_dr(Lora(DATA_RATE.sf, DATA_RATE.bw_hz))
    assert dr is not None, "every region has SF7 in 125 kHz"
    return {"dr": dr, "freq_hz": freq_hz, "rssi_dbm": RSSI_DBM, "snr_db": SNR_DB}


def last_heard_us(events: Sequence[Event], frame_id: str) -> int:
    """When a reception of this frame left a tap last (µs); LookupError if none ever did."""
    for event in reversed(events):
        if event["kind"] != "station.text" or event["direction"] != "up" or "dropped" in event:
            continue
        if frame_id_of(event["text"]) == frame_id:
            return int(event["t_us"])
    raise LookupError(f"no station has delivered {frame_id} yet, so it cannot be replayed")


def sessions_opened(events: Sequence[Event], identity: Identity) -> list[tuple[str, Keys]]:
    """The sessions that join accepts have opened for a device, as who has its key can tell."""
    assert identity.app_key is not None
    sessions = []
    dev_nonces: dict[int, int] = {}
    for event in events:
        if event["kind"] != "station.text":
            continue
        if event["direction"] == "up":
            uplink = reception_in(event["text"])
            request = None if uplink is None else uplink.frame
            if isinstance(request, JoinRequest) and request.dev_eui == identity.dev_eui:
                assert uplink is not None
                dev_nonces[uplink.xtime] = request.dev_nonce
            continue
        order = wire.wanted(json_of(event["text"]) or {})
        if order is None or order.xtime not in dev_nonces:
            continue
        accept = read_join_accept(identity.app_key, order.pdu)
        if accept is None:
            continue
        keys = session_keys(
            identity.app_key, accept.join_nonce, accept.net_id, dev_nonces[order.xtime]
        )
        sessions.append((accept.dev_addr, keys))
    return sessions


LINK_US = 2_000


class TappedStation(CaseStation):
    """One station of a case, virtual or real, with the tap of that case on its link.

    `can`: with what the bench can equip it.
    """

    can: frozenset[str] = frozenset()

    def __init__(self, name: str, eui: Eui, setup: CaseSetup) -> None:
        self.name = name
        self.eui = eui
        self.longest_delay_us = 0
        self.weaker_db = 0
        self.server = setup.servers[LNS]
        self.setup = setup
        self.tap = Tap(eui, lambda: self.server.connect(eui), setup.record, latency_us=LINK_US)

    def must_have(self, what: str) -> None:
        """RuntimeError where the bench cannot equip it so."""
        if what not in self.can:
            raise RuntimeError(f"station {self.name}: the bench has not {what} there")

    # --- its link --------------------------------------------------------------------------

    def delay_uplinks(self, us: int, receptions: int | None = None) -> None:
        self.tap.delay_up(self._note(us), receptions)

    def drop_uplinks(self, receptions: int) -> None:
        self.tap.drop_up(receptions)

    def lose_clock(self, answers: int) -> None:
        self.tap.drop_clock(answers)

    def repeat_uplinks(self, after_us: int, times: int = 1) -> None:
        self.tap.repeat_up(self._note(after_us, times), times)

    def clone_uplinks_to(self, station: str, after_us: int) -> None:
        other = self.setup.station(station).tap
        self.tap.clone_to(other, self._note(after_us))

    def suppress_downlinks(self, downlinks: int) -> None:
        self.tap.suppress_down(downlinks)

    def delay_downlinks(self, us: int, downlinks: int | None = None) -> None:
        self.tap.delay_down(self._note(us), downlinks)

    def cut(self) -> None:
        self.tap.cut()

    def restore(self) -> None:
        self.tap.restore()

    def leave_half_open(self, noticed_after_us: int) -> None:
        noticed_us = self._note(noticed_after_us)
        self._fault("half open", noticed_after_us=noticed_us)
        self.server.leave_half_open(self.eui, noticed_us)

    def _fault(self, fault: str, **detail: object) -> None:
        """Tell of what the bench lets happen to this station."""
        fields = fault_fields("tap", fault, detail, station=self.eui)
        self.setup.record("bench", "fault.begin", fields)

    def _note(self, us: int, times: int = 1) -> int:
        us = self.setup.retimed(us)
        self.longest_delay_us = max(self.longest_delay_us, us * times)
        return us


_UP_WITHIN_US = 60_000_000
_UNDER_WAY_US = 1_000_000
"""How long after the bench has parted them a link may be lost for that."""
_ASKED_AGAIN_WITHIN_US = 10_000_000


class GatewayAway(Exception):
    """A station does not come to its network server in time."""


class ServerSilent(Exception):
    """A network server says nothing where it has to: to a station that begins, of a downlink."""


async def until_stations_are_up(setup: CaseSetup, lns: str | None = None) -> None:
    """Wait until stations hear and are heard, all or those of a server; GatewayAway, ServerSilent.

    Nobody waits for one whose link a scenario has taken away.
    """
    servers = [setup.server(lns)] if lns is not None else [*setup.servers.values()]
    of_them = [station for station in setup.stations.values() if station.server in servers]
    stations = [station for station in of_them if not station.tap.is_parted]

    def away() -> GatewayAway:
        for station in stations:
            _blame_server(setup, station)
        missing = ", ".join(station.name for station in stations if not station.is_up)
        return GatewayAway(f"not connected to the network server: {missing}")

    def are_up() -> bool:
        return not [station for station in stations if not station.is_up]

    await until(are_up, _UP_WITHIN_US, away, every_us=10_000)
    await setup.pause(100_000)


def _blame_server(setup: CaseSetup, station: CaseStation) -> None:
    """ServerSilent where a station has come, and its server does not take or serve it.

    What was said before the bench parted the two counts no more: a station has to come again.
    """
    said: list[tuple[str, object]] = []
    parted_us = shown_us = -_UNDER_WAY_US
    for event in setup.case.events:
        if _parts(event, station):
            parted_us = event["t_us"]
            said.clear()
        elif event.get("station") != station.eui or event.get("dropped"):
            continue
        elif event["kind"] == LINK and event["t_us"] - parted_us > _UNDER_WAY_US:
            said.append(("down", LINK))
        elif event["kind"] == "station.text" and (fields := json_of(event["text"])) is not None:
            said.append((event["direction"], fields.get("msgtype")))
            if said[-1] == ("up", "getxtime"):
                shown_us = event["t_us"]
    who = f"{station.server.lns} has sent no"
    if station.is_up:
        return
    if ("down", LINK) in said:
        raise ServerSilent(f"{station.server.lns} has refused or ended a link of {station.name}")
    if ("up", "version") not in said:
        return
    if ("down", "router_config") not in said:
        raise ServerSilent(f"{who} router_config to {station.name}")
    # A station whose clock is not read yet answers 0, and has to be asked again, some time later.
    is_due = now_us() - shown_us > _ASKED_AGAIN_WITHIN_US
    if is_due and said.count(("down", "getxtime")) <= said.count(("up", "getxtime")):
        raise ServerSilent(f"{who} getxtime to {station.name}, or not again")


def _parts(event: Event, station: CaseStation) -> bool:
    """Whether the bench has ended a server or a link of a station, or let it come again."""
    if event["kind"] == "case.lns":
        return bool(event["event"] in ("kill", "restart"))
    is_fault = event["kind"] in ("fault.begin", "fault.end")
    return is_fault and event.get("station") == station.eui and event["fault"] in OF_LINKS


def _session_of(device: Any) -> Any:
    if device.session is None:
        raise CommandRefused(f"{device.dev_eui}: {NOT_JOINED}")
    return device.session


class InjectedFrames:
    """Lets stations deliver what nobody sends, and keeps the books of it."""

    def __init__(self, setup: CaseSetup, stations: Stations) -> None:
        self.setup = setup
        self.must_have = setup.must_have
        self._stations = stations

    @needs(Item.REPLAYER)
    async def replay(self, frame: Frame, *, by: str, after: int = 1_000_000) -> None:
        """Deliver a frame once more, `after` µs since it last reached the network server."""
        await self.setup.begin()
        await self._stations.replay(frame, by=by, after_us=self.setup.retimed(after))

    async def hear(self, phy: str, *, of: RigDevice, f_cnt: int, by: str) -> Sent:
        """Deliver a given frame of a device (hex), as if a station had just heard it."""
        await self.setup.begin()
        sent = uplink_in(of.dev_eui, bytes.fromhex(phy), f_cnt)
        self.announce(sent)
        await self._deliver_alone(sent, by)
        return sent

    async def craft(
        self,
        /,
        device: Any,
        *,
        confirmed: bool = False,
        payload: bytes = PAYLOAD,
        port: int | None = 2,
        f_cnt: int | None = None,
        f_opts: bytes = b"",
        **bits: bool,
    ) -> Sent:
        """The next frame of a device, built by the bench; nobody hears it before `say`.

        With `f_cnt` one that it sent some time ago, and that somebody recorded. `f_opts`: the MAC
        commands in its header, up to 15 bytes; on port 0 they are its payload. Without a port
        (None) it has no payload either. `bits` of its FCtrl: `adr`, `adr_ack_req`, `ack`, and
        `class_b` of who listens to beacons.
        CommandRefused, as of the device itself, where its join was not accepted.
        """
        await self.setup.begin()
        session = _session_of(device)
        if f_cnt is None:
            f_cnt, session.f_cnt_up = session.f_cnt_up, session.f_cnt_up + 1
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            f_cnt,
            session=session.number,
            confirmed=confirmed,
            payload=payload,
            port=port,
            f_opts=f_opts,
            **bits,
        )
        self.announce(sent)
        return sent

    async def craft_join(
        self, device: Any, *, dev_nonce: int | None = None, join_eui: str | None = None
    ) -> Joining:
        """A join request of a device, built by the bench; nobody hears it before `say`.

        By default with the DevNonce that the device will use next, and with its own JoinEUI.
        """
        await self.setup.begin()
        nonce = device.dev_nonce + 1 if dev_nonce is None else dev_nonce
        other_eui = None if join_eui is None else eui(join_eui)
        joining = crafted.join(device.provisioned.identity, nonce, join_eui=other_eui)
        self.announce(joining)
        return joining

    @needs(Item.BURST)
    async def flood(self, device: RigDevice, *, by: str, frames: int) -> list[Sent]:
        """Let a station's radio hear so many frames of a device at one moment."""
        await self.setup.begin()
        sent = [await self.craft(device) for _ in range(frames)]
        await self._stations.flood(sent, by=by)
        await self.setup.pause(1_000_000)
        return sent

    def told(
        self, frame: Frame, *, by: str, dr: int | None = None, freq_hz: int | None = None
    ) -> str:
        """The text of a station that has just heard a frame, or believes so."""
        xtime = self.setup.station(by).tap.xtime_now()
        return reception_text(frame.phy, self.setup.region, xtime, dr=dr, freq_hz=freq_hz)

    def sent(self, *, by: str, late: int = 0) -> str:
        """The text of a station that has sent the newest downlink that it was handed.

        `late`: so many µs after RX1 opened. LookupError where it was handed none.
        """
        return sent_text(self.setup.case.events, self.setup.station(by).eui, late_us=late)

    async def say(self, text: str, *, by: str) -> None:
        """Let a station say something to the network server, whatever it is."""
        if not isinstance(text, str):
            raise ScenarioMistake(f"a station says text, not {text!r}")
        await self.setup.begin()
        self.setup.station(by).tap.inject(text)
        await self.setup.pause(0)

    async def forge(self, device: Any, *, by: str, confirmed: bool = False, octet: int = 3) -> Sent:
        """Deliver a frame in the name of a device, with a wrong octet (0 to 3) in its MIC."""
        await self.setup.begin()
        session = _session_of(device)
        sent = crafted.data(
            device.dev_eui,
            session.dev_addr,
            session.keys,
            session.f_cnt_up,
            confirmed=confirmed,
            forged=True,
            octet=octet,
        )
        self.announce(sent, genuine=False)
        await self._deliver_alone(sent, by)
        return sent

    async def forge_join(self, device: Any, *, by: str, octet: int = 3) -> Joining:
        """Deliver the device's next join request with a wrong octet (0 to 3) in its MIC."""
        await self.setup.begin()
        identity = device.provisioned.identity
        joining = crafted.join(identity, device.dev_nonce + 1, forged=True, octet=octet)
        self.announce(joining, genuine=False)
        await self._deliver_alone(joining, by)
        return joining

    def announce(self, frame: Frame, *, genuine: bool = True) -> None:
        """Note a frame that the bench made, so that the books know who sent it."""
        facts: dict[str, object] = {"dev_eui": frame.dev_eui, "frame_id": frame.frame_id}
        if isinstance(frame, Sent):
            facts |= {"session": frame.session, "f_cnt": frame.f_cnt}
        self.setup.medium.announce(frame.dev_eui, frame.phy, {**facts, "genuine": genuine})

    def deliver(self, frame: Frame, *, by: str) -> None:
        """Let a station deliver a frame now, as if it had just heard it."""
        self.setup.station(by).tap.replay(self.told(frame, by=by))

    async def _deliver_alone(self, frame: Frame, by: str) -> None:
        self.deliver(frame, by=by)
        await self.setup.pause(1_000_000)

    def sessions_opened(self, device: Any) -> list[tuple[str, Keys]]:
        """The sessions that join accepts have opened for a device, oldest first."""
        return sessions_opened(self.setup.case.events, device.identity)
