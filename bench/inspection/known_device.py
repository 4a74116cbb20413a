"""What is remembered of one device: its sessions, what it was told, has heard, and owes?"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import misspelt
from bench.virtual.lorawan import wrong_answers
from bench.virtual.lorawan.air_interface import F_CNT_WIRE, Cid, DataFrame, Keys, from_device

GRANTED = b"\x07"
_UP_OCTETS = {
    0x02: 0, 0x03: 1, 0x04: 0, 0x05: 1, 0x06: 2, 0x07: 1, 0x08: 0, 0x09: 0, 0x0A: 1, 0x0D: 0,
    0x10: 1, 0x11: 1, 0x12: 0, 0x13: 1,
}  # fmt: skip
"""What follows the identifier of each command of a device, class B included."""


@dataclass(slots=True)
class Session:
    """What a device and its network have agreed on; remembers the last downlink counter.

    `more_channels`: the numbers of those that the CFList of the accept has added.
    """

    dev_addr: str
    keys: Keys
    rx2_dr: int
    rx1_dr_offset: int = 0
    rx_delay_s: int = 1
    more_channels: frozenset[int] = frozenset()
    f_cnt_down: int | None = None
    is_used: bool = True
    """Whether the device has sent in it: nobody knows before that it has heard the accept."""
    is_sure: bool = True
    """Whether its accept can have answered one join request only."""
    has_set_dwell: bool | None = False
    """Whether it has answered TxParamSetupReq; None: it may have begun again since."""
    nb_trans: int | None = 1
    """How often it is known to send each frame; None: it may have begun again since."""
    nb_trans_asked: int = 0
    newest: int = -1
    """The counter that was heard last."""
    undecided: set[int] = field(default_factory=set)
    """The counters that were heard, and no server has said yet what became of them."""
    newest_id: str = ""
    """The frame with it; the first ones of two lives of a relaxed device can have the same one."""
    taken: int | None = None
    """The counter that a server took last."""
    before: tuple[int, int | None, int, bool | None] = (-1, 1, 0, False)
    """What was known before that: the newest counter, NbTrans, what was asked, dwell times."""
    f_cnt_up: int | None = None
    """The newest counter that its servers began with."""
    answered: set[str] = field(default_factory=set)
    """The frames that were answered, by their names."""
    answered_before: set[str] = field(default_factory=set)
    """Those of them before the device began again."""
    first_f_cnt_down: int | None = field(init=False)
    passed_over: set[int] = field(default_factory=set)
    """Downlink counters that no frame had when a later one came: a scenario may hold it up."""
    f_cnt_down_of_others: int | None = None
    """What servers know of it that have not begun behind an emptied store."""

    def __post_init__(self) -> None:
        self.first_f_cnt_down = self.f_cnt_down

    @property
    def passes_over(self) -> bool:
        """Whether the last downlink came before the one that was to come before it."""
        return self.f_cnt_down is not None and self.f_cnt_down - 1 in self.passed_over

    def commands(self, frame: DataFrame, f_cnt: int) -> bytes:
        """The MAC commands that the device has sent in a frame of it."""
        return frame.clear(self.keys, f_cnt) if frame.f_port == 0 else frame.f_opts

    def hear(self, frame: DataFrame, f_cnt: int) -> None:
        """The device has sent a frame in it."""
        if f_cnt != self.newest:
            self.before = self.newest, self.nb_trans, self.nb_trans_asked, self.has_set_dwell
            self.undecided.add(f_cnt)
        self.is_used = True
        octets = self.commands(frame, f_cnt)
        if f_cnt <= 1 and f_cnt <= self.newest and frame.frame_id != self.newest_id:
            self.nb_trans = None
            self.answered_before |= self.answered
            if self.has_set_dwell:
                self.has_set_dwell = None
        granted = [command.told for command in from_device(octets) if command.cid is Cid.LINK_ADR]
        if granted and f_cnt > self.newest and self.nb_trans_asked:
            if granted[-1] == GRANTED and self.nb_trans is not None:
                self.nb_trans = self.nb_trans_asked
            self.nb_trans_asked = 0
        if f_cnt > self.newest and Cid.TX_PARAM_SETUP in commands_in(octets):
            self.has_set_dwell = True
        self.newest, self.newest_id = f_cnt, frame.frame_id

    def doubt(self) -> None:
        """Nobody knows any more whether servers know what the device has granted."""
        self.nb_trans, self.has_set_dwell = None, self.has_set_dwell and None

    def decide(self, outcome: Mapping[str, Any]) -> None:
        """Nobody counts what is granted in a frame that was refused; a late answer is the first."""
        refused = outcome.get("reason") in ("UpstreamUnavailable", "StoreUnavailable")
        if refused or outcome.get("level2") == "Unavailable":
            self.doubt()
        f_cnt, is_refused = outcome.get("f_cnt"), outcome.get("reason") == "InvalidFrameCounter"
        self.undecided.discard(f_cnt)
        if not is_refused:
            self.taken = f_cnt
        elif f_cnt == self.newest != self.taken:
            self.newest, self.nb_trans, self.nb_trans_asked, self.has_set_dwell = self.before
        if outcome.get("answer") == "TooLate":
            self.answered.add(outcome["frame_id"])


@dataclass(frozen=True, slots=True)
class Wanted:
    """What the application wants sent to a device."""

    f_port: int
    payload: bytes
    confirmed: bool


@dataclass(slots=True)
class KnownDevice:
    """A device as its maker knows it; remembers its sessions and what it was to be sent."""

    dev_eui: str
    app_key: bytes = field(repr=False)
    sessions: list[Session]
    join_eui: str | None = None
    server: str | None = None
    is_class_c: bool = False
    adr: bool = False
    dr: int | None = None
    first_f_cnt: int = 1
    counts_dev_nonces: bool = False
    asks_at_lowest_dr: bool = True
    lowers_data_rate: bool = False
    """How it is set at first, and how its stack counts; a board of a lab may have another one."""
    nb_trans: int = 1
    told_to_repeat: Sequence[tuple[int, int]] = ()
    """When (µs) a scenario told it how often to send each frame, and so how often."""
    counts_join_nonces: bool = False
    join_nonce_min: int = 1
    rx1_dr_offset: int = 0
    rx_delay_s: int = 1
    rx2_dr: int | None = None
    """What its join accepts are to say of its windows; None: as the region has it."""
    more_channels_hz: tuple[int, ...] = ()
    """What the CFList of its join accepts is to name, in this order."""
    join_nonces: list[int] = field(default_factory=list)
    is_forgotten: bool = False
    """Whether a store has forgotten it: what it is sent then, it may have heard before."""
    wanted: list[Wanted] = field(default_factory=list)
    wanted_us: float = -inf
    """When it was wanted last, on rigs where that takes its time to come to the server."""
    status_wanted: bool = False
    loses_no_f_cnt_down: bool = False
    """Whether a server has used each downlink counter for a frame that left."""
    is_held: bool = False
    """Whether a scenario has held up the downlink that passes."""
    is_overtaken: bool = False
    """Whether a later downlink may pass one that is on its way, or is still to be handed over."""
    told: list[Wanted] = field(default_factory=list)
    """What of `wanted` a station was handed for it, however often."""
    handed: list[Wanted] = field(default_factory=list)
    """The same, with what a tap kept from the station."""
    delivered: int = 0
    """How many of `wanted` came before the one that was sent last."""

    def may_use(self, dev_addr: str) -> bool:
        """Whether it may still send with this: sessions before the newest that it used are over."""
        used = [number for number, session in enumerate(self.sessions) if session.is_used]
        return any(s.dev_addr == dev_addr for s in self.sessions[used[-1] if used else 0 :])

    def forget(self) -> None:
        """A store has forgotten it: its JoinNonces, its counters, and what it has granted."""
        self.join_nonces.clear()
        self.is_forgotten = True
        for session in self.sessions:
            session.doubt()
            if session.f_cnt_down is not None:  # who began behind an emptied store knows none
                session.f_cnt_down = session.first_f_cnt_down

    def meet_anew(self) -> None:
        """A server begins; if its store has forgotten the device, it knows no counter of it."""
        for session in self.sessions if self.is_forgotten else ():
            if session.f_cnt_down is not None:
                session.f_cnt_down, session.f_cnt_down_of_others = None, session.f_cnt_down

    def session_of(self, frame: DataFrame, f_cnt: int) -> Session | None:
        """The session of an uplink, by its keys."""
        for session in reversed(self.sessions):
            if session.dev_addr == frame.dev_addr:
                if frame.is_signed_by(session.keys.nwk_s_key, f_cnt):
                    return session
        return None


def commands_in(octets: bytes) -> list[int]:
    """The commands of an uplink, those of class B included, to the first that nobody knows."""
    asked = []
    while octets and octets[0] in _UP_OCTETS and len(octets) > _UP_OCTETS[octets[0]]:
        asked.append(octets[0])
        octets = octets[1 + _UP_OCTETS[octets[0]] :]
    return asked


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
    knows_no_f_cnt_down: bool = False
    """Whether it has done so in its session: it takes the upper half of a counter for 0."""
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

    def join(self) -> None:
        """It says so: what its server has agreed with it is over (LoRaWAN 1.0.4, 5.2)."""
        self.has_joined, self.knows_no_f_cnt_down = True, False
        if not self.is_told_since:
            self.nb_trans_max = 1

    def forget(self) -> None:
        """It may have begun again: nobody knows what it still owes."""
        self.typed, self.unheard, self.nb_trans, self.dr = "", 0, 1, None
        self.message, self.to_hear, self.may_begin = None, None, True
        self.settle()

    def begin_again(self, *, keeps: bool, boots: bool) -> None:
        """It begins its session or itself again, and `keeps` its memory."""
        begins = self.may_begin or not keeps
        self.forget()
        self.ended_us, self.may_begin = None, begins
        self.has_forgotten |= boots and not keeps
        if not keeps:
            self.knows_no_f_cnt_down, self.heard = True, None

    def can_read(self, device: KnownDevice) -> bool:
        """Whether it is known to take the next downlink of its session for a new one, and right."""
        counters = [session.f_cnt_down or 0 for session in device.sessions[-1:]]
        is_whole = not self.knows_no_f_cnt_down or max(counters, default=0) < F_CNT_WIRE
        return is_whole and not device.is_forgotten

    def settle(self) -> None:
        """It may have given all that it owed."""
        self.owes_ack, self.may_ask = False, True
        self.owes.clear()
        self.asks.clear()


def misread(rig: str, air: Iterable[tuple[str, str, str]] = ()) -> Iterator[Found]:
    """What is wrong in the LoRaWAN that the bench itself plays, and reads everything with.

    And in what its stations say, and in its `air`: of what, the known answer, and the one that it
    gives. In software whoever is played is to blame for all that follows, in a lab the bench.
    """
    played = {Owner.DEVICE: wrong_answers(), Owner.GATEWAY: misspelt(), Owner.AIR: air}
    for owner, wrong in played.items():
        for what, due, seen in wrong:
            check = Scrutiny(rule="uplink", of=f"LoRaWAN of {_PLAYED[owner]} in software", t_us=0)
            blamed = Owner.BENCH if rig == "hardware" else owner
            yield replace(check.wrong(what, due, seen), owner=blamed)


_PLAYED = {Owner.DEVICE: "devices", Owner.GATEWAY: "stations", Owner.AIR: "the air"}
