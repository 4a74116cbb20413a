"""What is known about one reception of a data uplink, and what is told of it in the end?"""

import asyncio
from dataclasses import dataclass, field

from msgspec import Struct

from lns.dedup.claim import NOBODY_ASKED, Claim, Level2
from lns.dedup.concentrator import DataKey
from lns.dedup.life import Lived
from lns.dedup.strategy import Disposition, Reason, Status, Upstream
from lns.downlink.receive_window import Answer
from lns.events import Outcome
from lns.lorawan.frame import Data
from lns.lorawan.identifiers import Mic
from lns.uplink.mac_layer import Requests, requests
from lns.uplink.reception import Reception
from lns.uplink.registry import Match


class Facts(Struct, frozen=True):
    """All that was found out about one reception, and what the policy makes of it.

    `looks`: it is refused here, but perhaps not elsewhere. `lived` is which frame it is, where that
    is known.
    """

    reception: Reception
    frame: Data
    match: Match
    key: DataKey
    requests: Requests
    status: Status
    disposition: Disposition
    claim: Claim = NOBODY_ASKED
    looks: bool = False
    lived: Lived | None = None

    @property
    def carries_data(self) -> bool:
        """FPort 0 is for the network: nothing of it goes to the application."""
        return self.frame.f_port != 0

    @property
    def withheld(self) -> Answer:
        """The word for a reception that is not answered."""
        return Answer.SUPPRESSED if self.requests.wants_answer else Answer.NOT_ASKED

    @property
    def is_first_message(self) -> bool:
        """FCnt 0 or 1 of a relaxed ABP device: it may have restarted (ADR 007)."""
        return self.match.device.may_restart_counter and self.match.f_cnt <= 1

    @property
    def owned(self) -> bool:
        """Whether nobody else handles this frame, as far as anybody can say."""
        return self.claim.level2 in (Level2.NOT_ASKED, Level2.OWNER)

    @property
    def is_first(self) -> bool:
        """Whether nobody has delivered this frame before, as far as anybody can say."""
        if self.claim.level2 is Level2.NOT_OWNER:
            return False
        advances = self.disposition.advances and self.status is Status.NON_DUPLICATE
        return advances or self.claim.given_back

    @property
    def named(self) -> Lived:
        """Which frame this is; of one that nobody remembers, as its session tells."""
        if self.lived is not None:
            return self.lived
        session = self.match.session
        is_newest = session.f_cnt_up == self.match.f_cnt and session.mic in (None, self.key.mic)
        return Lived(session.life, odd=not is_newest)


@dataclass(slots=True)
class Fate:
    """What happens to a first copy that is on its way upstream.

    `lost`: nobody has it; `refused`: its counter is none that this server takes.
    """

    decided: asyncio.Event = field(default_factory=asyncio.Event)
    lost: bool = False
    refused: bool = False


def mic_of(frame: Data) -> Mic:
    """The MIC of a frame, as events spell it."""
    return Mic(frame.mic.hex().upper())


def refusal(
    lns: str, reception: Reception, frame: Data, reason: Reason, match: Match | None = None
) -> Outcome:
    """The outcome of a frame that level 1 never saw."""
    asked = requests(frame, match.session, match.f_cnt) if match else None
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
        upstream=Upstream.DROPPED,
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
