"""What does a frame ask of the network itself, and what does the network say back?

MAC commands travel in FOpts or as the payload of FPort 0 (LoRaWAN 1.0.x, 5). Their state is
applied once, by the first copy of a frame.
"""

from msgspec import Struct

from lns.end_device import EndDevice, Session
from lns.lorawan.data_rate import DataRate
from lns.lorawan.frame import Data
from lns.lorawan.mac_commands import (
    LinkADRAns,
    LinkADRReq,
    LinkCheckAns,
    LinkCheckReq,
    MacCommand,
    parse_uplink,
)
from lns.lorawan.region import Region
from lns.reception import Reception

KEEP_TX_POWER = 15  # LoRaWAN 1.0.4, 5.3: "the device SHALL ignore that field"
# The first 16 channels that stations are told to listen to: US915 is sub-band 2.
_CH_MASKS = {"EU868": 0x0007, "US915": 0xFF00}
_REQUIRED_SNR_DB = {7: -7.5, 8: -10.0, 9: -12.5, 10: -15.0, 11: -17.5, 12: -20.0}


class Requests(Struct, frozen=True):
    """What a frame asks for: an ACK, a LinkCheckAns, or (ADRACKReq) any downlink at all."""

    ack: bool
    link_check: bool
    any_downlink: bool
    commands: tuple[MacCommand, ...]

    @property
    def wants_answer(self) -> bool:
        """Whether the device listens for an answer."""
        return self.ack or self.link_check or self.any_downlink


def requests(frame: Data, session: Session, f_cnt: int) -> Requests:
    """The requests in a frame whose MIC was proven."""
    octets = frame.payload(session.keys, f_cnt) if frame.f_port == 0 else frame.f_opts
    if not octets:
        return Requests(frame.confirmed, False, frame.adr_ack_req, ())
    commands = parse_uplink(octets)
    return Requests(
        ack=frame.confirmed,
        link_check=any(isinstance(command, LinkCheckReq) for command in commands),
        any_downlink=frame.adr_ack_req,
        commands=commands,
    )


def apply(asked: Requests, device: EndDevice, session: Session) -> None:
    """Take over what the device reports; only ever called for the first copy of a frame."""
    for command in asked.commands:
        if isinstance(command, LinkADRAns) and session.nb_trans_asked:
            session.nb_trans_asked = False
            if command.power_ack and command.dr_ack and command.ch_mask_ack:
                session.nb_trans = device.nb_trans


def answers(
    asked: Requests, device: EndDevice, session: Session, reception: Reception, region: Region
) -> list[MacCommand]:
    """The commands that go back with the answer; asks for repetitions until they are granted."""
    said: list[MacCommand] = []
    if asked.link_check:
        said.append(LinkCheckAns(_margin_db(reception, region), gateway_count=1))
    if session.nb_trans != device.nb_trans:
        session.nb_trans_asked = True
        said.append(repetitions(device.nb_trans, dr=reception.dr, region=region))
    return said


def repetitions(nb_trans: int, *, dr: int, region: Region) -> LinkADRReq:
    """What tells a device to send every frame so often, and leaves the rest as it is."""
    return LinkADRReq(
        dr=dr, tx_power=KEEP_TX_POWER, ch_mask=_CH_MASKS[region.name], nb_trans=nb_trans
    )


def _margin_db(reception: Reception, region: Region) -> int:
    known = reception.dr < len(region.data_rates)
    data_rate = region.data_rates[reception.dr] if known else None
    if not isinstance(data_rate, DataRate):
        return 0
    return max(0, min(254, round(reception.snr_db - _REQUIRED_SNR_DB[data_rate.sf])))
