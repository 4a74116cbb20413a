"""How does the radio chip of a board send, and listen in windows, between other radios?"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

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
class Tuned:
    """One receive window: `slot` as the console calls it, when it opens, and what it hears."""

    slot: str
    opens_us: int
    modulation: Modulation

    def catches(self, emission: Emission) -> bool:
        """Whether a frame begins in it, on its frequency, with its modulation."""
        return (
            emission.modulation == self.modulation
            and abs(emission.start_us - self.opens_us) <= CHIP_TOLERANCE_US
        )


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    content: T
    slot: str
    caught: Caught


class Radio:
    """One board's radio; remembers what it sends and in which windows it listens.

    `unasked` is told every frame that no window takes; `begins` of every one that begins.
    """

    def __init__(self, line: AirLine) -> None:
        self._line = line
        self._sending: Emission | None = None
        self._windows: tuple[Tuned, ...] = ()
        self._locked: dict[str, Tuned] = {}
        self._deaf_until_us = 0
        self.gave_up = False
        self._judge: Callable[[Caught, Tuned], bool] = lambda caught, window: False
        self._woken = asyncio.Event()
        self.unasked: Callable[[Caught], None] = lambda caught: None
        line.begins, line.caught = self._begins, self._caught

    def transmit(
        self, phy: bytes, modulation: Modulation, *, power_dbm: int, coding_rate: int = 1
    ) -> Emission:
        """Send a frame with a CRC, as uplinks have it."""
        self._sending = self._line.transmit(
            phy, modulation, power_dbm=power_dbm, crc=True, coding_rate=coding_rate
        )
        return self._sending

    async def listen(
        self,
        windows: tuple[Tuned, ...],
        believe: Callable[[Caught], T | None],
        *,
        gives_up: bool = False,
    ) -> Answer[T] | None:
        """The first answer in these windows; None when all are over.

        `gives_up`: they are over, too, after any frame that is no answer; see `gave_up`.
        """
        answers: list[Answer[T]] = []
        self.gave_up = False

        def judge(caught: Caught, window: Tuned) -> bool:
            content = believe(caught)
            if content is not None:
                answers.append(Answer(content, window.slot, caught))
            self.gave_up = content is None and gives_up
            return content is not None or self.gave_up

        self._windows, self._judge, self._deaf_until_us = windows, judge, 0
        self._locked.clear()
        try:
            over_us = max(w.opens_us for w in windows) + CHIP_TOLERANCE_US + TOLD_WITHIN_US
            while not answers and not self.gave_up:
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
        return answers[0] if answers else None

    def off(self) -> None:
        """Lose the power, or be reset: what is being sent breaks off."""
        if self._sending is not None and self._sending.end_us > now_us():
            self._line.stop(self._sending)
        self._sending, self._windows = None, ()
        self._locked.clear()
        self.unasked = lambda caught: None

    def _begins(self, emission: Emission) -> None:
        # A window does not open while another frame is being received.
        window = next((w for w in self._windows if w.catches(emission)), None)
        if window is not None and emission.start_us >= self._deaf_until_us:
            self._deaf_until_us = emission.end_us
            self._locked[emission.key] = window
            self._woken.set()

    def _caught(self, caught: Caught) -> None:
        window = self._locked.pop(caught.emission.key, None)
        if window is None:
            self.unasked(caught)
        elif not caught.error and self._judge(caught, window):
            self._windows = ()
            self._locked.clear()
            self._woken.set()


async def sleep_until(when_us: int) -> None:
    await asyncio.sleep(max(when_us - now_us(), 0) / 1_000_000)


class ChipRadio:
    """The radio of one board for its MAC; remembers what it sends and hears: plan, sync word."""

    def __init__(self, chip: Radio) -> None:
        self.unasked: Callable[[Heard, int, int], None] = lambda heard, dr, freq_hz: None
        self._plan = EU868
        self._sync_word = PUBLIC
        self._chip = chip

    def tune(self, plan: ChannelPlan, *, public: bool) -> None:
        self._plan, self._sync_word = plan, PUBLIC if public else PRIVATE

    def hear_always(self) -> None:
        self._chip.unasked = self._hear

    def send(
        self, phy: bytes, *, dr: int, freq_hz: int, power_dbm: int, facts: dict[str, object]
    ) -> Transmission:
        modulation = self._modulation(dr, freq_hz, inverted=False)
        emission = self._chip.transmit(phy, modulation, power_dbm=power_dbm)
        return _transmission(emission, dr, is_uplink=True)

    async def listen(
        self,
        windows: tuple[Window, Window],
        believe: Callable[[Heard], T | None],
        *,
        gives_up_rx2: bool,
    ) -> Listened[T]:
        tuned = tuple(
            Tuned(one.slot, one.opens_us, self._modulation(one.dr, one.freq_hz, inverted=True))
            for one in windows
        )
        found = await self._chip.listen(
            tuned, lambda caught: believe(self._heard(caught)), gives_up=gives_up_rx2
        )
        if found is None:
            return Listened(gave_up=self._chip.gave_up)
        return Listened(Received(found.content, found.slot, self._heard(found.caught)))

    async def sleep_until(self, when_us: int) -> None:
        await sleep_until(when_us)

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
