import pytest

from bench.verdict.case import is_all_published, violations
from bench.verdict.expectation import Evidence
from tests.bench.verdict.written_case import (
    ALPHA,
    COPY,
    EAST,
    FIRST,
    FRAME,
    JOIN,
    NEXT_FRAME,
    WEST,
    Event,
    at_once,
    dnmsg,
    dnmsg_at_once,
    good,
    heard,
    heard_join,
    in_order,
    link_lost,
    outcome,
    published,
    restart,
    scheduled,
    text,
    transmit,
)

OUTCOME = "one outcome per reception"
PUBLISHED = "forwarded means published"
ANSWER = "one answer per reception"
HANDED_OVER = "scheduled means handed over"
STATION = "answer through the station that heard it"
SENT = "nothing accepted that nobody sent"
COUNTER = "no downlink counter twice"

SOFT = "SoftDuplicate forwarded - Suppressed"


def rules(events: list[Event]) -> list[str]:
    return [violation.partition(": ")[0] for violation in violations(Evidence.of(events))]


def second_frame(f_cnt_down: int) -> list[Event]:
    return [
        transmit(NEXT_FRAME),
        heard(WEST, 33, f_cnt=3),
        published(WEST, "m-3", f_cnt=3),
        scheduled(WEST, 33, f_cnt_down, NEXT_FRAME),
        outcome(WEST, 33, FIRST, NEXT_FRAME),
        dnmsg(WEST, 33),
    ]


GOOD_CASES = {
    "as it is": good(),
    "a second frame with its own counter": good(*second_frame(1)),
    "a downlink that the tap kept": good(dnmsg=dnmsg(WEST, 11, dropped=True)),
    "a downlink on a link that was lost": good(link_lost(WEST), without=("dnmsg",)),
    "a downlink of a server that ended": good(restart(), without=("dnmsg",)),
    "a downlink without an uplink": good(at_once(WEST, 5), dnmsg_at_once(WEST, 5)),
    "one of a link that was lost": good(link_lost(WEST), at_once(WEST, 5)),
    "a reception that did not leave the tap": good(heard(EAST, 44, dropped=True)),
    "an unreadable text": good(
        text(EAST, "{"), outcome(EAST, None, "- dropped Malformed NotAsked", None)
    ),
    "a text that is no reception": good(text(EAST, "[1]"), text(EAST, '{"msgtype":"alarm"}')),
    "an old message again after a restart": good(
        restart(), heard(EAST, 55), published(EAST), outcome(EAST, 55, SOFT)
    ),
    "a join": good(
        transmit(JOIN),
        heard_join(EAST, 66),
        outcome(EAST, 66, "NonDuplicate dropped - TooLate", JOIN),
    ),
    "marked and published as marked": good(
        published(EAST, "m-2-2", dupMsg=True),
        told_east=outcome(EAST, 22, "SoftDuplicate marked - Suppressed"),
    ),
}


@pytest.mark.parametrize("events", GOOD_CASES.values(), ids=GOOD_CASES)
def test_the_books_of_a_good_case_balance(events: list[Event]) -> None:
    assert rules(events) == []


BROKEN = {
    "no outcome": (good(without=("told east",)), OUTCOME),
    "an outcome too many": (good(outcome(EAST, 22, COPY)), OUTCOME),
    "an outcome of nothing": (good(outcome(EAST, 33, COPY)), OUTCOME),
    "unreadable and no outcome": (good(text(EAST, "{")), OUTCOME),
    "an outcome of a text that did not leave": (
        good(heard(EAST, 44, dropped=True), outcome(EAST, 44, COPY)),
        OUTCOME,
    ),
    "not published": (good(without=("published",)), PUBLISHED),
    "published though dropped": (good(published(EAST, "m-2-2")), PUBLISHED),
    "published for another station": (good(published=published(EAST)), PUBLISHED),
    "published with another counter": (good(published=published(WEST, f_cnt=9)), PUBLISHED),
    "marked, published unmarked": (
        good(
            published(EAST, "m-2-2"),
            told_east=outcome(EAST, 22, "SoftDuplicate marked - Suppressed"),
        ),
        PUBLISHED,
    ),
    "one message id for two messages": (
        good(published(EAST), told_east=outcome(EAST, 22, SOFT)),
        PUBLISHED,
    ),
    "RX1 and no downlink": (good(without=("scheduled", "dnmsg")), ANSWER),
    "RX1 and nothing at the tap": (good(without=("dnmsg",)), ANSWER),
    "RX1 and the link of another station lost": (
        good(link_lost(EAST), without=("dnmsg",)),
        ANSWER,
    ),
    "RX1 long before the link was lost": (
        good(link_lost(WEST) | {"t_us": 9_000_000}, without=("dnmsg",)),
        ANSWER,
    ),
    "scheduled and not handed over": (good(at_once(WEST, 5)), HANDED_OVER),
    "handed over and not scheduled": (good(dnmsg_at_once(WEST, 5)), HANDED_OVER),
    "handed over twice": (
        good(at_once(WEST, 5), dnmsg_at_once(WEST, 5), dnmsg_at_once(WEST, 5)),
        HANDED_OVER,
    ),
    "handed over to another station": (
        good(at_once(WEST, 5), dnmsg_at_once(EAST, 5)),
        HANDED_OVER,
    ),
    "a downlink nobody owes": (good(scheduled(EAST, 22, 1)), ANSWER),
    "a downlink for another xtime": (good(scheduled=scheduled(WEST, 12)), ANSWER),
    "two downlinks": (good(scheduled(WEST, 11, 1)), ANSWER),
    "two at the tap": (good(dnmsg(WEST, 11)), ANSWER),
    "an answer through a deaf station": (good(dnmsg(EAST, 11)), STATION),
    "an answer to nothing": (good(dnmsg(WEST, 99)), STATION),
    "an unreadable answer to nothing": (
        good(text(WEST, '{"msgtype":"dnmsg","xtime":99}', "down")),
        STATION,
    ),
    "nobody sent it": (good(without=("transmit",)), SENT),
    "only forged": (good(transmit=transmit(genuine=False)), SENT),
    "a counter again": (good(*second_frame(0)), COUNTER),
}


@pytest.mark.parametrize(("events", "rule"), BROKEN.values(), ids=BROKEN)
def test_a_broken_law_is_found_by_its_name(events: list[Event], rule: str) -> None:
    # Whoever answers through a station that heard nothing has answered once too often there.
    others = {ANSWER} if rule == STATION else set()
    assert set(rules(events)) == {rule} | others


def test_a_downlink_counter_may_not_go_back() -> None:
    later = [{**event} for event in good(*second_frame(0))]
    first = next(event for event in later if event["kind"] == "lns.downlink")
    first["f_cnt_down"] = 7
    [violation] = violations(Evidence.of(later))
    assert violation == "no downlink counter twice: 70B3D57ED0000001: FCntDown 0 after 7"


@pytest.mark.parametrize(("lost_us", "excused"), [(400_000, True), (-1, False)])
def test_of_equal_texts_nobody_knows_which_died_with_its_server(
    lost_us: int, excused: bool
) -> None:
    told = [{**heard(WEST, 11), "t_us": at_us} for at_us in (0, 9_000_000)]
    told += [{**restart(), "t_us": 500_000}, {**outcome(WEST, 11, FIRST), "t_us": 9_000_001}]
    events = sorted([{**link_lost(WEST), "t_us": lost_us}, *told], key=lambda one: one["t_us"])
    assert (OUTCOME not in rules(events)) is excused


@pytest.mark.parametrize(("empty", "broken"), [(True, set()), (False, {COUNTER})])
def test_of_counters_that_a_store_forgot_nobody_knows(empty: bool, broken: set[str]) -> None:
    lost = {"seam": "store", "fault": "restart", "detail": {"empty": empty}, "case": "c"}
    begun = {"source": "bench", "kind": "fault.begin", "t_us": 0, **lost}
    assert set(rules([begun, *good(*second_frame(0))])) == broken


@pytest.mark.parametrize(("f_cnt_down", "lns", "balances"), [
    (0, "lns-b", True), (7, "lns-b", False), (0, "lns-a", False), (8, "lns-a", True),
])  # fmt: skip
def test_of_several_servers_each_keeps_its_own_order(
    f_cnt_down: int, lns: str, balances: bool
) -> None:
    events = [{**event} for event in good(*second_frame(f_cnt_down))]
    first, second = (event for event in events if event["kind"] == "lns.downlink")
    first |= {"f_cnt_down": 7, "lns": "lns-a"}
    second["lns"] = lns
    assert (COUNTER not in rules(events)) is balances


def test_downlinks_without_a_counter_are_join_accepts() -> None:
    accept = scheduled(EAST, 66, frame_id=JOIN)
    del accept["f_cnt_down"], accept["dev_addr"]
    events = good(
        transmit(JOIN), heard_join(EAST, 66), accept,
        outcome(EAST, 66, "NonDuplicate dropped - RX1", JOIN), dnmsg(EAST, 66),
    )  # fmt: skip
    assert rules(events) == []


def test_an_acceptance_without_a_name_is_a_finding_and_no_crash() -> None:
    nameless = outcome(EAST, None, "NonDuplicate forwarded - NotAsked", None)
    found = rules(good(text(EAST, "{"), nameless))
    assert found == [PUBLISHED, SENT]


def test_a_violation_is_told_with_names_and_numbers() -> None:
    events = good(without=("told east", "published"))
    assert violations(Evidence.of(events)) == [
        f"one outcome per reception: {FRAME} through east has no outcome",
        "forwarded means published: 70B3D57ED0000001 FCnt 2 through west:"
        " 1 unmarked by outcome, 0 published",
    ]


def test_whether_all_is_published_is_asked_before_a_case_ends() -> None:
    assert is_all_published([])
    assert is_all_published(good(without=("told east",)))
    assert not is_all_published(good(without=("published",)))


@pytest.mark.parametrize(("west", "east"), [(False, True), (True, True), (False, False)])
def test_what_nobody_could_verify_may_come_again_under_one_id(west: bool, east: bool) -> None:
    unanswered = "NonDuplicate forwarded - Suppressed"
    events = in_order(
        transmit(), heard(WEST, 11), heard(EAST, 22),
        outcome(WEST, 11, unanswered), outcome(EAST, 22, unanswered),
        published(WEST, unverified=west), published(EAST, unverified=east),
    )  # fmt: skip
    assert rules(events) == ([] if west or east else [PUBLISHED])


def parked(message_id: str) -> Event:
    return {
        "source": "a", "kind": "upstream.parked", "case": "c", "lns": "a", "topic": "t",
        "message_id": message_id, "sequence_number": 1, "waiting": 0,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("put_aside", "times", "broken"),
    [
        (f"{ALPHA}-49BE7DF1-2", 0, False),
        (f"{ALPHA}-49BE7DF1.1-2", 0, False),
        (f"{ALPHA}-49BE7DF1-2", 1, False),
        (None, 0, True),
        (f"{ALPHA}-49BE7DF1-3", 0, True),
        (f"{ALPHA}-49BE7DF1-2-status", 0, True),
    ],
)
def test_what_is_put_aside_is_not_lost(put_aside: str | None, times: int, broken: bool) -> None:
    events = in_order(
        transmit(), heard(WEST, 11), outcome(WEST, 11, "NonDuplicate forwarded - NotAsked"),
        *[parked(put_aside)] * (put_aside is not None),
        *[published(WEST, put_aside or "m-2")] * times,
    )  # fmt: skip
    assert rules(events) == [PUBLISHED] * broken


def test_what_is_put_aside_excuses_one_message() -> None:
    events = in_order(
        transmit(), heard(WEST, 11), heard(EAST, 22),
        outcome(WEST, 11, "NonDuplicate forwarded - NotAsked"),
        outcome(EAST, 22, SOFT), parked(f"{ALPHA}-49BE7DF1-2"),
        parked(f"{ALPHA}-49BE7DF1-2-{EAST}-22"),
    )  # fmt: skip
    assert rules(events[:-1]) == [PUBLISHED]
    assert rules(events) == []


def test_what_is_put_aside_excuses_one_message_though_its_id_was_used_before_a_crash() -> None:
    message = published(WEST, f"{ALPHA}-49BE7DF1-2")
    events = in_order(
        transmit(), heard(WEST, 11), outcome(WEST, 11, "NonDuplicate forwarded - NotAsked"),
        message, restart(), heard(WEST, 22), outcome(WEST, 22, SOFT),
        parked(message["body"]["messageId"]),
    )  # fmt: skip
    assert rules(events[:-1]) == [PUBLISHED]
    assert rules(events) == []


@pytest.mark.parametrize(("is_aside", "broken"), [(True, False), (False, True)])
def test_what_is_put_aside_may_come_twice(is_aside: bool, broken: bool) -> None:
    """On its way it arrived, and again when it was released, by a server that began anew."""
    message = published(WEST, f"{ALPHA}-49BE7DF1-2")
    aside = [parked(message["body"]["messageId"])] if is_aside else []
    events = in_order(
        transmit(), heard(WEST, 11), outcome(WEST, 11, "NonDuplicate forwarded - NotAsked"),
        message, *aside, restart(), message,
    )  # fmt: skip
    assert rules(events) == [PUBLISHED] * broken


@pytest.mark.parametrize(
    ("f_cnt", "station", "times", "told", "broken"),
    [
        (2, WEST, 1, False, []),
        (65_538, WEST, 1, False, []),  # a station tells 16 bits of it
        (2, WEST, 2, False, [PUBLISHED]),
        (3, WEST, 1, False, [PUBLISHED]),
        (2, EAST, 1, False, [PUBLISHED]),
        ("2", WEST, 1, False, [PUBLISHED]),
        (2, WEST, 1, True, [PUBLISHED, ANSWER]),
    ],
)
def test_what_a_server_handed_over_when_it_was_ended_comes_without_an_outcome(
    f_cnt: int, station: str, times: int, told: bool, broken: list[str]
) -> None:
    """So does its answer. What it has said something of is as it says."""
    dev_addr = FRAME.partition(":")[0]
    message = published(station, f"{ALPHA}-{dev_addr}-2", f_cnt, devAddr=dev_addr)
    said = [outcome(WEST, 11, "NonDuplicate dropped Duplicate NotAsked")] if told else []
    events = in_order(
        transmit(), heard(WEST, 11), *[message] * times, *said,
        scheduled(WEST, 11), dnmsg(WEST, 11), link_lost(WEST), restart(),
    )  # fmt: skip
    assert rules(events) == broken
