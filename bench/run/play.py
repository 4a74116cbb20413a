"""One scenario about to be played, and what became of it."""

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from bench.case import Case, StimulusMissed, Title
from bench.device.seam import (
    CommandRefused,
    DeviceRestarted,
    DeviceSilent,
    NotAsWritten,
    UnknownFirmware,
    WrongDevice,
)
from bench.device.serial_line import LineLost, PortUnavailable
from bench.expectation import Result, Verdict
from bench.rig.assembly import GatewayAway
from bench.rig.gateways import GatewaysAway
from bench.rig.lab_board import BoardUnfit
from bench.rig.rig import Rig
from bench.rig.stimulation import Stimulation
from bench.station.basicstation_shell import GatewayFailed
from lns.dedup.strategy import Strategy

BENCH = "bench"
DEVICE_ERRORS = (
    BoardUnfit, CommandRefused, DeviceRestarted, DeviceSilent, LineLost, NotAsWritten,
    PortUnavailable, UnknownFirmware, WrongDevice,
)  # fmt: skip
"""What a board does that the bench can do nothing about."""
GATEWAY_ERRORS = (GatewayAway, GatewayFailed, GatewaysAway)
"""What a gateway does."""


@dataclass(frozen=True, slots=True)
class Play:
    """A scenario with everything but its rig; `faults` are the seams at which it injects some."""

    title: Title
    scenario: Callable[[Rig], Coroutine[Any, Any, None]]
    strategy: Strategy = Strategy.NONE
    faults: frozenset[str] = frozenset()

    def attempt(self, number: int) -> "Play":
        """The same once more, under a name of its own."""
        case = f"{self.title.case} (attempt {number})"
        return replace(self, title=replace(self.title, case=case, attempt=number))


async def perform(case: Case, rig: Stimulation, play: Play, *, may_repeat: bool = False) -> Verdict:
    """Play it; whatever the bench itself gets wrong is an ERROR, not a crash."""
    error, owner = None, BENCH
    try:
        async with rig.running(case):
            await play.scenario(rig)
            await rig.settle()
    except (Exception, BaseExceptionGroup) as failure:
        cause = first_cause(failure)
        if isinstance(cause, StimulusMissed):
            case.missed(cause.owner, str(cause))
        else:
            error, owner = innermost(cause), owner_of(cause)
    return case.end(error, owner=owner, may_repeat=may_repeat)


async def repeated(
    play: Play, attempts_max: int, attempt: Callable[[Play, bool], Awaitable[Verdict]]
) -> Verdict:
    """The verdict of the first attempt that is not INCONCLUSIVE, or of the last one allowed.

    `attempt` plays it once, and is told whether it may be repeated.
    """
    verdict = await attempt(play, attempts_max > 1)
    for number in range(2, attempts_max + 1):
        if verdict.result is not Result.INCONCLUSIVE:
            break
        verdict = await attempt(play.attempt(number), number < attempts_max)
    return verdict


def owner_of(error: BaseException) -> str:
    """Who has to see to an error that kept the bench from playing a case."""
    if isinstance(error, DEVICE_ERRORS):
        return "device"
    return "gateway" if isinstance(error, GATEWAY_ERRORS) else BENCH


def innermost(failure: BaseException) -> str:
    """The first cause in a group of groups, in a line."""
    cause = first_cause(failure)
    return f"{type(cause).__name__}: {cause}"


def first_cause(failure: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
