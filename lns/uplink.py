"""What becomes of a data uplink?

The path as a list of steps: who sent it, which copy it is, what the policy says, the application
first, then the device, one outcome. Level 1 stands after the DevAddr and MIC matching and before
counter validation and anything external (ADR 007, "General notes").
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from msgspec import Struct

from lns import mac_layer
from lns.clock import Utc
from lns.deadline import within
from lns.dedup.claim import Claims, Level2
from lns.dedup.concentrator import Copy, DataKey, Eviction, Sightings
from lns.dedup.strategy import Disposition, Reason, Status, Upstream, decide, status_of
from lns.delivery.publisher import Upstream as Application
from lns.delivery.publisher import UpstreamUnavailable, message_of
from lns.downlink import Content, Downlinks
from lns.end_device import Session
from lns.events import Outcome
from lns.lorawan.frame import Data
from lns.lorawan.identifiers import Mic
from lns.lorawan.mac_commands import encode
from lns.lorawan.region import Region
from lns.mac_layer import Requests
from lns.receive_window import Answer
from lns.reception import Reception
from lns.registry import Match, Registry, StoreUnavailable

# How long the application may take: the copies of a frame wait for the fate of its first one.
PUBLISH_US = 10_000_000


class Facts(Struct, frozen=True):
    """All that was found out about one reception, and what the policy makes of it."""

    reception: Reception
    frame: Data
    match: Match
    key: DataKey
    requests: Requests
    status: Status
    disposition: Disposition

    @property
    def carries_data(self) -> bool:
        """FPort 0 is for the network: nothing of it goes to the application."""
        return self.frame.f_port != 0

    @property
    def withheld(self) -> Answer:
        """The word for a reception that is not answered."""
        return Answer.SUPPRESSED if self.requests.wants_answer else Answer.NOT_ASKED


@dataclass(slots=True)
class _Fate:
    """What happens to a first copy that is on its way upstream; `lost` once it was refused."""

    lost: bool = False
    decided: asyncio.Event | None = None

    async def wait(self) -> None:
        """Wait until it is decided; hardly ever does anybody have to."""
        self.decided = self.decided or asyncio.Event()
        await self.decided.wait()

    def decide(self) -> None:
        """Wake whoever waits."""
        if self.decided is not None:
            self.decided.set()


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
        claims: Claims,
        application: Application,
        downlinks: Downlinks,
        utc: Utc,
        evicted: Callable[[Eviction], None],
    ) -> None:
        self._lns = lns
        self._region = region
        self._registry = registry
        self._sightings = sightings
        self._claims = claims
        self._application = application
        self._downlinks = downlinks
        self._utc = utc
        self._evicted = evicted
        self._undecided: dict[DataKey, _Fate] = {}

    async def receive(self, reception: Reception, frame: Data) -> Outcome:
        """Handle one reception of a data uplink and tell what became of it."""
        match = self._registry.match(frame)
        if isinstance(match, Reason):
            return self._refusal(reception, frame, match)
        if match.device.server not in (None, self._lns):
            return self._refusal(reception, frame, Reason.BELONGS_TO_ANOTHER_SERVER, match)
        key = DataKey(match.device.dev_eui, _mic(frame), frame.f_cnt)
        copy = self._note(key, reception)
        while (first := self._undecided.get(key)) is not None:
            await first.wait()
            if first.lost:
                copy = self._note(key, reception)
        facts = self._find_out(reception, frame, match, key, copy)
        if not facts.disposition.advances:
            return await self._act(facts)
        fate = self._undecided[key] = _Fate()
        try:
            outcome = await self._act(facts)
            fate.lost = outcome.reason is Reason.UPSTREAM_UNAVAILABLE
            return outcome
        finally:
            del self._undecided[key]
            fate.decide()

    def _note(self, key: DataKey, reception: Reception) -> Copy:
        copy = self._sightings.note(key, reception.station)
        for eviction in self._sightings.evictions():
            self._evicted(eviction)
        return copy

    def _find_out(
        self, reception: Reception, frame: Data, match: Match, key: DataKey, copy: Copy
    ) -> Facts:
        device, session = match.device, match.session
        status = status_of(copy, device.strategy)
        disposition = decide(
            status,
            device.strategy,
            confirmed=frame.confirmed,
            standing=session.standing(match.f_cnt),
            may_have_restarted=device.may_restart_counter and match.f_cnt <= 1,
            resubmissions=session.resubmissions.get(match.f_cnt, 0),
        )
        asked = mac_layer.requests(frame, session, match.f_cnt)
        return Facts(reception, frame, match, key, asked, status, disposition)

    async def _act(self, facts: Facts) -> Outcome:
        done = facts.disposition
        if not done.answers and done.upstream is Upstream.DROPPED:
            return self._outcome(facts, done.upstream, done.reason, facts.withheld)
        before = _count(facts)
        level2 = await self._claim(facts)
        try:
            await self._publish(facts)
        except UpstreamUnavailable:
            self._roll_back(facts, before)
            reason = Reason.UPSTREAM_UNAVAILABLE
            return self._outcome(facts, Upstream.DROPPED, reason, facts.withheld, level2)
        if facts.status is Status.NON_DUPLICATE:
            self._registry.settle(facts.match)
            mac_layer.apply(facts.requests, facts.match.device, facts.match.session)
            heard_by, ack = facts.reception.station, facts.frame.ack
            self._downlinks.heard(facts.match.device.dev_eui, heard_by, ack=ack)
        answer = await self._keep_and_answer(facts)
        upstream = done.upstream if facts.carries_data else Upstream.DROPPED
        return self._outcome(facts, upstream, done.reason, answer, level2)

    async def _keep_and_answer(self, facts: Facts) -> Answer:
        """Make the counters durable, with the FCntDown of the answer before that leaves."""
        try:
            answer = await self._answer(facts) if facts.disposition.answers else facts.withheld
            if answer not in (Answer.RX1, Answer.RX2):
                await self._registry.keep(facts.match.device.dev_eui)
            return answer
        except StoreUnavailable:
            self._give_back(facts)
            return facts.withheld

    async def _claim(self, facts: Facts) -> Level2:
        """Ask level 2, but never for a soft duplicate or a device that has one server."""
        if facts.status is Status.SOFT_DUPLICATE or facts.match.device.server is not None:
            return Level2.NOT_ASKED
        session = facts.match.session
        claim = await self._claims.claim(session.dev_eui, session.dev_addr, facts.match.f_cnt)
        return claim.level2

    async def _publish(self, facts: Facts) -> None:
        done = facts.disposition
        if done.upstream is Upstream.DROPPED or not facts.carries_data:
            return
        message = message_of(
            self._lns,
            facts.match.session,
            facts.match.f_cnt,
            facts.frame,
            facts.reception,
            received_at=self._utc(),
            first=done.advances,
            dup_msg=done.upstream is Upstream.MARKED,
        )
        try:
            await within(PUBLISH_US, self._application.publish(message))
        except TimeoutError:
            # It may become durable yet; the copy that takes its place has the same id.
            raise UpstreamUnavailable(f"not durable within {PUBLISH_US} us") from None

    def _roll_back(self, facts: Facts, before: Session) -> None:
        """What was not delivered was not heard: the next copy of it is a first one."""
        session, f_cnt = facts.match.session, facts.match.f_cnt
        self._give_back(facts)
        if facts.status is Status.NON_DUPLICATE:
            self._sightings.forget(facts.key)
        if facts.disposition.advances and session.f_cnt_up == f_cnt:
            session.step_back(before)

    def _give_back(self, facts: Facts) -> None:
        """The repeated answer that was counted did not leave."""
        session, f_cnt = facts.match.session, facts.match.f_cnt
        # A newer frame may have been accepted meanwhile: it has emptied the budgets.
        if facts.disposition.spends and f_cnt in session.resubmissions:
            session.resubmissions[f_cnt] -= 1

    async def _answer(self, facts: Facts) -> Answer:
        device, session = facts.match.device, facts.match.session
        commands = []
        if facts.status is Status.NON_DUPLICATE or facts.requests.link_check:
            commands = mac_layer.answers(
                facts.requests, device, session, facts.reception, self._region
            )
        due = facts.requests.wants_answer or bool(commands)
        if not (due or self._downlinks.wait_for(device.dev_eui)):
            return Answer.NOT_ASKED
        content = Content(facts.requests.ack, encode(commands), due)
        return await self._downlinks.answer(facts.reception, session, facts.frame.frame_id, content)

    def _refusal(
        self, reception: Reception, frame: Data, reason: Reason, match: Match | None = None
    ) -> Outcome:
        """The outcome of a frame that level 1 never saw."""
        asked = mac_layer.requests(frame, match.session, match.f_cnt) if match else None
        return Outcome(
            station=reception.station,
            lns=self._lns,
            frame_id=frame.frame_id,
            dev_eui=match.device.dev_eui if match else None,
            dev_addr=frame.dev_addr,
            f_cnt=match.f_cnt if match else None,
            mic=_mic(frame),
            confirmed=frame.confirmed,
            strategy=match.device.strategy if match else None,
            upstream=Upstream.DROPPED,
            reason=reason,
            answer=Answer.SUPPRESSED if asked and asked.wants_answer else Answer.NOT_ASKED,
            xtime=reception.xtime,
        )

    def _outcome(
        self,
        facts: Facts,
        upstream: Upstream,
        reason: Reason | None,
        answer: Answer,
        level2: Level2 = Level2.NOT_ASKED,
    ) -> Outcome:
        return Outcome(
            station=facts.reception.station,
            lns=self._lns,
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
            level2=level2,
            xtime=facts.reception.xtime,
        )


def _count(facts: Facts) -> Session:
    """Change the counters of the session; returns the session to roll back to."""
    session, f_cnt = facts.match.session, facts.match.f_cnt
    before = session.snapshot()
    if facts.disposition.advances:
        session.advance(f_cnt)
    if facts.disposition.spends:
        session.resubmissions[f_cnt] = session.resubmissions.get(f_cnt, 0) + 1
    return before


def _mic(frame: Data) -> Mic:
    return Mic(frame.mic.hex().upper())
