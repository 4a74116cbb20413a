"""What does a bench lack for a case, in words?

A verb says what it takes where it stands (`@needs`), and a dry run notes what a case has called.
What is disturbed between stations and application, or told at the tap of a station, needs nothing
but the bench itself.
"""

from collections.abc import Callable, Iterator
from enum import StrEnum
from functools import wraps
from inspect import iscoroutinefunction
from typing import Any, ParamSpec, TypeVar

from bench.plan.abilities import Abilities, assignments
from bench.plan.planned_case import PlannedCase


class Item(StrEnum):
    """What a verb may take."""

    REPLAYER = "a replayer"
    ATTENUATOR = "an attenuator"
    GPS = "a GPS receiver"
    ANTENNA = "a second antenna"
    DUTY_CYCLE = "a station that keeps its duty cycle"
    SILENT = "a station that can be kept from introducing itself"
    CLOCK = "a station whose clock can be broken"
    SESSION = "a station whose session byte can be chosen"
    TWIN = "many radios on one EUI"
    BURST = "many radios at one moment"
    APPLICATION = "slow application"
    WALL_CLOCK = "wall clock"
    VIRTUAL_TIME = "virtual time"
    WIRES = "wires"


_P = ParamSpec("_P")
_R = TypeVar("_R")


def needs(item: Item) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A verb takes this; `must_have` of whoever is asked for the verb refuses what it has not."""

    def mark(verb: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(verb)
        def asked(*given: _P.args, **facts: _P.kwargs) -> _R:
            given[0].must_have(item)  # type: ignore[attr-defined]
            return verb(*given, **facts)

        @wraps(verb)
        async def asked_and_waited_for(*given: _P.args, **facts: _P.kwargs) -> Any:
            given[0].must_have(item)  # type: ignore[attr-defined]
            return await verb(*given, **facts)  # type: ignore[misc]

        marked: Any = asked_and_waited_for if iscoroutinefunction(verb) else asked
        marked.needs = item
        return marked  # type: ignore[no-any-return]

    return mark


def needed_by(kind: type, verb: str) -> Item | None:
    """What a verb takes; None where any bench can do it."""
    item = getattr(getattr(kind, verb, None), "needs", None)
    return item if isinstance(item, Item) else None


_ORDINALS = ("", "a", "a second", "a third", "a fourth", "a fifth", "a sixth")


def lacking(planned: PlannedCase, bench: Abilities) -> tuple[str, ...]:
    """What is missing for a case on this bench, in words, each once; nothing where it can be."""
    return tuple(dict.fromkeys(_missing(planned, bench)))


def _missing(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    if planned.region != bench.region:
        yield f"region {planned.region}"
    yield from _missing_boards(planned, bench)
    if len(planned.stations) > bench.stations:
        yield f"{_ordinal(len(planned.stations))} station"
    if planned.weakened > bench.attenuators:
        yield Item.ATTENUATOR.value
    yield from (item for item in planned.takes if not _has(Item(item), bench))
    yield from (word for word in planned.requires if word not in bench.capabilities)


def _missing_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    named = list(_named_boards(planned, bench))
    yield from named
    if not named and not any(True for _ in assignments(planned, bench.boards)):
        yield "a board that can do all of what one device needs"


def _named_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    on_air = planned.on_air
    if len(on_air) > bench.devices:
        yield f"{_ordinal(len(on_air))} board"
    if sum(device.wants_retries for device in on_air) > bench.obeys_retries:
        yield "a board that repeats as often as it is told (LoRa-E5)"
    if sum(bench.must_set_counter(device) for device in on_air) > bench.sets_counters:
        yield "a board that can set its counters (LoRa-E5)"
    if any(device.crafted for device in on_air):
        yield "a device that gives up its counters"


def _has(item: Item, bench: Abilities) -> bool:
    if item is Item.REPLAYER:
        return bench.replayers > 0
    if item is Item.ATTENUATOR:
        return True  # as many as stations are weakened; they have been counted
    if item is Item.DUTY_CYCLE:
        return not bench.conducted
    return item.value in bench.extras | bench.capabilities


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"a {number}th"
