"""A run on real boards and gateways: cases that use different boards side by side."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import cached_property
from typing import Any

from bench.host.program import HostError
from bench.lab.inventory.entries import Inventory
from bench.lab.inventory.lock import BenchLock, LockHeld
from bench.plan.abilities import abilities_of
from bench.plan.needs import lacking
from bench.plan.planned_case import PlannedCase
from bench.plan.schedule import schedule
from bench.rig.hardware_bench import HardwareBench
from bench.rig.hardware_rig import CAPABILITIES, hardware_rig
from bench.rig.rig import Rig
from bench.run.attempts import Play
from bench.run.planning import Plan, plan_of
from bench.run.run_record import RunRecord, describe
from bench.run.settings import RETENTION_S, RunSettings
from bench.run.wall_clock import WallClockRun


def is_alone(planned: PlannedCase) -> bool:
    """Whether a case needs the gateways for itself: also one that sets attenuators."""
    return planned.alone or "weaken" in planned.station_verbs


class HardwareRigs:
    """The bench of one inventory, which is locked for the run (`bench.run.wall_clock.Rigs`)."""

    capabilities = CAPABILITIES
    share_servers = False

    def __init__(self, record: RunRecord, inventory: Inventory, settings: RunSettings) -> None:
        describe(record, inventory)
        self.attempts_max = inventory.limits.rf_attempts_max
        self.retention_s = settings.retention_s or RETENTION_S
        self._record = record
        self._inventory = inventory
        self._arguments = settings.arguments
        self._abilities = abilities_of(inventory)

    @cached_property
    def _plan(self) -> Plan:
        return plan_of(self._arguments, retention_s=self.retention_s)

    def missing(self, play: Play) -> tuple[str, ...]:
        planned = self._plan.cases.get(play.title.case)
        if planned is None:
            why = self._plan.failed.get(play.title.case, "it was not among the scenarios")
            return (f"a dry run of it: {why}",)
        missing = lacking(planned, self._abilities)
        absent = (f"{name} (left out: {why})" for name, why in self._inventory.absent.items())
        return (*missing, *absent) if missing else ()

    def in_order(self, plays: list[Play]) -> list[Play]:
        return sorted(plays, key=self._turn)

    def _turn(self, play: Play) -> tuple[bool, int]:
        """The place of a case in the schedule; those that need the gateways alone come last."""
        planned = self._plan.cases[play.title.case]
        return is_alone(planned), self._turns.get(play.title.case, 0)

    @cached_property
    def _turns(self) -> dict[str, int]:
        playable = [one for one in self._plan.cases.values() if not lacking(one, self._abilities)]
        turns = schedule(playable, self._abilities).turns
        return {turn.case: place for place, turn in enumerate(turns)}

    def rig(self, bench: HardwareBench, play: Play, *, is_again: bool, **facts: Any) -> Rig:
        planned = self._plan.cases[play.title.case]
        alone = is_alone(planned)
        return hardware_rig(bench, planned, alone=alone, region=bench.region, **facts)

    @asynccontextmanager
    async def open_bench(self) -> AsyncIterator[HardwareBench]:
        retention_us = self.retention_s * 1_000_000
        with _locked(self._inventory):
            capture = self._record.open(buffered=False)
            async with HardwareBench(capture, self._inventory, retention_us=retention_us) as bench:
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


def open_run(record: RunRecord, settings: RunSettings) -> WallClockRun[HardwareBench]:
    """A run on this rig, of the scenarios that pytest was asked for."""
    assert settings.inventory is not None
    rigs = HardwareRigs(record, settings.inventory, settings)
    return WallClockRun(record, rigs, retention_us=rigs.retention_s * 1_000_000)
