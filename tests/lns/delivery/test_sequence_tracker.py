"""The sequence numbers of a stream (edge cases J11, J12, J15 and J16)."""

import pytest

from lns.delivery.detectors import Detector, Duplicate, SequenceTracker
from lns.delivery.incoming import NUMBER_MAX
from lns.store.inbox_store import MemoryEntries
from tests.lns.delivery.arriving import incoming


def accepted(numbers: list[int], *, checking: bool = True) -> list[int]:
    """The numbers that are accepted of one stream."""
    tracker, entries = SequenceTracker(perform_duplicate_checking=checking), MemoryEntries()
    found = [
        number
        for number in numbers
        if tracker.take(entries, incoming("m", sequence_number=number), 0) is None
    ]
    assert tracker.num_dup_msgs_rcvd(entries) == len(numbers) - len(found)
    return found


@pytest.mark.parametrize(
    ("numbers", "passing"),
    [
        ([1, 2, 3], [1, 2, 3]),
        ([1, 2, 2, 3, 3, 3, 4], [1, 2, 3, 4]),
        ([5, 5, 4, 6], [5, 6]),  # whoever listens later begins anywhere
        ([1, 2, 5, 3], [1, 2, 5]),  # J11: 3 is late, and lost
        ([1, 2, 1, 2], [1, 2, 1, 2]),  # J12: 1 again is a new space, and 2 is new in it
        ([1, 1, 1], [1, 1, 1]),
        ([1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3], [1, 2, 3, 4, 5, 6, 7, 8, 9, 1, 2, 3]),  # J15
        ([9, 1, 9, 9], [9, 1, 9]),
        ([NUMBER_MAX, NUMBER_MAX, NUMBER_MAX - 1], [NUMBER_MAX]),
    ],
)
def test_what_is_not_beyond_the_last_number_is_a_duplicate(
    numbers: list[int], passing: list[int]
) -> None:
    assert accepted(numbers) == passing


def test_switched_off_everything_passes_and_nothing_is_counted() -> None:
    """J16."""
    assert accepted([1, 2, 2, 1, 5, 3], checking=False) == [1, 2, 2, 1, 5, 3]


def test_switched_on_again_it_knows_that_a_stream_began_anew_meanwhile() -> None:
    on, off = SequenceTracker(), SequenceTracker(perform_duplicate_checking=False)
    entries = MemoryEntries()
    assert on.take(entries, incoming("a", sequence_number=900), 0) is None
    for number in (1, 2):
        assert off.take(entries, incoming("b", sequence_number=number), 0) is None
    assert off.num_dup_msgs_rcvd(entries) == 0
    assert on.take(entries, incoming("c", sequence_number=3), 0) is None


def test_whoever_checks_nothing_shows_no_duplicates_of_before() -> None:
    on, entries = SequenceTracker(), MemoryEntries()
    on.take(entries, incoming("a", sequence_number=7), 0)
    on.take(entries, incoming("b", sequence_number=7), 0)
    off = SequenceTracker(perform_duplicate_checking=False)
    assert (on.num_dup_msgs_rcvd(entries), off.num_dup_msgs_rcvd(entries)) == (1, 0)


def test_a_duplicate_tells_how_far_the_stream_was() -> None:
    tracker, entries = SequenceTracker(), MemoryEntries()
    tracker.take(entries, incoming("a", sequence_number=4), 0, position=40)
    tracker.take(entries, incoming("b", sequence_number=6), 0, position=41)
    found = tracker.take(entries, incoming("c", sequence_number=5), 0)
    assert found == Duplicate(Detector.SEQUENCE, 41)


@pytest.mark.parametrize("other", [{"bus": "amqp"}, {"channel": "other"}, {"qos": 2}])
def test_bus_channel_and_qos_are_a_stream(other: dict[str, str | int]) -> None:
    tracker, entries = SequenceTracker(), MemoryEntries()
    assert tracker.take(entries, incoming("a", sequence_number=7), 0) is None
    assert tracker.take(entries, incoming("b", sequence_number=7, **other), 0) is None
    assert tracker.take(entries, incoming("c", sequence_number=7), 0) is not None
    assert tracker.take(entries, incoming("d", sequence_number=7, **other), 0) is not None


def test_no_two_streams_are_one() -> None:
    tracker, entries = SequenceTracker(), MemoryEntries()
    for bus, channel in [("a", "b:c"), ("a:b", "c"), ("a", "1:b:c"), ("", "a:b:c")]:
        message = incoming("m", bus=bus, channel=channel, sequence_number=7)
        assert tracker.take(entries, message, 0) is None


def test_a_message_without_a_number_passes_and_changes_nothing() -> None:
    tracker, entries = SequenceTracker(), MemoryEntries()
    assert tracker.take(entries, incoming("a", sequence_number=7), 0) is None
    assert tracker.take(entries, incoming("b"), 0) is None
    assert tracker.take(entries, incoming("c", sequence_number=7), 0) is not None


def test_time_is_nothing_to_it() -> None:
    tracker, entries = SequenceTracker(), MemoryEntries()
    assert tracker.take(entries, incoming("a", sequence_number=7), 0) is None
    assert tracker.take(entries, incoming("b", sequence_number=7), 2**60) is not None
