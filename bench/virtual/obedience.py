"""What does a MAC do with the commands of its network, and what does it answer?

As LoRaMac-node 4.7 was seen to do it. LoRaWAN 1.0.4, 5.
"""

from collections.abc import Sequence

from bench.virtual.lorawan.channel_plan import UpChannel
from bench.virtual.lorawan.commands import (
    Cid,
    Command,
    LinkAdr,
    dev_status_ans,
    hertz,
    link_adr,
    link_adr_ans,
)
from bench.virtual.mac_settings import SECOND_US, MacSettings, masked_by
from bench.virtual.session import Session

_BATTERY_UNKNOWN = 255
_KEEP = 15


def obey(
    commands: Sequence[Command], session: Session, settings: MacSettings, snr_db: float
) -> None:
    """Carry out the commands of one downlink; the session owes their answers."""
    at = 0
    while at < len(commands):
        command = commands[at]
        if command.cid is Cid.LINK_ADR:
            block = [command]
            while at + len(block) < len(commands) and commands[at + len(block)].cid is command.cid:
                block.append(commands[at + len(block)])
            answer = _link_adr([link_adr(one) for one in block], session, settings)
            session.answers += [answer] * len(block)
            at += len(block)
            continue
        told = _answer(command, session, settings, snr_db)
        if told is not None:
            session.answers.append(Command(command.cid, told))
        at += 1


def _answer(
    command: Command, session: Session, settings: MacSettings, snr_db: float
) -> bytes | None:
    """The octets after the identifier; None where nothing is answered."""
    told = command.told
    match command.cid:
        case Cid.DEV_STATUS:
            return dev_status_ans(_BATTERY_UNKNOWN, round(snr_db)).told
        case Cid.RX_PARAM_SETUP:
            return _rx_param_setup(told, settings)
        case Cid.NEW_CHANNEL:
            return _new_channel(told, session, settings)
        case Cid.DL_CHANNEL:
            return _dl_channel(told, session, settings)
        case Cid.RX_TIMING_SETUP:
            settings.rx1_delay_us = (told[0] % 16 or 1) * SECOND_US
            settings.rx2_delay_us = settings.rx1_delay_us + SECOND_US
            return b""
        case Cid.DUTY_CYCLE:
            return b""
        case _:
            return None


def _link_adr(block: Sequence[LinkAdr], session: Session, settings: MacSettings) -> Command:
    """All of a block or nothing: its masks one after the other, the rest as the last one has it.

    With ADR off only the mask is looked at, and done: everything else is granted and stays.
    """
    channels = range(len(settings.channels(session)))
    masked: frozenset[int] | None = frozenset(
        channels if settings.masked is None else settings.masked
    )
    for one in block:
        if masked is not None:
            masked = masked_by(settings, session, one, masked)
    last, plan = block[-1], settings.plan
    all_channels = settings.channels(session)
    dr = settings.dr if not settings.adr or last.dr == _KEEP else last.dr
    has_dr = any(
        (channel := all_channels[number]) is not None and dr in channel.drs
        for number in masked or ()
    )
    has_power = not settings.adr or last.power in (*range(plan.power_index_max + 1), _KEEP)
    answer = link_adr_ans(power=has_power, dr=has_dr, mask=bool(masked))
    if answer == link_adr_ans(power=True, dr=True, mask=True):
        settings.masked = masked
        if settings.adr:
            settings.dr, settings.nb_trans = dr, max(last.nb_trans, 1)
            if last.power != _KEEP:
                settings.power_dbm = plan.power_dbm(last.power)
    return answer


def _rx_param_setup(told: bytes, settings: MacSettings) -> bytes:
    """Bit 2: RX1DROffset, bit 1: RX2 data rate, bit 0: RX2 frequency; all or nothing."""
    plan = settings.plan
    offset, dr, freq_hz = told[0] >> 4 & 7, told[0] % 16, hertz(told[1:4])
    has_dr = dr < len(plan.data_rates) and plan.data_rates[dr] is not None
    is_within = plan.limits_hz[0] <= freq_hz <= plan.limits_hz[1]
    if offset < plan.offsets and has_dr and is_within:
        settings.rx1_dr_offset, settings.rx2_dr, settings.rx2_freq_hz = offset, dr, freq_hz
    return bytes([4 * (offset < plan.offsets) + 2 * has_dr + is_within])


def _new_channel(told: bytes, session: Session, settings: MacSettings) -> bytes | None:
    """Bit 1: data rates, bit 0: frequency. The channels of the region stay as they are."""
    plan = settings.plan
    if plan.downlinks_hz:
        return None  # RP002, 2.5.2: a device in US915 does not answer
    number, freq_hz, drs = told[0], hertz(told[1:4]), range(told[4] % 16, (told[4] >> 4) + 1)
    first = len(plan.default_channels)
    is_within = not freq_hz or plan.limits_hz[0] <= freq_hz <= plan.limits_hz[1]
    if not first <= number < plan.channels_max:
        return bytes([0])
    has_drs = bool(drs) and drs[-1] in plan.up_drs
    if is_within and has_drs:
        more = settings.channels(session)[first:]
        more += [None] * (number - first + 1 - len(more))
        more[number - first] = UpChannel(freq_hz, drs) if freq_hz else None
        session.more_channels = tuple(more)
        if settings.masked is not None and freq_hz:
            settings.masked |= {number}
    return bytes([2 * has_drs + is_within])


def _dl_channel(told: bytes, session: Session, settings: MacSettings) -> bytes:
    """Bit 1: the channel is there, bit 0: the frequency can be used."""
    number, freq_hz = told[0], hertz(told[1:4])
    channels = settings.channels(session)
    is_there = number < len(channels) and channels[number] is not None
    is_within = settings.plan.limits_hz[0] <= freq_hz <= settings.plan.limits_hz[1]
    if is_there and is_within:
        session.downlinks_hz[number] = freq_hz
    return bytes([2 * is_there + is_within])
