"""The books of a consumer find every decision that its detectors must not take."""

import random
from dataclasses import replace
from typing import Any

import pytest

from bench.inspection.consumer import Brought, ConsumerBooks, Rules, found, refusal
from bench.verdict.owner import Owner
from lns.delivery import Incoming
from lns.delivery.detectors import (
    Detectors,
    MessageIdWindow,
    RemoveDuplicatesKeys,
    SequenceTracker,
)
from lns.store.inbox_store import MemoryEntries

SECOND_US = 1_000_000
RULES = Rules("shop", 20 * SECOND_US, False, True, True, 60 * SECOND_US, 40 * SECOND_US)


def said(name: str, channel: str = "up", **fields: object) -> dict[str, Any]:
    return {"channel": channel, "message_id": name, "partition_key": "", **fields}


def named(name: str) -> Brought:
    return Brought(None, 2, facts={"message_id": name, "partition_key": ""})


def accepted(
    books: ConsumerBooks, name: str, position: int, *, at_us: int = 0, **fields: object
) -> list[str]:
    told = said(name, position=position, **fields)
    line = {"position": position, "channel": told["channel"], "messageId": name, "body": {}}
    books.had(RULES.name, line)
    return list(books.told(RULES, "inbox.accepted", told, at_us))


def ignored(
    books: ConsumerBooks, name: str, by: str, first: int, *, at_us: int = 0, **fields: object
) -> list[str]:
    told = said(name, by=by, first_position=first, **fields)
    return list(books.told(RULES, "inbox.ignored", told, at_us))


def test_each_detector_is_worked_out_anew() -> None:
    books = ConsumerBooks()
    assert accepted(books, "a", 1, sequence_number=1, key="k") == []
    assert accepted(books, "b", 2, sequence_number=5) == []
    assert ignored(books, "a", "window", 1, at_us=20 * SECOND_US - 1, sequence_number=3) == []
    assert ignored(books, "c", "sequence", 2, sequence_number=5) == []
    assert ignored(books, "d", "key", 1, at_us=100 * SECOND_US, key="k") == []
    assert accepted(books, "a", 3, at_us=20 * SECOND_US) == []
    assert accepted(books, "e", 4, at_us=100 * SECOND_US + 1, key="k", sequence_number=1) == []
    seen = {"ignored by window": 1, "ignored by sequence": 1, "ignored by key": 1}
    counted = {"inbox.accepted": 4, "NumDupMsgsRcvd": 2, "inbox.parked": 0, "evicted": 0}
    assert list(books.figures({**seen, **counted, "failed": 0})) == []
    assert list(books.figures({**seen, "NumDupMsgsRcvd": 3})) == [
        "figure NumDupMsgsRcvd: expected 2, observed 3"
    ]
    assert list(books.remembered(1, 100 * SECOND_US + 1)) == []
    assert len(list(books.remembered(2, 100 * SECOND_US + 1))) == 1
    assert list(books.remembered_keys(1, 200 * SECOND_US + 1)) == []
    assert len(list(books.remembered_keys(2, 200 * SECOND_US + 1))) == 1
    assert list(books.remembered_keys(0, 200 * SECOND_US + 2)) == []
    assert len(list(books.remembered_keys(0, 200 * SECOND_US + 1))) == 1


@pytest.mark.parametrize(("later_us", "least"), [(100 * SECOND_US, 2), (100 * SECOND_US + 1, 1)])
def test_a_key_that_is_over_leaves_before_others_drive_it_out_or_then(
    later_us: int, least: int
) -> None:
    books = ConsumerBooks(entries_max=1)
    assert accepted(books, "a", 1, key="k") == []
    assert accepted(books, "b", 2, at_us=later_us, key="l") == []  # an id leaves as well
    assert list(books.figures({"inbox.accepted": 2, "evicted": 2})) == []
    assert list(books.figures({"evicted": 1})) == (
        ["figure evicted: expected 2, observed 1"] if least == 2 else []
    )
    assert len(list(books.figures({"evicted": 0}))) == 1


def test_another_decision_is_told_with_the_right_one() -> None:
    books = ConsumerBooks()
    assert accepted(books, "a", 2) == ["shop: a on up: expected position 1, observed 2"]
    assert accepted(books, "a", 2) == [
        "shop: a on up: expected ignored by window of 1, observed inbox.accepted"
    ]
    assert ignored(books, "b", "window", 1) == [
        "shop: b on up: expected accepted, observed ignored by window of 1"
    ]
    assert ignored(books, "a", "window", 1) == [
        "shop: a on up: expected ignored by window of 2, observed ignored by window of 1"
    ]
    told = found("shop: x", 7)
    assert (told.owner, told.text, told.t_us) == (Owner.APPLICATION, "consumer shop: x", 7)


def test_what_was_ignored_was_received_all_the_same() -> None:
    books = ConsumerBooks()
    accepted(books, "a", 1, sequence_number=1)
    assert ignored(books, "a", "window", 1, sequence_number=9) == []
    assert ignored(books, "b", "sequence", 1, sequence_number=8) == []


def test_a_topic_is_decided_on_in_its_order_and_then_acknowledged() -> None:
    books = ConsumerBooks()
    for name in ("a", "b", "c"):
        books.brought("shop", "up", named(name))
    assert list(books.acknowledged("shop", "up")) == [
        "shop: up: a message is acknowledged that nothing was decided on"
    ]
    books = ConsumerBooks()
    for name in ("a", "b", "c"):
        books.brought("shop", "up", named(name))
    assert accepted(books, "a", 1) + list(books.acknowledged("shop", "up")) == []
    assert accepted(books, "c", 2) == ["shop: up: message_id: expected b, observed c"]
    books.gone("shop")
    assert accepted(books, "d", 3) == []


@pytest.mark.parametrize(("after_us", "wrong"), [(199_999, 1), (200_000, 0), (200_001, 1)])
def test_an_effect_is_tried_again_after_its_wait(after_us: int, wrong: int) -> None:
    books = ConsumerBooks()
    for at_us in (0, 100_000):
        assert list(books.tried("shop", "up", "a", at_us)) == []
        books.failed("shop", "up", "a", at_us)
    assert len(list(books.tried("shop", "up", "a", 100_000 + after_us))) == wrong
    assert len(list(books.tried("shop", "up", "b", 0))) == 0


WHY = f"Refused: {refusal('a')}"


@pytest.mark.parametrize(
    ("tries", "reason", "wrong"),
    [(2, WHY[:1000], 0), (3, WHY[:1000], 1), (2, WHY[:1001], 1), (2, "Refused: a", 1)],
)
def test_what_is_put_aside_has_failed_so_often(tries: int, reason: str, wrong: int) -> None:
    books = ConsumerBooks()
    for at_us in (0, 100_000):
        books.failed("shop", "up", "a", at_us)
    told = said("a", tries=tries, reason=reason)
    assert len(list(books.told(RULES, "inbox.parked", told, 0))) == wrong
    seen = {"inbox.parked": 1, "failed": 2}
    assert list(books.figures(seen)) == []
    accepted(books, "a", 1)
    assert list(books.figures({**seen, "inbox.parked": 0})) == []


@pytest.mark.parametrize(
    ("waited_us", "kept", "wrong"),
    [
        (99_999, True, 1),
        (100_000, True, 0),
        (499_999, False, 1),
        (500_000, False, 0),
        (500_001, True, 1),
    ],
)
def test_an_application_without_room_is_asked_again_soon_and_not_at_once(
    waited_us: int, kept: bool, wrong: int
) -> None:
    books = ConsumerBooks()
    books.unavailable("shop", 7, kept=kept)
    assert len(list(books.tried("shop", "up", "a", 7 + waited_us))) == wrong
    assert list(books.tried("shop", "up", "a", 8 + waited_us)) == []


LINE = {"position": 1, "channel": "up", "messageId": "a", "body": {"n": 1}}


@pytest.mark.parametrize(
    ("lines", "wrong"),
    [
        ([LINE], []),
        ([], ["shop: a on up: expected one line, observed none"]),
        (
            [LINE | {"position": 2}],
            ["shop: a on up: position of its effect: expected 1, observed 2"],
        ),
        (
            [LINE | {"body": {}}],
            ["shop: a on up: body of its effect: expected {'n': 1}, observed {}"],
        ),
    ],
)
def test_an_effect_is_one_line_that_says_what_came(
    lines: list[dict[str, Any]], wrong: list[str]
) -> None:
    books = ConsumerBooks()
    books.brought("shop", "up", Brought({"n": 1}, 8))
    for line in lines:
        books.had("shop", line)
    assert list(books.told(RULES, "inbox.accepted", said("a", position=1), 0)) == wrong


def test_what_the_formula_went_by_is_kept() -> None:
    books = ConsumerBooks()
    assert list(books.kept(None)) == []
    books.oldest_us = 7
    assert list(books.kept(7)) == []
    assert list(books.kept(8)) == ["oldest message: expected 7 µs, observed 8"]


def test_an_effect_of_which_nothing_was_told_is_found() -> None:
    books = ConsumerBooks()
    books.had("shop", LINE)
    assert list(books.figures({})) == [
        "effects of shop that it never told of: expected 0, observed 1"
    ]


def test_who_checks_no_numbers_shows_no_duplicates() -> None:
    books = ConsumerBooks()
    accepted(books, "a", 1, sequence_number=5)
    ignored(books, "b", "sequence", 1, sequence_number=5)
    books.opened(None, 0, checks=False)
    assert list(books.figures({"NumDupMsgsRcvd": 0})) == []
    books.opened(None, 0, checks=True)
    assert list(books.figures({"NumDupMsgsRcvd": 1})) == []


def test_who_ended_before_it_told_is_not_judged() -> None:
    books = ConsumerBooks(is_blind=True)
    assert accepted(books, "a", 7) == []
    assert list(books.figures({"inbox.accepted": 9})) + list(books.remembered(9, 0)) == []


@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize("partitioned", [False, True])
def test_books_and_detectors_agree_on_whatever_comes(seed: int, partitioned: bool) -> None:
    chance = random.Random(seed)
    rules = Rules("shop", 20 * SECOND_US, partitioned, True, True, 60 * SECOND_US, 40 * SECOND_US)
    window = MessageIdWindow(20 * SECOND_US, partitioned=partitioned)
    keys = RemoveDuplicatesKeys(
        retention_us=60 * SECOND_US, retry_us=30 * SECOND_US, network_us=10 * SECOND_US
    )
    detectors = Detectors(window=window, sequence=SequenceTracker(), keys=keys)
    books, entries, now_us, position = ConsumerBooks(), MemoryEntries(), 0, 0
    for _ in range(300):
        now_us += chance.choice((0, 1, SECOND_US, 20 * SECOND_US - 1, 20 * SECOND_US))
        fields = {
            "channel": chance.choice("uv"),
            "message_id": chance.choice("abcd"),
            "partition_key": chance.choice("pq"),
            "sequence_number": chance.choice((None, 1, 2, 3, 4, 9)),
        }
        key = chance.choice((None, "k", "l"))
        message = Incoming(**fields, remove_duplicates_key=key)
        duplicate = detectors.judge(entries, message, now_us)
        if duplicate is None:
            position += 1
            detectors.remember(entries, message, now_us, position)
            told = {**fields, "key": key, "position": position}
            line = {"channel": fields["channel"], "messageId": fields["message_id"]}
            books.had("shop", {**line, "position": position})
            assert list(books.told(rules, "inbox.accepted", told, now_us)) == []
        else:
            first = duplicate.first_position
            detectors.ignore(entries, message, now_us, duplicate)
            told = {**fields, "key": key, "by": str(duplicate.by), "first_position": first}
            assert list(books.told(rules, "inbox.ignored", told, now_us)) == []


def test_an_effect_may_be_had_twice_when_a_lease_has_ended_and_is_counted() -> None:
    books, rules = ConsumerBooks(has_gaps=True), replace(RULES, may_overrun=True)
    for position in (1, 2):
        told = said("a", position=position)
        line = {"position": position, "channel": "up", "messageId": "a", "body": {}}
        books.had(rules.name, line)
        assert list(books.told(rules, "inbox.accepted", told, 0)) == []
    assert ignored(books, "a", "window", 1) == []
    assert list(books.figures({"overruns": 1})) == []
    assert list(books.figures({"overruns": 0})) == ["figure overruns: expected 1, observed 0"]


def test_what_goes_back_to_the_broker_waits_no_more() -> None:
    books = ConsumerBooks()
    for name in ("a", "b"):
        books.brought(RULES.name, "up", named(name))
    books.gone_back(RULES.name, "up")
    assert books.waiting(RULES.name) == 1
    assert accepted(books, "a", 1) == []
    assert books.waiting(RULES.name) == 0
