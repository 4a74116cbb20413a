"""What took place when a history was played, and what was seen of it?

The first part is what the bench did itself, in the order in which it did it: the model judges by
that alone. The second is what came back from network servers.
"""

from dataclasses import dataclass, field

from bench.explore.history import Device, History


@dataclass(slots=True, eq=False)
class Frame:
    """One string of bytes on the air; what is sent again bit by bit is the same frame.

    `session` is the number of the join that opened it (-1: none did), `life` counts how often its
    device had lost its memory; `f_cnt` has 32 bits (or the DevNonce of a join). `same`: another
    message may look the same. Times in µs.
    """

    number: int
    device: int
    phy: bytes
    f_cnt: int
    confirmed: bool = False
    is_join: bool = False
    forged: bool = False
    session: int = -1
    life: int = 0
    same: bool = False
    asks: bool = False

    @property
    def wants_answer(self) -> bool:
        return self.confirmed or self.asks


@dataclass(frozen=True, slots=True)
class Reception:
    """A station tells at `at_us` of a frame that ended at `ended_us`; `radio` counts its sessions.

    `transmission` counts what was on the air; `genuine`: the device itself sent it.
    """

    number: int
    at_us: int
    ended_us: int
    server: int
    station: int
    radio: int
    frame: Frame
    transmission: int
    genuine: bool

    @property
    def place(self) -> tuple[int, int]:
        return self.server, self.station


@dataclass(frozen=True, slots=True)
class ServerRestarted:
    at_us: int
    server: int


@dataclass(frozen=True, slots=True)
class RadioLost:
    at_us: int
    server: int
    station: int


@dataclass(frozen=True, slots=True)
class RadioRestarted:
    """A station is connected again, its radio in session `radio`; `again`: of the same byte.

    `mute`: it does not tell its clock.
    """

    at_us: int
    server: int
    station: int
    radio: int
    again: bool = False
    mute: bool = False


@dataclass(frozen=True, slots=True)
class UpstreamDisturbed:
    """The next message of a server takes so long, or is refused."""

    at_us: int
    server: int
    slow_us: int
    refused: bool


@dataclass(frozen=True, slots=True)
class StoreDisturbed:
    """Until `until_us` the store does not answer a server, or answers so late."""

    at_us: int
    server: int
    until_us: int
    late_us: int


@dataclass(frozen=True, slots=True)
class StoreEmptied:
    at_us: int
    server: int = -1


@dataclass(frozen=True, slots=True)
class DownlinkWanted:
    at_us: int
    server: int
    device: int


Event = (
    Reception
    | ServerRestarted
    | RadioLost
    | RadioRestarted
    | UpstreamDisturbed
    | StoreDisturbed
    | StoreEmptied
    | DownlinkWanted
)


@dataclass(frozen=True, slots=True)
class Words:
    """What became of a reception, in the words of `lns.outcome`; "-" for what is absent."""

    status: str
    upstream: str
    reason: str
    answer: str
    level2: str

    def __str__(self) -> str:
        reason = f"({self.reason})" if self.reason != "-" else ""
        level2 = f" {self.level2}" if self.level2 != "NotAsked" else ""
        return f"{self.status} {self.upstream}{reason} {self.answer}{level2}"


@dataclass(frozen=True, slots=True)
class Delivered:
    """One message that the application has; `reception` is the number of what it came from."""

    reception: int
    server: int
    message_id: str
    key: str
    marked: bool
    unverified: bool


@dataclass(frozen=True, slots=True)
class Answered:
    """One downlink that a station was given for a reception: data, or a join accept."""

    reception: int
    dev_addr: str | None = None
    f_cnt_down: int | None = None
    join_nonce: int | None = None


@dataclass(frozen=True, slots=True)
class Kept:
    """How far the sessions of a device had come in the store of its servers, at some moment."""

    device: int
    at_us: int
    sessions: tuple[tuple[str, int, int], ...]  # DevAddr, life, counter


@dataclass(slots=True)
class Trace:
    """A history that was played: what was done (`events`) and what was seen.

    `outcomes` are the words of each reception by its number: all of them, were it right.
    """

    history: History
    retention_us: int
    events: list[Event] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    outcomes: dict[int, list[Words]] = field(default_factory=dict)
    strays: int = 0
    delivered: list[Delivered] = field(default_factory=list)
    answered: list[Answered] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    began_us: int = 0
    dev_addr: dict[int, str] = field(default_factory=dict)  # by the number of the join
    failures: list[str] = field(default_factory=list)

    @property
    def receptions(self) -> list[Reception]:
        """Every reception in the order in which servers were told."""
        return [event for event in self.events if isinstance(event, Reception)]

    def device_of(self, frame: Frame) -> Device:
        return self.history.devices[frame.device]
