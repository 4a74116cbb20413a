"""`lorabench at` and `power`: speak with a board by hand, switch its power or a gateway's.

Of what a board says every line appears as it comes, keys masked. What would send without end, or
wait in a boot loader, is not written. Every command for a lab learns of it by `inventory_of`, and
has it for itself by `bench_taken`.
"""

import asyncio
import os
import re
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import Parameter

from bench.cli.output import (
    AsJson,
    BenchBroken,
    Refused,
    answer,
    labelled,
    print_error,
    print_json,
    refusing,
)
from bench.clock import seconds
from bench.device.at_session import AtSession, Console, Grammar, is_about_a_key, masked
from bench.device.dialects import UsbPort, dialect_of, line_for, serial_ports
from bench.device.interfaces import CommandRefused, DeviceRestarted, DeviceSilent
from bench.device.serial_line import LineLost, PortUnavailable
from bench.lab.inventory import (
    BenchLock,
    Inventory,
    InventoryError,
    LockHeld,
    PortMissing,
    Radio,
    load,
    port_of,
)
from bench.lab.inventory.sections import PowerSection
from bench.lab.power import PowerFailed, PowerSwitch, power_switch
from bench.night.record import ExitCode

BENCH = Path("bench.toml")

Bench = Annotated[Path, Parameter(name="--bench", help="Inventory of the bench.")]


def inventory_of(path: Path) -> Inventory:
    """The inventory; Refused with every mistake in it."""
    if not path.exists():
        raise Refused(
            f"There is no file {path}. Name the inventory with --bench, or begin one: `lorabench"
            " devices --discover` prints entries to paste, hardware.md shows the rest."
        )
    with refusing(InventoryError):
        return load(path)


@contextmanager
def bench_taken(inventory: Inventory) -> Iterator[None]:
    """The bench for this command alone; BenchBroken, which says who has it, otherwise."""
    try:
        with BenchLock(inventory):
            yield
    except LockHeld as held:
        raise BenchBroken(f"{str(held)[:1].upper()}{str(held)[1:]}.") from None


def radio_of(inventory: Inventory, name: str) -> Radio:
    """The board of this name; Refused."""
    radios = {radio.name: radio for radio in inventory.radios}
    if name not in radios:
        known = ", ".join(radios) or "none"
        raise Refused(f"There is no board {name} in {inventory.path}. Known: {known}.")
    return radios[name]


def whereabouts(radio: Radio, ports: Sequence[UsbPort]) -> tuple[str | None, str]:
    """The port of a board, and what is wrong with it; "" if nothing is."""
    try:
        port = port_of(radio, ports)
    except PortMissing as missing:
        return None, str(missing).removeprefix(f"{radio.name}: ")
    if "://" not in port and not Path(port).exists():
        return port, f"there is no {port}; plug the board in, or mend its port"
    return port, ""


Action = Literal["on", "off", "cycle"]
_DONE = {"on": "is on", "off": "is off", "cycle": "was off and is on again"}


def power(
    name: str | None = None,
    action: Action | None = None,
    /,
    *,
    off_s: int = 3,
    bench: Bench = BENCH,
    as_json: AsJson = False,
) -> int:
    """List the power switches of a bench, or work one of them.

    A reset button is a switch too, of which `cycle` presses it.

    :param name: A switch, or a device or gateway that has one; all are listed without.
    :param action: What to do.
    :param off_s: How long `cycle` leaves it without power.
    """
    inventory = inventory_of(bench)
    if name is None or action is None:
        if name is not None:
            raise Refused(f"What is to be done with {name}? on, off or cycle.")
        return _list_switches(inventory, as_json=as_json)
    if off_s < 0:
        raise Refused("--off-s is a number of seconds, 0 or more.")
    entry = _switch_entry(inventory, name)
    with bench_taken(inventory), refusing(PowerFailed, by=BenchBroken):
        asyncio.run(_work(power_switch(entry), action, seconds(off_s)))
    document = {"switch": entry.name, "kind": entry.kind, "action": action}
    return answer(document, [f"{entry.name} {_DONE[action]}."], as_json=as_json)


async def _work(switch: PowerSwitch, action: Action, off_us: int) -> None:
    match action:
        case "on":
            await switch.on()
        case "off":
            await switch.off()
        case "cycle":
            await switch.cycle(off_us)


def _switch_entry(inventory: Inventory, name: str) -> PowerSection:
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


def _list_switches(inventory: Inventory, *, as_json: bool) -> ExitCode:
    uses: dict[str, list[str]] = {entry.name: [] for entry in inventory.powers}
    for radio in inventory.radios:
        if radio.power:
            uses[radio.power].append(radio.name)
        if radio.reset:
            uses[radio.reset].append(f"{radio.name} (reset)")
    for gateway in inventory.gateways:
        if gateway.power:
            uses[gateway.power].append(gateway.name)
    powers = inventory.powers
    document = [{"name": one.name, "kind": one.kind, "used_by": uses[one.name]} for one in powers]
    rows = [(one.name, f"{one.kind:9} {', '.join(uses[one.name]) or 'nobody'}") for one in powers]
    none = [f"{inventory.path} has no [[power]]; hardware.md shows how one is written."]
    return answer(document, labelled(rows) or none, as_json=as_json)


EXAMPLES = (
    "lorabench at dut --bench lab.toml",
    'lorabench at dut "AT+VER=?" "AT+DEVEUI=?" --bench lab.toml',
    'lorabench at dut "AT+SEND=2:C0FFEE" --listen-s 10 --bench lab.toml',
    "lorabench power --bench lab.toml",
    "lorabench power dut-usb cycle --bench lab.toml",
    "lorabench power dut off --bench lab.toml",
    "lorabench power west cycle --off-s 10 --bench lab.toml",
)

# A continuous carrier breaks every duty cycle; a boot loader waits for a new firmware.
_NEVER = re.compile(r"\s*AT\+(?:BOOT|CW|TTONE|TEST\s*=\s*TX(?:CW|CLORA))\b.*", re.I)
_KEY_WRITTEN = re.compile(r"[^=]*=(?!\s*\?).*[0-9A-F]{8}.*", re.I)
_REPLY_US = 10_000_000
_LINE_BYTES_MAX = 4096

Show = Callable[[str], None]


def at(
    name: str, /, *commands: str, listen_s: int = 0, bench: Bench = BENCH, as_json: AsJson = False
) -> int:
    """Send AT commands to a board and show what it says, or open a console.

    In the console, a line is a command; Ctrl-D ends it.

    :param name: A device or replayer of the inventory.
    :param commands: Commands to send, one after the other; a console without any.
    :param listen_s: How long to listen for events after the last command.
    """
    inventory = inventory_of(bench)
    radio = radio_of(inventory, name)
    for command in commands:
        _permit(command, from_shell=True)
    if as_json and not commands:
        raise Refused("--json is for commands on the command line; give one.")
    with refusing(PortMissing, PortUnavailable, LineLost, by=BenchBroken):
        port = port_of(radio, serial_ports())
        with bench_taken(inventory):
            if commands:
                return asyncio.run(_one_shot(radio, port, commands, listen_s, as_json=as_json))
            return asyncio.run(_console(radio, port))


async def _one_shot(
    radio: Radio, port: str, commands: Sequence[str], listen_s: int, *, as_json: bool
) -> int:
    said: list[str] = []
    show = said.append if as_json else _print
    trouble = None
    async with _speaking(radio, port, show) as board:
        for command in commands:
            trouble = await _sent(board, command)
            if trouble:
                break
        await asyncio.sleep(listen_s)
    if as_json:
        lines = {"name": radio.name, "commands": [masked(c) for c in commands], "lines": said}
        print_json({**lines, "trouble": trouble})
    elif trouble:
        print_error(trouble)
    return ExitCode.FAILED if trouble else ExitCode.PASSED


async def _console(radio: Radio, port: str) -> int:
    async with _speaking(radio, port, _print) as board:
        if sys.stdin.isatty():
            print_error(f"{radio.name} at {port}; Ctrl-D ends it.")
        async for typed in _lines_typed():
            command = typed.strip()
            if not command:
                continue
            try:
                _permit(command, from_shell=False)
                trouble = await _sent(board, command)
            except Refused as refused:
                trouble = str(refused)
            if trouble:
                print_error(trouble)
    return ExitCode.PASSED


@asynccontextmanager
async def _speaking(radio: Radio, port: str, show: Show) -> AsyncIterator[AtSession]:
    def record(source: str, kind: str, fields: dict[str, object]) -> None:
        if kind.endswith(".line"):
            show(str(fields["text"]))

    def gone() -> None:
        if in_use:
            print_error(f"{radio.name}: its line is gone")

    in_use = True
    grammar: Grammar = dialect_of(radio.dialect).grammar
    line = line_for(radio.dialect, port, baud=radio.baud, dtr=radio.dtr)
    console = Console(radio.name, None, record)
    session = AtSession(radio.name, line, console, grammar=grammar, reply_us=_REPLY_US, gone=gone)
    async with session.opened() as board:
        try:
            yield board
        finally:
            in_use = False


async def _sent(board: AtSession, command: str) -> str | None:
    try:
        async with board.accepted(command):
            return None
    except DeviceRestarted:
        return None
    except (CommandRefused, DeviceSilent) as trouble:
        return str(trouble)
    except ValueError as error:  # not one line of ASCII, or never written by this bench
        return masked(str(error))


def _permit(command: str, *, from_shell: bool) -> None:
    if _NEVER.fullmatch(command):
        raise Refused(
            f"{command.strip()} is not sent: it is a carrier without end, or a boot loader that"
            " waits for a new firmware."
        )
    if from_shell and is_about_a_key(command) and _KEY_WRITTEN.fullmatch(command):
        raise Refused(
            "A key does not belong on a command line, where others can read it. Type it in the"
            " console (`lorabench at` without a command), or give it to bench.toml by file:PATH."
        )


def _print(text: str) -> None:
    print(text, flush=True)


async def _lines_typed() -> AsyncIterator[str]:
    loop, file = asyncio.get_running_loop(), sys.stdin.fileno()
    ready, rest = asyncio.Event(), b""
    try:
        loop.add_reader(file, ready.set)
    except PermissionError:  # a file is always ready, and nobody can wait for it
        for line in sys.stdin:
            yield line
        return
    try:
        while True:
            await ready.wait()
            ready.clear()
            data = os.read(file, _LINE_BYTES_MAX)
            *lines, rest = (rest + data).split(b"\n")
            for line in lines:
                yield line.decode("utf-8", "replace")
            if not data:
                yield rest.decode("utf-8", "replace")
                return
    finally:
        loop.remove_reader(file)
