"""Whose line is it: who asked, who waits, and what was nobody's?

One command at a time on one serial line, the same for every dialect. It waits for lines, never for
time; every command and every line goes into the capture, keys masked.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Protocol

from bench.device.at import AtConsole, Line, LineKind, command_bytes
from bench.device.console import Console
from bench.device.exchange import Exchange, Heard
from bench.device.grammar import Grammar
from bench.device.masking import MASK, is_about_a_key, masked
from bench.device.seam import CommandRefused, DeviceRestarted, DeviceSilent
from bench.device.serial_line import LineLost
from bench.device.tasks import leave


class Wire(Protocol):
    """The bytes of one device: a SerialLine."""

    async def open(self) -> None:
        """Open it; an exception that says why not."""

    async def read(self) -> bytes:
        """At least one byte; LineLost."""

    def write(self, data: bytes) -> None:
        """Hand over bytes; LineLost."""

    async def close(self) -> None:
        """Close it; `read` ends with LineLost."""


class Conversation:
    """A device at a serial line; `async with` opens the line and listens until the end.

    Remembers the commands under way, the last line, and whether a reply is still to come. `heard`
    is told every line, before those who wait for it, and `gone` that the line is lost.
    """

    def __init__(
        self,
        name: str,
        line: Wire,
        console: Console,
        *,
        grammar: Grammar,
        reply_us: int,
        heard: Callable[[Line], None] = lambda line: None,
        gone: Callable[[], None] = lambda: None,
    ) -> None:
        self.name = name
        self.exchanges: list[Exchange] = []
        self._line = line
        self._console = console
        self._grammar = grammar
        self._reply_us = reply_us
        self._heard = heard
        self._gone = gone
        self._at = AtConsole(grammar.lines)
        self._one_command = asyncio.Lock()
        self._tasks: asyncio.TaskGroup | None = None
        self._listening: asyncio.Task[None] | None = None
        self._lost: LineLost | None = LineLost(f"{name}: its line was never opened")
        self._last_line = ""
        self._reply_owed = False

    async def __aenter__(self) -> "Conversation":
        self._tasks = asyncio.TaskGroup()
        await self._tasks.__aenter__()
        try:
            await self.reconnect()
        except BaseException:
            await self._tasks.__aexit__(None, None, None)
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        assert self._tasks is not None
        await self._disconnect()
        await leave(self._tasks, kind, error, trace)

    async def reconnect(self) -> None:
        """Open the line, anew if it was open; PortUnavailable if that cannot be."""
        assert self._tasks is not None, "a device is used inside `async with`"
        await self._disconnect()
        await self._line.open()
        self._lost = None
        self._at.forget()
        self._listening = self._tasks.create_task(self._listen())

    @property
    def is_lost(self) -> bool:
        """Whether the line is gone; `reconnect` opens it anew."""
        return self._lost is not None

    @property
    def is_awaited(self) -> bool:
        """Whether somebody waits for the end of something that was begun."""
        return any(exchange.is_under_way for exchange in self.exchanges)

    @asynccontextmanager
    async def accepted(
        self,
        command: str,
        endings: re.Pattern[str] | None = None,
        within_us: int | None = None,
        *,
        early: bool = False,
    ) -> AsyncIterator[Exchange]:
        """A command that the device accepted; it is listened to until the block ends.

        `early`: its ending counts even before it was accepted. ValueError for a command that the
        bench never writes.
        """
        if self._grammar.forbidden.fullmatch(command):
            raise ValueError(f"{self.name}: the bench never writes {command}")
        reply = self._grammar.reply_to(command)
        exchange = Exchange(command, reply, endings, early=early)
        within_us = self._reply_us if within_us is None else within_us
        try:
            async with self._one_command:
                if self._reply_owed:
                    await self._pick_up_the_thread()
                status = await self._status_of(exchange, within_us)
            if exchange.refuses(status):
                replies = [] if is_about_a_key(command) else exchange.replies
                said = " ".join(masked(text) for text in (*replies, status.text))
                raise CommandRefused(f"{self.name}: {said} (to {masked(command)})")
            yield exchange
        finally:
            if exchange in self.exchanges:
                self.exchanges.remove(exchange)

    async def is_there(self, within_us: int) -> bool:
        """Whether it answers to AT within a time; LineLost. What is asked next is not mistaken."""
        exchange = Exchange("AT", self._grammar.reply_to("AT"))
        async with self._one_command:
            owed = self._reply_owed
            try:
                await self._status_of(exchange, within_us)
            except (DeviceSilent, DeviceRestarted):
                return False
            finally:
                self.exchanges.remove(exchange)
            self._reply_owed = owed
            return True

    def restarted(self) -> None:
        """It has started anew and does not say so: end what is under way."""
        self._reply_owed = False
        for exchange in self.exchanges:
            exchange.end(Line(LineKind.BOOT, "it was restarted"))

    async def _pick_up_the_thread(self) -> None:
        """Ask something whose answer cannot be that of an earlier command, come late."""
        question = self._grammar.question
        reply = self._grammar.reply_to(question)
        exchange = Exchange(question, reply, after=self._grammar.answer)
        try:
            await self._status_of(exchange, self._reply_us)
        finally:
            self.exchanges.remove(exchange)

    async def _status_of(self, exchange: Exchange, within_us: int) -> Line:
        self.exchanges.append(exchange)
        if self._lost is not None:
            raise LineLost(str(self._lost))
        self._console.command(masked(exchange.command))
        self._reply_owed = True
        try:
            self._line.write(command_bytes(exchange.command))
        except LineLost as lost:
            self._lose(lost)
            raise
        status = await self.wait(exchange, exchange.status, within_us)
        self._reply_owed = False
        return status

    async def wait(self, exchange: Exchange, line: asyncio.Future[Heard], within_us: int) -> Line:
        """A line that an exchange waits for; DeviceSilent, DeviceRestarted, LineLost."""
        try:
            async with asyncio.timeout(within_us / 1_000_000):
                heard = await line
        except TimeoutError:
            command, last = masked(exchange.command), self._last_line
            raise DeviceSilent(
                f"{self.name}: no answer to {command} within {within_us} us; last line {last!r}"
            ) from None
        if isinstance(heard, LineLost):
            raise LineLost(str(heard))
        if heard.kind is LineKind.BOOT:
            raise DeviceRestarted(f"{self.name}: {heard.text}")
        return heard

    async def _listen(self) -> None:
        """Hear the device until its line is lost; every verb learns of that."""
        try:
            while True:
                for line in self._at.receive_bytes(await self._line.read()):
                    self._hear(line)
        except LineLost as lost:
            self._lose(lost)
            await self._line.close()  # or it comes back under another name

    def _hear(self, line: Line) -> None:
        secret = line.kind is LineKind.REPLY and any(
            is_about_a_key(exchange.command) for exchange in self.exchanges
        )
        self._last_line = MASK if secret else masked(line.text)
        self._console.line(self._last_line)
        if line.kind is LineKind.BOOT:
            self._reply_owed = False
        self._heard(line)
        for exchange in self.exchanges:
            exchange.hear(line)

    def _lose(self, lost: LineLost) -> None:
        self._lost = lost
        self._reply_owed = False
        for exchange in self.exchanges:
            exchange.end(lost)
        self._gone()

    async def _disconnect(self) -> None:
        if self._listening is not None:
            await self._line.close()
            await self._listening
            self._listening = None
