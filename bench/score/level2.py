"""What is a frame worth to each of several network servers, and which of them owns it? Level 2.

A session is followed reception by reception, over all its servers, in order of arrival on the clock
that they share: what each server knows, what their common store knows, and who claimed which frame
last. That is the specification (ADR 007, part 2), not the code, of a server: a counter higher than
the newest claimed one is no duplicate, nor is an equal one of the same server. A claim is
remembered for a day. The first message of a relaxed device may be lower, because its counter may
have restarted; for a while the same message is a copy elsewhere.

Two things no arrival shows: who came first where servers raced (`bench.score.sharing`), and whether
a claim whose answer was lost had been granted. Only there the word of a server is taken, and all
that follows from it is still judged.

Plain Python, for one session at a time: Spark hands it to its workers by value, so it imports
nothing of the bench.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

STATE_US = 86_400_000_000  # "State expires after a day"
NOT_ASKED, OWNER, NOT_OWNER, UNAVAILABLE = "NotAsked", "Owner", "NotOwner", "Unavailable"
NOBODY = -1  # lower than every counter: nothing heard yet
LONG_AGO = -(1 << 60)
MAX_GAP = 16384
RESUBMISSIONS_MAX = 3
_NON_DUPLICATE, _SOFT_DUPLICATE = "NonDuplicate", "SoftDuplicate"
_RESUBMISSION = "DuplicateDueToResubmission"
_AGAIN_US = 5_000_000  # a DevAddr is not looked up twice in this time
# A claim lasts a day. Who has not looked since ten minutes less than that looks before it is gone.
_FRESH_US = STATE_US - 600_000_000
_HALF = 0x10000

FACTS = (
    "t_us", "lns", "dev_eui", "f_cnt", "mic_no", "status", "confirmed", "strategy", "first_message",
    "relaxed", "short", "pinned", "preset", "granted_by", "begun_us", "retention_us", "asks",
    "closed", "store_fault", "unavailable", "unkept", "observed_level2", "raced", "winner",
    "overtaken", "race_bound_us", "restarts", "faults", "orphans",
)  # fmt: skip
"""The columns of a reception that the fold looks at."""
JUDGED = (
    "newer BOOLEAN, equal BOOLEAN, spends BOOLEAN, limited BOOLEAN, known BOOLEAN, met BOOLEAN,"
    " level2 STRING, doubtful BOOLEAN"
)
"""What it says of each: see `bench.score.sharing.with_ownership`."""

Reception = Any  # a row with FACTS


@dataclass(frozen=True)
class Seat:
    """What one server knows of the session.

    Its newest counter and in which life of a relaxed counter; the repeated answers it gave; up to
    which counter the store may have missed something (`doubt`); when it looked into the store last
    (`asked_us`), and since when it may have missed a claim (`learnt_us`). `met`: it knows the
    session at all; `blind`: the store was away when it had to look.
    """

    last: int
    life: int
    spent: dict[int, int]
    doubt: int
    asked_us: int
    learnt_us: int
    met: bool = True
    blind: bool = False


@dataclass(frozen=True)
class Worth:
    """What the counter of a reception is worth at its server.

    `passes`: it is accepted here; `asks`: level 2 is asked; `restarts`: a relaxed counter begins
    again. The others: see `bench.score.counters`.
    """

    newer: bool
    equal: bool
    spends: bool
    limited: bool
    known: bool
    restarts: bool
    passes: bool
    asks: bool


@dataclass(frozen=True)
class Answer:
    """What level 2 says: `granted` to `bidder`; `moves`: the newest claim is another one now."""

    level2: str
    bidder: str
    granted: bool
    moves: bool
    life: int


@dataclass
class Session:
    """What all servers and their store know of one session so far.

    `kept`: what the store knows, and up to which counter it may have missed something (`unsaved`).
    `newest` of `owner` since `claimed_us` is the newest claim, `before` the one before it, `maybe`
    one of `maybe_of` whose answer was lost. `firsts`: MIC and time of the first messages claimed.
    """

    kept: int
    kept_life: int = 0
    kept_spent: dict[int, int] = field(default_factory=dict)
    unsaved: int = NOBODY
    now_us: int = LONG_AGO
    seats: dict[str, Seat] = field(default_factory=dict)
    newest: int | None = None
    owner: str | None = None
    claimed_us: int | None = None
    before: int | None = None
    life: int = 0
    maybe: int | None = None
    maybe_of: str | None = None
    firsts: dict[int, tuple[int, int]] = field(default_factory=dict)


def judged(receptions: Sequence[Reception]) -> list[tuple[object, ...]]:
    """JUDGED of each of the receptions of a session, which are in order of arrival."""
    session = Session(kept=receptions[0].preset)
    return [_step(session, row) for row in receptions]


def _step(session: Session, row: Reception) -> tuple[object, ...]:
    """One reception: what befell the servers since, what its server knows, who owns it."""
    _suffer_faults(session, row)
    seat = _looked(session, _seat(session, row), row)
    worth = _worth(seat, row)
    answer = _claim(session, seat, worth, row)
    _remember(session, _seat_after(seat, worth, answer, row), worth, answer, row)
    doubtful = seat.blind or row.f_cnt <= seat.doubt
    found = (worth.newer, worth.equal, worth.spends, worth.limited, worth.known)
    return *found, seat.met, answer.level2, doubtful


def _suffer_faults(session: Session, row: Reception) -> None:
    """Restarts of servers, and an emptied store, since the last reception.

    A claim of a server that is none of this case (an orphan) counts as any other. A server that
    restarts knows what the store knows. One that brings an older counter back gives it to the
    store, where no claim of before counts then.
    """

    def lately(event: Any) -> bool:
        return bool(session.now_us < event.t_us <= row.t_us)

    begun = session.now_us > LONG_AGO or row.granted_by is None
    restarts = [event for event in row.restarts if lately(event)]
    if any(fault.emptied and lately(fault) for fault in row.faults):
        session.newest, session.maybe_of, session.firsts = None, None, {}
    orphans = [one for one in row.orphans if lately(one) and one.dev_eui == row.dev_eui]
    if orphans and orphans[-1].f_cnt is not None and orphans[-1].f_cnt > _or(session.newest):
        orphan = orphans[-1]
        session.newest, session.owner = orphan.f_cnt, orphan.lns
        session.claimed_us = orphan.t_us
    for restart in restarts if begun else ():
        if restart.f_cnt_up is not None:
            session.kept, session.newest = restart.f_cnt_up, None
        session.seats[restart.lns] = Seat(
            session.kept, session.kept_life, session.kept_spent, session.unsaved, LONG_AGO,
            restart.t_us,
        )  # fmt: skip


def _seat(session: Session, row: Reception) -> Seat:
    """What the server of this reception knows.

    A session that a join opened is known to the server that accepted it, any other to all.
    """
    known = session.seats.get(row.lns)
    if known is not None:
        return replace(known, met=True, blind=False)
    at_home = row.granted_by is None or row.granted_by == row.lns
    since_us = row.t_us if row.begun_us is None else row.begun_us
    return Seat(row.preset, 0, {}, NOBODY, LONG_AGO, since_us, met=at_home)


def _looked(session: Session, seat: Seat, row: Reception) -> Seat:
    """The seat after a look into the store, where there is a reason for one.

    Reasons to look: a session or a counter that this server does not know, one too far ahead, or
    an older one of a relaxed device, which may have restarted elsewhere; or that it has not looked
    for about as long as a claim lasts. A copy is none.
    """
    is_new = row.status == _NON_DUPLICATE
    too_far = row.f_cnt - max(seat.last, 0) > MAX_GAP
    missed = is_new and (too_far or (row.f_cnt < seat.last and row.relaxed))
    out_of_date = is_new and not row.pinned and row.t_us - seat.learnt_us >= _FRESH_US
    lacks = not seat.met or not _is_known(row, seat.last) or missed or out_of_date
    if not lacks:
        return seat
    blind = row.store_fault
    if not row.asks or row.t_us - seat.asked_us < _AGAIN_US:
        return replace(seat, blind=blind)
    ahead = (session.kept_life, session.kept) > (seat.life, seat.last)
    takes = ahead or not seat.met
    return Seat(
        last=session.kept if takes else seat.last,
        life=session.kept_life if takes else seat.life,
        spent=session.kept_spent if takes else seat.spent,
        doubt=max(seat.doubt, session.unsaved),
        asked_us=row.t_us,
        learnt_us=seat.learnt_us if row.store_fault else row.t_us,
        blind=blind,
    )


def _is_known(row: Reception, last: int) -> bool:
    """Whether the counter on the wire stands for this one at a server with this last one."""
    rolled = (row.f_cnt >> 16) - (last >> 16)
    return bool(row.f_cnt < _HALF or (last >= 0 and -1 <= rolled <= 1 and not row.short))


def _worth(seat: Seat, row: Reception) -> Worth:
    f_cnt, status, first = row.f_cnt, row.status, row.first_message
    is_new, again = status == _NON_DUPLICATE, status == _RESUBMISSION
    equal = f_cnt == seat.last
    is_next = f_cnt > seat.last and f_cnt - max(seat.last, 0) <= MAX_GAP
    newer = is_new and (is_next or first)
    repeated = is_new and not newer and equal
    spends = (repeated or (again and (equal or first))) and row.confirmed
    limited = spends and seat.spent.get(f_cnt, 0) >= RESUBMISSIONS_MAX
    known = seat.met and _is_known(row, seat.last)
    shown_again = again and first and not row.confirmed and row.strategy != "Drop"
    matters = known and (newer or (spends and not limited) or shown_again)
    soft = status == _SOFT_DUPLICATE and (equal or first)
    return Worth(
        newer=newer,
        equal=equal,
        spends=spends,
        limited=limited,
        known=known,
        restarts=newer and f_cnt <= seat.last,
        passes=matters or (known and soft),
        asks=matters and row.asks and not row.pinned,
    )


def _claim(session: Session, seat: Seat, worth: Worth, row: Reception) -> Answer:
    """Where a bid stands against the newest claim, and the answer to it."""
    f_cnt, first = row.f_cnt, row.first_message
    bidder = row.winner or row.lns
    fresh = session.claimed_us is not None and row.t_us - session.claimed_us < STATE_US
    newest = session.newest if fresh else None
    mic_no, claimed_us = session.firsts.get(f_cnt, (None, LONG_AGO))
    seen = mic_no == row.mic_no and row.t_us - claimed_us < row.retention_us
    mine = session.owner == bidder
    higher = newest is None or f_cnt > newest
    again = f_cnt == newest and mine
    moves = higher or again or (first and worth.newer and (mine or not seen))
    due = moves or (first and mine and not worth.newer)
    restarts = first and worth.newer and not higher and not again
    granted = row.observed_level2 == OWNER if _is_unsure(session, row, due) else due
    if not worth.asks:
        level2 = NOT_ASKED
    elif row.unavailable:
        level2 = UNAVAILABLE
    else:
        level2 = OWNER if granted and bidder == row.lns else NOT_OWNER
    return Answer(
        level2=level2,
        bidder=bidder,
        granted=granted and due and worth.asks and not row.unavailable,
        moves=moves,
        life=session.life + 1 if granted and restarts else max(session.life, seat.life),
    )


def _is_unsure(session: Session, row: Reception, due: bool) -> bool:
    """Whether arrivals do not tell if this bid was granted."""
    f_cnt = row.f_cnt
    if due:
        elsewhere = session.maybe_of not in (None, row.lns)
        lost = elsewhere and (f_cnt <= _or(session.maybe) or row.first_message)
        return bool(lost or row.overtaken)
    if not row.raced or session.claimed_us is None or session.owner is None:
        return False
    at_once = row.t_us - session.claimed_us <= row.race_bound_us
    overtook = at_once and session.owner != row.lns and f_cnt < _or(session.newest)
    return bool(overtook and _or(session.before) < f_cnt)


def _seat_after(seat: Seat, worth: Worth, answer: Answer, row: Reception) -> Seat:
    """What the server knows after the reception; what was not delivered it has not heard."""
    level2, f_cnt = answer.level2, row.f_cnt
    if worth.known and worth.newer and not (level2 == UNAVAILABLE and row.closed):
        asked = level2 in (OWNER, NOT_OWNER)
        life = answer.life if asked else seat.life + worth.restarts
        return replace(seat, last=f_cnt, life=life, spent={})
    here = level2 in (OWNER, NOT_ASKED) and not row.unkept
    if worth.known and worth.spends and not worth.limited and here:
        return replace(seat, spent={**seat.spent, f_cnt: seat.spent.get(f_cnt, 0) + 1})
    return seat


def _remember(session: Session, seat: Seat, worth: Worth, answer: Answer, row: Reception) -> None:
    """The state after a reception; `seat` is what its server knows now."""
    f_cnt, level2 = row.f_cnt, answer.level2
    newest = (seat.life, seat.last) >= (session.kept_life, session.kept)
    here = level2 in (OWNER, NOT_ASKED) and not row.unkept
    keeps = worth.passes and here and newest
    if level2 == UNAVAILABLE and worth.newer:
        session.unsaved = max(session.unsaved, f_cnt)
    elif keeps and seat.last >= session.unsaved:
        session.unsaved = NOBODY
    if level2 == UNAVAILABLE:
        session.maybe, session.maybe_of = max(f_cnt, _or(session.maybe)), row.lns
    elif answer.granted and answer.moves and session.maybe is not None and f_cnt >= session.maybe:
        session.maybe_of = None
    if answer.granted:
        session.claimed_us = row.t_us
        if answer.moves:
            session.before, session.newest = session.newest, f_cnt
            session.owner = answer.bidder
    if level2 in (OWNER, NOT_OWNER):
        session.life = answer.life
        if row.first_message:
            session.firsts[f_cnt] = row.mic_no, row.t_us
    if keeps:
        session.kept, session.kept_life, session.kept_spent = seat.last, seat.life, seat.spent
    session.seats[row.lns] = seat
    session.now_us = row.t_us


def _or(counter: int | None) -> int:
    return NOBODY if counter is None else counter
