"""The policy table of ADR 007, row by row."""

from itertools import product

import pytest
from msgspec.structs import replace

from lns.dedup.concentrator import Copy
from lns.dedup.session import Standing
from lns.dedup.strategy import (
    DISPOSITIONS,
    RESUBMISSIONS_MAX,
    Disposition,
    Reason,
    Status,
    Strategy,
    Upstream,
    beyond_limit,
    decide,
    status_of,
    too_far,
)

DROP, MARK, NONE = Strategy.DROP, Strategy.MARK, Strategy.NONE


def _decide(status: Status, strategy: Strategy, **facts: object) -> Disposition:
    given: dict[str, object] = {
        "confirmed": True,
        "standing": Standing.EQUAL,
        "may_have_restarted": False,
        "resubmissions": 0,
        **facts,
    }
    return decide(status, strategy, **given)  # type: ignore[arg-type]


def test_the_table_is_complete() -> None:
    met = {status_of(copy, strategy) for copy, strategy in product(Copy, [DROP])}
    soft = {status_of(copy, strategy) for copy, strategy in product(Copy, [MARK, NONE])}
    keys = {(status, DROP, c) for status in met for c in (True, False)}
    keys |= {(status, s, c) for status in soft for s in (MARK, NONE) for c in (True, False)}
    assert set(DISPOSITIONS) == keys


@pytest.mark.parametrize(
    ("copy", "strategy", "status"),
    [
        (Copy.FIRST, DROP, "NonDuplicate"),
        (Copy.FIRST, MARK, "NonDuplicate"),
        (Copy.FIRST, NONE, "NonDuplicate"),
        (Copy.OTHER_STATION, DROP, "Duplicate"),
        (Copy.OTHER_STATION, MARK, "SoftDuplicate"),
        (Copy.OTHER_STATION, NONE, "SoftDuplicate"),
        (Copy.SAME_STATION, DROP, "DuplicateDueToResubmission"),
        (Copy.SAME_STATION, MARK, "DuplicateDueToResubmission"),
        (Copy.SAME_STATION, NONE, "DuplicateDueToResubmission"),
    ],
)
def test_the_status_of_a_copy(copy: Copy, strategy: Strategy, status: str) -> None:
    assert status_of(copy, strategy) == status


@pytest.mark.parametrize(
    ("status", "strategy", "confirmed", "upstream", "reason", "answers"),
    [
        (Status.NON_DUPLICATE, DROP, True, "forwarded", None, True),
        (Status.NON_DUPLICATE, MARK, True, "forwarded", None, True),
        (Status.NON_DUPLICATE, NONE, True, "forwarded", None, True),
        (Status.NON_DUPLICATE, DROP, False, "forwarded", None, True),
        (Status.DUPLICATE, DROP, True, "dropped", "Duplicate", False),
        (Status.DUPLICATE, DROP, False, "dropped", "Duplicate", False),
        (Status.SOFT_DUPLICATE, MARK, True, "marked", None, False),
        (Status.SOFT_DUPLICATE, MARK, False, "marked", None, False),
        (Status.SOFT_DUPLICATE, NONE, True, "forwarded", None, False),
        (Status.SOFT_DUPLICATE, NONE, False, "forwarded", None, False),
        (Status.RESUBMISSION, DROP, True, "dropped", "ResubmissionSuppressed", True),
        (Status.RESUBMISSION, MARK, True, "marked", None, True),
        (Status.RESUBMISSION, NONE, True, "forwarded", None, True),
        (Status.RESUBMISSION, DROP, False, "dropped", "ResubmissionSuppressed", False),
        (Status.RESUBMISSION, MARK, False, "marked", None, False),
        (Status.RESUBMISSION, NONE, False, "forwarded", None, False),
    ],
)
def test_the_rows_of_adr_007(
    status: Status,
    strategy: Strategy,
    confirmed: bool,
    upstream: str,
    reason: str | None,
    answers: bool,
) -> None:
    assert DISPOSITIONS[status, strategy, confirmed] == Disposition(
        Upstream(upstream), Reason(reason) if reason else None, answers
    )


@pytest.mark.parametrize("strategy", Strategy)
def test_a_new_frame_advances_the_counter_and_spends_nothing(strategy: Strategy) -> None:
    done = _decide(Status.NON_DUPLICATE, strategy, standing=Standing.NEWER, confirmed=False)
    assert (done.advances, done.spends, done.upstream) == (True, False, "forwarded")


@pytest.mark.parametrize("standing", [Standing.OLDER, Standing.TOO_FAR])
@pytest.mark.parametrize(
    "status", [Status.NON_DUPLICATE, Status.SOFT_DUPLICATE, Status.RESUBMISSION]
)
def test_old_and_far_counters_are_refused(status: Status, standing: Standing) -> None:
    assert _decide(status, MARK, standing=standing).reason is Reason.INVALID_FRAME_COUNTER


@pytest.mark.parametrize("confirmed", [True, False])
@pytest.mark.parametrize("strategy", Strategy)
def test_a_resubmission_with_a_newer_counter_is_a_first_message(
    strategy: Strategy, confirmed: bool
) -> None:
    """The device has begun again since, and sends an equal frame."""
    done = _decide(Status.RESUBMISSION, strategy, standing=Standing.NEWER, confirmed=confirmed)
    first = DISPOSITIONS[Status.RESUBMISSION, strategy, confirmed]
    assert done == replace(first, advances=True)


def test_a_soft_duplicate_with_a_newer_counter_takes_the_counter_nowhere() -> None:
    done = _decide(Status.SOFT_DUPLICATE, MARK, standing=Standing.NEWER)
    assert (done.upstream, done.advances) == ("marked", False)


def test_an_equal_counter_passes_as_soft_duplicate_without_advancing() -> None:
    done = _decide(Status.SOFT_DUPLICATE, NONE)
    assert (done.upstream, done.advances, done.spends) == ("forwarded", False, False)


def test_an_equal_counter_of_an_unconfirmed_new_frame_is_refused() -> None:
    done = _decide(Status.NON_DUPLICATE, NONE, confirmed=False)
    assert done.reason is Reason.INVALID_FRAME_COUNTER


@pytest.mark.parametrize("status", [Status.NON_DUPLICATE, Status.RESUBMISSION])
@pytest.mark.parametrize("spent", range(RESUBMISSIONS_MAX))
def test_three_resubmissions_of_a_counter_are_answered(status: Status, spent: int) -> None:
    done = _decide(status, NONE, resubmissions=spent)
    assert (done.answers, done.spends, done.advances) == (True, True, False)


@pytest.mark.parametrize("status", [Status.NON_DUPLICATE, Status.RESUBMISSION])
def test_the_fourth_resubmission_is_refused(status: Status) -> None:
    done = _decide(status, NONE, resubmissions=RESUBMISSIONS_MAX)
    assert (done.reason, done.answers) == (Reason.RESUBMISSION_LIMIT, False)


def test_an_unconfirmed_resubmission_passes_only_as_first_message() -> None:
    refused = _decide(Status.RESUBMISSION, NONE, confirmed=False)
    assert refused.reason is Reason.INVALID_FRAME_COUNTER
    first = _decide(Status.RESUBMISSION, NONE, confirmed=False, may_have_restarted=True)
    assert (first.upstream, first.answers, first.advances) == ("forwarded", False, False)


def test_a_restarted_device_advances_from_an_old_counter() -> None:
    done = _decide(Status.NON_DUPLICATE, DROP, standing=Standing.OLDER, may_have_restarted=True)
    assert (done.upstream, done.advances, done.spends) == ("forwarded", True, False)


def test_a_hard_duplicate_needs_no_counter() -> None:
    for standing in Standing:
        assert _decide(Status.DUPLICATE, DROP, standing=standing).reason is Reason.DUPLICATE


def test_a_frame_too_far_ahead_of_what_all_servers_know_is_dropped_and_changes_nothing() -> None:
    assert too_far() == Disposition(Upstream.DROPPED, Reason.INVALID_FRAME_COUNTER)


def test_a_resubmission_beyond_the_last_answer_is_dropped_and_changes_nothing() -> None:
    assert beyond_limit() == Disposition(Upstream.DROPPED, Reason.RESUBMISSION_LIMIT)
