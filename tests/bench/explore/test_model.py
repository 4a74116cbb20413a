"""Does the model say what ADR 007 and the architecture say? Each history with its words."""

import pytest

from bench.explore.history import read_history
from bench.explore.memory_stage import play_in_memory
from bench.explore.model import Model


def due(text: str) -> list[str]:
    """What is due of each reception, in the order in which servers were told."""
    trace = play_in_memory(read_history(text))
    found = Model(trace).judge()
    return [str(found[r.number].words or found[r.number].why) for r in trace.receptions]


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("Drop", "Duplicate dropped(Duplicate) Suppressed"),
        ("Mark", "SoftDuplicate marked Suppressed"),
        ("None", "SoftDuplicate forwarded Suppressed"),
    ],
)
def test_a_copy_by_another_station(strategy: str, words: str) -> None:
    assert due(f"a=strict/{strategy} : a confirm A1 A2") == [
        "NonDuplicate forwarded RX1",
        words,
    ]


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("Drop", "dropped(ResubmissionSuppressed) RX1"),
        ("Mark", "marked RX1"),
        ("None", "forwarded RX1"),
    ],
)
def test_a_confirmed_frame_again_by_its_station(strategy: str, words: str) -> None:
    again = f"DuplicateDueToResubmission {words}"
    limit = "DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed"
    steps = " ; ".join(["a again A1"] * 4)
    assert due(f"a=strict/{strategy} : a confirm A1 ; {steps}") == [
        "NonDuplicate forwarded RX1",
        again,
        again,
        again,
        limit,
    ]


def test_an_unconfirmed_repetition_is_taken_of_a_first_message_only() -> None:
    text = "a={}/Mark : a send A1 ; a again A1 ; a send ; a send A1 ; a again A1"
    old = "DuplicateDueToResubmission dropped(InvalidFrameCounter) NotAsked"
    new = "NonDuplicate forwarded NotAsked"
    first = "DuplicateDueToResubmission marked NotAsked"
    assert due(text.format("relaxed")) == [new, first, new, old]
    assert due(text.format("strict")) == [new, old, new, old]


def test_the_retention_slides_and_ends_after_sixty_seconds_of_silence() -> None:
    text = "a=strict/None : a confirm A1 ; wait 30s ; a again A1 ; wait {} ; a again A2"
    # A frame is on the air for 60 ms: so much less is to be waited for.
    assert due(text.format("59939999us"))[-1] == "SoftDuplicate forwarded Suppressed"
    assert due(text.format("59940ms"))[-1] == "NonDuplicate forwarded RX1"


def test_a_counter_may_be_so_far_ahead_and_no_further() -> None:
    text = "a=strict/None : a send A1 ; a skip{} ; a send A1"
    assert due(text.format(16_383))[-1] == "NonDuplicate forwarded NotAsked"
    too_far = "NonDuplicate dropped(InvalidFrameCounter) NotAsked"
    assert due(text.format(16_384))[-1] == too_far


def test_a_relaxed_device_begins_again_and_a_replay_mutes_nobody() -> None:
    steps = "a confirm A1 ; a send A1 ; a send A1 ; wait 61s ; replay2 A1 ; a send A1"
    assert due(f"a=relaxed/None/from0 : {steps}")[-2:] == [
        "NonDuplicate forwarded RX1",
        "NonDuplicate forwarded NotAsked",
    ]


def test_joins() -> None:
    steps = "a forge-join A1 ; a join A1 A2+10ms ; wait 61s ; replay0 A2"
    assert due(f"a=otaa/None : {steps}") == [
        "- dropped(MicMismatch) NotAsked",
        "NonDuplicate dropped RX1",
        "Duplicate dropped(Duplicate) Suppressed",
        "NonDuplicate dropped(DevNonceUsed) Suppressed",
    ]


def test_nonces_of_a_device_that_counts_have_to_grow() -> None:
    steps = "a join ; a join A1 ; replay1 A1"
    assert due(f"a=otaa/None : {steps}")[-1] == "NonDuplicate dropped RX1"
    used = "NonDuplicate dropped(DevNonceUsed) Suppressed"
    assert due(f"a=otaa/None/1.0.4 : {steps}")[-1] == used


def test_a_link_check_is_answered_as_a_confirmed_frame_is_once() -> None:
    assert due("a=strict/None : a send? A1 A2 ; a again A1") == [
        "NonDuplicate forwarded RX1",
        "SoftDuplicate forwarded Suppressed",
        "DuplicateDueToResubmission dropped(InvalidFrameCounter) Suppressed",
    ]


def test_devices_of_one_dev_addr_are_told_apart() -> None:
    text = "a=strict/None/alike b=strict/Drop/alike : a send A1 ; b send A1 A2 ; b forge A1"
    assert due(text) == [
        "NonDuplicate forwarded NotAsked",
        "NonDuplicate forwarded NotAsked",
        "Duplicate dropped(Duplicate) NotAsked",
        "- dropped(MicMismatch) NotAsked",
    ]


@pytest.mark.parametrize(
    ("late", "window"), [("599ms", "RX1"), ("601ms", "RX2"), ("1601ms", "TooLate")]
)
def test_the_window_of_an_answer(late: str, window: str) -> None:
    (words,) = due(f"a=strict/None : a confirm A1+{late}")
    assert words == f"NonDuplicate forwarded {window}"


@pytest.mark.parametrize(
    ("strategy", "words"),
    [
        ("Drop", "NonDuplicate dropped(DuplicateAtOtherServer) Suppressed NotOwner"),
        ("Mark", "NonDuplicate marked Suppressed NotOwner"),
        ("None", "NonDuplicate forwarded Suppressed NotOwner"),
    ],
)
def test_a_frame_has_one_owner(strategy: str, words: str) -> None:
    text = f"servers=2 a=strict/{strategy} : a confirm A1 B1+50ms ; a confirm B1 A1+50ms"
    mine = "NonDuplicate forwarded RX1 Owner"
    assert due(text) == [mine, words, mine, words]


def test_what_a_server_was_only_told_makes_no_frame_old() -> None:
    text = "servers=2 a=otaa/Mark : a join A1 ; a send A1 B1+100ms ; a send A1 B1 ; a again B1+1s"
    assert due(text)[3] == "NonDuplicate marked NotAsked NotOwner"


def test_a_pinned_device_is_nobody_elses_business() -> None:
    assert due("servers=2 a=strict/None/pinnedA : a confirm B1 A1+10ms") == [
        "- dropped(BelongsToAnotherServer) Suppressed",
        "NonDuplicate forwarded RX1",
    ]


def test_the_store_is_away() -> None:
    text = "servers=2 {} a=strict/None : A store 5s ; a confirm A1"
    assert due(text.format("open")) == ["NonDuplicate forwarded Suppressed Unavailable"]
    closed = "NonDuplicate dropped(StoreUnavailable) Suppressed Unavailable"
    assert due(text.format("closed")) == [closed]


def test_what_the_application_refused_was_not_heard() -> None:
    assert due("a=strict/Drop : A refuse ; a confirm A1 ; a again A2") == [
        "NonDuplicate dropped(UpstreamUnavailable) Suppressed",
        "NonDuplicate forwarded RX1",
    ]


def test_a_session_ends_with_the_first_frame_of_a_later_one() -> None:
    steps = "a join A1 ; a send A1 ; a join A1 ; a send A1 ; wait 61s ; replay2 A1"
    assert due(f"a=otaa/None : {steps} ; replay1 A1 ; replay0 A1")[-3:] == [
        "- dropped(UnknownDevice) NotAsked",
        "NonDuplicate dropped(DevNonceUsed) Suppressed",
        "NonDuplicate dropped(InvalidFrameCounter) NotAsked",
    ]


def test_what_nobody_can_know_is_said_with_its_reason() -> None:
    text = "servers=2 a=relaxed/None : A store 1s ; a send A1 ; wait 2s ; a send B1 ; a again A1"
    assert "nobody could say whose it was" in due(text)[-1]


def test_what_an_owner_gives_back_after_a_while_is_new_where_it_was_refused() -> None:
    text = "servers=2 a=strict/{} : A refuse 1500ms ; a confirm A1 B1+10ms ; wait 2s ; a again B1"
    gone = "NonDuplicate dropped(UpstreamUnavailable) Suppressed Owner"
    again = "DuplicateDueToResubmission forwarded RX1 Owner"
    refused = "NonDuplicate marked Suppressed NotOwner"
    assert due(text.format("Mark")) == [gone, refused, again]
    assert due(text.format("Drop"))[2] == again


def test_more_that_comes_before_a_refusal_is_unknowable() -> None:
    text = "servers=2 a=strict/Drop : A refuse 1500ms ; a send A1 ; a send B1"
    assert due(text)[0] == "a message under way that is refused when more has come"


def test_after_the_store_was_emptied_only_laws_hold() -> None:
    assert due("a=strict/Drop : a send A1 ; empty ; a send A1")[1] == "the store was emptied"


@pytest.mark.parametrize(
    ("wait", "words"), [("9s", "a station has not told its clock"), ("11s", "RX1")]
)
def test_a_station_that_does_not_tell_its_clock_is_known_by_its_frames(
    wait: str, words: str
) -> None:
    (found,) = due(f"a=strict/Drop : A1 restart~ 5ms ; wait {wait} ; a confirm A1")
    assert found.endswith(words)


def test_a_frame_of_the_session_before_does_not_move_the_clock_of_the_next() -> None:
    text = "a=strict/Drop : wait 30s ; a send A1 A2+2s ; A2 restart= 50ms ; wait 3s ; a confirm A2"
    assert due(text)[-1] == "NonDuplicate forwarded RX1"


def test_of_two_frames_with_one_counter_nobody_knows_which_is_answered_again() -> None:
    first = "A slow 1s ; a confirm A1 ; a restart ; a confirm"
    again = "a again A1 ; a again A1 ; a again A1 ; a again A1"
    words = due(f"a=strict/None : {first} ; replay1 A1 ; {again}")
    assert words[1] == "which of two frames with one counter is answered again"
    assert set(words[2:]) <= {words[1], "a copy of something unknowable"}


def test_what_waits_in_a_former_life_is_answered_in_that_one() -> None:
    first = "A slow 1s ; a confirm A1 ; a restart ; a confirm A1"
    again = "a again A1 ; a again A1 ; a again A1 ; a again A1"
    words = due(f"a=relaxed/Drop : {first} ; replay1 A1 ; {again}")
    assert [word.split()[1] for word in words[-4:]] == [
        *["dropped(ResubmissionSuppressed)"] * 3,
        "dropped(ResubmissionLimit)",
    ]


def test_a_copy_that_tries_again_may_meet_the_next_disturbance() -> None:
    text = "A refuse 100ms ; a confirm A2 A1 ; A refuse 100ms ; wait 100ms ; a send A1"
    assert due(f"a=strict/Mark : {text}")[2] == "which message the application disturbs"
