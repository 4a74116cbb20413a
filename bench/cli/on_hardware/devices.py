"""`lorabench devices`: which boards belong to the bench, and which are plugged in?"""

import asyncio
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from cyclopts import Parameter

from bench.cli.on_hardware import boards
from bench.cli.on_hardware.lab import BENCH, Bench, bench_taken, inventory_of, whereabouts
from bench.cli.output import AsJson, BenchBroken, Flag, answer, facts_of
from bench.device.dialects import Found, UsbPort, serial_ports, who_is_there
from bench.device.serial_line import PortUnavailable
from bench.host.lns_files import toml_text
from bench.lab.inventory import Inventory, Radio, owner_of
from bench.night.record import ExitCode
from lns.lorawan.identifiers import Eui

VERBS = {"provision": boards.provision, "reset": boards.reset, "replay": boards.replay}
"""What is done to one board, by its word after `devices`."""
EXAMPLES = (
    "lorabench devices --discover",
    "lorabench devices --bench lab.toml",
    "lorabench devices --identify --bench lab.toml --json",
    "lorabench devices provision dut --bench lab.toml --dry-run",
    "lorabench devices provision --port /dev/ttyUSB0 --dev-eui AC1F09FFFE000001"
    " --join-eui AC1F09FFF8680001 --app-key-file dut.key --role DUT",
    "lorabench devices reset --port /dev/ttyUSB0",
    "lorabench devices replay replayer 40EFCDAB01... --freq 868.1 --dr 5 --bench lab.toml",
    "lorabench devices replay replayer --message updf.json --bench lab.toml",
)

_NOTHING = (
    "No USB serial port is there. Plug a board in and look with `ls -l /dev/serial/by-path`; a"
    " virtual machine has to be given the USB device. A port that is no USB device is asked with"
    " --port. Without any board, `lorabench emulate` starts a lab of emulated ones."
)
_REPLAYER = (
    "# Name them. The one that is to send captured frames again becomes a [[replayer]], without"
    " dev_eui."
)


def devices(
    *,
    discover: Flag = False,
    port: Annotated[list[str] | None, Parameter(name="--port", negative=())] = None,
    identify: Flag = False,
    verbose: Flag = False,
    bench: Bench = BENCH,
    as_json: AsJson = False,
) -> int:
    """Show the boards of the inventory and whether they are there, or discover new ones.

    :param discover: Ask every serial port who is there, and print entries to paste.
    :param port: With --discover: a port to ask, instead of all USB ports; may be repeated.
    :param identify: Ask each board of the inventory for its firmware and its DevEUI.
    :param verbose: With --discover: show the dialogue with each port, keys masked.
    """
    if discover or port:
        return _discover(bench, port, as_json=as_json, shown=verbose)
    inventory = inventory_of(bench)
    euis = {entry.name: entry.dev_eui for entry in inventory.devices}
    ports = serial_ports()
    rows = [Row(one, euis.get(one.name), *whereabouts(one, ports)) for one in inventory.radios]
    if identify:
        with bench_taken(inventory):
            rows = asyncio.run(_identified(rows))
    code = ExitCode.BENCH_ERROR if any(row.trouble for row in rows) else ExitCode.PASSED
    facts = [row.facts() for row in rows]
    return answer(facts, _screen(inventory, rows), code, as_json=as_json)


@dataclass(frozen=True, slots=True)
class Row:
    """A board of the inventory: where it is, who answers, what is wrong; "" if nothing is."""

    radio: Radio
    dev_eui: Eui | None
    port: str | None
    trouble: str = ""
    firmware: str | None = None

    def facts(self) -> dict[str, Any]:
        kind = "replayer" if self.dev_eui is None else "device"
        board = {"name": self.radio.name, "kind": kind, "dialect": self.radio.dialect}
        told = facts_of(self, "dev_eui", "port", "firmware")
        return {**board, **told, "trouble": self.trouble or None}


async def _identified(rows: Sequence[Row]) -> list[Row]:
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(_asked(row)) for row in rows]
    return [task.result() for task in running]


async def _asked(row: Row) -> Row:
    if row.trouble or row.port is None:
        return row
    try:
        found = await who_is_there(row.port)
    except PortUnavailable as unavailable:
        return replace(row, trouble=str(unavailable))
    return replace(row, trouble=_not_ours(row, found), firmware=found.firmware if found else None)


def _not_ours(row: Row, found: Found | None) -> str:
    if found is None:
        return "nobody answers; is it the right port, and is the board in its boot loader?"
    if found.dialect != row.radio.dialect:
        return f"it speaks {found.dialect or 'no known dialect'}, not {row.radio.dialect}"
    if row.dev_eui and found.dev_eui and found.dev_eui != row.dev_eui:
        return f"its DevEUI is {found.dev_eui}, not {row.dev_eui}; are two boards exchanged?"
    return ""


def _screen(inventory: Inventory, rows: Sequence[Row]) -> Iterable[str]:
    parts = {
        "device": inventory.devices,
        "replayer": inventory.replayers,
        "gateway": inventory.gateways,
    }
    counted = [f"{len(have)} {what}{'s' * (len(have) != 1)}" for what, have in parts.items()]
    yield f"{inventory.name}: {', '.join(counted)}"
    owner = owner_of(inventory)
    if owner is not None:
        yield f"in use by {owner}"
    for row in rows:
        what = row.dev_eui or "replayer"
        said = row.trouble or " ".join(filter(None, (row.port, row.firmware)))
        mark = "!" if row.trouble else " "
        yield f"{mark} {row.radio.name:12} {row.radio.dialect:9} {what:16}  {said}"


def _discover(bench: Path, ports: Sequence[str] | None, *, as_json: bool, shown: bool) -> int:
    usb = () if ports else serial_ports()
    paths = list(ports or [port.path for port in usb])
    if not paths:
        raise BenchBroken(_NOTHING)
    inventory = inventory_of(bench) if bench.exists() else None
    with nullcontext() if inventory is None else bench_taken(inventory):
        answers = asyncio.run(_who(paths, shown=shown))
    known = {} if inventory is None else {e.dev_eui: e.name for e in inventory.devices}
    boards_found = [one for one in answers if isinstance(one, Found) and one.dialect]
    entries = [_entry(number, found, usb) for number, found in enumerate(boards_found, 1)]
    lines = [*_comments(paths, answers, known)]
    if entries:
        lines += ["", _REPLAYER, "", _entries_text(entries).rstrip()]
    code = ExitCode.PASSED if entries else ExitCode.BENCH_ERROR
    facts = [_found_facts(path, one) for path, one in zip(paths, answers, strict=True)]
    return answer(facts, lines, code, as_json=as_json)


Answer = Found | PortUnavailable | None


async def _who(paths: Sequence[str], *, shown: bool) -> list[Answer]:
    async def one(path: str) -> Answer:
        try:
            return await who_is_there(path, boards.dialogue(shown))
        except PortUnavailable as unavailable:
            return unavailable

    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(one(path)) for path in paths]
    return [task.result() for task in running]


def _comments(
    paths: Sequence[str], answers: Sequence[Answer], known: dict[Eui, str]
) -> Iterable[str]:
    for path, found in zip(paths, answers, strict=True):
        if isinstance(found, PortUnavailable):
            yield f"# {found}"
        elif found is None:
            yield f"# {path}: nobody answers"
        else:
            uid = f", UID {found.uid}" if found.uid else ""
            name = known.get(found.dev_eui) if found.dev_eui else None
            mine = f"; it is {name} of the inventory" if name else ""
            unknown = "" if found.dialect else ", no dialect of this bench"
            yield f"# {path}: {found.firmware or 'unnamed firmware'}{uid}{unknown}{mine}"


def _entry(number: int, found: Found, usb: Sequence[UsbPort]) -> dict[str, object]:
    kind = "replayer" if found.dev_eui is None else "device"
    return {
        "name": f"{kind}-{number}",
        "dialect": found.dialect,
        **_place(found.port, usb),
        "dev_eui": found.dev_eui,
    }


def _place(path: str, usb: Sequence[UsbPort]) -> dict[str, object]:
    """How the port is found again: by a serial number that is the only one, else by its socket."""
    port = next((port for port in usb if port.path == path), None)
    serials = Counter(port.serial_number for port in usb)
    locations = Counter(port.location for port in usb)
    if port is None:
        return {"port": path}
    # Cheap CP2102 are all called 0001: alone today, and not tomorrow.
    if port.serial_number and serials[port.serial_number] == 1 and port.serial_number != "0001":
        return {"usb_serial": port.serial_number}
    if port.location and locations[port.location] == 1:
        return {"usb_path": port.location}
    return {"port": path}


def _entries_text(entries: Sequence[dict[str, object]]) -> str:
    devices = [entry for entry in entries if entry["dev_eui"] is not None]
    replayers = [entry for entry in entries if entry["dev_eui"] is None]
    tables: dict[str, object] = {"device": devices, "replayer": replayers}
    return toml_text({name: rows for name, rows in tables.items() if rows})


def _found_facts(path: str, answer: Answer) -> dict[str, Any]:
    if isinstance(answer, Found):
        told = facts_of(answer, "dialect", "firmware", "dev_eui", "uid", "baud", "dtr")
        return {"port": path, **told}
    return {"port": path, "dialect": None, "trouble": str(answer) if answer else "nobody answers"}
