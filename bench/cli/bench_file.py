"""How do commands for the boards of a lab learn of them, and not disturb each other?"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from bench.cli.output import BenchBroken, Refused
from bench.lab.inventory import BenchLock, Inventory, InventoryError, LockHeld, load

BENCH = Path("bench.toml")

Bench = Annotated[Path, Parameter(name="--bench", help="Inventory of the bench.")]


def inventory_of(path: Path) -> Inventory:
    """The inventory; Refused with every mistake in it."""
    if not path.exists():
        raise Refused(
            f"There is no file {path}. Name the inventory with --bench, or begin one: `lorabench"
            " devices --discover` prints entries to paste, hardware.md shows the rest."
        )
    try:
        return load(path)
    except InventoryError as error:
        raise Refused(str(error)) from None


@contextmanager
def bench_taken(inventory: Inventory) -> Iterator[None]:
    """The bench for this command alone; BenchBroken, which says who has it, otherwise."""
    try:
        with BenchLock(inventory):
            yield
    except LockHeld as held:
        raise BenchBroken(f"{str(held)[:1].upper()}{str(held)[1:]}.") from None
