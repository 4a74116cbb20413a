"""What is the same in every driver: the line, the patience, the restarts?

A driver is written to the documented dialect of its board. It waits for lines, never for time; it
asks again and again only where a device does not say that it has started.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self, TypeVar

from bench.capture import Record
from bench.device.at_session import AtCommand, AtSession, Console, Grammar, Line, LineKind, Wire
from bench.device.interfaces import (
    CommandRefused,
    Deadlines,
    DeviceRestarted,
    DeviceSilent,
    WrongDevice,
)
from bench.device.serial_line import LineLost, PortUnavailable
from lns.clock import now_us
from lns.lorawan.identifiers import Eui, eui

T = TypeVar("T")

ASK_AGAIN_US = 1_000_000


class MacCycle:
    """The MAC cycle of the last message, from its acceptance to the line that tells of its end.

    Remembers whether it `is_open`; the line may never be heard, as when the port was gone.
    """

    def __init__(self) -> None:
        self.is_open = False
        self._over = asyncio.Event()

    def begin(self) -> None:
        self.is_open = True

    def end(self) -> None:
        self.is_open = False
        self._over.set()

    async def past(
        self,
        carry_out: Callable[[], Awaitable[T]],
        waits_for: Callable[[CommandRefused], bool],
        within_us: int,
    ) -> T:
        """Carry it out, again whenever a cycle ends, while the refusal is one that is waited for.

        Tried every second too, for the line that ends a cycle may never come.
        """
        until_us = now_us() + within_us
        while True:
            self._over.clear()
            try:
                return await carry_out()
            except CommandRefused as refused:
                if not waits_for(refused) or now_us() > until_us:
                    raise
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(ASK_AGAIN_US / 1_000_000):
                    await self._over.wait()


TROUBLES = (CommandRefused, DeviceRestarted, DeviceSilent, LineLost, PortUnavailable)
"""What may go wrong with any command."""

_RESTRICTED = re.compile(r"Restricted_Wait_(\d+)_ms|No band in (\d+)ms")


class AttachedBoard:
    """A board at a serial line; `async with` opens the line and listens until the end.

    Remembers what the board said of itself. Every command and every line goes into the capture,
    keys masked, also lines that nobody asked for. Without a DevEUI it is no device of the network.
    """

    grammar: Grammar

    def __init__(
        self,
        name: str,
        line: Wire,
        record: Record,
        *,
        dev_eui: Eui | None = None,
        deadlines: Deadlines | None = None,
    ) -> None:
        self.name = name
        self.firmware = ""
        self._deadlines = deadlines or Deadlines()
        self._session = AtSession(
            name,
            line,
            Console(name, dev_eui, record),
            grammar=self.grammar,
            reply_us=self._deadlines.reply_us,
            heard=self._hear,
            gone=self._gone,
        )
        self._booted: asyncio.Event | None = None
        self._cycle = MacCycle()

    async def __aenter__(self) -> Self:
        self._opened = self._session.opened()
        await self._opened.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self._opened.__aexit__(*raised)

    async def returned(self, within_us: int) -> None:
        """Wait until its port is there again and it answers.

        PortUnavailable when the port does not come back, DeviceSilent when the board does not.
        """
        until_us = now_us() + within_us
        while True:
            try:
                if self._session.is_lost:
                    await self._session.reconnect()
                if await self._session.is_there(self._deadlines.poll_us):
                    return
                if now_us() >= until_us:
                    raise DeviceSilent(f"{self.name}: not a word within {within_us} us")
            except (LineLost, PortUnavailable):
                if now_us() >= until_us:
                    raise
                await asyncio.sleep(self._deadlines.poll_us / 1_000_000)

    async def restarted_by(self, cause: Awaitable[None]) -> None:
        """Let a button or a switch restart the device, and wait until it has started.

        A port that goes away with the power is waited for. DeviceSilent when the device does not
        come back, PortUnavailable when its port does not.
        """
        with self._boot_expected() as booted:
            try:
                await cause
                if self._tells_boot or self._session.is_lost:
                    async with asyncio.timeout(self._deadlines.boot_us / 1_000_000):
                        await booted.wait()
            except TimeoutError:
                raise DeviceSilent(f"{self.name}: not a word since its restart") from None
            if not self._tells_boot:
                self._session.restarted()
            if self._session.is_lost or not self._tells_boot:
                await self.returned(self._deadlines.boot_us)
        await self._set_up_again()

    @contextmanager
    def _boot_expected(self) -> Iterator[asyncio.Event]:
        booted = self._booted = asyncio.Event()
        try:
            yield booted
        finally:
            self._booted = None

    @property
    def _tells_boot(self) -> bool:
        return True

    async def _set_up_again(self) -> None:
        """Write again what the device has forgotten in a restart; by default it forgets nothing."""

    async def _run(self, command: str) -> AtCommand:
        async with self._session.accepted(command) as asked:
            return asked

    async def _when_permitted(self, carry_out: Callable[[], Awaitable[T]]) -> T:
        """Carry it out, again each time that the device names a time at which its air is free.

        CommandRefused when that is later than `restricted_us` from now.
        """
        until_us = now_us() + self._deadlines.restricted_us
        while True:
            try:
                return await carry_out()
            except CommandRefused as refused:
                wait_us = restricted_us(str(refused))
                if wait_us is None or now_us() + wait_us > until_us:
                    raise
            await asyncio.sleep(wait_us / 1_000_000)

    async def _past_cycles(
        self, carry_out: Callable[[], Awaitable[T]], waits_for: Callable[[CommandRefused], bool]
    ) -> T:
        within_us = self._deadlines.transmission_us
        return await self._when_permitted(lambda: self._cycle.past(carry_out, waits_for, within_us))

    def _hear(self, line: Line) -> None:
        if line.kind is LineKind.BOOT and self._booted is not None:
            self._booted.set()

    def _gone(self) -> None:
        if self._booted is not None:
            self._booted.set()


def insist_on_identity(name: str, dev_eui: Eui, found: str) -> None:
    """WrongDevice unless what was found is the DevEUI of the inventory."""
    try:
        is_ours = eui(found) == dev_eui
    except ValueError:
        is_ours = False
    if not is_ours:
        raise WrongDevice(f"{name}: its DevEUI is {found}, not {dev_eui}")


def restricted_us(text: str) -> int | None:
    """How long the duty cycle forbids to transmit, as a refusal names it; None without."""
    found = _RESTRICTED.search(text)
    return None if found is None else int(found[1] or found[2]) * 1_000
