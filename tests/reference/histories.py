"""What befalls one device and the servers that hear it: random histories, made of plain values.

A history is a kind of device and a list of acts; each act is of interest for itself, so that a
history without some of its acts is a history too. Nothing here knows the network server.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass

MILLISECOND_US = 1_000
SECOND_US = 1_000_000
GAP_MAX = 16_384


@dataclass(frozen=True)
class Heard:
    """One reception: which server and station, how long after the frame's end it is told of."""

    server: int
    station: int
    late_us: int


@dataclass(frozen=True)
class Send:
    """The device sends something new; `same`: the measurement of every first message."""

    confirmed: bool
    heard: tuple[Heard, ...]
    same: bool = False


@dataclass(frozen=True)
class Again:
    """The device sends its last frame once more, bit by bit."""

    heard: tuple[Heard, ...]


@dataclass(frozen=True)
class Replay:
    """Somebody else sends what was sent so many transmissions before."""

    back: int
    heard: tuple[Heard, ...]


@dataclass(frozen=True)
class Join:
    """The device joins; `deaf`: it does not hear the accept."""

    heard: tuple[Heard, ...]
    deaf: bool = False


@dataclass(frozen=True)
class Restart:
    """The device restarts; without its memory it counts from 0 again, or has to join."""

    memory: bool


@dataclass(frozen=True)
class Skip:
    """So many frames that nobody hears."""

    frames: int


@dataclass(frozen=True)
class ServerRestart:
    """A server begins anew, with the store it had."""

    server: int


@dataclass(frozen=True)
class SlowUpstream:
    """The next message of a server takes so long to be durable."""

    server: int
    us: int


@dataclass(frozen=True)
class Wait:
    """Nothing happens."""

    us: int


Act = Send | Again | Replay | Join | Restart | Skip | ServerRestart | SlowUpstream | Wait


@dataclass(frozen=True)
class History:
    """A device, its servers, and what befalls them."""

    kind: str  # "otaa", "strict", "relaxed"
    strategy: str
    servers: int
    begins_at: int
    acts: tuple[Act, ...]

    def without(self, first: int, number: int) -> "History":
        acts = self.acts[:first] + self.acts[first + number :]
        return History(self.kind, self.strategy, self.servers, self.begins_at, acts)


_LATE_US = (0, 0, 0, 10 * MILLISECOND_US, 50 * MILLISECOND_US, 300 * MILLISECOND_US, 2 * SECOND_US)
_VERY_LATE_US = (10 * SECOND_US, 30 * SECOND_US, 59 * SECOND_US)
_WAITS_US = (
    20 * MILLISECOND_US, 100 * MILLISECOND_US, SECOND_US, 6 * SECOND_US,
    30 * SECOND_US, 61 * SECOND_US, 200 * SECOND_US,
)  # fmt: skip
_SKIPS = (1, 2, 5, 16_380, 16_383, 16_384, 40_000)
_BEGINNINGS = (0, 0, 0, 3, 16_380, 16_390, 65_533, 80_000, 200_000)


def random_history(chance: random.Random, *, acts_max: int = 14) -> History:
    """One history; the same for the same state of `chance`."""
    kind = chance.choice(("otaa", "strict", "relaxed", "relaxed"))
    servers = chance.choice((1, 2, 2))
    acts = [_act(chance, kind, servers) for _ in range(chance.randint(2, acts_max))]
    if kind == "otaa":
        acts = [Join(_heard(chance, servers)), *acts]
    return History(
        kind, chance.choice(("Drop", "Mark", "None")), servers, chance.choice(_BEGINNINGS), (*acts,)
    )


def _act(chance: random.Random, kind: str, servers: int) -> Act:
    draw = chance.random()
    if draw < 0.46:
        same = chance.random() < 0.1
        return Send(chance.random() < 0.5, _heard(chance, servers), same)
    if draw < 0.54:
        return Again(_heard(chance, servers))
    if draw < 0.64:
        return Replay(chance.randint(0, 6), _heard(chance, servers)[:1])
    if draw < 0.74:
        if kind == "otaa":
            return Join(_heard(chance, servers), chance.random() < 0.3)
        return Restart(chance.random() < 0.2)
    if draw < 0.78:
        return Skip(chance.choice(_SKIPS))
    if draw < 0.82:
        return ServerRestart(chance.randrange(servers))
    if draw < 0.87:
        slow_us = chance.choice((5, 120, 1_500)) * MILLISECOND_US
        return SlowUpstream(chance.randrange(servers), slow_us)
    return Wait(chance.choice(_WAITS_US))


def _heard(chance: random.Random, servers: int) -> tuple[Heard, ...]:
    """Nobody, one or several; the first one tells of it at once, somebody perhaps very late."""
    places = [(server, station) for server in range(servers) for station in (0, 1)]
    some = chance.sample(places, chance.choice((1, 1, 2, 2, 3, len(places), 0)) % (len(places) + 1))
    heard = []
    for number, place in enumerate(some):
        late_us = chance.choice(_LATE_US) if number else 0
        if number and chance.random() < 0.1:
            late_us = chance.choice(_VERY_LATE_US)
        heard.append(Heard(*place, late_us))
    return tuple(heard)


def shortest(history: History, is_broken: Callable[[History], bool]) -> History:
    """A history from which nothing more can be left out without mending it."""
    number = len(history.acts)
    while number:
        for shorter in _shorter(history, number):
            if is_broken(shorter):
                history = shorter
                break
        else:
            number = number // 2 if number > 1 else 0
    return history


def _shorter(history: History, number: int) -> Iterator[History]:
    for first in range(len(history.acts)):
        yield history.without(first, number)
