"""Does a station tell of a frame what was on the air: where, how fast, how strong, and when?

And is it there, and answers? A network server answers where and when a station says that it heard a
device: whoever says that wrongly makes the device deaf, and is no network server. Source: Basics
Station, `updf`, `jreq`, `getxtime` and the layout of `xtime`; two crystals differ by 50 millionths
at most.
"""

from collections import Counter, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from bench.capture.reading import Event
from bench.inspection.station import (
    APART_US,
    REPORTED_WITHIN_US,
    SERVES,
    Orders,
    StationTime,
    Windows,
    as_handed,
    serving,
)
from bench.verdict.expectation import Evidence, Heard
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import Uplink, json_of, uplink_of
from bench.virtual.lorawan.channel_plan import Lora

TOLD_LATE_US = 500_000
"""How long after its end a frame is told so late that nobody can answer it."""
_ANSWERS_WITHIN_US = 1_000_000
_COMES_WITHIN_US = 17_000_000, 62_000_000
"""How long a station waits at most after it was lost, and after it found no server for long."""
_PROTOCOL = 2
"""That of Basics Station, by which a server talks to it (`version`)."""
_SEEN_US = 6_000
"""A station looks 5 ms after its beginning, and does not see what is over then."""
_TOLD_WITHIN_US = 100_000
_HEARD_BW_HZ = 125_000
_WAITS_US = 1_000_000, 2_000_000, 4_000_000, 8_000_000, 16_000_000
"""How long a station that was lost waits before it comes again. Who comes later had found nobody,
and had stopped its radio (Basics Station, sys_linux.c and tc.c)."""
_COMES_BACK_US = 10_000
"""What else passes until its version is told; of a later one it may have begun again."""
_POLL_US, _QUEUE_MAX, _QUEUE_OCTETS = 20_000, 64, 10_240
"""How often a station asks its radio, and how much it keeps of what that heard meanwhile."""
Signal = tuple[float, float]
Link = tuple[int, bool | None]
"""When a station had come (True), was lost (False), or was refused (None)."""


class AirFacts(Protocol):
    """What only the air itself knows of its transmissions; None where it does not."""

    def power_dbm(self, transmission: int, /) -> int | None:
        """EIRP that it was sent with."""

    def strength(self, transmission: int, receiver: str, antenna: int, /) -> Signal | None:
        """RSSI (dBm) and SNR (dB) of it at an antenna."""


class UnknownAir:
    """The air of a lab, which tells nobody how strong anything is."""

    def power_dbm(self, transmission: int) -> None:
        return None

    def strength(self, transmission: int, receiver: str, antenna: int) -> None:
        return None


UNKNOWN_AIR = UnknownAir()


@dataclass(slots=True)
class Gateways:
    """Remembers of each station what it was handed, and what its clocks showed.

    And on virtual time since when (µs) who was asked and has not answered, is away, or has sent
    something and told nobody.
    """

    orders: Orders
    time: StationTime = field(default_factory=StationTime)
    air: AirFacts = UNKNOWN_AIR
    _sent: dict[bytes, list[Event]] = field(default_factory=dict)
    _newest: dict[str, Event] = field(default_factory=dict)
    _on_air: set[bytes] = field(default_factory=set)
    _told_of: set[tuple[str, int]] = field(default_factory=set)
    _lost_by: set[tuple[str, int]] = field(default_factory=set)
    _asked_us: dict[str, int] = field(default_factory=dict)
    _asked: Counter[str] = field(default_factory=Counter)
    _mux_times: defaultdict[str, set[float]] = field(default_factory=lambda: defaultdict(set))
    """The MuxTime of each question for its clocks."""
    _unreported: dict[str, deque[Event]] = field(default_factory=lambda: defaultdict(deque))
    _orders_told: dict[tuple[str, int], Mapping[str, Any]] = field(default_factory=dict)
    """What each was handed, by its `diid`."""
    _reported: set[tuple[str, int]] = field(default_factory=set)
    _told: dict[str, set[tuple[bytes, int, int]]] = field(default_factory=dict)
    _configs_due: dict[str, int] = field(default_factory=dict)
    _latest: dict[tuple[str, int], tuple[int, int]] = field(default_factory=dict)
    """When the newest ended of what each has told and a tap has held as long, and its place."""
    _links: defaultdict[str, list[Link]] = field(default_factory=lambda: defaultdict(list))
    _configured: set[str] = field(default_factory=set)
    _given: dict[tuple[str, bytes], tuple[int, int]] = field(default_factory=dict)
    """When a radio heard what nobody has sent, and its place; until its station tells it."""
    _bursts: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    """Since when each has heard of that, how many, and how many octets, from a poll to the next."""
    _found: list[Found] = field(default_factory=list)
    _away_us: dict[str, int] = field(default_factory=dict)
    _may_come_us: dict[str, int] = field(default_factory=dict)
    _cut: set[str] = field(default_factory=set)
    _unintroduced: set[str] = field(default_factory=set)
    _ended_servers: set[str] = field(default_factory=set)

    @property
    def rig(self) -> str:
        return self.time.rig

    def handed_over(
        self, event: Event, told: Mapping[str, Any], windows: Windows, asked_us: int | None
    ) -> None:
        """A station was handed a downlink; `windows`: those that it names, if they are known.

        `asked_us`: when it ended what this answers, or this itself if it is to be sent at once;
        None where nobody knows whether a station could send it.
        """
        self.orders.hand_over(event, told, windows, asked_us)
        self._orders_told[event["station"], told["diid"]] = told

    def take(self, event: Event) -> None:
        """Read the next event; any kind."""
        match event["kind"]:
            case "station.text" if event.get("origin") != "injected":
                self._text(event)
            case "radio.transmit" if event["direction"] == "up":
                phy = bytes.fromhex(event.get("phy", ""))
                self._on_air.add(phy)
                if event.get("genuine") and phy:
                    self._sent.setdefault(phy, []).append(event)
                    self._newest[event.get("dev_eui", "")] = event
            case "radio.transmit" if "dr" in event:
                if event["airtime_us"] > _SEEN_US:
                    self._unreported[event["sender"]].append(event)
                self._found += self.orders.on_air(event)
                self._found += self._weak(event)
                self._newest[event["sender"]] = event
            case "radio.lost":
                self._lost_by.add((event["receiver"], event["transmission"]))
                if event.get("cause") == "not tuned":
                    self._found += self._deaf(event)
            case "station.link":
                self._lost(event, is_there=event["event"] == "refused")
            case "fault.begin" if (event["seam"], event["fault"]) == ("air", "replay"):
                phy = bytes.fromhex(event["detail"].get("phy", ""))
                self._on_air.add(phy)
                if "station" in event:  # a second radio of a lab is heard by whoever can
                    self._give(event, phy)
            case "fault.begin" if event["fault"] == "no version":
                self._unintroduced.add(event["station"])
            case "fault.begin" if event["fault"] == "no clock":
                self.time.broken.add(event["station"])
            case "fault.begin" if (event["seam"], event["fault"]) == ("tap", "cut"):
                self._cut.add(event["station"])
                self._lost(event)
            case "fault.end" if (event["seam"], event["fault"]) == ("tap", "cut"):
                self._cut.discard(event["station"])
                self._may_come_us[event["station"]] = event["t_us"]
            case "case.lns" if event["event"] == "kill":
                self._ended_servers.add(event["lns"])
            case "case.lns":
                self._ended_servers.discard(event["lns"])
                for station in self._away_us:
                    self._may_come_us[station] = event["t_us"]

    def _weak(self, event: Event) -> Iterator[Found]:
        """A station sends as strongly as its region lets it."""
        least_dbm = self.orders.plan.station_dbm
        power_dbm = self.air.power_dbm(event.get("transmission", 0))
        if power_dbm is not None and power_dbm < least_dbm:
            check = serving(event["sender"], f"downlink of {event['sender']}", event["t_us"])
            yield check.wrong("power", f"{least_dbm} dBm at least", f"{power_dbm} dBm")

    def _deaf(self, event: Event) -> Iterator[Found]:
        """It was given every channel of its region that hears several data rates."""
        plan, number = self.orders.plan, event["transmission"]
        for sent in self._newest.values():
            if sent.get("transmission") == number and sent.get("freq_hz") in plan.heard_hz:
                modulated = plan.data_rates[sent["dr"]]
                if isinstance(modulated, Lora) and modulated.bw_hz == _HEARD_BW_HZ:
                    check = serving(event["receiver"], event["receiver"], event["t_us"])
                    yield check.wrong("channels", f"one on {sent['freq_hz']}", None)

    def _lost(self, event: Event, *, is_there: bool = False) -> None:
        """It has no link; `is_there`: it has come, and nobody took it."""
        station = event["station"]
        self._links[station].append((event["t_us"], None if is_there else False))
        self.orders.disturb(station, event["t_us"])
        self._asked_us.pop(station, None)
        self._unreported.pop(station, None)
        away_us = self._away_us.pop(station, event["t_us"])
        if not is_there:
            self._away_us[station], self._may_come_us[station] = away_us, event["t_us"]

    def _text(self, event: Event) -> None:
        station, fields = event["station"], json_of(event["text"]) or {}
        msgtype = fields.get("msgtype")
        if event["direction"] == "down" and msgtype == "getxtime":
            self._asked_us.setdefault(station, event["t_us"])
            self._asked[station] += 1
            self._mux_times[station].add(_mux_time(fields))
        elif msgtype in ("getxtime", "router_config", "version"):
            self._asked_us.pop(station, None)
        if msgtype == "version":
            self._unreported.pop(station, None)
            self._links[station].append((event["t_us"], True))
        if msgtype in ("router_config", "version"):
            self.orders.disturb(station, event["t_us"])
        if event["direction"] == "down":
            if msgtype == "router_config":
                self._configured.add(station)
                self.time.configured(station, event["t_us"])
            return
        check = serving(station, f"{msgtype} of {station}", event["t_us"])
        if "link" in event and msgtype != "version" and station not in self._unintroduced:
            self._found.append(
                check.wrong("place", "behind the version of its connection", "first")
            )
        if msgtype == "getxtime":
            self._asked[station] -= 1
            if self._asked[station] < 0:
                self._found.append(check.wrong("times", "one for each question", "one more"))
            elif _mux_time(fields) not in (asked := self._mux_times[station]):
                due = " or ".join(map(str, sorted(asked)))
                self._found.append(check.wrong("MuxTime", f"{due}, as asked", _mux_time(fields)))
        self._found += self._frame(event, check)
        self._found += self.time.told(station, fields, event["t_us"], check)
        if msgtype == "dntxed":
            self._found += self._reports(station, fields, check)
        if not event.get("dropped"):
            if self._is_overdue(station, event["t_us"]):
                self._found.append(check.wrong("time", "soon after its link was back", "late"))
            self._away_us.pop(station, None)

    def _frame(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """A frame that a station tells of was on the air."""
        uplink = uplink_of(event["station"], event["t_us"], event.get("held_us", 0), event["text"])
        if uplink is None:
            return
        if (place := self._given.pop((event["station"], uplink.phy), None)) is not None:
            yield from self._in_order(uplink, place, check)
        if (sent := self.transmission_of(uplink)) is not None:
            self._told_of.add((event["station"], sent.get("transmission", 0)))
        elif uplink.phy not in self._on_air:
            yield check.wrong("octets", "some that were on the air", uplink.phy)

    def _untold(self, stations: Iterable[str]) -> Iterator[tuple[str, int, Event]]:
        """What the air has given to stations, and they have not told, with when they heard it.

        Of equal frames that wait for a link a station tells the best.
        """
        for sent in (one for each in self._sent.values() for one in each if "dr" in one):
            number, phy = sent["transmission"], bytes.fromhex(sent["phy"])
            equal = {one.get("transmission", 0) for one in self._sent[phy]}
            for station in stations:
                was_given = self.air.strength(number, station, 0) is not None
                heard_us = sent["t_us"] + sent["airtime_us"]
                told = {number} if self._link(station, heard_us)[1] else equal
                lost = (station, number) in self._lost_by
                if was_given and not lost and not any((station, n) in self._told_of for n in told):
                    yield station, heard_us, sent
        for (station, phy), (heard_us, _) in self._given.items():
            yield station, heard_us, self._sent[phy][-1]

    def _reports(self, station: str, fields: Mapping[str, Any], check: Scrutiny) -> Iterator[Found]:
        diid, xtime = fields.get("diid", fields.get("seqno")), fields.get("xtime")
        told = self._orders_told.get((station, diid)) if isinstance(diid, int) else None
        if told is None:
            yield check.wrong("diid", "one that it was handed", diid)
        else:
            yield from as_handed(told, fields, check)
            if (station, diid) in self._reported:
                yield check.wrong("times", f"once for {diid}", "again")
            self._reported.add((station, diid))
        if not self._unreported[station]:
            return
        sent = self._unreported[station].popleft()
        yield from check.same("DR", sent["dr"], fields.get("DR"))
        yield from check.same("Freq", sent["freq_hz"], fields.get("Freq"))
        if isinstance(xtime, int):
            yield from self.time.sent(station, xtime, sent["t_us"], check)
        yield from self.time.gps(fields.get("gpstime"), sent["t_us"], "begun", check)

    def unsaid(self, end_us: int, names: Mapping[str, str]) -> Iterator[Found]:
        """What stations owe when a case is over; `names`: what people call them."""
        if self.rig != "simulated":
            return
        for found in [*self._found, *self.time.misshown()]:
            yield replace(found, owner=Owner.GATEWAY)
        for station, t_us, what in self._owed(end_us, names):
            yield _unsaid(names.get(station, station), station, t_us, what)

    def _owed(self, end_us: int, stations: Iterable[str]) -> Iterator[tuple[str, int, str]]:
        """What stations had to say or to send and have not, with since when."""
        for station, since_us in self._asked_us.items():
            if end_us - since_us > _ANSWERS_WITHIN_US:
                yield station, since_us, "answer to getxtime"
        for station, unreported in self._unreported.items():
            late_us = end_us - unreported[0]["t_us"] if unreported else 0
            if late_us > REPORTED_WITHIN_US and station not in self._away_us:
                yield station, unreported[0]["t_us"], "dntxed of what it has sent"
        for station, heard_us, sent in self._untold(stations) if self.time.alone else ():
            tells_us = self._tells_us(station, heard_us)
            if tells_us is not None and end_us - tells_us > _TOLD_WITHIN_US:
                yield station, heard_us, f"word of {sent['frame_id']}, which it has heard"
        for station, diid, due_us in self.orders.unsent(end_us) if self.time.alone else ():
            yield station, due_us, f"downlink {diid} on the air"
        for station in self._away_us:
            is_shut_out = station in self._cut or self._ended_servers
            if not is_shut_out and self._is_overdue(station, end_us):
                yield station, self._may_come_us[station], "new connection"

    def _is_overdue(self, station: str, at_us: int) -> bool:
        """Whether who is away had to be back before."""
        if station not in self._away_us or station in self._unintroduced:
            return False  # of one that says nothing first, nobody knows when it is back
        may_us = self._may_come_us[station]
        within_us = _COMES_WITHIN_US[0] + 4 * (may_us - self._away_us[station])
        return at_us - may_us > min(within_us, _COMES_WITHIN_US[1])

    def configures(self, station: str) -> bool:
        """Note a `router_config`; whether the station has introduced itself for it."""
        due = self._configs_due.get(station, 1)
        self._configs_due[station] = max(due - 1, 0)
        return due > 0

    def introduced(self, event: Event) -> None:
        """Read a `version`, also one that is injected.

        The station may have begun again, with a clock that starts anew under the same session byte.
        """
        station, is_first = event["station"], "link" in event
        due = self._configs_due.get(station, 0)
        check = serving(station, f"version of {station}", event["t_us"])
        self._configs_due[station] = 1 if is_first else due + 1
        if not is_first and event.get("origin") != "injected":
            self._found.append(check.wrong("times", "once on each connection", "again"))
        if event.get("origin") != "injected" and "text" in event:
            told = (json_of(event["text"]) or {}).get("protocol")
            self._found += check.same("protocol", _PROTOCOL, told)
        self.time.connected(station)
        self._told.pop(station, None)
        self._latest = {key: one for key, one in self._latest.items() if key[0] != station}
        self._configured.discard(station)

    def transmission_of(self, uplink: Uplink) -> Event | None:
        """Which of all transmissions of its octets a station tells of; None for none at all.

        The newest that had begun, and that its clock shows, or its channel where that shows none.
        """
        fitting = self._fitting(uplink)
        return fitting[-1] if fitting else None

    def _fitting(self, uplink: Uplink) -> list[Event]:
        sent = self._sent.get(uplink.phy, [])
        if len(sent) < 2:
            return sent
        told_us = uplink.t_us - uplink.held_us
        begun = [one for one in sent if one["t_us"] <= told_us] or sent
        return [one for one in begun if "dr" not in one or self._may_be(uplink, one)] or begun

    def is_of(self, uplink: Uplink, sent: Event) -> bool | None:
        """Whether its clock says that a station has heard this; None where no clock tells."""
        passed_us, counted_us = self.time.passed(uplink, sent["t_us"] + sent["airtime_us"])
        if counted_us is None:
            return None
        return abs(counted_us - passed_us) <= self.time.apart_us(passed_us)

    def ended_us(self, uplink: Uplink) -> int:
        """When an uplink ended, or the latest that it can have, where no radio has sent it now.

        What is injected ended when the clock of its station shows, as long as that is known.
        """
        told_us = uplink.t_us - uplink.held_us
        sent = self.transmission_of(uplink)
        if sent is None or sent.get("origin") != "device" or "airtime_us" not in sent:
            return told_us
        ended_us = int(sent["t_us"] + sent["airtime_us"])
        shown_us = self.time.shown_us(uplink, ended_us, told_us) if uplink.injected else None
        if shown_us is not None:
            return shown_us
        is_prompt = 0 <= told_us - ended_us < TOLD_LATE_US
        return ended_us if is_prompt or self.is_of(uplink, sent) else told_us

    def _may_be(self, uplink: Uplink, sent: Event) -> bool:
        if (is_of := self.is_of(uplink, sent)) is not None:
            return is_of
        is_over = sent["t_us"] + sent["airtime_us"] <= uplink.t_us - uplink.held_us
        return is_over and (sent["dr"], sent["freq_hz"]) == (uplink.dr, uplink.freq_hz)

    def heard(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        """What of a frame is otherwise than it was sent; `sent` is its `radio.transmit`."""
        if uplink.injected or self.rig not in APART_US:
            return  # in a lab a second radio may have sent it again
        wrong = self._wrong(uplink, sent, check) if "dr" in sent else self.time.said(uplink, check)
        for found in wrong:
            yield replace(found, owner=Owner.GATEWAY)

    def _wrong(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        yield from check.same("DR", sent["dr"], uplink.dr)
        yield from check.same("Freq", sent["freq_hz"], uplink.freq_hz)
        number = sent.get("transmission", 0)
        signals = [*self._signals(number, uplink.station)]
        if signals and uplink.rctx >= len(signals):
            yield check.wrong("rctx", f"less than {len(signals)}", uplink.rctx)
        elif signals:
            rssi, snr = signals[uplink.rctx]
            yield from check.same("rssi", rssi, uplink.rssi)
            yield from check.same("snr", snr, uplink.snr)
            # Of what all its antennas hear at one moment it tells the best.
            best = max(range(len(signals)), key=lambda n: 8 * 4 * signals[n][1] + signals[n][0])
            if signals[best] != signals[uplink.rctx]:
                yield check.wrong("rctx", best, uplink.rctx)
        ended_us = sent["t_us"] + sent["airtime_us"]
        if uplink.xtime and self.rig == "simulated":
            yield from self._promptly(uplink, ended_us, check)
        # Of equal frames that waited for a link a station tells the best: nobody knows which it is.
        if sum("dr" in one for one in self._fitting(uplink)) < 2:
            yield from self.time.heard(uplink, ended_us, check)

    def _signals(self, transmission: int, station: str) -> Iterator[Signal]:
        """RSSI and SNR of it at each antenna, as a station keeps them."""
        antenna = 0
        while (strength := self.air.strength(transmission, station, antenna)) is not None:
            # An octet without sign, and one of quarters: what does not fit begins again.
            quarters = (int(4 * strength[1]) + 128) % 256 - 128
            yield float(-(-strength[0] % 256)), quarters / 4
            antenna += 1

    def _promptly(self, uplink: Uplink, ended_us: int, check: Scrutiny) -> Iterator[Found]:
        """A frame is told once, and at once, unless the link was lost meanwhile."""
        frame, told = (uplink.phy, uplink.xtime, uplink.rctx), self._told
        if frame in told.setdefault(uplink.station, set()):
            yield check.wrong("times", "once", "again")
        told[uplink.station].add(frame)
        told_us = uplink.t_us - uplink.held_us
        yield from self._in_order(uplink, (ended_us, 0), check)
        late_us, links = told_us - ended_us, self._links[uplink.station]
        # Of a link without a version nobody knows since when it is back.
        is_back = not links or (links[-1][0] < ended_us and links[-1][1])
        if late_us > _TOLD_WITHIN_US and is_back:
            yield check.wrong("time", "when it has ended", f"{late_us} us after that")

    def _in_order(self, uplink: Uplink, place: tuple[int, int], check: Scrutiny) -> Iterator[Found]:
        """What a tap has held as long as another leaves it in the order in which it was told."""
        key = uplink.station, uplink.held_us
        newest = self._latest.get(key, place)
        before_us, is_of_burst = newest[0] - place[0], newest[0] == place[0]
        if before_us > APART_US["simulated"] or (is_of_burst and newest > place):
            yield check.wrong("order", "as they ended", f"{before_us} us before the last")
        self._latest[key] = max(newest, place)

    def _give(self, event: Event, phy: bytes) -> None:
        """The radio of a station is to have heard what nobody has sent at that moment."""
        station, at_us = event["station"], event["t_us"]
        since_us, number, octets = self._bursts.get(station, (at_us, 0, 0))
        if at_us - since_us > _POLL_US:
            since_us, number, octets = at_us, 0, 0
        number, octets = number + 1, octets + len(phy)
        self._bursts[station] = since_us, number, octets
        is_kept = number <= _QUEUE_MAX and octets <= _QUEUE_OCTETS
        if is_kept and phy in self._sent and station in self._configured:
            self._given.setdefault((station, phy), (at_us, number))

    def _tells_us(self, station: str, heard_us: int) -> int | None:
        """Since when it has to tell what it heard then: at once, or when it is back.

        None where it may have stopped its radio, and forgotten it.
        """
        since_us, is_linked = self._link(station, heard_us)
        later = [one for one in self._links[station] if one[0] > heard_us]
        next_us, comes = later[0] if later else (heard_us, False)
        if is_linked:
            until_us = heard_us + _TOLD_WITHIN_US
            is_disturbed = self.orders.is_disturbed(station, heard_us, until_us)
            return heard_us if comes is False and not is_disturbed else None
        is_first = any(0 <= next_us - since_us - one <= _COMES_BACK_US for one in _WAITS_US)
        stays = self._link(station, next_us + _TOLD_WITHIN_US) == (next_us, True)
        return next_us if is_first and stays else None

    def _link(self, station: str, at_us: int) -> Link:
        before = [one for one in self._links[station] if one[0] <= at_us]
        return before[-1] if before else (0, True)


def _mux_time(fields: Mapping[str, Any]) -> float:
    """What an answer repeats of its question; 0 where that says none."""
    told = fields.get("MuxTime")
    return round(float(told), 6) if isinstance(told, int | float) else 0.0


def _unsaid(name: str, station: str, t_us: int, what: str) -> Found:
    return Found(
        owner=Owner.GATEWAY, rule=SERVES, t_us=t_us, station=station,
        text=f"{name}: {what}: expected one, observed none", expected="one", observed="none",
    )  # fmt: skip


Told = Mapping[tuple[str, int], Sequence[Uplink]]
"""The frames that were told, by station and `xtime`."""


SentAs = Callable[[Uplink], Event | None]
"""The transmission that a station tells of, if there was any."""


def deaf_stations(evidence: Evidence, told: Told, sent: SentAs) -> Iterator[Found]:
    """Stations that made an answer impossible which was due."""
    heard = evidence.heard
    for frame_id, rows in evidence.expected.items():
        for row, reception in zip(rows, heard.get(frame_id, ()), strict=False):
            outcome = reception.outcome
            due = row.words.answer in ("RX1", "RX2")
            if not due or outcome is None or outcome.answer != "TooLate":
                continue
            cause = _why_deaf(reception, told, sent)
            if cause is not None and row.station not in evidence.links_lost_us:
                name = evidence.name(row.station)
                yield Found(
                    owner=Owner.GATEWAY, rule="station that cannot answer", t_us=reception.t_us,
                    text=f"{name} cannot answer {frame_id}: {cause}", station=row.station,
                    frame_id=frame_id, expected=row.words.answer, observed="TooLate",
                )  # fmt: skip


def _why_deaf(reception: Heard, told: Told, sent: SentAs) -> str | None:
    if not reception.xtime:
        return "its clock is not known"
    for uplink in told.get((reception.station, reception.xtime), ()):
        radio = sent(uplink)
        if uplink.t_us != reception.t_us or radio is None or "airtime_us" not in radio:
            continue
        late_us = int(uplink.t_us - uplink.held_us - radio["t_us"] - radio["airtime_us"])
        if late_us > TOLD_LATE_US:
            return f"it told of the frame {late_us // 1000} ms after its end"
    return None
