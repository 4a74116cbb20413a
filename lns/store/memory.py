"""The store that lives as long as the process that owns it.

A network server that restarts with the same `MemoryStore` finds its sessions and the used
DevNonces again, as it would in a shared store; level 1 it does not find.
"""

from collections import OrderedDict, defaultdict
from collections.abc import Callable

from cachetools import TTLCache

from lns.dedup.claim import STATE_US, Bid, Claim, Level2, Seen, State, decide, released
from lns.dedup.concentrator import RETENTION_US
from lns.dedup.session import USED_UP, Session
from lns.lorawan.identifiers import DevAddr, Eui, Mic


class MemoryStore:
    """A `SessionStore` that never fails: sessions (the one in use, those waiting) and DevNonces.

    `beside`: what another server of this process keeps is kept here too, and the other way round;
    neither undoes what it has not met, nor brings back what the other has ended.
    """

    def __init__(self, beside: "MemoryStore | None" = None) -> None:
        self._sessions: dict[Eui, tuple[Session, ...]] = {}
        self._dev_nonces: defaultdict[Eui, set[int]] = defaultdict(set)
        self._join_nonces: dict[Eui, int] = {}
        self._known: dict[Eui, tuple[Session, ...]] = {}
        self._is_shared = beside is not None
        if beside is not None:
            self._sessions, self._dev_nonces = beside._sessions, beside._dev_nonces
            self._join_nonces = beside._join_nonces
            beside._is_shared = True

    def sessions(self, dev_eui: Eui) -> tuple[Session, ...]:
        sessions = self._known[dev_eui] = self._sessions.get(dev_eui, ())
        return _as_they_are(sessions)

    def kept(self, dev_eui: Eui) -> tuple[Session, ...]:
        """The sessions themselves, for whoever only looks on."""
        return self._sessions.get(dev_eui, ())

    def preset(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        """Put sessions in place before a server starts; a join would replace them."""
        self._sessions[dev_eui] = sessions

    async def keep_sessions(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        self._replace(dev_eui, sessions)

    def dev_nonces(self, dev_eui: Eui) -> frozenset[int]:
        return frozenset(self._dev_nonces[dev_eui])

    async def refresh(self, dev_eui: Eui) -> None:
        """What another server of this process kept here is here already."""

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        return tuple(
            dev_eui
            for dev_eui, sessions in sorted(self._sessions.items())
            if any(session.dev_addr == dev_addr for session in sessions)
        )

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        used = self._dev_nonces[dev_eui]
        if dev_nonce in used:
            return False
        used.add(dev_nonce)
        self._replace(dev_eui, sessions)
        return True

    async def next_join_nonce(self, dev_eui: Eui, least: int) -> int:
        self._join_nonces[dev_eui] = max(self._join_nonces.get(dev_eui, 0) + 1, least)
        return self._join_nonces[dev_eui]

    def _replace(self, dev_eui: Eui, sessions: tuple[Session, ...]) -> None:
        kept = _as_they_are(sessions)
        if self._is_shared:
            there, known = self._sessions.get(dev_eui), self._known.get(dev_eui, ())
            self._known[dev_eui] = kept
            kept = kept if there is None else _beside(there, known, kept)
        self._sessions[dev_eui] = kept


def _beside(
    there: tuple[Session, ...], known: tuple[Session, ...], ours: tuple[Session, ...]
) -> tuple[Session, ...]:
    """Our sessions, with the newer counters of others, those that they added, without those that
    they ended; `known` is what we knew to be there.
    """
    added = [theirs for theirs in there if not _same(theirs, known) and not _same(theirs, ours)]
    stay = []
    for session in ours:
        theirs = _same(session, there)
        if theirs is not None:
            session.catch_up(theirs)
        if theirs is not None or not _same(session, known):
            stay.append(session)
    return (*added, *stay)


def _same(session: Session, others: tuple[Session, ...]) -> Session | None:
    proof = session.dev_addr, session.keys
    return next((other for other in others if (other.dev_addr, other.keys) == proof), None)


def _as_they_are(sessions: tuple[Session, ...]) -> tuple[Session, ...]:
    return tuple(map(Session.snapshot, sessions))


SESSIONS_MAX = 1_000_000
SessionId = tuple[Eui, DevAddr]
Frame = tuple[SessionId, int, Mic]


class MemoryClaims:
    """`Claims` of the servers that share this object, which never fail.

    A session is remembered for a day after the last claim that was granted, its downlink
    counter as long as the process lives; a frame for `retention_us` after its last claim; that a
    session is over for a day. Beyond `sessions_max` the longest silent session is forgotten.
    """

    def __init__(
        self,
        now_us: Callable[[], int],
        *,
        retention_us: int = RETENTION_US,
        sessions_max: int = SESSIONS_MAX,
    ) -> None:
        self._now_us = now_us
        self._retention_us = retention_us
        self._sessions_max = sessions_max
        self._states: OrderedDict[SessionId, tuple[State, int]] = OrderedDict()
        self._f_cnt_down: dict[SessionId, int] = {}
        self._frames: OrderedDict[Frame, tuple[Seen, int]] = OrderedDict()
        self._over: TTLCache[SessionId, bool] = TTLCache(sessions_max, STATE_US, timer=now_us)

    async def claim(self, bid: Bid) -> Claim:
        session = bid.dev_eui, bid.dev_addr
        if session in self._over:
            return Claim(level2=Level2.NOT_OWNER, outdated=True)
        state = self._state(session)
        frame = session, bid.f_cnt, bid.mic
        seen = self._seen(frame)
        decided = decide(state, bid, seen=seen)
        owner = bid.lns if decided.granted else seen.owner if seen else None
        given_back = seen is not None and seen.given_back and not decided.granted
        self._note(frame, Seen(decided.lived, owner, given_back))
        missed = bid.f_cnt_down_missed if decided.granted else 0  # else with each one refused
        next_f_cnt_down = self._next_f_cnt_down(session, bid.f_cnt_down, missed)
        f_cnt_down = None
        if decided.granted:
            self._remember(session, decided.state)
            if bid.takes_f_cnt_down and next_f_cnt_down < USED_UP:
                f_cnt_down, next_f_cnt_down = next_f_cnt_down, next_f_cnt_down + 1
            self._f_cnt_down[session] = next_f_cnt_down
            for elder in bid.elders:
                self._over[bid.dev_eui, elder] = True
        before = state or State(bid.known, bid.known_owner)
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
        session = bid.dev_eui, bid.dev_addr
        state = self._state(session)
        if session in self._over or (state is not None and state.owner not in (None, bid.lns)):
            return None
        f_cnt_down = self._next_f_cnt_down(session, bid.f_cnt_down, bid.f_cnt_down_missed)
        if f_cnt_down == USED_UP:
            return None
        self._f_cnt_down[session] = f_cnt_down + 1
        return f_cnt_down

    async def release(self, bid: Bid, claim: Claim) -> None:
        session = bid.dev_eui, bid.dev_addr
        state = released(self._state(session), bid, claim)
        if state is None:
            return
        self._remember(session, state)
        frame = session, bid.f_cnt, bid.mic
        if frame in self._frames:
            seen, claimed_us = self._frames[frame]
            self._frames[frame] = Seen(seen.lived, None, given_back=True), claimed_us

    def begin(self, dev_eui: Eui, dev_addr: DevAddr) -> None:
        """A join has opened a session: nobody has answered in it yet."""
        self._f_cnt_down.setdefault((dev_eui, dev_addr), 0)

    def forget(self, dev_eui: Eui) -> None:
        """Know nothing of a device any more, as when it was provisioned anew."""
        for session in [known for known in self._f_cnt_down if known[0] == dev_eui]:
            self._states.pop(session, None)
            del self._f_cnt_down[session]
        for session in [known for known in self._over if known[0] == dev_eui]:
            del self._over[session]
        for frame in [known for known in self._frames if known[0][0] == dev_eui]:
            del self._frames[frame]

    def _next_f_cnt_down(self, session: SessionId, f_cnt_down: int, missed: int) -> int:
        known = self._f_cnt_down.get(session, f_cnt_down + missed)
        return max(f_cnt_down, known)

    def _state(self, session: SessionId) -> State | None:
        known = self._states.get(session)
        if known is None or self._now_us() - known[1] >= STATE_US:
            return None
        return known[0]

    def _remember(self, session: SessionId, state: State) -> None:
        self._states[session] = state, self._now_us()
        self._states.move_to_end(session)
        if len(self._states) > self._sessions_max:
            oldest, _ = self._states.popitem(last=False)
            self._f_cnt_down.pop(oldest, None)

    def _seen(self, frame: Frame) -> Seen | None:
        seen, claimed_us = self._frames.get(frame, (None, 0))
        return seen if self._now_us() - claimed_us < self._retention_us else None

    def _note(self, frame: Frame, seen: Seen) -> None:
        now_us = self._now_us()
        self._frames[frame] = seen, now_us
        self._frames.move_to_end(frame)
        for _ in range(2):  # a few at a time: nobody waits until all have left that are due
            oldest, (_, claimed_us) = next(iter(self._frames.items()))
            is_full = len(self._frames) > 2 * self._sessions_max
            if now_us - claimed_us < self._retention_us and not is_full:
                return
            del self._frames[oldest]
