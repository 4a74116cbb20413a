"""The window of message ids: its limits, its edges, what is compared (edge cases J01 to J04)."""

import pytest

from lns.delivery.detectors import (
    WINDOW_MAX_US,
    WINDOW_MIN_US,
    ConfigurationError,
    Detector,
    Duplicate,
    MessageIdWindow,
)
from lns.store.inbox_store import MemoryEntries, Table
from tests.lns.delivery.arriving import SECOND_US, incoming

WINDOW = MessageIdWindow(20 * SECOND_US)


def accepted(*times_us: int, window: MessageIdWindow = WINDOW) -> list[bool]:
    """Whether each of several messages with one id is accepted."""
    entries = MemoryEntries()
    return [window.take(entries, incoming("X"), at_us) is None for at_us in times_us]


@pytest.mark.parametrize(
    ("again_us", "is_accepted"),
    [
        (0, False),
        (19_900_000, False),  # J01
        (19_999_999, False),
        (20_000_000, True),  # the window has 20 s, and this is no part of it
        (20_000_001, True),
        (20_100_000, True),  # J02
    ],
)
def test_a_repeat_is_ignored_until_the_window_is_over(again_us: int, is_accepted: bool) -> None:
    assert accepted(0, again_us) == [True, is_accepted]


def test_the_window_begins_with_the_first_and_does_not_slide() -> None:
    """J03; at level 1 the same three copies would be one."""
    assert accepted(0, 15_000_000, 30_000_000) == [True, False, True]
    assert accepted(0, 15_000_000, 30_000_000, 49_999_999, 50_000_000) == [
        True,
        False,
        True,
        False,
        True,
    ]


def test_a_repeat_tells_what_it_repeats() -> None:
    entries = MemoryEntries()
    assert WINDOW.take(entries, incoming("X"), 0, position=7) is None
    assert WINDOW.take(entries, incoming("X"), 1) == Duplicate(Detector.WINDOW, 7)


@pytest.mark.parametrize("window_us", [WINDOW_MIN_US, 600_000_000, WINDOW_MAX_US])
def test_a_window_has_20_seconds_to_7_days(window_us: int) -> None:
    assert MessageIdWindow(window_us).window_us == window_us
    assert accepted(0, window_us - 1, window_us, window=MessageIdWindow(window_us)) == [
        True,
        False,
        True,
    ]


@pytest.mark.parametrize(
    ("window_us", "said"),
    [
        (19 * SECOND_US, "a window of 19 s cannot be; it is 20 s to 7 d"),  # J04
        (WINDOW_MIN_US - 1, "a window of 19999999 us cannot be; it is 20 s to 7 d"),
        (WINDOW_MAX_US + SECOND_US, "a window of 604801 s cannot be; it is 20 s to 7 d"),  # J04
        (0, "a window of 0 s cannot be; it is 20 s to 7 d"),
        (-1, "a window of -1 us cannot be; it is 20 s to 7 d"),
    ],
)
def test_another_window_is_an_error_that_says_the_limits(window_us: int, said: str) -> None:
    with pytest.raises(ConfigurationError) as error:
        MessageIdWindow(window_us)
    assert str(error.value) == said


def test_the_window_cannot_be_changed() -> None:
    assert MessageIdWindow().window_us == 600_000_000
    with pytest.raises(AttributeError):
        WINDOW.window_us = 30_000_000  # type: ignore[misc]


def test_nothing_but_the_id_is_compared() -> None:
    entries = MemoryEntries()
    first = incoming("X", partition_key="p", sequence_number=1, body=b'{"a": 1}')
    other = incoming("X", partition_key="q", sequence_number=9, body=b"{}", qos=0)
    assert WINDOW.take(entries, first, 0) is None
    assert WINDOW.take(entries, other, 1) is not None
    assert WINDOW.take(entries, incoming("Y", partition_key="p", body=b'{"a": 1}'), 1) is None


def test_each_topic_has_ids_of_its_own() -> None:
    entries = MemoryEntries()
    one = [incoming("X", channel="a"), incoming("X", channel="b"), incoming("X", bus="c")]
    assert [WINDOW.take(entries, message, 0) for message in one] == [None, None, None]
    assert [WINDOW.take(entries, message, 0) is None for message in one] == [False, False, False]
    mixed = [
        incoming("b:X", channel="a"),
        incoming("X", channel="a:b"),
        incoming("1:X", channel=""),
    ]
    assert [WINDOW.take(entries, message, 0) for message in mixed] == [None, None, None]


def test_with_partitions_the_partition_key_is_compared_too() -> None:
    window, entries = MessageIdWindow(partitioned=True), MemoryEntries()
    pairs = [("X", "p"), ("X", "q"), ("X", "p"), ("X", ""), ("Y", "p")]
    assert [
        window.take(entries, incoming(one, partition_key=key), 0) is None for one, key in pairs
    ] == [True, True, False, True, True]


def test_no_two_pairs_are_one() -> None:
    window, entries = MessageIdWindow(partitioned=True), MemoryEntries()
    pairs = [("b:c", "a"), ("c", "a:b"), ("c", "1:a:b"), ("b:c", "1:a"), (":c", "a:b"), ("c", "")]
    for message_id, key in pairs:
        assert window.take(entries, incoming(message_id, partition_key=key), 0) is None


def test_with_sessions_partition_key_and_session_id_are_equal() -> None:
    window = MessageIdWindow(partitioned=True, sessions=True)
    assert window.fits(incoming("X", partition_key="p", session_id="p"))
    assert not window.fits(incoming("X", partition_key="p", session_id="q"))
    assert not window.fits(incoming("X", partition_key="p"))
    assert MessageIdWindow(partitioned=True).fits(incoming("X", partition_key="p", session_id="q"))


def test_what_it_costs_is_bounded_by_the_window() -> None:
    entries = MemoryEntries()
    for second in range(200):
        at_us = second * SECOND_US
        WINDOW.take(entries, incoming(f"m{second}"), at_us)
        WINDOW.forget(entries, at_us, at_most=8)
    assert len(entries.marks[Table.WINDOW]) == 20


def test_an_id_is_forgotten_when_its_window_is_over_and_not_before() -> None:
    entries = MemoryEntries()
    WINDOW.take(entries, incoming("X"), 0)
    WINDOW.forget(entries, 19_999_999, at_most=8)
    assert len(entries.marks[Table.WINDOW]) == 1
    WINDOW.forget(entries, 20_000_000, at_most=8)
    assert len(entries.marks[Table.WINDOW]) == 0


def test_a_clock_that_is_set_back_lengthens_the_window_and_one_set_forward_shortens_it() -> None:
    hour_us = 3600 * SECOND_US
    assert accepted(hour_us, 0, hour_us + 19_999_999, hour_us + 20_000_000) == [
        True,
        False,
        False,
        True,
    ]
    assert accepted(0, hour_us) == [True, True]
