"""Does what a network server tells of its own doings agree with what passed at the taps?

Requests of the application, downlinks that it scheduled and that were sent, stations that it cannot
answer through, claims, and messages that nobody can read.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from bench.capture.reading import Event
from bench.inspection.downlink import RX2_AFTER_RX1_US
from bench.inspection.known_device import KnownDevice
from bench.inspection.outcome import Claims, claimed
from bench.inspection.requests import OF_LINKS, Requests
from bench.verdict.owner import Found, Owner, Scrutiny
from bench.verdict.wire import RECEPTIONS, eui_of, is_reception, json_of, reception_in
from bench.virtual.lorawan.air_interface import read_data
from bench.virtual.lorawan.channel_plan import channel_plan

REFUSED = "refused by the application"
"""The cause of a message that an application did not take."""
_IN_A_ROW = 5
_NO_CLOCK = "the clock of the station is not known"
_OTHER_SESSION = "the frame is of a radio session that does not run"
_LATE = "the frame was told too late"
_MARGIN_US = 300_000
"""How much a server may err in how long before a window it decided."""
_SESSION_SHIFT = 48
_AGAIN_US, _AGAIN_MAX_US = 50_000, 1_000_000
"""How soon a station is asked again that has shown no clock: then twice that, at most a second."""
_ON_ITS_WAY_US = 20_000
"""How long an answer and the next question take from a tap to the server and back."""
_ASKED_WITHIN_US = 3_000_000
"""How soon a server asks for a clock that it does not know."""
_SAID_MAX = 200
"""As much of what others say a server repeats."""
_TOLD_AFTER_US = 500_000
"""How long after a report that passed its tap a server has told of it."""
_IN_VAIN_MAX = 5
"""How often a server may ask for one that it has just been shown: question and answer may cross."""
Key = tuple[str, int]
"""A downlink: its station and its `diid`."""


@dataclass(slots=True)
class LateStations:
    """How often in a row a station could not answer: at 5, 10, 20 … a server says so."""

    rows: dict[tuple[str, str], tuple[int, int]] = field(default_factory=dict)
    due: dict[tuple[str, str], tuple[str, int]] = field(default_factory=dict)
    causes: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)
    """Why the newest of each may have been too late; none: nobody can say."""
    missed: list[tuple[str, tuple[str, int]]] = field(default_factory=list)

    def outcome(self, event: Event, named: frozenset[int]) -> None:
        """What became of a reception; `named`: the radio sessions that its station has shown."""
        key = event.get("lns", ""), event["station"]
        self.causes[key] = _causes(event.get("xtime"), named)
        number, told_at = self.rows.get(key, (0, _IN_A_ROW))
        if event["answer"] == "TooLate":
            number += 1
            if number == told_at:
                self._expect(key, "going on", number)
                told_at *= 2
            self.rows[key] = number, told_at
        elif event["answer"] in ("RX1", "RX2"):
            if number >= _IN_A_ROW:
                self._expect(key, "over", number)
            self.rows.pop(key, None)

    def _expect(self, key: tuple[str, str], stage: str, number: int) -> None:
        if key in self.due:
            self.missed.append((key[1], self.due[key]))
        self.due[key] = stage, number

    def tell(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """A server says that a station is late, or is so no more."""
        key = event.get("lns", ""), event["station"]
        due = self.due.pop(key, None)
        yield from check.same("stage and number", due, (event["stage"], event["n"]))
        causes = self.causes.get(key, frozenset())
        if event["stage"] == "going on" and causes and event.get("cause") not in causes:
            yield check.wrong("cause", " or ".join(sorted(causes)), event.get("cause"))

    def untold(self) -> Iterator[tuple[str, tuple[str, int]]]:
        """What no server has said, with the station."""
        yield from self.missed
        for (_, station), due in self.due.items():
            yield station, due

    def forget(self, lns: str) -> None:
        """A server has ended."""
        for key in [key for key in self.rows if key[0] == lns]:
            del self.rows[key]


def _causes(xtime: int | None, named: frozenset[int]) -> frozenset[str]:
    """Why a reception of this moment can have been too late."""
    if xtime == 0:
        return frozenset({_NO_CLOCK})
    if xtime is None or not named:
        return frozenset()
    return frozenset({_NO_CLOCK, _LATE if xtime >> _SESSION_SHIFT in named else _OTHER_SESSION})


@dataclass(slots=True)
class Told:
    """A downlink as it passed the tap, with the uplinks that it may answer, if there are any.

    `opens_us`: when its first window opens, None where nobody can say.
    """

    fields: dict[str, Any]
    frames: frozenset[str]
    opens_us: int | None

    def answers(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """Whether it names the frame that it answers."""
        if self.frames and event.get("frame_id") not in self.frames:
            yield check.wrong("frame_id", " or ".join(sorted(self.frames)), event.get("frame_id"))
        elif not self.frames and "xtime" not in self.fields:
            yield from check.same("frame_id", None, event.get("frame_id"))


def scheduled(event: Event, told: Told, check: Scrutiny) -> Iterator[Found]:
    """What is wrong in what a server says of a downlink that it has scheduled."""
    fields = told.fields
    frame = read_data(bytes.fromhex(fields["pdu"]))
    yield from check.same("window", "RX1" if "RX1DR" in fields else "RX2", event["window"])
    yield from check.same("xtime", fields.get("xtime"), event.get("xtime"))
    yield from told.answers(event, check)
    yield from _carries(event, told, check)
    if frame is not None and frame.direction:
        yield from check.same("dev_addr", frame.dev_addr, event.get("dev_addr"))
        said = event.get("f_cnt_down")
        yield from check.same("f_cnt_down", frame.f_cnt, said if said is None else said % (1 << 16))
    if "xtime" not in fields:
        yield from check.same("margin_us", None, event.get("margin_us"))
    elif told.opens_us is not None:
        due_us = told.opens_us - event["t_us"]
        if abs(due_us - event.get("margin_us", 0)) > _MARGIN_US:
            yield check.wrong("margin_us", due_us, event.get("margin_us"))


def sent(event: Event, told: Told, xtime: int, check: Scrutiny) -> Iterator[Found]:
    """What is wrong in what a server says of a downlink that its station reported at `xtime`."""
    late_us = RX2_AFTER_RX1_US
    if "xtime" in told.fields:
        delay_us = max(1, told.fields.get("RxDelay", 1)) * 1_000_000
        late_us = xtime - told.fields["xtime"] - delay_us
    due = "RX1" if late_us < RX2_AFTER_RX1_US // 2 else "RX2"
    yield from check.same("window", due, event["window"])
    yield from check.same("xtime", xtime, event.get("xtime"))
    yield from told.answers(event, check)
    yield from _carries(event, told, check)


def _carries(event: Event, told: Told, check: Scrutiny) -> Iterator[Found]:
    """Whether it names the device, and what the frame has of the application."""
    frame = read_data(bytes.fromhex(told.fields["pdu"]))
    f_port = None if frame is None else frame.f_port
    confirmed = None if frame is None or f_port is None else frame.confirmed
    yield from check.same("dev_eui", _dev_eui(told.fields), event.get("dev_eui"))
    yield from check.same("f_port", f_port, event.get("f_port"))
    yield from check.same("confirmed", confirmed, event.get("confirmed"))


_MARKED = {"forwarded": (False,), "marked": (True,)}


@dataclass(slots=True)
class Unverified:
    """Messages of frames of which nobody could say whose they are say so, and no others.

    Remembers by server, station, DevEUI, counter and mark what outcomes and messages say.
    """

    nobody_said: defaultdict[tuple[object, ...], set[bool]] = field(
        default_factory=lambda: defaultdict(set)
    )
    messages: list[tuple[list[tuple[object, ...]], Event]] = field(default_factory=list)
    statuses: set[tuple[object, ...]] = field(default_factory=set)
    """Of which frames the application was told how their device is."""

    def outcome(self, event: Event) -> None:
        """What became of a reception; what was dropped may yet come, marked or not."""
        key = tuple(event.get(name) for name in ("lns", "station", "dev_eui", "f_cnt"))
        for is_marked in _MARKED.get(event.get("upstream", ""), (False, True)):
            self.nobody_said[*key, is_marked].add(event.get("level2") == "Unavailable")

    def message(self, event: Event) -> None:
        """What an application gets of it, or of its device, which says nothing of marks."""
        body = event["body"] if isinstance(event["body"], dict) else {}
        key = tuple(body.get(name) for name in ("lns", "station", "devEui", "fCnt"))
        marks = (False, True) if "battery" in body else (bool(body.get("dupMsg")),)
        self.statuses |= {key} if "battery" in body else set()
        self.messages.append(([(*key, is_marked) for is_marked in marks], event))

    def wrong(self) -> Iterator[Found]:
        """The messages that say the opposite."""
        for keys, event in self.messages:
            body = event["body"]
            due = {said for key in keys for said in self.nobody_said.get(key, ())}
            seen = body.get("unverified", False)
            if due and seen not in due:
                check = Scrutiny(
                    rule="message", of=f"message {body.get('messageId')}", t_us=event["t_us"],
                    station=body.get("station"),
                )  # fmt: skip
                yield check.wrong("unverified", not seen, seen)


_PLACE = re.compile(r"[A-Za-z]+ at [a-z_]+[.]py:[0-9]+")


@dataclass(slots=True)
class Mistakes:
    """A server tells each mistake of its program, with its kind and place and none of its words.

    `due`: so many are to be told that a scenario has brought about; any other is a finding.
    """

    due: int = 0

    def tell(self, event: Event, check: Scrutiny) -> Iterator[Found]:
        """A server says that its program is wrong."""
        if not self.due or not event["error"].startswith("Stumbled at "):
            yield check.wrong(f"internal error ({event['during']})", None, event["error"])
            return
        self.due -= 1
        if _PLACE.fullmatch(event["error"]) is None:
            yield check.wrong("internal error", "its kind and its place", event["error"])
        named = event["during"] == "reception"
        if (event.get("frame_id") is not None) != named:
            due = "that of the reception" if named else "none"
            yield check.wrong("frame_id", due, event.get("frame_id"))


@dataclass(slots=True)
class Clocks:
    """A station that tells of a radio session which it never named is asked for its clock.

    Remembers by station the sessions that its newest answer to `getxtime` named, and since when it
    ought to be asked. Whoever never answered is asked anyhow, again and again.
    """

    named: dict[str, frozenset[int]] = field(default_factory=dict)
    due_us: dict[str, int] = field(default_factory=dict)
    asking: set[str] = field(default_factory=set)
    """Who has been asked, and not answered yet: what it tells of before is no reason to ask."""
    in_vain: dict[str, int] = field(default_factory=dict)
    """How often each station was asked since it named its session, without any reason."""
    showed_none_us: dict[str, int] = field(default_factory=dict)
    """Since when each station has answered, and shown no clock."""
    heard: set[str] = field(default_factory=set)
    """Who has told of a frame since it was asked again, which is a reason to ask, too."""
    waits: dict[str, int] = field(default_factory=dict)
    """How often in a row each was asked again after that; none since its configuration."""
    asked_us: dict[str, int] = field(default_factory=dict)
    """When each was asked again, since it showed a clock."""
    hasty: list[tuple[str, int, int]] = field(default_factory=list)
    """Whom a server asked again at another time than is due, with that and its own (µs)."""

    def text(self, event: Event) -> None:
        """A text has passed a tap."""
        station, text = event["station"], event["text"]
        if event["direction"] == "down":
            if '"router_config"' in text:
                self.named.pop(station, None)
                self.due_us.pop(station, None)
                self.asking.discard(station)
                self.showed_none_us.pop(station, None)
                self.asked_us.pop(station, None)
                if station in self.waits:
                    self.waits[station] = 0
            elif '"getxtime"' in text:
                was_due = self.due_us.pop(station, None) is not None
                self.asking.add(station)
                self._asked(station, event["t_us"])
                if self.named.get(station) and not was_due:
                    self.in_vain[station] = self.in_vain.get(station, 0) + 1
        elif event.get("dropped"):
            return
        elif '"getxtime"' in text:
            told = (json_of(text) or {}).get("xtimes")
            shown = [one for one in told if type(one) is int] if isinstance(told, list) else []
            self.named[station] = frozenset(one >> _SESSION_SHIFT for one in shown if one > 0)
            self.showed_none_us.pop(station, None)
            self.asking.discard(station)
            if self.named[station]:
                self.waits[station] = 0
                self.asked_us.pop(station, None)
            else:
                self.showed_none_us[station] = event["t_us"]
        elif is_reception(text):
            self.heard.add(station)
            if not self.named.get(station):
                return
            uplink = reception_in(text)
            if uplink is None or not uplink.xtime or station in self.asking:
                return
            if uplink.xtime >> _SESSION_SHIFT not in self.named[station]:
                self.due_us.setdefault(station, event["t_us"])

    def _asked(self, station: str, t_us: int) -> None:
        """A station that had no clock to show is asked again: soon, then less often."""
        since_us = self.showed_none_us.pop(station, None)
        if since_us is None or station not in self.waits:
            return
        is_alone = station not in self.heard
        self.heard.discard(station)
        due_us = min(_AGAIN_US << self.waits[station], _AGAIN_MAX_US)
        self.waits[station] += 1
        late_us = t_us - since_us - due_us
        before_us = self.asked_us.get(station, t_us - due_us)
        self.asked_us[station] = t_us
        is_early = t_us - before_us < due_us or (late_us < 0 and is_alone)
        if late_us > _ON_ITS_WAY_US or is_early:
            self.hasty.append((station, due_us, t_us - since_us))

    def forget(self) -> None:
        """A link or a server has ended: whoever comes back says what its clock shows."""
        self.named.clear()
        self.asking.clear()
        self.due_us.clear()
        self.showed_none_us.clear()
        self.waits.clear()
        self.asked_us.clear()

    def unasked(self, end_us: int) -> Iterator[tuple[str, int]]:
        """The stations that nobody has asked in time, and since when."""
        for station, since_us in sorted(self.due_us.items()):
            if end_us - since_us > _ASKED_WITHIN_US:
                yield station, since_us


class Accounts:
    """Compares what servers tell of their own doings with what the inspector has seen.

    `name_of`: the name of a station for people. `alone`: no two stations have one EUI.
    """

    def __init__(
        self,
        devices: Mapping[str, KnownDevice],
        region: str,
        name_of: Callable[[str], str],
        *,
        alone: bool,
    ) -> None:
        self._requests = Requests(devices, max(channel_plan(region).repeater_max))
        self._late = LateStations()
        self._name_of = name_of
        self._alone = alone
        self._owners = Claims()
        self._unverified = Unverified()
        self._clocks = Clocks()
        self._end_us = 0
        self._claims: defaultdict[tuple[object, ...], list[Event]] = defaultdict(list)
        self._scheduled: dict[Key, Event] = {}
        self._sent: dict[Key, Event] = {}
        self._told: dict[Key, Told] = {}
        self._reported: dict[Key, object] = {}
        self._reported_us: dict[Key, int] = {}
        self._is_whole = True
        self._unreadable: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._unread: defaultdict[tuple[str, str], int] = defaultdict(int)
        self._doubtful: set[tuple[str, str]] = set()
        self._mistakes = Mistakes()
        self._refusals = 0
        """So many messages the application is to refuse yet."""

    def take(self, event: Event) -> Iterator[Found]:
        """Read the next event; any kind."""
        self._end_us = event["t_us"]
        yield from self._legible(event)
        match event["kind"]:
            case "application.request":
                self._requests.ask(event)
            case "lns.request":
                yield from self._requests.tell(event, self._check(event, "request"))
            case "lns.outcome":
                named = self._clocks.named.get(event["station"], frozenset())
                self._late.outcome(event, named if self._alone else frozenset())
                self._unverified.outcome(event)
                yield from self._requests.decided(event, self._check(event, "request"))
                yield from self._claimed(event)
            case "upstream.published" | "upstream.status":
                self._unverified.message(event)
                yield from self._owners.published(event)
            case "lns.too_late":
                yield from self._late.tell(event, self._check(event, "late station"))
            case "lns.claim":
                self._claims[_reception(event)].append(event)
                yield from self._owners.tell(event, self._check(event, "claim"))
            case "lns.downlink":
                yield from self._downlink(event)
            case "lns.unreadable":
                self._unread[event["station"], event["msgtype"]] += 1
            case "upstream.failed":
                yield from self._refused(event)
            case "lns.failure":
                yield from self._mistakes.tell(event, self._check(event, "mistake"))
            case "station.text":
                self._clocks.text(event)
            case "case.begin":
                self._owners.is_in_order = event.get("rig") == "simulated"
            case "case.device":
                self._owners.provisioned(event)
            case "fault.begin" if event["fault"] == "stumble":
                self._mistakes.due += 1
                self._owners.disturbed(event)
                self._is_whole = False
            case "fault.begin" | "fault.end":
                self._owners.disturbed(event)
                if (event.get("seam"), event["fault"]) == ("upstream", "refuse"):
                    self._refusals += event["detail"]["messages"]
                self._is_whole &= event.get("seam") != "lns" and event["fault"] not in OF_LINKS
            case "station.link":
                self._clocks.forget()
                self._is_whole = False
            case "case.lns":
                self._owners.ran(event)
                self._is_whole &= event.get("event") == "start"
                self._clocks.forget()
                self._requests.forget(event.get("lns", ""))
                self._late.forget(event.get("lns", ""))

    def _refused(self, event: Event) -> Iterator[Found]:
        """An application refuses what it was told to, and nothing else."""
        self._refusals -= event["cause"] == REFUSED
        if self._refusals < 0:
            self._refusals = 0
            check = Scrutiny(
                rule="application", of=f"message {event['message_id']}", t_us=event["t_us"]
            )
            found = check.wrong("answer of the application", "taken", "refused")
            yield replace(found, owner=Owner.APPLICATION)

    def _legible(self, event: Event) -> Iterator[Found]:
        """Whether what others may have said is repeated in one line that anybody can read."""
        if not event["kind"].startswith("lns."):
            return
        for name in ("why", "cause", "reason"):
            said = event.get(name, "")
            if len(said) > _SAID_MAX or not (said.isascii() and said.isprintable()):
                due = f"{_SAID_MAX} printable characters of ASCII at most"
                yield self._check(event, event["kind"]).wrong(name, due, ascii(said))

    def _downlink(self, event: Event) -> Iterator[Found]:
        key = event["station"], event["diid"]
        if event["stage"] == "transmitted" and key in self._sent and self._alone:
            yield self._check(event, "transmitted").wrong("stage", "once", "again")
        if event["stage"] == "scheduled" and self._alone:
            yield from self._owners.answer(event, self._check(event, "claim"))
            if self._is_whole:
                yield from self._owners.in_sequence(event, self._check(event, "downlink"))
        stages = {"scheduled": self._scheduled, "transmitted": self._sent}
        stages[event["stage"]][key] = event

    def told(self, station: str, diid: int, told: Told) -> None:
        """A downlink that a station could read has passed its tap."""
        self._told[station, diid] = told
        if told.opens_us is not None:
            last_us = told.opens_us + RX2_AFTER_RX1_US * ("RX1DR" in told.fields) - _MARGIN_US
            self._requests.busy_until_us[_dev_eui(told.fields) or ""] = last_us

    def reported(self, station: str, diid: int, report: Mapping[str, Any]) -> None:
        """A station says that a downlink is on the air: once, and for the device that it is for."""
        told = self._told.get((station, diid))
        dev_eui = _dev_eui(report)
        if told is None or dev_eui != _dev_eui(told.fields) or (station, diid) in self._reported:
            return
        self._reported[station, diid] = report.get("xtime")
        self._reported_us[station, diid] = self._end_us
        frame = read_data(bytes.fromhex(told.fields["pdu"]))
        if frame is not None and frame.f_port and not frame.confirmed:
            self._requests.prove(dev_eui or "", confirmed=False)

    def acknowledged(self, dev_eui: str) -> None:
        """A device says that it has heard a confirmed downlink."""
        self._requests.prove(dev_eui, confirmed=True)

    def status_told(self, dev_eui: str, frame_id: str) -> None:
        """A device has said how it is."""
        self._requests.statuses_told.add(dev_eui)
        self._requests.telling[frame_id] = dev_eui

    def unreadable(self, station: str, msgtype: str) -> None:
        """A station has said something that is no reception and that nobody can read."""
        self._unreadable[station, msgtype] += 1

    def doubtful(self, station: str, msgtype: str) -> None:
        """A station has said something that a server may read or not."""
        self._doubtful.add((station, msgtype))

    def end(self) -> Iterator[Found]:
        """What is wrong when the case is over."""
        until_us = self._end_us - _TOLD_AFTER_US if self._is_whole else 0
        for text in self._requests.untold(until_us):
            yield Found(rule="account", text=text, t_us=0)
        for station, (stage, number) in self._late.untold():
            text = f"late station {self._name_of(station)}: expected {stage} after {number}"
            yield Found(rule="account", text=f"{text}, observed nothing", t_us=0, station=station)
        # What is no object has no odd value either: nobody may take anything else for it. And a
        # reception has its outcome, whatever is odd about it.
        certain = {key for key in self._unread if key[1] in ("", *RECEPTIONS)}
        certain |= self._unread.keys() - self._doubtful
        for station, msgtype in sorted({*self._unreadable, *certain}):
            due, seen = self._unreadable[station, msgtype], self._unread[station, msgtype]
            if due != seen:
                text = f"unreadable messages of {self._name_of(station)}, {msgtype or 'no'} msgtype"
                yield Found(
                    rule="account", text=f"{text}: expected {due}, observed {seen}", t_us=0,
                    station=station, expected=str(due), observed=str(seen),
                )  # fmt: skip
        yield from self._owners.end()
        yield from self._unverified.wrong()
        is_sure = self._is_whole and self._owners.is_in_order and self._owners.is_hurried
        for text in self._requests.status_unsaid(self._unverified.statuses) if is_sure else ():
            yield Found(rule="account", text=text, t_us=0)
        if self._mistakes.due:
            text = f"mistakes of the program: expected {self._mistakes.due} more, observed none"
            yield Found(rule="account", text=text, t_us=self._end_us)
        for station, since_us in self._clocks.unasked(self._end_us) if self._alone else ():
            text = f"{self._name_of(station)} told of a radio session that it never named"
            yield Found(
                rule="account", text=f"{text}: expected getxtime, observed none", t_us=since_us,
                station=station, expected="getxtime", observed="none",
            )  # fmt: skip
        is_exact = self._alone and self._owners.is_in_order
        for station, due_us, waited_us in self._clocks.hasty if is_exact else ():
            text = f"{self._name_of(station)}, which shows no clock, is asked again"
            wanted, waited = f"after {due_us // 1000} ms", f"after {waited_us // 1000} ms"
            yield Found(
                rule="account", text=f"{text}: expected {wanted}, observed {waited}", t_us=0,
                station=station, expected=wanted, observed=waited,
            )  # fmt: skip
        for station, times in sorted(self._clocks.in_vain.items()) if self._alone else ():
            if times > _IN_VAIN_MAX:
                text = f"{self._name_of(station)} was asked for a clock that it had shown"
                yield Found(
                    rule="account", text=f"{text}: expected once, observed {times} times more",
                    t_us=0, station=station, expected="once", observed=f"{times} times more",
                )  # fmt: skip
        if self._alone:
            yield from self._downlinks()

    def _downlinks(self) -> Iterator[Found]:
        for key, event in self._scheduled.items():
            if key in self._told:
                yield from scheduled(event, self._told[key], self._check(event, "scheduled"))
        for key, event in self._sent.items():
            check = self._check(event, "transmitted")
            if key not in self._told:
                continue
            if key not in self._reported:
                yield check.wrong("stage", "what its station has reported", "no report of it")
            elif isinstance(xtime := self._reported[key], int):
                yield from sent(event, self._told[key], xtime, check)
        for key, event in self._scheduled.items():
            since_us = self._end_us - self._reported_us.get(key, self._end_us)
            is_sure = self._owners.is_in_order and self._is_whole
            if is_sure and key not in self._sent and since_us > _TOLD_AFTER_US:
                check = self._check(event, "transmitted")
                yield check.wrong("stage", "what its station has reported", "nothing of it")

    def _claimed(self, outcome: Event) -> Iterator[Found]:
        check = self._check(outcome, "claim")
        claims = self._claims.get(_reception(outcome))
        if claims:
            claim = claims.pop(0)
            yield from claimed(claim, outcome, check)
            yield from self._owners.followed(claim, outcome, check)
        elif outcome.get("level2", "NotAsked") != "NotAsked":
            yield check.wrong("lns.claim", "one", None)

    def _check(self, event: Event, what: str) -> Scrutiny:
        lns = event.get("lns", "a server")
        named = event.get("frame_id") or event.get("dev_eui") or event.get("station", "")
        return Scrutiny(
            rule="account", of=f"{what} of {lns}, {named}", t_us=event["t_us"],
            station=event.get("station"), frame_id=event.get("frame_id"),
        )  # fmt: skip


def _dev_eui(fields: Mapping[str, Any]) -> str | None:
    return eui_of(fields.get("DevEui", fields.get("DevEUI")))


def _reception(event: Event) -> tuple[object, ...]:
    return tuple(event.get(name) for name in ("lns", "station", "xtime", "frame_id"))
