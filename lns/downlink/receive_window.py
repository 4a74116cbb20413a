"""Which receive window of a class A device can still be met?

LoRaWAN 1.0.x, class A: RX1 opens RECEIVE_DELAY1 after the end of the uplink, RX2 one second
later (for joins JOIN_ACCEPT_DELAY1 and 2). The end of the uplink is the station's `xtime`.
"""

from contextlib import suppress
from enum import StrEnum

from msgspec import Struct

from lns.lorawan.region import Region

RX2_AFTER_RX1_US = 1_000_000
# Time to package a downlink and bring it to the station, as in the starter kit of ADR 007. The
# station itself wants it 20 ms before the window and moves from RX1 to RX2 on its own.
PACKAGE_AND_SEND_US = 400_000


class Answer(StrEnum):
    """What became of the downlink that a reception asked for."""

    RX1 = "RX1"
    RX2 = "RX2"
    TOO_LATE = "TooLate"
    SUPPRESSED = "Suppressed"
    NOT_ASKED = "NotAsked"


RX1, RX2, TOO_LATE, SUPPRESSED, NO_ANSWER = Answer
SENT = (RX1, RX2)


class Window(Struct, frozen=True):
    """The first window that can be met, and how long before it opens the choice was made (µs)."""

    answer: Answer
    margin_us: int


def first_window(
    now_us: int, heard_us: int, rx1_delay_us: int, *, lead_us: int = PACKAGE_AND_SEND_US
) -> Window | None:
    """The first window that opens at least `lead_us` from now; None when both are gone.

    `heard_us` is the end of the uplink on the clock of `now_us`.
    """
    rx1_us = heard_us + rx1_delay_us - now_us
    if rx1_us >= lead_us:
        return Window(Answer.RX1, rx1_us)
    rx2_us = rx1_us + RX2_AFTER_RX1_US
    if rx2_us >= lead_us:
        return Window(Answer.RX2, rx2_us)
    return None


Parameters = tuple[int, int]
"""Data rate and frequency (Hz) of a receive window."""


class Offer(Struct, frozen=True):
    """The windows that a downlink can use; None for one that is gone or has no room for it."""

    rx1: Parameters | None
    rx2: Parameters | None

    @property
    def is_empty(self) -> bool:
        """Whether the downlink cannot be sent at all."""
        return self.rx1 is None and self.rx2 is None


def offer(
    region: Region,
    dr: int,
    freq_hz: int,
    first: Answer,
    payload_bytes: int,
    *,
    rx1_dr_offset: int = 0,
    rx2_dr: int | None = None,
) -> Offer:
    """The windows of an uplink with `dr` on `freq_hz` for a downlink of this size.

    `first` is the first window that can be met; FOpts count as payload. An uplink that this
    region does not have has no RX1. A join accept may have named `rx1_dr_offset` and `rx2_dr`.
    """
    rx1 = None
    if first is Answer.RX1:
        with suppress(ValueError):
            rx1 = region.rx1(dr, freq_hz, rx1_dr_offset)
    rx2 = region.rx2(rx2_dr)
    return Offer(
        rx1 if rx1 and payload_bytes <= region.max_payload(rx1[0]) else None,
        rx2 if payload_bytes <= region.max_payload(rx2[0]) else None,
    )
