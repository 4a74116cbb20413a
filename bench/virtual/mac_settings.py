"""What can be set in the MAC of a device, by its console and by its network?"""

from collections.abc import Sequence
from dataclasses import dataclass

from bench.virtual.lorawan.channel_plan import (
    EU868,
    RX2_AFTER_RX1_S,
    SUB_BAND_2,
    ChannelPlan,
    UpChannel,
)
from bench.virtual.lorawan.frames import (
    Cid,
    Command,
    LinkAdr,
    dev_status_ans,
    hertz,
    link_adr,
    link_adr_ans,
)
from bench.virtual.session import Session

SECOND_US = 1_000_000
JOIN_DELAY_S = 5
CHANNELS_OF_A_BANK = 16
_FIRST_WIDE = 64


@dataclass(slots=True, kw_only=True)
class MacSettings:
    """What console, join-accept and MAC commands have set.

    `power_dbm` is EIRP. `added_channels_hz`: those of the console. `masked`: numbers of the
    channels in use, None for all; added ones and those of a join-accept count on after those of
    the region. `single_channel_hz`: 0 for none.
    """

    plan: ChannelPlan = EU868
    dr: int = 0
    power_dbm: int = 16
    adr: bool = True
    duty_cycle: bool = True
    class_c: bool = False
    public: bool = True
    nb_trans: int = 1
    rx1_delay_us: int = SECOND_US
    rx2_delay_us: int = (1 + RX2_AFTER_RX1_S) * SECOND_US
    join1_delay_us: int = JOIN_DELAY_S * SECOND_US
    join2_delay_us: int = (JOIN_DELAY_S + RX2_AFTER_RX1_S) * SECOND_US
    rx1_dr_offset: int = 0
    rx2_dr: int = EU868.rx2_dr
    rx2_freq_hz: int = EU868.rx2_freq_hz
    single_channel_hz: int = 0
    added_channels_hz: tuple[int, ...] = ()
    masked: frozenset[int] | None = None

    def channels(self, session: Session | None) -> list[UpChannel | None]:
        """All channels by their numbers; None for one that is not defined."""
        if session is not None and session.more_channels:
            more: list[UpChannel | None] = list(session.more_channels)
        else:
            more = [UpChannel(hz, range(6)) for hz in self.added_channels_hz]
        return [*self.plan.default_channels, *more]

    def usable(self, session: Session | None, dr: int) -> list[int]:
        """The numbers of the channels that may be used with a data rate."""
        return [
            number
            for number, channel in enumerate(self.channels(session))
            if channel is not None
            and dr in channel.drs
            and (self.masked is None or number in self.masked)
        ]

    def receive_as_at_first(self) -> None:
        """RX1 and RX2, repetitions and power as nobody has told otherwise."""
        self.rx1_delay_us, self.rx2_delay_us = SECOND_US, (1 + RX2_AFTER_RX1_S) * SECOND_US
        self.rx1_dr_offset, self.rx2_dr = 0, self.plan.rx2_dr
        self.rx2_freq_hz, self.nb_trans = self.plan.rx2_freq_hz, 1

    def lower_data_rate(self, session: Session) -> None:
        """One step of ADR back-off: slower, and in the end all channels and one transmission."""
        if self.dr > self.plan.up_drs[0]:
            self.dr -= 1
        else:
            self.masked, self.nb_trans = own_mask(self.plan), 1


def own_mask(plan: ChannelPlan) -> frozenset[int] | None:
    """The channels that a device of this bench uses at first, None for all."""
    return frozenset(SUB_BAND_2) if plan.downlinks_hz else None


def masked_by(
    settings: MacSettings, session: Session | None, wanted: LinkAdr, before: frozenset[int]
) -> frozenset[int] | None:
    """The channels after a ChMask; None where it names one that is not there, or is RFU.

    ChMaskCntl 6 is all channels in EU868. In US915: 5 is sub-bands, 6 and 7 all or none of the
    narrow channels beside the wide ones of the mask.
    """
    channels = settings.channels(session)
    known = frozenset(number for number, channel in enumerate(channels) if channel is not None)
    control = wanted.mask_control
    bits = [bit for bit in range(CHANNELS_OF_A_BANK) if wanted.mask >> bit & 1]
    if settings.plan.downlinks_hz and control in (5, 6, 7):
        wide = [_FIRST_WIDE + bit for bit in bits if bit < 8]
        in_sub_bands = [8 * bit + number for bit in bits if bit < 8 for number in range(8)]
        narrow = {5: in_sub_bands, 6: range(_FIRST_WIDE), 7: ()}[control]
        return frozenset((*narrow, *wide))
    if not settings.plan.downlinks_hz and control == 6:
        return known
    if control > (4 if settings.plan.downlinks_hz else 0):
        return None
    bank = range(control * CHANNELS_OF_A_BANK, (control + 1) * CHANNELS_OF_A_BANK)
    named = frozenset(bank[bit] for bit in bits)
    return before - frozenset(bank) | named if named <= known else None


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
        case Cid.TX_PARAM_SETUP if settings.plan.tx_params is not None:
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
