"""A board as a process: `python -m bench.virtual.lab.board_process DIR NAME FIRMWARE DEV_EUI`.

Its serial port is DIR/dev/NAME, its flash DIR/NAME/nvm.json; killing the process is a power cut.
FIRMWARE is what `AT+VER` tells: RUI_4.1.0_RAK3172-H, or 4.0.11 of a LoRa-E5.
"""

import asyncio
import sys
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

from bench.chance import stream
from bench.virtual.board import Port
from bench.virtual.chip_radio import ChipRadio, Radio
from bench.virtual.e5_console import LoraE5
from bench.virtual.lab import lab_folder
from bench.virtual.lab.air_process import AirLine, open_air
from bench.virtual.lab.lab_folder import live
from bench.virtual.mac import Circuit, Firmware, Nvm
from bench.virtual.rui3_console import Rui3
from bench.virtual.rui3_traffic import Rui3Version

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
        """Run until cancelled, with this radio."""
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
            radio=ChipRadio(self._radio),
            chip=self._radio,
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


def main(words: list[str]) -> int:
    """Be the board until the process is ended."""
    folder, name, firmware, dev_eui = words
    return live(Board(Path(folder), name, firmware, dev_eui).run())


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
