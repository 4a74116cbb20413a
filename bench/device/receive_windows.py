"""When and where does a class A device listen after a transmission?"""

from dataclasses import dataclass

from bench.radio.medium import Transmission
from lns.lorawan.region import Region

RX2_AFTER_RX1_US = 1_000_000
TOLERANCE_US = 20_000
"""How far from the opening of its window a downlink may start: a few symbols."""


@dataclass(frozen=True, slots=True)
class ReceiveWindow:
    """One window: `slot` 1, 2 or C, when it opens, and what it can demodulate."""

    slot: str
    opens_us: int
    dr: int
    freq_hz: int

    @property
    def closes_us(self) -> int:
        """When it closes if no frame has begun."""
        return self.opens_us + TOLERANCE_US + 1

    def catches(self, transmission: Transmission) -> bool:
        """Whether a frame begins in this window, on its frequency and with its data rate."""
        return (
            transmission.freq_hz == self.freq_hz
            and transmission.dr == self.dr
            and abs(transmission.start_us - self.opens_us) <= TOLERANCE_US
        )


@dataclass(frozen=True, slots=True)
class ReceiveWindows:
    """RX1 and RX2 after one transmission."""

    rx1: ReceiveWindow
    rx2: ReceiveWindow

    def catching(self, transmission: Transmission) -> ReceiveWindow | None:
        """The window in which a frame begins, if any."""
        return next((rx for rx in (self.rx1, self.rx2) if rx.catches(transmission)), None)


def windows_after(
    uplink: Transmission, region: Region, *, delay_us: int, rx1_dr_offset: int, rx2_dr: int
) -> ReceiveWindows:
    """The windows after an uplink; `delay_us` from its end to RX1, RX2 one second later."""
    rx1_dr, rx1_freq_hz = region.rx1(uplink.dr, uplink.freq_hz, rx1_dr_offset)
    rx1_us = uplink.end_us + delay_us
    return ReceiveWindows(
        ReceiveWindow("1", rx1_us, rx1_dr, rx1_freq_hz),
        ReceiveWindow("2", rx1_us + RX2_AFTER_RX1_US, rx2_dr, region.rx2_freq_hz),
    )
