"""What is the same for every use of a board under RUI3: its settings, its version, its restarts?

Source: RAK-STM32-RUI 5.0.0 and the version differences of 3.x to 5.x.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass, field

from bench.device.attached import AttachedBoard
from bench.device.console import Console
from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.grammar import RUI3
from bench.device.masking import is_about_a_key
from bench.device.rui3_version import Rui3Version, rui3_version
from bench.device.seam import CommandRefused, DeviceRestarted, DeviceSilent, NotAsWritten
from bench.device.serial_line import LineLost

RESET = "ATZ"
_RESTARTS = re.compile(r"AT[ZR]|AT\+NWM=\d", re.I)
_ASKS = 2  # a question is asked again when noise has made the answer unreadable


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting and the value it must have.

    `boots`: a change is complete after a restart only. `optional`: some firmware knows no such
    setting, and then behaves as if it had this value.
    """

    name: str
    value: str = field(repr=False)
    boots: bool = False
    optional: bool = False

    def is_met_by(self, found: str) -> bool:
        """Whether a value as read is the wanted one."""
        if self.name == "AT+JOIN":  # its first field is an action
            return found.partition(":")[2] == self.value.partition(":")[2]
        return found.upper() == self.value.upper()


class Rui3Board(AttachedBoard):
    """A board under RUI3; remembers its version once it has told it."""

    def __init__(
        self, name: str, line: Wire, console: Console, *, deadlines: Deadlines | None = None
    ) -> None:
        super().__init__(name, line, console, RUI3, deadlines)
        self.version: Rui3Version | None = None

    async def ask(self, name: str) -> str:
        """The value of a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        for _ in range(_ASKS):
            value = (await self._run(f"{name}=?")).value(name)
            if value is not None:
                return value
        raise DeviceSilent(f"{self.name}: no value in its answers to {name}=?")

    async def ask_if_known(self, name: str) -> str | None:
        """The value of a setting; None where this firmware has no such setting."""
        try:
            return await self.ask(name)
        except CommandRefused as refused:
            if _is_unknown(refused):
                return None
            raise

    async def write(self, name: str, value: str) -> None:
        """Change a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        await self._run(f"{name}={value}")

    async def write_what_differs(self, settings: Iterable[Setting]) -> list[Setting]:
        """Read each, and write only what has another value: flash wears by writing."""
        written = []
        for setting in settings:
            found = await self._found(setting)
            if found is not None and not setting.is_met_by(found):
                await self.write(setting.name, setting.value)
                written.append(setting)
        return written

    async def read_back(self, settings: Iterable[Setting]) -> None:
        """NotAsWritten for the first that has another value."""
        for setting in settings:
            found = await self._found(setting)
            if found is not None and not setting.is_met_by(found):
                told = f"reads {found}, not {setting.value}"
                if is_about_a_key(setting.name):
                    told = "reads otherwise than it was written"
                raise NotAsWritten(f"{self.name}: {setting.name} {told}")

    async def recognise(self) -> Rui3Version:
        """Ask for its version; UnknownFirmware. Echo, where it is on, is switched off."""
        if (await self._run("AT")).echoed:
            await self._run("ATE")
        self.version = rui3_version(await self.ask("AT+VER"))
        self.firmware = self.version.text
        return self.version

    async def work_in_mode(self, mode: str) -> bool:
        """Let it work in a mode, "1" LoRaWAN or "0" LoRa P2P; whether it had to change.

        Not asked for without need: it starts anew even when it has this mode.
        """
        if await self.ask("AT+NWM") == mode:
            return False
        await self.reboot(f"AT+NWM={mode}")
        return True

    async def reboot(self, command: str = RESET) -> None:
        """Let it start anew by a command, and wait until it has started.

        It says so without an OK before, or after one without a line end; a board with USB of its
        own goes away meanwhile. CommandRefused when its MAC is busy.
        """
        boot_us = self._deadlines.boot_us
        was_lost = self._conversation.is_lost
        try:
            async with self._conversation.accepted(command, within_us=boot_us) as exchange:
                await self._conversation.wait(exchange, exchange.ending, boot_us)
        except DeviceRestarted:
            return
        except LineLost:
            if was_lost:
                raise
            with self._boot_expected():
                await self.returned(boot_us)

    async def _found(self, setting: Setting) -> str | None:
        ask = self.ask_if_known if setting.optional else self.ask
        return await ask(setting.name)

    def _restarts(self, command: str) -> bool:
        return _RESTARTS.fullmatch(command) is not None


def _is_unknown(refused: CommandRefused) -> bool:
    return "AT_COMMAND_NOT_FOUND" in str(refused) or "Command not found!!" in str(refused)
