"""Which histories are worth playing, and what is the shortest that still shows something?

The same for the same state of `chance`. A wish (two situations that nobody has met together yet)
puts the steps for both into the history, close to each other. What was found once and kept is
played again, each time a little differently: where two rules meet there is seldom one fault only.
"""

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any, TypeVar

from bench.explore.history import (
    KEPT,
    KINDS,
    MILLISECOND_US,
    SECOND_US,
    STRATEGIES,
    Again,
    AtServer,
    Device,
    Down,
    Empty,
    Forge,
    Heard,
    History,
    Join,
    OnAir,
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
    read_histories,
    servers_of,
)

GAP_MAX = 16_384
RETENTION_US = 60 * SECOND_US
STEPS_MAX = 10
SHAPED_SHARE, SHAPE_MAX = 0.06, 10  # histories, and receptions of one

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
_BEGINNINGS = (0, 0, 0, 0, 3, 3, GAP_MAX - 4, GAP_MAX + 6, 65_533, 65_533, 80_000)
_SLOW_US = (5 * MILLISECOND_US, 120 * MILLISECOND_US, 1_500 * MILLISECOND_US)


@dataclass(frozen=True, slots=True)
class Limits:
    """What histories may have; `faults`: servers, stations, store and broker may fail.

    `waits_max_us` bounds each wait and each lateness: real time passes on real wires.
    """

    servers: tuple[int, ...] = (1, 1, 2, 2, 3)
    devices_max: int = 3
    faults: bool = True
    waits_max_us: int = 1 << 62


class Draw:
    """Draws the steps of one history, all from one stream of chance."""

    def __init__(
        self, chance: random.Random, limits: Limits, devices: tuple[Device, ...] = ()
    ) -> None:
        self._chance = chance
        self._limits = limits
        self.servers = chance.choice(limits.servers)
        number = min(chance.choice((1, 1, 1, 1, 2, 3)), limits.devices_max)
        self.devices = devices or tuple(self._device() for _ in range(number))

    def history(self, wish: "tuple[str, str] | None" = None) -> History:
        """One history; with both situations of a wish next to each other."""
        chance = self._chance
        steps: list[Step] = []
        for number, device in enumerate(self.devices):
            if device.kind == "otaa":
                steps.append(Join(number, self._heard(number) or self._heard(number)))
        steps += [self.step() for _ in range(chance.randint(1, STEPS_MAX))]
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

    def step(self) -> Step:
        chance, limits = self._chance, self._limits
        draw, device = chance.random(), self.some_device()
        if draw < 0.45:
            return self.send(device)
        if draw < 0.55:
            return Again(device, self._heard(device))
        if draw < 0.63:
            return Replay(chance.randint(0, 6), self._heard(device)[:1])
        if draw < 0.73:
            if self.devices[device].kind == "otaa" and chance.random() < 0.9:
                return Join(device, self._heard(device), chance.random() < 0.3)
            return Restart(device, chance.random() < 0.1)
        if draw < 0.77:
            return Skip(device, chance.choice(_SKIPS))
        if draw < 0.79:
            is_join = self.devices[device].kind == "otaa" and chance.random() < 0.5
            return Forge(device, is_join, self._heard(device))
        if draw < 0.81:
            return Down(device, self.some_server())
        if draw < 0.92 or not limits.faults:
            return self.wait()
        return self.fault()

    def some_device(self) -> int:
        return self._chance.randrange(len(self.devices))

    def some_server(self) -> int:
        return self._chance.randrange(self.servers)

    def send(self, device: int, *, confirmed: bool | None = None) -> Send:
        """A new frame; one of ten with the content of others, or with a question."""
        chance = self._chance
        if confirmed is None:
            confirmed = chance.random() < 0.5
        same, asks = chance.random() < 0.1, chance.random() < 0.1
        return Send(device, confirmed, self._heard(device), same, asks)

    def wait(self) -> Wait:
        return Wait(min(self._chance.choice(_WAITS_US), self._limits.waits_max_us))

    def fault(self) -> Step:
        chance, server = self._chance, self.some_server()
        kind = chance.choice(("server", "server", "upstream", "upstream", "station", "station",
                              "refuse", "store", "late"))  # fmt: skip
        if kind == "server":
            return ServerRestart(server)
        if kind in ("upstream", "refuse"):
            refused = kind == "refuse"
            at_once = refused and chance.random() < 0.9
            return Upstream(server, 0 if at_once else chance.choice(_SLOW_US), refused)
        if kind in ("store", "late") and chance.random() < 0.25:
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
        mute = chance.random() < 0.07
        return StationRestart(self.some_server(), chance.randrange(2), away_us, again, mute)

    def _heard(self, device: int) -> tuple[Heard, ...]:
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
        return self._heard(device) or (Heard(self.some_server(), 0),)

    def chosen(self, kinds: tuple[str, ...]) -> int:
        fit = [n for n, device in enumerate(self.devices) if device.kind in kinds]
        return self._chance.choice(fit) if fit else self.some_device()


def random_history(
    chance: random.Random, limits: Limits, wish: tuple[str, str] | None = None
) -> History:
    """One history; the same for the same state of `chance`."""
    if wish is None and chance.random() < SHAPED_SHARE and kept_shapes():
        history = _shaped(chance, limits)
        if history is not None:
            return history
    return Draw(chance, limits).history(wish)


@cache
def kept_shapes() -> tuple[History, ...]:
    """The short ones of the histories that were kept; none where there are no scenarios."""
    kept = read_histories(KEPT) if KEPT.exists() else ()
    return tuple(one.history for one in kept if one.history.receptions <= SHAPE_MAX)


def _shaped(chance: random.Random, limits: Limits) -> History | None:
    """One that was kept with other strategies, servers and stations, and often a step amiss."""
    shape = chance.choice(kept_shapes())
    places = [(server, station) for server in range(shape.servers) for station in (0, 1)]
    servers = chance.sample(range(shape.servers), shape.servers)
    moved = {(a, b): (servers[a], b ^ chance.getrandbits(1)) for a, b in places if b == 0}
    moved |= {(a, 1): (servers[a], 1 - moved[a, 0][1]) for a in range(shape.servers)}
    steps = [_moved(step, servers, moved) for step in shape.steps]
    devices = tuple(replace(d, strategy=chance.choice(STRATEGIES)) for d in shape.devices)
    draw = Draw(chance, replace(limits, servers=(shape.servers,)), devices)
    if chance.random() < 0.5:
        steps.insert(chance.randint(0, len(steps)), draw.step())
    elif chance.random() < 0.2:
        del steps[chance.randrange(len(steps))]
    fits = shape.servers in limits.servers and len(devices) <= limits.devices_max
    fits = fits and shape.waits_us <= limits.waits_max_us
    fits = fits and (limits.faults or not any(isinstance(step, Fault) for step in steps))
    return History(shape.servers, devices, tuple(steps), chance.random() < 0.2) if fits else None


def _moved(step: Step, servers: list[int], places: dict[tuple[int, int], tuple[int, int]]) -> Step:
    if isinstance(step, OnAir):
        heard = (Heard(*places.get(h.place, h.place), h.late_us) for h in step.heard)
        return replace(step, heard=tuple(heard))
    if isinstance(step, StationRestart):
        server, station = places.get((step.server, step.station), (step.server, step.station))
        return replace(step, server=server, station=station)
    if isinstance(step, AtServer):
        return replace(step, server=servers[step.server])
    return step


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
    device = draw.some_device()
    joins = [Join(device, draw.heard(device))] * (draw.devices[device].kind == "otaa")
    return [Restart(device), *joins, Send(device, True, draw.heard(device))]


def _equal(draw: Draw) -> list[Step]:
    device, place = draw.chosen(("relaxed",)), Heard(draw.some_server(), 0)
    same = Send(device, draw._chance.random() < 0.5, (place,), same=True)
    life: list[Step] = [Restart(device), draw.send(device), same]
    return [*life, Wait(2 * SECOND_US), *life]


def _joined(draw: Draw) -> list[Step]:
    device = draw.chosen(("otaa",))
    return [Join(device, draw.heard(device), draw._chance.random() < 0.2), draw.send(device)]


def _byte_again(draw: Draw) -> list[Step]:
    """A frame of the session before may be under way, and one of the next wants an answer."""
    device, restart = draw.some_device(), draw.station_restart(again=True)
    here, other = (Heard(restart.server, n) for n in (restart.station, 1 - restart.station))
    before = Send(device, False, (other, replace(here, late_us=2 * SECOND_US)))
    shown = Wait(restart.away_us + draw._chance.choice((3, 3, 11)) * SECOND_US)
    return [draw.wait(), before, restart, shown, Send(device, True, (here,))]


def _rolled(draw: Draw) -> list[Step]:
    device = draw.some_device()
    sent: Step = Send(device, draw._chance.random() < 0.5, draw.heard(device))
    return [Skip(device, GAP_MAX - 1), sent] * 4


Fault = ServerRestart | StationRestart | Upstream | Store | Empty

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
    "session byte again": _byte_again,
    "slow upstream": lambda draw: [Upstream(draw.some_server(), draw._chance.choice(_SLOW_US))],
    "refused upstream": lambda draw: [Upstream(draw.some_server(), refused=True)],
    "store away": lambda draw: [Store(draw.some_server(), SECOND_US)],
    "slow store": lambda draw: [Store(draw.some_server(), 2 * SECOND_US, 40 * MILLISECOND_US)],
}
"""Of each situation the steps that bring it about, most of the time."""


TRIES_MAX = 1_500
S = TypeVar("S", bound=Device | Heard | Step)
OfDevice = Send | Again | Forge | Join | Restart | Skip | Down


def shortest(history: History, is_broken: Callable[[History], bool]) -> History:
    """A history from which nothing can be taken without mending it, after so many tries at most."""
    tries = 0
    changed = True
    while changed:
        changed = False
        for make in (_with_fewer_steps, _with_fewer_receptions, _with_less, _simpler):
            found = True
            while found:
                found = False
                for shorter in make(history):
                    tries += 1
                    if tries > TRIES_MAX:
                        return history
                    if shorter != history and is_broken(shorter):
                        history, found, changed = shorter, True, True
                        break
    return history


def _with_fewer_steps(history: History) -> Iterator[History]:
    number = len(history.steps)
    while number:
        for first in range(0, len(history.steps) - number + 1):
            yield history.without(first, number)
        number //= 2


def _with_fewer_receptions(history: History) -> Iterator[History]:
    for place, step in enumerate(history.steps):
        if isinstance(step, OnAir):
            for one in range(len(step.heard)):
                heard = step.heard[:one] + step.heard[one + 1 :]
                yield history.with_step(place, replace(step, heard=heard))


def _with_less(history: History) -> Iterator[History]:
    for number in range(len(history.devices)):
        if len(history.devices) > 1:
            yield _without_device(history, number)
    if history.servers > 1:
        last = history.servers - 1
        if all(server < last for server in _servers(history)):
            yield replace(history, servers=last)
        for other in range(last):
            steps = tuple(_to_server(step, last, other) for step in history.steps)
            yield replace(history, steps=steps)


def _simpler(history: History) -> Iterator[History]:
    if history.closed:
        yield replace(history, closed=False)
    for number, device in enumerate(history.devices):
        for plain in _simpler_devices(device):
            devices = (*history.devices[:number], plain, *history.devices[number + 1 :])
            yield replace(history, devices=devices)
    for place, step in enumerate(history.steps):
        for simple in _simpler_steps(step):
            yield history.with_step(place, simple)


# What is simpler than what stands there, by the name of the field.
_SIMPLER: dict[str, tuple[Any, ...]] = {
    "pinned": (None,), "begins_at": (0, 3), "counts": (False,), "alike": (False,),
    "same": (False,), "mute": (False,), "asks": (False,), "deaf": (False,), "confirmed": (False,),
    "us": (100 * MILLISECOND_US, SECOND_US, 60 * SECOND_US), "away_us": (50 * MILLISECOND_US,),
    "slow_us": (0, 100 * MILLISECOND_US, SECOND_US), "station": (0,),
    "late_us": (0, 100 * MILLISECOND_US, SECOND_US), "frames": (1,), "back": (0, 1, 2),
}  # fmt: skip


def _simpler_values(value: S) -> Iterator[S]:
    for field in fields(value):
        now = getattr(value, field.name)
        for simple in _SIMPLER.get(field.name, ()):
            if (simple is None and now is not None) or (simple is not None and simple < now):
                simpler: Any = {field.name: simple}
                yield replace(value, **simpler)


def _simpler_devices(device: Device) -> Iterator[Device]:
    yield from _simpler_values(device)
    if device.bits != 32:
        yield replace(device, bits=32)
    if device.strategy == "Mark":
        yield replace(device, strategy="None")


def _simpler_steps(step: Step) -> Iterator[Step]:
    if isinstance(step, OnAir):
        for one, told in enumerate(step.heard):
            for simple in _simpler_values(told):
                if simple.place == told.place or simple.place not in {h.place for h in step.heard}:
                    yield replace(step, heard=(*step.heard[:one], simple, *step.heard[one + 1 :]))
    yield from _simpler_values(step)


def _without_device(history: History, number: int) -> History:
    steps = []
    for step in history.steps:
        if isinstance(step, OfDevice):
            if step.device == number:
                continue
            if step.device > number:
                step = replace(step, device=step.device - 1)
        steps.append(step)
    devices = history.devices[:number] + history.devices[number + 1 :]
    return replace(history, devices=devices, steps=tuple(steps))


def _servers(history: History) -> Iterator[int]:
    for step in history.steps:
        yield from servers_of(step)
    yield from (device.pinned for device in history.devices if device.pinned is not None)


def _to_server(step: Step, server: int, other: int) -> Step:
    if isinstance(step, OnAir):
        heard = tuple(replace(h, server=other) if h.server == server else h for h in step.heard)
        distinct = len({one.place for one in heard}) == len(heard)
        return replace(step, heard=heard) if distinct else step
    if isinstance(step, AtServer):
        return replace(step, server=other) if step.server == server else step
    return step
