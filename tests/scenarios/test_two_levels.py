"""The combinations of the two levels: is every one there, and are their words the policies'?"""

import re
from collections import Counter
from itertools import product

import pytest

from bench.verdict.expectation import Due, words
from lns.dedup.claim import Level2, OnOutage
from lns.dedup.concentrator import Copy
from lns.dedup.session import Standing
from lns.dedup.strategy import Disposition, Strategy, after_claim, decide, status_of
from scenarios import test_levels_combined
from scenarios.two_levels import (
    ANSWERED,
    SERVERS,
    STATIONS,
    Order,
    canonical,
    due,
    every_order,
    orders,
    renamings,
)
from scenarios.words import ELSEWHERE, LEVEL_1

KINDS = ("confirmed", "unconfirmed")
AGAIN = ((), *((station,) for station in STATIONS))


def order(letters: str) -> Order:
    """The stations by their first letters."""
    return tuple(next(name for name in STATIONS if name[0] == letter) for letter in letters)


def combinations() -> list[tuple[Order, Order, Strategy, str]]:
    """All that the scenarios play: first transmission, second one, strategy, kind."""
    return list(product(orders(), AGAIN, Strategy, KINDS))


def test_there_are_four_stations_in_two_pairs() -> None:
    assert sorted(Counter(SERVERS.values()).values()) == [2, 2]


def test_every_order_of_one_to_four_stations_is_one_of_nine() -> None:
    assert len(every_order()) == len(set(every_order())) == 4 + 12 + 24 + 24
    assert orders() == [order(o) for o in "w we wn wen wne wns wens wnes wnse".split()]
    assert {canonical(one) for one in every_order()} == set(orders())
    kinds = Counter(canonical(one) for one in every_order())
    assert kinds == {**dict.fromkeys(orders(), 8), order("w"): 4, order("we"): 4}


def test_an_order_keeps_its_kind_under_every_other_name() -> None:
    assert len(renamings()) == 8
    for one, names in product(every_order(), renamings()):
        assert canonical(tuple(names[station] for station in one)) == canonical(one)


@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("kind", KINDS)
def test_names_do_not_matter(strategy: Strategy, kind: str) -> None:
    """What is due of an order that is not played is due of the one that is."""
    for one, again, names in product(orders(), AGAIN, renamings()):
        receptions = (*one, *again)
        renamed = due([names[station] for station in receptions], strategy, kind)
        assert renamed == [
            Due(names[row.station], row.words) for row in due(receptions, strategy, kind)
        ]


def test_the_scenarios_play_all_of_them() -> None:
    played = [
        scenario
        for name, scenario in vars(test_levels_combined).items()
        if name.startswith("test_")
    ]
    assert len(played) == 2
    for scenario in played:
        [by_order] = [mark for mark in scenario.pytestmark if mark.name == "parametrize"]
        assert by_order.args == ("order", orders())
    assert test_levels_combined.NOBODY_OR_ONE == AGAIN


SHORT = {
    "N": "NonDuplicate",
    "D": "Duplicate",
    "S": "SoftDuplicate",
    "R": "DuplicateDueToResubmission",
    "up": "forwarded",
    "mk": "marked",
    "dup": "dropped(Duplicate)",
    "els": "dropped(DuplicateAtOtherServer)",
    "res": "dropped(ResubmissionSuppressed)",
    "fcnt": "dropped(InvalidFrameCounter)",
    "1": "RX1",
    "s": "Suppressed",
    "n": "NotAsked",
}


@pytest.mark.parametrize(
    ("heard", "kind", "drop", "mark", "none"),
    [
        ("w", "confirmed", "N up 1", "N up 1", "N up 1"),
        ("we", "confirmed", "N up 1, D dup s", "N up 1, S mk s", "N up 1, S up s"),
        ("we", "unconfirmed", "N up n, D dup n", "N up n, S mk n", "N up n, S up n"),
        ("wn", "confirmed", "N up 1, N els s", "N up 1, N mk s", "N up 1, N up s"),
        ("wn", "unconfirmed", "N up n, N els n", "N up n, N mk n", "N up n, N up n"),
        # Heard again at the owner: by its first station, by its other one.
        ("wnw", "confirmed",
         "N up 1, N els s, R res 1", "N up 1, N mk s, R mk 1", "N up 1, N up s, R up 1"),
        ("wnw", "unconfirmed",
         "N up n, N els n, R fcnt n", "N up n, N mk n, R fcnt n", "N up n, N up n, R fcnt n"),
        ("wne", "confirmed",
         "N up 1, N els s, D dup s", "N up 1, N mk s, S mk s", "N up 1, N up s, S up s"),
        # At the other server: it has an entry of its own, and asks for what level 1 lets pass.
        ("wnn", "confirmed",
         "N up 1, N els s, R els s", "N up 1, N mk s, R mk s", "N up 1, N up s, R up s"),
        ("wnn", "unconfirmed",
         "N up n, N els n, R fcnt n", "N up n, N mk n, R fcnt n", "N up n, N up n, R fcnt n"),
        ("wns", "confirmed",
         "N up 1, N els s, D dup s", "N up 1, N mk s, S mk s", "N up 1, N up s, S up s"),
        ("wns", "unconfirmed",
         "N up n, N els n, D dup n", "N up n, N mk n, S mk n", "N up n, N up n, S up n"),
        # A repetition may be the first that the other server hears.
        ("wes", "confirmed",
         "N up 1, D dup s, N els s", "N up 1, S mk s, N mk s", "N up 1, S up s, N up s"),
        # Who owns the frame does not depend on how often the other one hears it.
        ("nswen", "confirmed",
         "N up 1, D dup s, N els s, D dup s, R res 1",
         "N up 1, S mk s, N mk s, S mk s, R mk 1",
         "N up 1, S up s, N up s, S up s, R up 1"),
        ("wnsen", "unconfirmed",
         "N up n, N els n, D dup n, D dup n, R fcnt n",
         "N up n, N mk n, S mk n, S mk n, R fcnt n",
         "N up n, N up n, S up n, S up n, R fcnt n"),
    ],
)  # fmt: skip
def test_words_derived_by_hand(heard: str, kind: str, drop: str, mark: str, none: str) -> None:
    for strategy, short in zip(Strategy, (drop, mark, none), strict=True):
        expected = [
            words(re.sub(r"\w+", lambda word: SHORT[word[0]], one)) for one in short.split(", ")
        ]
        rows = due(order(heard), strategy, kind)
        assert [row.words for row in rows] == expected
        assert [row.station for row in rows] == list(order(heard))


def test_a_transmission_is_answered_at_most_once_and_by_the_owner() -> None:
    for first, again, strategy, kind in combinations():
        rows = due((*first, *again), strategy, kind)
        answered = [n for n, row in enumerate(rows) if row.words.answer in ANSWERED]
        owner_again = again == first[:1]
        expected = [0] + [len(first)] * owner_again if kind == "confirmed" else []
        assert answered == expected


def test_exactly_one_unmarked_message_of_a_frame_under_drop_and_mark() -> None:
    for first, again, strategy, kind in combinations():
        rows = due((*first, *again), strategy, kind)
        upstream = Counter(row.words.upstream for row in rows)
        if strategy is not Strategy.NONE:
            assert upstream["forwarded"] == 1
        assert (upstream["marked"] > 0) <= (strategy is Strategy.MARK)


def test_every_cell_of_both_policies_is_played() -> None:
    """No joins: a join that two servers hear has scenarios of its own."""
    for strategy, kind in product(Strategy, KINDS):
        cells = {
            row.words
            for first, again in product(orders(), AGAIN)
            for row in due((*first, *again), strategy, kind)
        }
        written = LEVEL_1 + ELSEWHERE
        roles = dict.fromkeys(("first", "copy", "again", "elsewhere"), "any")
        for row in written.row(strategy, kind, roles):
            assert row.words in cells


ROLES = {"first": Copy.FIRST, "copy": Copy.OTHER_STATION, "again": Copy.SAME_STATION}


@pytest.mark.parametrize("role", ROLES)
@pytest.mark.parametrize("strategy", Strategy)
@pytest.mark.parametrize("kind", KINDS)
def test_the_written_policies_are_those_of_the_network_server(
    role: str, strategy: Strategy, kind: str
) -> None:
    """Two spellings of ADR 007, one by hand; a change of either must be meant."""
    status = status_of(ROLES[role], strategy)
    done = decide(
        status,
        strategy,
        confirmed=kind == "confirmed",
        standing=Standing.NEWER if role == "first" else Standing.EQUAL,
        may_have_restarted=False,
        resubmissions=0,
    )
    [cell] = LEVEL_1.only(role).row(strategy, kind, {role: "any"})
    assert (status, *_said(done, kind)) == _all(cell)
    if role == "first":
        left = after_claim(done, strategy, Level2.NOT_OWNER, OnOutage.OPEN)
        [cell] = ELSEWHERE.row(strategy, kind, {"elsewhere": "any"})
        assert (status, *_said(left, kind)) == _all(cell)


def _said(done: Disposition, kind: str) -> tuple[str, str, str]:
    if kind == "unconfirmed":
        answer = "NotAsked"
    else:
        answer = "RX1" if done.answers else "Suppressed"
    return done.upstream, done.reason or "-", answer


def _all(row: Due) -> tuple[str, str, str, str]:
    return row.words.status, row.words.upstream, row.words.reason, row.words.answer
