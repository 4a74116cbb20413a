"""Level 2: which LNS owns this frame, when several of them hear it?

ADR 007, part 2. What is remembered of a session (DevEUI and DevAddr) is how far its counter came
and who owns it, for a day after the last claim that was granted; of each frame that was claimed, in
which life it lies, for as long as level 1 remembers frames. `decide` is the
whole decision; stores make it one atomic step (`lns.store`). A server that works alone has nobody
to ask.

So all servers see one life of a session: whoever claims is told, and what a server learns so is
never a reason to refuse a frame that it hears for the first time. Bytes that were claimed a moment
ago are a copy, whoever hears them, and lie in the life in which they were claimed.
"""

from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from lns.dedup.session import (
    Counter,
    Lived,
    Standing,
    begun_again,
    gone_on,
    is_later,
    joined,
    standing,
)
from lns.lorawan.identifiers import DevAddr, Eui, Mic

STATE_US = 86_400_000_000  # "State expires after a day"


class Level2(StrEnum):
    """What level 2 said about a reception."""

    NOT_ASKED = "NotAsked"
    OWNER = "Owner"
    NOT_OWNER = "NotOwner"
    UNAVAILABLE = "Unavailable"


NOT_ASKED, OWNER, NOT_OWNER, UNAVAILABLE = Level2


class OnOutage(StrEnum):
    """What becomes of a frame whose owner nobody can name: forwarded unverified, or dropped."""

    OPEN = "open"
    CLOSED = "closed"


_NOTHING_HEARD = Counter()


class Bid(Struct, frozen=True, kw_only=True):
    """One server asks for one frame of a session; `f_cnt` has 32 bits.

    `known` is how far the session came as far as this server knows, and `known_owner` whose that
    was: it counts where the store knows nothing. `first_message`: a relaxed ABP device may have
    restarted its counter with this one; `too_far`: it is not near and newer by what is known here.
    `is_first`: level 1 of this server has not seen it; else `lived` is what the server knows of it,
    and `repeats` that it was heard before anything that came after its frame.

    `f_cnt_down` is the next downlink counter that this server knows of, and `takes_f_cnt_down`
    asks for one to answer with; `f_cnt_down_missed`, how many others may have taken meanwhile,
    counts where the store knows of none, for a frame that is granted. `elders` are the sessions
    that this frame brings to an end.
    """

    lns: str
    dev_eui: Eui
    dev_addr: DevAddr
    f_cnt: int
    mic: Mic = Mic("")
    known: Counter = _NOTHING_HEARD
    known_owner: str | None = None
    first_message: bool = False
    too_far: bool = False
    is_first: bool = True
    repeats: bool = False
    lived: Lived | None = None
    f_cnt_down: int = 0
    takes_f_cnt_down: bool = False
    f_cnt_down_missed: int = 0
    elders: tuple[DevAddr, ...] = ()


class Claim(Struct, frozen=True, kw_only=True):
    """The answer of level 2: its word, and the LNS that owns the newest frame where that is known.

    `is_new`: the session has come on with this frame, from `before`, a frame of `owner_before`, to
    `counter`, which is what all servers together know; `lived` says which frame it is. `outdated`:
    a frame of a later session was accepted, and this one is over; `too_far`: so it is for all
    servers.

    `f_cnt_down` was taken for this frame's answer, by its owner only and never twice;
    `next_f_cnt_down` is the next one. `given_back`: this server was refused the frame before, and
    its owner could not deliver it.
    """

    level2: Level2
    owner: str | None = None
    is_new: bool = False
    counter: Counter = _NOTHING_HEARD
    before: Counter | None = None
    owner_before: str | None = None
    lived: Lived | None = None
    outdated: bool = False
    too_far: bool = False
    f_cnt_down: int | None = None
    next_f_cnt_down: int = 0
    given_back: bool = False


class State(Struct, frozen=True):
    """What level 2 remembers of a session: how far it has come, and by whose frame, if anybody's.

    `named` has, of each life, the newest frame that had its name and was given back: a copy of it
    may have gone up elsewhere.
    """

    counter: Counter
    owner: str | None
    named: dict[int, tuple[int, Mic]] = msgspec.field(default_factory=dict)


class Seen(Struct, frozen=True):
    """A frame that was claimed a short while ago, and who was granted it, if anybody was.

    `given_back`: somebody was, and could not deliver it.
    """

    lived: Lived
    owner: str | None
    given_back: bool = False


class Decision(Struct, frozen=True):
    """Whether a bid is granted, what is remembered then, and which frame it was about."""

    granted: bool
    is_new: bool
    state: State
    lived: Lived
    too_far: bool = False


def decide(state: State | None, bid: Bid, *, seen: Seen | None = None) -> Decision:
    """What becomes of a bid; `seen` is the frame if it was claimed a short while ago.

    Not a duplicate: a higher counter, or an equal one of the same LNS (ADR 007). A first message
    of a relaxed ABP device may be lower, for its counter may have restarted. What was claimed a
    short while ago begins nothing, even where a message before it came late and was taken for a
    restart, unless it was given back: nobody has delivered it.
    """
    # What a server was told with a frame is worth nothing when its owner has given that back.
    is_back = seen is not None and seen.given_back
    is_void = is_back and bid.known.mic == bid.mic
    if state is None:
        state = State(bid.known, bid.known_owner)
    elif bid.known.lives > state.counter.lives and not is_void:
        state = _told(state, bid)
    if state.owner is None:
        state = replace(state, owner=bid.lns)  # what is nobody's is that of whoever asks
    counter, mine = state.counter, state.owner == bid.lns
    owner = None if seen is None else seen.owner
    where = standing(counter, bid.f_cnt)
    is_higher = where in (Standing.NEWER, Standing.TOO_FAR)
    elsewhere = is_higher and (bid.repeats or not (mine and owner == bid.lns))
    if seen is not None and owner and (bid.is_first or elsewhere):
        return Decision(owner == bid.lns and bid.is_first, False, state, seen.lived)
    # A server that was not told of a life that began may take for near what is too far for all.
    if where is Standing.TOO_FAR and (bid.too_far or bid.known.lives < counter.lives):
        lived = bid.lived or Lived(counter.life, odd=True)  # it may have gone up without the store
        return Decision(False, False, state, lived, too_far=True)
    if is_higher:
        moved = _moved(state, gone_on(counter, bid.f_cnt, bid.mic), bid)
        if seen is None or owner:
            return moved
        # What another server was refused a moment ago has a name, and perhaps a life, already.
        if seen.lived.odd or seen.lived.life == moved.lived.life:
            return replace(moved, lived=seen.lived)
        return moved if seen.given_back else Decision(False, False, state, seen.lived)
    if bid.first_message and (bid.is_first or is_back):
        return _moved(state, begun_again(counter, bid.f_cnt, bid.mic), bid)
    remembered = bid.lived if seen is None else seen.lived
    lived = remembered or _told_by_counter(state, bid, where)
    again = where is Standing.EQUAL and (lived.life == counter.life or counter.mic == bid.mic)
    granted = (owner or state.owner) == bid.lns and (again or bid.first_message)
    if granted and again and counter.mic is None and not lived.odd:
        state = replace(state, counter=replace(counter, mic=bid.mic))  # of others, none is this
    return Decision(granted, False, state, lived)


def _told(state: State, bid: Bid) -> State:
    """What is remembered when a server knows of more lives: it was alone when they began."""
    if is_later(bid.known, state.counter):
        return State(joined(bid.known, state.counter), bid.known_owner, state.named)
    return replace(state, counter=replace(state.counter, lives=bid.known.lives))


def _moved(state: State, counter: Counter, bid: Bid) -> Decision:
    lived = Lived(counter.life, odd=_is_named(state, counter.life, bid))
    return Decision(True, True, State(counter, bid.lns, state.named), lived)


def _is_named(state: State, life: int, bid: Bid) -> bool:
    """Whether the name that a frame would have may be that of one that was given back."""
    newest, mic = state.named.get(life, (-1, None))
    return bid.f_cnt < newest or (bid.f_cnt == newest and bid.mic != mic)


def _told_by_counter(state: State, bid: Bid, where: Standing) -> Lived:
    """A frame that nobody remembers: the newest one, or one that had this counter before.

    So a copy that comes later than frames are remembered may get a second name: that of bytes which
    are forgotten could be another frame's, and two frames of one name would be a frame lost.
    """
    counter = state.counter
    is_newest = where is Standing.EQUAL and counter.mic in (None, bid.mic)
    return Lived(counter.life, odd=not is_newest or _is_named(state, counter.life, bid))


def released(state: State | None, bid: Bid, claim: Claim) -> State | None:
    """What is remembered when what was granted last is given back; None if something came after it.

    Another server may have sent a copy up meanwhile: the name stays that of this frame.
    """
    if state is None or claim.before is None or state.owner != bid.lns:
        return None
    newest, named = state.counter, state.named
    if (newest.f_cnt_up, newest.life) != (claim.counter.f_cnt_up, claim.counter.life):
        return None
    lived = claim.lived
    if lived is not None and not lived.odd:
        far = named.get(lived.life, (-1, bid.mic))
        named = {**named, lived.life: max(far, (bid.f_cnt, bid.mic), key=lambda one: one[0])}
    return State(claim.before, claim.owner_before, named)


class Claims(Protocol):
    """Whoever knows which LNS owns a frame; never asked for copies that level 1 recognised.

    StoreUnavailable when nobody can say. Every call may be made twice.
    """

    async def claim(self, bid: Bid) -> Claim:
        """Claim one frame of a session for a server, in one step that nobody comes between."""

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """One more downlink counter of a session; None where another owns it, or none is left."""

    async def release(self, bid: Bid, claim: Claim) -> None:
        """Give back a frame that was granted and could not be made durable."""


NOBODY_ASKED = Claim(level2=Level2.NOT_ASKED)


class SoleServer:
    """The claims of a network server that shares its devices with no other."""

    async def claim(self, bid: Bid) -> Claim:
        """Nobody is asked, so this server acts as it would without level 2."""
        return NOBODY_ASKED

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """The next counter is the one this server knows of."""
        return bid.f_cnt_down

    async def release(self, bid: Bid, claim: Claim) -> None:
        """There is nobody who could have it instead."""
