"""How does an emulated lab describe itself? As any lab does: by a `bench.toml`."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from bench.host.toml_text import toml_text
from bench.virtual.lab import layout


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """One board of the lab: what it is, and what its label says."""

    name: str
    firmware: str
    dev_eui: str
    is_replayer: bool = False

    @property
    def dialect(self) -> str:
        """How it is spoken to."""
        return "rui3" if self.firmware.startswith("RUI_") else "lora-e5"


@dataclass(frozen=True, slots=True)
class StationEntry:
    """One station of the lab."""

    name: str
    eui: str


BOARDS = (
    BoardEntry("dut", "RUI_5.0.0_RAK3172-H", "AC1F09FFFE000001"),
    BoardEntry("spare", "RUI_4.1.0_RAK3172-H", "AC1F09FFFE000002"),
    BoardEntry("e5", "4.0.11", "2CF7F12000000003"),
    BoardEntry("replayer", "RUI_5.0.0_RAK3172-H", "AC1F09FFFE000004", is_replayer=True),
)
STATIONS = (
    StationEntry("west", "0016C001F1500001"),
    StationEntry("east", "0016C001F1500002"),
)


def bench_toml(
    folder: Path,
    *,
    tap: str,
    tap_uri: str | None,
    region: str,
    boards: Sequence[BoardEntry],
    stations: Sequence[StationEntry],
    step_db: int,
) -> str:
    """The text of the file; switches and attenuators are commands that ask this lab."""

    def words(verb: str, name: str, *more: str) -> list[str]:
        # `lorabench emulate --control` does the same, and takes longer to start.
        module = "bench.virtual.lab.control"
        return [sys.executable, "-m", module, str(folder), verb, name, *more]

    def radio(board: BoardEntry) -> dict[str, object]:
        port = str(layout.port_link(folder, board.name))
        entry: dict[str, object] = {"name": board.name, "dialect": board.dialect, "port": port}
        if not board.is_replayer:
            entry |= {"dev_eui": board.dev_eui, "dr": _everyday_dr(region), "power_dbm": 14}
        return entry | {"power": f"{board.name}-usb", "reset": f"{board.name}-nrst"}

    def gateway(station: StationEntry) -> dict[str, object]:
        name = station.name
        return {
            "name": name, "eui": station.eui, "kind": "program",
            "home": str(layout.home(folder, name)), "restart": words("restart-station", name),
            "power": f"{name}-poe", "attenuator": f"{name}-step",
        }  # fmt: skip

    powered = [(board.name, f"{board.name}-usb") for board in boards]
    powered += [(station.name, f"{station.name}-poe") for station in stations]
    switches = [
        {
            "name": switch, "kind": "command", "on": words("power-on", name),
            "off": words("power-off", name),
        }
        for name, switch in powered
    ]  # fmt: skip
    buttons = [
        {"name": f"{board.name}-nrst", "kind": "command", "cycle": words("reset", board.name)}
        for board in boards
    ]
    attenuators = [
        {
            "name": f"{station.name}-step", "kind": "command", "db": step_db,
            "set": words("attenuate", station.name, "{db}"),
        }
        for station in stations
    ]  # fmt: skip
    tables: dict[str, object] = {
        "bench": {
            "name": "emulated", "region": region, "tap": tap, "tap_uri": tap_uri,
            "conducted": True,
        },
        "device": [radio(board) for board in boards if not board.is_replayer],
        "replayer": [radio(board) for board in boards if board.is_replayer],
        "gateway": [gateway(station) for station in stations],
        "power": [*switches, *buttons],
        "attenuator": attenuators,
    }  # fmt: skip
    return f'# A lab without hardware, as it runs now.\nrig = "hardware"\n\n{toml_text(tables)}'


def _everyday_dr(region: str) -> int:
    """SF7 in 125 kHz."""
    return 5 if region == "EU868" else 3
