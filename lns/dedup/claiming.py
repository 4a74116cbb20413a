"""What does level 2 say of one reception, and what if nobody can say it?

The effects around `lns.dedup.claim`: asks in time for RX1, tells the capture, and lets the session
know what all servers together know of it. A device that has one server is never asked for.
"""

import logging
from collections.abc import Callable

from cachetools import FIFOCache
from msgspec import Struct
from msgspec.structs import replace

from lns.clock import now_us
from lns.dedup.claim import NOBODY_ASKED, Bid, Claim, Claims, Level2, SoleServer
from lns.dedup.session import Lived, Session, Standing
from lns.dedup.strategy import RESUBMISSIONS_MAX
from lns.events import Claimed
from lns.lorawan.frame_counter import MAX_GAP
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.outage import Patience, StoreUnavailable
from lns.uplink.end_device import EndDevice
from lns.uplink.reception import Reception

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
        self._alone = isinstance(claims, SoleServer)
        self._record = record
        nobody_says = "nobody can say who owns a frame until it is back"
        self._store = Patience("the store of the claims", CLAIM_US, nobody_says, log)
        self._not_owned: FIFOCache[tuple[Eui, DevAddr], NotOwned] = FIFOCache(NOT_OWNED_MAX)

    def is_asked_for(self, device: EndDevice) -> bool:
        """Whether another server may own what this device sends."""
        return not self._alone and device.server is None

    async def ask(self, reception: Reception, frame_id: str, bid: Bid, session: Session) -> Claim:
        """Claim a frame, and let its session learn what the other servers know.

        `Unavailable` when there is no answer in time; `too_far`: it is refused, whose it may be.
        """
        began_us = now_us()
        claim = await self._asked(bid, session) or _NOBODY_SAYS
        if claim.too_far:
            return replace(NOBODY_ASKED, lived=claim.lived, too_far=True)
        claim = self._compare_with_before(bid, claim)
        self._tell(reception, frame_id, bid, claim, began_us)
        return claim

    async def look(self, reception: Reception, frame_id: str, bid: Bid, session: Session) -> Claim:
        """The same for a frame that is refused here, unless others heard what this server did not.

        `NotAsked` when they did not, or when nobody can say.
        """
        began_us, knew = now_us(), (session.lives, session.life)
        was_too_far = session.standing(bid.f_cnt) is Standing.TOO_FAR
        claim = await self._asked(bid, session)
        if claim is None:
            return NOBODY_ASKED
        is_news = was_too_far or (session.lives, session.life) != knew
        if claim.too_far or not (claim.is_new or claim.outdated or is_news):
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

    async def take_f_cnt_down(self, device: EndDevice, session: Session) -> int | None:
        """A downlink counter that no claim brought; None when another server owns the session.

        StoreUnavailable when nobody can say.
        """
        if not self.is_asked_for(device):
            return session.take_f_cnt_down()
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

        No more than a device takes for one step (LoRaWAN 1.0.3, 4.3.1.5).
        """
        frames = f_cnt - (-1 if heard is None else heard) - 1
        others = self._not_owned.get((session.dev_eui, session.dev_addr))
        frames = max(0, frames) + (others.frames if others else 0)
        return min(frames * ANSWERS_MAX, MAX_GAP // 2)

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
