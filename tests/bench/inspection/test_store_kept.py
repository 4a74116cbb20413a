from dataclasses import replace
from typing import Any

import pytest

from bench.capture.reading import Event
from bench.inspection.known_device import KnownDevice, Session
from bench.inspection.store import Kept, KeptSession, StoreInspection
from bench.virtual.lorawan.air_interface import Keys

ALPHA, ADDR = "70B3D57ED0000004", "26000004"
KEYS = Keys(bytes(16), bytes(range(16)))
BEGIN: Event = {"kind": "case.begin", "t_us": 0, "rig": "simulated"}
SESSION = KeptSession(ADDR, KEYS, 11, 6, {11: 1}, {11: 2}, 0, 1, None, 0, (1, False), 3)
HEARD: Any = {"newest": 11, "nb_trans_asked": 3}
KEPT = Kept(ALPHA, (SESSION,), frozenset({7}))


def outcome(f_cnt: int, status: str = "NonDuplicate", **facts: Any) -> Event:
    of_frame = {"dev_eui": ALPHA, "dev_addr": ADDR, "f_cnt": f_cnt, "confirmed": True}
    became = {"status": status, "upstream": "forwarded", "answer": "RX1"}
    return {"kind": "lns.outcome", "t_us": 0, **of_frame, **became, **facts}


JOINED: Event = {
    "kind": "lns.outcome", "t_us": 0, "dev_eui": ALPHA, "frame_id": f"0:{ALPHA}:7",
    "status": "NonDuplicate", "upstream": "dropped", "answer": "RX1",
}  # fmt: skip
STORY = [
    BEGIN,
    JOINED,
    outcome(10),
    outcome(11),
    outcome(11, "DuplicateDueToResubmission"),
    outcome(11, "SoftDuplicate", answer="Suppressed"),
    outcome(9, reason="InvalidFrameCounter", upstream="dropped"),
]


def wrong(kept: Kept, story: list[Event] = STORY, *sessions: Session) -> list[str]:
    known = sessions or (Session(ADDR, KEYS, 0, f_cnt_down=5, f_cnt_up=9, **HEARD),)
    device = KnownDevice(ALPHA, bytes(16), list(known), loses_no_f_cnt_down=True)
    inspection = StoreInspection()
    for event in story:
        inspection.take(event)
    return [found.text.partition(": ")[2] for found in inspection.wrong({ALPHA: device}, [kept])]


def test_what_frames_and_answers_have_come_to_is_kept() -> None:
    assert wrong(KEPT) == []


@pytest.mark.parametrize(
    ("field", "value", "told"),
    [
        ("f_cnt_up", 10, "newest FCntUp: expected 11, observed 10"),
        ("f_cnt_down", 5, "next FCntDown: expected 6, observed 5"),
        ("f_cnt_down", 7, "next FCntDown: expected 6, observed 7"),
        ("resubmissions", {}, "repeated answers: expected {11: 1}, observed {}"),
        ("resubmissions", {10: 1, 11: 1}, "repeated answers: expected {11: 1}, observed {10: 1,"),
        ("copies", {11: 1}, "copies of the newest frame: expected 2, observed 1"),
        ("keys", Keys(bytes(16), bytes(16)), "keys: expected those of its join, observed others"),
        ("rx_delay_s", 2, "RX1DROffset, RxDelay and channels: expected (0, 1, 0), observed (0, 2"),
        ("rx2_dr", 3, "RX2DataRate: expected 0, observed 3"),
        (
            "agreed",
            (2, False),
            "NbTrans and dwell times granted: expected (1, False), observed (2,",
        ),
        ("nb_trans_asked", 0, "NbTrans asked for: expected 3, observed 0"),
    ],
)
def test_what_is_kept_otherwise_is_told(field: str, value: object, told: str) -> None:
    other = replace(SESSION, **{field: value})
    assert [text.startswith(told) for text in wrong(replace(KEPT, sessions=(other,)))] == [True]


def test_no_counter_has_more_than_three_repeated_answers_whatever_was_disturbed() -> None:
    restart: Event = {"kind": "case.lns", "t_us": 0, "event": "restart"}
    for times, told in (
        (3, []),
        (4, ["repeated answers: expected 3 of a counter, observed {9: 4}"]),
    ):
        session = replace(SESSION, resubmissions={9: times})
        assert wrong(replace(KEPT, sessions=(session,)), [*STORY, restart]) == told


def test_copies_are_counted_of_the_first_messages_and_of_sixteen_counters_more() -> None:
    sixteen = {0: 1, 1: 1, **dict.fromkeys(range(2, 17), 1), 11: 2, 17: 1}
    for copies, told in (
        (sixteen, []),
        ({**sixteen, 18: 1}, ["counters with copies: expected 16 at most, observed 17"]),
    ):
        assert wrong(replace(KEPT, sessions=(replace(SESSION, copies=copies),))) == told


def test_a_dev_nonce_that_is_not_kept_is_told() -> None:
    found = wrong(replace(KEPT, dev_nonces=frozenset()))
    assert found == ["DevNonces: expected [7], observed []"]


def test_the_session_in_use_is_there_and_none_before_it() -> None:
    sessions = Session("26000001", KEYS, 0), Session(ADDR, KEYS, 0, f_cnt_down=5)
    old = replace(SESSION, dev_addr="26000001", f_cnt_up=None, f_cnt_down=0, resubmissions={})
    assert wrong(KEPT, STORY, *sessions) == []
    both = replace(KEPT, sessions=(SESSION, old))
    assert wrong(both, STORY, *sessions) == [
        "session that is over: expected none, observed 26000001"
    ]
    assert "session in use: expected 26000004" in wrong(replace(KEPT, sessions=()))[0]


@pytest.mark.parametrize(
    "event",
    [
        {"kind": "case.lns", "t_us": 0, "event": "restart"},
        {"kind": "fault.begin", "t_us": 0, "seam": "store", "fault": "cut"},
        {"kind": "case.begin", "t_us": 0, "rig": "emulated"},
    ],
)
def test_nothing_is_sure_where_somebody_disturbs_servers(event: Event) -> None:
    assert wrong(replace(KEPT, dev_nonces=frozenset()), [*STORY, event]) == []


def test_of_a_join_that_is_named_wrongly_nobody_knows_the_dev_nonce() -> None:
    named = {**JOINED, "frame_id": ALPHA}
    assert wrong(KEPT, [named if event is JOINED else event for event in STORY]) == []


def test_a_life_that_begins_again_has_no_newest_counter() -> None:
    assert (
        wrong(replace(KEPT, sessions=(replace(SESSION, f_cnt_up=0),)), [*STORY, outcome(0)]) == []
    )


def test_a_frame_with_the_counter_that_servers_began_with_repeats_one_of_before() -> None:
    session = replace(SESSION, f_cnt_up=9, f_cnt_down=0, resubmissions={9: 1}, copies={9: 2})
    known = Session(ADDR, KEYS, 0, f_cnt_up=9)
    soft = outcome(9, "SoftDuplicate", answer="Suppressed")
    story = [BEGIN, JOINED, soft, outcome(9)]
    assert wrong(replace(KEPT, sessions=(session,)), story, known) == []
