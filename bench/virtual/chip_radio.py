"""How does the radio chip of a board send, and listen in windows, between other radios?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from bench.transmission import Eui, Transmission
from bench.virtual.air import (
    PRIVATE,
    PUBLIC,
    Caught,
    Emission,
    Heard,
    Listened,
    Modulation,
    Received,
    Window,
    modulated,
)
from bench.virtual.lab.air_process import AirLine
from bench.virtual.lorawan.channel_plan import EU868, ChannelPlan
from lns.clock import now_us

T = TypeVar("T")
CHIP_TOLERANCE_US = 25_000
"""How far from the opening of its window a downlink may start (SystemMaxRxError of RUI3)."""
TOLD_WITHIN_US = 120_000
"""How late the air may tell of a frame that began in time; a matter of this host, not of radio."""
STALLED_US = 20_000
"""So late a timer is only where this host stood still; what came meanwhile is still unread."""


@dataclass(frozen=True, slots=True)
class _Tuned:
    """One receive window, and what it hears."""

    window: Window
    modulation: Modulation

    def catches(self, emission: Emission) -> bool:
        """Whether a frame begins in it, on its frequency, with its modulation."""
        return (
            emission.modulation == self.modulation
            and abs(emission.start_us - self.window.opens_us) <= CHIP_TOLERANCE_US
        )


class Radio:
    """One board's radio; remembers what it sends and in which windows it listens.

    And for its MAC (`MacRadio`) what it sends and hears: plan, sync word. `unasked_raw` is told
    every frame that no window takes, whatever it is.
    """

    def __init__(self, line: AirLine) -> None:
        self.unasked: Callable[[Heard, int, int], None] = lambda heard, dr, freq_hz: None
        self.unasked_raw: Callable[[Caught], None] = lambda caught: None
        self._line = line
        self._plan = EU868
        self._sync_word = PUBLIC
        self._sending: Emission | None = None
        self._windows: tuple[_Tuned, ...] = ()
        self._locked: dict[str, _Tuned] = {}
        self._deaf_until_us = 0
        self._judge: Callable[[Caught, Window], bool] = lambda caught, window: False
        self._woken = asyncio.Event()
        line.begins, line.caught = self._begins, self._caught

    def transmit(
        self, phy: bytes, modulation: Modulation, *, power_dbm: int, coding_rate: int = 1
    ) -> Emission:
        """Send a frame with a CRC, as uplinks have it."""
        self._sending = self._line.transmit(
            phy, modulation, power_dbm=power_dbm, crc=True, coding_rate=coding_rate
        )
        return self._sending

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        self._plan, self._sync_word = plan, PUBLIC if public else PRIVATE

    def hear_always(self) -> None:
        self.unasked_raw = self._hear

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        modulation = self._modulation(dr, freq_hz, inverted=False)
        emission = self.transmit(phy, modulation, power_dbm=power_dbm)
        return _transmission(emission, dr, is_uplink=True)

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        found: Listened[T] = Listened()

        def judge(caught: Caught, window: Window) -> bool:
            nonlocal found
            heard = self._heard(caught)
            content = believe(heard)
            if content is not None:
                found = Listened(Received(content, window.slot, heard))
            elif gives_up_rx2:
                found = Listened(gave_up=True)
            return content is not None or gives_up_rx2

        self._windows = tuple(
            _Tuned(one, self._modulation(one.dr, one.freq_hz, inverted=True)) for one in windows
        )
        self._judge, self._deaf_until_us = judge, 0
        self._locked.clear()
        try:
            over_us = max(w.opens_us for w in windows) + CHIP_TOLERANCE_US + TOLD_WITHIN_US
            while found.answer is None and not found.gave_up:
                late_us = (now := now_us()) - over_us
                if 0 <= late_us < STALLED_US:
                    break
                over_us = over_us if late_us < 0 else now + TOLD_WITHIN_US
                self._woken.clear()
                try:
                    async with asyncio.timeout((over_us - now) / 1_000_000):
                        await self._woken.wait()
                except TimeoutError:
                    pass
                ends_us = [self._line.ongoing[key].end_us for key in self._locked]
                over_us = max([over_us, *(end_us + TOLD_WITHIN_US for end_us in ends_us)])
        finally:
            self._windows = ()
            self._locked.clear()
        return found

    async def sleep_until(self, when_us: int) -> None:
        await asyncio.sleep(max(when_us - now_us(), 0) / 1_000_000)

    def off(self) -> None:
        """Lose the power, or be reset: what is being sent breaks off."""
        if self._sending is not None and self._sending.end_us > now_us():
            self._line.stop(self._sending)
        self._sending, self._windows = None, ()
        self._locked.clear()
        self.unasked_raw = lambda caught: None

    def _begins(self, emission: Emission) -> None:
        # A window does not open while another frame is being received.
        tuned = next((w for w in self._windows if w.catches(emission)), None)
        if tuned is not None and emission.start_us >= self._deaf_until_us:
            self._deaf_until_us = emission.end_us
            self._locked[emission.key] = tuned
            self._woken.set()

    def _caught(self, caught: Caught) -> None:
        tuned = self._locked.pop(caught.emission.key, None)
        if tuned is None:
            self.unasked_raw(caught)
        elif not caught.error and self._judge(caught, tuned.window):
            self._windows = ()
            self._locked.clear()
            self._woken.set()

    def _hear(self, caught: Caught) -> None:
        modulation = caught.emission.modulation
        if caught.error or not modulation.inverted or modulation.sync_word != self._sync_word:
            return
        for dr, data_rate in enumerate(self._plan.data_rates):
            if data_rate == modulation.data_rate:
                self.unasked(self._heard(caught), dr, modulation.freq_hz)

    def _heard(self, caught: Caught) -> Heard:
        emission = caught.emission
        dr = self._plan.data_rates.index(emission.modulation.data_rate)
        transmission = _transmission(emission, dr, is_uplink=False)
        return Heard(transmission, caught.rssi_dbm, caught.snr_db, emission.end_us)

    def _modulation(self, dr: int, freq_hz: int, *, inverted: bool) -> Modulation:
        data_rate = self._plan.data_rates[dr]
        assert data_rate is not None, f"DR{dr} is not defined"
        return modulated(data_rate, freq_hz, inverted=inverted, sync_word=self._sync_word)


def _transmission(emission: Emission, dr: int, *, is_uplink: bool) -> Transmission:
    return Transmission(
        number=emission.number,
        direction="up" if is_uplink else "down",
        sender=Eui(emission.sender),
        phy=emission.phy,
        freq_hz=emission.freq_hz,
        dr=dr,
        data_rate=emission.modulation.data_rate,
        start_us=emission.start_us,
        airtime_us=emission.airtime_us,
        end_us=emission.end_us,
        power_dbm=emission.power_dbm,
        origin="device" if is_uplink else "station",
    )
