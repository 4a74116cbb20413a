"""Does a station know the time: of its radio, of its host, and where it has satellites, of the day?

Source: Basics Station, the layout of `xtime`, `getxtime`, `timesync`, `dntxed` and `gpstime`; two
crystals differ by 50 millionths at most.
"""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.verdict.owner import Found, Scrutiny
from bench.verdict.wire import Uplink

# | 0 | unit 7 | session 8 | microseconds 48 |
_END = 1 << 48
_PER_MILLION = 100
APART_US = {"simulated": 1_000, "emulated": 50_000}
"""How far the clocks of a station and of the air may seem apart on rigs that know the air's."""
_TOLD_APART_US = 50_000
"""The same for what is told of now, and takes its time to a tap."""


@dataclass(slots=True)
class StationTime:
    """Remembers of each station which of its clocks showed what when.

    `alone`: no two stations have one EUI. `gps_began_us`: GPS time when the bench's clock was 0,
    None where nobody knows. `shows`: what clocks of stations with this EUI show in the end,
    and when.
    """

    rig: str = ""
    alone: bool = True
    gps_began_us: int | None = None
    shows: Mapping[str, Sequence[tuple[int, int]]] = field(default_factory=dict)
    broken: set[str] = field(default_factory=set)
    """Whose radio shows no clock any more."""
    _ended: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    """The first frame of each session of a radio: session byte, counter, and when it ended."""
    _shown: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _configured_us: dict[str, int] = field(default_factory=dict)
    _configured: Counter[str] = field(default_factory=Counter)
    _answers: list[tuple[str, int, int, Scrutiny]] = field(default_factory=list)
    """What stations have answered to `getxtime`, and when."""
    _hosts_us: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def _is_exact(self) -> bool:
        return self.rig == "simulated" and self.alone

    def connected(self, station: str) -> None:
        """It may have begun again, with a clock that starts anew under the same session byte."""
        self._ended.pop((station, self._configured[station]), None)
        self._shown.pop(station, None)
        self._hosts_us.pop(station, None)

    def configured(self, station: str, t_us: int) -> None:
        """It may begin a session of its radio."""
        self._configured_us[station] = t_us + _TOLD_APART_US
        self._configured[station] += 1
        self._shown.pop(station, None)

    def passed(self, uplink: Uplink, ended_us: int) -> tuple[int, int | None]:
        """Time since the first frame that its station told (µs), and what its clock has counted.

        None where the two are of different clocks, or of none; before 0 where what was held is
        told behind a later one.
        """
        return self._since_first(uplink.station, uplink.xtime, ended_us)

    def _since_first(self, station: str, xtime: int, at_us: int) -> tuple[int, int | None]:
        return _passed(xtime, at_us, self._ended.get(self._session(station, at_us)))

    def _session(self, station: str, at_us: int) -> tuple[str, int]:
        """Of which session of its radio something was then; the next one may have the same byte.

        What was held is told in the next one.
        """
        is_held = at_us <= self._configured_us.get(station, 0)
        return station, self._configured[station] - is_held

    def apart_us(self, passed_us: int) -> int:
        """How far the clocks of a station and of the air may be apart after that time."""
        return APART_US.get(self.rig, 0) + abs(passed_us) * _PER_MILLION // 1_000_000

    def heard(self, uplink: Uplink, ended_us: int, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in when a station says that a frame ended."""
        if uplink.gpstime and self._is_exact and self.gps_began_us is not None:
            apart_us = uplink.gpstime - self.gps_began_us - ended_us
            if abs(apart_us) > self.apart_us(0):
                yield check.wrong("gpstime", "when it has ended", f"{apart_us} us after that")
        if not uplink.xtime:  # a station without a clock
            if self.rig == "simulated" and self._has_shown(uplink.station, ended_us):
                yield check.wrong("xtime", "what its clock counts", 0)
            return
        passed_us, counted_us = self.passed(uplink, ended_us)
        clock, counter_us = divmod(uplink.xtime, _END)
        session = self._session(uplink.station, ended_us)
        first = self._ended.setdefault(session, (clock, counter_us, ended_us))
        if counted_us is not None and abs(counted_us - passed_us) > self.apart_us(passed_us):
            yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")
        if not self._is_exact:
            return
        since_us = self._configured_us.get(uplink.station, 0)
        if first[0] != clock and min(ended_us, first[2]) > since_us:
            yield check.wrong("session of xtime", first[0] % 256, clock % 256)
        if ended_us > since_us:
            yield from self._as_shown(uplink, ended_us, check)

    def _has_shown(self, station: str, before_us: int) -> bool:
        shown = self._shown.get(station)
        return shown is not None and shown[2] < before_us and station not in self.broken

    def said(self, uplink: Uplink, check: Scrutiny) -> Iterator[Found]:
        """The same of a frame that no radio has sent: it is told as soon as it was heard."""
        told_us = uplink.t_us - uplink.held_us
        since_us = self._configured_us.get(uplink.station, 0)
        if self._is_exact and uplink.xtime and told_us - _TOLD_APART_US > since_us:
            yield from self._as_shown(uplink, told_us, check)

    def _as_shown(self, uplink: Uplink, at_us: int, check: Scrutiny) -> Iterator[Found]:
        shown = self._shown.get(uplink.station)
        passed_us, counted_us = _passed(uplink.xtime, at_us, shown)
        if shown is not None and counted_us is None:
            clock = uplink.xtime // _END
            yield check.wrong("session of xtime", f"{shown[0] % 256}, as it showed", clock % 256)
        elif counted_us is not None and self._is_odd(counted_us, passed_us):
            yield check.wrong("xtime", f"{passed_us} us after what it showed", f"{counted_us} us")

    def sent(self, station: str, xtime: int, began_us: int, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in when a station says that a downlink began."""
        passed_us, counted_us = self._since_first(station, xtime, began_us)
        if self._is_exact and counted_us is not None:
            if abs(counted_us - passed_us) > self.apart_us(passed_us):
                yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")

    def told(
        self, station: str, fields: Mapping[str, Any], t_us: int, check: Scrutiny
    ) -> Iterator[Found]:
        """What is wrong in the clocks that a station shows in a text that is no reception."""
        if self.rig != "simulated":
            return
        match fields:
            case {"msgtype": "getxtime", "xtimes": [int(xtime), *_]} if xtime > 0:
                self._answers.append((station, xtime, t_us, check))
                self._shown[station] = (*divmod(xtime, _END), t_us)
        if not self.alone:
            return
        host_us = _of_host(fields)
        if host_us is not None:
            first_us, at_us = self._hosts_us.setdefault(station, (host_us, t_us))
            if self._is_odd(host_us - first_us, t_us - at_us):
                yield check.wrong("clock of its host", first_us + t_us - at_us, host_us)

    def misshown(self) -> Iterator[Found]:
        """What stations have answered whose radio began once, and what its clock does not show."""
        for station, xtime, t_us, check in self._answers:
            clocks = self.shows.get(station, ())
            due = [shows - at_us + t_us for shows, at_us in clocks]
            is_one = any(not self._is_odd(shows - xtime, at_us - t_us) for shows, at_us in clocks)
            is_known = self._configured[station] == len(clocks) and all(one for one, _ in clocks)
            if is_known and clocks and not is_one:
                yield check.wrong(
                    "xtimes", f"{' or '.join(map(str, due))}, as its clock shows", xtime
                )

    def _is_odd(self, counted_us: int, passed_us: int) -> bool:
        return abs(counted_us - passed_us) > _TOLD_APART_US + self.apart_us(passed_us)


def _passed(xtime: int, at_us: int, known: tuple[int, int, int] | None) -> tuple[int, int | None]:
    """Time since a clock was known (µs), and what it has counted; None: it is another, or none."""
    clock, counter_us = divmod(xtime, _END)
    if known is None or not xtime or known[0] != clock:
        return 0, None
    return at_us - known[2], (counter_us - known[1] + _END // 2) % _END - _END // 2


def _of_host(fields: Mapping[str, Any]) -> int | None:
    """What the clock of its host shows in a text of a station, in µs."""
    match fields:
        case {"msgtype": "getxtime", "ustime": int(now_us)}:
            return now_us
        case {"msgtype": "timesync", "txtime": int(now_us)}:
            return now_us
        case {"msgtype": "dntxed", "txtime": int() | float() as now_s}:
            return round(now_s * 1_000_000)
    return None
