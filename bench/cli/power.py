"""`lorabench power`: switch a board, a gateway or a reset button by hand."""

import asyncio
from typing import Annotated, Literal

from cyclopts import Parameter

from bench.cli.bench_file import BENCH, Bench, bench_taken, inventory_of
from bench.cli.output import (
    AsJson,
    BenchBroken,
    ExitCode,
    Refused,
    labelled,
    print_json,
    print_lines,
)
from bench.duration import seconds
from bench.lab.inventory import Inventory
from bench.lab.inventory.entries import PowerEntry
from bench.lab.power import PowerFailed, PowerSwitch, power_switch

EXAMPLES = (
    "lorabench power --bench lab.toml",
    "lorabench power dut-usb cycle --bench lab.toml",
    "lorabench power dut off --bench lab.toml",
    "lorabench power west cycle --off-s 10 --bench lab.toml",
)

Action = Literal["on", "off", "cycle"]
_DONE = {"on": "is on", "off": "is off", "cycle": "was off and is on again"}


def power(
    name: Annotated[
        str | None,
        Parameter(help="A switch, or a device or gateway that has one; all are listed without."),
    ] = None,
    action: Annotated[Action | None, Parameter(help="What to do.")] = None,
    /,
    *,
    off_s: Annotated[int, Parameter(help="How long `cycle` leaves it without power.")] = 3,
    bench: Bench = BENCH,
    as_json: AsJson = False,
) -> int:
    """List the power switches of a bench, or work one of them.

    A reset button is a switch too, of which `cycle` presses it.
    """
    inventory = inventory_of(bench)
    if name is None or action is None:
        if name is not None:
            raise Refused(f"What is to be done with {name}? on, off or cycle.")
        _list(inventory, as_json=as_json)
        return ExitCode.PASSED
    if off_s < 0:
        raise Refused("--off-s is a number of seconds, 0 or more.")
    entry = _entry(inventory, name)
    with bench_taken(inventory):
        try:
            asyncio.run(_act(power_switch(entry), action, seconds(off_s)))
        except PowerFailed as failed:
            raise BenchBroken(str(failed)) from None
    if as_json:
        print_json({"switch": entry.name, "kind": entry.kind, "action": action})
    else:
        print_lines([f"{entry.name} {_DONE[action]}."])
    return ExitCode.PASSED


async def _act(switch: PowerSwitch, action: Action, off_us: int) -> None:
    match action:
        case "on":
            await switch.on()
        case "off":
            await switch.off()
        case "cycle":
            await switch.cycle(off_us)


def _entry(inventory: Inventory, name: str) -> PowerEntry:
    """The switch of this name, or that of the device or gateway of this name."""
    of = {radio.name: radio.power for radio in inventory.radios}
    of |= {gateway.name: gateway.power for gateway in inventory.gateways}
    switches = [entry.name for entry in inventory.powers]
    wanted = name if name in switches else of.get(name, name)
    if wanted is None:
        raise Refused(f"{name} has no power switch in {inventory.path}; give it `power`.")
    if wanted not in switches:
        known = ", ".join(switches) or "none"
        raise Refused(f"There is no switch {name} in {inventory.path}. Known: {known}.")
    return inventory.power(wanted)


def _list(inventory: Inventory, *, as_json: bool) -> None:
    uses: dict[str, list[str]] = {entry.name: [] for entry in inventory.powers}
    for radio in inventory.radios:
        if radio.power:
            uses[radio.power].append(radio.name)
        if radio.reset:
            uses[radio.reset].append(f"{radio.name} (reset)")
    for gateway in inventory.gateways:
        if gateway.power:
            uses[gateway.power].append(gateway.name)
    if as_json:
        print_json(
            [
                {"name": entry.name, "kind": entry.kind, "used_by": uses[entry.name]}
                for entry in inventory.powers
            ]
        )
    elif not inventory.powers:
        print_lines([f"{inventory.path} has no [[power]]; hardware.md shows how one is written."])
    else:
        print_lines(
            labelled(
                [
                    (entry.name, f"{entry.kind:9} {', '.join(uses[entry.name]) or 'nobody'}")
                    for entry in inventory.powers
                ]
            )
        )
