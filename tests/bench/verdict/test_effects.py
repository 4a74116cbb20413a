"""Effects and ignored duplicates: when are as many as were due, and of which messages?"""

import pytest

from bench.verdict.case import Result, judge
from tests.bench.verdict.written_case import ALPHA, Event, good

FIRST = f"{ALPHA}-49BE7DF1-2"
COPY = f"{FIRST}-B827EBFFFE000002-1"
LATER_LIFE = f"{ALPHA}-49BE7DF1.1-2"


def effect(message_id: str = FIRST, consumer: str = "application") -> Event:
    return {
        "source": "application", "kind": "application.effect", "case": "c", "consumer": consumer,
        "channel": "t", "message_id": message_id, "position": 1,
    }  # fmt: skip


def ignored(by: str = "window", message_id: str = FIRST) -> Event:
    return {
        "source": "inbox", "kind": "inbox.ignored", "case": "c", "consumer": "application",
        "channel": "t", "message_id": message_id, "by": by, "first_position": 1,
    }  # fmt: skip


def due(expect: str = "effect", count: int = 1, **more: object) -> Event:
    which = {"dev_eui": ALPHA, "dev_addr": "49BE7DF1", "f_cnt": 2}
    if "message_id" in more:
        which = {}
    return {
        "source": "bench", "kind": "case.expect", "case": "c", "expect": expect, "count": count,
        **which, **more,
    }  # fmt: skip


@pytest.mark.parametrize(
    "events",
    [
        (due(), effect()),
        (due(count=2), effect(), effect(COPY)),
        (due(count=2), effect(), effect(LATER_LIFE)),
        (due(), effect(), effect(f"{ALPHA}-49BE7DF1-22"), effect(f"{ALPHA}-49BE7DF2-2")),
        (due(count=0), effect("made by hand")),
        (due(message_id="x"), effect("x"), effect()),
        (due(count=2), effect(consumer="one"), effect(consumer="other")),
        (due(consumer="one"), effect(consumer="one"), effect(consumer="other")),
        (due("ignored", by="window"), effect(), ignored(), ignored("key")),
    ],
)
def test_as_many_as_were_due_pass(events: tuple[Event, ...]) -> None:
    assert judge(good(*events)).result is Result.PASS


@pytest.mark.parametrize(
    ("events", "reason"),
    [
        (
            (due(),),
            f"effects of {ALPHA} FCnt 2 at all consumers: expected 1, observed 0",
        ),
        (
            (due(consumer="one"), effect(), effect(consumer="one"), effect(consumer="one")),
            f"effects of {ALPHA} FCnt 2 at one: expected 1, observed 2",
        ),
        (
            (due("ignored", by="key", count=0, message_id="x"), ignored("key", "x")),
            "key duplicates of message x at all consumers: expected 0, observed 1",
        ),
    ],
)
def test_more_or_fewer_are_a_failure_of_the_application(
    events: tuple[Event, ...], reason: str
) -> None:
    verdict = judge(good(*events))
    assert (verdict.result, verdict.owner, verdict.reasons) == (
        Result.FAIL, "application", (reason,),
    )  # fmt: skip
