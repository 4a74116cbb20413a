"""Is a bench fit for a night? Asked of the bench itself, before any scenario."""

import asyncio
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.device.serial_line import LineLost
from bench.host.program import HostError
from bench.lab.inventory.entries import Inventory
from bench.lab.inventory.lock import BenchLock, LockHeld
from bench.plan.planned_case import PlannedDevice
from bench.rig.hardware_bench import BenchUnfit, HardwareBench
from bench.rig.lab_board import DATA_OVERHEAD_BYTES, LabBoard
from bench.rig.provisioning import provision
from bench.run.attempts import DEVICE_ERRORS
from bench.run.settings import RETENTION_S
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
    told = await board.driver.radiation()
    heard = ", ".join(
        f"{name} {max(f.rssi_dbm for f in bench.overheard if f.station == name)} dBm"
        for name in sorted(board.heard_by)
    )
    return (
        f"board {board.name}: {board.driver.firmware}, {told.region}, {told.eirp_dbm} dBm EIRP,"
        f" heard by {heard or 'nobody'}"
    )
