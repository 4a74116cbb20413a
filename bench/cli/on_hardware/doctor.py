"""`lorabench doctor`: what is there, what is missing, and what mends it?"""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from shutil import get_terminal_size
from textwrap import wrap
from typing import Any

from bench.cli.nightly import NotReady, captures_in, healthy, ready
from bench.cli.on_hardware.lab import inventory_of
from bench.cli.output import (
    LAKE,
    RUNS,
    AsJson,
    Lake,
    RunsWritten,
    Span,
    print_json,
    print_lines,
    print_styled,
)
from bench.doctor import Places, conclusion, diagnosis
from bench.doctor.installed import Check, Purpose, State, works
from bench.lab.inventory import Inventory
from bench.night.memory import note_well, sick_parts
from bench.night.record import ExitCode

EXAMPLES = ("lorabench doctor", "lorabench doctor --json", "lorabench doctor --bench bench.toml")

_STYLES = {State.OK: "green", State.WARNING: "yellow", State.MISSING: "bold red"}
_WIDTH_MAX = 120
_PIPE_WIDTH = 100


def doctor(
    *,
    runs: RunsWritten = RUNS,
    lake: Lake = LAKE,
    captures: Path | None = None,
    lns_capture: Path | None = None,
    bench: Path | None = None,
    as_json: AsJson = False,
) -> int:
    """Say what this machine has of what a nightly, an emulated and a hardware rig need.

    :param captures: Folder with captures of real traffic, as for the nightly.
    :param lns_capture: Capture of a network server, to ask whom it cannot answer through.
    :param bench: Inventory of a real bench: let every board be heard by every gateway, too. A part
        that nights have left out because it was sick takes part again, if it is well.
    """
    inventory = None if bench is None else inventory_of(bench)
    checks = diagnosis(Places(runs, lake, captures_in(captures), lns_capture))
    ready = works(checks, Purpose.NIGHTLY)
    code = ExitCode.PASSED if ready else ExitCode.BENCH_ERROR
    if not as_json:
        columns = get_terminal_size((_PIPE_WIDTH, 24)).columns
        print_styled(_screen(checks, min(_WIDTH_MAX, columns)))
    heard: dict[str, Any] = {}
    if inventory is not None:
        heard = _heard(inventory, runs, (lambda line: None) if as_json else _tell)
        code = code if not heard["trouble"] else ExitCode.BENCH_ERROR
    if as_json:
        print_json(_document(checks, code) | ({"bench": heard} if heard else {}))
    return code


def _tell(line: str) -> None:
    print_lines([f"  {line}"])


def _heard(inventory: Inventory, runs: Path, tell: Callable[[str], None]) -> dict[str, Any]:
    tell(f"the bench {inventory.name}: is every board heard by every gateway?")
    sick = sick_parts(runs, inventory)
    well: list[str] = []
    trouble = ""
    try:
        ready(inventory)
        healthy(inventory, tell, well.append)
    except NotReady as error:
        trouble = str(error)
        tell(trouble)
    note_well(runs, inventory.name, well)
    for name, why in sick.items():
        tell(f"{name} is well, and takes part again" if name in well else f"{name}: {why}")
    return {
        "name": inventory.name, "well": sorted(well), "trouble": trouble,
        "left_out": {name: why for name, why in sick.items() if name not in well},
    }  # fmt: skip


def _screen(checks: Sequence[Check], width: int) -> Iterator[list[Span]]:
    labels = max(len(check.name) for check in checks) + 2
    states = max(len(state) for state in State) + 2
    indent = 2 + states + labels
    for purpose in Purpose:
        yield [(f"{purpose[:1].upper()}{purpose[1:]}", "bold")]
        for check in checks:
            if check.purpose is not purpose:
                continue
            first, *more = wrap(check.found, max(20, width - indent), break_on_hyphens=False)
            style = _STYLES[check.state]
            label = f"{check.name:{labels}}"
            yield [("  ", ""), (f"{check.state:{states}}", style), (label, ""), (first, "")]
            yield from ([(" " * indent + line, "")] for line in more)
            if check.remedy:
                yield [(" " * indent + "try: ", "dim"), (check.remedy, "bold")]
        yield []
    yield from ([(line, "bold")] for line in wrap(conclusion(checks), width))


def _document(checks: Sequence[Check], code: ExitCode) -> dict[str, Any]:
    return {
        "checks": [
            {
                "name": check.name,
                "needed_for": check.purpose,
                "state": check.state,
                "found": check.found,
                "remedy": check.remedy or None,
            }
            for check in checks
        ],
        "works": {purpose.value: works(checks, purpose) for purpose in Purpose},
        "conclusion": conclusion(checks),
        "exit_code": int(code),
    }
