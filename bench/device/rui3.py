"""How does the bench speak with a RAK3172 or RAK4631 under RUI3?

Source: RAK-STM32-RUI 5.0.0 and the version differences of 3.x to 5.x. The same driver speaks to a
board at a USB port and to the virtual firmware behind a pty. It waits for lines, never for time.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable
from dataclasses import dataclass
from types import TracebackType

from bench.device.at import Line, LineKind
from bench.device.console import Console
from bench.device.conversation import Conversation, Wire
from bench.device.exchange import Exchange
from bench.device.rui3_version import Rui3Version, rui3_version
from bench.device.seam import CommandRefused, DeviceRestarted, DeviceSilent, Ending, Outcome
from bench.radio.medium import Record
from lns.lorawan.identifiers import Eui, eui

PORTS = range(1, 224)
PAYLOAD_BYTES = range(1, 251)
RETRIES = range(8)

_JOIN, _RESET = "AT+JOIN=1:0:8:0", "ATZ"
_JOINED = re.compile(r"\+EVT:(?:JOINED|JOIN_FAILED(?:_\w+)?)")
_SENT = re.compile(r"\+EVT:TX_DONE")
_CONFIRMED = re.compile(r"\+EVT:SEND_CONFIRMED_(?:OK|FAILED(?:\((\d+)\))?)")
_ASKS = 2  # a question is asked again when noise has made the answer unreadable


class WrongDevice(Exception):
    """The port leads to another device than the inventory says."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long to wait for a line before the device is silent, all generous.

    `transmission_us` is for one transmission of a message: 2.8 s at SF12, RX2 16 s later at most,
    3 s of retransmission timeout. A join takes the same with RX2 at 6 s.
    """

    reply_us: int = 5_000_000
    boot_us: int = 10_000_000
    join_us: int = 20_000_000
    transmission_us: int = 25_000_000


class Rui3Device:
    """A device at a serial line; `async with` opens the line and listens until the end.

    Remembers what the device said of itself, and whether its last reply is still to come. Every
    command and every line goes into the capture, keys masked, also lines that nobody asked for.
    """

    def __init__(
        self,
        name: str,
        dev_eui: Eui,
        line: Wire,
        record: Record,
        *,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.name = name
        self.dev_eui = dev_eui
        self.version: Rui3Version | None = None
        self.restarts_unasked = 0
        self._deadlines = deadlines or Deadlines()
        self._conversation = Conversation(
            name,
            line,
            Console(name, dev_eui, record),
            question="AT+VER=?",
            reply_us=self._deadlines.reply_us,
            heard=self._hear,
        )
        self._booted: asyncio.Event | None = None
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._confirming: bool | None = None
        self._joins: bool | None = None
        self._tries = 1

    async def __aenter__(self) -> "Rui3Device":
        await self._conversation.__aenter__()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._conversation.__aexit__(kind, error, trace)

    async def reconnect(self) -> None:
        """Open the line anew, as after a board was unplugged; PortUnavailable if that cannot be."""
        await self._conversation.reconnect()

    async def identify(self) -> Rui3Version:
        """Ask who this is; UnknownFirmware, WrongDevice. Echo, where it is on, is switched off."""
        if (await self._run("AT")).echoed:
            await self._run("ATE")
        self.version = rui3_version(await self.ask("AT+VER"))
        found = await self.ask("AT+DEVEUI")
        try:
            is_ours = eui(found) == self.dev_eui
        except ValueError:
            is_ours = False
        if not is_ours:
            raise WrongDevice(f"{self.name}: its DevEUI is {found}, not {self.dev_eui}")
        self._joins = await self.ask("AT+NJM") == "1"
        self._confirming = await self.ask("AT+CFM") == "1"
        return self.version

    async def ask(self, name: str) -> str:
        """The value of a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        for _ in range(_ASKS):
            value = (await self._run(f"{name}=?")).value(name)
            if value is not None:
                return value
        raise DeviceSilent(f"{self.name}: no value in its answers to {name}=?")

    async def write(self, name: str, value: str) -> None:
        """Change a setting such as `AT+DR`; CommandRefused, DeviceSilent, DeviceRestarted."""
        await self._run(f"{name}={value}")

    async def set_retries(self, retries: int) -> None:
        """How often a confirmed message without acknowledgement is repeated, 0..7.

        Without effect from RUI 4.2 on: there the network server sets the number of transmissions.
        """
        if retries not in RETRIES:
            raise ValueError(f"{retries} retries: AT+RETY takes 0 to 7")
        await self._run(f"AT+RETY={retries}")
        self._tries = 1 + retries

    async def send(
        self, payload: bytes, *, port: int = 2, confirmed: bool = False, transmissions: int = 1
    ) -> Ending:
        """Send one message, to the end of its MAC cycle; CommandRefused if the device will not.

        `transmissions`: how often the network server makes it repeat every frame (NbTrans); the
        deadline follows from it. DeviceSilent when no end is told.
        """
        if port not in PORTS or len(payload) not in PAYLOAD_BYTES:
            raise ValueError(f"port {port}, {len(payload)} bytes: 1 to 223 and 1 to 250 it must be")
        tries = max(transmissions, self._tries if confirmed else 1)
        command = f"AT+SEND={port}:{payload.hex().upper()}"
        try:
            if confirmed is not self._confirming:
                await self._run(f"AT+CFM={int(confirmed)}")
                self._confirming = confirmed
            end = await self._carry_out(
                command,
                _CONFIRMED if confirmed else _SENT,
                tries * self._deadlines.transmission_us,
            )
        except DeviceRestarted:
            return Ending(Outcome.RESTARTED)
        return _ending(end)

    async def join(self) -> bool:
        """Join once; whether the device has a session then. A device in ABP mode has one."""
        try:
            if self._joins is None:
                self._joins = await self.ask("AT+NJM") == "1"
            if not self._joins:  # it prints no event
                await self._run(_JOIN)
                return await self.ask("AT+NJS") == "1"
            end = await self._carry_out(_JOIN, _JOINED, self._deadlines.join_us)
        except DeviceRestarted:
            return False
        return end == "+EVT:JOINED"

    async def restart(self) -> None:
        """Reset the device (ATZ) and wait until it says that it has started."""
        try:
            boot_us = self._deadlines.boot_us
            async with self._conversation.accepted(_RESET, within_us=boot_us) as exchange:
                await self._conversation.wait(exchange, exchange.ending, boot_us)
        except DeviceRestarted:
            return

    async def restarted_by(self, cause: Awaitable[None]) -> None:
        """Let a button or a switch restart the device, and wait until it says that it has started.

        DeviceSilent when it does not.
        """
        booted = self._booted = asyncio.Event()
        try:
            await cause
            async with asyncio.timeout(self._deadlines.boot_us / 1_000_000):
                await booted.wait()
        except TimeoutError:
            raise DeviceSilent(f"{self.name}: not a word since its restart") from None
        finally:
            self._booted = None

    async def _run(self, command: str) -> Exchange:
        async with self._conversation.accepted(command) as exchange:
            return exchange

    async def _carry_out(self, command: str, endings: re.Pattern[str], within_us: int) -> str:
        """The event that ends a command; empty for a firmware that does not tell of it."""
        was_idle = self._is_idle.is_set()
        try:
            return await self._end_of(command, endings, within_us)
        except CommandRefused as refused:
            # A payload too long is refused, and an empty frame is sent all the same.
            if endings is not _JOINED and "AT_PARAM_ERROR" in str(refused):
                self._is_idle.clear()
            if "AT_BUSY_ERROR" not in str(refused) or was_idle:
                raise
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self._deadlines.transmission_us / 1_000_000):
                await self._is_idle.wait()
        self._is_idle.set()
        return await self._end_of(command, endings, within_us)

    async def _end_of(self, command: str, endings: re.Pattern[str], within_us: int) -> str:
        async with self._conversation.accepted(command, endings) as exchange:
            try:
                return (await self._conversation.wait(exchange, exchange.ending, within_us)).text
            except DeviceSilent:
                tells = self.version is None or self.version.tells_tx_done
                if tells or endings is not _SENT:
                    raise
                return ""

    def _hear(self, line: Line) -> None:
        if line.kind is LineKind.BOOT:
            asked = any(exchange.command == _RESET for exchange in self._conversation.exchanges)
            if self._booted is not None:
                self._booted.set()
            elif not asked:
                self.restarts_unasked += 1
            self._confirming = None
        if line.kind is LineKind.BOOT or _SENT.fullmatch(line.text):
            self._is_idle.set()


def _ending(line: str) -> Ending:
    """What an event says of the message that it ends."""
    if not line:
        return Ending(Outcome.UNTOLD)
    if line == "+EVT:TX_DONE":
        return Ending(Outcome.SENT, line)
    if line == "+EVT:SEND_CONFIRMED_OK":
        return Ending(Outcome.ACKNOWLEDGED, line)
    found = _CONFIRMED.fullmatch(line)
    number = found[1] if found else None
    return Ending(Outcome.FAILED, line, None if number is None else int(number))
