import json

import pytest

from bench.verdict.expectation import Evidence, Words
from tests.bench.verdict.written_case import (
    ALPHA,
    EAST,
    FRAME,
    JOIN,
    NEXT_FRAME,
    WEST,
    Event,
    begin,
    dnmsg,
    due,
    due_line,
    end,
    good,
    heard,
    heard_join,
    in_order,
    outcome,
    published,
    restart,
    said,
    scheduled,
    station,
    text,
    transmit,
)

FIRST = "NonDuplicate forwarded - RX1"
AGAIN = "DuplicateDueToResubmission forwarded - RX1"
LIMIT = "DuplicateDueToResubmission dropped ResubmissionLimit Suppressed"
MALFORMED = "- dropped Malformed NotAsked"


def told(evidence: Evidence) -> list[str]:
    return [str(reception.outcome) for reception in evidence.receptions]


def test_words_read_as_people_write_them() -> None:
    full = Words("Duplicate", "dropped", "Duplicate", "Suppressed")
    assert str(full) == "Duplicate dropped(Duplicate) Suppressed"
    assert str(Words("-", "forwarded", "-", "RX1")) == "- forwarded RX1"


def test_a_reception_has_the_outcome_of_its_station_and_xtime() -> None:
    evidence = Evidence.of(
        in_order(
            heard(WEST, 11), heard(EAST, 11), heard(WEST, 12),
            outcome(WEST, 12, LIMIT), outcome(EAST, 11, AGAIN), outcome(WEST, 11, FIRST),
        )
    )  # fmt: skip
    assert told(evidence) == [
        "NonDuplicate forwarded RX1",
        "DuplicateDueToResubmission forwarded RX1",
        "DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed",
    ]
    assert evidence.surplus_outcomes == []


def test_receptions_of_one_xtime_are_paired_in_order() -> None:
    repeated = [heard(WEST, 11), heard(WEST, 11), heard(WEST, 11)]
    outcomes = [outcome(WEST, 11, words) for words in (FIRST, AGAIN, LIMIT)]
    evidence = Evidence.of(in_order(*repeated, *outcomes))
    assert [word.split()[0] for word in told(evidence)] == [
        "NonDuplicate", "DuplicateDueToResubmission", "DuplicateDueToResubmission",
    ]  # fmt: skip
    assert evidence.heard[FRAME] == evidence.receptions


def test_of_two_receptions_of_one_xtime_the_later_one_lacks_its_outcome() -> None:
    evidence = Evidence.of(in_order(heard(WEST, 11), heard(WEST, 11), outcome(WEST, 11, FIRST)))
    assert told(evidence) == ["NonDuplicate forwarded RX1", "None"]


def test_what_is_told_of_nothing_is_surplus() -> None:
    surplus = outcome(WEST, 99, FIRST)
    evidence = Evidence.of(in_order(heard(WEST, 11), outcome(WEST, 11, FIRST), surplus))
    [found] = evidence.surplus_outcomes
    assert found["xtime"] == 99


def test_malformed_texts_are_paired_by_rank_within_their_station() -> None:
    broken = [text(WEST, "{"), text(EAST, "nonsense"), text(WEST, '{"msgtype":"updf"}')]
    outcomes = [outcome(eui, None, MALFORMED, None) for eui in (EAST, WEST, WEST)]
    evidence = Evidence.of(in_order(*broken, heard(WEST, 11), *outcomes, outcome(WEST, 11, FIRST)))
    assert told(evidence) == ["- dropped(Malformed) NotAsked"] * 3 + ["NonDuplicate forwarded RX1"]
    assert [reception.frame_id for reception in evidence.receptions] == [None, None, None, FRAME]
    assert list(evidence.heard) == [FRAME]


@pytest.mark.parametrize(
    "said_text",
    ["[]", "5", '{"msgtype":"propdf"}', '{"msgtype":"version"}', '{"msgtype":"dntxed"}', "{}"],
)
def test_other_texts_are_no_receptions(said_text: str) -> None:
    assert Evidence.of(in_order(text(WEST, said_text))).receptions == []


def test_what_did_not_leave_the_tap_was_not_received() -> None:
    evidence = Evidence.of(in_order(heard(WEST, 11, dropped=True), text(WEST, "{", dropped=True)))
    assert evidence.receptions == []


def test_joins_and_data_are_told_apart() -> None:
    evidence = Evidence.of(in_order(heard_join(WEST, 5), heard(WEST, 6), heard(EAST, 7, f_cnt=3)))
    assert list(evidence.heard) == [JOIN, FRAME, NEXT_FRAME]


def test_a_restarted_server_is_counted_and_pairs_go_on() -> None:
    evidence = Evidence.of(
        in_order(
            heard(WEST, 11), outcome(WEST, 11, FIRST), restart(),
            heard(WEST, 11), restart(), outcome(WEST, 11, AGAIN),
        )
    )  # fmt: skip
    assert evidence.lns_restarts == 2
    assert [word.split()[0] for word in told(evidence)] == [
        "NonDuplicate", "DuplicateDueToResubmission",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("held_us", "lost_us", "is_excused"),
    [(0, 1_000_000, True), (0, 1_000_001, False), (500, 1_001_000, True), (500, 1_001_001, False)],
)
def test_a_frame_may_end_with_its_server_while_its_message_and_that_of_its_first_are_held_up(
    held_us: int, lost_us: int, is_excused: bool
) -> None:
    detail = {"us": held_us, "messages": 1}
    late = {"seam": "upstream", "fault": "delay", "detail": detail}
    disk = {"seam": "store", "fault": "slow disk", "detail": {"after_us": held_us}}
    lost = {"source": f"tap-{WEST}", "kind": "station.link", "station": WEST, "event": "closed"}
    for fault in (late, disk):
        assert _was_cut_short(fault, {**lost, "t_us": lost_us}) is is_excused


@pytest.mark.parametrize(
    ("killed_us", "is_cut", "is_excused"),
    [(1_000_000, True, True), (1_000_001, True, False), (1_000_000, False, False)],
)
def test_a_frame_of_a_station_that_is_cut_off_ends_with_the_server_that_is_killed(
    killed_us: int, is_cut: bool, is_excused: bool
) -> None:
    cut = {"seam": "tap", "fault": "cut" if is_cut else "delay", "station": WEST, "detail": {}}
    killed = {"source": "bench", "kind": "case.lns", "lns": "lns-a", "event": "kill"}
    assert _was_cut_short(cut, {**killed, "t_us": killed_us}) is is_excused


def _was_cut_short(fault: Event, ended: Event) -> bool:
    """Whether what west tells at 0 may have died with its server, which begins again."""
    begun: Event = {"source": "bench", "kind": "fault.begin", "case": "c", **fault}
    evidence = Evidence.of(in_order(heard(WEST, 11), begun, ended, restart()))
    return bool(evidence.cut_short)


def test_all_that_the_parties_wrote_is_kept() -> None:
    evidence = Evidence.of(
        in_order(
            begin(), station(WEST, "west"), transmit(), transmit(NEXT_FRAME, genuine=False),
            heard(WEST, 11), published(WEST), scheduled(WEST, 11), dnmsg(WEST, 11),
            text(WEST, '{"msgtype":"getxtime"}', "down"), text(WEST, "{", "down"),
            said("OK"), due(WEST, 0, FIRST), due_line("OK"),
            {"source": "x", "kind": "kind.of.tomorrow"}, end(),
        )
    )  # fmt: skip
    assert (evidence.name(WEST), evidence.name(EAST)) == ("west", EAST)
    assert (evidence.sent, evidence.forged) == ({FRAME}, {NEXT_FRAME})
    assert [body["messageId"] for body in evidence.published] == ["m-2"]
    assert evidence.dnmsgs == [(WEST, 11)]
    assert list(evidence.handed_over) == [ALPHA]
    assert evidence.lines == {ALPHA: ["OK"]}
    assert evidence.expected_lines == {ALPHA: ["OK"]}
    [row] = evidence.expected[FRAME]
    assert (row.station, str(row.words)) == (WEST, "NonDuplicate forwarded RX1")
    assert evidence.error is None


def test_an_error_of_the_bench_is_kept_with_its_reasons() -> None:
    assert (
        Evidence.of(good(end=end("c", "ERROR", "no board", "no air"))).error == "no board; no air"
    )
    assert Evidence.of(good(end=end("c", "ERROR"))).error == "the bench failed"
    assert Evidence.of(good(end=end("c", "FAIL", "x"))).error is None


def test_a_downlink_on_the_air_is_no_uplink_of_a_device() -> None:
    down = transmit() | {"direction": "down"}
    assert Evidence.of(in_order(down)).sent == set()
    assert Evidence.of(in_order(transmit())).sent == {FRAME}


@pytest.mark.parametrize("said_text", ["{", "[]", '{"msgtype":"runcmd"}', '{"msgtype":"dnmsg"}'])
def test_what_answers_no_reception_is_no_answer(said_text: str) -> None:
    """Also a downlink of class C, which has no xtime."""
    assert Evidence.of(in_order(text(WEST, said_text, "down"))).dnmsgs == []


def test_a_reception_without_upinfo_is_a_reception() -> None:
    """Nobody has told of its clock: its xtime is 0."""
    told_text = json.loads(heard(WEST, 11)["text"])
    del told_text["upinfo"]
    [reception] = Evidence.of(in_order(text(WEST, json.dumps(told_text)))).receptions
    assert (reception.station, reception.frame_id, reception.xtime) == (WEST, FRAME, 0)
