"""Does a station send what it was handed: these octets, on their channel, when a window opens?

Source: Basics Station, s2e.c. It takes the first window that it can meet, for which it needs the
downlink 20 ms before (TX_AIM_GAP); what is for class C goes at once. Where another downlink has the
antenna, or its band is used up, it takes the next window, or none.
"""

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import RX2_AFTER_RX1_US
from bench.verdict.owner import Found, Scrutiny
from bench.virtual.lorawan.air_interface import ChannelPlan, time_on_air_us

Channel = tuple[int, int]
"""Data rate and frequency (Hz)."""
Windows = Mapping[Channel, Sequence[int]]
"""Where a downlink may be sent, and when windows open there (µs); no time: nobody knows when."""
AIM_GAP_US = 20_000
"""How long before a window a station needs its downlink."""
ON_TIME_US = 1_000
"""How far from the opening of its window a downlink may begin: every device hears it then."""
_ON_ITS_WAY_US = 5_000
"""How long a downlink is on its way from a tap to its station at most, in memory."""
_AGAIN_US = 1_100_000
"""How long a downlink of class C waits for an antenna at most: ten times 100 ms, and 100 ms."""
SERVES = "a station serves"


def serving(station: str, of: str, t_us: int) -> Scrutiny:
    """What is looked at of a station that serves."""
    return Scrutiny(rule=SERVES, of=of, t_us=t_us, station=station)


def windows_of(told: Mapping[str, Any], rx1_us: int | None) -> Windows:
    """The windows that a downlink names, whose RX1 opens then; None: nobody knows when."""
    windows: dict[Channel, tuple[int, ...]] = {}
    for n, after_us in {1: 0, 2: RX2_AFTER_RX1_US}.items():
        if f"RX{n}DR" in told:
            where = told[f"RX{n}DR"], told[f"RX{n}Freq"]
            opens_us = () if rx1_us is None else (rx1_us + after_us,)
            windows[where] = (*windows.get(where, ()), *opens_us)
    return windows


def over_us(handed_us: int, windows: Windows) -> int:
    """When a station that was handed a downlink then has sent it at the latest, or never."""
    opens_us = [at_us for times in windows.values() for at_us in times]
    return max(opens_us, default=handed_us + _AGAIN_US)


def late_us(sent: Event, windows: Windows) -> int | None:
    """How late a downlink is for the nearest of its windows; None where it can be in none."""
    opens_us = windows.get((sent["dr"], sent["freq_hz"]), ())
    return min((sent["t_us"] - at_us for at_us in opens_us), key=abs, default=None)


@dataclass(slots=True)
class _Order:
    """A downlink that a station was handed; `asked_us`: see `Gateways.handed_over`."""

    diid: int
    octets: int
    handed_us: int
    asked_us: int | None
    windows: Windows
    is_sent: bool = False

    def chances(self) -> list[tuple[int, Channel]]:
        """When and where it could be sent, in order of time."""
        met_us = self.handed_us + AIM_GAP_US
        found = [
            (at_us, channel)
            for channel, opens_us in self.windows.items()
            for at_us in opens_us or (met_us + _ON_ITS_WAY_US,)
            if at_us >= met_us + _ON_ITS_WAY_US
        ]
        return sorted(found)


@dataclass(slots=True)
class Orders:
    """Remembers of each station of a case what it was handed and what it has sent.

    `on_duty`: who keeps a duty cycle of its own; None where each of them may.
    """

    plan: ChannelPlan
    on_duty: Collection[str] | None = None
    _orders: dict[tuple[str, str], _Order] = field(default_factory=dict)
    _sent: defaultdict[str, list[Event]] = field(default_factory=lambda: defaultdict(list))
    _disturbed_us: defaultdict[str, list[int]] = field(default_factory=lambda: defaultdict(list))

    def hand_over(
        self, event: Event, told: Mapping[str, Any], windows: Windows, asked_us: int | None
    ) -> None:
        """A station was handed a downlink (`Gateways.handed_over`)."""
        phy = bytes.fromhex(told["pdu"])
        order = _Order(int(told["diid"]), len(phy), event["t_us"], asked_us, windows)
        self._orders[event["station"], phy.hex()] = order

    def disturb(self, station: str, t_us: int) -> None:
        """It may have begun again, and forgotten what it was handed."""
        self._disturbed_us[station].append(t_us)

    def is_disturbed(self, station: str, since_us: int, until_us: int) -> bool:
        """Whether it may have begun again in between."""
        return any(since_us <= at_us <= until_us for at_us in self._disturbed_us[station])

    def on_air(self, event: Event) -> Iterator[Found]:
        """A station sends what it was handed, and when and how that says."""
        station = event["sender"]
        check = serving(station, f"downlink of {station} on the air", event["t_us"])
        order = self._orders.get((station, event["phy"].lower()))
        if order is None:
            yield check.wrong("octets", "some that it was handed", event["phy"])
        else:
            order.is_sent = True
            yield from self._in_window(order, event, check)
        self._sent[station].append(event)

    def _in_window(self, order: _Order, event: Event, check: Scrutiny) -> Iterator[Found]:
        channel, windows = (event["dr"], event["freq_hz"]), order.windows
        if channel not in windows:
            due = " or ".join(f"DR{dr} on {hz}" for dr, hz in windows)
            yield check.wrong("data rate and frequency", due, f"DR{channel[0]} on {channel[1]}")
            return
        late, free = late_us(event, windows), self._free(order, event["sender"])
        if late is None and order.asked_us is not None and free and free[0] < event["t_us"]:
            yield check.wrong("time", "at once", f"{event['t_us'] - order.handed_us} us later")
        if late is None:
            return
        if abs(late) > ON_TIME_US:
            yield check.wrong("time", "when its window opens", f"{late} us after that")
            return
        if order.asked_us is not None and free and free[0] < event["t_us"] - ON_TIME_US:
            yield check.wrong("window", "RX1, which was ahead and free", "RX2")

    def unsent(self, end_us: int) -> Iterator[tuple[str, int, int]]:
        """What stations could have sent and have not: station, diid, and when (µs)."""
        for (station, _), order in self._orders.items():
            chances, since_us = order.chances(), order.asked_us
            if order.is_sent or since_us is None or not chances:
                continue
            last_us, free = chances[-1][0], self._free(order, station)
            is_disturbed = self.is_disturbed(station, since_us, last_us)
            if free and not is_disturbed and last_us + ON_TIME_US < end_us:
                yield station, order.diid, free[0]

    def _free(self, order: _Order, station: str) -> list[int]:
        """When it could have been sent, but for what has the antenna or has used up the band."""
        return [
            at_us
            for at_us, channel in order.chances()
            if not any(self._blocks(sent, at_us, channel, order) for sent in self._sent[station])
        ]

    def _blocks(self, sent: Event, at_us: int, channel: Channel, order: _Order) -> bool:
        (dr, freq_hz), end_us = channel, sent["t_us"] + sent["airtime_us"]
        modulated = self.plan.data_rates[dr]
        until_us = at_us + _AGAIN_US
        if modulated is not None and order.windows[channel]:
            until_us = at_us + time_on_air_us(modulated, order.octets, crc=False)
        is_on_duty = self.on_duty is None or sent["sender"] in self.on_duty
        band = self.plan.band(freq_hz) if is_on_duty else None
        if band is not None and sent["t_us"] < at_us and sent["freq_hz"] in band:
            end_us = sent["t_us"] + sent["airtime_us"] * 1000 // band.per_mille
        return bool(sent["t_us"] < until_us and at_us < end_us)
