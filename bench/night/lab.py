"""Which parts of a lab are left out tonight, and which has somebody seen well since?

A part that was sick in three nights running takes no more cases with it: what needs it is left out
with that reason, until `lorabench doctor --bench` has heard it. That is kept beside the runs.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import msgspec

from bench.capture.run_folder import replace
from bench.lab.inventory import Inventory
from bench.night.memory import remembered
from bench.night.morning import SICK_NIGHTS, Night
from lns.clock import utc_of_this_host

SEEN_WELL = "lab.json"
"""Beside the runs: of each bench, when each part was last seen well."""


def sick_parts(runs: Path, inventory: Inventory) -> dict[str, str]:
    """The boards and gateways of a bench that are to be left out, by name, and why.

    A device is known by its DevEUI, a station by the name of a gateway.
    """
    names = {f"device {entry.dev_eui}": entry.name for entry in inventory.devices}
    names |= {f"station {entry.name}": entry.name for entry in inventory.gateways}
    well = _seen_well(runs).get(inventory.name, {})
    nights = _nights(runs, inventory.name)
    found = {}
    for part, name in names.items():
        since = well.get(name, "")
        of_part = [one for one in nights if part in one.lab and one.started > since]
        newest = of_part[-SICK_NIGHTS:]
        if len(newest) == SICK_NIGHTS and all(part in one.sick for one in newest):
            found[name] = f"sick since {_begin_of(part, of_part).night}"
    return found


def note_well(runs: Path, bench: str, names: Iterable[str]) -> None:
    """Remember that these parts of a bench are well now; OSError where that cannot be written."""
    now = f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}"
    seen = _seen_well(runs)
    seen[bench] = {**seen.get(bench, {}), **dict.fromkeys(names, now)}
    runs.mkdir(parents=True, exist_ok=True)
    replace(runs / SEEN_WELL, (json.dumps(seen, indent=2, sort_keys=True) + "\n").encode())


def _nights(runs: Path, bench: str) -> list[Night]:
    """The nights of a bench that prove something, whatever was tested, oldest first."""
    lines = (line for line in remembered(runs).lines if line.bench == bench and line.real_time)
    return sorted((n for line in lines for n in line.nights if n.proves), key=lambda n: n.started)


def _begin_of(part: str, nights: list[Night]) -> Night:
    """The first of the nights in which a part has been sick without a break."""
    begin = nights[-1]
    for night in reversed(nights):
        if part not in night.sick:
            break
        begin = night
    return begin


def _seen_well(runs: Path) -> dict[str, dict[str, str]]:
    """What was noted; a file that somebody has spoilt says nothing."""
    try:
        return _decode((runs / SEEN_WELL).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}


_decode = msgspec.json.Decoder(dict[str, dict[str, str]]).decode
