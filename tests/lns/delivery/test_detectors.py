"""The detectors together: who decides, and who remembers what."""

import doctest

import pytest

from lns.delivery import detectors
from lns.delivery.detectors import (
    Detector,
    Detectors,
    Duplicate,
    MessageIdWindow,
    RemoveDuplicatesKeys,
    SequenceTracker,
)
from lns.delivery.incoming import Incoming
from lns.store.inbox_store import MemoryEntries, Table
from tests.lns.delivery.arriving import SECOND_US, incoming

ALL = Detectors(
    MessageIdWindow(20 * SECOND_US), SequenceTracker(), RemoveDuplicatesKeys(retry_us=0)
)


class Consumed:
    """Takes messages as an inbox does."""

    def __init__(self, detectors: Detectors = ALL) -> None:
        self.detectors = detectors
        self.entries = MemoryEntries()
        self.position = 0

    def take(self, message: Incoming, now_us: int = 0) -> Duplicate | None:
        found = self.detectors.judge(self.entries, message, now_us)
        if found is None:
            self.position += 1
            self.detectors.remember(self.entries, message, now_us, self.position)
        return found


def message(message_id: str, number: int | None, key: str | None) -> Incoming:
    return incoming(message_id, sequence_number=number, remove_duplicates_key=key)


def test_the_examples_of_the_documentation() -> None:
    found = doctest.testmod(detectors)
    assert found.failed == 0 and found.attempted > 3


@pytest.mark.parametrize(
    ("again", "by"),
    [
        (message("X", 2, "k"), Detector.WINDOW),  # all three know it; the first one decides
        (message("X", 9, "l"), Detector.WINDOW),
        (message("Y", 2, "k"), Detector.SEQUENCE),
        (message("Y", 2, "l"), Detector.SEQUENCE),
        (message("Y", 3, "k"), Detector.KEY),
        (message("Y", None, "k"), Detector.KEY),
    ],
)
def test_the_first_one_that_recognises_a_message_decides(again: Incoming, by: Detector) -> None:
    consumed = Consumed()
    assert consumed.take(message("X", 2, "k")) is None
    assert consumed.take(again) == Duplicate(by, 1)


@pytest.mark.parametrize("off", ["window", "sequence", "keys"])
def test_each_one_can_be_off(off: str) -> None:
    known = {"window": ALL.window, "sequence": ALL.sequence, "keys": ALL.keys} | {off: None}
    consumed = Consumed(Detectors(**known))  # type: ignore[arg-type]
    assert consumed.take(message("X", 2, "k")) is None
    recognised_by_one = {
        "window": message("X", 3, "l"),
        "sequence": message("Y", 2, "l"),
        "keys": message("Y", 3, "k"),
    }
    for name, again in recognised_by_one.items():
        found = Consumed(Detectors(**known))  # type: ignore[arg-type]
        found.take(message("X", 2, "k"))
        assert (found.take(again) is None) == (name == off)


def test_with_none_of_them_everything_passes() -> None:
    """J09."""
    consumed = Consumed(Detectors(None, None, None))
    assert [consumed.take(message("X", 2, "k")) for _ in range(3)] == [None, None, None]
    assert consumed.detectors.places(message("X", 2, "k")) == ()


def test_what_one_ignores_none_of_them_remembers() -> None:
    consumed = Consumed()
    assert consumed.take(message("X", 2, "k")) is None
    assert consumed.take(message("Y", 5, "k")) is not None  # by its key
    assert consumed.take(message("Z", 3, "l")) is None  # the stream is still at 2
    assert consumed.take(message("Y", 4, "m")) is None  # nobody has met Y


def test_a_redelivered_1_is_recognised_by_its_id_and_resets_nothing() -> None:
    """The sequence numbers alone would take 1, 2, 1, 2 four times (J12)."""
    consumed = Consumed()
    messages = [message("A", 1, None), message("B", 2, None)]
    found = [consumed.take(one) for one in messages * 2]
    assert [one is None for one in found] == [True, True, False, False]


def test_copies_of_one_frame_with_ids_of_their_own_are_recognised_by_their_key() -> None:
    """I07, strategy None: two unmarked messages for one frame, here of two servers too."""
    consumed = Consumed()
    frame = "70B3D57ED0000001-01ABCDEF-42"
    first = incoming(frame, sequence_number=7, remove_duplicates_key=frame)
    copy = incoming(f"{frame}-S2-1", sequence_number=8, remove_duplicates_key=frame)
    other = incoming(
        f"{frame}-S3-1", channel="lns-b", sequence_number=3, remove_duplicates_key=frame
    )
    assert consumed.take(first) is None
    assert consumed.take(copy) == Duplicate(Detector.KEY, 1)
    assert consumed.take(other) == Duplicate(Detector.KEY, 1)


def test_every_place_that_is_touched_is_named_before() -> None:
    for one in (message("X", 2, "k"), message("X", None, None), message("X", 1, None)):
        consumed = Consumed()
        consumed.take(one)
        touched = {(table, name) for table in Table for name in consumed.entries.marks[table]}
        assert touched == set(ALL.places(one))


def test_each_table_is_forgotten_by_its_own_rule() -> None:
    consumed = Consumed()
    consumed.take(message("X", 2, "k"))
    consumed.detectors.forget(consumed.entries, 20 * SECOND_US, at_most=8)
    sizes = [len(consumed.entries.marks[table]) for table in Table]
    assert sizes == [0, 1, 1]
    consumed.detectors.forget(consumed.entries, 16 * 86_400 * SECOND_US, at_most=8)
    assert [len(consumed.entries.marks[table]) for table in Table] == [0, 1, 0]


def test_a_store_names_what_it_was_created_with() -> None:
    entries = MemoryEntries()
    window = MessageIdWindow(40 * SECOND_US, partitioned=True, sessions=True)
    Detectors(window=window).settle(entries, "it", 0)
    names = ("window_us", "partitioned", "sessions")
    assert [entries.number(name) for name in names] == [40 * SECOND_US, 1, 1]
