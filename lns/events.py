"""What a network server reports about itself, as typed events of the capture."""

from typing import ClassVar

from msgspec import Struct, field
from msgspec.structs import asdict

from lns.dedup.claim import Level2
from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.lorawan.region import Answer


class Outcome(Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
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
    level2: Level2 = field(default_factory=lambda: Level2.NOT_ASKED)  # present also as default
    xtime: int | None = None


class Claimed(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Level 2 was asked who owns a frame; at most once for each reception (`lns.claim`).

    `decision` is the `level2` of the outcome, `owner` the LNS that owns the frame, absent where
    nobody could say, `f_cnt_down` the counter its answer may use, `duration_us` how long it took.
    """

    kind: ClassVar[str] = "lns.claim"
    lns: str
    station: Eui
    frame_id: str
    dev_eui: Eui
    dev_addr: DevAddr
    f_cnt: int
    decision: Level2
    owner: str | None = None
    f_cnt_down: int | None = None
    duration_us: int
    xtime: int


class Downlink(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A downlink was handed to a station, or the station reports it on the air (`lns.downlink`).

    `stage` is "scheduled" or "transmitted"; `margin_us` is the time left until the window opened
    when the server decided; `xtime` is the uplink's when scheduled, the start of the transmission
    when transmitted. A downlink that answers no uplink (class C) has no `xtime` when scheduled,
    and no `frame_id`. `f_port` is there when it carries something of the application.
    """

    kind: ClassVar[str] = "lns.downlink"
    stage: str
    lns: str
    station: Eui
    dev_eui: Eui
    diid: int
    window: str
    xtime: int | None = None
    f_cnt_down: int | None = None
    dev_addr: DevAddr | None = None
    frame_id: str | None = None
    margin_us: int | None = None
    f_port: int | None = None
    confirmed: bool | None = None


class Evicted(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Level 1 forgot a frame before its time because it was full (`lns.evicted`)."""

    kind: ClassVar[str] = "lns.evicted"
    lns: str
    key: str
    silent_us: int


class UnreadableMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message of a station that is no reception and cannot be read (`lns.unreadable`).

    A reception that cannot be read has its outcome instead. `msgtype` is "" where there is none.
    """

    kind: ClassVar[str] = "lns.unreadable"
    lns: str
    station: Eui
    msgtype: str
    why: str


class Failure(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The server itself went wrong, in one thing and with no consequence for another.

    `lns.failure`. `during` is "reception" (its outcome is `InternalError`), "message" or
    "downlink"; `error` names the error and the line of the program it came from.
    """

    kind: ClassVar[str] = "lns.failure"
    lns: str
    station: Eui
    during: str
    error: str
    frame_id: str | None = None


class TooLateInARow(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A station could not answer, `n` times in a row by now (`lns.too_late`).

    `stage` is "going on" (told at 5, 10, 20 …, with the `cause` of the last one) or "over" (it has
    answered). What such a station hears first stays unanswered, whoever else hears it.
    """

    kind: ClassVar[str] = "lns.too_late"
    stage: str
    lns: str
    station: Eui
    n: int
    cause: str | None = None


class Unrecorded(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """So many events before this one could not be written (`lns.unrecorded`)."""

    kind: ClassVar[str] = "lns.unrecorded"
    lns: str
    events: int


class Turned(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The capture goes on in a new file; what was before is in `file` (`lns.turned`)."""

    kind: ClassVar[str] = "lns.turned"
    lns: str
    file: str


class Request(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What became of a downlink that the application wants (`lns.request`).

    `stage` is "queued", "refused" (never queued), "done" (the station reported it on the air; a
    confirmed one: the device acknowledged it) or "given up". `reason` says why it was refused or
    given up; `waiting` how many of this device wait now. `payload_bytes` is a length. `wants` is
    "status" where the device is to tell its status, which is done when it has.
    """

    kind: ClassVar[str] = "lns.request"
    stage: str
    lns: str
    dev_eui: Eui | None = None
    f_port: int | None = None
    confirmed: bool | None = None
    payload_bytes: int | None = None
    waiting: int | None = None
    reason: str | None = None
    wants: str | None = None


class Parked(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A message waited for the broker for longer than `retry_max_s` (`upstream.parked`).

    It is in the outbox still, and is not sent until a person lets it go on. `waiting` as below.
    """

    kind: ClassVar[str] = "upstream.parked"
    lns: str
    topic: str
    message_id: str
    sequence_number: int
    waiting: int


class Acknowledged(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The broker has a message, so it left the outbox (`upstream.acknowledged`).

    `waiting` is how many messages the broker has not acknowledged yet. What the application got
    is its own to tell.
    """

    kind: ClassVar[str] = "upstream.acknowledged"
    lns: str
    topic: str
    message_id: str
    sequence_number: int
    waiting: int


class Connection(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A station's connection began, ended or was refused (`lns.connection`).

    `stage` is "connected", "disconnected" or "refused"; `peer` the address it came from. `cause`
    says why it ended or was refused; `texts` and `binaries` how many messages it brought (binary
    ones are not read). `station` is absent where a refused one did not say who it is, as in a TLS
    handshake that failed.
    """

    kind: ClassVar[str] = "lns.connection"
    stage: str
    lns: str
    station: Eui | None = None
    peer: str
    cause: str | None = None
    texts: int | None = None
    binaries: int | None = None


Event = (
    Outcome
    | Claimed
    | Downlink
    | Evicted
    | UnreadableMessage
    | Failure
    | TooLateInARow
    | Unrecorded
    | Turned
    | Request
    | Acknowledged
    | Parked
    | Connection
)


def as_fields(event: Event) -> dict[str, object]:
    """The fields of an event for the capture, absent ones left out, as in its JSON."""
    return {name: value for name, value in asdict(event).items() if value is not None}
