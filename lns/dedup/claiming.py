"""What does level 2 say of one reception, and what if nobody can say it?

The effects around `lns.dedup.claim`: asks in time for RX1, tells the capture, and lets the session
know what all servers together know of it. A device that has one server is never asked for.

Sessions are in memory, and read again from the shared store only when a frame shows that they are
out of date. Whoever sends frames that fit nobody must not keep this server from asking for others.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol, runtime_checkable

from cachetools import FIFOCache, TTLCache
from msgspec import Struct
from msgspec.structs import replace

from lns.clock import Patience, StoreUnavailable, in_time, now_us
from lns.dedup.claim import NOBODY_ASKED, STATE_US, Bid, Claim, Claims, Level2
from lns.dedup.session import USED_UP, Lived, Session, Standing
from lns.dedup.strategy import RESUBMISSIONS_MAX, Reason
from lns.events import Claimed
from lns.lorawan.frame import MAX_GAP, Data, mic_of
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.station.protocol import Reception
from lns.uplink.registry import Match, Registry

log = logging.getLogger(__name__)

# Claim, write of the counters and way to the station end before RX1 opens.
CLAIM_US = 250_000

ANSWERS_MAX = 1 + RESUBMISSIONS_MAX  # of one frame
NOT_OWNED_MAX = 100_000  # sessions whose newest frame of another server is remembered

_NO_FRAME = Mic("")
_NOBODY_SAYS = Claim(level2=Level2.UNAVAILABLE)


class NotOwned(Struct, frozen=True):
    """The newest frame of a session that this server did not own, why, and how many in a row."""

    f_cnt: int
    mic: Mic
    level2: Level2
    frames: int


class Claiming:
    """Asks level 2 for this server; the person at the console is told once of an outage."""

    def __init__(self, lns: str, claims: Claims, record: Callable[[Claimed], None]) -> None:
        self._lns = lns
        self._claims = claims
        self._record = record
        nobody_says = "nobody can say who owns a frame until it is back"
        self._store = Patience("the store of the claims", CLAIM_US, nobody_says, log)
        self._not_owned: FIFOCache[tuple[Eui, DevAddr], NotOwned] = FIFOCache(NOT_OWNED_MAX)

    async def ask(self, reception: Reception, frame_id: str, bid: Bid, session: Session) -> Claim:
        """Claim a frame, and let its session learn what the other servers know.

        `Unavailable` when there is no answer in time; `too_far`: it is refused, whose it may be.
        """
        began_us = now_us()
        claim = await self._asked(bid, session) or _NOBODY_SAYS
        if claim.too_far:
            return replace(NOBODY_ASKED, too_far=True)
        claim = self._compare_with_before(bid, claim)
        self._tell(reception, frame_id, bid, claim, began_us)
        return claim

    async def look(self, reception: Reception, frame_id: str, bid: Bid, session: Session) -> Claim:
        """The same for a frame that is refused here, unless others heard what this server did not.

        `NotAsked` when they did not, or when nobody can say.
        """
        began_us, knew = now_us(), (session.lives, session.life)
        was_too_far = session.standing(bid.f_cnt) is Standing.TOO_FAR
        was_its_own = session.owner == self._lns
        claim = await self._asked(bid, session)
        if claim is None:
            return NOBODY_ASKED
        is_news = was_too_far or (session.lives, session.life) != knew
        # What this server has accepted without the store is new to the store alone.
        is_new = claim.is_new and not was_its_own
        if claim.too_far or not (is_new or claim.outdated or is_news):
            return replace(NOBODY_ASKED, lived=claim.lived)
        claim = self._compare_with_before(bid, claim)
        self._tell(reception, frame_id, bid, claim, began_us)
        return claim

    async def _asked(self, bid: Bid, session: Session) -> Claim | None:
        try:
            claim = await self._store.wait_for(self._claims.claim(bid))
        except StoreUnavailable:
            return None
        if not claim.outdated:
            session.f_cnt_down = max(session.f_cnt_down, claim.next_f_cnt_down)
            session.learn(claim.counter, claim.owner)
        return claim

    def _tell(
        self, reception: Reception, frame_id: str, bid: Bid, claim: Claim, began_us: int
    ) -> None:
        if claim.outdated:
            return
        self._record(
            Claimed(
                lns=self._lns,
                station=reception.station,
                frame_id=frame_id,
                dev_eui=bid.dev_eui,
                dev_addr=bid.dev_addr,
                f_cnt=bid.f_cnt,
                decision=claim.level2,
                owner=self._lns if claim.level2 is Level2.OWNER else claim.owner,
                f_cnt_down=claim.f_cnt_down,
                duration_us=now_us() - began_us,
                xtime=reception.xtime,
            )
        )

    def bid(
        self,
        session: Session,
        f_cnt: int,
        mic: Mic = _NO_FRAME,
        *,
        takes_f_cnt_down: bool,
        first_message: bool = False,
        too_far: bool = False,
        is_first: bool = True,
        repeats: bool = False,
        lived: Lived | None = None,
        elders: tuple[DevAddr, ...] = (),
    ) -> Bid:
        """What this server asks for, from what it knows of the session before this frame."""
        return Bid(
            lns=self._lns,
            dev_eui=session.dev_eui,
            dev_addr=session.dev_addr,
            f_cnt=f_cnt,
            mic=mic,
            known=session.counter,
            known_owner=session.owner,
            first_message=first_message,
            too_far=too_far,
            is_first=is_first,
            repeats=repeats,
            lived=lived,
            f_cnt_down=session.f_cnt_down,
            takes_f_cnt_down=takes_f_cnt_down,
            f_cnt_down_missed=self._missed(session, f_cnt, session.f_cnt_up),
            elders=elders,
        )

    async def take_f_cnt_down(self, session: Session) -> int | None:
        """A downlink counter that no claim brought; None when another server owns the session.

        None as well when all are used. StoreUnavailable when nobody can say.
        """
        bid = self.bid(session, session.f_cnt_up or 0, takes_f_cnt_down=True)
        f_cnt_down = await self._store.wait_for(self._claims.take_f_cnt_down(bid))
        if f_cnt_down is not None:
            session.f_cnt_down = max(session.f_cnt_down, f_cnt_down + 1)
        return f_cnt_down

    async def give_back(self, claim: Claim, bid: Bid) -> None:
        """What was granted could not be made durable: another server may deliver its copy."""
        if claim.level2 is not Level2.OWNER:
            return
        if claim.given_back:
            self._note_not_owned(bid, Level2.NOT_OWNER)
        try:
            await self._store.wait_for(self._claims.release(bid, claim))
        except StoreUnavailable:
            # This server is granted the frame again when it comes again.
            log.warning("%s: frame %d stays claimed", bid.dev_eui, bid.f_cnt)

    def _missed(self, session: Session, f_cnt: int, heard: int | None) -> int:
        """How many answers others may have given that this server has not heard of.

        A device takes one step of `MAX_GAP` (LoRaWAN 1.0.3, 4.3.1.5), and need not have heard an
        answer since the store was lost before: so no more than a quarter of that.
        """
        frames = f_cnt - (-1 if heard is None else heard) - 1
        others = self._not_owned.get((session.dev_eui, session.dev_addr))
        frames = max(0, frames) + (others.frames if others else 0)
        return min(frames * ANSWERS_MAX, MAX_GAP // 4, USED_UP - session.f_cnt_down)

    def _compare_with_before(self, bid: Bid, claim: Claim) -> Claim:
        """Find out whether what is granted now is the frame that was refused last."""
        if claim.level2 is not Level2.OWNER:
            self._note_not_owned(bid, claim.level2)
            return claim
        others = self._not_owned.pop((bid.dev_eui, bid.dev_addr), None)
        if others is None or (others.f_cnt, others.mic) != (bid.f_cnt, bid.mic):
            return claim
        if others.level2 is Level2.UNAVAILABLE:
            return replace(claim, is_new=True)  # only the reply was lost
        # What the store still knows nobody gave back: it was refused as a frame of another life.
        return replace(claim, given_back=claim.is_new)

    def _note_not_owned(self, bid: Bid, level2: Level2) -> None:
        session = bid.dev_eui, bid.dev_addr
        before = self._not_owned.get(session)
        is_another = before is None or (before.f_cnt, before.mic) != (bid.f_cnt, bid.mic)
        frames = (before.frames if before else 0) + is_another
        self._not_owned[session] = NotOwned(bid.f_cnt, bid.mic, level2, frames)


ASK_US = 250_000
AGAIN_US = 5_000_000  # for the same frame nobody is asked twice in this time
ASKED_MAX = 10_000
UNDER_WAY_MAX = 64  # of one station
# A claim is remembered for a day: who has looked since then knows every counter that a claim has
# forgotten. The minutes are for clocks that run unevenly.
FRESH_US = STATE_US - 600_000_000
FRESH_MAX = 1_000_000
_DEVICES_MAX = 8  # more than a few that share a DevAddr are no accident


@runtime_checkable
class SharedSessions(Protocol):
    """A store that other servers write to as well."""

    async def refresh(self, dev_eui: Eui) -> None:
        """Read again what it holds of a device; StoreUnavailable when that fails."""

    async def devices_with(self, dev_addr: DevAddr) -> tuple[Eui, ...]:
        """The devices that a join gave a DevAddr; StoreUnavailable when nobody can say."""


class SessionRefresh:
    """Asks the shared store who has the DevAddr of a frame that fits nobody, once for each frame.

    Frames of one DevAddr wait for the same answer. Remembers at most `ASKED_MAX` frames for
    `AGAIN_US`, and asks for `UNDER_WAY_MAX` of one station at a time: what it tells beyond that is
    judged by what is known here, and no other station has less of the store for it.

    Of each device it remembers when `judge` was last right to let claims speak; that a stranger
    made it read of one is none of that.
    """

    def __init__(
        self, registry: Registry, shared: SharedSessions, now_us: Callable[[], int]
    ) -> None:
        self._registry = registry
        self._shared = shared
        self._now_us = now_us
        self._asked: TTLCache[str, bool] = TTLCache(ASKED_MAX, AGAIN_US, timer=now_us)
        self._under_way: dict[DevAddr, asyncio.Event] = {}
        self._asked_by: Counter[Eui] = Counter()
        self._began_us: int | None = None
        self._learnt_us: FIFOCache[Eui, int] = FIFOCache(FRESH_MAX)

    def begin(self) -> None:
        """Everything that the store knows has just been read; only the first call counts."""
        if self._began_us is None:
            self._began_us = self._now_us()

    def may_help(self, match: Match | Reason, *, seen: bool) -> bool:
        """Whether a frame looks as if this server missed something; `seen`: it is a copy."""
        if isinstance(match, Reason):
            return match in (Reason.UNKNOWN_DEVICE, Reason.MIC_MISMATCH)
        if seen or match.device.server is not None:
            return False
        standing = match.session.standing(match.f_cnt)
        return standing is Standing.TOO_FAR or self._is_out_of_date(match)

    async def ask(self, frame: Data, match: Match | Reason, station: Eui) -> bool:
        """Learn what the store knows of a DevAddr; False when nothing was asked or answered.

        Whoever is proven to be a device is not made to wait for strangers. A frame that
        fits a session only then is to be judged (`judge`).
        """
        if isinstance(match, Match):
            return await self._learn_of_proven(match, frame)
        under_way = self._under_way.get(frame.dev_addr)
        if under_way is not None:
            await under_way.wait()
            return True
        if frame.frame_id in self._asked or self._asked_by[station] >= UNDER_WAY_MAX:
            return False
        self._asked[frame.frame_id] = True
        self._asked_by[station] += 1
        done = self._under_way[frame.dev_addr] = asyncio.Event()
        try:
            await in_time("the store", ASK_US, self._learn(frame.dev_addr))
            return True
        except StoreUnavailable:
            self._asked.pop(frame.frame_id, None)  # it may be told again when the store is back
            return False
        finally:
            self._asked_by[station] -= 1
            self._asked_by += Counter()  # without those at 0
            del self._under_way[frame.dev_addr]
            done.set()

    async def learn_of(self, dev_eui: Eui) -> None:
        """Know all that the store knows of one device; StoreUnavailable."""
        await in_time("the store", ASK_US, self._shared.refresh(dev_eui))
        self._registry.catch_up(dev_eui)

    async def agree(self, match: Match) -> None:
        """Know what the server that had the frame before has agreed with a device.

        Where the store does not say it, the device is asked once more.
        """
        with suppress(StoreUnavailable):
            await in_time("the store", ASK_US, self._shared.refresh(match.device.dev_eui))
            self._registry.agree(match)

    def judge(self, match: Match, frame: Data) -> None:
        """A frame fits a session that was asked for, and the store has just told all of its device.

        The newest frame of all may be this one, told by another server a moment ago. Who has not
        looked for a day refuses an older one as a server does that heard all of it itself (ADR 007:
        a late copy of an older frame): claims have forgotten the day before, and could not tell a
        copy from a replay.
        """
        if self._is_out_of_date(match):
            self._judge(match, frame)

    async def _learn_of_proven(self, match: Match, frame: Data) -> bool:
        is_old = self._is_out_of_date(match)
        try:
            await self.learn_of(match.device.dev_eui)
        except StoreUnavailable:
            return False
        if is_old:
            self._judge(match, frame)
        return True

    def _judge(self, match: Match, frame: Data) -> None:
        session = match.session
        is_newest = (session.f_cnt_up, session.mic) == (match.f_cnt, mic_of(frame))
        if not is_newest and session.standing(match.f_cnt) is not Standing.NEWER:
            session.hear_all()
        self._learnt_us[match.device.dev_eui] = self._now_us()

    async def _learn(self, dev_addr: DevAddr) -> None:
        here = self._registry.devices_with(dev_addr)
        found = sorted({*here, *await self._shared.devices_with(dev_addr)})
        for dev_eui in found[:_DEVICES_MAX]:
            if self._registry.device(dev_eui) is not None:
                await self._shared.refresh(dev_eui)
                self._registry.catch_up(dev_eui)

    def _is_out_of_date(self, match: Match) -> bool:
        learnt_us = self._learnt_us.get(match.device.dev_eui, self._began_us or 0)
        return self._now_us() - learnt_us >= FRESH_US
