"""A run on the simulated rig: one case after another, each on a virtual clock of its own."""

from collections.abc import Sequence

from bench import clock
from bench.rig.simulated_rig import CAPABILITIES, simulated_rig
from bench.run.attempts import Play, innermost, perform
from bench.run.run_record import RunRecord, RunSettings
from bench.verdict.case import Case
from bench.verdict.expectation import Verdict
from lns.clock import now_us

BETWEEN_CASES_US = 1_000_000


class SimulatedRun:
    """Plays cases as they are asked for; remembers the time at which the next one begins (µs)."""

    capabilities = CAPABILITIES
    limits_itself = False

    def __init__(self, record: RunRecord) -> None:
        self._record = record
        self._next_us = 0

    def missing(self, play: Play) -> Sequence[str]:
        return ()

    def announce(self, plays: list[Play]) -> None:
        """Take note of what will be asked for; here nothing is done ahead of time."""

    def play(self, play: Play) -> Verdict:
        case: Case | None = None

        async def perform_it() -> Verdict:
            nonlocal case
            case = Case(play.title, self._record.open(), rig=self._record.rig)
            rig = simulated_rig(
                wants_store="store" in play.faults,
                seed=self._record.seed,
                case=play.title.case,
                strategy=play.strategy,
            )
            return self._next(await perform(case, rig, play))

        async def break_off(failure: Exception) -> Verdict:
            assert case is not None
            return self._next(case.end(innermost(failure)))

        try:
            return clock.run(perform_it(), start_us=self._next_us)
        except Exception as failure:  # the clock itself stopped, and the scenario with it
            if case is None or isinstance(failure, OSError):
                raise  # the capture cannot be written: there is nothing to end
            last_us = case.events[-1]["t_us"] if case.events else self._next_us
            return clock.run(break_off(failure), start_us=last_us)

    def _next(self, verdict: Verdict) -> Verdict:
        self._next_us = now_us() + BETWEEN_CASES_US
        return verdict

    def close(self) -> None:
        """There is nothing to give up."""


def open_run(record: RunRecord, settings: RunSettings) -> SimulatedRun:
    """A run on this rig; none of the settings is about it."""
    return SimulatedRun(record)
