"""What can be set in the MAC of a device, by its console and by its network?"""

from dataclasses import dataclass

from bench.virtual.lorawan.channel_plan import (
    EU868,
    RX2_AFTER_RX1_S,
    SUB_BAND_2,
    ChannelPlan,
    UpChannel,
)
from bench.virtual.lorawan.commands import LinkAdr
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
