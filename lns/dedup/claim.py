"""Level 2: which LNS owns this frame, when several of them hear it?

ADR 007, part 2. What is remembered of a session (DevEUI and DevAddr) is its last counter and who
owns it, for a day after the last claim that was granted. `decide` is the whole decision; stores
make it one atomic step (`lns.store`). A server that works alone has nobody to ask.
"""

from enum import StrEnum
from typing import Protocol

from msgspec import Struct

from lns.lorawan.identifiers import DevAddr, Eui, Mic

STATE_US = 86_400_000_000  # "State expires after a day"


class Level2(StrEnum):
    """What level 2 said about a reception."""

    NOT_ASKED = "NotAsked"
    OWNER = "Owner"
    NOT_OWNER = "NotOwner"
    UNAVAILABLE = "Unavailable"


class OnOutage(StrEnum):
    """What becomes of a frame whose owner nobody can name: forwarded unverified, or dropped."""

    OPEN = "open"
    CLOSED = "closed"


class Bid(Struct, frozen=True, kw_only=True):
    """One server asks for one frame of a session; `f_cnt` has 32 bits.

    `f_cnt_down` is the next downlink counter that this server knows of, and `takes_f_cnt_down`
    asks for one to answer with; `f_cnt_down_missed`, how many others may have taken meanwhile,
    counts where the store knows of none. `life` is how often the counter restarted, as far as
    this server knows. `first_message` is the MIC of a frame that a relaxed ABP device may have
    restarted its counter with; `advances`: level 1 has not seen it, so this server takes it for a
    new one.
    """

    lns: str
    dev_eui: Eui
    dev_addr: DevAddr
    f_cnt: int
    f_cnt_down: int = 0
    takes_f_cnt_down: bool = False
    f_cnt_down_missed: int = 0
    life: int = 0
    first_message: Mic | None = None
    advances: bool = True


class Claim(Struct, frozen=True, kw_only=True):
    """The answer of level 2: its word, and the LNS that owns the frame where that is known.

    `f_cnt_down` was taken for this frame's answer, by its owner only and never twice;
    `next_f_cnt_down` and `life` are what all servers together know of the session. `given_back`:
    this server was refused the frame before, and its owner could not deliver it.
    """

    level2: Level2
    owner: str | None = None
    f_cnt_down: int | None = None
    next_f_cnt_down: int = 0
    life: int = 0
    given_back: bool = False


class State(Struct, frozen=True):
    """What level 2 remembers of a session: its newest claimed counter, of whom, in which life."""

    f_cnt_up: int
    owner: str
    life: int = 0


def decide(state: State | None, bid: Bid, *, seen: bool = False) -> State | None:
    """The state after a bid that is granted; None for a duplicate, which changes nothing.

    Not a duplicate: a higher counter, or an equal one of the same LNS (ADR 007). A first message
    of a relaxed ABP device may be lower, for its counter may have restarted; `seen` says that
    this very message was granted a short while ago, so that elsewhere it is a copy, even where a
    message before it came late and was taken for a restart.
    """
    if state is None:
        return State(bid.f_cnt, bid.lns, bid.life)
    mine = state.owner == bid.lns
    if bid.f_cnt > state.f_cnt_up:
        if seen and (bid.advances or not mine):
            return None
        return State(bid.f_cnt, bid.lns, max(bid.life, state.life))
    if bid.f_cnt == state.f_cnt_up and mine:
        return State(bid.f_cnt, bid.lns, max(bid.life, state.life))
    if bid.first_message is None:
        return None
    if mine and not bid.advances:
        return state  # the owner answers a late copy of its own again
    if bid.advances and (mine or not seen):
        return State(bid.f_cnt, bid.lns, max(bid.life, state.life + 1))
    return None


def released(state: State | None, bid: Bid) -> State | None:
    """The state when what was granted last could not be made durable: anybody may have it.

    None: there is nothing to give back.
    """
    if state is None or (state.owner, state.f_cnt_up) != (bid.lns, bid.f_cnt):
        return None
    return State(bid.f_cnt - 1, state.owner, state.life)


class Claims(Protocol):
    """Whoever knows which LNS owns a frame; never asked for copies that level 1 recognised.

    StoreUnavailable when nobody can say. Every call may be made twice.
    """

    async def claim(self, bid: Bid) -> Claim:
        """Claim one frame of a session for a server, in one step that nobody comes between."""

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """One more downlink counter of a session; None when another server owns it."""

    async def release(self, bid: Bid) -> None:
        """Give back a frame that was granted and could not be made durable."""


_NOBODY_ASKED = Claim(level2=Level2.NOT_ASKED)


class SoleServer:
    """The claims of a network server that shares its devices with no other."""

    async def claim(self, bid: Bid) -> Claim:
        """Nobody is asked, so this server acts as it would without level 2."""
        return _NOBODY_ASKED

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """The next counter is the one this server knows of."""
        return bid.f_cnt_down

    async def release(self, bid: Bid) -> None:
        """There is nobody who could have it instead."""
