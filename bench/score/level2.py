"""What is a frame worth to each of several network servers, and which of them owns it? Level 2.

A session is followed reception by reception, over all its servers, in order of arrival on the clock
that they share: what each server knows, what their common store knows, and who claimed which frame
last. That is the specification (ADR 007, part 2), not the code, of a server: a counter higher than
the newest claimed one is no duplicate, nor is an equal one of the same server. A claim is
remembered for a day, and for as long as level 1 remembers frames, which frame it was.

A relaxed device has lives: a first message begins one, and a counter beyond how far a former life
came goes back to that. All servers see the lives that the store knows. But what a server was only
told of makes no frame old that it hears itself: that is judged by what it has heard.

Two things no arrival shows: who came first where servers raced (`bench.score.oracle`), and whether
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
LIVES_MAX = 8  # former lives that are remembered
_NON_DUPLICATE, _SOFT_DUPLICATE = "NonDuplicate", "SoftDuplicate"
_RESUBMISSION = "DuplicateDueToResubmission"
_AGAIN_US = 5_000_000  # for the same frame nobody is asked twice in this time
# A claim lasts a day. Who has not looked since ten minutes less than that looks before it is gone.
_FRESH_US = STATE_US - 600_000_000
_HALF = 0x10000

FACTS = (
    "t_us", "lns", "dev_eui", "f_cnt", "mic_no", "status", "confirmed", "strategy", "first_message",
    "relaxed", "short", "pinned", "preset", "granted_by", "begun_us", "retention_us", "asks",
    "closed", "waits", "store_fault", "unavailable", "unkept", "failed", "stranger",
    "observed_level2", "raced", "winner", "overtaken", "race_bound_us", "restarts", "faults",
    "orphans",
)  # fmt: skip
"""The columns of a reception that the fold looks at."""
JUDGED = (
    "newer BOOLEAN, equal BOOLEAN, spends BOOLEAN, limited BOOLEAN, known BOOLEAN, met BOOLEAN,"
    " level2 STRING, doubtful BOOLEAN, retried BOOLEAN"
)
"""What it says of each: see `Worth`, `Seat` and `Answer`."""

Reception = Any  # a row with FACTS


@dataclass(frozen=True)
class Come:
    """How far a session has come: its newest counter, of which life, and how many ever began.

    `former`: how far each former life came that came farther than those after it, with its number;
    `mic_no`: of the frame that came with the newest counter.
    """

    last: int
    life: int = 0
    lives: int = 0
    former: tuple[tuple[int, int], ...] = ()
    mic_no: int | None = None

    @property
    def rank(self) -> tuple[int, int, int]:
        """Who knows more: a life that began is more than one before, until that goes on."""
        return self.lives, -self.life, self.last

    def judge_of(self, f_cnt: int) -> int:
        """The counter that judges another one: of a former life that it goes beyond, or newest."""
        return next((far for _, far in self.former if f_cnt > far), self.last)

    def is_next(self, f_cnt: int) -> bool:
        last = self.judge_of(f_cnt)
        return last < f_cnt <= max(last, 0) + MAX_GAP

    def is_too_far(self, f_cnt: int) -> bool:
        return f_cnt > max(self.judge_of(f_cnt), 0) + MAX_GAP

    def is_farther(self, other: "Come") -> bool:
        """Whether the newest life came farther than the other knows of that life."""
        return self.last > dict((*other.former, (other.life, other.last))).get(self.life, NOBODY)

    def joined(self, other: "Come") -> "Come":
        """The same, with lives before the newest as far as the other knows them."""
        come = self
        for life, far in (*other.former, (other.life, other.last)):
            since = [came for its, came in come.former if its >= life]
            if life < come.life and far > max(since, default=max(come.last, 0)):
                before = [one for one in come.former if one[0] < life and one[1] > far]
                after = [one for one in come.former if one[0] > life]
                come = replace(come, former=(*before, (life, far), *after)[-LIVES_MAX:])
        return come

    def after(self, f_cnt: int, mic_no: int) -> "Come":
        """How far it has come with a frame that is accepted: on, back, or begun again."""
        for number, (life, far) in enumerate(self.former):
            if f_cnt > far:
                return Come(f_cnt, life, self.lives, self.former[:number], mic_no)
        if f_cnt > self.last:
            return replace(self, last=f_cnt, mic_no=mic_no)
        farther = self.last > f_cnt and all(self.last < far for _, far in self.former)
        former = (*self.former, (self.life, self.last)) if farther else self.former
        return Come(f_cnt, self.lives + 1, self.lives + 1, former[-LIVES_MAX:], mic_no)


@dataclass(frozen=True)
class Seat:
    """What one server knows of the session.

    How far the session has come, whose frame that was (None: nobody else's), and up to which
    counter of which life the server has heard it itself; the repeated answers it gave; up to which
    counter the store may have missed something (`doubt`); when it asked about which frame
    (`asked_us`), and since when it may have missed a claim (`learnt_us`). `met`: it knows the
    session at all; `blind`: the store was away when it had to look.
    """

    come: Come
    owner: str | None
    heard: int
    heard_life: int
    spent: dict[int, int]
    doubt: int
    asked_us: dict[tuple[int, int], int]
    learnt_us: int
    met: bool = True
    blind: bool = False

    def hears(self, f_cnt: int, life: int) -> "Seat":
        """A frame that this server hears itself; one of another life than the newest is none."""
        if life != self.come.life:
            return self
        heard = self.heard if self.heard_life == life else NOBODY
        return replace(self, heard=max(heard, f_cnt), heard_life=life)

    def learns(self, come: Come, owner: str | None) -> "Seat":
        """What the store knows, where that is more, and whose the newest frame is."""
        if come.rank == self.come.rank:
            return replace(self, owner=owner)
        if come.rank < self.come.rank:
            return self
        return replace(self, come=come, owner=owner, spent={})


@dataclass(frozen=True)
class Worth:
    """What the counter of a reception is worth at its server.

    `passes`: it is accepted here; `asks`: level 2 is asked; `looks`: it is asked about a frame that
    is refused here, which others may know better; `retried`: a first message that its server was
    granted before, and takes for one that is sent anew. The others: see `oracle.py`.
    """

    newer: bool
    equal: bool
    spends: bool
    limited: bool
    known: bool
    passes: bool
    asks: bool
    looks: bool
    retried: bool = False


@dataclass(frozen=True)
class Answer:
    """What level 2 says: `granted` to `bidder`; `moves`: the session has come on with this frame.

    `come` of `owner` is what the store knows then, `life` the one in which the frame lies, unless
    it is `odd`: other bytes had its counter; `too_far`: it is none that any server would take.
    """

    level2: str
    bidder: str
    granted: bool = False
    moves: bool = False
    too_far: bool = False
    come: Come | None = None
    owner: str | None = None
    life: int = 0
    odd: bool = False


@dataclass(frozen=True)
class Claimed:
    """A frame that was claimed: in which life it lies, who was granted it, and when.

    `own`: its owner has been told so. Where servers raced, it was granted before that one's turn.
    """

    life: int
    owner: str | None
    t_us: int
    own: bool
    odd: bool


@dataclass
class Session:
    """What all servers and their store know of one session so far.

    `kept` of `kept_owner`: what the store keeps of the session, and up to which counter it may have
    missed something (`unsaved`). `newest` of `owner` since `claimed_us` is how far the claims came,
    `before` the counter before it, `maybe` one of `maybe_of` whose answer was lost. `frames`: those
    that were claimed, by counter and MIC.
    """

    kept: Come
    kept_owner: str | None = None
    kept_spent: dict[int, int] = field(default_factory=dict)
    unsaved: int = NOBODY
    now_us: int = LONG_AGO
    seats: dict[str, Seat] = field(default_factory=dict)
    newest: Come | None = None
    owner: str | None = None
    claimed_us: int | None = None
    before: int = NOBODY
    maybe: int = NOBODY
    maybe_of: str | None = None
    frames: dict[tuple[int, int], Claimed] = field(default_factory=dict)


def judged(receptions: Sequence[Reception]) -> list[tuple[object, ...]]:
    """JUDGED of each of the receptions of a session, which are in order of arrival."""
    session = Session(kept=Come(receptions[0].preset))
    return [_step(session, row) for row in receptions]


def _step(session: Session, row: Reception) -> tuple[object, ...]:
    """One reception: what befell the servers since, what its server knows, who owns it."""
    _suffer_faults(session, row)
    seat = _looked(session, _seat(session, row), row)
    worth = _worth(seat, row)
    if seat.blind and worth.asks and row.observed_level2 in (None, NOT_ASKED):
        # It could not look, says it, and makes nothing of the frame.
        worth = replace(worth, newer=False, spends=False, passes=False, asks=False, looks=False)
    answer = _claim(session, seat, worth, row)
    blind = seat.blind or (worth.looks and row.store_fault)
    if answer.too_far:
        seat, worth, answer = _too_far(seat, worth, answer)
    elif worth.looks:
        seat, worth, answer = _after_look(seat, worth, answer, row)
    worth = _within_limit(seat, _known_before(worth, answer, row), answer, row)
    if row.failed and answer.level2 != NOT_OWNER:
        # What was not delivered was not heard, and nobody owns it.
        session.seats[row.lns], session.now_us = seat, row.t_us
    else:
        _remember(session, _seat_after(seat, worth, answer, row), worth, answer, row)
    doubtful = blind or row.f_cnt <= seat.doubt or _is_untold_copy(session, seat, row)
    # Of a frame of its own a server may learn then that the session is another one's by now.
    others = worth.spends and answer.level2 == OWNER and answer.owner != row.lns
    doubtful = doubtful or (others and not row.first_message)
    found = (worth.newer, worth.equal, worth.spends, worth.limited, worth.known)
    return *found, seat.met, answer.level2, doubtful, worth.retried


def _is_untold_copy(session: Session, seat: Seat, row: Reception) -> bool:
    """Whether a copy, of which nobody is asked, meets a server that knows of fewer lives."""
    is_behind = session.newest is not None and seat.come.lives < session.newest.lives
    return is_behind and row.status == _SOFT_DUPLICATE and row.strategy != "Drop"


def _suffer_faults(session: Session, row: Reception) -> None:
    """Restarts of servers, and an emptied store, since the last reception.

    A claim of a server that is none of this case (an orphan) counts as any other. A server that
    restarts knows what the store knows. One that brings an older counter back gives it to the
    store, where no claim of before counts then; it has none of a session that nobody has met.
    """

    def lately(event: Any) -> bool:
        return bool(session.now_us < event.t_us <= row.t_us)

    is_met = session.now_us > LONG_AGO
    restarts = [event for event in row.restarts if lately(event)]
    if any(fault.emptied and lately(fault) for fault in row.faults):
        session.newest, session.maybe_of, session.frames = None, None, {}
    orphans = [one for one in row.orphans if lately(one) and one.dev_eui == row.dev_eui]
    if orphans and orphans[-1].f_cnt is not None:
        orphan, known = orphans[-1], session.newest or Come(NOBODY)
        if orphan.f_cnt > known.last:
            session.newest, session.owner = replace(known, last=orphan.f_cnt), orphan.lns
            session.claimed_us = orphan.t_us
    for restart in restarts if is_met or row.granted_by is None else ():
        if restart.f_cnt_up is not None and (is_met or row.preset > NOBODY):
            session.kept, session.kept_spent = replace(session.kept, last=restart.f_cnt_up), {}
            session.newest = None
        kept = session.kept
        session.seats[restart.lns] = Seat(
            kept, session.kept_owner, kept.last, kept.life, session.kept_spent, session.unsaved,
            {}, restart.t_us,
        )  # fmt: skip


def _seat(session: Session, row: Reception) -> Seat:
    """What the server of this reception knows.

    A session that a join opened is known to the server that accepted it, any other to all.
    """
    known = session.seats.get(row.lns)
    if known is not None:
        return replace(known, blind=False)
    at_home = row.granted_by is None or row.granted_by == row.lns
    since_us = row.t_us if row.begun_us is None else row.begun_us
    come = Come(row.preset)
    return Seat(come, None, row.preset, 0, {}, NOBODY, {}, since_us, met=at_home)


def _looked(session: Session, seat: Seat, row: Reception) -> Seat:
    """The seat after the server has read what the store keeps, where there is a reason to.

    Reasons: a session or a counter that this server does not know, or one too far ahead; or that
    it has not read for about as long as a claim lasts, when nobody waits for copies of what it
    finds. A copy is none.
    """
    is_new = row.status == _NON_DUPLICATE
    too_far = is_new and seat.come.is_too_far(row.f_cnt)
    out_of_date = is_new and not row.pinned and row.t_us - seat.learnt_us >= _FRESH_US
    strange = not seat.met or not _is_known(row, seat.come)
    if not row.asks or not (strange or too_far or out_of_date):
        return seat
    blind = row.store_fault
    frame = (row.f_cnt, row.mic_no)
    if strange and row.t_us - seat.asked_us.get(frame, LONG_AGO) < _AGAIN_US:
        return replace(seat, blind=blind)
    if strange and blind and row.stranger:
        return replace(seat, blind=True)
    if not seat.met or session.kept.rank > seat.come.rank:
        seat = replace(seat, come=session.kept, owner=session.kept_owner, spent=session.kept_spent)
    if out_of_date and (seat.come.last, seat.come.mic_no) != (row.f_cnt, row.mic_no):
        # Unless the newest frame of all is this one, told by another server a moment ago.
        seat = replace(seat, heard=seat.come.last, heard_life=seat.come.life)
    elif not seat.met:
        seat = replace(seat, heard=NOBODY, heard_life=0)
    return replace(
        seat,
        doubt=max(seat.doubt, session.unsaved),
        asked_us={**seat.asked_us, frame: row.t_us} if strange else seat.asked_us,
        learnt_us=seat.learnt_us if row.store_fault else row.t_us,
        met=True,
        blind=blind,
    )


def _is_known(row: Reception, come: Come) -> bool:
    """Whether the counter on the wire stands for this one at a server that has come so far."""

    def near(last: int) -> bool:
        return last >= 0 and -1 <= (row.f_cnt >> 16) - (last >> 16) <= 1

    tried = (come.last, *(far for _, far in come.former))
    return bool(row.f_cnt < _HALF or (any(map(near, tried)) and not row.short))


def _worth(seat: Seat, row: Reception) -> Worth:
    """What a counter is worth where the server has heard what it was told of, or has not."""
    f_cnt, shared = row.f_cnt, row.asks and not row.pinned
    known = seat.met and _is_known(row, seat.come)
    is_next, equal = seat.come.is_next(f_cnt), f_cnt == seat.come.last
    if row.waits and not shared:  # it is of the newest frame when its first copy is there
        is_next, equal = False, True
    too_far = seat.come.is_too_far(f_cnt)
    # Whose an old first message is, only a claim can tell.
    is_claimed = shared and row.first_message and not (is_next or too_far or equal)
    told = shared and seat.owner not in (None, row.lns)
    if told and not is_next and not too_far:
        heard = seat.heard if seat.heard_life == seat.come.life else NOBODY
        is_next, equal = f_cnt > heard, f_cnt == heard
    is_new = row.status == _NON_DUPLICATE
    looks = is_new and known and shared and not row.first_message
    looks = looks and (too_far or (row.relaxed and not is_next))
    spent = {} if told or is_claimed else seat.spent
    return _of_standing(row, is_next, equal, spent, known=known, looks=looks)


def _of_standing(
    row: Reception,
    is_next: bool,
    equal: bool,
    spent: dict[int, int],
    *,
    known: bool,
    looks: bool = False,
) -> Worth:
    status, first, drops = row.status, row.first_message, row.strategy == "Drop"
    is_new, again = status == _NON_DUPLICATE, status == _RESUBMISSION
    newer = (is_new and (is_next or first)) or (again and is_next)
    spends = ((is_new and equal) or (again and (equal or first))) and row.confirmed and not newer
    limited = spends and spent.get(row.f_cnt, 0) >= RESUBMISSIONS_MAX
    answers_again = again and row.confirmed
    shown_again = again and (is_next or (first and not drops)) and not row.confirmed
    matters = (is_new and newer) or (answers_again and newer) or (spends and not limited)
    matters = known and (matters or shown_again)
    soft = status == _SOFT_DUPLICATE and (is_next or equal or first)
    return Worth(
        newer=newer,
        equal=equal or (status == _SOFT_DUPLICATE and is_next),
        spends=spends,
        limited=limited,
        known=known,
        passes=matters or (known and soft) or (known and newer),
        asks=(matters or looks) and row.asks and not row.pinned,
        looks=looks,
    )


def _claim(session: Session, seat: Seat, worth: Worth, row: Reception) -> Answer:
    """Where a bid stands against the newest claim, and the answer to it."""
    bidder = row.winner or row.lns
    if not worth.asks:
        return Answer(NOT_ASKED, bidder)
    if row.unavailable:
        return Answer(UNAVAILABLE, bidder)
    f_cnt, first = row.f_cnt, row.first_message
    is_new = row.status == _NON_DUPLICATE
    fresh = session.claimed_us is not None and row.t_us - session.claimed_us < STATE_US
    come, owner = session.newest if fresh else None, session.owner
    if come is None or (seat.come.lives > come.lives and seat.come.is_farther(come)):
        come, owner = seat.come.joined(come or seat.come), seat.owner or bidder
    come = replace(come, lives=max(come.lives, seat.come.lives))
    seen = _seen(session, row)
    mine, its_owner = owner == bidder, None if seen is None else seen.owner
    higher = come.is_next(f_cnt) or come.is_too_far(f_cnt)
    # A server that was not told of a life that began may take for near what is too far for all.
    beyond = not seat.come.is_next(f_cnt) or seat.come.lives < come.lives
    beyond = come.is_too_far(f_cnt) and beyond
    moved = come.after(f_cnt, row.mic_no)
    is_newest = f_cnt == come.last and come.mic_no in (None, row.mic_no)
    life, odd = (come.life, not is_newest) if seen is None else (seen.life, seen.odd)
    comes_true = too_far = False
    if its_owner is not None and (is_new or (higher and not (mine and its_owner == bidder))):
        due, moves = its_owner == bidder and is_new, False
        comes_true = due and bidder == row.lns and seen is not None and not seen.own
    elif beyond:
        due, moves, odd, too_far = False, False, True, True
    elif higher and seen is not None and not its_owner and not odd and life != moved.life:
        due = moves = False  # it was refused a moment ago, as a frame of another life
    elif higher or (first and is_new):
        due = moves = True
    else:
        again = f_cnt == come.last and (life == come.life or come.mic_no == row.mic_no)
        due, moves = (its_owner or owner) == bidder and (again or first), False
    granted = row.observed_level2 == OWNER if _is_unsure(session, row, due) else due
    if granted and moves and due:
        come, owner = moved, bidder
        life, odd = (life, odd) if seen is not None and odd else (come.life, False)
    return Answer(
        level2=OWNER if granted and bidder == row.lns else NOT_OWNER,
        bidder=bidder,
        granted=granted and due,
        moves=granted and (moves or comes_true),
        too_far=too_far,
        come=come,
        owner=owner,
        life=life,
        odd=odd,
    )


def _seen(session: Session, row: Reception) -> Claimed | None:
    seen = session.frames.get((row.f_cnt, row.mic_no))
    return None if seen is None or row.t_us - seen.t_us >= row.retention_us else seen


def _too_far(seat: Seat, worth: Worth, answer: Answer) -> tuple[Seat, Worth, Answer]:
    """What a server makes of a frame that is too far ahead of what all together know: nothing.

    It refuses for its own reason what has had all its answers there.
    """
    assert answer.come is not None
    if not worth.limited:
        worth = replace(worth, newer=False, equal=False, spends=False, passes=False)
    return seat.learns(answer.come, answer.owner), worth, replace(answer, level2=NOT_ASKED)


def _after_look(
    seat: Seat, worth: Worth, answer: Answer, row: Reception
) -> tuple[Seat, Worth, Answer]:
    """What a server makes of a frame that it would refuse, when it has asked the others.

    Nothing, unless it was told of another life or of a counter that makes this one near.
    """
    if answer.level2 == UNAVAILABLE:
        answer = replace(answer, level2=NOT_ASKED)
    if answer.come is None:
        return seat, worth, answer
    learnt = seat.learns(answer.come, answer.owner).hears(row.f_cnt, answer.life)
    told = (learnt.come.lives, learnt.come.life) != (seat.come.lives, seat.come.life)
    if not (told or answer.moves or seat.come.is_too_far(row.f_cnt)):
        if worth.passes:
            return learnt, worth, answer
        return learnt, worth, replace(answer, level2=NOT_ASKED)
    again = answer.level2 == OWNER and not answer.moves
    spent = learnt.spent if learnt.owner in (None, row.lns) else {}
    return learnt, _of_standing(row, not again, again, spent, known=worth.known), answer


def _known_before(worth: Worth, answer: Answer, row: Reception) -> Worth:
    """A frame that is new to its server, which was granted it before: it has begun anew since."""
    again = row.status == _NON_DUPLICATE and worth.newer and answer.level2 == OWNER
    if not again or answer.moves or not answer.granted:
        return worth
    if row.first_message:
        return replace(worth, spends=row.confirmed, retried=True)
    return replace(worth, newer=False, equal=True, spends=row.confirmed, passes=row.confirmed)


def _within_limit(seat: Seat, worth: Worth, answer: Answer, row: Reception) -> Worth:
    """A frame of its own that a server has answered as often as it may."""
    if not worth.spends or answer.level2 != OWNER or answer.come is None:
        return worth
    spent = seat.learns(answer.come, answer.owner).spent.get(row.f_cnt, 0)
    return replace(worth, limited=True, passes=False) if spent >= RESUBMISSIONS_MAX else worth


def _is_unsure(session: Session, row: Reception, due: bool) -> bool:
    """Whether arrivals do not tell if this bid was granted."""
    f_cnt = row.f_cnt
    if due:
        elsewhere = session.maybe_of not in (None, row.lns)
        lost = elsewhere and (f_cnt <= session.maybe or row.first_message)
        return bool(lost or row.overtaken)
    if not row.raced or session.claimed_us is None or session.newest is None:
        return False
    at_once = row.t_us - session.claimed_us <= row.race_bound_us
    overtook = at_once and session.owner != row.lns and f_cnt < session.newest.last
    return bool(overtook and session.before < f_cnt)


def _seat_after(seat: Seat, worth: Worth, answer: Answer, row: Reception) -> Seat:
    """What the server knows after the reception; what was not delivered it has not heard."""
    level2, f_cnt = answer.level2, row.f_cnt
    if not worth.known:
        return seat
    if level2 in (OWNER, NOT_OWNER) and answer.come is not None:
        seat = seat.learns(answer.come, answer.owner).hears(f_cnt, answer.life)
    elif worth.newer and level2 == UNAVAILABLE and row.closed:
        return seat
    elif worth.newer:
        seat = _alone(seat, level2, row)
    here = level2 in (OWNER, NOT_ASKED) and not row.unkept
    # What waits spends the answers of the life that it is of, which another one has followed.
    waits = row.waits and row.status == _RESUBMISSION
    is_over = waits and seat.come.mic_no not in (None, row.mic_no)
    if worth.spends and not worth.limited and here and not is_over:
        return replace(seat, spent={**seat.spent, f_cnt: seat.spent.get(f_cnt, 0) + 1})
    return seat


def _alone(seat: Seat, level2: str, row: Reception) -> Seat:
    """A frame about which nobody else is asked, or can be."""
    shared = row.asks and not row.pinned
    f_cnt, owner = row.f_cnt, row.lns if shared else None
    if shared and level2 == NOT_ASKED:
        return seat
    ahead = seat.come.is_next(f_cnt) or seat.come.is_too_far(f_cnt)
    if not ahead and not row.first_message:
        return seat.hears(f_cnt, seat.come.life)
    come = seat.come.after(f_cnt, row.mic_no)
    return replace(seat, come=come, owner=owner, heard=f_cnt, heard_life=come.life, spent={})


def _remember(session: Session, seat: Seat, worth: Worth, answer: Answer, row: Reception) -> None:
    """The state after a reception; `seat` is what its server knows now."""
    f_cnt, level2 = row.f_cnt, answer.level2
    here = level2 in (OWNER, NOT_ASKED) and not row.unkept
    keeps = worth.passes and here and seat.come.rank >= session.kept.rank
    if level2 == UNAVAILABLE and worth.newer:
        session.unsaved = max(session.unsaved, f_cnt)
    elif keeps and seat.come.last >= session.unsaved:
        session.unsaved = NOBODY
    if level2 == UNAVAILABLE:
        session.maybe, session.maybe_of = max(f_cnt, session.maybe), row.lns
    elif answer.granted and answer.moves and f_cnt >= session.maybe:
        session.maybe_of = None
    if answer.granted:
        session.claimed_us = row.t_us
        if answer.moves:
            session.before = NOBODY if session.newest is None else session.newest.last
        session.newest, session.owner = answer.come, answer.owner
    if answer.come is not None:
        seen = _seen(session, row)
        owner = answer.bidder if answer.granted else None if seen is None else seen.owner
        own = (answer.granted and owner == row.lns) or (seen is not None and seen.own)
        claimed = Claimed(answer.life, owner, row.t_us, own, answer.odd)
        session.frames[f_cnt, row.mic_no] = claimed
    if keeps:
        before = session.kept_spent if seat.come.rank == session.kept.rank else {}
        known = {one: max(spent, before.get(one, 0)) for one, spent in seat.spent.items()}
        session.kept, session.kept_owner = seat.come, seat.owner
        session.kept_spent = before | known
    session.seats[row.lns] = seat
    session.now_us = row.t_us
