"""What does a frame ask of the network itself, and what does the network say back?

MAC commands travel in FOpts or as the payload of FPort 0 (LoRaWAN 1.0.x, 5). Their state is
applied once, by the first copy of a frame.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import product

from msgspec import Struct

from lns.clock import Utc, now_us
from lns.dedup.session import Session
from lns.events import Request
from lns.lorawan.frame import F_OPTS_BYTES_MAX, Data
from lns.lorawan.identifiers import Eui
from lns.lorawan.mac_commands import (
    DeviceTimeAns,
    DeviceTimeReq,
    DevStatusAns,
    LinkADRAns,
    LinkADRReq,
    LinkCheckAns,
    LinkCheckReq,
    MacCommand,
    ServerCommand,
    TxParamSetupAns,
    TxParamSetupReq,
    encode,
    parse_uplink,
)
from lns.lorawan.region import DataRate, Region
from lns.station.protocol import Reception, gps_time_us
from lns.uplink.registry import EndDevice, Match

KEEP_TX_POWER = 15  # LoRaWAN 1.0.4, 5.3: "the device SHALL ignore that field"
_REQUIRED_SNR_DB = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}


class Requests(Struct, frozen=True, gc=False):
    """What a frame asks for: an ACK, a LinkCheckAns, the time, or (ADRACKReq) any downlink at all.

    `adr`: the network may set how the device sends.
    """

    ack: bool
    link_check: bool
    device_time: bool
    any_downlink: bool
    adr: bool
    commands: tuple[MacCommand, ...]

    @property
    def wants_answer(self) -> bool:
        """Whether the device listens for an answer."""
        return self.ack or self.link_check or self.device_time or self.any_downlink

    @property
    def status(self) -> DevStatusAns | None:
        """What the device tells of itself, the newest where it does so twice."""
        if not self.commands:
            return None
        reports = [command for command in self.commands if isinstance(command, DevStatusAns)]
        return reports[-1] if reports else None


_NOTHING_SAID = {
    (confirmed, any_downlink, adr): Requests(confirmed, False, False, any_downlink, adr, ())
    for confirmed, any_downlink, adr in product((True, False), repeat=3)
}
"""What frames without MAC commands ask for, by their bits."""


def requests(frame: Data, session: Session, f_cnt: int) -> Requests:
    """The requests in a frame whose MIC was proven."""
    octets = frame.payload(session.keys, f_cnt) if frame.f_port == 0 else frame.f_opts
    if not octets:
        return _NOTHING_SAID[frame.confirmed, frame.adr_ack_req, frame.adr]
    commands = parse_uplink(octets)
    return Requests(
        ack=frame.confirmed,
        link_check=any(isinstance(command, LinkCheckReq) for command in commands),
        device_time=any(isinstance(command, DeviceTimeReq) for command in commands),
        any_downlink=frame.adr_ack_req,
        adr=frame.adr,
        commands=commands,
    )


def apply(said: Requests, session: Session) -> None:
    """Take over what the device reports; only ever called for the first copy of a frame."""
    for command in said.commands:
        if isinstance(command, LinkADRAns) and session.nb_trans_asked:
            # The record may say something else by now.
            asked, session.nb_trans_asked = int(session.nb_trans_asked), 0
            if command.power_ack and command.dr_ack and command.ch_mask_ack:
                session.nb_trans = asked
        elif isinstance(command, TxParamSetupAns):
            session.knows_dwell_times = True


def answers(
    asked: Requests, reception: Reception, region: Region, gps_us: Callable[[], int]
) -> list[ServerCommand]:
    """The commands that answer those of a frame, each once, in their order (LoRaWAN 1.0.4, 5).

    `gps_us` tells when the frame ended.
    """
    said: list[ServerCommand] = []
    for command in dict.fromkeys(asked.commands):
        if isinstance(command, LinkCheckReq):
            said.append(LinkCheckAns(_margin_db(reception, region), gateway_count=1))
        elif isinstance(command, DeviceTimeReq):
            said.append(device_time(gps_us()))
    return said


def has_wishes(asked: Requests, device: EndDevice, session: Session, region: Region) -> bool:
    """Whether the network wants something by itself."""
    return wants_repetitions(asked, device, session) or wants_dwell_times(session, region)


def is_unsettled(match: Match, region: Region) -> bool:
    """Whether there is something to agree with a device, or another server has agreed it."""
    is_settled = match.session.nb_trans == match.device.nb_trans
    return not is_settled or wants_dwell_times(match.session, region)


def wants_dwell_times(session: Session, region: Region) -> bool:
    """Whether the device is to be told how long a frame may be; what it begins with is unsure."""
    return region.dwell_times is not None and not session.knows_dwell_times


def wants_repetitions(asked: Requests, device: EndDevice, session: Session) -> bool:
    """Whether the device is to be told how often to send, and would obey.

    Without the ADR bit a device grants a LinkADRReq and does not do it (LoRaWAN 1.0.4, 4.3.1.1).
    """
    return asked.adr and session.nb_trans != device.nb_trans


def wishes(
    asked: Requests, device: EndDevice, session: Session, reception: Reception, region: Region
) -> list[ServerCommand]:
    """What the network wants by itself; it asks again until it is granted."""
    wanted: list[ServerCommand] = []
    if wants_repetitions(asked, device, session):
        session.nb_trans_asked = device.nb_trans
        more = len(session.more_channels_hz or ())
        wanted.append(
            repetitions(device.nb_trans, dr=reception.dr, region=region, more_channels=more)
        )
    dwell = region.dwell_times
    if dwell is not None and wants_dwell_times(session, region):
        wanted.append(TxParamSetupReq(dwell.downlink, dwell.uplink, region.max_eirp_dbm))
    return wanted


def that_fit(commands: Iterable[ServerCommand]) -> list[ServerCommand]:
    """Those that FOpts have room for, the first ones first; the others wait for the next answer."""
    said: list[ServerCommand] = []
    for command in commands:
        if len(encode([*said, command])) <= F_OPTS_BYTES_MAX:
            said.append(command)
    return said


def ended_gps_us(reception: Reception, utc: Utc) -> int:
    """When a frame ended, in GPS time: as its station says, or by this server's own clocks."""
    if reception.gps_us > 0:
        return reception.gps_us
    ended_us = reception.arrived_us if reception.heard_us is None else reception.heard_us
    return gps_time_us(utc()) - (now_us() - ended_us)


def device_time(gps_us: int) -> DeviceTimeAns:
    """GPS time as a device gets it: never later than it is, in steps of 1/256 s."""
    gps_s, rest_us = divmod(gps_us, 1_000_000)
    return DeviceTimeAns(gps_s & 0xFFFFFFFF, rest_us * 256 // 1_000_000)


def repetitions(nb_trans: int, *, dr: int, region: Region, more_channels: int = 0) -> LinkADRReq:
    """What tells a device to send every frame so often, and leaves the rest as it is.

    `more_channels`: how many its join accept has added to those of the region.
    """
    more = (1 << more_channels) - 1 << len(region.uplink_channels)
    return LinkADRReq(
        dr=dr,
        tx_power=KEEP_TX_POWER,
        ch_mask=region.ch_mask | more,
        nb_trans=nb_trans,
    )


def _margin_db(reception: Reception, region: Region) -> int:
    known = reception.dr < len(region.data_rates)
    data_rate = region.data_rates[reception.dr] if known else None
    if not isinstance(data_rate, DataRate):
        return 0
    return max(0, min(254, round(reception.snr_db - _REQUIRED_SNR_DB[data_rate.sf])))


ASKED_MAX = 3
"""How often a device is asked for one status; one that never answers is left alone then."""


@dataclass(slots=True)
class _Wanted:
    """A status that the application wants (`by_application`), or that is due by configuration."""

    by_application: bool
    askings: int = 0


class StatusRequests:
    """Which devices are to be asked, and when each has told its status last.

    Remembers both for as long as the process lives; there is at most one entry a device.
    """

    def __init__(self, lns: str, record: Callable[[Request], None]) -> None:
        self._lns = lns
        self._record = record
        self._wanted: dict[Eui, _Wanted] = {}
        self._over_us: dict[Eui, int] = {}

    def want(self, dev_eui: Eui) -> None:
        """The application wants to know the status of a device."""
        self._wanted[dev_eui] = _Wanted(by_application=True)
        self._tell("queued", dev_eui)

    def refuse(self, reason: str, dev_eui: Eui) -> None:
        """Tell of a status that nobody is asked for."""
        self._tell("refused", dev_eui, reason)

    def is_due(self, device: EndDevice) -> bool:
        """Whether the next answer to a device asks for its status."""
        dev_eui = device.dev_eui
        wanted = self._wanted.get(dev_eui)
        if wanted is None and self._has_come_round(device):
            wanted = self._wanted[dev_eui] = _Wanted(by_application=False)
        if wanted is not None and wanted.askings >= ASKED_MAX:
            self._end(dev_eui, "given_up", "NotAnswered")
            return False
        return wanted is not None

    def asked(self, dev_eui: Eui) -> None:
        """A station was handed a DevStatusReq for a device."""
        wanted = self._wanted.get(dev_eui)
        if wanted is not None:
            wanted.askings += 1

    def answered(self, dev_eui: Eui) -> None:
        """A device has told its status, whoever asked for it."""
        self._end(dev_eui, "done")

    def _has_come_round(self, device: EndDevice) -> bool:
        if device.dev_status_s is None:
            return False
        over_us = self._over_us.get(device.dev_eui)
        return over_us is None or now_us() - over_us >= device.dev_status_s * 1_000_000

    def _end(self, dev_eui: Eui, stage: str, reason: str | None = None) -> None:
        self._over_us[dev_eui] = now_us()
        wanted = self._wanted.pop(dev_eui, None)
        if wanted is not None and wanted.by_application:
            self._tell(stage, dev_eui, reason)

    def _tell(self, stage: str, dev_eui: Eui, reason: str | None = None) -> None:
        self._record(
            Request(stage=stage, lns=self._lns, dev_eui=dev_eui, wants="status", reason=reason)
        )
