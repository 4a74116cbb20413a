"""What does a server remember of a session, and how far has its counter come?

Only a relaxed ABP device has more than one life: its counter may begin again at 0 or 1. Nobody can
tell a restart from an old first message that somebody replays, so a session remembers how far the
lives before came, as long as they came farther than those after them. Two rules place a counter:

1. Higher than how far a former life came, it continues that life (of several the farthest), and
   the lives after it are over. So the counter of a life is never higher than that of one before.
2. Otherwise it is judged by the newest life: newer, equal or older.

A counter is used in a life once, so life and counter together name a frame.
"""

from copy import copy
from enum import Enum
from typing import Annotated, Protocol

import msgspec
from msgspec import Meta, Struct
from msgspec.structs import replace

from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import F_CNT_MAX, MAX_GAP
from lns.lorawan.identifiers import DevAddr, Eui, Mic

USED_UP = F_CNT_MAX + 1  # the next downlink counter of a session that has none left
LIVES_MAX = 8  # former lives of one session; of more, the oldest is forgotten


class Standing(Enum):
    """Where a frame counter stands against the newest accepted one of its session."""

    NEWER = "newer"
    EQUAL = "equal"
    OLDER = "older"
    TOO_FAR = "too far"


# A word by itself costs a tenth of one that is looked up in its enum (Python 3.11).
NEWER, EQUAL, OLDER, TOO_FAR = Standing
_AHEAD = (NEWER, TOO_FAR)


class Counter(Struct, frozen=True, gc=False):
    """How far a session has come: `f_cnt_up` (None: nothing heard yet) in `life`.

    `lives` is the number of the newest life that ever began, `former` how far each former life
    came that came farther than those after it, `mic` of the frame that came with `f_cnt_up`.
    """

    f_cnt_up: int | None = None
    life: int = 0
    lives: int = 0
    former: dict[int, int] = msgspec.field(default_factory=dict)
    mic: Mic | None = None


class Lived(Struct, frozen=True, gc=False):
    """Which frame this is: of which life, and whether another one has the name that it would have.

    `odd`: its counter was used by other bytes, or may have been.
    """

    life: int = 0
    odd: bool = False


class HasCome(Protocol):
    """Whatever knows how far a session has come: a `Counter`, or the session itself."""

    @property
    def f_cnt_up(self) -> int | None: ...
    @property
    def life(self) -> int: ...
    @property
    def lives(self) -> int: ...
    @property
    def former(self) -> dict[int, int]: ...


def standing(known: HasCome, f_cnt: int) -> Standing:
    """Where a counter stands (LoRaWAN 1.0.3, 4.3.1.5); a device nobody has heard counts from 0."""
    newest = known.f_cnt_up
    if known.former:
        newest = next((far for far in known.former.values() if f_cnt > far), newest)
    if newest is None or f_cnt > newest:
        gap = f_cnt - (newest or 0)
        return NEWER if gap <= MAX_GAP else TOO_FAR
    return EQUAL if f_cnt == newest else OLDER


def gone_on(known: HasCome, f_cnt: int, mic: Mic) -> Counter:
    """The counter after one that is newer, perhaps back in a former life."""
    for life, f_cnt_up in known.former.items():
        if f_cnt > f_cnt_up:
            older = {before: far for before, far in known.former.items() if before < life}
            return Counter(f_cnt, life, known.lives, older, mic)
    return Counter(f_cnt, known.life, known.lives, known.former, mic)


def begun_again(known: HasCome, f_cnt: int, mic: Mic) -> Counter:
    """The counter after a first message that begins a new life."""
    former, newest = known.former, known.f_cnt_up
    if newest is not None and newest > f_cnt and newest < min(former.values(), default=newest + 1):
        farther = [*former.items(), (known.life, newest)]
        former = dict(farther[-LIVES_MAX:])
    return Counter(f_cnt, known.lives + 1, known.lives + 1, former, mic)


def joined(known: Counter, other: Counter) -> Counter:
    """What is known of the newest life, and of former ones as far as the other knows them."""
    for life, far in (*other.former.items(), (other.life, other.f_cnt_up)):
        since = [came for its, came in known.former.items() if its >= life]
        if far is None or life >= known.life or far <= max(since, default=known.f_cnt_up or 0):
            continue  # no farther than what came after it
        before = {its: came for its, came in known.former.items() if its < life and came > far}
        after = {its: came for its, came in known.former.items() if its > life}
        farther = [*before.items(), (life, far), *after.items()]
        known = replace(known, former=dict(farther[-LIVES_MAX:]))
    return known


def is_later(one: HasCome, other: HasCome) -> bool:
    """Whether one of two knows more of a session: of one life, whoever has come farther.

    A life that began counts more than one before it, until the session goes back to that, and not
    with a frame that the other would take for an old one: farther than it came before.
    """
    if one.life > other.life:
        return not is_later(other, one)
    before = other.former.get(one.life, -1) if one.life < other.life else _far(other)
    knows_all = one.life == other.life or one.lives >= other.lives
    return knows_all and _far(one) > before


def _far(known: HasCome) -> int:
    return -1 if known.f_cnt_up is None else known.f_cnt_up


class Listening(Struct, frozen=True):
    """How a device of class A listens after an uplink (LoRaWAN 1.0.4, 6.2.5: DLSettings, RxDelay).

    `rx1_dr_offset` is how many steps RX1 is slower than the uplink, `rx_delay_s` 1 to 15 seconds to
    RX1, `rx2_dr` the data rate of RX2 (None: that of the region).
    """

    rx1_dr_offset: Annotated[int, Meta(ge=0, le=7)] = 0
    rx_delay_s: Annotated[int, Meta(ge=1, le=15)] = 1
    rx2_dr: Annotated[int, Meta(ge=0, le=15)] | None = None


AS_REGION_SAYS = Listening()


COPIED_MAX = 16  # counters whose copies are counted: more than come while a copy is on its way
TAKEN_BACK_MAX = 8  # frames that were taken back and keep their names


FCnt = Annotated[int, Meta(ge=0, le=F_CNT_MAX)]


Count = Annotated[int, Meta(ge=0)]


class Before(Struct, frozen=True, gc=False):
    """What a session was before a frame that may have to be taken back."""

    counter: Counter
    owner: str | None
    resubmissions: dict[FCnt, Count]
    heard: int | None
    heard_life: int
    nb_trans: int
    nb_trans_asked: int
    knows_dwell_times: bool


class Session(Struct, kw_only=True, gc=False):
    """What the server remembers of one session until the device has joined again.

    `f_cnt_up` is the newest accepted counter (32 bits, None: nothing heard yet) with `mic`, its
    frame, and `owner`, the LNS whose it was (None: of the only one); `life`, `lives` and `former`
    are those of a `Counter`. `f_cnt_down` is the next one to use. `resubmissions` counts the
    repeated answers per counter value and is emptied when the counter advances. `copies` counts
    the copies that went up, of the last counter values that had any, so that each has its own id.
    `nb_trans_asked` is how often the device was asked to send each frame and has not said whether
    it will (0: nobody has asked; a store of before says only whether somebody has).
    `knows_dwell_times`: the device has confirmed those of its region. `taken_back` has the last
    frames that were, by their MIC, with life and counter: other bytes have another name.
    `listening` and `more_channels_hz` are what the join accept of this session said, whatever the
    record says by now.

    `heard` is the newest counter that this server heard itself, in `heard_life`: what it knows
    beyond that it was told. `under_way` are frames that the application may still refuse, by their
    MIC, with what the session was before. No store keeps either. Whoever reads a session from a
    store is told of a value out of its range: nothing could use it.
    """

    dev_eui: Eui
    dev_addr: Annotated[DevAddr, Meta(pattern="^[0-9A-F]{8}$")]
    keys: SessionKeys
    f_cnt_up: FCnt | None = None
    f_cnt_down: Annotated[int, Meta(ge=0, le=USED_UP)] = 0
    life: Count = 0
    resubmissions: dict[FCnt, Count] = msgspec.field(default_factory=dict)
    copies: dict[FCnt, Count] = msgspec.field(default_factory=dict)
    nb_trans: Annotated[int, Meta(ge=1, le=15)] = 1
    nb_trans_asked: Annotated[int, Meta(ge=0, le=15)] | bool = 0
    knows_dwell_times: bool = False
    lives: Count = 0
    former: dict[Count, FCnt] = msgspec.field(default_factory=dict)
    mic: Mic | None = None
    owner: str | None = None
    listening: Listening = AS_REGION_SAYS
    more_channels_hz: tuple[int, ...] | None = None  # Redis makes an object of an empty list
    heard: int | None = None
    heard_life: int = 0
    under_way: dict[Mic, Before] = msgspec.field(default_factory=dict)
    taken_back: dict[Mic, tuple[Count, FCnt]] = msgspec.field(default_factory=dict)

    def __post_init__(self) -> None:
        # One that was kept before lives had numbers of their own.
        self.lives = max(self.lives, self.life)

    @property
    def counter(self) -> Counter:
        """How far the session has come."""
        return Counter(self.f_cnt_up, self.life, self.lives, self.former, self.mic)

    def standing(self, f_cnt: int) -> Standing:
        """Where a counter stands against the newest accepted one."""
        return standing(self, f_cnt)

    def standing_at(self, lns: str, f_cnt: int) -> Standing:
        """The same for one of several servers: what it was only told of makes no frame an old one.

        A counter that another server brought counts for it when it has heard that one itself.
        """
        found = standing(self, f_cnt)
        if found in _AHEAD or self.owner in (None, lns):
            return found
        heard = self.heard if self.heard_life == self.life else None
        if heard is None or f_cnt > heard:
            return NEWER
        return EQUAL if f_cnt == heard else OLDER

    def hear(self, f_cnt: int, life: int) -> None:
        """Note that this server heard a frame itself; an older one is no news."""
        if life == self.life and (self.heard_life != life or f_cnt > (self.heard or -1)):
            self.heard, self.heard_life = f_cnt, life

    def hear_all(self) -> None:
        """Let what is known count as heard: nobody waits for copies of it any more."""
        self.heard, self.heard_life = self.f_cnt_up, self.life

    def advance(self, f_cnt: int, mic: Mic, owner: str | None = None) -> Lived:
        """Make `f_cnt` the newest counter, and tell which frame that is.

        One that is not newer begins a new life of the counter.
        """
        is_newer = standing(self, f_cnt) in _AHEAD
        self.take((gone_on if is_newer else begun_again)(self, f_cnt, mic), owner)
        self.heard, self.heard_life = f_cnt, self.life
        return self.lived(f_cnt, mic)

    def lived(self, f_cnt: int, mic: Mic) -> Lived:
        """Which frame of the newest life this is, whatever others were taken back."""
        if not self.taken_back:
            return Lived(self.life)
        name = self.life, f_cnt
        is_taken = any(its == name and other != mic for other, its in self.taken_back.items())
        return Lived(self.life, odd=is_taken)

    def learn(self, counter: Counter, owner: str | None) -> None:
        """Know what all servers together know; what this one knows better stays."""
        lives = max(self.lives, counter.lives)
        if is_later(counter, self):
            self.take(counter, owner)
        elif not is_later(self, counter):
            self.mic = self.mic or counter.mic  # a store of before knew none
            self.owner = owner  # the one before has given it back
        self.lives = lives

    def take(self, counter: Counter, owner: str | None) -> None:
        """Have come so far.

        A device that begins again sends each frame once until it is asked for more. The numbers of
        copies go on through all lives: a late one may come of a former life.
        """
        if counter.life != self.life:
            self.nb_trans, self.nb_trans_asked = 1, 0
            self.knows_dwell_times = False
        self.f_cnt_up, self.life, self.lives = counter.f_cnt_up, counter.life, counter.lives
        self.former, self.mic, self.owner = counter.former, counter.mic, owner
        self.resubmissions = {}

    def snapshot(self) -> "Session":
        """The session as a store keeps it; what happens to one of the two does not touch the other.

        Whoever reads it has heard nothing yet. A frame that is under way to the application counts
        when it is there: until then nobody has it but this process.
        """
        kept = copy(self)
        for _ in self.under_way:
            if kept.mic in self.under_way:
                kept.step_back(self.under_way[kept.mic])
        kept.resubmissions, kept.copies = {**kept.resubmissions}, {**kept.copies}
        kept.heard, kept.heard_life, kept.under_way = None, 0, {}
        return kept

    def before(self) -> "Before":
        """What `advance` changes, as it is now, to be brought back by `step_back`."""
        return Before(
            self.counter,
            self.owner,
            self.resubmissions,
            self.heard,
            self.heard_life,
            self.nb_trans,
            self.nb_trans_asked,
            self.knows_dwell_times,
        )

    def step_back(self, before: "Before") -> None:
        """Undo `advance`: all of the up counter is as in `before`; FCntDown only goes on.

        A life that began keeps its number to itself only if something was sent up in it, and a
        frame its name: it may be on its way up yet.
        """
        f_cnt_up, mic, life = self.f_cnt_up, self.mic, self.life
        if f_cnt_up is not None and mic is not None and not self.lived(f_cnt_up, mic).odd:
            others = [one for one in self.taken_back.items() if one[0] != mic]
            newest = mic, (self.life, f_cnt_up)
            self.taken_back = dict([*others[1 - TAKEN_BACK_MAX :], newest])
        self.take(before.counter, before.owner)
        self.resubmissions = before.resubmissions
        self.heard, self.heard_life = before.heard, before.heard_life
        if self.life != life:  # in the same one, a frame before it has granted what is granted now
            self.nb_trans, self.nb_trans_asked = before.nb_trans, before.nb_trans_asked
            self.knows_dwell_times = before.knows_dwell_times

    def catch_up(self, known: "Session") -> None:
        """Know what another server has met since; no counter ever goes back."""
        lives = max(self.lives, known.lives)
        if is_later(known, self):
            self.take(known.counter, known.owner)
            self.resubmissions = dict(known.resubmissions)
            self.agree(known)
        elif not is_later(self, known):  # a claim tells of a frame, but not of what was answered
            for f_cnt, number in known.resubmissions.items():
                self.resubmissions[f_cnt] = max(number, self.resubmissions.get(f_cnt, 0))
        self.lives, self.f_cnt_down = lives, max(self.f_cnt_down, known.f_cnt_down)
        for f_cnt, number in known.copies.items():
            self._count_copies(f_cnt, number)

    def agree(self, known: "Session") -> None:
        """Know what another server has agreed with the device, up to the frame before this one."""
        if known.life == self.life:
            self.nb_trans, self.nb_trans_asked = known.nb_trans, known.nb_trans_asked
            self.knows_dwell_times = known.knows_dwell_times

    def number_copy(self, f_cnt: int) -> int:
        """The number of one more forwarded copy of a frame, from 1."""
        number = self.copies.get(f_cnt, 0) + 1
        self._count_copies(f_cnt, number)
        return number

    def _count_copies(self, f_cnt: int, number: int) -> None:
        """Remember how many went up, of the first messages and of the last `COPIED_MAX` others."""
        number = max(number, self.copies.pop(f_cnt, 0))
        others = [old for old in self.copies if old > 1]
        for old in others[: max(0, len(others) + 1 - COPIED_MAX)]:
            del self.copies[old]
        self.copies[f_cnt] = number

    def take_f_cnt_down(self) -> int | None:
        """The counter of the next downlink, handed out once; None when all are used.

        It goes on when a relaxed device restarts: a device that begins again takes any counter,
        one that did not restart would refuse a repeated one.
        """
        if self.f_cnt_down == USED_UP:
            return None
        f_cnt_down = self.f_cnt_down
        self.f_cnt_down += 1
        return f_cnt_down
