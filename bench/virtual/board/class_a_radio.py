"""How does a device on virtual time send one frame and listen for one answer?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from bench.transmission import Eui, Transmission
from bench.virtual.air.medium import Heard, Medium
from bench.virtual.lorawan.channel_plan import ChannelPlan
from bench.virtual.mac import Listened, Received, Window
from lns.clock import now_us

T = TypeVar("T")

TOLERANCE_US = 20_000
"""How far from the opening of its window a downlink may start: a few symbols."""


class Restarted(Exception):
    """The device was reset while it waited."""


@dataclass(slots=True)
class _Listening(Generic[T]):
    """The windows that are open, and who judges what they catch."""

    windows: tuple[Window, Window]
    believe: Callable[[Heard], T | None]
    gives_up_rx2: bool
    answer: Received[T] | None = None
    gave_up: bool = False

    @property
    def is_over(self) -> bool:
        """Whether nothing is listened to any more."""
        return self.answer is not None or self.gave_up

    def catching(self, transmission: Transmission) -> Window | None:
        """The window in which a frame begins, if any."""
        for window in self.windows:
            is_near = abs(transmission.start_us - window.opens_us) <= TOLERANCE_US
            tuned = (window.dr, window.freq_hz) == (transmission.dr, transmission.freq_hz)
            if is_near and tuned:
                return window
        return None


class ClassARadio:
    """One device's radio: remembers the windows that are open now.

    `unasked` is told every frame that no window takes, of a radio that is never off (class C).
    """

    def __init__(self, eui: Eui, medium: Medium) -> None:
        self.eui = eui
        self._medium = medium
        self._listening: _Listening[Any] | None = None
        self.unasked: Callable[[Heard, int, int], None] = lambda heard, dr, freq_hz: None
        self._deaf_until_us = 0
        self._waiter: asyncio.Future[None] | None = None
        self._restarted = False
        medium.attach(self, hears="down")

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        """Put a frame on the air now."""
        return self._medium.transmit(
            self.eui,
            phy,
            direction="up",
            freq_hz=freq_hz,
            dr=dr,
            power_dbm=power_dbm,
            facts=facts,
        )

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        """The first frame in which `believe` sees an answer, if any, when both windows are over."""
        listening = self._listening = _Listening(windows, believe, gives_up_rx2)
        try:
            await self._wait(windows[1].closes_us)
            while not listening.is_over and (end_us := self._catch_ends_us(listening)):
                await self._wait(end_us)
            return Listened(listening.answer, listening.gave_up)
        finally:
            self._listening = None

    async def sleep_until(self, when_us: int) -> None:
        """Wait with the radio off; Restarted if the device is reset."""
        await self._wait(when_us)

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        """There is one region on this air, and one network."""

    def hear_always(self) -> None:
        """It does."""

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
        window = None
        if listening is not None and not listening.is_over:
            window = listening.catching(heard.transmission)
        if listening is None or window is None:
            return self.unasked(heard, heard.transmission.dr, heard.transmission.freq_hz)
        self._deaf_until_us = heard.end_us
        content = listening.believe(heard)
        if content is not None:
            listening.answer = Received(content, window.slot, heard)
        listening.gave_up = content is None and listening.gives_up_rx2
        if listening.is_over:
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

    def _catch_ends_us(self, listening: _Listening[Any]) -> int | None:
        """When the frames end that a window is receiving now; None if there is none."""
        now = now_us()
        ends_us = [t.end_us for t in self._medium.ongoing("down") if listening.catching(t)]
        return max((end_us for end_us in ends_us if end_us > now), default=None)
