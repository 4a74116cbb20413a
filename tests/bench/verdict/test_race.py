"""Two network servers hear a frame at one moment: one of two orders, one of two sets of words."""

import re
from itertools import permutations

import pytest

from bench.verdict.case import Result, Verdict, judge
from bench.verdict.expectation import Due, Table, Words
from lns.dedup.strategy import Strategy
from tests.bench.verdict.written_case import (
    EAST,
    FRAME,
    WEST,
    Event,
    begin,
    dnmsg,
    due,
    end,
    heard,
    in_order,
    outcome,
    published,
    scheduled,
    station,
    transmit,
)

OWNED, LOST = "NonDuplicate forwarded - RX1", "NonDuplicate forwarded - Suppressed"
TOLD = {OWNED: "Owner", LOST: "NotOwner"}
NORTH = "B827EBFFFE000003"
OWNED_OR_LOST = Table("""
    strategy kind      | owner                             | other
    *        confirmed | NonDuplicate forwarded RX1 Owner  | NonDuplicate marked Suppressed NotOwner
""")


def race(eui: str, n: int, words: str, level2: str | None = None) -> Event:
    row = due(eui, n, words) | {"race": 1}
    return row | {"level2": level2 or TOLD[words]}


def told(eui: str, xtime: int, words: str, level2: str | None = None) -> list[Event]:
    """A reception, its message, its answer if there is one, and its outcome."""
    events = [heard(eui, xtime), published(eui, f"m-{xtime}")]
    if words.endswith("RX1"):
        events += [scheduled(eui, xtime, f_cnt_down=xtime), dnmsg(eui, xtime)]
    return [*events, outcome(eui, xtime, words) | {"level2": level2 or TOLD[words]}]


DUE = (race(WEST, 0, OWNED), race(EAST, 1, LOST))
STATIONS = (station(WEST, "west"), station(EAST, "east"), station(NORTH, "north"))


def verdict(*receptions: list[Event], due: tuple[Event, ...] = DUE) -> Verdict:
    said = [event for reception in receptions for event in reception]
    return judge(in_order(begin(), *STATIONS, transmit(), *said, *due, end()))


@pytest.mark.parametrize("stations", list(permutations((WEST, EAST))))
@pytest.mark.parametrize("became", list(permutations((OWNED, LOST))))
def test_any_order_and_any_owner_is_right(
    stations: tuple[str, ...], became: tuple[str, ...]
) -> None:
    first, second = zip(stations, became, strict=True)
    assert verdict(told(first[0], 11, first[1]), told(second[0], 22, second[1])) == Verdict(
        Result.PASS
    )


def test_two_owners_fail() -> None:
    found = verdict(told(WEST, 11, OWNED), told(EAST, 22, OWNED))
    assert (found.result, found.owner) == (Result.FAIL, "LNS")
    assert found.reasons == (
        f"{FRAME} #1 through east: expected NonDuplicate forwarded Suppressed NotOwner,"
        " observed NonDuplicate forwarded RX1 Owner",
    )


def test_no_owner_fails() -> None:
    found = verdict(told(WEST, 11, LOST), told(EAST, 22, LOST))
    assert found.result is Result.FAIL


def test_two_answers_fail_although_one_owns() -> None:
    found = verdict(told(WEST, 11, OWNED), told(EAST, 22, OWNED, level2="NotOwner"))
    assert found.result is Result.FAIL


def test_same_words_and_two_owners_fail() -> None:
    """Under None an unconfirmed frame leaves both servers with the same words."""
    words = "NonDuplicate forwarded - NotAsked"
    rows = (race(WEST, 0, words, "Owner"), race(EAST, 1, words, "NotOwner"))
    one = verdict(told(WEST, 11, words, "NotOwner"), told(EAST, 22, words, "Owner"), due=rows)
    both = verdict(told(WEST, 11, words, "Owner"), told(EAST, 22, words, "Owner"), due=rows)
    assert one.result is Result.PASS
    assert both.result is Result.FAIL
    assert both.reasons == (
        f"{FRAME} #0 through west: expected NonDuplicate forwarded NotAsked NotOwner,"
        " observed NonDuplicate forwarded NotAsked Owner",
    )


def test_an_owner_nobody_told_of_fails() -> None:
    silent = [event for event in told(EAST, 22, LOST) if event["kind"] != "lns.outcome"]
    found = verdict(told(WEST, 11, OWNED), silent)
    assert found.result is Result.FAIL
    assert any("no outcome" in reason for reason in found.reasons)


def test_a_race_that_one_station_did_not_run_proves_nothing() -> None:
    found = verdict(told(WEST, 11, OWNED))
    assert (found.result, found.owner) == (Result.INCONCLUSIVE, "air")
    found = verdict(told(WEST, 11, OWNED), told(NORTH, 22, LOST))
    assert found.result is Result.INCONCLUSIVE
    assert found.reasons == (f"{FRAME} #1: east was to hear it, north did",)


def test_what_comes_after_a_race_is_judged_in_order() -> None:
    again = due(WEST, 2, OWNED)
    ran = told(EAST, 11, OWNED), told(WEST, 22, LOST)
    late = verdict(*ran, told(EAST, 33, LOST), due=(*DUE, again))
    assert f"{FRAME} #2: west was to hear it, east did" in late.reasons
    wrong = verdict(*ran, told(WEST, 33, LOST), due=(*DUE, again))
    assert wrong.reasons[0].startswith(f"{FRAME} #2 through west: expected {OWNED[:12]}")


def test_a_word_of_level_2_is_compared_only_where_it_is_due() -> None:
    asked = due(WEST, 0, OWNED) | {"level2": "NotAsked"}
    assert verdict(told(WEST, 11, OWNED), due=(asked,)).reasons == (
        f"{FRAME} #0 through west: expected NonDuplicate forwarded RX1 NotAsked,"
        " observed NonDuplicate forwarded RX1 Owner",
    )
    assert verdict(told(WEST, 11, OWNED), due=(due(WEST, 0, OWNED),)) == Verdict(Result.PASS)


def test_a_race_is_due_for_as_many_stations_as_columns() -> None:
    assert OWNED_OR_LOST.race(Strategy.MARK, "confirmed", ("east", "west")) == (
        Due("east", Words("NonDuplicate", "forwarded", "-", "RX1", "Owner")),
        Due("west", Words("NonDuplicate", "marked", "-", "Suppressed", "NotOwner")),
    )
    for wrong in (("west",), ("west", "west"), ("west", "east", "north")):
        with pytest.raises(ValueError, match=re.escape(f"not {', '.join(wrong)}")):
            OWNED_OR_LOST.race(Strategy.MARK, "confirmed", wrong)


def test_all_columns_of_a_race_name_level_2_or_none_does() -> None:
    mixed = OWNED_OR_LOST.only("owner") + Table("""
        strategy kind      | other
        *        confirmed | NonDuplicate marked Suppressed
    """)
    with pytest.raises(ValueError, match="every column"):
        mixed.race(Strategy.MARK, "confirmed", ("west", "east"))
