"""Which network server owns a frame, when all of them live in one process?

The first implementation of level 2; `lns.store.redis_claims` says the same through Redis.
"""

from collections import OrderedDict
from collections.abc import Callable

from lns.dedup.claim import STATE_US, Bid, Claim, Level2, State, decide, released
from lns.dedup.concentrator import RETENTION_US
from lns.lorawan.identifiers import DevAddr, Eui, Mic

SESSIONS_MAX = 1_000_000
Session = tuple[Eui, DevAddr]


class MemoryClaims:
    """Claims of the servers that share this object; a server is named in every bid.

    A session is remembered for `state_us` after the last claim that was granted, its downlink
    counter as long as the process lives; a first message for `retention_us` after its last claim.
    Beyond `sessions_max` the longest silent session is forgotten.
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
        self._first_messages: OrderedDict[tuple[Session, int], tuple[Mic, int]] = OrderedDict()

    async def claim(self, bid: Bid) -> Claim:
        """Claim one frame of a session for a server; this store never fails."""
        session = bid.dev_eui, bid.dev_addr
        state = self._state(session)
        after = decide(state, bid, seen=self._seen(session, bid))
        next_f_cnt_down = self._next_f_cnt_down(session, bid)
        if after is None:
            assert state is not None
            return Claim(
                level2=Level2.NOT_OWNER,
                owner=state.owner,
                next_f_cnt_down=next_f_cnt_down,
                life=state.life,
            )
        self._remember(session, after)
        f_cnt_down = next_f_cnt_down if bid.takes_f_cnt_down else None
        self._f_cnt_down[session] = next_f_cnt_down + bid.takes_f_cnt_down
        return Claim(
            level2=Level2.OWNER,
            owner=bid.lns,
            f_cnt_down=f_cnt_down,
            next_f_cnt_down=self._f_cnt_down[session],
            life=after.life,
        )

    async def take_f_cnt_down(self, bid: Bid) -> int | None:
        """One more downlink counter of a session; None when another server owns it."""
        session = bid.dev_eui, bid.dev_addr
        state = self._state(session)
        if state is not None and state.owner != bid.lns:
            return None
        f_cnt_down = self._next_f_cnt_down(session, bid)
        self._f_cnt_down[session] = f_cnt_down + 1
        return f_cnt_down

    async def release(self, bid: Bid) -> None:
        """Give back a frame that was granted and could not be made durable."""
        session = bid.dev_eui, bid.dev_addr
        after = released(self._state(session), bid)
        if after is not None:
            self._remember(session, after)
            self._first_messages.pop((session, bid.f_cnt), None)

    def forget(self, dev_eui: Eui) -> None:
        """Know nothing of a device any more, as when it was provisioned anew."""
        for session in [known for known in self._f_cnt_down if known[0] == dev_eui]:
            self._states.pop(session, None)
            del self._f_cnt_down[session]
        for first in [known for known in self._first_messages if known[0][0] == dev_eui]:
            del self._first_messages[first]

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

    def _seen(self, session: Session, bid: Bid) -> bool:
        """Whether this first message was claimed a short while ago; it is from now on."""
        if bid.first_message is None:
            return False
        now_us, first = self._now_us(), (session, bid.f_cnt)
        mic, claimed_us = self._first_messages.get(first, (None, 0))
        seen = mic == bid.first_message and now_us - claimed_us < self._retention_us
        self._first_messages[first] = bid.first_message, now_us
        self._first_messages.move_to_end(first)
        while len(self._first_messages) > 2 * self._sessions_max:
            self._first_messages.popitem(last=False)
        return seen
