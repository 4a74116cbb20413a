"""What does a MAC do with the commands of its server, and what does it answer?"""

from collections.abc import Sequence

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
_CHANNELS_OF_A_MASK = 16
_ALL_CHANNELS = 6
_POWER_STEP_DB = 2


def obey(
    commands: Sequence[MacCommand], session: Session, settings: MacSettings, snr_db: float
) -> None:
    """Carry out the commands of one downlink; the session owes their answers."""
    for command in commands:
        match command:
            case LinkADRReq():
                session.answers += encode([_link_adr(command, settings)])
            case DevStatusReq():
                margin_db = max(-32, min(31, round(snr_db)))
                session.answers += encode([DevStatusAns(_BATTERY_UNKNOWN, margin_db)])
            case OtherCommand(cid, body):
                session.answers += _other(cid, body, session, settings)
            case _:
                pass


def _link_adr(command: LinkADRReq, settings: MacSettings) -> LinkADRAns:
    """All or nothing; nothing while ADR is off (RUI3, LoRaMac.c)."""
    if not settings.adr:
        return LinkADRAns(power_ack=False, dr_ack=False, ch_mask_ack=False)
    region = settings.region
    dr_ack = command.dr == _KEEP or command.dr < len(region.rx1_drs)
    masked = _masked(command)
    answer = LinkADRAns(dr_ack=dr_ack, ch_mask_ack=masked is None or bool(masked))
    if answer == LinkADRAns():
        if command.dr != _KEEP:
            settings.dr = command.dr
        if command.tx_power != _KEEP:
            settings.power_dbm = region.max_eirp_dbm - _POWER_STEP_DB * command.tx_power
        settings.nb_trans = command.nb_trans or settings.nb_trans
        settings.masked = masked
    return answer


def _masked(command: LinkADRReq) -> frozenset[int] | None:
    """The channels that a mask leaves; None for all."""
    if command.ch_mask_cntl >= _ALL_CHANNELS:
        return None
    first = command.ch_mask_cntl * _CHANNELS_OF_A_MASK
    bits = range(_CHANNELS_OF_A_MASK)
    return frozenset(first + bit for bit in bits if command.ch_mask >> bit & 1)


def _other(cid: int, body: bytes, session: Session, settings: MacSettings) -> bytes:
    if cid == _DUTY_CYCLE:
        return bytes([cid])
    if cid == _RX_PARAM_SETUP:
        session.rx1_dr_offset, settings.rx2_dr = body[0] >> 4 & 7, body[0] & 15
        settings.rx2_freq_hz = int.from_bytes(body[1:4], "little") * 100
        return bytes([cid, 7])
    if cid == _NEW_CHANNEL:
        return bytes([cid, 0])  # its channels come with the join-accept
    if cid == _RX_TIMING_SETUP:
        settings.rx1_delay_us = max(body[0] & 15, 1) * 1_000_000
        settings.rx2_delay_us = settings.rx1_delay_us + 1_000_000
        return bytes([cid])
    return b""
