"""A run on real boards and gateways: cases that use different boards side by side."""

from collections.abc import AsyncIterator, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property

from bench.host.program import HostError
from bench.lab.inventory.entries import Inventory
from bench.lab.inventory.lock import BenchLock, LockHeld
from bench.plan.abilities import abilities_of
from bench.plan.needs import needs
from bench.plan.planned_case import PlannedCase
from bench.plan.schedule import schedule
from bench.rig.hardware import HardwareRig
from bench.rig.hardware_bench import HardwareBench
from bench.run.planning import Plan, plan_of
from bench.run.play import Play, Turn, perform, repeated
from bench.run.record import RunRecord, describe
from bench.run.settings import RETENTION_S, RunSettings
from bench.run.side_by_side import SideBySide
from bench.verdict.case import Case
from bench.verdict.expectation import Verdict


def is_alone(planned: PlannedCase) -> bool:
    """Whether a case needs the gateways for itself: also one that sets attenuators."""
    return planned.alone or "weaken" in planned.station_verbs


class HardwareRun:
    """Plays what was announced on the bench of one inventory, which it locks for the run."""

    limits_itself = True
    capabilities = HardwareRig.capabilities

    def __init__(
        self,
        record: RunRecord,
        inventory: Inventory,
        settings: RunSettings,
    ) -> None:
        describe(record, inventory)
        self._record = record
        self._inventory = inventory
        self._arguments = settings.arguments
        self._retention_us = (settings.retention_s or RETENTION_S) * 1_000_000
        self._bench = SideBySide(self._open)
        self._is_open = False
        self._verdicts: dict[str, Future[Verdict]] = {}
        self._numbers = 0
        self._abilities = abilities_of(inventory)

    @cached_property
    def _plan(self) -> Plan:
        return plan_of(self._arguments, retention_s=self._retention_us // 1_000_000)

    def missing(self, play: Play) -> tuple[str, ...]:
        """What this bench lacks for a scenario."""
        planned = self._plan.cases.get(play.title.case)
        if planned is None:
            why = self._plan.failed.get(play.title.case, "it was not among the scenarios")
            return (f"a dry run of it: {why}",)
        lacking = needs(planned, self._abilities)
        absent = (f"{name} (left out: {why})" for name, why in self._inventory.absent.items())
        return (*lacking, *absent) if lacking else ()

    def announce(self, plays: list[Play]) -> None:
        """Begin to play all of these; HostError when the bench is taken or not complete."""
        if not self._is_open:
            self._bench.start()
            self._is_open = True
        for play in sorted(plays, key=self._turn):
            self._begin(play)

    def _turn(self, play: Play) -> tuple[bool, int]:
        """The place of a case in the schedule; those that need the gateways alone come last."""
        planned = self._plan.cases[play.title.case]
        return is_alone(planned), self._turns.get(play.title.case, 0)

    @cached_property
    def _turns(self) -> dict[str, int]:
        playable = [case for case in self._plan.cases.values() if not needs(case, self._abilities)]
        turns = schedule(playable, self._abilities).turns
        return {turn.case: place for place, turn in enumerate(turns)}

    def play(self, play: Play) -> Verdict:
        """The verdict of one case, as soon as there is one."""
        if play.title.case not in self._verdicts:
            self.announce([play])
        return self._bench.result(self._verdicts.pop(play.title.case))

    def close(self) -> None:
        """End every case, silence every board, free the bench."""
        if self._is_open:
            self._bench.close()

    def _begin(self, play: Play) -> None:
        planned = self._plan.cases[play.title.case]

        async def perform_it(bench: HardwareBench) -> Verdict:
            async def attempt(again: Play, turn: Turn) -> tuple[Verdict, bool]:
                return await self._attempt(bench, planned, again, turn)

            return await repeated(play, self._inventory.limits.rf_attempts_max, attempt)

        self._verdicts[play.title.case] = self._bench.play(perform_it)

    async def _attempt(
        self, bench: HardwareBench, planned: PlannedCase, play: Play, turn: Turn
    ) -> tuple[Verdict, bool]:
        self._numbers += 1
        rig = HardwareRig(
            bench,
            planned,
            alone=is_alone(planned),
            wants_redis="store" in play.faults,
            seed=self._record.seed,
            case=play.title.case,
            strategy=play.strategy,
            retention_us=self._retention_us,
            number=self._numbers,
            region=bench.region,
        )
        case = Case(play.title, bench.capture, rig=self._record.rig)
        try:
            return await perform(case, rig, play, turn), case.repeated
        finally:
            await rig.end()

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[HardwareBench]:
        with _locked(self._inventory):
            async with HardwareBench(
                self._record.open(buffered=False), self._inventory, retention_us=self._retention_us
            ) as bench:
                yield bench


class BenchTaken(HostError):
    """Somebody else uses the bench; the text says who."""


@contextmanager
def _locked(inventory: Inventory) -> Iterator[None]:
    try:
        with BenchLock(inventory):
            yield
    except LockHeld as held:
        raise BenchTaken(str(held)) from None


def open_run(record: RunRecord, settings: RunSettings) -> HardwareRun:
    """A run on this rig, of the scenarios that pytest was asked for."""
    assert settings.inventory is not None
    return HardwareRun(record, settings.inventory, settings)
