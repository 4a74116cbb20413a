"""The policy: what follows from a copy, a strategy and a frame counter?

ADR 007, "Further processing of messages based on their duplication status", as one table.
Nothing else in the server decides about duplicates.
"""

from enum import StrEnum
from itertools import product

from msgspec import Struct

from lns.dedup.claim import Level2, OnOutage
from lns.dedup.concentrator import FIRST, SAME_STATION, Copy
from lns.dedup.session import EQUAL, NEWER, Standing

RESUBMISSIONS_MAX = 3  # answers per counter value beyond the first one


class Strategy(StrEnum):
    """What the operator wants of duplicates, per device (ADR 007); None is the default."""

    DROP = "Drop"
    MARK = "Mark"
    NONE = "None"


class Status(StrEnum):
    """Level-1 status of a reception, in the words of ADR 007."""

    NON_DUPLICATE = "NonDuplicate"
    DUPLICATE = "Duplicate"
    SOFT_DUPLICATE = "SoftDuplicate"
    RESUBMISSION = "DuplicateDueToResubmission"


NON_DUPLICATE, DUPLICATE, SOFT_DUPLICATE, RESUBMISSION = Status


class Upstream(StrEnum):
    """What the application gets of a reception."""

    FORWARDED = "forwarded"
    MARKED = "marked"
    DROPPED = "dropped"


FORWARDED, MARKED, DROPPED = Upstream


class Reason(StrEnum):
    """Why a reception was dropped."""

    DUPLICATE = "Duplicate"
    DUPLICATE_AT_OTHER_SERVER = "DuplicateAtOtherServer"
    RESUBMISSION_SUPPRESSED = "ResubmissionSuppressed"
    RESUBMISSION_LIMIT = "ResubmissionLimit"
    INVALID_FRAME_COUNTER = "InvalidFrameCounter"
    MIC_MISMATCH = "MicMismatch"
    UNKNOWN_DEVICE = "UnknownDevice"
    DEV_NONCE_USED = "DevNonceUsed"
    BELONGS_TO_ANOTHER_SERVER = "BelongsToAnotherServer"
    MALFORMED = "Malformed"
    STORE_UNAVAILABLE = "StoreUnavailable"
    UPSTREAM_UNAVAILABLE = "UpstreamUnavailable"
    INTERNAL_ERROR = "InternalError"


class Disposition(Struct, frozen=True):
    """What is done with one reception.

    `answers` permits a downlink; whether one is due depends on what the frame asked for.
    `advances` makes its counter the newest of the session, `spends` uses one of the
    `RESUBMISSIONS_MAX` repeated answers of that counter.
    """

    upstream: Upstream
    reason: Reason | None = None
    answers: bool = False
    advances: bool = False
    spends: bool = False


def _with(done: Disposition, *, advances: bool = False, spends: bool = False) -> Disposition:
    return Disposition(done.upstream, done.reason, done.answers, advances, spends)


def status_of(copy: Copy, strategy: Strategy) -> Status:
    """The status of a data frame (ADR 007, 1a); only Drop turns a copy into a hard duplicate."""
    if copy is FIRST:
        return NON_DUPLICATE
    if copy is SAME_STATION:
        return RESUBMISSION
    return DUPLICATE if strategy is Strategy.DROP else SOFT_DUPLICATE


_UP = Disposition(Upstream.FORWARDED, answers=True)
_COPY_DROPPED = Disposition(Upstream.DROPPED, Reason.DUPLICATE)
_SUPPRESSED = Disposition(Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED)
_INVALID = Disposition(Upstream.DROPPED, Reason.INVALID_FRAME_COUNTER)
_LIMIT = Disposition(Upstream.DROPPED, Reason.RESUBMISSION_LIMIT)

_COPY_OF = {
    Strategy.MARK: Upstream.MARKED,
    Strategy.NONE: Upstream.FORWARDED,
}

# The table of ADR 007: (status, strategy, confirmed) -> what is done with a frame whose counter
# is admitted. `Duplicate` is met only under Drop and `SoftDuplicate` never under Drop.
DISPOSITIONS: dict[tuple[Status, Strategy, bool], Disposition] = {
    **{(NON_DUPLICATE, s, c): _UP for s, c in product(Strategy, (True, False))},
    **{(DUPLICATE, Strategy.DROP, c): _COPY_DROPPED for c in (True, False)},
    **{
        (SOFT_DUPLICATE, s, c): Disposition(_COPY_OF[s])
        for s, c in product(_COPY_OF, (True, False))
    },
    (RESUBMISSION, Strategy.DROP, True): Disposition(
        Upstream.DROPPED, Reason.RESUBMISSION_SUPPRESSED, answers=True
    ),
    (RESUBMISSION, Strategy.MARK, True): Disposition(Upstream.MARKED, answers=True),
    (RESUBMISSION, Strategy.NONE, True): Disposition(Upstream.FORWARDED, answers=True),
    # Unconfirmed: only a first message gets here, see `decide`.
    (RESUBMISSION, Strategy.DROP, False): _SUPPRESSED,
    (RESUBMISSION, Strategy.MARK, False): Disposition(Upstream.MARKED),
    (RESUBMISSION, Strategy.NONE, False): Disposition(Upstream.FORWARDED),
}


_NEWEST = {case: _with(done, advances=True) for case, done in DISPOSITIONS.items()}


def decide(
    status: Status,
    strategy: Strategy,
    *,
    confirmed: bool,
    standing: Standing,
    may_have_restarted: bool,
    resubmissions: int,
) -> Disposition:
    """Counter validation and the table, in that order; `Duplicate` needs no counter.

    `may_have_restarted` is the first-message rule: FCnt 0 or 1 of a relaxed ABP device.
    `resubmissions` counts the answers already repeated for this counter value.
    """
    done = DISPOSITIONS[status, strategy, confirmed]
    if status is DUPLICATE:
        return done
    if status is NON_DUPLICATE:
        if standing is NEWER or may_have_restarted:
            return _NEWEST[status, strategy, confirmed]
        repeats = standing is EQUAL and confirmed
    elif status is SOFT_DUPLICATE:
        # A late copy of an older frame says nothing new; a restarted device might. One of a life
        # before may be newer than this life, and takes it nowhere.
        admitted = standing in (EQUAL, NEWER) or may_have_restarted
        return done if admitted else _INVALID
    elif standing is NEWER:
        # A relaxed device has restarted and sends an equal frame again.
        return _NEWEST[status, strategy, confirmed]
    else:
        repeats = may_have_restarted or (standing is EQUAL and confirmed)
    if not repeats:
        return _INVALID
    if not confirmed:
        return done
    return _LIMIT if resubmissions >= RESUBMISSIONS_MAX else _with(done, spends=True)


# ADR 007, part 2, "Upstream Processing": what becomes of a frame that another server owns.
_ELSEWHERE: dict[Strategy, Disposition] = {
    Strategy.DROP: Disposition(Upstream.DROPPED, Reason.DUPLICATE_AT_OTHER_SERVER),
    Strategy.MARK: Disposition(Upstream.MARKED),
    Strategy.NONE: Disposition(Upstream.FORWARDED),
}


def after_claim(
    done: Disposition, strategy: Strategy, level2: Level2, on_outage: OnOutage
) -> Disposition:
    """What level 2 leaves of a disposition: only the owner answers, whatever the strategy.

    `advances` stays, for the counter was heard; a repeated answer that does not leave is not spent.
    """
    if level2 is Level2.NOT_OWNER:
        done = _with(_ELSEWHERE[strategy], advances=done.advances)
    elif level2 is Level2.UNAVAILABLE and on_outage is OnOutage.OPEN:
        done = Disposition(done.upstream, done.reason, advances=done.advances)
    elif level2 is Level2.UNAVAILABLE:
        done = Disposition(Upstream.DROPPED, Reason.STORE_UNAVAILABLE, advances=done.advances)
    return done


def too_far() -> Disposition:
    """What is done with a frame that is too far ahead of what all servers together know."""
    return _INVALID


def beyond_limit() -> Disposition:
    """What is done with a resubmission that comes after the last one that is answered."""
    return _LIMIT


def given_back(done: Disposition) -> Disposition:
    """What is done with a resubmission that its former owner could not deliver: nobody has."""
    return Disposition(Upstream.FORWARDED, answers=done.answers, spends=done.spends)


def known_before(done: Disposition, *, confirmed: bool) -> Disposition:
    """What is done with a first message that is new to level 1, while it was claimed here before.

    The server has begun anew since: it is a retry, or a first message once more (ADR 007).
    """
    return Disposition(done.upstream, done.reason, done.answers and confirmed, spends=confirmed)
