"""What becomes of a data uplink?

`Uplinks.receive` and `_act` are the path as a list of steps: who sent it, which copy it is, what
the policy says; level 2, the application, the device; one outcome. Level 1 stands after the DevAddr
and MIC matching and before counter validation and anything external (ADR 007, "General notes").
"""

import asyncio
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from lns.clock import StoreUnavailable, Utc
from lns.dedup.claim import NOBODY_ASKED, NOT_OWNER, UNAVAILABLE, Bid, Claim, Level2, OnOutage
from lns.dedup.claiming import Claiming, SessionRefresh
from lns.dedup.concentrator import Copy, DataKey, Sightings
from lns.dedup.session import EQUAL, Before, Lived, Standing
from lns.dedup.strategy import (
    DROPPED,
    MARKED,
    NON_DUPLICATE,
    RESUBMISSIONS_MAX,
    Disposition,
    Reason,
    Status,
    Upstream,
    after_claim,
    beyond_limit,
    decide,
    given_back,
    known_before,
    status_of,
    too_far,
)
from lns.delivery.publisher import Upstream as Application
from lns.delivery.publisher import UpstreamUnavailable, message_of, status_of_device
from lns.downlink.downlink import Content, Downlinks
from lns.events import Outcome
from lns.lorawan.frame import MIC_BYTES, Data, mic_of
from lns.lorawan.mac_commands import DevStatusReq
from lns.lorawan.region import NO_ANSWER, SENT, SUPPRESSED, Answer, Region
from lns.station.protocol import Reception
from lns.uplink import mac_layer
from lns.uplink.registry import Match, Registry

_OLD = (Standing.EQUAL, Standing.OLDER)
_NO_STORE, _INVALID = Reason.STORE_UNAVAILABLE, Reason.INVALID_FRAME_COUNTER
_LOST = (Reason.UPSTREAM_UNAVAILABLE, _NO_STORE)
Spent = dict[int, int]  # how many answers were repeated, by counter


class Facts(Struct, frozen=True, gc=False):
    """All that was found out about one reception, and what the policy makes of it.

    `looks`: it is refused here, but perhaps not elsewhere. `lived` is which frame it is, where that
    is known, `spent` the answers of its life. `bid` is what level 2 was asked, if it was; `shared`:
    it is asked for this device.
    """

    reception: Reception
    frame: Data
    match: Match
    key: DataKey
    requests: mac_layer.Requests
    status: Status
    disposition: Disposition
    looks: bool
    lived: Lived | None
    spent: Spent
    shared: bool
    claim: Claim = NOBODY_ASKED
    bid: Bid | None = None

    @property
    def carries_data(self) -> bool:
        return self.frame.f_port != 0  # FPort 0 is for the network

    @property
    def withheld(self) -> Answer:
        return SUPPRESSED if self.requests.wants_answer else NO_ANSWER

    @property
    def owned(self) -> bool:
        """Whether nobody else handles this frame, as far as anybody can say."""
        return self.claim.level2 in (Level2.NOT_ASKED, Level2.OWNER)

    @property
    def is_beyond_limit(self) -> bool:
        """Whether this is one answer too many to its counter, itself counted."""
        return self.disposition.spends and self.spent[self.match.f_cnt] > RESUBMISSIONS_MAX

    @property
    def is_first(self) -> bool:
        """Whether nobody has delivered this frame before, as far as anybody can say."""
        if self.claim.level2 is NOT_OWNER:
            return False
        advances = self.disposition.advances and self.status is NON_DUPLICATE
        return advances or self.claim.given_back

    @property
    def named(self) -> Lived:
        """Which frame this is; of one that nobody remembers, as its session tells."""
        if self.lived is not None:
            return self.lived
        session = self.match.session
        is_newest = session.f_cnt_up == self.match.f_cnt and session.mic in (None, self.key.mic)
        if not is_newest:
            return Lived(session.life, odd=True)
        return session.lived(self.match.f_cnt, self.key.mic)

    @property
    def ends_here(self) -> bool:
        done = self.disposition
        return done.upstream is DROPPED and not (done.answers or done.advances)

    @property
    def is_awaited(self) -> bool:
        """Whether copies of it wait for what becomes of it: it may be lost on its way up."""
        if self.disposition.advances or self.looks:
            return True
        return self.status is NON_DUPLICATE and not self.ends_here


class Fate(Struct):
    """What happens to a first copy that is on its way upstream.

    `lost`: nobody has it; `refused`: its counter is none that this server takes; `is_over`: its
    session has ended. `spent` are the repeated answers of its life: what waits for it is judged by
    them. `lived` is which frame it is, however long its way takes.
    """

    spent: Spent
    lived: Lived | None = None
    lost: bool = False
    refused: bool = False
    is_over: bool = False
    _decided: asyncio.Event | None = None

    async def wait(self) -> None:
        self._decided = self._decided or asyncio.Event()
        await self._decided.wait()

    def decide(self) -> None:
        if self._decided is not None:
            self._decided.set()

    def of(self, became: Outcome) -> Outcome:
        if became.reason is not None:
            self.lost = became.reason in _LOST
            self.refused = became.reason is _INVALID
            self.is_over = became.reason is Reason.UNKNOWN_DEVICE
        return became


class Uplinks:
    """Handles data uplinks; `receive` may run for many receptions at once.

    State changes before the first await, so a copy that arrives while the first one is on its way
    upstream finds it. That copy waits for the first one's fate and takes its place if it could
    not be made durable: a lost message is never acknowledged, and never shadows a good copy.
    """

    def __init__(
        self,
        lns: str,
        region: Region,
        registry: Registry,
        sightings: Sightings,
        claiming: Claiming,
        on_outage: OnOutage,
        application: Application,
        downlinks: Downlinks,
        utc: Utc,
        refresh: SessionRefresh | None = None,
    ) -> None:
        self._lns = lns
        self._region = region
        self._registry = registry
        self._sightings = sightings
        self._claiming = claiming
        self._on_outage = on_outage
        self._application = application
        self._downlinks = downlinks
        self._utc = utc
        self._refresh = refresh
        self._undecided: dict[DataKey, Fate] = {}

    async def receive(self, reception: Reception, frame: Data) -> Outcome:
        """Handle one reception of a data uplink and tell what became of it."""
        match = self._registry.match(frame, reception.phy[:-MIC_BYTES])
        if self._refresh is not None:
            match = await self._match_again(self._refresh, reception, frame, match)
        if isinstance(match, Reason):
            return refusal(self._lns, reception, frame, match)
        if match.device.server not in (None, self._lns):
            return refusal(self._lns, reception, frame, Reason.BELONGS_TO_ANOTHER_SERVER, match)
        key = _key(match, frame)
        copy = self._sightings.note(key, reception.station)
        waited: Fate | None = None
        while (first := self._undecided.get(key)) is not None:
            await first.wait()
            if first.is_over:
                return refusal(self._lns, reception, frame, Reason.UNKNOWN_DEVICE)
            waited = None if first.lost or first.refused else first
            if first.lost:
                copy = self._sightings.note(key, reception.station)
        facts = self._find_out(reception, frame, match, key, copy, waited)
        if not facts.is_awaited:
            return await self._act(facts)
        fate = self._undecided[key] = Fate(match.session.resubmissions)
        try:
            return fate.of(await self._act(facts, fate))
        except Exception:
            fate.lost = True
            raise
        finally:
            del self._undecided[key]
            if fate.lost and facts.status is NON_DUPLICATE:
                self._sightings.forget(key)
            fate.decide()

    async def _act(self, facts: Facts, fate: Fate | None = None) -> Outcome:
        done, session = facts.disposition, facts.match.session
        before = session.before() if done.advances or facts.looks else None
        if facts.looks:
            facts = await self._look(facts)
        if facts.ends_here:
            return self._pass_by(facts)
        if facts.bid is None:
            facts = self._count(facts)
            if facts.shared:
                facts = await self._claim(facts)
        if facts.claim.outdated:
            self._registry.end(facts.match)
            return refusal(self._lns, facts.reception, facts.frame, Reason.UNKNOWN_DEVICE)
        refused = facts.disposition.reason
        if refused is _NO_STORE:
            return self._lost(facts, before, refused)
        if refused is _INVALID:
            return self._became(facts, facts.withheld)
        if fate is not None:
            fate.spent, fate.lived = session.resubmissions, facts.named
        if before is not None:
            session.under_way[facts.key.mic] = before
        try:
            await self._publish(facts)
        except Exception as error:
            became = self._lost(facts, before, Reason.UPSTREAM_UNAVAILABLE)
            if facts.is_first and facts.bid is not None:
                await self._claiming.give_back(facts.claim, facts.bid)
            if not isinstance(error, UpstreamUnavailable):
                raise
            return became
        finally:
            session.under_way.pop(facts.key.mic, None)
        if facts.status is NON_DUPLICATE:
            self._settle(facts)
        return self._became(facts, await self._keep_and_answer(facts))

    async def _match_again(
        self, refresh: SessionRefresh, reception: Reception, frame: Data, match: Match | Reason
    ) -> Match | Reason:
        """The sender, if another server has met it since; for a copy the store is not asked."""
        seen = isinstance(match, Match) and _key(match, frame) in self._sightings
        if not refresh.may_help(match, seen=seen):
            return match
        if not await refresh.ask(frame, match, reception.station):
            return match
        found = self._registry.match(frame)
        if isinstance(match, Reason) and isinstance(found, Match):
            refresh.judge(found, frame)
        return found

    def _find_out(
        self,
        reception: Reception,
        frame: Data,
        match: Match,
        key: DataKey,
        copy: Copy,
        waited: Fate | None,
    ) -> Facts:
        """What is known here. A copy that `waited` for its first one is of the newest frame.

        It is judged by the session as it stood when its frame was heard, whatever was accepted
        meanwhile: the answers of a life that began since are not its to spend.
        """
        device, session, f_cnt = match.device, match.session, match.f_cnt
        status = status_of(copy, device.strategy)
        shared = self._registry.shares(device)
        standing = session.standing_at(self._lns, f_cnt) if shared else session.standing(f_cnt)
        if waited is not None and status is not NON_DUPLICATE:
            standing = EQUAL
        spent = session.resubmissions if waited is None else waited.spent
        disposition = self._decide(frame, match, status, standing, spent)
        # A relaxed device may have begun a new life that only other servers heard of, and any
        # device may have come as far as they heard.
        is_begun = standing in _OLD and device.may_restart_counter
        # Whose a counter is that was kept without its frame, or that others went beyond, they know.
        is_known = session.mic is not None and session.f_cnt_up == f_cnt
        is_nameless = standing is EQUAL and not is_known and disposition.upstream is DROPPED
        may_look = shared and status is NON_DUPLICATE and not match.is_first_message
        looks = may_look and (standing is Standing.TOO_FAR or is_begun or is_nameless)
        asked = mac_layer.requests(frame, session, f_cnt)
        lived = None
        if status is not NON_DUPLICATE:
            lived = (waited.lived if waited else None) or self._sightings.lived(key)
        return Facts(
            reception, frame, match, key, asked, status, disposition, looks, lived, spent, shared
        )

    def _decide(
        self, frame: Data, match: Match, status: Status, standing: Standing, spent: Spent
    ) -> Disposition:
        device, session, f_cnt = match.device, match.session, match.f_cnt
        # The answers of another server are its own business; an old first message may be its own.
        is_old = match.is_first_message and session.standing(f_cnt) is Standing.OLDER
        mine = session.owner in (None, self._lns) and not (is_old and self._registry.shares(device))
        return decide(
            status,
            device.strategy,
            confirmed=frame.confirmed,
            standing=standing,
            may_have_restarted=match.is_first_message,
            resubmissions=spent.get(f_cnt, 0) if mine else 0,
        )

    def _pass_by(self, facts: Facts) -> Outcome:
        if facts.status is NON_DUPLICATE and (
            facts.looks or facts.match.device.may_restart_counter
        ):
            # The device may begin again before a copy of this one comes.
            self._sightings.place(facts.key, facts.named)
        return self._became(facts, facts.withheld)

    def _lost(self, facts: Facts, before: Before | None, reason: Reason) -> Outcome:
        self._roll_back(facts, before)
        return outcome(self._lns, facts, DROPPED, reason, facts.withheld)

    def _became(self, facts: Facts, answer: Answer) -> Outcome:
        done = facts.disposition
        upstream = done.upstream if facts.carries_data else DROPPED
        return outcome(self._lns, facts, upstream, done.reason, answer)

    def _settle(self, facts: Facts) -> None:
        device = facts.match.device
        self._registry.settle(facts.match, facts.reception.station)
        mac_layer.apply(facts.requests, facts.match.session)
        if facts.requests.status is not None:
            self._downlinks.statuses.answered(device.dev_eui)
        if facts.frame.ack:
            self._downlinks.queues.acknowledge(device.dev_eui)

    async def _keep_and_answer(self, facts: Facts) -> Answer:
        """Make the counters durable, with the FCntDown of the answer before that leaves.

        The server that owns the frame does.
        """
        if facts.claim.level2 is NOT_OWNER:
            return facts.withheld
        try:
            answer = facts.withheld
            if facts.disposition.answers:
                due = self._may_answer(facts)
                answer = await self._answer(facts) if due else Answer.NOT_ASKED
            if answer not in SENT:
                await self._registry.keep(facts.match.device.dev_eui)
            return answer
        except StoreUnavailable:
            self._give_back(facts)
            return facts.withheld

    async def _look(self, facts: Facts) -> Facts:
        """Find out whether others have heard what this server has not; else nobody was asked."""
        bid = self._bid(facts, takes_f_cnt_down=False)
        frame_id, session = facts.frame.frame_id, facts.match.session
        claim = await self._claiming.look(facts.reception, frame_id, bid, session)
        if claim.level2 is Level2.NOT_ASKED:
            return replace(facts, lived=claim.lived)
        known = claim.level2 is Level2.OWNER and not claim.is_new
        standing = Standing.EQUAL if known else Standing.NEWER
        spent = session.resubmissions  # what is known now
        disposition = self._decide(facts.frame, facts.match, facts.status, standing, spent)
        facts = replace(facts, claim=claim, disposition=disposition, spent=spent, bid=bid)
        return self._after_claim(self._count(facts))

    async def _claim(self, facts: Facts) -> Facts:
        """Ask level 2, but never for a soft duplicate, and what it leaves to do."""
        if facts.status is Status.SOFT_DUPLICATE:
            return facts
        done = facts.disposition
        session, known = facts.match.session, facts.match.session.resubmissions
        answers = done.answers and not facts.is_beyond_limit and self._may_answer(facts)
        bid = self._bid(facts, takes_f_cnt_down=answers)
        claim = await self._claiming.ask(facts.reception, facts.frame.frame_id, bid, session)
        moved = claim.owner_before not in (None, self._lns)
        if self._refresh and moved and mac_layer.is_unsettled(facts.match, self._region):
            await self._refresh.agree(facts.match)
        if done.spends and facts.spent is known is not session.resubmissions:
            facts = self._count(replace(facts, spent=session.resubmissions))  # a newer frame came
        return self._after_claim(replace(facts, claim=claim, bid=bid))

    def _bid(self, facts: Facts, *, takes_f_cnt_down: bool) -> Bid:
        is_first = facts.status is NON_DUPLICATE
        return self._claiming.bid(
            facts.match.session,
            facts.match.f_cnt,
            facts.key.mic,
            takes_f_cnt_down=takes_f_cnt_down,
            first_message=facts.match.is_first_message,
            # Nor does the store take what is too far for all who know more than this server does.
            too_far=facts.match.session.standing(facts.match.f_cnt) is not Standing.NEWER,
            is_first=is_first,
            repeats=not (is_first or facts.disposition.advances),
            lived=facts.lived,
            elders=self._registry.elders(facts.match) if is_first else (),
        )

    def _after_claim(self, facts: Facts) -> Facts:
        """What is left to do when level 2 has spoken, and what the session knows then."""
        claim, done, f_cnt = facts.claim, facts.disposition, facts.match.f_cnt
        if claim.too_far:
            self._give_back(facts)
            return replace(facts, disposition=too_far())
        if claim.level2 is Level2.UNAVAILABLE:
            if done.advances:
                facts = self._count_alone(facts)
        elif claim.lived is not None:
            facts.match.session.hear(f_cnt, claim.lived.life)
            self._sightings.place(facts.key, claim.lived)
            facts = replace(facts, lived=claim.lived)
        if claim.given_back and facts.status is Status.RESUBMISSION:
            return replace(facts, disposition=given_back(done))
        if not facts.owned:
            self._give_back(facts)
            left = after_claim(done, facts.match.device.strategy, claim.level2, self._on_outage)
            return replace(facts, disposition=left)
        # Any other counter beyond the one that was kept is new yet: this server ended between its
        # claim and the application.
        claimed_before = not claim.is_new and facts.status is NON_DUPLICATE
        if done.advances and claimed_before and facts.match.is_first_message:
            left = known_before(done, confirmed=facts.frame.confirmed)
            spent = facts.match.session.resubmissions
            facts = self._count(replace(facts, disposition=left, spent=spent))
        if facts.is_beyond_limit:
            self._give_back(facts)
            return replace(facts, disposition=beyond_limit())
        return facts

    def _may_answer(self, facts: Facts) -> bool:
        device, session = facts.match.device, facts.match.session
        asks = facts.status is NON_DUPLICATE and (
            mac_layer.has_wishes(facts.requests, device, session, self._region)
            or self._downlinks.statuses.is_due(device)
        )
        awaited = device.dev_eui in self._downlinks.queues.devices
        return facts.requests.wants_answer or asks or awaited

    def _count(self, facts: Facts) -> Facts:
        """Change what this server alone decides about, before anybody is asked."""
        device, session, f_cnt = facts.match.device, facts.match.session, facts.match.f_cnt
        if session.mic is None and session.f_cnt_up == f_cnt and not facts.shared:
            session.mic = facts.key.mic  # a store of before knows none
        if facts.disposition.spends:
            facts.spent[f_cnt] = facts.spent.get(f_cnt, 0) + 1
            if not facts.shared:
                self._sightings.place(facts.key, facts.named)  # before a newer frame comes
        if not facts.disposition.advances:
            return facts
        if not facts.shared:
            return self._count_alone(facts)
        if not device.may_restart_counter:
            session.hear(f_cnt, session.life)
        return facts

    def _count_alone(self, facts: Facts) -> Facts:
        match, session = facts.match, facts.match.session
        is_old = facts.shared and session.standing(match.f_cnt) in _OLD
        if is_old and not facts.match.is_first_message:
            session.hear(match.f_cnt, session.life)  # another server has heard it before
            return facts
        lived = session.advance(match.f_cnt, facts.key.mic, self._lns if facts.shared else None)
        self._sightings.place(facts.key, lived)
        return replace(facts, lived=lived)

    async def _publish(self, facts: Facts) -> None:
        done, status = facts.disposition, facts.requests.status
        if status is not None and facts.is_first:
            message_of_status = status_of_device(
                self._lns,
                facts.match.session,
                facts.match.f_cnt,
                facts.frame,
                status,
                facts.reception,
                lived=facts.named,
                received_at=self._utc(),
                unverified=facts.claim.level2 is UNAVAILABLE,
            )
            await self._application.publish(message_of_status)
        if done.upstream is DROPPED or not facts.carries_data:
            return
        message = message_of(
            self._lns,
            facts.match.session,
            facts.match.f_cnt,
            facts.frame,
            facts.reception,
            lived=facts.named,
            received_at=self._utc(),
            first=facts.is_first,
            dup_msg=done.upstream is MARKED,
            unverified=facts.claim.level2 is UNAVAILABLE,
        )
        await self._application.publish(message)

    def _roll_back(self, facts: Facts, before: Before | None) -> None:
        """What was not delivered was not heard."""
        session, f_cnt = facts.match.session, facts.match.f_cnt
        self._give_back(facts)
        if before is None or not facts.disposition.advances:
            return
        if session.f_cnt_up == f_cnt and session.mic == facts.key.mic:
            session.step_back(before)
        elif (session.heard, session.heard_life) == (f_cnt, facts.named.life):
            # Others have come farther.
            session.heard, session.heard_life = before.heard, before.heard_life

    def _give_back(self, facts: Facts) -> None:
        # A newer frame may have been accepted meanwhile: what its life has spent is not touched.
        if facts.disposition.spends and facts.match.f_cnt in facts.spent:
            facts.spent[facts.match.f_cnt] -= 1

    async def _answer(self, facts: Facts) -> Answer:
        device, session = facts.match.device, facts.match.session
        asked, reception, statuses = facts.requests, facts.reception, self._downlinks.statuses
        gps_us = partial(mac_layer.ended_gps_us, reception, self._utc)
        said = mac_layer.answers(asked, reception, self._region, gps_us)
        asks_status = False
        if facts.status is NON_DUPLICATE:
            said += mac_layer.wishes(asked, device, session, reception, self._region)
            asks_status = statuses.is_due(device)
            said = mac_layer.that_fit(said + [DevStatusReq()] * asks_status)  # the last always does
        due = asked.wants_answer or bool(said)
        content = Content(asked.ack, tuple(said), due, facts.claim.f_cnt_down)
        sent = await self._downlinks.answer(reception, session, facts.frame.frame_id, content)
        if asks_status and sent in SENT:
            statuses.asked(device.dev_eui)
        return sent


def _key(match: Match, frame: Data) -> DataKey:
    return DataKey(match.device.dev_eui, mic_of(frame), frame.f_cnt)


def refusal(
    lns: str, reception: Reception, frame: Data, reason: Reason, match: Match | None = None
) -> Outcome:
    """The outcome of a frame that level 1 never saw."""
    asked = mac_layer.requests(frame, match.session, match.f_cnt) if match else None
    return Outcome(
        station=reception.station,
        lns=lns,
        frame_id=frame.frame_id,
        dev_eui=match.device.dev_eui if match else None,
        dev_addr=frame.dev_addr,
        f_cnt=match.f_cnt if match else None,
        mic=mic_of(frame),
        confirmed=frame.confirmed,
        strategy=match.device.strategy if match else None,
        upstream=DROPPED,
        reason=reason,
        answer=Answer.SUPPRESSED if asked and asked.wants_answer else Answer.NOT_ASKED,
        xtime=reception.xtime,
    )


def outcome(
    lns: str, facts: Facts, upstream: Upstream, reason: Reason | None, answer: Answer
) -> Outcome:
    """The outcome of a frame whose sender is known."""
    return Outcome(
        station=facts.reception.station,
        lns=lns,
        frame_id=facts.frame.frame_id,
        dev_eui=facts.match.device.dev_eui,
        dev_addr=facts.frame.dev_addr,
        f_cnt=facts.match.f_cnt,
        mic=facts.key.mic,
        confirmed=facts.frame.confirmed,
        strategy=facts.match.device.strategy,
        status=facts.status,
        upstream=upstream,
        reason=reason,
        answer=answer,
        level2=facts.claim.level2,
        xtime=facts.reception.xtime,
    )
