import re
from typing import Any

import pytest

from bench.verdict.case import HOST_STALL_MAX_US, Result, Verdict, judge, unreached
from bench.verdict.expectation import Due, Table, Words, words
from bench.verdict.owner import ScenarioMistake
from bench.verdict.particulars import may_be_said
from lns.dedup.strategy import Strategy
from tests.bench.verdict.written_case import (
    ACKED,
    ALPHA,
    COPY,
    EAST,
    FIRST,
    FRAME,
    GOOD,
    JOIN,
    NEXT_FRAME,
    WEST,
    Event,
    begin,
    dnmsg,
    due,
    end,
    good,
    heard,
    in_order,
    link_lost,
    outcome,
    published,
    restart,
    said,
    scheduled,
    transmit,
)

FIRST_AND_COPY = Table("""
    strategy kind   | first                       | copy
    Drop     confirmed   | NonDuplicate forwarded RX1      | Duplicate dropped(Duplicate) Suppressed

    Mark     confirmed   | NonDuplicate forwarded RX1      | SoftDuplicate marked Suppressed
    *        join   | NonDuplicate dropped RX1   | Duplicate dropped(Duplicate) Suppressed
    None     *      | - dropped(Malformed) NotAsked   | SoftDuplicate forwarded NotAsked
""")
AGAIN = Table("""
    strategy kind        | again
    *        confirmed   | DuplicateDueToResubmission forwarded RX2
""")
PLAYERS = {"first": "west", "copy": "east"}


def statuses(table: Table, strategy: Strategy, kind: str, **stations: object) -> list[str]:
    row = table.row(strategy, kind, stations)  # type: ignore[arg-type]
    return [f"{due.station} {due.words.status}" for due in row]


def test_a_row_names_what_is_due_through_whom() -> None:
    assert FIRST_AND_COPY.row(Strategy.DROP, "confirmed", PLAYERS) == (
        Due("west", Words("NonDuplicate", "forwarded", "-", "RX1")),
        Due("east", Words("Duplicate", "dropped", "Duplicate", "Suppressed")),
    )


def test_a_star_stands_for_every_strategy_or_kind() -> None:
    for strategy in Strategy:
        assert len(FIRST_AND_COPY.row(strategy, "join", PLAYERS)) == 2
    for kind in ("confirmed", "unconfirmed", "join"):
        row = FIRST_AND_COPY.row(Strategy.NONE, kind, PLAYERS)
        assert row[0].words == Words("-", "dropped", "Malformed", "NotAsked")


@pytest.mark.parametrize(
    ("strategy", "kind"),
    [
        (Strategy.DROP, "unconfirmed"),
        (Strategy.MARK, "unconfirmed"),
        (Strategy.DROP, "proprietary"),
    ],
)
def test_a_missing_row_is_no_expectation(strategy: Strategy, kind: str) -> None:
    with pytest.raises(
        ScenarioMistake, match=f"no row for {strategy} {kind}; it has Drop confirmed"
    ):
        FIRST_AND_COPY.row(strategy, kind, PLAYERS)


def test_every_role_needs_a_station() -> None:
    with pytest.raises(ScenarioMistake, match="role 'copy' is bound to no station"):
        FIRST_AND_COPY.row(Strategy.DROP, "confirmed", {"first": "west"})


def test_tables_follow_each_other_where_both_have_the_row() -> None:
    both = FIRST_AND_COPY + AGAIN
    assert statuses(both, Strategy.MARK, "confirmed", **PLAYERS, again="north") == [
        "west NonDuplicate", "east SoftDuplicate", "north DuplicateDueToResubmission",
    ]  # fmt: skip
    with pytest.raises(ScenarioMistake, match="no row"):
        both.row(Strategy.DROP, "join", {**PLAYERS, "again": "west"})


def test_a_table_several_times_over() -> None:
    twice = FIRST_AND_COPY * 2
    assert statuses(twice, Strategy.DROP, "confirmed", **PLAYERS) == [
        "west NonDuplicate", "east Duplicate", "west NonDuplicate", "east Duplicate",
    ]  # fmt: skip
    assert (FIRST_AND_COPY * 0).row(Strategy.DROP, "confirmed", {}) == ()


def test_a_role_played_by_several_stations_goes_round_them() -> None:
    rows = (FIRST_AND_COPY.only("first") + AGAIN * 5).row(
        Strategy.MARK, "confirmed", {"first": "west", "again": ("west", "east", "north")}
    )
    assert [due.station for due in rows] == ["west", "west", "east", "north", "west", "east"]


def test_each_row_begins_with_the_first_station_again() -> None:
    for _ in range(2):
        [due] = AGAIN.row(Strategy.MARK, "confirmed", {"again": ("west", "east")})
        assert due.station == "west"


def test_one_column_alone() -> None:
    assert statuses(FIRST_AND_COPY.only("copy"), Strategy.DROP, "join", copy="east") == [
        "east Duplicate"
    ]


def test_a_misspelt_role_is_named() -> None:
    with pytest.raises(ScenarioMistake, match="no role 'cpoy'; known: first, copy"):
        FIRST_AND_COPY.only("cpoy")
    with pytest.raises(ScenarioMistake, match="no role 'cpoy'; known: first, copy"):
        FIRST_AND_COPY.again("cpoy", "late")


def test_one_more_reception_like_another() -> None:
    three = FIRST_AND_COPY.again("copy", "late")
    assert statuses(three, Strategy.DROP, "confirmed", **PLAYERS, late="north") == [
        "west NonDuplicate", "east Duplicate", "north Duplicate",
    ]  # fmt: skip
    assert statuses(FIRST_AND_COPY, Strategy.DROP, "confirmed", **PLAYERS)[2:] == []


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("Drop confirmed | NonDuplicat forwarded RX1", "'NonDuplicat' is no status"),
        ("Drop confirmed | NonDuplicate forwardet RX1", "'forwardet' is no upstream"),
        ("Drop confirmed | NonDuplicate dropped(Dublicate) RX1", "'Dublicate' is no reason"),
        ("Drop confirmed | NonDuplicate forwarded RX3", "'RX3' is no answer"),
        ("Drop confirmed | nonduplicate forwarded RX1", "'nonduplicate' is no status"),
        (
            "Dorp confirmed | NonDuplicate forwarded RX1",
            "'Dorp' is no strategy; known: Drop, Mark, None",
        ),
        ("Drop confirmd  | NonDuplicate forwarded RX1", "'confirmd' is no kind"),
        ("Drop           | NonDuplicate forwarded RX1", "'' is no kind"),
        ("Drop confirmed | NonDuplicate forwarded", "'NonDuplicate forwarded' is not 'status"),
        ("Drop confirmed | forwarded RX1", "is not 'status upstream"),
        ("Drop confirmed | NonDuplicate dropped() RX1", "is not 'status upstream"),
        ("Drop confirmed | NonDuplicate dropped(Duplicate RX1", "is not 'status upstream"),
        ("Drop confirmed | NonDuplicate forwarded RX1 RX2", "'RX2' is no word of level 2"),
        ("Drop confirmed | NonDuplicate forwarded RX1 Owner x", "is not 'status upstream"),
        ("Drop confirmed |", "'' is not 'status upstream"),
        ("Drop confirmed", "1 roles, 0 cells"),
        ("Drop confirmed | - dropped RX1 | - dropped RX1", "1 roles, 2 cells"),
    ],
)
def test_what_cannot_be_read_is_named(line: str, named: str) -> None:
    with pytest.raises(ValueError, match=re.escape(named)):
        Table(f"strategy kind | first\n{line}")


def test_a_misspelt_word_comes_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="known: NotAsked, RX1, RX2, Suppressed, TooLate"):
        words("NonDuplicate forwarded RX3")


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ("NonDuplicate forwarded RX1", Words("NonDuplicate", "forwarded", "-", "RX1")),
        (
            "  DuplicateDueToResubmission   dropped(ResubmissionLimit)  Suppressed ",
            Words("DuplicateDueToResubmission", "dropped", "ResubmissionLimit", "Suppressed"),
        ),
        ("- dropped(UnknownDevice) NotAsked", Words("-", "dropped", "UnknownDevice", "NotAsked")),
        ("SoftDuplicate marked TooLate", Words("SoftDuplicate", "marked", "-", "TooLate")),
        (" no outcome ", Words("-", "-", "-", "-")),
    ],
)
def test_words_are_read(text: str, read: Words) -> None:
    assert words(text) == words(str(read)) == read


def test_no_outcome_is_due_where_a_server_is_ended() -> None:
    ended = [link_lost(EAST), restart()]
    none = due(EAST, 1, "- - - -")
    assert judge(good(*ended, without=("told east",), due_east=none)) == Verdict(Result.PASS)
    assert judge(good(*ended, due_east=none)).reasons == (
        f"{FRAME} #1 through east: expected no outcome, observed {Words(*COPY.split())}",
    )


def test_a_good_case_passes() -> None:
    assert judge(good()) == Verdict(Result.PASS)


def test_a_later_frame_that_nobody_expects_is_no_failure() -> None:
    more = [
        transmit(NEXT_FRAME), heard(WEST, 33, f_cnt=3), published(WEST, "m-3", f_cnt=3),
        scheduled(WEST, 33, 1, NEXT_FRAME), outcome(WEST, 33, FIRST, NEXT_FRAME), dnmsg(WEST, 33),
    ]  # fmt: skip
    assert judge(good(*more)).result is Result.PASS


SOFT = "SoftDuplicate dropped Duplicate Suppressed"
WRONG_COPY = (
    f"{FRAME} #1 through east: expected Duplicate dropped(Duplicate) Suppressed,"
    " observed SoftDuplicate dropped(Duplicate) Suppressed"
)


def test_wrong_words_are_the_servers() -> None:
    verdict = judge(good(told_east=outcome(EAST, 22, SOFT)))
    assert verdict == Verdict(Result.FAIL, "LNS", (WRONG_COPY,))


@pytest.mark.parametrize(
    "observed",
    [
        "SoftDuplicate dropped Duplicate Suppressed",
        "- dropped Duplicate Suppressed",
        "Duplicate dropped ResubmissionLimit Suppressed",
        "Duplicate dropped - Suppressed",
        "Duplicate dropped Duplicate NotAsked",
    ],
)
def test_every_word_counts(observed: str) -> None:
    verdict = judge(good(told_east=outcome(EAST, 22, observed)))
    assert (verdict.result, verdict.owner, len(verdict.reasons)) == (Result.FAIL, "LNS", 1)


def test_no_outcome_is_the_servers_and_is_said_by_expectation_and_books() -> None:
    assert judge(good(without=("told east",))) == Verdict(
        Result.FAIL,
        "LNS",
        (
            f"{FRAME} #1 through east: no outcome, expected {Words(*COPY.split())}",
            f"one outcome per reception: {FRAME} through east has no outcome",
        ),
    )


def test_a_reception_that_was_due_and_did_not_happen_is_inconclusive() -> None:
    assert judge(good(without=("heard east", "told east"))) == Verdict(
        Result.INCONCLUSIVE, "air", (f"{FRAME} #1: east was to hear it, nobody did",)
    )


def test_a_reception_through_another_station_is_inconclusive() -> None:
    verdict = judge(good(heard_east=heard(WEST, 22), told_east=outcome(WEST, 22, COPY)))
    assert verdict == Verdict(
        Result.INCONCLUSIVE, "air", (f"{FRAME} #1: east was to hear it, west did",)
    )


def test_a_reception_that_was_not_to_be_is_inconclusive() -> None:
    verdict = judge(good(heard(EAST, 33), outcome(EAST, 33, COPY)))
    assert verdict == Verdict(
        Result.INCONCLUSIVE, "air", (f"{FRAME} #2: east heard it and was not to",)
    )


def test_what_the_tap_dropped_was_not_heard() -> None:
    verdict = judge(good(heard_east=heard(EAST, 22, dropped=True), without=("told east",)))
    assert (verdict.result, verdict.owner) == (Result.INCONCLUSIVE, "air")


def test_a_silent_device_that_was_answered_is_at_fault_itself() -> None:
    assert judge(good(without=("said",))) == Verdict(
        Result.FAIL, "device", (f"device {ALPHA} did not say '+EVT:SEND_CONFIRMED_OK'",)
    )


@pytest.mark.parametrize(
    ("line", "owner"),
    [
        ("+EVT:RX_1:UNICAST:3:01", "device"),
        ("+EVT:RX_1:UNICAST:4:01", "LNS"),
        ('+MSGHEX: PORT: 3; RX: "01"', "device"),
        ('+MSGHEX: PORT: 13; RX: "01"', "LNS"),
        ("+CMSGHEX: ACK Received", "device"),
        ("+EVT:JOINED", "device"),
    ],
)
def test_a_device_is_to_say_only_what_it_was_sent(line: str, owner: str) -> None:
    """It was answered with an ACK, and something for port 3."""
    verdict = judge(good({**GOOD["due line"], "line": line}))
    assert (verdict.result, verdict.owner) == (Result.FAIL, owner)


def test_without_its_ack_an_answer_acknowledges_nothing() -> None:
    text = GOOD["dnmsg"]["text"].replace("00A001", "008001")
    verdict = judge(good(dnmsg={**GOOD["dnmsg"], "text": text}, without=("said",)))
    assert (verdict.result, verdict.owner) == (Result.FAIL, "LNS")


def test_a_silent_device_that_was_not_answered_is_the_servers() -> None:
    withheld = "NonDuplicate forwarded - Suppressed"
    verdict = judge(
        good(
            told_west=outcome(WEST, 11, withheld), due_west=due(WEST, 0, withheld),
            without=("said", "scheduled", "dnmsg"),
        )
    )  # fmt: skip
    assert (verdict.result, verdict.owner, len(verdict.reasons)) == (Result.FAIL, "LNS", 1)


def test_lines_are_due_in_their_order() -> None:
    def line(text: str) -> Event:
        return {**GOOD["due line"], "line": text}

    heard_both = [said("A"), said("x"), said("B")]
    assert judge(good(*heard_both, line("A"), line("B"))).result is Result.PASS
    assert judge(good(*heard_both, line("x"), line("A"))).reasons == (
        f"device {ALPHA} did not say 'A'",
    )
    assert judge(good(said("A"), line("A"), line("A"))).result is Result.FAIL


@pytest.mark.parametrize(
    ("line", "of_itself"),
    [
        ("+EVT:TX_DONE", True),
        ("+MSG: Done", True),
        ("+CMSG: Done", True),
        ("+EVT:SEND_CONFIRMED_OK", False),
        ("+EVT:JOINED", False),
        ("+EVT:RX_1:UNICAST:7:6f6e", False),
    ],
)
def test_that_its_windows_are_over_a_device_says_of_itself(line: str, *, of_itself: bool) -> None:
    """No network server can keep it from that."""
    assert may_be_said(line, []) == of_itself


def test_rssi_and_snr_of_a_downlink_may_be_left_out() -> None:
    def line(text: str) -> Event:
        return {**GOOD["due line"], "line": text}

    heard_one = said("+EVT:RX_1:-71:-9:UNICAST:7:c0ffee")
    for text in ("+EVT:RX_1:UNICAST:7:c0ffee", "+EVT:RX_1:-71:-9:UNICAST:7:c0ffee"):
        assert judge(good(heard_one, line(text))).result is Result.PASS
    for text in ("+EVT:RX_2:UNICAST:7:c0ffee", "+EVT:RX_1:UNICAST:7:c0", "+EVT:RX_1"):
        unsaid = f"device {ALPHA} did not say {text!r}"
        assert judge(good(heard_one, line(text))).reasons == (unsaid,)


def test_the_books_count_whatever_was_expected() -> None:
    verdict = judge(good(without=("published",)))
    assert (verdict.result, verdict.owner) == (Result.FAIL, "LNS")
    assert verdict.reasons[0].startswith("forwarded means published: ")


def test_an_error_of_the_bench_is_the_benchs() -> None:
    verdict = judge(good(end=end("c", "ERROR", "OSError: no board")))
    assert verdict == Verdict(Result.ERROR, "bench", ("OSError: no board",))


def test_a_case_that_expects_nothing_proves_nothing() -> None:
    nothing_due = good(without=("due west", "due east", "due line"))
    assert judge(nothing_due) == Verdict(Result.ERROR, "bench", ("the scenario expects nothing",))
    assert judge(in_order(begin(), end())).result is Result.ERROR


def test_a_verdict_of_the_case_itself_is_not_taken_over() -> None:
    assert judge(good(end=end("c", "FAIL", "x"))).result is Result.PASS
    assert judge(good(without=("end",))).result is Result.PASS


WRONG: Any = {"told_east": outcome(EAST, 22, SOFT)}
BROKEN: Any = {"end": end("c", "ERROR", "no board")}
ALSO_DEAF = due(WEST, 2, COPY)
NOTHING_DUE = ("due west", "due east", "due line")


@pytest.mark.parametrize(
    ("events", "result", "owner"),
    [
        (good(ALSO_DEAF, **WRONG, **BROKEN), Result.FAIL, "LNS"),
        (good(ALSO_DEAF, **WRONG), Result.FAIL, "LNS"),
        (good(**WRONG, **BROKEN), Result.FAIL, "LNS"),
        (good(ALSO_DEAF, **BROKEN), Result.ERROR, "bench"),
        (good(without=NOTHING_DUE, **BROKEN), Result.ERROR, "bench"),
        (good(without=(*NOTHING_DUE, "published")), Result.FAIL, "LNS"),
        (good(ALSO_DEAF, without=("said",)), Result.FAIL, "device"),
        (good(ALSO_DEAF), Result.INCONCLUSIVE, "air"),
    ],
    ids=["all", "fail>doubt", "fail>error", "error>doubt", "error", "books>error", "line>doubt",
         "doubt"],
)  # fmt: skip
def test_fail_beats_error_beats_inconclusive(
    events: list[Event], result: Result, owner: str
) -> None:
    verdict = judge(events)
    assert (verdict.result, verdict.owner) == (result, owner)


def test_every_reason_is_given_and_the_first_owns_the_verdict() -> None:
    verdict = judge(good(told_east=outcome(EAST, 22, SOFT), without=("said",)))
    assert verdict.owner == "LNS"
    assert verdict.reasons == (WRONG_COPY, f"device {ALPHA} did not say '+EVT:SEND_CONFIRMED_OK'")


def test_a_verdict_reads_as_a_short_list() -> None:
    assert str(Verdict(Result.PASS)) == "PASS"
    assert str(Verdict(Result.FAIL, "LNS", ("one", "two"))) == "FAIL (LNS)\n  one\n  two"


def due_upstream(station: str, **body: object) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "upstream",
        "dev_eui": ALPHA, "f_cnt": 2, "station": station, "body": body,
    }  # fmt: skip


def due_on_air(*windows: str) -> Event:
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": "on_air",
        "frame_id": FRAME, "windows": list(windows),
    }  # fmt: skip


def on_air(window: str) -> Event:
    return {**scheduled(WEST, 12), "stage": "transmitted", "window": window}


def test_a_message_has_the_fields_that_are_due() -> None:
    message = published(WEST, rssi=-71)
    assert judge(good(due_upstream(WEST, rssi=-71), published=message)).result is Result.PASS
    assert judge(good(due_upstream(EAST, rssi=0), published=message)).result is Result.PASS
    assert judge(good(due_upstream(WEST, rssi=-70, snr=9.5), published=message)) == Verdict(
        Result.FAIL,
        "LNS",
        (
            "message m-2 through west: expected rssi -70, observed -71",
            "message m-2 through west: expected snr 9.5, observed None",
        ),
    )


def test_the_answers_on_the_air_are_those_that_are_due() -> None:
    assert judge(good(on_air("RX1"), due_on_air("RX1"))).result is Result.PASS
    assert judge(good(due_on_air())).result is Result.PASS
    assert judge(good(on_air("RX2"), due_on_air("RX1"))) == Verdict(
        Result.FAIL,
        "gateway",
        (f"answers to {FRAME} on the air: expected RX1, observed RX2",),
    )
    assert judge(good(on_air("RX1"), due_on_air())).reasons == (
        f"answers to {FRAME} on the air: expected none, observed RX1",
    )
    assert judge(good(due_on_air("RX1", "RX2"))).reasons == (
        f"answers to {FRAME} on the air: expected RX1, RX2, observed none",
    )


@pytest.mark.parametrize("expectation", [due_upstream(WEST, fCnt=2), due_on_air()])
def test_any_expectation_is_one(expectation: Event) -> None:
    assert judge(good(expectation, without=NOTHING_DUE)).result is Result.PASS


def stall(late_us: int) -> Event:
    return {"source": "bench", "kind": "host.stalled", "late_us": late_us}


def test_what_is_wrong_while_the_host_stalled_proves_nothing() -> None:
    wrong = good(stall(179_600), stall(60_000), said=said("+EVT:SEND_CONFIRMED_FAILED(4)"))
    verdict = judge(wrong)
    assert (verdict.result, verdict.owner) == (Result.INCONCLUSIVE, "bench")
    assert verdict.reasons == (
        "host stalled 180 ms",
        f"device {ALPHA} did not say '{ACKED}'",
    )


def test_a_short_stall_excuses_nothing_and_a_long_one_spoils_no_pass() -> None:
    wrong = {"said": said("+EVT:SEND_CONFIRMED_FAILED(4)")}
    assert judge(good(stall(HOST_STALL_MAX_US), **wrong)).result is Result.FAIL
    assert judge(good(stall(HOST_STALL_MAX_US + 1), **wrong)).result is Result.INCONCLUSIVE
    assert judge(good(stall(900_000))).result is Result.PASS


def test_a_stall_changes_no_doubt_and_no_error() -> None:
    undelivered = good(stall(900_000), without=("heard east", "told east"))
    assert (judge(undelivered).result, judge(undelivered).owner) == (Result.INCONCLUSIVE, "air")
    assert judge(good(stall(900_000), without=NOTHING_DUE)).result is Result.ERROR


def test_what_is_wrong_before_anything_is_expected_proves_nothing_while_the_host_stalled() -> None:
    verdict = judge(good(stall(900_000), without=(*NOTHING_DUE, "published")))
    assert (verdict.result, verdict.owner) == (Result.INCONCLUSIVE, "bench")
    assert verdict.reasons[:1] == ("host stalled 900 ms",)


def told_status(message_id: str) -> Event:
    body = {"devEui": ALPHA, "messageId": message_id}
    return {"source": "upstream", "kind": "upstream.status", "body": body}


DUE_STATUS: Event = {
    "source": "bench", "kind": "case.expect", "expect": "status", "dev_eui": ALPHA, "count": 1,
}  # fmt: skip


@pytest.mark.parametrize(
    ("told", "result"),
    [
        (["s-1"], Result.PASS),
        (["s-1", "s-1"], Result.PASS),  # a broker may tell it twice
        ([], Result.FAIL),
        (["s-1", "s-2"], Result.FAIL),
    ],
)
def test_the_application_is_told_a_status_as_often_as_is_due(
    told: list[str], result: Result
) -> None:
    assert judge(good(*map(told_status, told), DUE_STATUS)).result is result


EVICTED: Event = {"source": "lns-a", "kind": "lns.evicted", "dev_eui": ALPHA, "early_us": 1}


@pytest.mark.parametrize(("due_count", "told"), [(0, 0), (1, 1), (0, 1), (2, 1), (1, 0)])
def test_frames_are_forgotten_too_early_as_often_as_is_due(due_count: int, told: int) -> None:
    expected: Event = {"source": "bench", "kind": "case.expect", "expect": "evicted"}
    found = judge(good(*[EVICTED] * told, expected | {"count": due_count}))
    wrong = f"frames forgotten too early: expected {due_count}, observed {told}"
    assert found.reasons == (() if due_count == told else (wrong,))
    assert found.result is (Result.PASS if due_count == told else Result.FAIL)


@pytest.mark.parametrize(
    ("stage", "station", "result"),
    [
        ("going on", WEST, Result.PASS),
        ("over", WEST, Result.FAIL),
        ("going on", EAST, Result.FAIL),
        (None, WEST, Result.FAIL),
    ],
)
def test_a_finding_that_was_to_be_provoked_is_missed(
    stage: str | None, station: str, result: Result
) -> None:
    due: Event = {
        "source": "bench", "kind": "case.expect", "expect": "finding", "owner": "gateway",
        "rule": "too late", "station": WEST,
    }  # fmt: skip
    told: Event = {
        "source": "lns-a", "kind": "lns.too_late", "stage": stage, "station": station, "n": 5,
    }  # fmt: skip
    found = judge(good(*([told] if stage else []), due))
    assert (found.result, found.owner) == (result, None if result is Result.PASS else "bench")


def test_what_is_due_in_an_answer_is_compared_with_what_left_for_the_station() -> None:
    due_answer: Event = {
        "source": "bench", "kind": "case.expect", "expect": "answer", "frame_id": FRAME, "n": 0,
    }  # fmt: skip
    assert judge(good(due_answer | {"body": {}})).result is Result.PASS
    wrong = judge(good(due_answer | {"body": {"rx_delay_s": 77}}))
    assert (wrong.result, wrong.owner) == (Result.FAIL, "LNS")


def test_a_case_that_goes_no_further_for_want_of_a_join_proves_nothing() -> None:
    sent = {"origin": "device", "dev_eui": ALPHA}
    lost_join = transmit(JOIN) | sent
    words_of_it = "NonDuplicate forwarded - NotAsked"
    events = [transmit() | sent, heard(WEST, 11), published(WEST), outcome(WEST, 11, words_of_it)]
    downlink = transmit("x") | {"direction": "down"} | sent
    assert unreached(in_order(*events, downlink, lost_join)) is None
    assert unreached(in_order(*events, downlink, lost_join), is_stuck=True) == (
        f"the join request {JOIN} has not reached a network server"
    )
