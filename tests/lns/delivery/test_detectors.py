"""The detectors together: who decides, and who remembers what."""

import doctest

import pytest

from lns.delivery import detectors
from lns.delivery.detectors import (
    MIN_MSG_TIME,
    RETENTION_MAX_US,
    WINDOW_MAX_US,
    WINDOW_MIN_US,
    ConfigurationError,
    Detector,
    Detectors,
    Duplicate,
    MessageIdWindow,
    MinMsgTime,
    RemoveDuplicatesKeys,
    SequenceTracker,
    known_us,
    statement,
    time_us,
    topic_of,
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
        ("253402300799", 253_402_300_799_000_000),
    ],
)
def test_a_time_may_be_written_in_two_ways(text: str, us: int | None) -> None:
    assert time_us(text) == us


@pytest.mark.parametrize("text", ["soon", "-1", "1e9", "2026-13-01", "[1]"])
def test_what_is_no_time_is_an_error(text: str) -> None:
    with pytest.raises(ValueError):
        MinMsgTime(None, no_retries).hear(A, text.encode())


@pytest.mark.parametrize(
    ("payload", "said"),
    [
        (b"253402300800", "253402300800 seconds since 1970 are after the year 9999"),
        (b"1795140030393", "1795140030393 seconds since 1970 are after the year 9999"),
        (b"9" * 65, "a time has no 65 characters"),
        (b'{"lns":' + b"[" * 60_000, "a time has no 60007 characters"),
        (b'{"lns":"\xff"}', "can't decode byte 0xff"),
    ],
)
def test_a_statement_that_would_end_a_consumer_or_its_memory_is_none(
    payload: bytes, said: str
) -> None:
    oldest = MinMsgTime(None, no_retries)
    with pytest.raises(ValueError, match=said):
        oldest.hear(A, payload)
    assert oldest.oldest_us is None


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
