"""The order in which messages are decided on, when some of them must wait."""

import pytest

from lns.delivery.incoming import InboxFull, Offered, WaitingMessages
from tests.lns.delivery.arriving import incoming


def waiting(*streams: str, waiting_max: int = 100) -> WaitingMessages:
    """Messages named by their stream and number, as a0, b1, a2."""
    messages = WaitingMessages(waiting_max)
    for number, stream in enumerate(streams):
        messages.add(incoming(f"{stream}{number}", channel=stream), lambda: None)
    return messages


def ids(taken: list[Offered]) -> list[str]:
    return [offered.message.message_id for offered in taken]  # type: ignore[union-attr]


def later(offered: Offered, due_us: int) -> Offered:
    offered.due_us = due_us
    return offered


def test_messages_are_taken_in_the_order_in_which_they_came() -> None:
    messages = waiting("a", "b", "a", "c")
    first = messages.take(3, 0)
    assert ids(first) == ["a0", "b1", "a2"]
    messages.give_back([])
    assert ids(messages.take(3, 0)) == ["c3"]


def test_one_that_is_not_due_holds_its_stream_and_no_other() -> None:
    messages = waiting("a", "b", "a", "b")
    taken = messages.take(2, 0)
    messages.give_back([later(taken[0], 100)])
    assert ids(messages.take(9, 99)) == ["b3"]
    messages.give_back([])
    assert messages.next_due_us() == 100
    assert ids(messages.take(9, 100)) == ["a0", "a2"]


def test_what_is_given_back_is_where_it_was() -> None:
    messages = waiting("a", "b", "c", "d")
    taken = messages.take(3, 0)
    messages.give_back([taken[2], taken[0]])
    assert ids(messages.take(9, 0)) == ["a0", "c2", "d3"]


def test_one_that_came_meanwhile_stays_behind_its_stream() -> None:
    messages = waiting("a")
    taken = messages.take(1, 0)
    messages.add(incoming("a1", channel="a"), lambda: None)
    messages.give_back([later(taken[0], 100)])
    assert messages.take(9, 0) == []
    assert ids(messages.take(9, 100)) == ["a0", "a1"]


def test_nothing_is_due_when_nothing_waits() -> None:
    assert waiting().next_due_us() is None
    assert waiting("a").next_due_us() == 0


def test_more_than_may_are_not_taken() -> None:
    messages = waiting("a", "a", waiting_max=2)
    messages.take(1, 0)  # what is being decided on waits too
    assert len(messages) == 2
    with pytest.raises(InboxFull, match="2 messages wait"):
        messages.add(incoming("m"), lambda: None)
    messages.give_back([])
    messages.add(incoming("m"), lambda: None)
    assert len(messages) == 2
