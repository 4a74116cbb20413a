"""What is one gateway asked, and what is said of it?"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.cli.exit_code import ExitCode
from bench.lab.gateways.basicstation_files import CannotConfigure
from bench.lab.gateways.basicstation_shell import GatewayFailed
from bench.lab.inventory import Inventory
from bench.lab.inventory.entries import GatewayEntry


@dataclass(frozen=True, slots=True)
class Told:
    """What is said of one gateway; `facts` are for programs."""

    name: str
    lines: list[str]
    facts: dict[str, Any] = field(default_factory=dict)
    code: ExitCode = ExitCode.PASSED


@dataclass(frozen=True, slots=True)
class Asked:
    """What a verb is given."""

    inventory: Inventory
    gateway: GatewayEntry
    dry_run: bool
    lines_max: int
    too_late: str | None = None
    """What a network server said last of answers through it that came too late."""


async def each(verb: Callable[[Asked], Awaitable[Told]], asked: Sequence[Asked]) -> list[Told]:
    """All gateways at once; one that fails keeps nobody from the others."""

    async def one(of: Asked) -> Told:
        try:
            return await verb(of)
        except (GatewayFailed, CannotConfigure) as failed:
            facts = {"error": str(failed)}
            return Told(of.gateway.name, [str(failed)], facts, ExitCode.BENCH_ERROR)

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(of)) for of in asked]
    return [task.result() for task in running]
