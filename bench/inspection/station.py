"""Is a station told what it needs, does it send what it was handed, and does it know the time?

Of its radio, of its host, and where it has satellites, of the day. It takes the first window that
it can meet, for which it needs the downlink 20 ms before (TX_AIM_GAP); what is for class C goes at
once. Where another downlink has the antenna, or its band is used up, it takes the next window, or
none. Source: Basics Station, `router_config`, `sx1301_conf`, s2e.c, MuxTime, the layout of `xtime`,
`getxtime`, `timesync`, `dntxed` and `gpstime`; Regional Parameters RP002-1.0.3. Two crystals differ
by 50 millionths at most.
"""

from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import RX2_AFTER_RX1_US
from bench.verdict.expectation import Evidence
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import Uplink, eui_of, gps_us
from bench.virtual.lorawan.channel_plan import ChannelPlan, Fsk, Lora, time_on_air_us

# | 0 | unit 7 | session 8 | microseconds 48 |
_END = 1 << 48
_PER_MILLION = 100
APART_US = {"simulated": 1_000, "emulated": 50_000}
"""How far the clocks of a station and of the air may seem apart on rigs that know the air's."""
_TOLD_APART_US = 50_000
"""The same for what is told of now, and takes its time to a tap."""
_SHOWN_APART_US = 20_000
"""The same of a frame, of whose end the air knows, and an answer to `getxtime`."""


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
    _latest: dict[tuple[str, int], tuple[int, int, int]] = field(default_factory=dict)
    """The same of the last one."""
    _shown: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _configured_us: dict[str, int] = field(default_factory=dict)
    _configured: Counter[str] = field(default_factory=Counter)
    _told: list[tuple[str, int, int, int, Scrutiny]] = field(default_factory=list)
    """What stations have told of their clocks, of when, and how exactly they know that (µs)."""
    _hosts_us: dict[str, tuple[int, int]] = field(default_factory=dict)

    @property
    def _is_exact(self) -> bool:
        return self.rig == "simulated" and self.alone

    def connected(self, station: str) -> None:
        """It may have begun again, with a clock that starts anew under the same session byte."""
        self._ended.pop((station, self._configured[station]), None)
        self._latest.pop((station, self._configured[station]), None)
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

    def shown_us(self, uplink: Uplink, *or_us: int) -> int | None:
        """When its clock showed what a station tells, by its last frame; None: nobody knows.

        It was at one of these moments, if clocks are as far apart as that at most. Before its first
        frame what it showed when it was asked says which of them it was.
        """
        latest = self._latest.get(self._session(uplink.station, uplink.t_us))
        reading = latest or self._shown.get(uplink.station)
        _, counted_us = _passed(uplink.xtime, uplink.t_us, reading)
        if reading is None or counted_us is None:
            return None
        shown_us = reading[2] + counted_us
        nearest_us = min(or_us, key=lambda at_us: abs(at_us - shown_us))
        within_us = self.apart_us(counted_us) if latest else _SHOWN_APART_US
        if abs(nearest_us - shown_us) <= within_us:
            return nearest_us
        return shown_us if latest else None

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
        yield from self.gps(uplink.gpstime, ended_us, "ended", check)
        if not uplink.xtime:  # a station without a clock
            if self.rig == "simulated" and self._has_shown(uplink.station, ended_us):
                yield check.wrong("xtime", "what its clock counts", 0)
            return
        passed_us, counted_us = self.passed(uplink, ended_us)
        clock, counter_us = divmod(uplink.xtime, _END)
        session = self._session(uplink.station, ended_us)
        self._latest[session] = clock, counter_us, ended_us
        if session not in self._ended:
            self._told.append((uplink.station, uplink.xtime, ended_us, 0, check))
        first = self._ended.setdefault(session, (clock, counter_us, ended_us))
        if counted_us is not None and abs(counted_us - passed_us) > self.apart_us(passed_us):
            yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")
        if not self._is_exact:
            return
        since_us = self._configured_us.get(uplink.station, 0)
        if first[0] != clock and min(ended_us, first[2]) > since_us:
            yield check.wrong("session of xtime", first[0] % 256, clock % 256)
        if ended_us > since_us:
            yield from self._as_shown(uplink, ended_us, _SHOWN_APART_US, check)

    def _has_shown(self, station: str, before_us: int) -> bool:
        shown = self._shown.get(station)
        return shown is not None and shown[2] < before_us and station not in self.broken

    def said(self, uplink: Uplink, check: Scrutiny) -> Iterator[Found]:
        """The same of a frame that no radio has sent: it is told as soon as it was heard."""
        told_us = uplink.t_us - uplink.held_us
        since_us = self._configured_us.get(uplink.station, 0)
        if self._is_exact and uplink.xtime and told_us - _TOLD_APART_US > since_us:
            yield from self._as_shown(uplink, told_us, _TOLD_APART_US, check)

    def _as_shown(
        self, uplink: Uplink, at_us: int, within_us: int, check: Scrutiny
    ) -> Iterator[Found]:
        shown = self._shown.get(uplink.station)
        passed_us, counted_us = _passed(uplink.xtime, at_us, shown)
        if shown is not None and counted_us is None:
            clock = uplink.xtime // _END
            yield check.wrong("session of xtime", f"{shown[0] % 256}, as it showed", clock % 256)
        elif counted_us is not None and self._is_odd(counted_us, passed_us, within_us):
            yield check.wrong("xtime", f"{passed_us} us after what it showed", f"{counted_us} us")

    def sent(self, station: str, xtime: int, began_us: int, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in when a station says that a downlink began."""
        passed_us, counted_us = self._since_first(station, xtime, began_us)
        if self._is_exact and counted_us is not None:
            if abs(counted_us - passed_us) > self.apart_us(passed_us):
                yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")

    def gps(self, told_us: object, at_us: int, word: str, check: Scrutiny) -> Iterator[Found]:
        """What is wrong in the GPS time of a moment; 0 where a station does not know it."""
        if type(told_us) is int and told_us and self._is_exact and self.gps_began_us is not None:
            apart_us = told_us - self.gps_began_us - at_us
            if abs(apart_us) > self.apart_us(0):
                yield check.wrong("gpstime", f"when it has {word}", f"{apart_us} us after that")

    def told(
        self, station: str, fields: Mapping[str, Any], t_us: int, check: Scrutiny
    ) -> Iterator[Found]:
        """What is wrong in the clocks that a station shows in a text that is no reception."""
        if self.rig != "simulated":
            return
        match fields:
            case {"msgtype": "getxtime", "xtimes": [int(xtime), *_]} if xtime > 0:
                self._told.append((station, xtime, t_us, _TOLD_APART_US, check))
                self._shown[station] = (*divmod(xtime, _END), t_us)
        if not self.alone:
            return
        host_us = _of_host(fields)
        if host_us is not None:
            first_us, at_us = self._hosts_us.setdefault(station, (host_us, t_us))
            if self._is_odd(host_us - first_us, t_us - at_us):
                yield check.wrong("clock of its host", first_us + t_us - at_us, host_us)

    def misshown(self) -> Iterator[Found]:
        """What stations have told whose radio began once, and what its clock does not show."""
        for station, xtime, t_us, within_us, check in self._told:
            clocks = self.shows.get(station, ())
            due = [shows - at_us + t_us for shows, at_us in clocks]
            is_one = any(
                not self._is_odd(shows - xtime, at_us - t_us, within_us) for shows, at_us in clocks
            )
            is_known = self._configured[station] == len(clocks) and all(one for one, _ in clocks)
            if is_known and clocks and not is_one:
                name, showing = "xtimes" if within_us else "xtime", " or ".join(map(str, due))
                yield check.wrong(name, f"{showing}, as its clock shows", xtime)

    def _is_odd(self, counted_us: int, passed_us: int, within_us: int = _TOLD_APART_US) -> bool:
        return abs(counted_us - passed_us) > within_us + self.apart_us(passed_us)


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


HWSPEC = "sx1301/1"
_DRS = 16
_REACH_HZ = 500_000
"""How far from the centre of its radio a channel may be."""
_KNOWN = frozenset(
    "msgtype NetID JoinEui JoinEUI region hwspec freq_range DRs sx1301_conf nocca nodc nodwell"
    " MuxTime bcning max_eirp protocol config regionid sx1302_conf".split()
)


def router_config(
    told: dict[str, Any], plan: ChannelPlan, net_id: str, check: Scrutiny
) -> Iterator[Found]:
    """What is wrong in the plan that a station is given."""
    yield from misspelt(told, check)
    if told.get("region") not in plan.station_names:
        yield check.wrong("region", plan.name, told.get("region"))
    yield from check.same("hwspec", HWSPEC, told.get("hwspec"))
    yield from check.same("freq_range", list(plan.limits_hz), told.get("freq_range"))
    yield from check.same("DRs", _data_rates(plan), told.get("DRs"))
    if told.get("NetID") is not None and int(net_id, 16) not in _list(told["NetID"]):
        yield check.wrong("NetID", f"none, or one with {net_id}", told["NetID"])
    for name in ("JoinEui", "JoinEUI"):
        if told.get(name):
            yield check.wrong(name, None, told[name])
    yield from _radios(told.get("sx1301_conf"), plan, check)


def misspelt(told: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
    """The keys of a message that differ in case from those that a station knows."""
    for name in sorted(told.keys() - _KNOWN):
        due = next((known for known in _KNOWN if known.lower() == name.lower()), None)
        if due is not None:
            yield check.wrong("key", due, name)


def _list(told: object) -> list[object]:
    return told if isinstance(told, list) else []


def _data_rates(plan: ChannelPlan) -> list[list[int]]:
    """[SF, kHz, only for downlinks] for each DR; SF 0 is FSK, -1 none."""
    rows: list[list[int]] = []
    for dr, modulated in enumerate(plan.data_rates):
        match modulated:
            case Lora(sf, bw_hz):
                rows.append([sf, bw_hz // 1000, int(dr not in plan.up_drs)])
            case Fsk():
                rows.append([0, 0, 0])
            case _:
                rows.append([-1, 0, 0])
    return rows + [[-1, 0, 0]] * (_DRS - len(rows))


def _radios(told: object, plan: ChannelPlan, check: Scrutiny) -> Iterator[Found]:
    rows = _list(told)
    if len(rows) != 1 or not isinstance(rows[0], dict):
        yield check.wrong("sx1301_conf", "one board", told)
        return
    conf = rows[0]
    try:
        found_hz = [_frequency(conf, f"chan_multiSF_{n}") for n in range(8)]
        heard_hz = sorted(freq_hz for freq_hz in found_hz if freq_hz is not None)
        single, fsk = _frequency(conf, "chan_Lora_std"), _frequency(conf, "chan_FSK")
    except (KeyError, TypeError):
        yield check.wrong("sx1301_conf", "radios and channels with their frequencies", conf)
        return
    yield from check.same("chan_multiSF", sorted(plan.heard_hz), heard_hz)
    single_hz, modulated = plan.heard_single
    yield from check.same("chan_Lora_std", single_hz, single)
    yield from check.same("chan_FSK", plan.heard_fsk_hz, fsk)
    standard = conf.get("chan_Lora_std", {})
    for name, value in {"bandwidth": modulated.bw_hz, "spread_factor": modulated.sf}.items():
        yield from check.same(f"{name} of chan_Lora_std", value, standard.get(name))
    for name in sorted(conf):
        channel = conf[name]
        if name.startswith("chan_") and channel.get("enable"):
            if abs(channel["if"]) > _REACH_HZ:
                yield check.wrong(f"if of {name}", "within reach of its radio", channel["if"])


def _frequency(conf: dict[str, Any], name: str) -> int | None:
    """The centre of a channel in hertz; None if it is off."""
    channel = conf.get(name)
    if not channel or not channel["enable"]:
        return None
    radio = conf[f"radio_{channel['radio']}"]
    return int(radio["freq"] + channel["if"]) if radio["enable"] else None


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
REPORTED_WITHIN_US = 1_000_000
"""How long after its begin a station has told of a downlink at most. It looks after 5 ms (Basics
Station, s2e.c: TXCHECK_FUDGE), the rest is the way to the tap."""


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


@dataclass(frozen=True, slots=True)
class _Handed:
    dev_eui: str
    rx1: Channel | None
    over_us: int
    is_right: bool


@dataclass(slots=True)
class Reports:
    """What stations report (`dntxed`) of the downlinks they were handed; keyed by station, diid."""

    _handed: dict[tuple[str, int], _Handed] = field(default_factory=dict)
    _reported: dict[tuple[str, int], Channel] = field(default_factory=dict)

    def __contains__(self, key: tuple[str, int]) -> bool:
        return key in self._handed

    def hand_over(
        self, station: str, diid: int, told: Mapping[str, Any], over_us: int, *, is_right: bool
    ) -> None:
        """A station was handed a downlink, which it has sent by then or never."""
        dev_eui = eui_of(told.get("DevEui", told.get("DevEUI"))) or ""
        rx1 = (told["RX1DR"], told["RX1Freq"]) if "RX1DR" in told else None
        self._handed[station, diid] = _Handed(dev_eui, rx1, over_us, is_right)

    def report(self, station: str, diid: int, told: Mapping[str, Any]) -> None:
        """A station says that it has sent one."""
        self._reported[station, diid] = told.get("DR", -1), told.get("Freq", -1)

    @property
    def are_as_asked(self) -> bool:
        """Whether all were sent, and in the first window that they name."""
        return all(
            key in self._reported and one.rx1 in (None, self._reported[key])
            for key, one in self._handed.items()
        )

    def wrong(self, evidence: Evidence, end_us: int) -> Iterator[Found]:
        """What stations kept of a device that waits for it, or sent later than that waits."""
        unsaid = evidence.unsaid()
        for (station, diid), handed in self._handed.items():
            if not handed.is_right or handed.dev_eui not in unsaid:
                continue
            channel, in_rx1 = self._reported.get((station, diid)), unsaid[handed.dev_eui][0]
            what = f"downlink {diid} for {handed.dev_eui}"
            is_over = handed.over_us + REPORTED_WITHIN_US < end_us
            if channel is None and is_over and station not in evidence.links_lost_us:
                text, due, observed = f"never reported {what} on the air", "dntxed", "none"
            elif (
                channel is not None
                and handed.rx1 not in (None, channel)
                and in_rx1.replace("RX_1", "RX_2", 1) in evidence.lines[handed.dev_eui]
            ):
                text, due, observed = f"sent {what} in RX2, not in RX1", "RX1", "RX2"
            else:
                continue
            yield Found(
                owner=Owner.GATEWAY, rule="downlink on the air", t_us=0, station=station,
                text=f"{evidence.name(station)} {text}", expected=due, observed=observed,
            )  # fmt: skip


def as_handed(
    told: Mapping[str, Any], fields: Mapping[str, Any], check: Scrutiny
) -> Iterator[Found]:
    """What a report repeats of the downlink that it is about."""
    due, seen = (eui_of(one.get("DevEui", one.get("DevEUI"))) for one in (told, fields))
    yield from check.same("DevEui", due, seen)
    yield from check.same("rctx", told.get("rctx", 0), fields.get("rctx", 0))
