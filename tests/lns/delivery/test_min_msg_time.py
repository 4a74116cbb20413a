"""Of what time the oldest message is, as producers say it together."""

import pytest

from lns.delivery import Incoming, RemoveDuplicatesKeys
from lns.delivery.detectors import (
    MIN_MSG_TIME,
    MinMsgTime,
    known_us,
    statement,
    time_us,
    topic_of,
)
from lns.store.inbox_store import MemoryEntries

A, B = topic_of("lns-a"), topic_of("lns-b")
NOW_US = 1_795_140_030_393_000


def no_retries(topic: str, retry_us: int) -> None:
    """Nobody looks."""


def test_a_statement_is_json_and_says_how_long_its_producer_tries() -> None:
    heard: list[tuple[str, int]] = []
    oldest = MinMsgTime(None, lambda topic, us: heard.append((topic, us)))
    body = statement("lns-a", NOW_US + 999, 60_000_000)
    assert body == (b'{"lns":"lns-a","minMsgTime":"2026-11-20T02:00:30.393000Z","retryMaxS":60}')
    oldest.hear(A, body)
    assert (oldest.oldest_us, heard) == (NOW_US, [(A, 60_000_000)])


@pytest.mark.parametrize(
    ("text", "us"),
    [
        ("2026-11-20T02:00:30.393Z", NOW_US),
        ("2026-11-20T03:00:30.393+01:00\n", NOW_US),
        ("2026-11-20T02:00:30.393", NOW_US),
        ("1795140030.393", NOW_US),
        ("1795140030", NOW_US - 393_000),
        (" \n", None),
    ],
)
def test_a_time_may_be_written_in_two_ways(text: str, us: int | None) -> None:
    assert time_us(text) == us


@pytest.mark.parametrize("text", ["soon", "-1", "1e9", "2026-13-01", "[1]"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        MinMsgTime(None, no_retries).hear(A, text.encode())


def test_the_smallest_time_of_all_producers_counts() -> None:
    oldest = MinMsgTime(None, no_retries)
    assert oldest.oldest_us is None
    for topic, at_us in ((A, 7_000_000), (B, 5_000_000), (A, 9_000_000)):
        oldest.hear(topic, statement("x", at_us, 0))
    assert oldest.oldest_us == 5_000_000


def test_what_was_known_counts_until_everybody_had_time_to_be_heard() -> None:
    oldest = MinMsgTime(3_000_000, no_retries)
    oldest.next_round()
    assert oldest.oldest_us == 3_000_000, "nobody has said anything yet"
    oldest.hear(A, statement("lns-a", 9_000_000, 0))
    assert oldest.oldest_us == 3_000_000
    oldest.hear(B, statement("lns-b", 5_000_000, 0))
    oldest.next_round()
    assert oldest.oldest_us == 5_000_000


def test_a_producer_that_says_nothing_any_more_holds_nothing_up() -> None:
    oldest = MinMsgTime(None, no_retries)
    oldest.hear(A, statement("lns-a", 9_000_000, 0))
    oldest.hear(B, statement("lns-b", 5_000_000, 0))
    for _ in range(2):
        oldest.next_round()
        oldest.hear(A, statement("lns-a", 9_000_000, 0))
    oldest.hear(B, b"")
    assert oldest.oldest_us == 9_000_000


def test_whoever_knows_the_whole_queue_says_when_it_is_empty() -> None:
    oldest = MinMsgTime(3_000_000, no_retries)
    oldest.set(5_000_000)
    assert oldest.oldest_us == 5_000_000
    oldest.set(None)
    assert oldest.oldest_us is None


def test_what_the_formula_went_by_is_kept_with_the_keys() -> None:
    entries, said = MemoryEntries(), [5_000_000]
    keys = RemoveDuplicatesKeys(retry_us=0, network_us=0, min_msg_time_us=lambda: said[0])
    keys.take(entries, Incoming(channel="c", message_id="x", remove_duplicates_key="k"), 5_000_000)
    for at_us in (5_000_000, 4_000_000, 6_000_000):
        said[0] = at_us
        keys.forget(entries, 10**15, 8)
        assert known_us(entries.numbers) == entries.number(MIN_MSG_TIME) == at_us
    assert known_us({}) is None
