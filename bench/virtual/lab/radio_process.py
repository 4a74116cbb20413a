"""A board or a Basics Station as a process.

`python -m bench.virtual.lab.radio_process DIR board NAME FIRMWARE DEV_EUI`: the serial port is
DIR/dev/NAME, the flash DIR/NAME/nvm.json; killing the process is a power cut. FIRMWARE is what
`AT+VER` tells: RUI_4.1.0_RAK3172-H, or 4.0.11 of a LoRa-E5.

`python -m bench.virtual.lab.radio_process DIR station NAME EUI REGION`: it reads DIR/NAME/tc.uri
before every connection, and `tc.trust`, `tc.crt`, `tc.key` where they are. What it prints are the
lines by which a real one is known to be well, or not.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.chance import stream
from bench.station import LinkClosed
from bench.station.web_socket import (
    StationRefused,
    StationTls,
    WebSocketLink,
    connect,
    discover,
    station_files,
)
from bench.transmission import Eui
from bench.verdict.wire import id6
from bench.virtual.chip_radio import Radio
from bench.virtual.device import Port
from bench.virtual.e5_console import LoraE5
from bench.virtual.lab import lab_folder
from bench.virtual.lab.air_process import AirLine, DistantMedium, open_air
from bench.virtual.lab.lab_folder import live
from bench.virtual.lorawan.channel_plan import channel_plan
from bench.virtual.mac import Circuit, Firmware, Nvm
from bench.virtual.rui3_console import Rui3
from bench.virtual.rui3_traffic import Rui3Version
from bench.virtual.virtual_station import VirtualStation

BOOT_S = 0.4


class Board:
    """One board while it has power; `new_port` makes another port than a pty.

    Remembers what runs since the last boot, whether it starts (then it hears nothing), and whether
    its firmware hangs.
    """

    def __init__(
        self,
        folder: Path,
        name: str,
        firmware: str,
        dev_eui: str,
        *,
        new_port: Callable[[Callable[[bytes], None]], Port] | None = None,
    ) -> None:
        self._home = lab_folder.home(folder, name)
        self._folder = folder
        self._name = name
        self._version = firmware
        self._dev_eui = dev_eui
        self._nvm = Nvm(self._home / "nvm.json")
        link = lab_folder.port_link(folder, name)
        self._port = Port(link, self._hear) if new_port is None else new_port(self._hear)
        self._firmware: Firmware | None = None
        self._radio: Radio | None = None
        self._running: set[asyncio.Task[None]] = set()
        self._tasks: asyncio.TaskGroup
        self._hangs = False
        self._starts = asyncio.Event()

    async def run(self) -> None:
        line = await open_air(self._folder, self._name)
        async with await lab_folder.listen(self._home, self._control):
            await self.have_power(line)

    async def have_power(self, line: AirLine) -> None:
        try:
            async with asyncio.TaskGroup() as self._tasks:
                self._tasks.create_task(line.run())
                self._port.plug()
                self._reset()
                await self._keep_booting(line)
        finally:
            self._port.unplug()
            await line.close()

    async def _keep_booting(self, line: AirLine) -> None:
        while True:
            await self._starts.wait()
            self._starts.clear()
            await asyncio.sleep(BOOT_S)
            if not self._starts.is_set():
                self._boot(line)

    def _boot(self, line: AirLine) -> None:
        boots = self._nvm.get("boots", 0) + 1
        self._nvm.put(boots=boots)
        self._radio = Radio(line)
        circuit = Circuit(
            name=self._name,
            nvm=self._nvm,
            radio=self._radio,
            chance=lambda purpose: stream(0, self._name, str(boots), purpose),
            write=self._write,
            spawn=self._spawn,
            reset=self._reset,
        )
        self._firmware = self._flashed(circuit)
        self._firmware.boot()

    def _flashed(self, circuit: Circuit) -> Firmware:
        if self._version.startswith("RUI_"):
            return Rui3(circuit, Rui3Version(self._version), dev_eui=self._dev_eui)
        return LoraE5(circuit, self._version, dev_eui=self._dev_eui)

    def _reset(self) -> None:
        self._firmware, self._hangs = None, False
        for task in self._running:
            task.cancel()
        self._running.clear()
        if self._radio is not None:
            self._radio.off()
        self._starts.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = self._tasks.create_task(work)
        self._running.add(task)
        task.add_done_callback(self._running.discard)

    def _write(self, data: bytes) -> None:
        if not self._hangs:
            self._port.write(data)

    def _hear(self, data: bytes) -> None:
        if self._firmware is not None and not self._hangs:
            self._firmware.hear(data)

    async def _control(self, verb: str, name: str, value: str) -> str:
        match verb:
            case "plug":
                self._port.plug()
            case "unplug":
                self._port.unplug()
            case "reset" | "reboot":
                self._reset()
            case "mute" | "unmute":
                self._hangs = verb == "mute"
            case _:
                return f"a board cannot {verb}"
        return ""


def _say(level: str, text: str) -> None:
    print(f"{level}: {text}", flush=True)


class _Uplink:
    """The way from a station to its server, by the files in its home.

    Remembers where the server was, until it is to be discovered anew.
    """

    def __init__(self, home: Path, station: Eui) -> None:
        self._home = home
        self._station = station
        self._muxs: str | None = None

    def rediscover(self) -> None:
        self._muxs = None

    async def open(self) -> WebSocketLink:
        """Discovery, where it must be, then the data connection; LinkClosed with the reason."""
        try:
            uri, tls = station_files(self._home)
        except OSError as error:
            _say("ERRO", f"No TC URI configured ({error})")
            raise LinkClosed("no TC URI") from None
        if self._muxs is None:
            self._muxs = await self._discovered(uri, tls)
        _say("INFO", "Connecting to MUXS...")
        try:
            link = await connect(self._muxs, tls=tls)
        except LinkClosed as error:
            _say("ERRO", f"TC connect failed - URI: {error}")
            raise
        _say("VERB", "Connected to MUXS.")
        return link

    async def _discovered(self, uri: str, tls: StationTls | None) -> str:
        try:
            _say("INFO", f"Connecting to INFOS: {uri}")
            found = await discover(uri, self._station, tls=tls)
        except StationRefused as error:
            _say("ERRO", f"Infos error: {error}")
            raise
        except LinkClosed as error:
            _say("INFO", f"INFOS reconnect backoff: {error}")
            raise
        _say("INFO", f"Infos: {id6(self._station)} muxs-::0 {found}")
        return found


async def _run_station(folder: Path, name: str, station: Eui, region_name: str) -> None:
    home = lab_folder.home(folder, name)
    nvm = Nvm(home / "nvm.json")
    starts = nvm.get("starts", 0) + 1
    nvm.put(starts=starts)  # each start is another radio session
    line = await open_air(folder, name)
    uplink = _Uplink(home, station)
    virtual = VirtualStation(
        station,
        DistantMedium(channel_plan(region_name), line),
        uplink.open,
        rediscover=uplink.rediscover,
        seed=stream(0, name, str(starts)).getrandbits(32),
        record=lambda *_: None,
    )
    _say("INFO", "Station Ver : 2.0.6(emulated/std)")
    _say("INFO", f"Station EUI : {id6(station)}")
    _say("INFO", "Starting TC engine")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(line.run())
        tasks.create_task(virtual.run())


def main(words: list[str]) -> int:
    """Be the board or the station until the process is ended."""
    folder, kind, name, version_or_eui, eui_or_region = words
    if kind == "board":
        return live(Board(Path(folder), name, version_or_eui, eui_or_region).run())
    return live(_run_station(Path(folder), name, Eui(version_or_eui), eui_or_region))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
