"""What does a MAC do with the commands of its server, and what does it answer?"""

from collections.abc import Sequence

from bench.device.link_adr import judge, masked_channels
from bench.emulation.mac_session import Session
from bench.emulation.mac_settings import MacSettings
from lns.lorawan.mac_commands import (
    DevStatusAns,
    DevStatusReq,
    LinkADRAns,
    LinkADRReq,
    MacCommand,
    OtherCommand,
    encode,
)

_DUTY_CYCLE, _RX_PARAM_SETUP, _NEW_CHANNEL, _RX_TIMING_SETUP = 0x04, 0x05, 0x07, 0x08
_KEEP = 15
_BATTERY_UNKNOWN = 255
_ALL_RIGHT = 3
_POWER_STEP_DB = 2


def obey(
    commands: Sequence[MacCommand], session: Session, settings: MacSettings, snr_db: float
) -> None:
    """Carry out the commands of one downlink; the session owes their answers."""
    for command in commands:
        match command:
            case LinkADRReq():
                session.answers += encode([_link_adr(command, session, settings)])
            case DevStatusReq():
                margin_db = max(-32, min(31, round(snr_db)))
                session.answers += encode([DevStatusAns(_BATTERY_UNKNOWN, margin_db)])
            case OtherCommand(cid, body):
                session.answers += _other(cid, body, session, settings)
            case _:
                pass


def _link_adr(command: LinkADRReq, session: Session, settings: MacSettings) -> LinkADRAns:
    """All or nothing; without ADR all is granted, and nothing but the mask is done."""
    region = settings.region
    added = len(session.more_channels_hz or settings.added_channels_hz)
    answer, dr = judge(command, region, dr=settings.dr, adr=settings.adr, added=added)
    if answer == LinkADRAns():
        settings.masked = masked_channels(command, len(region.uplink_channels) + added)
        if settings.adr:
            settings.dr = dr
            if command.tx_power != _KEEP:
                settings.power_dbm = region.max_eirp_dbm - _POWER_STEP_DB * command.tx_power
            settings.nb_trans = max(command.nb_trans, 1)
    return answer


def _add_channel(body: bytes, session: Session, settings: MacSettings) -> bool:
    """Add a channel behind those of the region, or replace one; whether it could be done."""
    number = body[0] - len(settings.region.uplink_channels)
    more = session.more_channels_hz or settings.added_channels_hz
    if not 0 <= number <= len(more):
        return False
    freq_hz = int.from_bytes(body[1:4], "little") * 100
    session.more_channels_hz = (*more[:number], freq_hz, *more[number + 1 :])
    return True


def _other(cid: int, body: bytes, session: Session, settings: MacSettings) -> bytes:
    if cid == _DUTY_CYCLE:
        return bytes([cid])
    if cid == _RX_PARAM_SETUP:
        session.rx1_dr_offset, settings.rx2_dr = body[0] >> 4 & 7, body[0] & 15
        settings.rx2_freq_hz = int.from_bytes(body[1:4], "little") * 100
        return bytes([cid, 7])
    if cid == _NEW_CHANNEL:
        return bytes([cid, _ALL_RIGHT if _add_channel(body, session, settings) else 0])
    if cid == _RX_TIMING_SETUP:
        settings.rx1_delay_us = max(body[0] & 15, 1) * 1_000_000
        settings.rx2_delay_us = settings.rx1_delay_us + 1_000_000
        return bytes([cid])
    return b""
