"""What is the shortest history that still shows it?

A delta debugger over the values of a history: steps go in halves, then one by one, then what is
left of each is made simpler, as long as it stays broken in the same way. No chance is in it.
"""

from collections.abc import Callable, Iterator
from dataclasses import fields, replace
from typing import Any, TypeVar

from bench.explore.history import (
    MILLISECOND_US,
    SECOND_US,
    Again,
    Device,
    Down,
    Forge,
    Heard,
    History,
    Join,
    OnAir,
    Restart,
    Send,
    ServerRestart,
    Skip,
    StationRestart,
    Step,
    Store,
    Upstream,
)

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
    """Without a device, with fewer servers."""
    for number in range(len(history.devices)):
        if len(history.devices) > 1:
            yield _without_device(history, number)
    if history.servers > 1:
        last = history.servers - 1
        if all(server < last for server in _servers(history)):
            yield replace(history, servers=last)
        for other in range(last):
            steps = tuple(_moved(step, last, other) for step in history.steps)
            yield replace(history, steps=steps)


def _simpler(history: History) -> Iterator[History]:
    """With simpler facts: known devices, no lateness, shorter waits, the first stations."""
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
    """The same with one field that is simpler."""
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
        if isinstance(step, OnAir):
            yield from (heard.server for heard in step.heard)
        elif isinstance(step, Down | ServerRestart | StationRestart | Upstream | Store):
            yield step.server
    yield from (device.pinned for device in history.devices if device.pinned is not None)


def _moved(step: Step, server: int, other: int) -> Step:
    """A step with one server in place of another, where no station is named twice then."""
    if isinstance(step, OnAir):
        heard = tuple(replace(h, server=other) if h.server == server else h for h in step.heard)
        distinct = len({one.place for one in heard}) == len(heard)
        return replace(step, heard=heard) if distinct else step
    if isinstance(step, Down | ServerRestart | StationRestart | Upstream | Store):
        return replace(step, server=other) if step.server == server else step
    return step
