"""How is a history played, whatever the servers stand on?

`Conductor` walks through the steps: it builds the frames, knows who hears them and when, and
writes down what was done. A `Stage` carries it out: in memory (`bench.explore.memory_stage`) or on
a rig (`bench.explore.rig_stage`).
"""

import heapq
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import Protocol

from bench.explore.history import (
    F_CNT_MAX,
    Again,
    Device,
    Down,
    Empty,
    Forge,
    Heard,
    History,
    Join,
    OnAir,
    Replay,
    Restart,
    Send,
    ServerRestart,
    Skip,
    StationRestart,
    Step,
    Store,
    Upstream,
    Wait,
)
from bench.explore.trace import (
    Answered,
    DownlinkWanted,
    Frame,
    RadioLost,
    RadioRestarted,
    Reception,
    ServerRestarted,
    StoreDisturbed,
    StoreEmptied,
    Trace,
    UpstreamDisturbed,
)
from bench.verdict.wire import Upinfo, frame_told
from bench.virtual.lorawan.air_interface import Kind, SessionKeyPair, data_frame, read_data
from bench.virtual.lorawan.join_frames import join_request, read_join_accept, session_keys
from lns.clock import now_us
from lns.lorawan.identifiers import DevAddr, Eui

DR, FREQ_HZ = 5, 868_100_000
ON_AIR_US = 60_000
JOINING_US = 400_000
BEFORE_RESTART_US = 4_000_000
AFTER_RESTART_US = 20_000
SETTLE_US = 5_000_000
GAP_US = 1  # no two things happen at one moment
ODD_US = 333  # nor when something has waited for a slow store or application
MIC_BYTES = 4
DEV_NONCE_MAX = 0xFFFF
LINK_CHECK_REQ = b"\x02"


@dataclass(frozen=True, slots=True)
class Secrets:
    """What a device was provisioned with; for ABP its only session."""

    dev_eui: Eui
    join_eui: Eui
    app_key: bytes = field(repr=False)
    dev_addr: DevAddr
    keys: SessionKeyPair | None = field(default=None, repr=False)


def reception_text(frame: Frame, xtime: int, number: int) -> str:
    """What a station tells of a frame, spelled by the bench; its RSSI is its number."""
    heard = Upinfo(rctx=0, xtime=xtime, rssi_dbm=-number, snr_db=9.5, gpstime=0, rxtime=0.0)
    text = frame_told(frame.phy, dr=DR, freq_hz=FREQ_HZ, heard=heard, ref_time=0.0)
    assert text is not None, "a station would not report this frame"
    return text


class Stage(Protocol):
    """Network servers with stations, and a clock."""

    retention_us: int
    on_air_us: int

    async def until(self, us: int) -> None:
        """Let everything that is under way go on until then."""

    def secrets(self, device: int) -> Secrets:
        """What a device was provisioned with."""

    def text(self, server: int, station: int, frame: Frame, number: int) -> str:
        """What a station will tell of a frame that ends now; `number` names the reception."""

    async def tell(self, server: int, station: int, text: str) -> None:
        """Let a station tell it; nothing is waited for."""

    async def restart_server(self, server: int) -> None:
        """Begin a server anew; its stations are connected when this returns."""

    async def take_away(self, server: int, station: int) -> None:
        """Cut the link of a station."""

    async def bring_back(self, step: StationRestart) -> None:
        """Connect a station again, with a new radio session."""

    def disturb_upstream(self, server: int, slow_us: int, *, refused: bool) -> None:
        """Let the next message of a server take so long, or be refused."""

    def disturb_store(self, server: int, late_us: int) -> None:
        """Let the store answer a server so late, or not at all for 0."""

    async def restore_store(self, server: int) -> None:
        """Let it answer again."""

    def empty_store(self) -> None:
        """Let it know nothing any more."""

    async def want_downlink(self, server: int, device: int) -> None:
        """Let the application want a device to be sent something by a server."""

    def downlinks(self) -> list[tuple[int, bytes]]:
        """Every downlink so far, with the number of the reception that it answers."""

    def keep(self, trace: Trace, devices: int) -> None:
        """Note how far the sessions in the store have come, if that can be seen."""

    def see(self, trace: Trace) -> None:
        """Write down all that was seen."""


@dataclass(slots=True)
class Player:
    """A device as it sees itself; `session` is the number of the join that opened it."""

    secrets: Secrets
    device: Device
    f_cnt: int
    keys: SessionKeyPair | None
    dev_addr: DevAddr
    session: int = -1
    life: int = 0
    nonce: int = 0
    last: Frame | None = None

    def next_f_cnt(self, number: int = 1) -> int:
        f_cnt, self.f_cnt = self.f_cnt, self.f_cnt + number
        if self.device.bits == 16:
            self.f_cnt &= 0xFFFF
        return f_cnt


class Conductor:
    def __init__(self, history: History, stage: Stage) -> None:
        self._history = history
        self._stage = stage
        self._trace = Trace(history, stage.retention_us)
        self._due: list[tuple[int, int, Callable[[], Awaitable[None]]]] = []
        self._order = count()
        self._numbers = count(1)
        self._transmissions: list[Frame] = []
        self._by_phy: dict[bytes, Frame] = {}
        self._heard: dict[int, Frame] = {}
        self._radios: dict[tuple[int, int], int] = {}
        self._away: set[tuple[int, int]] = set()
        self._disturbed_us: dict[int, int] = {}
        self._players = [self._player(n) for n in range(len(history.devices))]
        self._time_us = 0

    async def play(self) -> Trace:
        """Play it to its end; what was done and seen."""
        self._time_us = self._trace.began_us = now_us()
        for step in self._history.steps:
            await self._do(step)
            if isinstance(step, OnAir | Wait):  # nothing else moves a counter
                self._stage.keep(self._trace, len(self._players))
        while self._due:
            await self._pass(self._due[0][0] - self._time_us)
        slowest_us = max(
            (s.slow_us for s in self._history.steps if isinstance(s, Upstream)), default=0
        )
        await self._pass(SETTLE_US + slowest_us)
        self._stage.keep(self._trace, len(self._players))
        self._stage.see(self._trace)
        self._trace.answered = [self._answered(*one) for one in self._stage.downlinks()]
        return self._trace

    def _player(self, number: int) -> Player:
        device, secrets = self._history.devices[number], self._stage.secrets(number)
        f_cnt = 0 if device.kind == "otaa" else device.begins_at
        return Player(secrets, device, f_cnt, secrets.keys, secrets.dev_addr)

    async def _pass(self, us: int) -> None:
        until_us = self._time_us + us
        while self._due and self._due[0][0] <= until_us:
            at_us, _, act = heapq.heappop(self._due)
            await self._go_to(max(at_us, self._time_us + GAP_US))
            await act()
            until_us = max(until_us, self._time_us + GAP_US)
        await self._go_to(max(until_us, self._time_us))

    async def _go_to(self, us: int) -> None:
        self._time_us = us
        await self._stage.until(us)

    def _later(self, us: int, act: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._due, (self._time_us + us, next(self._order), act))

    async def _do(self, step: Step) -> None:
        trace, stage = self._trace, self._stage
        match step:
            case Send() | Again() | Replay() | Forge() | Join():
                await self._on_air(step)
            case Restart(device, memory):
                if not memory:
                    self._forget(self._players[device])
            case Skip(device, frames):
                self._players[device].next_f_cnt(frames)
            case Down(device, server):
                trace.events.append(DownlinkWanted(self._time_us, server, device))
                await stage.want_downlink(server, device)
                await self._pass(GAP_US)
            case ServerRestart(server):
                await self._pass(BEFORE_RESTART_US)
                await stage.restart_server(server)
                trace.events.append(ServerRestarted(self._time_us, server))
                for place in sorted(set(self._radios) - self._away):
                    if place[0] == server:
                        self._new_radio(place)
                self._time_us = max(self._time_us, now_us())
                await self._pass(AFTER_RESTART_US)
            case StationRestart():
                await self._restart_station(step)
            case Upstream(server, slow_us, refused):
                slow_us += ODD_US if slow_us else 0
                disturbed = UpstreamDisturbed(self._time_us, server, slow_us, refused)
                trace.events.append(disturbed)
                stage.disturb_upstream(server, slow_us, refused=refused)
            case Store(server, lasts_us, late_us):
                late_us += ODD_US if late_us else 0
                until_us = self._time_us + lasts_us
                disturbed_store = StoreDisturbed(self._time_us, server, until_us, late_us)
                trace.events.append(disturbed_store)
                stage.disturb_store(server, late_us)
                self._disturbed_us[server] = until_us
                self._later(lasts_us, partial(self._restore_store, server))
            case Empty():
                trace.events.append(StoreEmptied(self._time_us))
                stage.empty_store()
            case Wait(us):
                await self._pass(us)

    async def _restore_store(self, server: int) -> None:
        if self._time_us >= self._disturbed_us[server]:  # or another fault has come since
            await self._stage.restore_store(server)

    def _forget(self, player: Player) -> None:
        player.last = None
        player.life += 1
        player.f_cnt = 0
        if player.device.kind == "otaa":
            player.keys = None

    async def _restart_station(self, step: StationRestart) -> None:
        place = step.server, step.station
        if place in self._away:
            return
        self._away.add(place)
        self._trace.events.append(RadioLost(self._time_us, *place))
        await self._stage.take_away(*place)

        async def come_back() -> None:
            await self._stage.bring_back(step)
            self._time_us = max(self._time_us, now_us())
            self._away.discard(place)
            self._new_radio(place, again=step.again, mute=step.mute)

        self._later(step.away_us, come_back)
        await self._pass(GAP_US)

    def _new_radio(self, place: tuple[int, int], **facts: bool) -> None:
        radio = self._radios[place] = self._radios.get(place, 0) + 1
        self._trace.events.append(RadioRestarted(self._time_us, *place, radio, **facts))

    # --- what is on the air ---------------------------------------------------------------------

    async def _on_air(self, step: OnAir) -> None:
        frame = self._frame(step)
        if frame is None:
            return
        genuine = isinstance(step, Send | Again | Join)
        if genuine:
            self._transmissions.append(frame)
        self._air(frame, step.heard, genuine=genuine)
        if isinstance(step, Join):
            await self._pass(JOINING_US)
            if not step.deaf:
                self._adopt(self._players[step.device], frame)
        else:
            await self._pass(self._stage.on_air_us)

    def _frame(self, step: OnAir) -> Frame | None:
        if isinstance(step, Replay):
            sent = self._transmissions
            return sent[-1 - step.back] if step.back < len(sent) else None
        player = self._players[step.device]
        match step:
            case Again():
                return player.last
            case Join():
                may_join = player.device.kind == "otaa" and player.nonce < DEV_NONCE_MAX
                return self._join(step.device) if may_join else None
            case Forge(device, join, _):
                return self._forge(device, join=join)
            case Send(device, confirmed, _, same, asks):
                return self._data(device, confirmed=confirmed, same=same, asks=asks)

    def _data(
        self, number: int, *, confirmed: bool, same: bool, asks: bool = False, forged: bool = False
    ) -> Frame | None:
        player = self._players[number]
        if player.keys is None or player.f_cnt > F_CNT_MAX:
            return None
        f_cnt = player.f_cnt if forged else player.next_f_cnt()
        content = b"same" if same else len(self._trace.frames).to_bytes(3, "big")
        phy = data_frame(
            Kind.CONFIRMED_UP if confirmed else Kind.UNCONFIRMED_UP,
            player.dev_addr,
            player.keys,
            f_cnt,
            f_port=2,
            payload=content,
            f_opts=LINK_CHECK_REQ if asks else b"",
        )
        phy = _spoilt(phy) if forged else phy
        known = self._by_phy.get(phy)
        facts: dict[str, object] = {
            "confirmed": confirmed,
            "same": same,
            "asks": asks,
            "forged": forged,
        }
        facts |= {"session": player.session, "life": player.life}
        frame = known or self._new_frame(number, phy, f_cnt, **facts)
        if not forged:
            player.last = frame
        return frame

    def _join(self, number: int) -> Frame:
        player = self._players[number]
        player.nonce += 1
        return self._new_frame(number, self._request(player), player.nonce, is_join=True)

    def _request(self, player: Player) -> bytes:
        secrets = player.secrets
        return join_request(
            secrets.app_key,
            join_eui=secrets.join_eui,
            dev_eui=secrets.dev_eui,
            dev_nonce=player.nonce,
        )

    def _forge(self, number: int, *, join: bool) -> Frame | None:
        player = self._players[number]
        if not join:
            return self._data(number, confirmed=False, same=False, forged=True)
        if player.device.kind != "otaa" or player.nonce >= DEV_NONCE_MAX:
            return None
        player.nonce += 1
        phy = _spoilt(self._request(player))
        player.nonce -= 1
        known = self._by_phy.get(phy)
        facts = {"is_join": True, "forged": True}
        return known or self._new_frame(number, phy, player.nonce + 1, **facts)

    def _new_frame(self, device: int, phy: bytes, f_cnt: int, **facts: object) -> Frame:
        frame = Frame(len(self._trace.frames), device, phy, f_cnt, **facts)  # type: ignore[arg-type]
        self._trace.frames.append(frame)
        self._by_phy[phy] = frame
        return frame

    def _air(self, frame: Frame, heard: tuple[Heard, ...], *, genuine: bool) -> None:
        transmission = next(self._numbers)
        for one in heard:
            number = len(self._trace.outcomes)
            self._trace.outcomes[number] = []
            self._heard[number] = frame
            place = one.place
            if place in self._away:
                continue
            radio = self._radios.setdefault(place, 0)
            text = self._stage.text(*place, frame, number)
            ended_us = self._time_us

            told = partial(Reception, number, ended_us=ended_us, radio=radio, frame=frame)
            told = partial(told, transmission=transmission, genuine=genuine)
            self._later(one.late_us, partial(self._tell, place, text, told))

    async def _tell(
        self, place: tuple[int, int], text: str, told: Callable[..., Reception]
    ) -> None:
        if place in self._away:
            return  # it is lost with the link
        server, station = place
        reception = told(at_us=self._time_us, server=server, station=station)
        self._trace.events.append(reception)
        await self._stage.tell(server, station, text)

    def _adopt(self, player: Player, joining: Frame) -> None:
        for number, pdu in self._stage.downlinks():
            if self._heard.get(number) is not joining:
                continue
            app_key = player.secrets.app_key
            accept = read_join_accept(app_key, pdu)
            if accept is not None:
                nonces = accept.join_nonce, accept.net_id, player.nonce
                player.keys = session_keys(app_key, *nonces)
                player.dev_addr, player.session = DevAddr(accept.dev_addr), joining.number
                player.f_cnt, player.last = 0, None
                self._trace.dev_addr[joining.number] = player.dev_addr

    def _answered(self, number: int, pdu: bytes) -> Answered:
        frame = self._heard[number]
        if frame.is_join:
            accept = read_join_accept(self._players[frame.device].secrets.app_key, pdu)
            return Answered(number, join_nonce=accept.join_nonce if accept else None)
        said = read_data(pdu)
        return Answered(number, DevAddr(said.dev_addr), said.f_cnt) if said else Answered(number)


def _spoilt(phy: bytes) -> bytes:
    mic = bytes(octet ^ 0xFF for octet in phy[-MIC_BYTES:])
    return phy[:-MIC_BYTES] + mic
