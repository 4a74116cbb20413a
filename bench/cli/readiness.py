"""Is everything there that a night on a real bench needs, before anything is sent?"""

from collections.abc import Callable
from pathlib import Path

from bench.cli.bench_file import bench_taken
from bench.cli.output import BenchBroken
from bench.device.discovery import UsbPort, serial_ports
from bench.host.program import HostError
from bench.lab.inventory.entries import Inventory, PortMissing, Radio, port_of
from bench.run.health import check


class NotReady(BenchBroken):
    """Something of the bench is not there; the text names all of it."""


def ready(inventory: Inventory) -> list[str]:
    """What is there, in lines; NotReady with everything that is not, or who else has the bench."""
    with bench_taken(inventory):
        ports = serial_ports()
        found = [_found(radio, ports) for radio in inventory.radios]
    missing = [wrong for _, wrong in found if wrong is not None]
    if not inventory.devices:
        missing.append("no [[device]]: nothing could send anything")
    if not inventory.gateways:
        missing.append("no [[gateway]]: nothing could be heard")
    if missing:
        wrong = "\n".join(f"  {one}" for one in missing)
        raise NotReady(f"The bench {inventory.name} ({inventory.path}) is not ready:\n{wrong}")
    there = zip(inventory.radios, found, strict=True)
    lines = [f"{radio.name} at {path}" for radio, (path, _) in there]
    gateways = ", ".join(entry.name for entry in inventory.gateways)
    return [*lines, f"gateways {gateways} are to connect to {inventory.tap}"]


def healthy(
    inventory: Inventory,
    tell: Callable[[str], None],
    well: Callable[[str], None] = lambda name: None,
) -> None:
    """Let every board be heard; `tell` is told what is found, `well` the name of each part that is.

    NotReady with all that is wrong.
    """
    try:
        health = check(inventory, tell, well)
    except HostError as error:
        raise NotReady(str(error)) from None
    for warning in health.warnings:
        tell(f"warning: {warning}")


def _found(radio: Radio, ports: tuple[UsbPort, ...]) -> tuple[str, str | None]:
    """The port of a radio, and what is wrong with it."""
    try:
        path = port_of(radio, ports)
    except PortMissing as missing:
        return "", str(missing)
    if "://" not in path and not Path(path).exists():
        return path, f"{radio.name}: there is no {path}; plug the board in, or mend its port"
    return path, None
