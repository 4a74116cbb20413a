"""How are the processes of an emulated lab started, worked, and ended together?

DIR/bench.toml     what stands in the lab        DIR/dev/NAME     the serial port of a board
DIR/NAME/nvm.json  the flash of a board          DIR/NAME/tc.uri  where a station connects
DIR/NAME/log       what a process says           DIR/air/frames.jsonl  who heard which frame
"""

import asyncio
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn
from urllib.parse import urlsplit

from bench.host.lns_files import toml_text
from bench.host.program import HostError, Program
from bench.virtual.lab import air_process as air
from bench.virtual.lab import lab_folder
from bench.virtual.lorawan.channel_plan import channel_plan


@dataclass(frozen=True, slots=True)
class BoardEntry:
    """One board of the lab: what it is, and what its label says."""

    name: str
    firmware: str
    dev_eui: str
    is_replayer: bool = False

    @property
    def dialect(self) -> str:
        return "rui3" if self.firmware.startswith("RUI_") else "lora-e5"


@dataclass(frozen=True, slots=True)
class StationEntry:
    name: str
    eui: str


BOARDS = (
    BoardEntry("dut", "RUI_5.0.0_RAK3172-H", "AC1F09FFFE000001"),
    BoardEntry("spare", "RUI_4.1.0_RAK3172-H", "AC1F09FFFE000002"),
    BoardEntry("e5", "4.0.11", "2CF7F12000000003"),
    BoardEntry("replayer", "RUI_5.0.0_RAK3172-H", "AC1F09FFFE000004", is_replayer=True),
)
STATIONS = (StationEntry("west", "0016C001F1500001"), StationEntry("east", "0016C001F1500002"))


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
        module = "bench.virtual.lab.lab_folder"
        return [sys.executable, "-m", module, str(folder), verb, name, *more]

    everyday_dr = channel_plan(region).default_channels[0].drs[-1]

    def radio(board: BoardEntry) -> dict[str, object]:
        port = str(lab_folder.port_link(folder, board.name))
        entry: dict[str, object] = {"name": board.name, "dialect": board.dialect, "port": port}
        if not board.is_replayer:
            entry |= {"dev_eui": board.dev_eui, "dr": everyday_dr, "power_dbm": 14}
        return entry | {"power": f"{board.name}-usb", "reset": f"{board.name}-nrst"}

    def gateway(station: StationEntry) -> dict[str, object]:
        name = station.name
        return {
            "name": name, "eui": station.eui, "kind": "program",
            "home": str(lab_folder.home(folder, name)), "restart": words("restart-station", name),
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


READY_S = 30
_BY_AIR = ("deaf", "hearing", "attenuate")
_BY_BOARD = ("unplug", "plug", "reset", "reboot", "mute", "unmute")
_BY_LAB: dict[str, tuple[str, ...]] = {
    "power-off": ("dark",),
    "power-on": ("on",),
    "power-cycle": ("dark", "on"),
    "kill-station": ("off",),
    "start-station": ("on",),
    "restart-station": ("off", "on"),
}


class LabRuns(HostError):
    """There is a lab in this folder already; the text says what to do."""


class EmulatedLab:
    """A lab in one folder; `async with`, or `start` and `stop`.

    Remembers which processes there are, and which stations have lost their power. What boards keep
    in flash is still there when a lab begins in the same folder again. `tap_uri` is where the
    stations connect. Starting: HostError when a process does not come up.
    """

    def __init__(
        self,
        folder: Path,
        tap_uri: str,
        *,
        region: str = "EU868",
        boards: Sequence[BoardEntry] = BOARDS,
        stations: Sequence[StationEntry] = STATIONS,
    ) -> None:
        self.folder = folder.absolute()
        self.bench_toml = self.folder / lab_folder.BENCH_TOML
        self._tap_uri = tap_uri
        self._region = region
        self._boards = boards
        self._stations = stations
        self._air: Program | None = None
        self._programs: dict[str, Program] = {}
        self._dark: dict[str, None] = {}
        self._server: asyncio.Server | None = None
        self._door = asyncio.Lock()

    async def __aenter__(self) -> "EmulatedLab":
        await self.start()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.stop()

    async def start(self) -> Path:
        """Start everything; the `bench.toml`. What was started is ended if one does not come up."""
        self.folder.mkdir(parents=True, exist_ok=True)
        await self._require_empty()
        try:
            await self._start()
        except BaseException:
            await self.stop()
            raise
        return self.bench_toml

    async def _start(self) -> None:
        steps = [f"{station.name}={air.STEP_DB}" for station in self._stations]
        self._air = Program("the air", lab_folder.log_file(self.folder, lab_folder.AIR))
        self._air.launch(self._command("air_process", *steps), speaks=True)
        await self._air.first_line(READY_S)
        for station in self._stations:
            home = lab_folder.home(self.folder, station.name)
            (home / lab_folder.TC_URI).write_text(self._tap_uri + "\n")
        for name in self._names():
            self._programs[name] = Program(name, lab_folder.log_file(self.folder, name))
            self._switch_on(name)
        for name, program in self._programs.items():
            await program.until(self._is_up(name), READY_S)
        self._server = await lab_folder.listen(self.folder, self._obey)
        self.bench_toml.write_text(
            bench_toml(
                self.folder,
                tap=urlsplit(self._tap_uri).netloc,
                tap_uri=self._tap_uri if self._tap_uri.startswith("wss:") else None,
                region=self._region,
                boards=self._boards,
                stations=self._stations,
                step_db=air.STEP_DB,
            )
        )

    async def stop(self) -> None:
        if self._server is not None:
            self._server.close()
            self._server = None
        programs = [*self._programs.values(), *([self._air] if self._air else [])]
        for program in programs:
            await program.kill()  # a board has nothing to do when its power goes
        for board in self._boards:
            lab_folder.port_link(self.folder, board.name).unlink(missing_ok=True)
        self._programs.clear()
        self._dark.clear()
        self._air = None

    async def watch(self) -> NoReturn:
        """Wait until the air ends by itself, without which nothing works: ProgramDied."""
        assert self._air is not None, "the lab was not started"
        await self._air.watch()

    async def _require_empty(self) -> None:
        with suppress(OSError):
            await (await lab_folder.connect(self.folder)).close()
            raise LabRuns(f"a lab runs in {self.folder} already: end it, or take another folder")

    def _names(self) -> list[str]:
        return [board.name for board in self._boards] + [s.name for s in self._stations]

    async def _obey(self, verb: str, name: str, value: str) -> str:
        if name not in self._names():
            return f"there is no {name!r} here, only {', '.join(self._names())}"
        is_station = self._is_station(name)
        try:
            if verb in _BY_AIR:
                await lab_folder.ask(self.folder / lab_folder.AIR, verb, name, value)
            elif verb in _BY_BOARD and not is_station:
                await lab_folder.ask(self.folder / name, verb, name)
            elif verb in _BY_LAB and (is_station or verb.startswith("power-")):
                async with self._door:
                    for step in _BY_LAB[verb]:
                        await self._switch(name, step)
            else:
                return f"{name} is a {'station' if is_station else 'board'}; {verb} is not for it"
        except lab_folder.ControlRefused as refusal:
            return str(refusal)
        return ""

    async def _switch(self, name: str, step: str) -> None:
        program = self._programs[name]
        if step == "on":
            if name in self._dark:
                await self._end(name)
            if not program.running:
                self._switch_on(name)
                await program.until(self._is_up(name), READY_S)
        elif step == "dark" and self._is_station(name) and program.running:
            # Without power nobody hangs up: its connection stays half open.
            await lab_folder.ask(self.folder / lab_folder.AIR, "deaf", name)
            program.pause()
            self._dark[name] = None
        elif program.running:
            await self._end(name)

    async def _end(self, name: str) -> None:
        await self._programs[name].kill()
        if name in self._dark:
            del self._dark[name]
            await lab_folder.ask(self.folder / lab_folder.AIR, "hearing", name)
        self._take_port_away(name)

    def _is_station(self, name: str) -> bool:
        return name in [station.name for station in self._stations]

    def _switch_on(self, name: str) -> None:
        board = next((board for board in self._boards if board.name == name), None)
        if board is not None:
            self._take_port_away(name)
            command = self._command("radio_process", "board", name, board.firmware, board.dev_eui)
        else:
            eui = next(station.eui for station in self._stations if station.name == name)
            command = self._command("radio_process", "station", name, eui, self._region)
        self._programs[name].launch(command)

    def _take_port_away(self, name: str) -> None:
        if name in [board.name for board in self._boards]:
            lab_folder.port_link(self.folder, name).unlink(missing_ok=True)

    def _is_up(self, name: str) -> Callable[[], bool]:
        if name in [board.name for board in self._boards]:
            return lab_folder.port_link(self.folder, name).exists
        return lambda: True

    def _command(self, module: str, *words: str) -> list[str]:
        return [sys.executable, "-m", f"bench.virtual.lab.{module}", str(self.folder), *words]
