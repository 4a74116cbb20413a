"""Whose message goes to the broker next, when one of each topic is on its way at a time?"""

import asyncio
import random
from collections import deque
from collections.abc import Callable, Container, Iterable
from heapq import heappop, heappush
from itertools import groupby
from operator import attrgetter

from lns.delivery.mqtt_session import BackOff
from lns.delivery.outbox import Entry

_position = attrgetter("position")
_topic = attrgetter("topic")


class Turns:
    """What is to be sent, for as long as it is: of each topic in order, the earliest topic first.

    A topic whose message was taken is held until it is let go, or refused until it may try again.
    """

    def __init__(self) -> None:
        self._waiting: dict[str, deque[Entry]] = {}
        self._held: set[str] = set()
        self._refused: set[str] = set()
        self._heads: list[tuple[int, str]] = []  # of topics that are neither held nor refused
        self.ahead = 0
        """How many wait, those of refused topics left out."""

    def add(self, entries: Iterable[Entry]) -> None:
        """Behind all others."""
        for entry in entries:
            queue = self._waiting.setdefault(entry.topic, deque())
            queue.append(entry)
            self.ahead += entry.topic not in self._refused
            if len(queue) == 1:
                self._offer(entry.topic)

    def take(self) -> Entry | None:
        """The earliest whose topic is free, and hold its topic; None when there is none."""
        if not self._heads:
            return None
        _, topic = heappop(self._heads)
        queue = self._waiting[topic]
        entry = queue.popleft()
        if not queue:
            del self._waiting[topic]
        self._held.add(topic)
        self.ahead -= 1
        return entry

    def let_go(self, topic: str) -> None:
        """The next of a held topic may go."""
        self._held.discard(topic)
        self._offer(topic)

    def refuse(self, entry: Entry) -> None:
        """Put the message of a held topic back; it and what is behind it wait."""
        self._held.discard(entry.topic)
        self._refused.add(entry.topic)
        queue = self._waiting.setdefault(entry.topic, deque())
        self.ahead -= len(queue)
        queue.appendleft(entry)

    def try_again(self, topic: str) -> bool:
        """A refused topic may go; whether anything of it waits."""
        self._refused.discard(topic)
        self.ahead += len(self._waiting.get(topic, ()))
        self._offer(topic)
        return topic in self._waiting

    def put_back(self, entries: Iterable[Entry]) -> None:
        """What was taken is to be sent again, before what is behind it; nothing is held now."""
        self._fill([*entries, *(entry for queue in self._waiting.values() for entry in queue)])

    def leave_out(self, positions: Container[int]) -> None:
        """Forget those at these positions; nothing else changes."""
        held = set(self._held)
        waiting = [entry for queue in self._waiting.values() for entry in queue]
        self._fill([entry for entry in waiting if entry.position not in positions], held)

    def earliest(self) -> list[Entry]:
        """The first of all that wait, if there is one."""
        heads = [queue[0] for queue in self._waiting.values()]
        return [min(heads, key=_position)] if heads else []

    def _fill(self, entries: list[Entry], held: Iterable[str] = ()) -> None:
        self._held = set(held)
        entries.sort(key=lambda entry: (entry.topic, entry.position))
        self._waiting = {topic: deque(queue) for topic, queue in groupby(entries, _topic)}
        self.ahead = sum(entry.topic not in self._refused for entry in entries)
        self._heads = []
        for topic in self._waiting:
            self._offer(topic)

    def _offer(self, topic: str) -> None:
        if topic in self._waiting and topic not in self._held and topic not in self._refused:
            heappush(self._heads, (self._waiting[topic][0].position, topic))


class Refusals:
    """How often in a row the broker has refused messages of a topic; `again` is told when to try.

    Remembers a topic until it is forgotten.
    """

    def __init__(
        self, back_off: BackOff, chance: random.Random, again: Callable[[str], None]
    ) -> None:
        self._back_off = back_off
        self._chance = chance
        self._try = again
        self._in_a_row: dict[str, int] = {}
        self._again: dict[str, asyncio.TimerHandle] = {}

    def note(self, topic: str) -> int:
        """One more, and how many there are; it is tried again after the wait of so many."""
        failures = self._in_a_row[topic] = self._in_a_row.get(topic, 0) + 1
        wait_us = self._back_off.wait_us(failures, self._chance)
        loop = asyncio.get_running_loop()
        self._again[topic] = loop.call_later(wait_us / 1_000_000, self._due, topic)
        return failures

    def forget(self, topic: str) -> bool:
        """The broker takes its messages, or there are none; whether it had refused some."""
        return self._in_a_row.pop(topic, 0) > 0

    def close(self) -> None:
        """Try nothing any more."""
        for again in self._again.values():
            again.cancel()

    def _due(self, topic: str) -> None:
        del self._again[topic]
        self._try(topic)
