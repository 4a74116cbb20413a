"""What is remembered of one device that sends: what it was told, has heard, and owes?"""

from collections import Counter
from dataclasses import dataclass, field

from bench.virtual.lorawan.air_interface import Cid, DataFrame


@dataclass(frozen=True, slots=True)
class Message:
    """What was typed to be sent; `payload` in hexadecimal."""

    confirmed: bool
    port: int
    payload: str


@dataclass(frozen=True, slots=True)
class OnAir:
    """A right downlink in a window of its device, on the air until `ends_us`."""

    transmission: int
    ends_us: int
    ends_tries: bool
    """Whether the message that it answers is sent no more after it."""
    is_told: bool
    """Whether a device tells its console of it."""
    asks: frozenset[Cid]
    """What it has to be told in the next frame."""


@dataclass(slots=True)
class Sender:
    """What one device has sent last, owes its network, and was asked for at its console."""

    adr: bool = False
    confirmed: bool = False
    """What its console was told last: whether frames have the ADR bit, and ask for an answer."""
    message: Message | None = None
    """What it has promised to send, and not sent yet."""
    latest: tuple[int, int] | None = None
    """Session and counter of its newest frame."""
    phy: str = ""
    tries: int = 0
    """How often that was sent."""
    dr: int | None = None
    """The data rate of its newest frame."""
    dr_asked: int | None = None
    """What the newest request has asked for."""
    retries: int = 0
    """How often what nobody acknowledges is to be repeated, by its console."""
    nb_trans: int = 1
    """How often it is to send what asks for no answer, by the newest request that it granted."""
    nb_trans_asked: int = 1
    nb_trans_max: int = 1
    """The most that it was ever asked, or told by whom it belongs to."""
    times_told: int = 0
    """How often whom it belongs to has told it so far."""
    obeys: bool = False
    """Whether it had the ADR bit when it was asked last: without it, it grants and does nothing."""
    is_told_since: bool = False
    """Whether that was after the newest request: what it grants is over then."""
    was_handed: bool = False
    """Whether anything was handed over for it since its newest frame."""
    crafted: int = 0
    """How many frames with counters of its own others have made since."""
    may_begin: bool = False
    has_forgotten: bool = False
    """Whether it may have begun again since, and whether without what it knew before."""
    dev_nonce: int | None = None
    dev_addr: str = ""
    """That of its newest frame."""
    has_joined: bool = False
    """Whether it has said so since."""
    ended_us: int | None = None
    """When its newest transmission ended, if it may listen since."""
    to_hear: OnAir | None = None
    handed: DataFrame | None = None
    """The downlink that a station was handed for it last."""
    heard: DataFrame | None = None
    """The newest of which it has said that it heard it."""
    may_tell: Counter[str] = field(default_factory=Counter)
    tells: Counter[str] = field(default_factory=Counter)
    """Of how many downlinks and acknowledgements it may have told so far, and has."""
    status_asked: list[int] = field(default_factory=list)
    """The transmissions that have asked how it is since it told that last."""
    was_asked: Counter[Cid] = field(default_factory=Counter)
    """What network servers have ever asked of it, and how often."""
    answered: Counter[Cid] = field(default_factory=Counter)
    asks_unseen: bool = False
    """Whether a downlink may have asked on FPort 0, which is not looked into."""
    told: set[str] = field(default_factory=set)
    """The frames of its session that stations have told of."""
    was_confirmed: bool = False
    """Whether anything confirmed was handed over since its last acknowledgement."""
    owes_ack: bool = False
    owes: set[Cid] = field(default_factory=set)
    typed: str = ""
    asks: set[Cid] = field(default_factory=set)
    may_ask: bool = False
    """Whether it may remember more of that."""
    unheard: int = 0
    """How many of its frames have come since anything was handed over for it, at least."""
    unheard_max: int = 0
    """How many since it is known to have heard anything, or since its session began."""

    def forget(self) -> None:
        """It may have begun again: nobody knows what it still owes."""
        self.typed, self.unheard, self.nb_trans, self.dr = "", 0, 1, None
        self.message, self.to_hear, self.may_begin = None, None, True
        self.settle()

    def settle(self) -> None:
        """It may have given all that it owed."""
        self.owes_ack, self.may_ask = False, True
        self.owes.clear()
        self.asks.clear()
