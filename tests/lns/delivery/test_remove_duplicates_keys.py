"""The Remove Duplicates keys and when they may go (edge cases J17, J18, J20, J21 and J22)."""

import pytest

from lns.delivery.detectors import (
    RETENTION_MAX_US,
    ConfigurationError,
    Detector,
    Duplicate,
    RemoveDuplicatesKeys,
)
from lns.store.inbox_store import MemoryEntries, Table
from tests.lns.delivery.arriving import SECOND_US, incoming

RETENTION_US, RETRY_US, NETWORK_US = 100 * SECOND_US, 20 * SECOND_US, 3 * SECOND_US
SUM_US = 123 * SECOND_US
KEYS = RemoveDuplicatesKeys(retention_us=RETENTION_US, retry_us=RETRY_US, network_us=NETWORK_US)


def consumed(*at_us: int, keys: RemoveDuplicatesKeys = KEYS) -> list[bool]:
    """Whether each of several messages with one key is consumed."""
    entries, found = MemoryEntries(), []
    for number, now_us in enumerate(at_us):
        message = incoming(f"m{number}", remove_duplicates_key="k")
        found.append(keys.take(entries, message, now_us) is None)
        keys.forget(entries, now_us, at_most=8)
    return found


def test_the_same_key_is_consumed_once_whatever_the_message_ids_are() -> None:
    entries = MemoryEntries()
    one, other = (incoming(name, remove_duplicates_key="k") for name in ("a", "b"))
    assert KEYS.take(entries, one, 0, position=3) is None
    assert KEYS.take(entries, other, 1) == Duplicate(Detector.KEY, 3)


def test_the_same_body_with_another_key_is_never_removed() -> None:
    """J17: five requests, one body, five keys; also J18, where the producer lost its key."""
    entries = MemoryEntries()
    for number in range(5):
        pay = incoming("m", remove_duplicates_key=f"k{number}", body=b'{"pay": "10$"}')
        assert KEYS.take(entries, pay, 0) is None


def test_a_message_without_a_key_passes() -> None:
    entries = MemoryEntries()
    for _ in range(2):
        assert KEYS.take(entries, incoming("m"), 0) is None
    assert len(entries.marks[Table.KEY]) == 0


@pytest.mark.parametrize(
    ("again_us", "is_consumed"),
    [
        (SUM_US - SECOND_US, False),  # J21
        (SUM_US - 1, False),
        (SUM_US, False),  # at the cut-off itself the same key may just arrive
        (SUM_US + 1, True),
        (SUM_US + SECOND_US, True),  # J21
    ],
)
def test_a_key_goes_when_it_was_consumed_before_the_cut_off(
    again_us: int, is_consumed: bool
) -> None:
    assert consumed(0, again_us) == [True, is_consumed]


@pytest.mark.parametrize("term", ["retention_us", "retry_us", "network_us"])
def test_every_term_counts_to_the_microsecond(term: str) -> None:
    terms = {"retention_us": RETENTION_US, "retry_us": RETRY_US, "network_us": NETWORK_US}
    terms[term] += 5
    keys = RemoveDuplicatesKeys(**terms)
    assert keys.cut_off_us(0) == -SUM_US - 5
    assert consumed(0, SUM_US + 5, keys=keys) == [True, False]
    assert consumed(0, SUM_US + 6, keys=keys) == [True, True]


@pytest.mark.parametrize(
    ("min_msg_time_us", "is_consumed"),
    [
        (RETRY_US + NETWORK_US - 1, False),
        (RETRY_US + NETWORK_US, False),
        (RETRY_US + NETWORK_US + 1, True),
    ],
)
def test_the_oldest_unconsumed_message_cuts_off_instead_of_the_retention(
    min_msg_time_us: int, is_consumed: bool
) -> None:
    keys = RemoveDuplicatesKeys(
        retention_us=1,
        retry_us=RETRY_US,
        network_us=NETWORK_US,
        min_msg_time_us=lambda: min_msg_time_us,
    )
    assert consumed(0, 10 * RETENTION_US, keys=keys) == [True, is_consumed]


def test_a_queue_that_is_stuck_keeps_its_keys() -> None:
    """J22: nobody consumed for two days; the keys of before are still there."""
    two_days_us = 2 * 86_400 * SECOND_US
    oldest_us: list[int | None] = [RETRY_US]
    keys = RemoveDuplicatesKeys(
        retention_us=RETENTION_US, retry_us=RETRY_US, min_msg_time_us=lambda: oldest_us[0]
    )
    entries = MemoryEntries()
    message = incoming("m", remove_duplicates_key="k")
    assert keys.take(entries, message, 0) is None
    keys.forget(entries, two_days_us, at_most=8)
    assert keys.take(entries, message, two_days_us) is not None
    oldest_us[0] = None  # the queue is empty: the other formula
    assert keys.take(entries, message, two_days_us) is None


@pytest.mark.parametrize(
    "terms",
    [
        {"retention_us": 0},
        {"retention_us": RETENTION_MAX_US + 1},
        {"retry_us": -1},
        {"network_us": -1},
    ],
)
def test_an_impossible_time_is_an_error(terms: dict[str, int]) -> None:
    with pytest.raises(ConfigurationError, match="cannot be; it is"):
        RemoveDuplicatesKeys(**terms)


def test_a_queue_keeps_messages_for_at_most_15_days() -> None:
    fortnight_us = 15 * 86_400 * SECOND_US
    assert fortnight_us == RETENTION_MAX_US
    keys = RemoveDuplicatesKeys(retention_us=fortnight_us, retry_us=0, network_us=0)
    assert consumed(0, fortnight_us, keys=keys) == [True, False]
    assert consumed(0, fortnight_us + 1, keys=keys) == [True, True]


def test_two_consumers_with_stores_of_their_own_consume_a_key_twice() -> None:
    """J20, the wrong way; `tests/contracts/test_inbox_store_shared.py` has the right one."""
    one, other = MemoryEntries(), MemoryEntries()
    message = incoming("m", remove_duplicates_key="k")
    assert [KEYS.take(entries, message, 0) is None for entries in (one, other)] == [True, True]
