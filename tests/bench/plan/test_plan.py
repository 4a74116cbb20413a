"""The order of a night: nobody plays twice at once, and no bench is faster than the bound."""

from collections import defaultdict
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from bench.plan import (
    Overheads,
    PlannedCase,
    assignments,
    board,
    bound,
    fits,
    lacking,
    schedule,
    usual_bench,
)
from tests.bench.plan.cases import RETRY, SEND, case, device

BENCH = usual_bench()
NONE = Overheads(setup_us=0, settle_us=0, lns_start_us=0)
SECOND_US = 1_000_000


@st.composite
def cases(draw: st.DrawFn) -> list[PlannedCase]:
    """Cases of zero to two boards, some of them choosy, some alone."""
    drawn = []
    for number in range(draw(st.integers(0, 15))):
        devices = tuple(
            device(name, draw(st.sampled_from([SEND, RETRY])), airtime_us=50_000)
            for name in "ab"[: draw(st.integers(0, 2))]
        )
        verbs = ("west.cut",) if draw(st.integers(0, 4)) == 0 else ()
        length_us = draw(st.integers(1, 90)) * SECOND_US
        drawn.append(case(f"g/{number}", length_us, devices=devices, verbs=verbs))
    return [one for one in drawn if not lacking(one, BENCH)]


@given(cases())
def test_a_schedule_is_possible_and_no_faster_than_the_bound(listed: list[PlannedCase]) -> None:
    turns = schedule(listed, BENCH, NONE).turns
    by_name = {one.case: one for one in listed}
    boards = {one.name: one for one in BENCH.boards}
    busy: dict[str, list[tuple[int, int]]] = defaultdict(list)
    assert sorted(turn.case for turn in turns) == sorted(by_name)
    for turn in turns:
        planned = by_name[turn.case]
        assert turn.end_us - turn.start_us == planned.duration_us
        assert len(set(turn.boards.values())) == len(planned.on_air)
        assert all(fits(boards[turn.boards[one.name]], one) for one in planned.on_air)
        for name in turn.boards.values():
            busy[name].append((turn.start_us, turn.end_us))
        if planned.alone:
            others = [other for other in turns if other is not turn]
            assert all(o.end_us <= turn.start_us or turn.end_us <= o.start_us for o in others)
    for spans in busy.values():
        spans.sort()
        assert all(end <= start for (_, end), (start, _) in pairwise(spans))
    assert schedule(listed, BENCH, NONE).duration_us >= bound(listed, BENCH).total_us


def test_cases_on_different_boards_run_side_by_side() -> None:
    listed = [case(f"g/{n}", 10 * SECOND_US, devices=(device(),)) for n in range(3)]
    assert schedule(listed, BENCH, NONE).duration_us == 10 * SECOND_US
    assert bound(listed, BENCH).total_us == 10 * SECOND_US


def test_cases_of_one_board_follow_each_other() -> None:
    one_board = replace(BENCH, boards=BENCH.boards[:1])
    listed = [case(f"g/{n}", 10 * SECOND_US, devices=(device(),)) for n in range(3)]
    assert schedule(listed, one_board, NONE).duration_us == 30 * SECOND_US
    assert bound(listed, one_board).total_us == 30 * SECOND_US


def test_the_longest_case_begins_first() -> None:
    lengths_us = [10, 90, 20, 30]
    listed = [case(f"g/{us}", us * SECOND_US, devices=(device(),)) for us in lengths_us]
    first = schedule(listed, BENCH, NONE).turns[0]
    assert (first.case, first.start_us) == ("g/90", 0)
    assert schedule(listed, BENCH, NONE).duration_us == 90 * SECOND_US


def test_choosy_cases_come_before_longer_ones_and_get_the_board_that_can() -> None:
    listed = [
        *(case(f"g/{n}", 50 * SECOND_US, devices=(device(),)) for n in range(4)),
        case("g/choosy", 10 * SECOND_US, devices=(device("alpha", RETRY),)),
    ]
    turns = {turn.case: turn for turn in schedule(listed, BENCH, NONE).turns}
    assert turns["g/choosy"].start_us == 0
    assert turns["g/choosy"].boards == {"alpha": "lora-e5-3"}


def test_modest_boards_are_used_up_first() -> None:
    assert next(assignments(case(devices=(device(),)), BENCH.boards[::-1]))[0].dialect == "rui3"


def test_a_case_that_no_board_can_play_is_refused() -> None:
    listed = [case("g/x", devices=(device("alpha", RETRY),))]
    with pytest.raises(ValueError, match="g/x: no boards"):
        schedule(listed, replace(BENCH, boards=(board("dut", "rui3"),)), NONE)


def test_overheads_are_paid_by_each_case() -> None:
    overheads = Overheads(setup_us=3, settle_us=5, lns_start_us=4)
    assert overheads.occupied_us(case(duration_us=100, devices=(device(),))) == 109
    assert overheads.occupied_us(case(duration_us=100)) == 109
    # Boards are set up while two servers start.
    two = case(duration_us=100, devices=(device(),), servers=("lns-a", "lns-b"))
    assert overheads.occupied_us(two) == 113


def test_cases_without_a_board_share_few_places() -> None:
    listed = [case(f"g/{n}", 10 * SECOND_US) for n in range(5)]
    planned = schedule(listed, BENCH, replace(NONE, injected_max=2))
    assert planned.duration_us == 30 * SECOND_US


def test_radiated_airtime_waits_for_the_duty_cycle() -> None:
    radiated = replace(BENCH, boards=BENCH.boards[:1], conducted=False)
    listed = [
        case(f"g/{n}", 40 * SECOND_US, devices=(device(airtime_us=30 * SECOND_US),))
        for n in range(2)
    ]
    # 36 s an hour: the second frame's end has to be an hour behind the first one's.
    assert schedule(listed, radiated, NONE).turns[1].start_us == 3_600 * SECOND_US
    assert schedule(listed, replace(radiated, conducted=True), NONE).turns[1].start_us == (
        40 * SECOND_US
    )
    assert bound(listed, radiated).duty_cycle_us == 2_400 * SECOND_US
    assert schedule(listed, radiated, NONE).duration_us >= bound(listed, radiated).total_us


def test_the_bound_counts_what_only_some_boards_can_do() -> None:
    listed = [case(f"g/{n}", 10 * SECOND_US, devices=(device("a", SEND, RETRY),)) for n in range(6)]
    found = bound(listed, BENCH)
    assert (found.boards_us, found.retries_us, found.total_us) == (
        20 * SECOND_US,
        60 * SECOND_US,
        60 * SECOND_US,
    )


def test_cases_alone_are_added_to_the_bound() -> None:
    listed = [
        case("g/alone", 10 * SECOND_US, devices=(device(),), verbs=("west.cut",)),
        case("g/long", 60 * SECOND_US, devices=(device(),)),
    ]
    assert bound(listed, BENCH).total_us == 70 * SECOND_US
    assert bound([], BENCH).total_us == 0


def test_a_dialect_says_what_its_boards_can() -> None:
    e5 = board("e5", "lora-e5")
    traits = e5.traits
    assert (traits.obeys_retries, traits.sets_counters, traits.tells_windows) == (True, True, False)
    assert board("dut", "rui3").traits.tells_windows
    assert not board("dut", "rui3").traits.obeys_retries
