"""A run on real boards and gateways: cases that use different boards side by side."""

import asyncio
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from bench.device.serial_line import LineLost
from bench.host.program import HostError
from bench.lab.inventory import BenchLock, LockHeld
from bench.lab.inventory.entries import Inventory
from bench.plan.needs import PlannedCase, PlannedDevice, abilities_of, lacking
from bench.plan.schedule import schedule
from bench.rig.hardware_bench import BenchUnfit, HardwareBench
from bench.rig.hardware_rig import CAPABILITIES, hardware_rig
from bench.rig.lab_board import DATA_OVERHEAD_BYTES, LabBoard
from bench.rig.provisioning import provision
from bench.rig.rig import Rig
from bench.run.attempts import DEVICE_ERRORS, Play
from bench.run.run_record import RETENTION_S, Plan, RunRecord, RunSettings, describe, plan_of
from bench.run.wall_clock import WallClockRun
from lns.capture import Capture
from lns.clock import now_us

_FRAME = b"health"
TRIES = 3
"""Frames that a board sends until every gateway has heard one."""


@dataclass(frozen=True, slots=True)
class Health:
    """What a bench says of itself: a line for each board and gateway, and what is worth a look."""

    lines: tuple[str, ...]
    warnings: tuple[str, ...] = ()


def check(
    inventory: Inventory,
    tell: Callable[[str], None],
    well: Callable[[str], None] = lambda name: None,
) -> Health:
    """Open the bench, let every board be heard by every gateway, and read powers back.

    `tell` is told each line as it is known, `well` each board that every gateway has heard, and
    each gateway that has heard every board. HostError with everything that is wrong, also when
    somebody else uses the bench.
    """
    try:
        with BenchLock(inventory), tempfile.TemporaryDirectory(prefix="lorabench-health-") as dir:
            return asyncio.run(_check(inventory, Path(dir), tell, well))
    except LockHeld as held:
        raise HostError(str(held)) from None


async def _check(
    inventory: Inventory, folder: Path, tell: Callable[[str], None], well: Callable[[str], None]
) -> Health:
    capture = Capture(folder, "health", now_us, buffered=True)
    lines: list[str] = []
    troubles: list[str] = []

    def note(line: str) -> None:
        lines.append(line)
        tell(line)

    try:
        async with HardwareBench(capture, inventory, retention_us=RETENTION_S * 1_000_000) as bench:
            for name in bench.gateways.switchboards:
                note(f"gateway {name}: connected, its radio runs")
            for board in bench.boards.values():
                try:
                    note(await _look_at(board, bench))
                except (*DEVICE_ERRORS, HostError) as error:
                    troubles.append(str(error))
                missing = sorted(set(bench.gateways.switchboards) - board.heard_by)
                if missing and not board.unfit:
                    troubles.append(
                        f"{board.name}: not heard by {', '.join(missing)} in {TRIES} frames;"
                        " antenna, attenuator, channel plan?"
                    )
                elif not board.unfit:
                    well(board.name)
            for name in bench.gateways.switchboards:
                if all(name in board.heard_by for board in bench.boards.values()):
                    well(name)
            warnings = bench.near_field()
    except LineLost as lost:
        troubles.append(str(lost))
    finally:
        capture.close()
    if troubles:
        raise BenchUnfit("\n".join(["the bench is not fit:", *troubles]))
    return Health(tuple(lines), warnings)


async def _look_at(board: LabBoard, bench: HardwareBench) -> str:
    """Let a board be heard; a line about it."""
    device = provision("health", 0, 0, f_cnt=10)
    planned = PlannedDevice(name="health", activation="abp")
    await board.prepare(device, planned, bench)
    for _ in range(TRIES):
        since = board.frames
        await bench.may_send(board.name, len(_FRAME) + DATA_OVERHEAD_BYTES, board.entry.dr)
        await board.driver.send(_FRAME, port=1)
        await bench.heard(board, since)
        if board.heard_by >= set(bench.gateways.switchboards):
            break
    radiation = await board.driver.radiation()
    heard = ", ".join(
        f"{name} {max(f.rssi_dbm for f in bench.overheard if f.station == name)} dBm"
        for name in sorted(board.heard_by)
    )
    return (
        f"board {board.name}: {board.driver.firmware}, {radiation.region},"
        f" {radiation.eirp_dbm} dBm EIRP,"
        f" heard by {heard or 'nobody'}"
    )


def is_alone(planned: PlannedCase) -> bool:
    """Whether a case needs the gateways for itself: also one that sets attenuators."""
    return planned.alone or "weaken" in planned.station_verbs


class HardwareRigs:
    """The bench of one inventory, which is locked for the run (`bench.run.wall_clock.Rigs`)."""

    capabilities = CAPABILITIES
    share_servers = False
    again_at_once: Sequence[
        int
    ] = ()  # what failed to come about was on the air, and this host has little to do

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
    assert settings.inventory is not None
    rigs = HardwareRigs(record, settings.inventory, settings)
    return WallClockRun(record, rigs, retention_us=rigs.retention_s * 1_000_000)
