"""How does a class A device send one frame and listen for one answer?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any, Generic, TypeVar

from bench.device.receive_windows import ReceiveWindow, ReceiveWindows
from bench.radio.medium import Heard, Medium, Transmission
from lns.clock import now_us
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import Channel, Region, us915_sub_band

T = TypeVar("T")


class Restarted(Exception):
    """The device was reset while it waited."""


@dataclass(frozen=True, slots=True)
class Received(Generic[T]):
    """An answer that was believed, where and how strong."""

    content: T
    window: ReceiveWindow
    heard: Heard


@dataclass(slots=True)
class _Listening(Generic[T]):
    """The windows that are open, and who judges what they catch."""

    windows: ReceiveWindows
    believe: Callable[[Heard], T | None]
    answer: Received[T] | None = None


class ClassARadio:
    """One device's radio: remembers its last channel and the windows that are open now.

    `unasked` is told every frame that no window takes, of a radio that is never off (class C).
    """

    def __init__(self, eui: Eui, medium: Medium, chance: Random) -> None:
        self.eui = eui
        self._medium = medium
        self._chance = chance
        self._channels = channels(medium.region)
        self._last_freq_hz = 0
        self._listening: _Listening[Any] | None = None
        self.unasked: Callable[[Heard], None] = lambda heard: None
        self._deaf_until_us = 0
        self._waiter: asyncio.Future[None] | None = None
        self._restarted = False
        medium.attach(self, hears="down")

    def transmit(
        self, phy: bytes, *, dr: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        """Send on another channel than the last time, where there is one."""
        usable = [c.freq_hz for c in self._channels if c.dr_min <= dr <= c.dr_max]
        others = [freq_hz for freq_hz in usable if freq_hz != self._last_freq_hz]
        self._last_freq_hz = self._chance.choice(others or usable)
        return self._medium.transmit(
            self.eui,
            phy,
            direction="up",
            freq_hz=self._last_freq_hz,
            dr=dr,
            power_dbm=power_dbm,
            facts=facts,
        )

    async def listen(
        self, windows: ReceiveWindows, believe: Callable[[Heard], T | None]
    ) -> Received[T] | None:
        """The first frame in which `believe` sees an answer; None when both windows are over."""
        listening = self._listening = _Listening(windows, believe)
        try:
            await self._wait(windows.rx2.closes_us)
            while listening.answer is None and (end_us := self._catch_ends_us(windows)):
                await self._wait(end_us)
            return listening.answer
        finally:
            self._listening = None

    async def sleep_until(self, when_us: int) -> None:
        """Wait with the radio off; Restarted if the device is reset."""
        await self._wait(when_us)

    def power_on(self) -> None:
        """Begin a command; a reset from before it is of no concern."""
        self._restarted = False

    def restart(self) -> None:
        """Close the windows; whoever waits, now or next, gets Restarted."""
        self._listening = None
        self._restarted = True
        self._wake()

    def frame_heard(self, heard: Heard) -> None:
        """Take a downlink, at its end; the medium calls it."""
        # RX2 does not open while a frame of RX1 is being received, whoever it is for.
        if heard.transmission.start_us < self._deaf_until_us:
            return
        listening = self._listening
        if listening is None or listening.answer is not None:
            return self.unasked(heard)
        window = listening.windows.catching(heard.transmission)
        if window is None:
            return self.unasked(heard)
        self._deaf_until_us = heard.end_us
        content = listening.believe(heard)
        if content is not None:
            listening.answer = Received(content, window, heard)
            self._wake()

    async def _wait(self, until_us: int) -> None:
        loop = asyncio.get_running_loop()
        self._waiter = loop.create_future()
        timer = loop.call_at(until_us / 1_000_000, self._wake)
        try:
            if not self._restarted:
                await self._waiter
        finally:
            timer.cancel()
            self._waiter = None
        if self._restarted:
            raise Restarted

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def _catch_ends_us(self, windows: ReceiveWindows) -> int | None:
        """When the frames end that a window is receiving now; None if there is none."""
        now = now_us()
        ends_us = [t.end_us for t in self._medium.ongoing("down") if windows.catching(t)]
        return max((end_us for end_us in ends_us if end_us > now), default=None)


def channels(region: Region) -> tuple[Channel, ...]:
    """The channels a device of this bench uses: in US915 those of sub-band 2."""
    return us915_sub_band(2) if region.name == "US915" else region.uplink_channels
