"""Does a device send what it ought to, and does a station tell of a frame what was on the air?

Read from its frames, with its keys, and from its console: what a network server makes of a wrong
frame, or of a wrong word about where and when it was heard, is no fault of its own. Source: LoRaWAN
1.0.4, 4.3.1 (ADRACKReq, ACK) and 5 (MAC commands); RUI3, LINKCHECK and TIMEREQ; Basics Station,
`updf`, `jreq` and the layout of `xtime`; two crystals differ by 50 millionths at most.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from bench.capture.reading import Event
from bench.inspection.downlink import KnownDevice
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import Uplink
from bench.virtual.lorawan.air_interface import (
    F_OPTS_MAX,
    ChannelPlan,
    DataFrame,
    Kind,
    read_data,
)
from bench.virtual.lorawan.commands import Cid, Command, from_device, from_network

_ASKS = {"AT+LINKCHECK=1": Cid.LINK_CHECK, "AT+TIMEREQ=1": Cid.DEVICE_TIME}
_BEGINS_AGAIN = re.compile(r"ATZ|ATR|AT\+(RESET|FDEFAULT|NJM|JOIN)")
_HEARD = re.compile(
    r"""\+EVT:RX_\w+:.*UNICAST:(\d+):|PORT:\ (\d+);\ RX:|(SEND_CONFIRMED_OK|ACK\ Received)""", re.X
)
"""What a board says of a downlink: its FPort, or that it was acknowledged something."""
_GRANTED = b"\x07"
ADR_ACK_LIMIT = 64


@dataclass(slots=True)
class _Sender:
    """What one device has sent last, owes its network, and was asked for at its console."""

    latest: tuple[int, int] | None = None
    """Session and counter of its newest frame."""
    handed: DataFrame | None = None
    """The downlink that a station was handed for it last."""
    was_asked: set[Cid] = field(default_factory=set)
    """What network servers have ever asked of it."""
    was_confirmed: bool = False
    """Whether anything confirmed was handed over since its last acknowledgement."""
    owes_ack: bool = False
    owes: set[Cid] = field(default_factory=set)
    typed: Cid | None = None
    asks: set[Cid] = field(default_factory=set)
    unheard: int = 0
    """How many of its frames have come since anything was handed over for it, at least."""

    def forget(self) -> None:
        """It may have begun again: nobody knows what it still owes."""
        self.owes_ack, self.typed, self.unheard = False, None, 0
        self.owes.clear()
        self.asks.clear()


class Senders:
    """Remembers of each device what it was told, and what it has heard for certain."""

    def __init__(self, devices: Mapping[str, KnownDevice], plan: ChannelPlan) -> None:
        self._devices = devices
        self._senders = {dev_eui: _Sender() for dev_eui in devices}
        self._answers = {Cid.LINK_ADR, Cid.DEV_STATUS}
        self._answers |= {Cid.TX_PARAM_SETUP} if plan.tx_params is not None else set()
        self._sent: list[Event] = []

    def handed_over(self, dev_eui: str, pdu: bytes) -> None:
        """A station was handed a downlink for a device."""
        sender, frame = self._senders.get(dev_eui), read_data(pdu)
        if sender is None or frame is None:
            return
        sender.handed, sender.unheard = frame, 0
        sender.was_confirmed |= frame.kind is Kind.CONFIRMED_DOWN
        sender.was_asked |= {command.cid for command in from_network(frame.f_opts)}

    def take(self, event: Event) -> Iterator[Found]:
        """What is wrong with frames of devices before it; other events tell what is due.

        A frame is looked at when its moment is over: what its device was told at that very moment,
        it was told before.
        """
        if self._sent and event["t_us"] > self._sent[0]["t_us"]:
            yield from self.end()
        sender = self._senders.get(event.get("dev_eui", ""))
        if sender is None:
            return
        match event["kind"]:
            case "device.command":
                sender.typed = _ASKS.get(event["text"])
                if _BEGINS_AGAIN.match(event["text"]):
                    sender.forget()
            case "device.line":
                self._said(sender, event["text"])
            case "radio.transmit" if event["direction"] == "up" and event["genuine"]:
                if event.get("origin") == "device":
                    self._sent.append(event)

    def end(self) -> Iterator[Found]:
        """What is wrong with the frames that have been sent since."""
        for event in self._sent:
            yield from self._looked_at(self._senders[event["dev_eui"]], event)
        self._sent.clear()

    def _said(self, sender: _Sender, line: str) -> None:
        if sender.typed is not None and line.strip() == "OK":
            sender.asks.add(sender.typed)
        sender.typed = None
        heard, frame = _HEARD.search(line), sender.handed
        if heard is None or frame is None:
            return
        port = heard[1] or heard[2]
        if int(port) == frame.f_port if port else frame.ack:
            sender.handed = None
            sender.owes_ack |= frame.kind is Kind.CONFIRMED_DOWN
            asked = {command.cid for command in from_network(frame.f_opts)}
            sender.owes |= asked & self._answers

    def _looked_at(self, sender: _Sender, event: Event) -> Iterator[Found]:
        frame = read_data(bytes.fromhex(event["phy"]))
        if frame is None or "f_cnt" not in event:  # a join request
            sender.forget()
            return
        place = event["session"], event["f_cnt"]
        if place == sender.latest:
            return
        if sender.latest and (place[0] != sender.latest[0] or place[1] < sender.latest[1]):
            sender.forget()
        sender.latest = place
        check = Scrutiny(
            rule="uplink", of=f"uplink {frame.frame_id}", t_us=event["t_us"],
            frame_id=frame.frame_id,
        )  # fmt: skip
        for found in self._wrong(sender, frame, event["dev_eui"], place[1], check):
            yield replace(found, owner=Owner.DEVICE)

    def _wrong(
        self, sender: _Sender, frame: DataFrame, dev_eui: str, f_cnt: int, check: Scrutiny
    ) -> Iterator[Found]:
        device = self._devices[dev_eui]
        session = device.session_of(frame, f_cnt)
        of_address = [one for one in device.sessions if one.dev_addr == frame.dev_addr]
        if session is None:
            if of_address:
                yield check.wrong("MIC", f"that of its session and FCnt {f_cnt}", frame.mic)
            return
        on_port_0 = frame.f_port == 0
        octets = frame.clear(session.keys, f_cnt) if on_port_0 else frame.f_opts
        said = from_device(octets)
        # On FPort 0 an application may have put whatever it likes.
        if not on_port_0 and sum(len(command.octets) for command in said) != len(octets):
            yield check.wrong("FOpts", "whole commands of a device", octets)
        if frame.adr and sender.unheard >= ADR_ACK_LIMIT and not frame.bit_6:
            yield check.wrong("ADRACKReq", f"yes: {sender.unheard} frames unheard", False)
        sender.unheard += 1
        yield from _acknowledged(sender, frame, check)
        yield from self._answered(sender, said, check)
        if not on_port_0:
            yield from _asked(sender, said, len(octets), check)

    def _answered(
        self, sender: _Sender, said: tuple[Command, ...], check: Scrutiny
    ) -> Iterator[Found]:
        answers = {command.cid for command in said} & self._answers
        for cid in sorted(sender.owes - answers):
            yield check.wrong(f"answer to {cid.name}", "one", None)
        for cid in sorted(answers - sender.was_asked):
            yield check.wrong(f"answer to {cid.name}", "none: nobody has asked", "one")
        for command in said:
            if command.cid is Cid.LINK_ADR and command.told != _GRANTED:
                yield check.wrong("LinkADRAns", _GRANTED, command.told)
        sender.owes.clear()


def _acknowledged(sender: _Sender, frame: DataFrame, check: Scrutiny) -> Iterator[Found]:
    if sender.owes_ack:
        yield from check.same("ACK", True, frame.ack)
    elif frame.ack and not sender.was_confirmed:
        yield from check.same("ACK", False, frame.ack)
    sender.owes_ack = False
    sender.was_confirmed &= not frame.ack


def _asked(
    sender: _Sender, said: tuple[Command, ...], octets: int, check: Scrutiny
) -> Iterator[Found]:
    """What somebody has typed goes with the next frame, unless there is no room."""
    missing = sender.asks - {command.cid for command in said}
    if octets + len(missing) <= F_OPTS_MAX:
        for cid in sorted(missing):
            yield check.wrong(cid.name, "one: it was asked for at the console", None)
    sender.asks.clear()


# | 0 | unit 7 | session 8 | microseconds 48 |
_END = 1 << 48
_PER_MILLION = 100
_APART_US = {"simulated": 1_000, "emulated": 50_000}
"""How far the clocks of a station and of the air may seem apart on rigs that know the air's."""


@dataclass(slots=True)
class Gateways:
    """Remembers of each station which of its clocks showed what when a frame ended."""

    rig: str = ""
    _ended: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def connected(self, station: str) -> None:
        """It may have begun again, with a clock that starts anew under the same session byte."""
        self._ended.pop(station, None)

    def heard(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        """What of a frame is otherwise than it was sent; `sent` is its `radio.transmit`."""
        if uplink.injected or "dr" not in sent or self.rig not in _APART_US:
            return  # in a lab a second radio may have sent it again
        for found in self._wrong(uplink, sent, check):
            yield replace(found, owner=Owner.GATEWAY)

    def _wrong(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        yield from check.same("DR", sent["dr"], uplink.dr)
        yield from check.same("Freq", sent["freq_hz"], uplink.freq_hz)
        if not uplink.xtime:  # a station without a clock
            return
        ended_us, (clock, counter_us) = (
            sent["t_us"] + sent["airtime_us"],
            divmod(uplink.xtime, _END),
        )
        known = self._ended.setdefault(uplink.station, (clock, counter_us, ended_us))
        if known[0] != clock:
            return
        passed_us = ended_us - known[2]  # before 0 where what was held is told behind a later one
        counted_us = (counter_us - known[1] + _END // 2) % _END - _END // 2
        apart_us = _APART_US[self.rig] + abs(passed_us) * _PER_MILLION // 1_000_000
        if abs(counted_us - passed_us) > apart_us:
            yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")
