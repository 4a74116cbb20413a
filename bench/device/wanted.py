"""In which state must a device be before a scenario begins?"""

from dataclasses import dataclass

from bench.device.activation import Abp, Otaa
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Channel, Region, us915_sub_band


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """All that is written into a device, in words that no dialect has.

    `region` is a name that `lns.lorawan.region` knows, `dr` its index, `power_dbm` an EIRP that is
    not exceeded. `duty_cycle`: the device keeps it by itself. `channel_hz`: the one channel it
    uses, 0 for those of the region.
    """

    dev_eui: Eui
    activation: Otaa | Abp
    region: str
    dr: int
    power_dbm: int
    class_c: bool = False
    adr: bool = False
    duty_cycle: bool = False
    channel_hz: int = 0

    @property
    def joins(self) -> bool:
        """Whether it gets its session by joining."""
        return isinstance(self.activation, Otaa)


def channels(region: Region) -> tuple[Channel, ...]:
    """The channels a device of this bench uses: in US915 those of sub-band 2."""
    return us915_sub_band(2) if region.name == "US915" else region.uplink_channels
