"""Which histories are worth playing? Random ones, with times and counters from the edges.

The same for the same state of `chance`. A wish (two situations that nobody has met together yet)
puts the steps for both into the history, close to each other.
"""

import random
from collections.abc import Callable
from dataclasses import dataclass

from bench.explore.history import (
    KINDS,
    MILLISECOND_US,
    SECOND_US,
    STRATEGIES,
    Again,
    Device,
    Down,
    Forge,
    Heard,
    History,
    Join,
    Replay,
    Restart,
    Send,
    ServerRestart,
    Skip,
    StationRestart,
    Step,
    Store,
    Upstream,
    Wait,
)

GAP_MAX = 16_384
RETENTION_US = 60 * SECOND_US
STEPS_MAX = 10

# How late a station tells: at once, soon, around the limits of RX1 and RX2 (0.6 s and 1.6 s after
# the end of the frame, minus and plus a microsecond), later.
_LATE_US = (
    0, 0, 0, 10 * MILLISECOND_US, 50 * MILLISECOND_US, 300 * MILLISECOND_US,
    599_990, 600_010, 1_599_990, 1_600_010, 2 * SECOND_US,
)  # fmt: skip
_VERY_LATE_US = (10 * SECOND_US, 30 * SECOND_US, 59 * SECOND_US)
_WAITS_US = (
    20 * MILLISECOND_US, 100 * MILLISECOND_US, SECOND_US, 6 * SECOND_US, 30 * SECOND_US,
    RETENTION_US - 70 * MILLISECOND_US, RETENTION_US - 60 * MILLISECOND_US - 1,
    RETENTION_US - 60 * MILLISECOND_US, 61 * SECOND_US, 200 * SECOND_US,
)  # fmt: skip
_SKIPS = (1, 2, 5, GAP_MAX - 2, GAP_MAX - 1, GAP_MAX, 20_000)
_BEGINNINGS = (0, 0, 0, 3, GAP_MAX - 4, GAP_MAX + 6, 65_533, 80_000, 200_000)
_SLOW_US = (5 * MILLISECOND_US, 120 * MILLISECOND_US, 1_500 * MILLISECOND_US)


@dataclass(frozen=True, slots=True)
class Limits:
    """What histories may have; `faults`: servers, stations, store and broker may fail.

    `waits_max_us` bounds each wait and each lateness: real time passes on real wires.
    """

    servers: tuple[int, ...] = (1, 2, 2, 3)
    devices_max: int = 3
    faults: bool = True
    waits_max_us: int = 1 << 62


class Draw:
    """Draws the steps of one history, all from one stream of chance."""

    def __init__(self, chance: random.Random, limits: Limits) -> None:
        self._chance = chance
        self._limits = limits
        self.servers = chance.choice(limits.servers)
        number = min(chance.choice((1, 1, 1, 1, 2, 3)), limits.devices_max)
        self.devices = tuple(self._device() for _ in range(number))

    def history(self, wish: "tuple[str, str] | None" = None) -> History:
        """One history; with both situations of a wish next to each other."""
        chance = self._chance
        steps: list[Step] = []
        for number, device in enumerate(self.devices):
            if device.kind == "otaa":
                steps.append(Join(number, self._heard(number) or self._heard(number)))
        steps += [self._step() for _ in range(chance.randint(1, STEPS_MAX))]
        if wish is not None:
            wished = [step for situation in wish for step in RECIPES[situation](self)]
            # What follows trouble with the store is unknowable for a while: it comes last.
            is_last = "store away" in wish or "slow store" in wish
            first = len(steps) if is_last else chance.randint(0, len(steps))
            place = chance.randint(first, len(steps))
            steps[place:place] = wished
        return History(self.servers, self.devices, tuple(steps), chance.random() < 0.2)

    def _device(self) -> Device:
        chance = self._chance
        kind = chance.choice((*KINDS, "relaxed"))
        pinned = chance.randrange(self.servers) if chance.random() < 0.04 else None
        bits = 16 if chance.random() < 0.1 else 32
        begins_at = chance.choice(_BEGINNINGS) if kind != "otaa" else 0
        begins_at = min(begins_at, 65_534) if bits == 16 else begins_at
        is_odd = chance.random() < 0.3
        counts, alike = is_odd and kind == "otaa", is_odd and kind != "otaa"
        return Device(kind, chance.choice(STRATEGIES), begins_at, bits, pinned, counts, alike)

    def _step(self) -> Step:
        chance, limits = self._chance, self._limits
        draw, device = chance.random(), self.some_device()
        if draw < 0.45:
            return self.send(device)
        if draw < 0.55:
            return Again(device, self._heard(device))
        if draw < 0.63:
            return Replay(chance.randint(0, 6), self._heard(device)[:1])
        if draw < 0.73:
            if self.devices[device].kind == "otaa":
                return Join(device, self._heard(device), chance.random() < 0.3)
            return Restart(device, chance.random() < 0.1)
        if draw < 0.77:
            return Skip(device, chance.choice(_SKIPS))
        if draw < 0.79:
            return Forge(device, self.devices[device].kind == "otaa", self._heard(device))
        if draw < 0.81:
            return Down(device, self.some_server())
        if draw < 0.92 or not limits.faults:
            return self.wait()
        return self.fault()

    def some_device(self) -> int:
        """Any of the devices."""
        return self._chance.randrange(len(self.devices))

    def some_server(self) -> int:
        """Any of the servers."""
        return self._chance.randrange(self.servers)

    def send(self, device: int, *, confirmed: bool | None = None) -> Send:
        """A new frame; one of ten with the content of others, or with a question."""
        chance = self._chance
        if confirmed is None:
            confirmed = chance.random() < 0.5
        same, asks = chance.random() < 0.1, chance.random() < 0.1
        return Send(device, confirmed, self._heard(device), same, asks)

    def wait(self) -> Wait:
        """Some time, often just below, at or above a limit."""
        return Wait(min(self._chance.choice(_WAITS_US), self._limits.waits_max_us))

    def fault(self) -> Step:
        """Something fails."""
        chance, server = self._chance, self.some_server()
        kind = chance.choice(("server", "server", "upstream", "upstream", "station", "station",
                              "refuse", "store", "late"))  # fmt: skip
        if kind == "server":
            return ServerRestart(server)
        if kind in ("upstream", "refuse"):
            refused = kind == "refuse"
            return Upstream(server, 0 if refused else chance.choice(_SLOW_US), refused)
        if kind in ("store", "late") and chance.random() < 0.5:
            lasts_us = chance.choice((200 * MILLISECOND_US, SECOND_US, 5 * SECOND_US))
            late_us = chance.choice((5, 40, 80)) * MILLISECOND_US if kind == "late" else 0
            return Store(server, lasts_us, late_us)
        return self.station_restart()

    def station_restart(self, *, again: bool | None = None) -> StationRestart:
        """A station is away for a moment, sometimes with the session byte that it had."""
        chance = self._chance
        away_us = chance.choice((5, 50, 2_000, 12_000)) * MILLISECOND_US
        away_us = min(away_us, self._limits.waits_max_us)
        if again is None:
            again = chance.random() < 0.3
        return StationRestart(self.some_server(), chance.randrange(2), away_us, again)

    def _heard(self, device: int) -> tuple[Heard, ...]:
        """Nobody, one or several; the first one tells at once, somebody perhaps very late."""
        chance = self._chance
        places = [(server, station) for server in range(self.servers) for station in (0, 1)]
        if len(places) == 2 and chance.random() < 0.2:
            places.append((0, 2))
        number = chance.choice((1, 1, 2, 2, 2, 3, len(places), 0))
        some = chance.sample(places, min(number, len(places)))
        heard: list[Heard] = []
        for place in some:
            late_us = chance.choice(_LATE_US) if heard else 0
            if heard and chance.random() < 0.08:
                late_us = chance.choice(_VERY_LATE_US)
            heard.append(Heard(*place, min(late_us, self._limits.waits_max_us)))
        return tuple(heard)

    def heard(self, device: int) -> tuple[Heard, ...]:
        """At least one station."""
        return self._heard(device) or (Heard(self.some_server(), 0),)

    def chosen(self, kinds: tuple[str, ...]) -> int:
        """A device of one of these kinds, if there is any."""
        fit = [n for n, device in enumerate(self.devices) if device.kind in kinds]
        return self._chance.choice(fit) if fit else self.some_device()


def random_history(
    chance: random.Random, limits: Limits, wish: tuple[str, str] | None = None
) -> History:
    """One history; the same for the same state of `chance`."""
    return Draw(chance, limits).history(wish)


def _copy(draw: Draw, late_us: tuple[int, ...]) -> list[Step]:
    device = draw.some_device()
    send = draw.send(device)
    other = Heard(draw.some_server(), 1, draw._chance.choice(late_us))
    first = Heard(draw.some_server(), 0)
    return [Send(device, send.confirmed, (first, other), send.same)]


def _repeated(draw: Draw) -> list[Step]:
    device, place = draw.some_device(), Heard(draw.some_server(), 0)
    return [Send(device, draw._chance.random() < 0.7, (place,)), Again(device, (place,))]


def _limit(draw: Draw) -> list[Step]:
    device, place = draw.some_device(), Heard(draw.some_server(), 0)
    return [Send(device, True, (place,)), *(Again(device, (place,)) for _ in range(4))]


def _began_again(draw: Draw) -> list[Step]:
    device = draw.chosen(("relaxed", "strict"))
    return [Restart(device), draw.send(device)]


def _equal(draw: Draw) -> list[Step]:
    device, place = draw.chosen(("relaxed",)), Heard(draw.some_server(), 0)
    same = Send(device, draw._chance.random() < 0.5, (place,), same=True)
    return [Restart(device), draw.send(device), same, Restart(device), draw.send(device), same]


def _joined(draw: Draw) -> list[Step]:
    device = draw.chosen(("otaa",))
    return [Join(device, draw.heard(device), draw._chance.random() < 0.2), draw.send(device)]


def _rolled(draw: Draw) -> list[Step]:
    device = draw.some_device()
    return [Skip(device, GAP_MAX - 1), draw.send(device)] * 2


RECIPES: dict[str, Callable[[Draw], list[Step]]] = {
    "copy": lambda draw: _copy(draw, (0, 10_000, 300_000)),
    "late copy": lambda draw: _copy(draw, (2 * SECOND_US, 10 * SECOND_US, 30 * SECOND_US)),
    "repetition": _repeated,
    "limit of answers": _limit,
    "replay": lambda draw: [Replay(draw._chance.randint(0, 3), draw.heard(draw.some_device())[:1])],
    "forgery": lambda draw: [Forge(draw.some_device(), False, draw.heard(0))],
    "device restart": _began_again,
    "equal frame of another life": _equal,
    "join": _joined,
    "join nobody heard": lambda draw: [Join(draw.chosen(("otaa",)), draw.heard(0), True)],
    "silence": lambda draw: [Wait(draw._chance.choice(_WAITS_US[-5:]))],
    "gap": lambda draw: [Skip(draw.some_device(), draw._chance.choice(_SKIPS[3:]))],
    "roll-over": _rolled,
    "downlink waits": lambda draw: [Down(draw.some_device(), draw.some_server())],
    "server restart": lambda draw: [ServerRestart(draw.some_server())],
    "station restart": lambda draw: [draw.station_restart(again=False)],
    "session byte again": lambda draw: [draw.station_restart(again=True)],
    "slow upstream": lambda draw: [Upstream(draw.some_server(), draw._chance.choice(_SLOW_US))],
    "refused upstream": lambda draw: [Upstream(draw.some_server(), refused=True)],
    "store away": lambda draw: [Store(draw.some_server(), SECOND_US)],
    "slow store": lambda draw: [Store(draw.some_server(), 2 * SECOND_US, 40 * MILLISECOND_US)],
}
"""Of each situation the steps that bring it about, most of the time."""
