"""Whose turn it is: against a list that is looked through from its beginning each time."""

import random
from time import process_time

import pytest

from lns.delivery.outbox import Entry, Turns

TOPICS = "abcde"


def entry(position: int, topic: str) -> Entry:
    return Entry(position, topic, f"id-{position}", topic, position, b"{}", f"id-{position}")


class Model:
    """All that waits, in order, and which topics may not send."""

    def __init__(self) -> None:
        self.waiting: list[Entry] = []
        self.held: dict[str, Entry] = {}
        self.refused: set[str] = set()

    def take(self) -> Entry | None:
        blocked = self.refused | set(self.held)
        one = next((one for one in self.waiting if one.topic not in blocked), None)
        if one is not None:
            self.waiting.remove(one)
            self.held[one.topic] = one
        return one

    def put(self, entries: list[Entry]) -> None:
        self.waiting = sorted([*self.waiting, *entries], key=lambda one: one.position)


@pytest.mark.parametrize("seed", range(20))
def test_any_history_agrees_with_a_list(seed: int) -> None:
    chance, model, turns, position = random.Random(seed), Model(), Turns(), 0
    for _ in range(400):
        match chance.choice("add add take take take go go refuse again lost park".split()):
            case "add":
                new = [entry(position + n, chance.choice(TOPICS)) for n in range(3)]
                position += 3
                model.put(new)
                turns.add(new)
            case "take":
                assert turns.take() == model.take()
            case "go" if model.held:
                topic = chance.choice(sorted(model.held))
                del model.held[topic]
                turns.let_go(topic)
            case "refuse" if model.held:
                one = model.held.pop(chance.choice(sorted(model.held)))
                model.refused.add(one.topic)
                model.put([one])
                turns.refuse(one)
            case "again" if model.refused:
                topic = chance.choice(sorted(model.refused))
                model.refused.discard(topic)
                waits = any(one.topic == topic for one in model.waiting)
                assert turns.try_again(topic) is waits
            case "lost":
                model.put(list(model.held.values()))
                turns.put_back(model.held.values())
                model.held = {}
            case "park":
                gone = {one.position for one in model.waiting if chance.random() < 0.3}
                model.waiting = [one for one in model.waiting if one.position not in gone]
                turns.leave_out(gone)
        assert turns.earliest() == model.waiting[:1]
        assert turns.ahead == sum(one.topic not in model.refused for one in model.waiting)


def test_what_is_put_back_goes_in_the_order_it_had() -> None:
    turns = Turns()
    turns.add([entry(n, "a") for n in range(5)])
    turns.put_back(reversed([_next(turns) for _ in range(3)]))
    assert [_next(turns).position for _ in range(5)] == [0, 1, 2, 3, 4]


def _next(turns: Turns) -> Entry:
    one = turns.take()
    assert one is not None
    turns.let_go(one.topic)
    return one


def test_a_long_queue_of_one_topic_is_not_looked_through_for_each_message() -> None:
    """Looked through each time, 40 000 would take minutes."""
    turns, began_s = Turns(), process_time()
    turns.add([entry(n, "a") for n in range(40_000)])
    for n in range(40_000):
        one = turns.take()
        assert one is not None
        assert one.position == n
        assert turns.take() is None
        turns.let_go("a")
    assert process_time() - began_s < 10
