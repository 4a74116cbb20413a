"""What does a station do with a frame before it tells the server?

It polls its concentrator every 20 ms, keeps the better of two equal frames that wait (a mirror on
another channel; a repetition while the link is down), and queues 64 frames or 10 kB for a link
that is down; what comes on top is lost. Source: Basics Station, s2e.c, s2conf.h.
"""

from collections import deque
from dataclasses import dataclass

POLL_US = 20_000
FRAMES_MAX = 64
BYTES_MAX = 10 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class RadioFrame:
    """A frame as the concentrator gave it; `transmission` names it on the simulated air."""

    phy: bytes
    dr: int
    freq_hz: int
    rssi_dbm: int
    snr_db: float
    rctx: int
    xtime: int
    transmission: int | None = None

    @property
    def quality(self) -> float:
        """What Basics Station compares: 8 SNR - RSSI, in units of a quarter dB and of -1 dBm."""
        return 8 * 4 * self.snr_db + self.rssi_dbm


class ReceiveQueue:
    """The frames that were heard and not yet told; remembers them until `take_all`."""

    def __init__(self) -> None:
        self._frames: deque[RadioFrame] = deque()
        self._bytes = 0

    def add(self, frame: RadioFrame) -> bool:
        """Queue a frame, or keep only the better of it and its equal; False if it is lost."""
        for at, queued in enumerate(self._frames):
            if queued.phy == frame.phy and queued.dr == frame.dr:
                self._keep_better(at, frame)
                return True
        if len(self._frames) >= FRAMES_MAX or self._bytes + len(frame.phy) > BYTES_MAX:
            return False
        self._frames.append(frame)
        self._bytes += len(frame.phy)
        return True

    def take_all(self) -> list[RadioFrame]:
        """All frames in order, the queue being empty then."""
        frames = list(self._frames)
        self._frames.clear()
        self._bytes = 0
        return frames

    def _keep_better(self, at: int, frame: RadioFrame) -> None:
        if frame.quality > self._frames[at].quality:
            del self._frames[at]
            self._frames.append(frame)


def as_stored(rssi_dbm: int, snr_db: float) -> tuple[int, float]:
    """Strength as the station keeps it: -RSSI in an octet without sign, SNR in quarters of a dB.

    What does not fit begins again at the other end: +5 dBm reads -251.
    """
    quarters = int(snr_db * 4)
    return -(-rssi_dbm % 256), ((quarters + 128) % 256 - 128) / 4


def next_poll_us(now_us: int, phase_us: int) -> int:
    """The next poll at or after `now_us`, on a grid of 20 ms shifted by `phase_us`."""
    return now_us + (phase_us - now_us) % POLL_US
