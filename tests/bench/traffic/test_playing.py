"""The words that are due, written out for one situation after the other."""

from dataclasses import replace

import pytest

from bench.traffic import ExpectedWords
from bench.traffic.recording import Device, Log, Uplink
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import Activation

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
DEV = Eui("0000000000000001")
SECOND = 1_000_000
FORWARDED = "NonDuplicate forwarded NotAsked"
BAD_COUNTER = "dropped(InvalidFrameCounter) NotAsked"
BLANK = Uplink(
    at_us=0, phy=b"", frame_id="", dev_eui=DEV, dr=5, freq_hz=868_100_000, hearings=(), f_cnt=0,
    f_port=1,
)  # fmt: skip


def frame(f_cnt: int, *, confirmed: bool = False, port: int = 1, mic: str = "00") -> Uplink:
    return replace(
        BLANK,
        frame_id=f"26000001:{f_cnt}:{mic}",
        f_cnt=f_cnt,
        f_port=port,
        confirmed=confirmed,
        wants_answer=confirmed,
    )


def join(dev_nonce: int, *, join_eui: str = "AA") -> Uplink:
    frame_id = f"{join_eui}:{DEV}:{dev_nonce}"
    return replace(BLANK, frame_id=frame_id, f_cnt=None, join_eui=Eui(join_eui), wants_answer=True)


def expected(strategy: str, *, relaxed: bool = False, f_cnt_up: int | None = None) -> ExpectedWords:
    device = Device(
        name="d", dev_eui=DEV, activation=Activation.ABP, relaxed_f_cnt=relaxed,
        f_cnt_up=f_cnt_up, join_eui=Eui("AA"),
    )  # fmt: skip
    return ExpectedWords(Log("", "", (device,), {}, ()), strategy)


@pytest.mark.parametrize(
    ("strategy", "other"),
    [
        ("Drop", "Duplicate dropped(Duplicate) NotAsked"),
        ("Mark", "SoftDuplicate marked NotAsked"),
        ("None", "SoftDuplicate forwarded NotAsked"),
    ],
)
def test_copies_of_an_unconfirmed_frame(strategy: str, other: str) -> None:
    due = expected(strategy)
    assert due.of(frame(7), WEST, 0) == FORWARDED
    assert due.of(frame(7), EAST, 1) == other
    assert due.of(frame(7), WEST, 2) == f"DuplicateDueToResubmission {BAD_COUNTER}"


@pytest.mark.parametrize(
    ("strategy", "other", "same"),
    [
        ("Drop", "Duplicate dropped(Duplicate)", "dropped(ResubmissionSuppressed)"),
        ("Mark", "SoftDuplicate marked", "marked"),
        ("None", "SoftDuplicate forwarded", "forwarded"),
    ],
)
def test_copies_of_a_confirmed_frame(strategy: str, other: str, same: str) -> None:
    due = expected(strategy)
    sent = frame(7, confirmed=True)
    assert due.of(sent, WEST, 0) == "NonDuplicate forwarded RX1"
    assert due.of(sent, EAST, 1) == f"{other} Suppressed"
    for at_us in (2, 3, 4):
        assert due.of(sent, WEST, at_us) == f"DuplicateDueToResubmission {same} RX1"
    limit = "DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed"
    assert due.of(sent, WEST, 5) == limit


def test_the_answers_begin_anew_with_the_next_counter() -> None:
    due = expected("None")
    for at_us in range(4):
        due.of(frame(7, confirmed=True), WEST, at_us)
    due.of(frame(8), WEST, 5)
    assert due.of(frame(7, confirmed=True), WEST, 6).endswith(
        "dropped(InvalidFrameCounter) Suppressed"
    )


def test_the_retention_slides_with_every_copy() -> None:
    due = expected("Mark")
    due.of(frame(7), WEST, 0)
    assert due.of(frame(7), EAST, 59 * SECOND).startswith("SoftDuplicate")
    assert due.of(frame(7), EAST, 119 * SECOND - 1).startswith("SoftDuplicate")
    assert due.of(frame(7), EAST, 179 * SECOND - 1) == f"NonDuplicate {BAD_COUNTER}"
    assert due.of(frame(7), EAST, 179 * SECOND) == f"DuplicateDueToResubmission {BAD_COUNTER}"


def test_a_confirmed_frame_is_answered_again_after_the_retention() -> None:
    due = expected("None")
    due.of(frame(7, confirmed=True), WEST, 0)
    again = due.of(frame(7, confirmed=True), EAST, 60 * SECOND)
    assert again == "NonDuplicate forwarded RX1"


@pytest.mark.parametrize(
    ("newest", "f_cnt", "accepted"),
    [
        (None, 0, True),
        (None, 16_384, True),
        (None, 16_385, False),
        (9, 10, True),
        (9, 9, False),
        (9, 8, False),
        (9, 16_393, True),
        (9, 16_394, False),
        (65_535, 65_536, True),
    ],
)
def test_counters(newest: int | None, f_cnt: int, accepted: bool) -> None:
    words = expected("None", f_cnt_up=newest).of(frame(f_cnt), WEST, 0)
    assert words == (FORWARDED if accepted else f"NonDuplicate {BAD_COUNTER}")


def test_a_late_copy_of_an_older_frame_is_none() -> None:
    due = expected("Mark")
    due.of(frame(7), WEST, 0)
    due.of(frame(8), WEST, 1)
    assert due.of(frame(7), EAST, 2) == f"SoftDuplicate {BAD_COUNTER}"


def test_a_personalised_device_may_begin_again() -> None:
    due = expected("Mark", relaxed=True, f_cnt_up=500)
    assert due.of(frame(0), WEST, 0) == FORWARDED
    assert due.of(frame(0, mic="01"), WEST, 1) == FORWARDED
    again = due.of(frame(0, mic="01"), WEST, 2)
    assert again == "DuplicateDueToResubmission marked NotAsked"
    assert due.of(frame(0, mic="01"), EAST, 3) == "SoftDuplicate marked NotAsked"
    assert due.of(frame(1), WEST, 4) == FORWARDED


def test_the_first_message_again_under_drop() -> None:
    due = expected("Drop", relaxed=True)
    due.of(frame(0), WEST, 0)
    assert due.of(frame(0), WEST, 1) == (
        "DuplicateDueToResubmission dropped(ResubmissionSuppressed) NotAsked"
    )


def test_nothing_of_port_0_goes_to_the_application() -> None:
    due = expected("Mark")
    assert due.of(frame(7, port=0), WEST, 0) == "NonDuplicate dropped NotAsked"
    assert due.of(frame(7, port=0), EAST, 1) == "SoftDuplicate dropped NotAsked"


def test_joins() -> None:
    due = expected("Mark")
    assert due.of(join(1), WEST, 0) == "NonDuplicate dropped RX1"
    assert due.of(join(1), EAST, 1) == "Duplicate dropped(Duplicate) Suppressed"
    assert due.of(join(1), WEST, 2) == "Duplicate dropped(Duplicate) Suppressed"
    used = "NonDuplicate dropped(DevNonceUsed) Suppressed"
    assert due.of(join(1), WEST, 62 * SECOND) == used
    foreign = "NonDuplicate dropped(UnknownDevice) Suppressed"
    assert due.of(join(2, join_eui="BB"), WEST, 63 * SECOND) == foreign


def test_who_is_not_known_and_who_is_not_proven() -> None:
    due = expected("Mark")
    stranger = replace(frame(7), dev_eui=Eui("0000000000000002"))
    assert due.of(stranger, WEST, 0) == "- dropped(UnknownDevice) NotAsked"
    spoilt = replace(frame(7), genuine=False)
    assert due.of(spoilt, WEST, 1) == "- dropped(MicMismatch) NotAsked"
    assert due.of(frame(7), WEST, 2) == FORWARDED
