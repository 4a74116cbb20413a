"""What a network server reports about itself, as typed events of the capture."""

from dataclasses import dataclass, fields
from typing import ClassVar, get_args

from lns.dedup.claim import Level2
from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.receive_window import Answer


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What became of one reception; exactly one for each (`lns.outcome`).

    Fields that are not known (no MIC match, level 1 not reached, not dropped) are None and left
    out of the capture. `xtime` is the station's clock in µs, `f_cnt` has 32 bits.
    """

    kind: ClassVar[str] = "lns.outcome"
    station: Eui
    lns: str
    frame_id: str | None = None
    dev_eui: Eui | None = None
    dev_addr: DevAddr | None = None
    f_cnt: int | None = None
    mic: Mic | None = None
    confirmed: bool | None = None
    strategy: Strategy | None = None
    status: Status | None = None
    upstream: Upstream
    reason: Reason | None = None
    answer: Answer
    level2: Level2 = Level2.NOT_ASKED
    xtime: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Downlink:
    """A downlink was handed to a station, or the station reports it on the air (`lns.downlink`).

    `stage` is "scheduled" or "transmitted"; `margin_us` is the time left until the window opened
    when the server decided; `xtime` is the uplink's when scheduled, the start of the transmission
    when transmitted.
    """

    kind: ClassVar[str] = "lns.downlink"
    stage: str
    lns: str
    station: Eui
    dev_eui: Eui
    diid: int
    window: str
    xtime: int
    f_cnt_down: int | None = None
    dev_addr: DevAddr | None = None
    frame_id: str | None = None
    margin_us: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Evicted:
    """Level 1 forgot a frame before its time because it was full (`lns.evicted`)."""

    kind: ClassVar[str] = "lns.evicted"
    lns: str
    key: str
    silent_us: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Connection:
    """A station's connection began, ended or was refused (`lns.connection`).

    `stage` is "connected", "disconnected" or "refused"; `peer` the address it came from. `cause`
    says why it ended or was refused; `texts` and `binaries` how many messages it brought (binary
    ones are not read). `station` is absent where a refused one did not say who it is.
    """

    kind: ClassVar[str] = "lns.connection"
    stage: str
    lns: str
    station: Eui | None = None
    peer: str
    cause: str | None = None
    texts: int | None = None
    binaries: int | None = None


Event = Outcome | Downlink | Evicted | Connection


def as_fields(event: Event) -> dict[str, object]:
    """The fields of an event for the capture, absent ones left out."""
    values = ((name, getattr(event, name)) for name in _NAMES[type(event)])
    return {name: value for name, value in values if value is not None}


_NAMES = {kind: tuple(f.name for f in fields(kind)) for kind in get_args(Event)}
