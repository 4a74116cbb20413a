"""What does the model remember of a session and of a server, and what does it see coming?

State for `bench.explore.model`, with the two rules that place a counter in a life (`Session.place`,
`Session.begin_again`). What only `bench.explore.model_doubts` asks for stands last in each class.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field, fields, replace
from itertools import islice, takewhile
from operator import attrgetter

from bench.explore.trace import (
    Event,
    RadioLost,
    RadioRestarted,
    Reception,
    StoreDisturbed,
    Trace,
    UpstreamDisturbed,
    Words,
)

GAP_MAX = 16_384
TURN = 1 << 16
ANSWERS_AGAIN_MAX = 3
RX2_AFTER_US = 1_000_000
LEAD_US = 400_000  # an answer is on its way so long before its window opens
NEWER, EQUAL, OLDER, TOO_FAR, UNTOLD = "newer", "equal", "older", "too far", "untold"


ENDED = "a copy of a session that has ended since"


class Unknowable(Exception):
    """Nobody outside can know what is right; the text says why."""


class Harmless(Unknowable):
    """The same, and it does not touch the session, whatever becomes of it."""


class UnsureAnswer(Unknowable):
    """All but the answer is known, and nothing follows from that."""


@dataclass(frozen=True, slots=True)
class Due:
    """What a reception must become, or why that is unknowable."""

    words: Words | None
    why: str = ""


@dataclass(frozen=True, slots=True)
class Claim:
    """What was said of a frame when a server asked: its life, its owner, and when.

    `odd`: another frame had this counter before; `given_back`: it had an owner, who lost it.
    """

    life: int
    owner: int | None = None
    at_us: int | None = None
    odd: bool = False
    given_back: bool = False


@dataclass(slots=True, eq=False)
class Session:
    """A session as all servers know it: how far its counter came, in which life, whose that was.

    `former`: the lives before that came farther than those after them, oldest first, as (life, how
    far). `heard`: how far each server has heard itself, as (life, counter). `claimed`: of a frame
    what was said when it was asked about last. `spent`: answers given again, by server and counter.
    """

    opened: int
    newest: int | None
    life: int = 0
    lives: int = 0
    former: list[tuple[int, int]] = field(default_factory=list)
    owner: int | None = None
    heard: dict[int, tuple[int, int | None]] = field(default_factory=dict)
    claimed: dict[int, Claim] = field(default_factory=dict)
    frame: int | None = None  # the number of the newest one
    misled: set[int] = field(default_factory=set)  # servers told of what was given back since
    denied: dict[int, int] = field(default_factory=dict)  # by server: the frame that it did not own
    spent: Counter[tuple[int, int]] = field(default_factory=Counter)
    is_over: bool = False
    over_us: int = -1  # when the frame that ended it had been delivered
    is_kept: bool = True
    granted_us: int = 0  # when level 2 said of somebody that a frame is its own
    changes: int = 0
    synced: dict[int, int] = field(default_factory=dict)
    told_life: dict[int, int] = field(default_factory=dict)
    maybe_heard: dict[int, int] = field(default_factory=dict)
    maybe_claimed_us: dict[int, int] = field(default_factory=dict)  # by the number of the frame
    doubt: str = ""
    doubt_until: int | None = None
    surely: int | None = None  # how far it had come when nothing was in doubt
    given: Counter[tuple[int, int]] = field(default_factory=Counter)

    def is_told(self, server: int) -> bool:
        """Whether a server knows all that the store knows."""
        return self.synced.get(server) == self.changes

    def tell(self, server: int) -> None:
        """A server knows all that the store knows."""
        self.synced[server], self.told_life[server] = self.changes, self.life

    def hear_all(self, server: int) -> None:
        """What is known counts as heard by a server, which nobody waits for any more."""
        self.heard[server] = self.life, self.newest
        self.tell(server)

    def place(self, f_cnt: int) -> str:
        """Where a counter stands: it continues the farthest former life that it exceeds."""
        newest = next((far for _, far in self.former if f_cnt > far), self.newest)
        if newest is None or f_cnt > newest:
            return NEWER if f_cnt - (newest or 0) <= GAP_MAX else TOO_FAR
        return EQUAL if f_cnt == newest else OLDER

    def go_on(self, f_cnt: int) -> None:
        """A newer counter, perhaps of a former life."""
        for place, (life, far) in enumerate(self.former):
            if f_cnt > far:
                self.former, self.life = self.former[:place], life
                break
        self._come_to(f_cnt)

    def begin_again(self, f_cnt: int) -> None:
        """A first message begins a new life; the one before is remembered if it came farther."""
        if self.newest is not None and self.newest > f_cnt:
            if all(self.newest < far for _, far in self.former):
                self.former = [*self.former, (self.life, self.newest)][-8:]
        self.lives += 1
        self.life = self.lives
        self._come_to(f_cnt)

    def _come_to(self, f_cnt: int) -> None:
        self.newest = f_cnt
        self.spent = Counter()
        self.changes += 1

    def life_of(self, f_cnt: int) -> int:
        """Which life a newer counter continues."""
        return next((life for life, far in self.former if f_cnt > far), self.life)

    def claim_of(self, r: Reception, retention_us: int) -> Claim:
        """What is known of a frame that was asked about a short while ago, or never."""
        known = self.claimed.get(r.frame.number)
        if known is None or known.at_us is None or r.at_us - known.at_us >= retention_us:
            is_newest = self.newest == r.frame.f_cnt and self.frame in (None, r.frame.number)
            return Claim(self.life, odd=not is_newest)
        return known

    def be_doubted(self, why: str, f_cnt: int, relaxed: bool) -> None:
        """Nothing is known of it until a frame newer than this one comes; of lives never again."""
        known = [f_cnt, self.newest or 0]
        if self.doubt:
            known += [self.doubt_until or 0]
            relaxed = relaxed or self.doubt_until is None
        self.doubt, self.doubt_until = why, None if relaxed else max(known)

    def raise_doubt(self) -> None:
        """Say nothing of it as long as it is in doubt."""
        if self.doubt:
            raise (Harmless if self.doubt == ENDED else Unknowable)(self.doubt)

    def hear(self, server: int, f_cnt: int, life: int) -> None:
        known = self.heard.get(server)
        if life == self.life and (known is None or known[0] != life or f_cnt > (known[1] or -1)):
            self.heard[server] = life, f_cnt


@dataclass(slots=True)
class Server:
    """What one server has for itself: level 1, its application, its wires, its stations.

    `sightings`: of a frame the first station and when it was heard last. `busy`: until when the
    first copy of a frame is on its way to the application, `spent`: the answers given again in the
    life of that. `knows` and `ended`: sessions by their number.
    """

    sightings: dict[int, tuple[int, int]] = field(default_factory=dict)
    busy: dict[int, int] = field(default_factory=dict)
    spent: dict[int, Counter[tuple[int, int]]] = field(default_factory=dict)
    doubtful: dict[int, int] = field(default_factory=dict)
    knows: set[int] = field(default_factory=set)
    maybe_knows: set[int] = field(default_factory=set)
    ended: set[int] = field(default_factory=set)
    maybe_ended: set[int] = field(default_factory=set)
    unsure_of: set[int] = field(default_factory=set)  # devices that joined when nobody could know
    ending_us: dict[int, int] = field(default_factory=dict)
    asked_us: dict[int, int] = field(default_factory=dict)  # for a frame, by its number
    queue: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    radios: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    began_us: int = 0
    looked_us: dict[int, int] = field(default_factory=dict)  # for a session, by its number
    store_us: int = -1  # until when the store is disturbed
    late_us: int = 0  # by how much; 0: away
    slow_us: int = 0
    refused: bool = False
    is_unsure: bool = False
    unsure_us: int = 0  # until when it is unsure which message is disturbed
    disputed: set[int] = field(default_factory=set)
    waits_us: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))
    surely_heard: dict[int, int] = field(default_factory=dict)  # when none of a device waited
    answering_us: defaultdict[int, int] = field(default_factory=lambda: defaultdict(int))

    def is_away(self, at_us: int) -> bool:
        """Whether the store does not answer."""
        return at_us <= self.store_us and self.late_us == 0

    def lateness_us(self, at_us: int) -> int:
        """How late the store answers."""
        return self.late_us if at_us <= self.store_us else 0


class Coming:
    """What comes after the event that is looked at, the one at `place`."""

    def __init__(self, trace: Trace) -> None:
        self._events = trace.events
        self.place = 0

    def is_disturbed(
        self,
        r: Reception,
        until_us: int,
        what: type[StoreDisturbed | UpstreamDisturbed | RadioLost | RadioRestarted],
    ) -> bool:
        """Whether this befalls a server, or one station of it, until then."""
        return any(
            isinstance(event, what)
            and event.server == r.server
            and getattr(event, "station", r.station) == r.station
            for event in self.until(until_us)
        )

    def is_heard(self, r: Reception, until_us: int, *, here: bool | None) -> bool:
        """Whether its device is heard again until then, by this server, another one, or any."""
        return any(
            isinstance(event, Reception)
            and here in (None, event.server == r.server)
            and event.frame.device == r.frame.device
            for event in self.until(until_us)
        )

    def has_twin(self, r: Reception, until_us: int) -> bool:
        """Whether until then its server hears another frame with the same counter."""
        return any(
            isinstance(event, Reception)
            and event.server == r.server
            and event.frame is not r.frame
            and (event.frame.device, event.frame.f_cnt) == (r.frame.device, r.frame.f_cnt)
            for event in self.until(until_us)
        )

    def is_overtaken(self, r: Reception, until_us: int) -> bool:
        """Whether until then more comes than copies elsewhere: of its device, or a fault here."""
        return any(
            event.frame.device == r.frame.device
            and (event.frame is not r.frame or event.server == r.server)
            if isinstance(event, Reception)
            else event.server == r.server and isinstance(event, StoreDisturbed | UpstreamDisturbed)
            for event in self.until(until_us)
        )

    def until(self, until_us: int) -> Iterator[Event]:
        """What happens after an event and until a time."""
        after = islice(self._events, self.place + 1, None)
        return takewhile(lambda event: event.at_us <= until_us, after)


@dataclass(slots=True)
class Decided:
    """What was decided about one reception: what goes up, what may go down, what was changed.

    `spent`: where it spends an answer.
    """

    status: str
    upstream: str
    reason: str = "-"
    answers: bool = False
    spends: bool = False
    advances: bool = False
    level2: str = "NotAsked"
    new: bool = False
    spent: Counter[tuple[int, int]] = field(default_factory=Counter)

    def spend(self, spent: Counter[tuple[int, int]], r: Reception) -> None:
        """Give one answer again, if it does."""
        self.spent = spent
        spent[r.server, r.frame.f_cnt] += self.spends

    def spare(self, r: Reception) -> None:
        """Take back that it was given."""
        self.spent[r.server, r.frame.f_cnt] -= self.spends


def window(left_us: int) -> str:
    """The window of an answer that is ready so long before RX1 opens."""
    if left_us >= LEAD_US:
        return "RX1"
    return "RX2" if left_us + RX2_AFTER_US >= LEAD_US else "TooLate"


def elders(
    sessions: dict[tuple[int, int], Session], device: int, session: Session
) -> list[Session]:
    mine = [known for (whose, _), known in sessions.items() if whose == device]
    return mine[: mine.index(session)]


_all_of = attrgetter(*(one.name for one in fields(Session)))


def copy_of(session: Session) -> Session:
    copied = Session(*_all_of(session))
    copied.claimed, copied.heard = dict(session.claimed), dict(session.heard)
    return copied


def bring_back(session: Session, before: Session) -> None:
    """The session as it was, but for what other servers were told meanwhile."""
    session.newest, session.life, session.lives = before.newest, before.life, before.lives
    session.former, session.owner, session.frame = before.former, before.owner, before.frame
    session.spent, session.claimed = before.spent, before.claimed
    session.changes += 1
    if before.doubt:  # what a newer frame had settled
        session.be_doubted(before.doubt, before.doubt_until or 0, before.doubt_until is None)


def give_back(session: Session, before: Session, frame: int) -> None:
    """The same for a frame that nobody has; in which life it lies is remembered."""
    known = session.claimed.get(frame)
    bring_back(session, before)
    if known is not None:
        session.claimed = {**session.claimed, frame: replace(known, owner=None, given_back=True)}
