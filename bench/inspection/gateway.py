"""Does a station tell of a frame what was on the air: on which channel, how fast, and when?

A network server answers where and when a station says that it heard a device: whoever says that
wrongly makes the device deaf, and is no network server. Source: Basics Station, `updf`, `jreq` and
the layout of `xtime`; two crystals differ by 50 millionths at most.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from bench.capture.reading import Event
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import Uplink

# | 0 | unit 7 | session 8 | microseconds 48 |
_END = 1 << 48
_PER_MILLION = 100
_APART_US = {"simulated": 1_000, "emulated": 50_000}
"""How far the clocks of a station and of the air may seem apart on rigs that know the air's."""


@dataclass(slots=True)
class Gateways:
    """Remembers of each station which of its clocks showed what when a frame ended."""

    rig: str = ""
    _ended: dict[str, tuple[int, int, int]] = field(default_factory=dict)

    def connected(self, station: str) -> None:
        """It may have begun again, with a clock that starts anew under the same session byte."""
        self._ended.pop(station, None)

    def heard(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        """What of a frame is otherwise than it was sent; `sent` is its `radio.transmit`."""
        if uplink.injected or "dr" not in sent or self.rig not in _APART_US:
            return  # in a lab a second radio may have sent it again
        for found in self._wrong(uplink, sent, check):
            yield replace(found, owner=Owner.GATEWAY)

    def _wrong(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        yield from check.same("DR", sent["dr"], uplink.dr)
        yield from check.same("Freq", sent["freq_hz"], uplink.freq_hz)
        if not uplink.xtime:  # a station without a clock
            return
        ended_us, (clock, counter_us) = (
            sent["t_us"] + sent["airtime_us"],
            divmod(uplink.xtime, _END),
        )
        known = self._ended.setdefault(uplink.station, (clock, counter_us, ended_us))
        if known[0] != clock:
            return
        passed_us = ended_us - known[2]  # before 0 where what was held is told behind a later one
        counted_us = (counter_us - known[1] + _END // 2) % _END - _END // 2
        apart_us = _APART_US[self.rig] + abs(passed_us) * _PER_MILLION // 1_000_000
        if abs(counted_us - passed_us) > apart_us:
            yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")
