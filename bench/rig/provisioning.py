"""One device, as its maker, the network server and the score know it, and who hears it on the air.

No board can be asked for its counters, or not reliably; but every frame that it sends passes the
taps: `DeviceBook` reads them with its keys.
"""

from dataclasses import dataclass, field, fields
from enum import StrEnum
from inspect import signature
from typing import Any

from bench.chance import stream
from bench.device.interfaces import DeviceSession, Otaa
from bench.host.lns_files import device_tables
from bench.inspection.known_device import KnownDevice
from bench.inspection.known_device import Session as SessionKnown
from bench.inspection.store import KeptSession
from bench.verdict import wire
from bench.verdict.owner import ScenarioMistake, not_there
from bench.virtual.crafted import Identity
from bench.virtual.lorawan.air_interface import Keys
from bench.virtual.lorawan.channel_plan import ChannelPlan, Lora
from bench.virtual.stacks import LORAMAC_NODE, Stack
from lns.config import ConfigError, device_of
from lns.dedup.session import Listening, Session
from lns.lorawan.crypto import SessionKeys, derive_session_keys
from lns.lorawan.frame import Data, JoinRequest, MalformedFrame, candidates, open_join_accept, parse
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr, eui
from lns.lorawan.region import Region
from lns.station.messages import Dntxed, Jreq, Updf, parse_up
from lns.uplink.registry import Activation, DeviceClass, EndDevice, LoRaWanVersion

PAYLOAD = b"21.5 C"
FASTEST = Lora(7, 125_000)
JOIN_EUI = eui("70B3D57ED0000000")
FIRST_DEV_EUI = 0x70B3D57ED0000000
NET_ID = "000013"
FIRST_DEV_ADDR = 0x26000000  # NwkID 0x13, as the network's NetID has it


_OF_DEVICE = frozenset(field.name for field in fields(EndDevice))


@dataclass(frozen=True, slots=True)
class Provisioned:
    """A device and the counter the server has of it; `known` is False for a stranger.

    `only_at`: the one network server that has a record of it; None: all of them.
    `before`: the session that the store has, of the device as it was personalised once.
    `told_to_repeat`: when (µs) nobody but a scenario told it how often to send each frame, and so
    how often.
    """

    record: EndDevice
    dev_addr: DevAddr
    keys: SessionKeys
    app_key: bytes
    f_cnt_up: int | None
    preset_session: bool
    known: bool
    stack: Stack
    f_cnt_down: int = 0
    dr: int | None = None
    adr: bool = False
    before: Session | None = None
    only_at: str | None = None
    told_to_repeat: list[tuple[int, int]] = field(default_factory=list, compare=False)

    def is_known_to(self, lns: str) -> bool:
        """Whether a network server has a record of it."""
        return self.known and self.only_at in (None, lns)

    @property
    def dev_eui(self) -> Eui:
        return self.record.dev_eui

    @property
    def join_eui(self) -> Eui:
        return self.record.join_eui or JOIN_EUI

    @property
    def stored(self) -> Session | None:
        """The session that a server finds in its store; of one never heard of there is none."""
        session = self.before or self.session()
        is_personal = self.record.activation is Activation.ABP
        is_unheard = session is not None and (session.f_cnt_up, session.f_cnt_down) == (None, 0)
        return None if is_personal and is_unheard else session

    @property
    def identity(self) -> Identity:
        return Identity(self.dev_eui, self.join_eui, self.app_key)

    def session(self) -> Session | None:
        """The session the server begins with; None for an OTAA device that has not joined."""
        if self.record.activation is Activation.OTAA and not self.preset_session:
            return None
        return Session(
            dev_eui=self.dev_eui,
            dev_addr=self.dev_addr,
            keys=self.keys,
            f_cnt_up=self.f_cnt_up,
            f_cnt_down=self.f_cnt_down,
        )


def provision(
    name: str,
    number: int,
    seed: int,
    *,
    activation: str = "abp",
    device_class: str = "A",
    f_cnt: int | None = None,
    f_cnt_up: int | None = None,
    f_cnt_down: int = 0,
    dr: int | None = None,
    adr: bool | None = None,
    dev_addr_text: str | None = None,
    keys: SessionKeys | None = None,
    preset_session: bool = False,
    known: bool = True,
    stack: Stack = LORAMAC_NODE,
    lorawan: str = LoRaWanVersion.V1_0_4,
    rx1_dr_offset: int = 0,
    rx_delay_s: int = 1,
    rx2_dr: int | None = None,
    dev_eui: str | None = None,
    join_eui: str | None = None,
    app_key: str | None = None,
    before: tuple[str, SessionKeys] | None = None,
    only_at: str | None = None,
    **facts: Any,
) -> Provisioned:
    """A device with keys of its own, drawn from the seed.

    `f_cnt` is the counter of its next frame, `f_cnt_up` the newest one the server knows (one less
    by default); with neither nobody has ever heard it. `f_cnt_down` is the counter of its next
    downlink, `dr` its data rate (SF7 by default), `adr` whether it obeys LinkADRReq (if it is to be
    told to repeat, by default). `rx1_dr_offset`, `rx_delay_s` and `rx2_dr` are what its join
    accepts are to say. `dev_eui`, `join_eui` and `app_key` (hex) are those of a device that exists,
    in place of drawn ones; `before`: DevAddr and keys that it was personalised with once, and
    that the store knows still; `only_at`: the one network server that has a record of it. Other
    facts are those of `EndDevice`. ScenarioMistake for what is none of them, and for what cannot
    be.
    """
    for fact in facts.keys() - _OF_DEVICE:
        own = {
            name
            for name, one in signature(provision).parameters.items()
            if one.kind is one.KEYWORD_ONLY
        }
        raise not_there("fact of a device", fact, sorted(_OF_DEVICE | own))
    chance = stream(seed, "keys", name)
    drawn = [chance.randbytes(16) for _ in range(3)]
    keys = keys or SessionKeys(drawn[0], drawn[1])
    address = dev_addr(dev_addr_text or f"{FIRST_DEV_ADDR + number:08X}")
    try:
        own_eui = eui(dev_eui or f"{FIRST_DEV_EUI + number:016X}")
        own_join_eui = JOIN_EUI if join_eui is None else eui(join_eui)
        own_key = drawn[2] if app_key is None else bytes.fromhex(app_key)
    except ValueError as error:
        raise ScenarioMistake(f"device {name!r}: {error}") from None
    if len(own_key) != len(drawn[2]):
        raise ScenarioMistake(f"device {name!r}: an app_key has 32 hex digits")
    otaa = activation == Activation.OTAA
    record = _record(
        name=name,
        dev_eui=own_eui,
        activation=Activation(activation),
        join_eui=own_join_eui if otaa else None,
        app_key=own_key if otaa else None,
        dev_addr=None if otaa else address,
        session_keys=None if otaa else keys,
        device_class=DeviceClass(device_class),
        lorawan=LoRaWanVersion(lorawan),
        listening=Listening(rx1_dr_offset, rx_delay_s, rx2_dr),
        **facts,
    )
    heard = f_cnt - 1 if f_cnt_up is None and f_cnt is not None else f_cnt_up
    return Provisioned(
        record=record,
        dev_addr=address,
        keys=keys,
        app_key=own_key,
        f_cnt_up=heard,
        f_cnt_down=f_cnt_down,
        dr=dr,
        adr=record.nb_trans > 1 if adr is None else adr,
        preset_session=preset_session,
        known=known,
        stack=stack,
        before=before
        and Session(dev_eui=own_eui, dev_addr=dev_addr(before[0]), keys=before[1], f_cnt_up=500),
        only_at=only_at,
    )


def _record(**facts: Any) -> EndDevice:
    """A record that servers can read; ScenarioMistake for what is none."""
    record = EndDevice(**facts)
    try:
        device_of(*device_tables([record]))
    except ConfigError as error:
        raise ScenarioMistake(f"device {record.name!r}: {error}") from None
    return record


def known_to_inspector(provisioned: Provisioned, plan: ChannelPlan) -> KnownDevice:
    """A device as far as whoever reads what servers handed over has to know it."""
    record, session = provisioned.record, provisioned.session()
    sessions = []
    if session is not None:
        keys = Keys(session.keys.nwk_s_key, session.keys.app_s_key)
        last = session.f_cnt_down - 1 if session.f_cnt_down else None
        agreed = SessionKnown(
            session.dev_addr, keys, plan.rx2_dr, f_cnt_down=last, f_cnt_up=session.f_cnt_up
        )
        sessions.append(agreed)
    return KnownDevice(
        record.dev_eui,
        provisioned.app_key,
        sessions,
        join_eui=record.join_eui,
        server=record.server,
        join_nonce_min=record.join_nonce_min,
        is_class_c=record.device_class is DeviceClass.C,
        adr=provisioned.adr,
        dr=plan.up_dr(FASTEST) if provisioned.dr is None else provisioned.dr,
        first_f_cnt=provisioned.stack.first_f_cnt,
        counts_dev_nonces=not provisioned.stack.draws_dev_nonce,
        asks_at_lowest_dr=provisioned.stack.asks_at_lowest_dr,
        lowers_data_rate=provisioned.stack.lowers_data_rate,
        nb_trans=record.nb_trans,
        told_to_repeat=provisioned.told_to_repeat,
        counts_join_nonces=record.lorawan is LoRaWanVersion.V1_0_4,
        rx1_dr_offset=record.listening.rx1_dr_offset,
        rx_delay_s=record.listening.rx_delay_s,
        rx2_dr=record.listening.rx2_dr,
        more_channels_hz=record.more_channels_hz,
        status_wanted=record.dev_status_s is not None,
    )


def kept_for_inspector(session: Session) -> KeptSession:
    """A session of a store, for whoever compares it with what passed the taps."""
    return KeptSession(
        session.dev_addr,
        Keys(session.keys.nwk_s_key, session.keys.app_s_key),
        session.f_cnt_up,
        session.f_cnt_down,
        session.resubmissions,
        session.copies,
        session.listening.rx1_dr_offset,
        session.listening.rx_delay_s,
        session.listening.rx2_dr,
        len(session.more_channels_hz or ()),
        (session.nb_trans, session.knows_dwell_times),
        int(session.nb_trans_asked),
    )


_REMEMBERED_MAX = 100
_OFF_US = 2_000  # more than a gateway is late or early on the air
_SECOND_US = _RECEIVE_DELAY_US = 1_000_000
_RX2_DR = 0


class Answer(StrEnum):
    JOIN_ACCEPT = "join accept"
    ACK = "acknowledgement"
    OTHER = "downlink"


@dataclass(frozen=True, slots=True)
class _Asked:
    dr: int
    freq_hz: int
    dev_nonce: int | None = None


@dataclass(frozen=True, slots=True)
class Known:
    """A frame of this device: which session (data) or DevNonce (join), and its 32-bit counter."""

    phy: bytes
    frame: Data | JoinRequest
    frame_id: str
    session: DeviceSession | None = None
    f_cnt: int = 0

    @property
    def payload(self) -> bytes | None:
        """The application payload in clear; None of a join request."""
        if self.session is None or not isinstance(self.frame, Data):
            return None
        return self.frame.payload(self.session.keys, self.f_cnt)


class DeviceBook:
    """One identity of one board.

    Remembers every session it may have had (the newest last), their counters as seen on the air,
    its last DevNonce, the newest JoinNonce it may know, and the join requests that may still be
    answered. `first_f_cnt`: with what it begins to count in a session.
    """

    def __init__(self, dev_eui: Eui, otaa: Otaa | None = None) -> None:
        self.dev_eui = dev_eui
        self.otaa = otaa
        self.sessions: list[DeviceSession] = []
        self.dev_nonce = 0
        self.join_nonce = 0
        self.first_f_cnt = 0
        self.on_air: list[Answer] = []
        """What it had to hear: gateways have sent it in its windows, and it had to believe it."""
        self._asked: dict[int, _Asked] = {}  # by xtime
        self._answers: dict[int, tuple[int, Answer]] = {}  # by diid: xtime of the uplink, and what

    @property
    def session(self) -> DeviceSession | None:
        return self.sessions[-1] if self.sessions else None

    def begin(
        self, dev_addr: DevAddr, keys: SessionKeys, *, f_cnt_up: int, f_cnt_down: int | None = None
    ) -> DeviceSession:
        """A session that is written into the device; `f_cnt_up` is what it will send next.

        With the keys of the last one it is the same session, which counts anew.
        """
        last = self.session
        number = 0 if last is None else last.number + (keys != last.keys)
        self.sessions.append(
            DeviceSession(
                number=number,
                dev_addr=dev_addr,
                keys=keys,
                f_cnt_up=f_cnt_up,
                f_cnt_down=f_cnt_down,
                receive_delay_us=_RECEIVE_DELAY_US,
                rx2_dr=_RX2_DR,
            )
        )
        return self.sessions[-1]

    def recognise(self, text: str) -> Known | None:
        """The frame of this device in a station's text; None if it is another's, or forged."""
        message = parse_up(text)
        match message:
            case Jreq() if message.dev_eui == self.dev_eui:
                joining = parse(message.phy())
                assert isinstance(joining, JoinRequest)
                return Known(message.phy(), joining, joining.frame_id)
            case Updf() if (found := self._valid(message.phy(), up=True)) is not None:
                frame, session, f_cnt = found
                return Known(message.phy(), frame, frame.frame_id, session, f_cnt)
        return None

    def _valid(self, phy: bytes, *, up: bool) -> tuple[Data, DeviceSession, int] | None:
        """The data frame that this is, its session, and its counter (32 bits)."""
        try:
            frame = parse(phy)
        except MalformedFrame:
            return None
        if not isinstance(frame, Data) or frame.is_uplink is not up:
            return None
        for session in reversed(self.sessions):
            if session.dev_addr != frame.dev_addr:
                continue
            newest = session.f_cnt_up if up else session.f_cnt_down
            for f_cnt in candidates(newest, frame.f_cnt):
                if frame.mic_is_valid(session.keys.nwk_s_key, f_cnt):
                    return frame, session, f_cnt
        return None

    def sent(self, known: Known) -> None:
        if known.session is not None:
            known.session.f_cnt_up = known.f_cnt + 1
        elif isinstance(known.frame, JoinRequest):
            self.dev_nonce = known.frame.dev_nonce

    def asked(self, text: str) -> None:
        """Remember an uplink of the device, as far as an answer to it depends on it."""
        message = parse_up(text)
        if isinstance(message, Jreq | Updf):
            nonce = message.dev_nonce if isinstance(message, Jreq) else None
            self._asked[message.upinfo.xtime] = _Asked(message.dr, message.freq_hz, nonce)
            _forget_oldest(self._asked)

    def hear_down(self, text: str) -> None:
        """Take a downlink on its way: a new session, or a counter that may be used up."""
        message = wire.wanted(wire.understood(text))
        if message is None:
            return
        asked = self._asked.get(message.xtime)
        answer = None
        if asked is not None and asked.dev_nonce is not None:
            answer = self._accepts(message, asked.dev_nonce)
        answer = answer or self._count_down(message.pdu)
        if answer is not None and message.diid not in self._answers:  # both taps may tell of it
            self._answers[message.diid] = message.xtime, answer
            _forget_oldest(self._answers)

    def hear_report(self, text: str, region: Region) -> None:
        """Take a gateway's word for a downlink on the air, if it was sent in a window."""
        report = parse_up(text)
        if not isinstance(report, Dntxed) or report.diid not in self._answers:
            return
        xtime, answer = self._answers.pop(report.diid)
        asked, session = self._asked.get(xtime), self.session
        if asked is None or session is None:
            return
        is_join = answer is Answer.JOIN_ACCEPT
        rx1_us = region.join_accept_delay_us if is_join else session.receive_delay_us
        rx1 = region.rx1(asked.dr, asked.freq_hz, 0 if is_join else session.rx1_dr_offset)
        rx2 = region.rx2(None if is_join else session.rx2_dr)
        since_us, used = report.xtime - xtime, (report.dr, report.freq_hz)
        in_rx1 = abs(since_us - rx1_us) <= _OFF_US and used == rx1
        in_rx2 = abs(since_us - rx1_us - _SECOND_US) <= _OFF_US and used == rx2
        if in_rx1 or in_rx2:
            self.on_air.append(answer)

    def _accepts(self, message: wire.Wanted, dev_nonce: int) -> Answer | None:
        if self.otaa is None:
            return None
        try:
            accept = open_join_accept(self.otaa.app_key, message.pdu)
        except MalformedFrame:
            return None
        keys = derive_session_keys(
            self.otaa.app_key,
            join_nonce=accept.join_nonce,
            net_id=accept.net_id,
            dev_nonce=dev_nonce,
        )
        if all(keys != session.keys for session in self.sessions):
            session = self.begin(accept.dev_addr, keys, f_cnt_up=self.first_f_cnt)
            session.receive_delay_us = accept.receive_delay_us
            session.rx1_dr_offset = accept.dl_settings.rx1_dr_offset
            session.rx2_dr = accept.dl_settings.rx2_dr
        is_newer = accept.join_nonce > self.join_nonce
        self.join_nonce = max(self.join_nonce, accept.join_nonce)
        return Answer.JOIN_ACCEPT if is_newer else Answer.OTHER

    def _count_down(self, pdu: bytes) -> Answer | None:
        found = self._valid(pdu, up=False)
        if found is None:
            return None
        frame, session, f_cnt = found
        last = session.f_cnt_down
        is_newer = last is None or f_cnt > last
        session.f_cnt_down = max(f_cnt, last or 0)
        return Answer.ACK if frame.ack and is_newer else Answer.OTHER


def _forget_oldest(remembered: dict[int, Any]) -> None:
    while len(remembered) > _REMEMBERED_MAX:
        del remembered[next(iter(remembered))]
