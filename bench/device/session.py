"""What is known of the session of a device, by whoever has its keys?"""

from dataclasses import dataclass, field

from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr


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
