"""What is written into a device, and what is then known of its session?"""

from dataclasses import dataclass, field

from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import Channel, Region, us915_sub_band


@dataclass(frozen=True, slots=True)
class Otaa:
    """A device that joins."""

    join_eui: Eui
    app_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Abp:
    """A device whose one session was written into it."""

    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """All that is written into a device, in words that no dialect has.

    `region` is a name that `lns.lorawan.region` knows, `dr` its index, `power_dbm` an EIRP that is
    not exceeded. `duty_cycle`: the device keeps it by itself. `channel_hz`: the one channel it
    uses, 0 for those of the region. `sub_band`: which eight channels of US915. `role`: a name that
    is kept in the board, where it keeps one.
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
    sub_band: int = 2
    role: str = ""

    @property
    def joins(self) -> bool:
        """Whether it gets its session by joining."""
        return isinstance(self.activation, Otaa)


def channels(region: Region, sub_band: int = 2) -> tuple[Channel, ...]:
    """The channels a device of this bench uses: in US915 those of a sub-band."""
    return us915_sub_band(sub_band) if region.name == "US915" else region.uplink_channels


@dataclass(slots=True, kw_only=True)
class DeviceSession:
    """One session of one device.

    Remembers both counters (`f_cnt_up` is the next to be used, `f_cnt_down` the last accepted) and
    the receive parameters.
    """

    number: int
    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)
    f_cnt_up: int
    receive_delay_us: int
    rx2_dr: int
    rx1_dr_offset: int = 0
    f_cnt_down: int | None = None
