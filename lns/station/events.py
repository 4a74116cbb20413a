"""What has happened on one station's connection?"""

from dataclasses import dataclass
from typing import Any

from msgspec import Struct

from lns.lorawan.identifiers import Eui
from lns.station.messages import Dnmsg


@dataclass(frozen=True, slots=True)
class Versioned:
    """A station introduced itself."""

    station_version: str
    features: tuple[str, ...]


class Uplink(Struct, frozen=True):
    """A frame that a station heard; `xtime` 0 = not told; `join`: it is a join-request.

    `gps_us` is its end in GPS time, 0 where the station does not know it.
    """

    phy: bytes
    dr: int
    freq_hz: int
    xtime: int
    rctx: int
    rssi_dbm: float
    snr_db: float
    join: bool
    gps_us: int = 0


@dataclass(frozen=True, slots=True)
class Transmitted:
    """A downlink is on the air; `xtime` is its start on the station's clock."""

    diid: int
    dev_eui: Eui
    dr: int
    freq_hz: int
    xtime: int


@dataclass(frozen=True, slots=True)
class XtimeSample:
    """What the station's clock showed just now; 0: its radio has not shown any time yet."""

    xtime: int


@dataclass(frozen=True, slots=True)
class Rejected:
    """A message that cannot be read; `reception`: it stands for a frame that was heard."""

    why: str
    msgtype: str
    reception: bool


@dataclass(frozen=True, slots=True)
class Passed:
    """A message without use here."""

    msgtype: str


@dataclass(frozen=True, slots=True)
class Configured:
    """The server's channel plan: a station's radio starts anew."""

    config: dict[str, Any]


@dataclass(frozen=True, slots=True)
class DownlinkWanted:
    """The server asks for a transmission."""

    dnmsg: Dnmsg


@dataclass(frozen=True, slots=True)
class TimeTold:
    """The server's time in seconds UTC, from any message that carries MuxTime."""

    mux_time: float


Event = (
    Versioned | Uplink | Transmitted | XtimeSample | Rejected | Passed
    | Configured | DownlinkWanted | TimeTold
)  # fmt: skip
