"""Is a `dnmsg` what the specification asks for, field by field?

What it should say follows from the uplink that it answers, the region, and what the session of the
device has agreed on (RX1DROffset, RxDelay, RX2). Source: Basics Station, `dnmsg`; LoRaWAN 1.0.3, 3
(windows), 4 (frames), 5 (commands), 6.2 (join); Regional Parameters RP002-1.0.3.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench.inspection.known_device import KnownDevice, Session, Wanted, commands_in
from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import Uplink, eui_of, gps_us
from bench.virtual.lorawan.air_interface import (
    F_CNT_WIRE,
    UP,
    Cid,
    Command,
    DataFrame,
    Kind,
    counter_of,
    frame_mic,
    from_network,
    kind_of,
    link_adr,
    read_data,
)
from bench.virtual.lorawan.channel_plan import OVERHEAD, ChannelPlan, Lora
from bench.virtual.lorawan.join_frames import (
    JoinAccept,
    JoinRequest,
    clear_of_accept,
    join_mic,
    read_join_accept,
)

JOIN_ACCEPT_DELAY_S = 5
RX2_AFTER_RX1_US = 1_000_000
F_CNT_GAP_MAX = 16_384
KEEP_POWER = 15
_MIC_AND_MHDR = 5
_F_OPTS_MAX = 15
_ANSWERED = {Cid.LINK_CHECK: "LinkCheckAns", Cid.DEVICE_TIME: "DeviceTimeAns"}
_GPS_STEP_US = 4_000  # 1/256 s, rounded
_GPS_AGAIN_US = (1 << 32) * 1_000_000
DAY_US = 86_400_000_000
_TOLD_WITHIN_US = 100_000
"""How long after the end of a frame its station tells of it at most."""
_UNDER_WAY_US = 1_000_000
"""How long a message of the application is under way to a server at most."""
_QUEUED_FOR_CERTAIN = 16
_FLOOR_DB = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}
_KNOWN = frozenset(
    "msgtype DevEui DevEUI dC diid pdu RxDelay RX1DR RX1Freq RX2DR RX2Freq priority xtime"
    " rctx MuxTime".split()
)


@dataclass(frozen=True, slots=True)
class Answered:
    """The uplink that a downlink answers: whose it is, with its 32-bit counter and its session."""

    uplink: Uplink
    device: KnownDevice
    f_cnt: int = 0
    session: Session | None = None
    stations: int = 1
    """How many stations have told of the frame so far."""
    may_be_new: bool = False
    """Whether a server may have forgotten that it has answered it before."""

    @property
    def requests(self) -> list[int]:
        """The commands in the uplink; none where its keys are not known."""
        frame = self.uplink.frame
        if self.session is None or not isinstance(frame, DataFrame):
            return []
        return commands_in(self.session.commands(frame, self.f_cnt))

    @property
    def asks(self) -> bool:
        """Whether the device that sent it listens for an answer."""
        frame = self.uplink.frame
        if not isinstance(frame, DataFrame):
            return True
        return frame.confirmed or frame.bit_6 or not _ANSWERED.keys().isdisjoint(self.requests)

    @property
    def is_of_another_life(self) -> bool:
        """Whether the device has begun again since, and may have sent these very octets anew."""
        return self.session is not None and self.uplink.frame_id in self.session.answered_before

    @property
    def is_again(self) -> bool:
        """Whether the frame was answered before."""
        return self.session is not None and self.uplink.frame_id in self.session.answered

    @property
    def is_open(self) -> bool:
        """Whether nobody can say which requests belong into the answer."""
        session, device = self.session, self.device
        passes = device.is_overtaken and session is not None and session.passes_over
        is_passed = session is not None and self.f_cnt < session.newest
        is_behind = session is not None and not session.undecided <= {self.f_cnt}
        may_be_new = self.may_be_new or self.is_of_another_life
        is_doubtful = device.is_held or passes or is_passed or is_behind
        return is_doubtful or (self.is_again and may_be_new)


@dataclass(frozen=True, slots=True)
class Network:
    """What holds for every device: region, NetID, who uses which DevAddr.

    `began`: what the clocks of its servers showed when the bench's was 0, where that is known.
    """

    plan: ChannelPlan
    net_id: str
    addresses: dict[str, KnownDevice]
    """Who was given a DevAddr last."""
    began: datetime | None = None


def is_dnmsg(told: dict[str, Any]) -> bool:
    return told.get("msgtype") == "dnmsg"


def misshapen(told: dict[str, Any], check: Scrutiny) -> list[Found]:
    """What a station could not read in a `dnmsg`, or would not look at."""
    kinds = {"dC": (0, 2), "diid": (-(1 << 63), (1 << 63) - 1), "priority": (0, 255)}
    kinds |= {"RxDelay": (0, 15), "xtime": (1, (1 << 63) - 1), "rctx": (-(1 << 63), (1 << 63) - 1)}
    kinds |= {f"RX{n}DR": (0, 15) for n in (1, 2)} | {f"RX{n}Freq": (1, 1 << 32) for n in (1, 2)}
    found = [check.wrong(name, None, told[name]) for name in sorted(told.keys() - _KNOWN)]
    found += [check.wrong(name, "a value", None) for name in ("dC", "diid") if name not in told]
    for name, (least, most) in kinds.items():
        value = told.get(name, least)
        if type(value) is not int or not least <= value <= most:
            found.append(check.wrong(name, f"{least} to {most}", value))
    if type(told.get("dC")) is int and told["dC"] == 1:
        found.append(check.wrong("dC", "0 or 2", 1))
    found += [
        check.wrong(f"RX{n}DR and RX{n}Freq", "both or none", "one")
        for n in (1, 2)
        if (f"RX{n}DR" in told) is not (f"RX{n}Freq" in told)
    ]
    if eui_of(told.get("DevEui", told.get("DevEUI"))) is None:
        found.append(check.wrong("DevEui", "an EUI", told.get("DevEui", told.get("DevEUI"))))
    if not _octets(told.get("pdu")):
        found.append(check.wrong("pdu", "1 to 255 octets in hexadecimal", told.get("pdu")))
    if "RX1DR" not in told and "RX2DR" not in told:
        found.append(check.wrong("RX1DR and RX2DR", "at least one", None))
    return found


def answer(
    told: dict[str, Any], answered: Answered, network: Network, check: Scrutiny
) -> Iterator[Found]:
    """What is wrong in an answer to an uplink."""
    uplink, session = answered.uplink, answered.session
    is_join = isinstance(uplink.frame, JoinRequest)
    phy = _octets(told["pdu"])
    yield from check.same("dC", 0, told["dC"])
    dev_eui = eui_of(told.get("DevEui", told.get("DevEUI")))
    yield from check.same("DevEui", answered.device.dev_eui, dev_eui)
    yield from check.same("rctx", uplink.rctx, told.get("rctx", 0))
    due_s = JOIN_ACCEPT_DELAY_S if is_join or session is None else session.rx_delay_s
    if is_join or session is not None:
        yield from check.same("RxDelay", due_s, max(1, told.get("RxDelay", 1)))
    offset = 0 if is_join or session is None else session.rx1_dr_offset
    if "RX1DR" in told:
        yield from _rx1(told, uplink, offset, network.plan, check)
    rx2_dr = network.plan.rx2_dr if is_join or session is None else session.rx2_dr
    yield from _rx2(told, rx2_dr, len(phy), network.plan, check)
    yield from _sizes(told, len(phy), network.plan, check)
    if is_join:
        yield from _accept(phy, answered, network, check.about("join accept"))
    elif session is not None:
        assert isinstance(uplink.frame, DataFrame)
        yield from _data(phy, answered, network, check.about("downlink frame"))


def at_once(
    told: dict[str, Any], device: KnownDevice, network: Network, check: Scrutiny
) -> Iterator[Found]:
    """What is wrong in a downlink that answers no uplink: class C, in RX2 only."""
    phy = _octets(told["pdu"])
    yield from check.same("dC", 2, told["dC"])
    # It can wait, and an answer cannot: none may be kept from its window.
    yield from check.same("priority", 0, told.get("priority", 0))
    if not device.is_class_c:
        yield check.wrong("dC", "an answer to an uplink: it is a class A device", told["dC"])
    for name in ("RX1DR", "RX1Freq"):
        yield from check.same(name, None, told.get(name))
    frame = read_data(phy)
    sessions = [s for s in device.sessions if frame is not None and s.dev_addr == frame.dev_addr]
    if not sessions:
        due = device.sessions[-1].dev_addr if device.sessions else None
        observed = frame.dev_addr if frame is not None else phy
        yield check.about("downlink frame").wrong("DevAddr", due, observed)
        return
    if not sessions[-1].is_used:
        used = [session.dev_addr for session in device.sessions if session.is_used]
        due = used[-1] if used else None
        yield check.about("downlink frame").wrong("DevAddr", due, sessions[-1].dev_addr)
    yield from _rx2(told, sessions[-1].rx2_dr, len(phy), network.plan, check)
    yield from _sizes(told, len(phy), network.plan, check)
    yield from _frame(phy, sessions[-1], device, ack=False, check=check.about("downlink frame"))


def _octets(told: object) -> bytes:
    try:
        octets = bytes.fromhex(told) if isinstance(told, str) else b""
    except ValueError:
        return b""
    return octets if len(octets) <= 255 else b""


def _rx1(
    told: dict[str, Any], uplink: Uplink, offset: int, plan: ChannelPlan, check: Scrutiny
) -> Iterator[Found]:
    known = not plan.downlinks_hz or any(c.freq_hz == uplink.freq_hz for c in plan.default_channels)
    if not known or uplink.dr not in plan.up_drs:
        yield check.wrong("RX1DR", None, told["RX1DR"])
        return
    yield from check.same("RX1DR", plan.rx1_dr(uplink.dr, offset), told["RX1DR"])
    yield from check.same("RX1Freq", plan.rx1_freq_hz(uplink.freq_hz), told["RX1Freq"])


def _rx2(
    told: dict[str, Any], rx2_dr: int, size: int, plan: ChannelPlan, check: Scrutiny
) -> Iterator[Found]:
    if "RX2DR" in told:
        yield from check.same("RX2DR", rx2_dr, told["RX2DR"])
        yield from check.same("RX2Freq", plan.rx2_freq_hz, told["RX2Freq"])
        return
    if size - _MIC_AND_MHDR - OVERHEAD <= plan.repeater_max[rx2_dr]:
        yield check.wrong("RX2DR", rx2_dr, None)


def _sizes(told: dict[str, Any], size: int, plan: ChannelPlan, check: Scrutiny) -> Iterator[Found]:
    for name in ("RX1DR", "RX2DR"):
        dr = told.get(name)
        if dr is not None and dr < len(plan.repeater_max) and (most := plan.repeater_max[dr]):
            if size - _MIC_AND_MHDR > most + OVERHEAD:
                most += OVERHEAD + _MIC_AND_MHDR
                yield check.wrong(f"pdu in {name}", f"at most {most} octets", size)


def _data(phy: bytes, answered: Answered, network: Network, check: Scrutiny) -> Iterator[Found]:
    up, session, device = answered.uplink.frame, answered.session, answered.device
    assert isinstance(up, DataFrame) and session is not None
    yield from _frame(phy, session, device, ack=up.confirmed, check=check)
    frame = read_data(phy)
    if frame is not None:
        yield from _commands(frame.f_opts, answered, network, check)


def _frame(
    phy: bytes, session: Session, device: KnownDevice, *, ack: bool, check: Scrutiny
) -> Iterator[Found]:
    """Header, counter, MIC and content of a data downlink."""
    frame = read_data(phy)
    if frame is None or frame.kind not in (Kind.UNCONFIRMED_DOWN, Kind.CONFIRMED_DOWN):
        kind = kind_of(phy)
        yield check.wrong("MType", "a data downlink", kind.name if kind is not None else phy)
        return
    yield from check.same("DevAddr", session.dev_addr, frame.dev_addr)
    yield from check.same("ACK", ack, frame.ack)
    yield from check.same("RFU bit of FCtrl", False, frame.bit_6)
    key, last = session.keys.nwk_s_key, _last(frame, session)
    f_cnt = counter_of(frame, key, last)
    if f_cnt is None:
        before = [one for one in session.passed_over if frame.is_signed_by(key, one)]
        if before and (device.is_held or device.is_overtaken):
            session.passed_over.discard(before[0])
            yield from _content(frame, before[0], session, device, check)
        else:
            yield _wrong_mic(frame, session, check)
        return
    least = 0 if last is None else last + 1
    if device.loses_no_f_cnt_down:
        yield from check.same("FCntDown", least, f_cnt)
    elif f_cnt - least >= F_CNT_GAP_MAX:
        yield check.wrong("FCntDown", f"{least} or little more", f_cnt)
    else:
        session.passed_over |= {*range(least, f_cnt)}
    session.f_cnt_down = f_cnt
    if last is not None and last == session.f_cnt_down_of_others:
        session.f_cnt_down_of_others = f_cnt
    yield from _content(frame, f_cnt, session, device, check)


def _last(frame: DataFrame, session: Session) -> int | None:
    """The counter before that of a downlink, as whoever sends it knows it."""
    of_others = session.f_cnt_down_of_others
    f_cnt = counter_of(frame, session.keys.nwk_s_key, of_others)
    if of_others is None or f_cnt is None or f_cnt - of_others > F_CNT_GAP_MAX:
        return session.f_cnt_down
    return of_others


def _wrong_mic(frame: DataFrame, session: Session, check: Scrutiny) -> Found:
    """Why no new counter proves the MIC: an old counter, the other direction, or neither."""
    key, last = session.keys.nwk_s_key, session.f_cnt_down
    same = -1 if last is None else last - last % F_CNT_WIRE + frame.f_cnt
    for f_cnt in (same, same - F_CNT_WIRE, frame.f_cnt):
        if 0 <= f_cnt <= (-1 if last is None else last) and frame.is_signed_by(key, f_cnt):
            return check.wrong("FCntDown", f"more than {last}", f_cnt)
    f_cnt = max(same, frame.f_cnt)
    if frame_mic(key, UP, frame.dev_addr, f_cnt, frame.signed) == frame.mic:
        return check.wrong("direction in the MIC", "down", "up")
    due = frame_mic(key, frame.direction, frame.dev_addr, f_cnt, frame.signed)
    return check.wrong("MIC", due, frame.mic)


def _content(
    frame: DataFrame, f_cnt: int, session: Session, device: KnownDevice, check: Scrutiny
) -> Iterator[Found]:
    """FPort and payload: what the application wanted, in its order, or nothing."""
    if frame.f_port is None:
        yield from check.same("MType", "UNCONFIRMED_DOWN", frame.kind.name)
        if not device.wanted:
            yield from check.same("FPending", False, frame.bit_4)
        return
    if frame.f_port == 0:
        yield check.wrong("FPort", "1 to 223", 0)
        return
    sent = Wanted(frame.f_port, frame.clear(session.keys, f_cnt), frame.confirmed)
    rest = device.wanted[device.delivered :]
    if sent not in rest:
        due = ", ".join(map(_described, rest[:3])) or "nothing of the application"
        yield check.wrong("FPort and payload", due, _described(sent))
        return
    device.delivered += rest.index(sent)
    device.told.append(sent)
    device.handed.append(sent)
    if device.is_held or check.t_us - device.wanted_us < _UNDER_WAY_US:
        return  # the last of them may not be there yet, or was not when it was said
    if rest.count(sent) > 1:
        return  # it may be the later one of them: a server that ended has lost what waited
    if len(device.wanted) <= _QUEUED_FOR_CERTAIN and all(len(w.payload) <= 51 for w in rest):
        yield from check.same(
            "FPending", device.wanted[-1] is not rest[rest.index(sent)], frame.bit_4
        )


def _described(wanted: Wanted) -> str:
    kind = "confirmed" if wanted.confirmed else "unconfirmed"
    return f"{wanted.f_port}:{wanted.payload.hex()} {kind}"


def _commands(
    octets: bytes, answered: Answered, network: Network, check: Scrutiny
) -> Iterator[Found]:
    """The commands in an answer: those that the uplink asked for, and what the network may want."""
    uplink, session = answered.uplink, answered.session
    assert isinstance(uplink.frame, DataFrame) and session is not None
    requests = answered.requests
    said = from_network(octets)
    if sum(len(command.octets) for command in said) != len(octets):
        yield check.wrong("FOpts", "whole commands of a network", octets)
    for cid, name in _ANSWERED.items():
        due = 1 if cid in requests else 0
        yield from check.same(name, due, sum(command.cid is cid for command in said))
    told = [command.cid for command in said if command.cid in _ANSWERED and command.cid in requests]
    if told != sorted(told, key=requests.index):  # LoRaWAN 1.0.4, 5
        yield check.wrong("FOpts", "answers in the order of the commands", octets)
    answers = [command.cid in _ANSWERED for command in said]
    if answers != sorted(answers, reverse=True):
        yield check.wrong("FOpts", "what answers the device before what asks it", octets)
    yield from _repetitions(said, answered, check)
    yield from _dwell(said, answered, network.plan, check)
    session.answered.add(uplink.frame_id)
    for command in said:
        yield from _command(command, answered, network, check)


def _repetitions(said: Sequence[Command], answered: Answered, check: Scrutiny) -> Iterator[Found]:
    """Whether a device is told with a first answer how often to send, until it has granted that."""
    session, frame = answered.session, answered.uplink.frame
    assert session is not None and isinstance(frame, DataFrame)
    size = sum(len(command.octets) for command in said if command.cid in _ANSWERED)
    is_due = frame.adr and session.nb_trans != answered.device.nb_trans
    is_due = is_due and not answered.is_again and size + 5 <= _F_OPTS_MAX
    asked = [link_adr(command).nb_trans for command in said if command.cid is Cid.LINK_ADR]
    if session.nb_trans is not None and not answered.is_open:
        yield from check.same("LinkADRReq", int(is_due), len(asked))
    session.nb_trans_asked = asked[-1] if asked else session.nb_trans_asked


def _dwell(
    said: Sequence[Command], answered: Answered, plan: ChannelPlan, check: Scrutiny
) -> Iterator[Found]:
    """Whether it is told so how long a frame may be, until it has said that it knows."""
    session = answered.session
    assert session is not None
    size = sum(len(command.octets) for command in said if command.cid is not Cid.TX_PARAM_SETUP)
    is_due = plan.tx_params is not None and not session.has_set_dwell
    is_due = is_due and not answered.is_again and size + 2 <= _F_OPTS_MAX
    times = sum(command.cid is Cid.TX_PARAM_SETUP for command in said)
    if session.has_set_dwell is not None and not answered.is_open:
        yield from check.same("TxParamSetupReq", int(is_due), times)


def _time(
    command: Command, uplink: Uplink, began: datetime | None, check: Scrutiny
) -> Iterator[Found]:
    """Whether DeviceTimeAns tells when the frame ended, in GPS time: UTC without leap seconds.

    A station that has GPS knows best. Of the seconds there are 32 bits. What is injected may name
    an earlier moment, and none to come.
    """
    early_us = DAY_US if uplink.injected else _TOLD_WITHIN_US
    if uplink.gpstime > 0:
        ended_us, early_us = uplink.gpstime, _GPS_STEP_US
    elif began is None:
        return
    else:
        ended_us = gps_us(began) + uplink.t_us - uplink.held_us
    told_us = int.from_bytes(command.told[:4], "little") * 1_000_000
    told_us += command.told[4] * 1_000_000 // 256
    if not -early_us <= told_us - ended_us % _GPS_AGAIN_US <= _GPS_STEP_US:
        yield check.wrong("DeviceTimeAns", f"{ended_us} µs of GPS time", told_us)


def _command(
    command: Command, answered: Answered, network: Network, check: Scrutiny
) -> Iterator[Found]:
    uplink, session, device = answered.uplink, answered.session, answered.device
    assert isinstance(uplink.frame, DataFrame) and session is not None
    match command.cid:
        case Cid.LINK_CHECK:
            rates = network.plan.data_rates
            modulated = rates[uplink.dr] if uplink.dr < len(rates) else None
            due = 0.0  # but of LoRa nobody can say
            if isinstance(modulated, Lora):
                due = max(0, min(254, uplink.snr - _FLOOR_DB[modulated.sf]))
            yield from check.same("margin of LinkCheckAns", round(due), command.told[0])
            if not 1 <= command.told[1] <= answered.stations:
                due_stations = f"1 to {answered.stations}"
                yield check.wrong("GwCnt of LinkCheckAns", due_stations, command.told[1])
        case Cid.LINK_ADR:
            wanted = link_adr(command)
            mask = network.plan.own_mask | sum(1 << number for number in session.more_channels)
            if not uplink.frame.adr:
                yield check.wrong("LinkADRReq", "none: the device has not set ADR", "one")
            yield from check.same("DataRate of LinkADRReq", uplink.dr, wanted.dr)
            yield from check.same("TXPower of LinkADRReq", KEEP_POWER, wanted.power)
            yield from check.same("ChMask of LinkADRReq", mask, wanted.mask)
            yield from check.same("ChMaskCntl of LinkADRReq", 0, wanted.mask_control)
            yield from check.same("NbTrans of LinkADRReq", device.nb_trans, wanted.nb_trans)
            yield from check.same("RFU bit of Redundancy", 0, command.told[3] >> 7)
        case Cid.DEV_STATUS:
            if not device.status_wanted:
                yield check.wrong("DevStatusReq", "none: nobody wants it", "one")
        case Cid.TX_PARAM_SETUP if network.plan.tx_params is not None:
            yield from check.same("TxParamSetupReq", network.plan.tx_params, command.told[0])
        case Cid.DEVICE_TIME:
            yield from _time(command, uplink, network.began, check)
        case _:
            yield check.wrong("FOpts", "no command that nobody wants", command.cid.name)


def _accept(phy: bytes, answered: Answered, network: Network, check: Scrutiny) -> Iterator[Found]:
    device, request = answered.device, answered.uplink.frame
    assert isinstance(request, JoinRequest)
    kind = kind_of(phy)
    if kind is not Kind.JOIN_ACCEPT:
        yield check.wrong("MType", "JOIN_ACCEPT", kind.name if kind is not None else phy[:1])
        return
    if len(phy) not in (17, 33):
        yield check.wrong("length", "17 or 33 octets", len(phy))
        return
    accept = read_join_accept(device.app_key, phy)
    clear = clear_of_accept(device.app_key, phy[1:])
    if accept is None:
        yield check.wrong("MIC", join_mic(device.app_key, phy[:1] + clear[:-4]), clear[-4:])
        return
    yield from check.same("NetID", network.net_id, accept.net_id)
    yield from _address(accept, device, network, check)
    yield from _join_nonce(accept, device, check)
    rx2_dr = network.plan.rx2_dr if device.rx2_dr is None else device.rx2_dr
    yield from check.same("RX1DROffset of DLSettings", device.rx1_dr_offset, accept.rx1_dr_offset)
    yield from check.same("RX2DataRate of DLSettings", rx2_dr, accept.rx2_dr)
    yield from check.same("OptNeg of DLSettings", 0, clear[10] >> 7)
    yield from check.same("RxDelay", device.rx_delay_s, accept.rx_delay_s)
    yield from check.same("RFU bits of RxDelay", 0, clear[11] >> 4)
    yield from _cf_list(clear[12:-4], device.more_channels_hz, network.plan, check)


def _address(
    accept: JoinAccept, device: KnownDevice, network: Network, check: Scrutiny
) -> Iterator[Found]:
    nwk_id = int(network.net_id, 16) % 128
    yield from check.same("NwkID of DevAddr", nwk_id, int(accept.dev_addr, 16) >> 25)
    user = network.addresses.get(accept.dev_addr)
    if user is device or (user is not None and user.may_use(accept.dev_addr)):
        observed = f"{accept.dev_addr} of {user.dev_eui}"
        yield check.wrong("DevAddr", "one that nobody uses", observed)
    network.addresses[accept.dev_addr] = device


def _join_nonce(accept: JoinAccept, device: KnownDevice, check: Scrutiny) -> Iterator[Found]:
    before = device.join_nonces
    if accept.join_nonce in before:
        yield check.wrong("JoinNonce", "one never used", accept.join_nonce)
    elif accept.join_nonce < device.join_nonce_min:
        yield check.wrong("JoinNonce", f"at least {device.join_nonce_min}", accept.join_nonce)
    elif device.counts_join_nonces and before and accept.join_nonce < max(before):
        yield check.wrong("JoinNonce", f"more than {max(before)}", accept.join_nonce)
    before.append(accept.join_nonce)


# | 5 frequencies of 3 octets, in steps of 100 Hz, 0 for none | type 0 |
def _cf_list(
    octets: bytes, more_hz: tuple[int, ...], plan: ChannelPlan, check: Scrutiny
) -> Iterator[Found]:
    due = b"".join((hz // 100).to_bytes(3, "little") for hz in more_hz)
    if more_hz:
        due += bytes(16 - len(due))
    if octets and due:
        yield from check.same("type of CFList", 1 if plan.downlinks_hz else 0, octets[-1])
    yield from check.same("CFList", due.hex(), octets.hex())
