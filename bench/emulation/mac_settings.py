"""What can be set in the MAC of a board?"""

from dataclasses import dataclass

from lns.lorawan.region import EU868, Region


@dataclass(slots=True, kw_only=True)
class MacSettings:
    """What the console and the server set, from a boot to the next.

    `power_dbm` is EIRP. `added_channels_hz`: those of the
    console. `masked`: numbers of the channels in use, None for all; added ones and those of a
    join-accept count on after those of the region. `single_channel_hz`: 0 for none.
    """

    region: Region = EU868
    dr: int = 0
    power_dbm: int = 16
    adr: bool = True
    duty_cycle: bool = True
    class_c: bool = False
    public: bool = True
    nb_trans: int = 1
    rx1_delay_us: int = 1_000_000
    rx2_delay_us: int = 2_000_000
    join1_delay_us: int = 5_000_000
    join2_delay_us: int = 6_000_000
    rx2_dr: int = EU868.rx2_dr
    rx2_freq_hz: int = EU868.rx2_freq_hz
    single_channel_hz: int = 0
    added_channels_hz: tuple[int, ...] = ()
    masked: frozenset[int] | None = None

    def uses(self, number: int) -> bool:
        """Whether a channel is in use."""
        return self.masked is None or number in self.masked
