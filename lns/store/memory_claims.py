"""Which network server owns a frame, when all of them live in one process?

The first implementation of level 2; `lns.store.redis_claims` says the same through Redis.
"""

from collections import OrderedDict
from collections.abc import Callable

from lns.dedup.claim import STATE_US, Bid, Claim, Level2, Seen, State, decide, released
from lns.dedup.concentrator import RETENTION_US
from lns.lorawan.identifiers import DevAddr, Eui, Mic

SESSIONS_MAX = 1_000_000
Session = tuple[Eui, DevAddr]
Frame = tuple[Session, int, Mic]


class MemoryClaims:
    """Claims of the servers that share this object; a server is named in every bid.

    A session is remembered for `state_us` after the last claim that was granted, its downlink
    counter as long as the process lives; a frame for `retention_us` after its last claim; that a
    session is over for `state_us`. Beyond `sessions_max` the longest silent session is forgotten.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        state_us: int = STATE_US,
        retention_us: int = RETENTION_US,
        sessions_max: int = SESSIONS_MAX,
    ) -> None:
        self._now_us = now_us
        self._state_us = state_us
        self._retention_us = retention_us
        self._sessions_max = sessions_max
        self._states: OrderedDict[Session, tuple[State, int]] = OrderedDict()
        self._f_cnt_down: dict[Session, int] = {}
        self._frames: OrderedDict[Frame, tuple[Seen, int]] = OrderedDict()
        self._over_us: OrderedDict[Session, int] = OrderedDict()

    async def claim(self, bid: Bid) -> Claim:
        """Claim one frame of a session for a server; this store never fails."""
        session = bid.dev_eui, bid.dev_addr
        if self._is_over(session):
            return Claim(level2=Level2.NOT_OWNER, outdated=True)
        state = self._state(session)
        frame = session, bid.f_cnt, bid.mic
        seen = self._seen(frame)
        decided = decide(state, bid, seen=seen)
        owner = bid.lns if decided.granted else seen.owner if seen else None
        self._note(frame, Seen(decided.lived, owner))
        next_f_cnt_down = self._next_f_cnt_down(session, bid)
        f_cnt_down = None
        if decided.granted:
            self._remember(session, decided.state)
            f_cnt_down = next_f_cnt_down if bid.takes_f_cnt_down else None
            next_f_cnt_down += bid.takes_f_cnt_down
            self._f_cnt_down[session] = next_f_cnt_down
            for elder in bid.elders:
                self._end((bid.dev_eui, elder))
        before = state or State(bid.known, bid.known_owner or bid.lns)
        return Claim(
            level2=Level2.OWNER if decided.granted else Level2.NOT_OWNER,
            owner=decided.state.owner,
            is_new=decided.is_new,
            counter=decided.state.counter,
            before=before.counter if decided.is_new else None,
            owner_before=before.owner if decided.is_new else None,
            lived=decided.lived,
            too_far=decided.too_far,
            f_cnt_down=f_cnt_down,
            next_f_cnt_down=next_f_cnt_down,
        )

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """One more downlink counter of a session; None when another server owns it."""
        session = bid.dev_eui, bid.dev_addr
        state = self._state(session)
        if self._is_over(session) or (state is not None and state.owner != bid.lns):
            return None
        f_cnt_down = self._next_f_cnt_down(session, bid)
        self._f_cnt_down[session] = f_cnt_down + 1
        return f_cnt_down

    async def release(self, bid: Bid, claim: Claim) -> None:
        """Give back a frame that was granted and could not be made durable."""
        session = bid.dev_eui, bid.dev_addr
        if released(self._state(session), bid, claim):
            assert claim.before is not None and claim.owner_before is not None
            self._remember(session, State(claim.before, claim.owner_before))
            self._frames.pop((session, bid.f_cnt, bid.mic), None)

    def begin(self, dev_eui: Eui, dev_addr: DevAddr) -> None:
        """A join has opened a session: nobody has answered in it yet."""
        self._f_cnt_down.setdefault((dev_eui, dev_addr), 0)

    def forget(self, dev_eui: Eui) -> None:
        """Know nothing of a device any more, as when it was provisioned anew."""
        for session in [known for known in self._f_cnt_down if known[0] == dev_eui]:
            self._states.pop(session, None)
            del self._f_cnt_down[session]
        for session in [known for known in self._over_us if known[0] == dev_eui]:
            del self._over_us[session]
        for frame in [known for known in self._frames if known[0][0] == dev_eui]:
            del self._frames[frame]

    def _next_f_cnt_down(self, session: Session, bid: Bid) -> int:
        known = self._f_cnt_down.get(session, bid.f_cnt_down + bid.f_cnt_down_missed)
        return max(bid.f_cnt_down, known)

    def _state(self, session: Session) -> State | None:
        known = self._states.get(session)
        if known is None or self._now_us() - known[1] >= self._state_us:
            return None
        return known[0]

    def _remember(self, session: Session, state: State) -> None:
        self._states[session] = state, self._now_us()
        self._states.move_to_end(session)
        if len(self._states) > self._sessions_max:
            oldest, _ = self._states.popitem(last=False)
            self._f_cnt_down.pop(oldest, None)

    def _is_over(self, session: Session) -> bool:
        over_us = self._over_us.get(session)
        return over_us is not None and self._now_us() - over_us < self._state_us

    def _end(self, session: Session) -> None:
        self._over_us[session] = self._now_us()
        self._over_us.move_to_end(session)
        if len(self._over_us) > self._sessions_max:
            self._over_us.popitem(last=False)

    def _seen(self, frame: Frame) -> Seen | None:
        seen, claimed_us = self._frames.get(frame, (None, 0))
        return seen if self._now_us() - claimed_us < self._retention_us else None

    def _note(self, frame: Frame, seen: Seen) -> None:
        now_us = self._now_us()
        self._frames[frame] = seen, now_us
        self._frames.move_to_end(frame)
        for _ in range(2):  # a few at a time: nobody waits until all have left that are due
            oldest, (_, claimed_us) = next(iter(self._frames.items()))
            if now_us - claimed_us < self._retention_us and len(self._frames) <= self._frames_max:
                return
            del self._frames[oldest]

    @property
    def _frames_max(self) -> int:
        return 2 * self._sessions_max
