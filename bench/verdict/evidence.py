"""The events of one case, put in order: who sent, who heard, what was said about it.

Reads the capture lines only, with the station's own spelling of a frame; it asks the network
server nothing.
"""

from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.capture.reading import Event
from bench.capture.timetable import HOST_STALLED
from bench.verdict.answers import Answers
from bench.verdict.device_lines import without_signal
from bench.verdict.effects import Effects
from bench.verdict.wire import eui_of, is_reception, json_of, uplink_of

ABSENT = "-"
NO_LINK = "no link"
"""Why a tap dropped a text: it had nobody to give it to."""
LINK = "station.link"
"""What a tap tells of the link to a network server: it was refused, or the server closed it."""
UNDER_WAY_US = 1_000_000
"""How long what a network server has said may be on its way to the tap of a station."""


@dataclass(frozen=True, slots=True)
class Words:
    """The words of an outcome; "-" where one is absent, or of no interest as `level2` may be."""

    status: str
    upstream: str
    reason: str
    answer: str
    level2: str = ABSENT

    def __str__(self) -> str:
        reason = "" if self.reason == ABSENT else f"({self.reason})"
        level2 = "" if self.level2 == ABSENT else f" {self.level2}"
        return f"{self.status} {self.upstream}{reason} {self.answer}{level2}"


@dataclass(frozen=True, slots=True)
class Expected:
    """One `case.expect` row of a frame, in order of arrival at the network server.

    Rows with the same number `race` stand for receptions at the same moment; see `_settled`.
    """

    station: str
    words: Words
    race: int | None = None


@dataclass(frozen=True, slots=True)
class ExpectedBody:
    """Fields that every message of one uplink through one station should have."""

    dev_eui: str
    f_cnt: int
    station: str
    body: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Heard:
    """One reception as it left the tap towards the network server, with its outcome.

    The outcome has the word of level 2 where what is due names one.
    """

    station: str
    frame_id: str | None
    xtime: int | None
    t_us: int
    outcome: Words | None = None
    level2: str = ABSENT


@dataclass(slots=True)
class Evidence:
    """One case. `heard` and `expected` are keyed by frame_id, lines by DevEUI.

    `stalls_us`: how late the host woke, each time that it did while the case was open.
    """

    names: dict[str, str] = field(default_factory=dict)
    expected: dict[str, list[Expected]] = field(default_factory=lambda: defaultdict(list))
    expected_lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    expected_bodies: list["ExpectedBody"] = field(default_factory=list)
    expected_on_air: dict[str, list[str]] = field(default_factory=dict)
    expected_statuses: dict[str, int] = field(default_factory=dict)
    expected_evictions: int | None = None
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    receptions: list[Heard] = field(default_factory=list)
    outcomes: list[Event] = field(default_factory=list)
    surplus_outcomes: list[Event] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    forged: set[str] = field(default_factory=set)
    published: list[dict[str, Any]] = field(default_factory=list)
    statuses: dict[str, set[str]] = field(default_factory=lambda: defaultdict(set))
    downlinks: list[Event] = field(default_factory=list)
    handed_over_to: set[str] = field(default_factory=set)
    on_air: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    dnmsgs: list[tuple[str, int]] = field(default_factory=list)
    diids: list[tuple[str, int]] = field(default_factory=list)  # of what answers no uplink
    link_lost_us: dict[str, int] = field(default_factory=dict)
    lns_restarted_us: int | None = None
    answers: Answers = field(default_factory=Answers)
    evictions: int = 0
    effects: Effects = field(default_factory=Effects)
    lns_restarts: int = 0
    stalls_us: list[int] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)  # (owner, reason)
    found: list[tuple[str, str]] = field(default_factory=list)  # (owner, text)
    error: str | None = None
    error_owner: str = "bench"

    @property
    def heard(self) -> dict[str, list[Heard]]:
        """The receptions of each frame in order of arrival."""
        by_frame: defaultdict[str, list[Heard]] = defaultdict(list)
        for reception in self.receptions:
            if reception.frame_id is not None:
                by_frame[reception.frame_id].append(reception)
        return by_frame

    @property
    def expects_anything(self) -> bool:
        """Whether the scenario said anything of what was due."""
        return bool(
            self.expected
            or self.expected_lines
            or self.expected_bodies
            or self.expected_on_air
            or self.expected_statuses
            or self.expected_evictions is not None
            or self.answers.due
            or self.effects.due
        )

    def name(self, station: str) -> str:
        """The name of a station for people."""
        return self.names.get(station, station)

    def is_blind(self, station: str, t_us: int) -> bool:
        """Whether the tap may not have seen what was said to a station then.

        Its link was lost, or a network server ended, before or while that was on its way.
        """
        lost_us = self.link_lost_us.get(station), self.lns_restarted_us
        return any(at_us is not None and at_us <= t_us + UNDER_WAY_US for at_us in lost_us)

    def answered(self, dev_eui: str) -> bool:
        """Whether the network server handed a station any downlink for this device."""
        return dev_eui in self.handed_over_to

    @classmethod
    def of(cls, events: Sequence[Event]) -> "Evidence":
        """Read the events of one case, in order of time."""
        evidence = cls()
        for event in events:
            if event["kind"] == HOST_STALLED:
                evidence.stalls_us.append(event["late_us"])
                continue
            read = _READERS.get(event["kind"])
            if read is not None:
                read(evidence, event)
        evidence._pair()
        evidence._ask_level2()
        heard = evidence.heard
        for frame_id, rows in evidence.expected.items():
            evidence.expected[frame_id] = _settled(rows, heard.get(frame_id, []))
        return evidence

    def _pair(self) -> None:
        """Give each reception its outcome: same station and xtime, in order."""
        waiting: defaultdict[tuple[str, Any], list[Event]] = defaultdict(list)
        for outcome in self.outcomes:
            waiting[outcome["station"], outcome.get("xtime")].append(outcome)
        for index, reception in enumerate(self.receptions):
            queue = waiting[reception.station, reception.xtime]
            if queue:
                event = queue.pop(0)
                told, level2 = _words(event), event.get("level2", ABSENT)
                self.receptions[index] = replace(reception, outcome=told, level2=level2)
        self.surplus_outcomes = [outcome for queue in waiting.values() for outcome in queue]

    def _ask_level2(self) -> None:
        """Let an outcome tell its word of level 2 where the row that is due there has one."""
        turns: Counter[str | None] = Counter()
        for index, heard in enumerate(self.receptions):
            rows = self.expected.get(heard.frame_id or "", ())
            turn, turns[heard.frame_id] = turns[heard.frame_id], turns[heard.frame_id] + 1
            asked = turn < len(rows) and rows[turn].words.level2 != ABSENT
            if asked and heard.outcome is not None:
                told = replace(heard.outcome, level2=heard.level2)
                self.receptions[index] = replace(heard, outcome=told)


def _settled(rows: Sequence[Expected], heard: Sequence[Heard]) -> list[Expected]:
    """What is due of one frame, each race with the stations and words that it came out with.

    Whichever station came first, and whichever got which of the words, is right: the receptions of
    a race, in order of their words, get the words that are due, in order too. Without the stations
    of the race at its places nothing is settled, and the rows stand as they were written.
    """
    settled = list(rows)
    places_of: defaultdict[int, list[int]] = defaultdict(list)
    for place, row in enumerate(rows):
        if row.race is not None:
            places_of[row.race].append(place)
    for places in places_of.values():
        ran = [heard[place].station for place in places if place < len(heard)]
        if sorted(ran) != sorted(rows[place].station for place in places):
            continue
        by_words = sorted(places, key=lambda place: str(heard[place].outcome or ""))
        due = sorted((rows[place].words for place in places), key=str)
        for place, words in zip(by_words, due, strict=True):
            settled[place] = replace(rows[place], station=heard[place].station, words=words)
    return settled


def _words(event: Event) -> Words:
    return Words(
        event.get("status", ABSENT),
        event["upstream"],
        event.get("reason", ABSENT),
        event["answer"],
    )


def _read_expect(evidence: Evidence, event: Event) -> None:
    match event["expect"]:
        case "device":
            evidence.expected_lines[event["dev_eui"]].append(event["line"])
        case "upstream":
            which = event["dev_eui"], event["f_cnt"], event["station"]
            evidence.expected_bodies.append(ExpectedBody(*which, event["body"]))
        case "status":
            evidence.expected_statuses[event["dev_eui"]] = event["count"]
        case "on_air":
            evidence.expected_on_air[event["frame_id"]] = event["windows"]
        case "effect" | "ignored":
            evidence.effects.expect(event)
        case "evicted":
            evidence.expected_evictions = event["count"]
        case "answer":
            evidence.answers.expect(event)
        case _:
            words = replace(_words(event), level2=event.get("level2", ABSENT))
            row = Expected(event["station"], words, event.get("race"))
            evidence.expected[event["frame_id"]].append(row)


def _read_text(evidence: Evidence, event: Event) -> None:
    if event["direction"] == "down":
        _read_dnmsg(evidence, event)
        return
    if event.get("dropped"):
        return
    uplink = uplink_of(event["station"], event["t_us"], 0, event["text"])
    if uplink is not None:
        evidence.receptions.append(
            Heard(uplink.station, uplink.frame_id, uplink.xtime, event["t_us"])
        )
        evidence.answers.uplinks[uplink.station, uplink.xtime] = uplink.frame_id
        return
    if is_reception(event["text"]):
        evidence.receptions.append(Heard(event["station"], None, None, event["t_us"]))


def _read_dnmsg(evidence: Evidence, event: Event) -> None:
    fields = json_of(event["text"])
    if fields is None or fields.get("msgtype") != "dnmsg":
        return
    dev_eui = eui_of(fields.get("DevEui", fields.get("DevEUI")))
    if dev_eui is not None:
        evidence.handed_over_to.add(dev_eui)
    evidence.answers.read(event["station"], fields)
    if isinstance(fields.get("xtime"), int):  # also of a downlink that no station could read
        evidence.dnmsgs.append((event["station"], fields["xtime"]))
    elif isinstance(fields.get("diid"), int):
        evidence.diids.append((event["station"], fields["diid"]))


def _read_link(evidence: Evidence, event: Event) -> None:
    evidence.link_lost_us.setdefault(event["station"], event["t_us"])


def _read_transmit(evidence: Evidence, event: Event) -> None:
    if event["direction"] == "up":
        (evidence.sent if event["genuine"] else evidence.forged).add(event["frame_id"])


def _read_downlink(evidence: Evidence, event: Event) -> None:
    if event["stage"] == "scheduled":
        evidence.downlinks.append(event)
    else:
        evidence.on_air[event.get("frame_id", "")].append(event["window"])


def _read_evicted(evidence: Evidence, event: Event) -> None:
    evidence.evictions += 1


def _read_line(evidence: Evidence, event: Event) -> None:
    evidence.lines[event["dev_eui"]].append(without_signal(event["text"]))


def _read_lns(evidence: Evidence, event: Event) -> None:
    if event["event"] == "restart":
        evidence.lns_restarts += 1
        evidence.lns_restarted_us = evidence.lns_restarted_us or event["t_us"]


def _read_end(evidence: Evidence, event: Event) -> None:
    if event["verdict"] == "ERROR":
        evidence.error = "; ".join(event["reasons"]) or "the bench failed"
        evidence.error_owner = event.get("owner", "bench")


def _read_status(evidence: Evidence, event: Event) -> None:
    body = event["body"]
    evidence.statuses[body.get("devEui", "")].add(body.get("messageId", ""))


_READERS: dict[str, Callable[[Evidence, Event], None]] = {
    "case.expect": _read_expect,
    "case.station": lambda evidence, event: evidence.names.update({event["eui"]: event["name"]}),
    "case.lns": _read_lns,
    "case.end": _read_end,
    "device.line": _read_line,
    "station.text": _read_text,
    LINK: _read_link,
    "radio.transmit": _read_transmit,
    "lns.outcome": lambda evidence, event: evidence.outcomes.append(event),
    "lns.downlink": _read_downlink,
    "lns.evicted": _read_evicted,
    "application.effect": lambda evidence, event: evidence.effects.read(event),
    "inbox.ignored": lambda evidence, event: evidence.effects.read(event),
    "stimulus.missed": lambda ev, event: ev.missed.append((event["owner"], event["reason"])),
    "case.finding": lambda ev, event: ev.found.append((event["owner"], event["text"])),
    "upstream.status": _read_status,
    "upstream.published": lambda evidence, event: evidence.published.append(event["body"]),
}
