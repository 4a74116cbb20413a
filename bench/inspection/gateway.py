"""Does a station tell of a frame what was on the air: where, how fast, how strong, and when?

And is it there, and answers? A network server answers where and when a station says that it heard a
device: whoever says that wrongly makes the device deaf, and is no network server. Source: Basics
Station, `updf`, `jreq`, `getxtime` and the layout of `xtime`; two crystals differ by 50 millionths
at most.
"""

from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import RX2_AFTER_RX1_US
from bench.verdict.expectation import Evidence, Heard
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import Uplink, json_of

# | 0 | unit 7 | session 8 | microseconds 48 |
_END = 1 << 48
_PER_MILLION = 100
_APART_US = {"simulated": 1_000, "emulated": 50_000}
"""How far the clocks of a station and of the air may seem apart on rigs that know the air's."""


TOLD_LATE_US = 500_000
"""How long after its end a frame is told so late that nobody can answer it."""
_ANSWERS_WITHIN_US = 1_000_000
_COMES_WITHIN_US = 17_000_000, 62_000_000
"""How long a station waits at most after it was lost, and after it found no server for long."""
_REPORTED_WITHIN_US = 1_000_000
Strength = Callable[[int, str, int], tuple[int, float] | None]
"""RSSI (dBm) and SNR (dB) of a transmission at a station and antenna, where the air knows them."""


Windows = Mapping[tuple[int, int], Sequence[int]]
"""When windows open (µs) in which a downlink may be sent, by data rate and frequency."""
_SEEN_US = 6_000
"""A station looks 5 ms after its beginning, and does not see what is over then."""
ON_TIME_US = 1_000
"""How far from the opening of its window a downlink may begin: every device hears it then."""
_TOLD_WITHIN_US = 100_000


def windows_of(told: Mapping[str, Any], rx1_us: int | None) -> Windows:
    """The windows that an answer names, whose RX1 opens then; none where nobody knows when."""
    windows: dict[tuple[int, int], tuple[int, ...]] = {}
    if rx1_us is None or "xtime" not in told:
        return windows
    for n, opens_us in {1: rx1_us, 2: rx1_us + RX2_AFTER_RX1_US}.items():
        if f"RX{n}DR" in told:
            where = told[f"RX{n}DR"], told[f"RX{n}Freq"]
            windows[where] = (*windows.get(where, ()), opens_us)
    return windows


def late_us(sent: Event, windows: Windows) -> int | None:
    """How late a downlink is for the nearest of its windows; None where it can be in none."""
    opens_us = windows.get((sent["dr"], sent["freq_hz"]), ())
    return min((sent["t_us"] - at_us for at_us in opens_us), key=abs, default=None)


def unknown(transmission: int, station: str, antenna: int) -> None:
    """The air of a lab tells nobody how strong anything is."""


@dataclass(slots=True)
class Gateways:
    """Remembers of each station which of its clocks showed what when a frame ended.

    And on virtual time since when (µs) who was asked and has not answered, is away, or has sent
    something and told nobody.
    """

    rig: str = ""
    strength: Strength = unknown
    _sent: dict[bytes, list[Event]] = field(default_factory=dict)
    _ended: dict[str, tuple[int, int, int]] = field(default_factory=dict)
    _asked_us: dict[str, int] = field(default_factory=dict)
    _sent_us: dict[str, deque[int]] = field(default_factory=lambda: defaultdict(deque))
    _orders: dict[tuple[str, str], Windows] = field(default_factory=dict)
    _diids: set[tuple[str, int]] = field(default_factory=set)
    _told: dict[str, set[tuple[bytes, int, int]]] = field(default_factory=dict)
    _linked_us: dict[str, int] = field(default_factory=dict)
    _found: list[Found] = field(default_factory=list)
    _away_us: dict[str, int] = field(default_factory=dict)
    _may_come_us: dict[str, int] = field(default_factory=dict)
    _cut: set[str] = field(default_factory=set)
    _ended_servers: set[str] = field(default_factory=set)

    def handed_over(self, station: str, diid: int, pdu: str, windows: Windows) -> None:
        """A station was handed a downlink; `windows`: those that it names, where they are known."""
        self._orders[station, pdu.upper()] = windows
        self._diids.add((station, diid))

    def _on_air(self, event: Event) -> Iterator[Found]:
        """A station sends what it was handed, and when and how that says."""
        station = event["sender"]
        check = Scrutiny(
            rule="a station serves", of=f"downlink of {station} on the air", t_us=event["t_us"],
            station=station,
        )  # fmt: skip
        windows = self._orders.get((station, event["phy"].upper()))
        if windows is None:
            yield check.wrong("octets", "some that it was handed", event["phy"])
        if not windows:  # it was to be sent at once, or nobody knows when
            return
        late = late_us(event, windows)
        if late is None:
            due = " or ".join(f"DR{dr} on {hz}" for dr, hz in windows)
            sent = f"DR{event['dr']} on {event['freq_hz']}"
            yield check.wrong("data rate and frequency", due, sent)
        elif abs(late) > ON_TIME_US:
            yield check.wrong("time", "when its window opens", f"{late} us after that")

    def take(self, event: Event) -> None:
        """Read the next event; any kind."""
        match event["kind"]:
            case "station.text" if event.get("origin") != "injected":
                self._text(event)
            case "radio.transmit" if event["direction"] == "up":
                if event.get("genuine") and "phy" in event:
                    self._sent.setdefault(bytes.fromhex(event["phy"]), []).append(event)
            case "radio.transmit" if "dr" in event:
                if event["airtime_us"] > _SEEN_US:
                    self._sent_us[event["sender"]].append(event["t_us"])
                self._found += self._on_air(event)
            case "station.link":
                self._lost(event, is_there=event["event"] == "refused")
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

    def _lost(self, event: Event, *, is_there: bool = False) -> None:
        """It has no link; `is_there`: it has come, and nobody took it."""
        station = event["station"]
        self._linked_us[station] = event["t_us"]
        self._asked_us.pop(station, None)
        self._sent_us.pop(station, None)
        self._away_us.pop(station, None)
        if not is_there:
            self._away_us[station] = self._may_come_us[station] = event["t_us"]

    def _text(self, event: Event) -> None:
        station, fields = event["station"], json_of(event["text"]) or {}
        msgtype = fields.get("msgtype")
        if event["direction"] == "down" and msgtype == "getxtime":
            self._asked_us.setdefault(station, event["t_us"])
        elif msgtype in ("getxtime", "router_config", "version"):
            self._asked_us.pop(station, None)
        if msgtype == "version":
            self._sent_us.pop(station, None)
            self._linked_us[station] = event["t_us"]
        elif msgtype == "dntxed":
            self._found += self._reports(event, fields.get("diid", fields.get("seqno")))
        if event["direction"] == "up" and not event.get("dropped"):
            self._away_us.pop(station, None)

    def _reports(self, event: Event, diid: object) -> Iterator[Found]:
        station = event["station"]
        if self._sent_us[station]:
            self._sent_us[station].popleft()
        if not isinstance(diid, int) or (station, diid) not in self._diids:
            check = Scrutiny(
                rule="a station serves", of=f"dntxed of {station}", t_us=event["t_us"],
                station=station,
            )  # fmt: skip
            yield check.wrong("diid", "one that it was handed", diid)

    def unsaid(self, end_us: int, name_of: Callable[[str], str]) -> Iterator[Found]:
        """What stations owe when a case is over; `name_of`: their names for people."""
        if self.rig != "simulated":
            return
        for found in self._found:
            yield replace(found, owner=Owner.GATEWAY)
        for station, since_us in self._asked_us.items():
            if end_us - since_us > _ANSWERS_WITHIN_US:
                yield _unsaid(name_of(station), station, since_us, "answer to getxtime")
        for station, sent_us in self._sent_us.items():
            if sent_us and end_us - sent_us[0] > _REPORTED_WITHIN_US:
                yield _unsaid(name_of(station), station, sent_us[0], "dntxed of what it has sent")
        for station, since_us in self._away_us.items():
            may_us = self._may_come_us[station]
            within_us = min(_COMES_WITHIN_US[0] + 2 * (may_us - since_us), _COMES_WITHIN_US[1])
            is_shut_out = station in self._cut or self._ended_servers
            if not is_shut_out and end_us - may_us > within_us:
                yield _unsaid(name_of(station), station, may_us, "new connection")

    def connected(self, station: str) -> None:
        """It may have begun again, with a clock that starts anew under the same session byte."""
        self._ended.pop(station, None)
        self._told.pop(station, None)

    def transmission_of(self, uplink: Uplink) -> Event | None:
        """Which of all transmissions of its octets a station tells of; None for none at all.

        The newest that had begun, and that its clock shows, or its channel where that shows none.
        """
        sent = self._sent.get(uplink.phy)
        if not sent or len(sent) == 1:
            return sent[0] if sent else None
        told_us = uplink.t_us - uplink.held_us
        begun = [one for one in sent if one["t_us"] <= told_us] or sent
        fitting = [one for one in begun if "dr" not in one or self._may_be(uplink, one)]
        return (fitting or begun)[-1]

    def _may_be(self, uplink: Uplink, sent: Event) -> bool:
        ended_us = sent["t_us"] + sent["airtime_us"]
        passed_us, counted_us = self._passed(uplink, ended_us)
        if counted_us is not None:
            return abs(counted_us - passed_us) <= self._apart_us(passed_us)
        is_over = ended_us <= uplink.t_us - uplink.held_us
        return is_over and (sent["dr"], sent["freq_hz"]) == (uplink.dr, uplink.freq_hz)

    def _passed(self, uplink: Uplink, ended_us: int) -> tuple[int, int | None]:
        """Time since the first frame that its station told (µs), and what its clock has counted.

        None where the two are of different clocks, or of none; before 0 where what was held is
        told behind a later one.
        """
        clock, counter_us = divmod(uplink.xtime, _END)
        first = self._ended.get(uplink.station, (clock, counter_us, ended_us))
        counted_us = (counter_us - first[1] + _END // 2) % _END - _END // 2
        is_known = uplink.xtime and uplink.station in self._ended and first[0] == clock
        return ended_us - first[2], counted_us if is_known else None

    def _apart_us(self, passed_us: int) -> int:
        return _APART_US.get(self.rig, 0) + abs(passed_us) * _PER_MILLION // 1_000_000

    def heard(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        """What of a frame is otherwise than it was sent; `sent` is its `radio.transmit`."""
        if uplink.injected or "dr" not in sent or self.rig not in _APART_US:
            return  # in a lab a second radio may have sent it again
        for found in self._wrong(uplink, sent, check):
            yield replace(found, owner=Owner.GATEWAY)

    def _wrong(self, uplink: Uplink, sent: Event, check: Scrutiny) -> Iterator[Found]:
        yield from check.same("DR", sent["dr"], uplink.dr)
        yield from check.same("Freq", sent["freq_hz"], uplink.freq_hz)
        number = sent.get("transmission", 0)
        strength = self.strength(number, uplink.station, uplink.rctx)
        if strength is not None:
            # An octet without sign, and one of quarters: what does not fit begins again.
            yield from check.same("rssi", float(-(-strength[0] % 256)), uplink.rssi)
            quarters = (int(4 * strength[1]) + 128) % 256 - 128
            yield from check.same("snr", quarters / 4, uplink.snr)
        if not uplink.xtime:  # a station without a clock
            return
        if self.rig == "simulated":
            yield from self._promptly(uplink, sent["t_us"] + sent["airtime_us"], check)
        ended_us = sent["t_us"] + sent["airtime_us"]
        passed_us, counted_us = self._passed(uplink, ended_us)
        self._ended.setdefault(uplink.station, (*divmod(uplink.xtime, _END), ended_us))
        if counted_us is not None and abs(counted_us - passed_us) > self._apart_us(passed_us):
            yield check.wrong("xtime", f"{passed_us} us after the first", f"{counted_us} us")

    def _promptly(self, uplink: Uplink, ended_us: int, check: Scrutiny) -> Iterator[Found]:
        """A frame is told once, and at once, unless the link was lost meanwhile."""
        frame, told = (uplink.phy, uplink.xtime, uplink.rctx), self._told
        if frame in told.setdefault(uplink.station, set()):
            yield check.wrong("times", "once", "again")
        told[uplink.station].add(frame)
        late_us = uplink.t_us - uplink.held_us - ended_us
        if late_us > _TOLD_WITHIN_US and self._linked_us.get(uplink.station, 0) < ended_us:
            yield check.wrong("time", "when it has ended", f"{late_us} us after that")


def _unsaid(name: str, station: str, t_us: int, what: str) -> Found:
    return Found(
        owner=Owner.GATEWAY, rule="a station serves", t_us=t_us, station=station,
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
            if cause is not None:
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
