"""Does a network server tell a station the time that its clock shows?"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import gps_us

_LATE_US, _EARLY_US = 10_000_000, 200_000
"""A server tells the time before it passes the tap, and may be late; it cannot be early."""
_SIMULATED_LATE_US = 10_000
"""On the simulated rig it tells the time at the moment at which that passes the tap."""
_APART_S = 0.000_01


@dataclass(frozen=True, slots=True)
class ServerTime:
    """What the clocks of servers showed when the bench's was 0, where that is known."""

    began: datetime | None = None
    is_simulated: bool = False

    @property
    def _late_us(self) -> int:
        return _SIMULATED_LATE_US if self.is_simulated else _LATE_US

    def mux_time(self, told: dict[str, Any], t_us: int, check: Scrutiny) -> Iterator[Found]:
        """MuxTime, which every message of a server may have."""
        if self.began is None:
            return
        now_s, said = self.began.timestamp() + t_us / 1_000_000, told.get("MuxTime")
        late_s = now_s - said if isinstance(said, int | float) else None
        if late_s is None or not -_EARLY_US <= late_s * 1_000_000 <= self._late_us:
            yield check.wrong("MuxTime", f"about {now_s:.1f}", said)

    def gps_time(self, told: dict[str, Any], t_us: int, check: Scrutiny) -> Iterator[Found]:
        """The GPS time of an answer to `timesync`: that of now, and of its own MuxTime."""
        if self.began is None:
            return
        said_us, mux_s, began_us = told.get("gpstime", 0), told.get("MuxTime"), gps_us(self.began)
        if not -self._late_us <= said_us - began_us - t_us <= _EARLY_US:
            yield check.wrong("gpstime", f"about {began_us + t_us}", told.get("gpstime"))
        if isinstance(mux_s, int | float):  # both are of one moment
            due_s = began_us / 1_000_000 + mux_s - self.began.timestamp()
            if abs(said_us / 1_000_000 - due_s) > _APART_S:
                yield check.wrong("gpstime", f"that of MuxTime {mux_s}", told.get("gpstime"))
