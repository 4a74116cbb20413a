"""One scenario about to be played, and what became of it."""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass, replace
from typing import Any

from bench.case import Case, StimulusMissed, Title
from bench.expectation import Verdict
from bench.rig.rig import Rig
from bench.rig.stimulation import Stimulation
from lns.dedup.strategy import Strategy


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


async def perform(
    case: Case, rig: Stimulation, play: Play, *, may_repeat: bool = False
) -> Verdict:
    """Play it; whatever the bench itself gets wrong is an ERROR, not a crash."""
    error = None
    try:
        async with rig.running(case):
            await play.scenario(rig)
            await rig.settle()
    except (Exception, BaseExceptionGroup) as failure:
        cause = first_cause(failure)
        if isinstance(cause, StimulusMissed):
            case.missed(cause.owner, str(cause))
        else:
            error = innermost(cause)
    return case.end(error, may_repeat=may_repeat)


def innermost(failure: BaseException) -> str:
    """The first cause in a group of groups, in a line."""
    cause = first_cause(failure)
    return f"{type(cause).__name__}: {cause}"


def first_cause(failure: BaseException) -> BaseException:
    """The first exception in a group of groups."""
    while isinstance(failure, BaseExceptionGroup):
        failure = failure.exceptions[0]
    return failure
