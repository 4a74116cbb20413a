"""A scenario played on the simulated rig in this process, and what was written of it."""

import json
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from bench import clock
from bench.capture.reading import Event
from bench.rig.rig import Rig
from bench.rig.simulated_rig import simulated_rig
from bench.verdict.case import Case, Title, Verdict
from lns.capture import Capture
from lns.clock import now_us
from lns.dedup.strategy import Strategy
from tests.reading import read

Scenario = Callable[[Rig], Awaitable[None]]


@dataclass(frozen=True)
class Played:
    """A verdict, the events of the run in order of time, and the folder they were written to."""

    verdict: Verdict
    events: list[Event]
    folder: Path

    def of(self, kind: str, **fields: object) -> list[Event]:
        """The events of a kind whose fields have these values."""
        wanted = {"kind": kind, **fields}.items()
        return [event for event in self.events if wanted <= _hashable(event).items()]


def play(
    folder: Path,
    scenario: Scenario,
    *,
    seed: int = 1,
    strategy: Strategy = Strategy.NONE,
    **wants: bool,
) -> Played:
    """Play one case; an exception in the scenario or in the rig ends the test.

    `wants`: a store or a broker (`simulated_rig`).
    """
    folder.mkdir(parents=True, exist_ok=True)
    capture = Capture(folder, "r", now_us, buffered=True)
    case = Case(Title("g/c", "test_c", "test_g.py", "g", "title"), capture, rig="simulated")
    rig = simulated_rig(seed=seed, case="g/c", strategy=strategy, **wants)

    async def run() -> Verdict:
        case.begin()
        async with rig.running(case):
            await scenario(rig)
            await rig.settle()
        return case.end()

    try:
        verdict = clock.run(run())
    finally:
        capture.close()
    return Played(verdict, read(folder).events, folder)


def _hashable(event: Event) -> dict[str, object]:
    return {
        name: value if isinstance(value, str | int | float | None) else json.dumps(value)
        for name, value in event.items()
    }
