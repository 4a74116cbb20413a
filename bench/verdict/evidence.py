"""The events of one case, put in order: who sent, who heard, what was said about it.

Reads the capture lines only, with the station's own spelling of a frame; it asks the network
server nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from bench.capture.reading import HOST_STALLED, Event
from bench.verdict.wire import eui_of, is_reception, json_of, uplink_of

_SIGNAL = re.compile(r"^(\+EVT:RX_[0-9A-Z]+):-?[0-9]+:-?[0-9]+:")


def without_signal(line: str) -> str:
    """What a device says of a downlink is due without RSSI and SNR: nobody can know them before.

    `+EVT:RX_1:-71:9:UNICAST:7:c0ffee` -> `+EVT:RX_1:UNICAST:7:c0ffee`; any other line as it is.
    """
    return _SIGNAL.sub(r"\1:", line)


# Read from the `dnmsg` at the tap byte by byte, not with the codec of the server that wrote it:
#
#     | MHDR 1 | DevAddr 4 | FCtrl 1 | FCnt 2 | FOpts 0..15 | FPort 0/1 | FRMPayload 0.. | MIC 4 |
Said = dict[str, int | bool | None]

_OF_THE_MESSAGE = {
    "rctx": "rctx",
    "rx_delay_s": "RxDelay",
    "rx1_dr": "RX1DR",
    "rx1_freq_hz": "RX1Freq",
    "rx2_dr": "RX2DR",
    "rx2_freq_hz": "RX2Freq",
}
_OF_THE_FRAME = ("f_cnt", "ack", "f_pending", "f_opts_bytes", "f_port", "confirmed")
ANSWER_FIELDS = (*_OF_THE_FRAME, *_OF_THE_MESSAGE)

_UNCONFIRMED_DOWN, _CONFIRMED_DOWN = 3, 5
_ACK, _F_PENDING, _F_OPTS_LEN = 0x20, 0x10, 0x0F


def answer_of(dnmsg: dict[str, Any]) -> Said:
    """What a `dnmsg` says, by the names of `ANSWER_FIELDS`; of a join accept only the windows."""
    said: Said = {name: dnmsg.get(key) for name, key in _OF_THE_MESSAGE.items()}
    try:
        pdu = bytes.fromhex(dnmsg.get("pdu", ""))
    except (TypeError, ValueError):
        return said
    if len(pdu) < 12 or pdu[0] >> 5 not in (_UNCONFIRMED_DOWN, _CONFIRMED_DOWN):
        return said
    port_at = 8 + (pdu[5] & _F_OPTS_LEN)
    return said | {
        "f_cnt": int.from_bytes(pdu[6:8], "little"),
        "ack": bool(pdu[5] & _ACK),
        "f_pending": bool(pdu[5] & _F_PENDING),
        "f_opts_bytes": pdu[5] & _F_OPTS_LEN,
        "f_port": pdu[port_at] if len(pdu) > port_at + 4 else None,
        "confirmed": pdu[0] >> 5 == _CONFIRMED_DOWN,
    }


@dataclass(slots=True)
class Answers:
    """What was due in answer to the frames of one case, and what was said, in order.

    `uplinks`: which frame a station told of at which `xtime`.
    """

    due: list[tuple[str, int, Said]] = field(default_factory=list)
    said: list[tuple[str, int, Said]] = field(default_factory=list)
    uplinks: dict[tuple[str, int | None], str] = field(default_factory=dict)

    def expect(self, event: Event) -> None:
        self.due.append((event["frame_id"], event["n"], event["body"]))

    def read(self, station: str, dnmsg: dict[str, Any]) -> None:
        if isinstance(dnmsg.get("xtime"), int):
            self.said.append((station, dnmsg["xtime"], answer_of(dnmsg)))

    def wrong(self) -> list[str]:
        answers: defaultdict[str, list[Said]] = defaultdict(list)
        for station, xtime, said in self.said:
            frame_id = self.uplinks.get((station, xtime))
            if frame_id is not None:
                answers[frame_id].append(said)
        return [
            f"answer {n} to {frame_id}: {difference}"
            for frame_id, n, due in self.due
            for difference in _differences(due, answers[frame_id][n : n + 1])
        ]


def _differences(due: Said, answer: Sequence[Said]) -> list[str]:
    if not answer:
        return ["none was sent"]
    [said] = answer
    return [
        f"expected {name} {_word(value)}, observed {_word(said.get(name))}"
        for name, value in due.items()
        if said.get(name) != value
    ]


def _word(value: int | bool | None) -> str:
    return "null" if value is None else str(value).lower()


# Written from what consumers said of their decisions and what the application has in the end; the
# network server is not asked. A message belongs to the uplink that its id names.
_MESSAGE_ID = re.compile(
    r"([0-9A-F]{16})-([0-9A-F]{8})(?:\.[0-9]+)?-([0-9]+)(?:\.[0-9A-F]{8})?(?:-[0-9A-F]{16}-[0-9]+)?"
)


@dataclass(frozen=True, slots=True)
class Which:
    """The messages of an uplink, copies included, or the one message with this id."""

    dev_eui: str | None = None
    dev_addr: str | None = None
    f_cnt: int | None = None
    message_id: str | None = None

    @classmethod
    def of(cls, event: Event) -> "Which":
        names = "dev_eui", "dev_addr", "f_cnt", "message_id"
        return cls(*(event.get(name) for name in names))

    def fits(self, message_id: str) -> bool:
        if self.message_id is not None:
            return message_id == self.message_id
        found = _MESSAGE_ID.fullmatch(message_id)
        if found is None:
            return False
        dev_eui, dev_addr, f_cnt = found.groups()
        return (dev_eui, dev_addr, int(f_cnt)) == (self.dev_eui, self.dev_addr, self.f_cnt)

    def __str__(self) -> str:
        if self.message_id is not None:
            return f"message {self.message_id}"
        return f"{self.dev_eui} FCnt {self.f_cnt}"


@dataclass(frozen=True, slots=True)
class Due:
    """How many effects, or duplicates ignored `by` a detector; consumer None: of all together."""

    which: Which
    count: int
    consumer: str | None = None
    by: str | None = None


@dataclass(slots=True)
class Effects:
    """What was due at the consumers of one case, and what was there, as (consumer, id, by)."""

    due: list[Due] = field(default_factory=list)
    observed: list[tuple[str, str, str | None]] = field(default_factory=list)

    def expect(self, event: Event) -> None:
        facts = Which.of(event), event["count"], event.get("consumer"), event.get("by")
        self.due.append(Due(*facts))

    def read(self, event: Event) -> None:
        self.observed.append((event["consumer"], event["message_id"], event.get("by")))

    def wrong(self) -> list[str]:
        return [
            f"{'effects' if due.by is None else f'{due.by} duplicates'} of {due.which}"
            f" at {due.consumer or 'all consumers'}: expected {due.count}, observed {count}"
            for due in self.due
            if (count := self._count(due)) != due.count
        ]

    def _count(self, due: Due) -> int:
        return sum(
            by == due.by and due.consumer in (None, consumer) and due.which.fits(message_id)
            for consumer, message_id, by in self.observed
        )


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


TOO_LATE_RULE = "too late"
"""The rule of a station that could not answer several times in a row."""


@dataclass(frozen=True, slots=True)
class Provoked:
    """A finding of the report, about one station, that a scenario brings about."""

    owner: str
    rule: str
    station: str


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
    expected_findings: list[Provoked] = field(default_factory=list)
    provoked: set[Provoked] = field(default_factory=set)
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    receptions: list[Heard] = field(default_factory=list)
    outcomes: list[Event] = field(default_factory=list)
    surplus_outcomes: list[Event] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    forged: set[str] = field(default_factory=set)
    published: list[dict[str, Any]] = field(default_factory=list)
    ids_us: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When each message id was used; not of unverified messages: another server sends them too."""
    retention_us: int = 60_000_000
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
        by_frame: defaultdict[str, list[Heard]] = defaultdict(list)
        for reception in self.receptions:
            if reception.frame_id is not None:
                by_frame[reception.frame_id].append(reception)
        return by_frame

    @property
    def expects_anything(self) -> bool:
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
        waiting: defaultdict[tuple[str, Any], list[Event]] = defaultdict(list)
        for outcome in self.outcomes:
            waiting[outcome["station"], outcome.get("xtime")].append(outcome)
        for index, reception in enumerate(self.receptions):
            queue = waiting[reception.station, reception.xtime]
            if queue:
                event = queue.pop(0)
                words, level2 = _words(event), event.get("level2", ABSENT)
                self.receptions[index] = replace(reception, outcome=words, level2=level2)
        self.surplus_outcomes = [outcome for queue in waiting.values() for outcome in queue]

    def _ask_level2(self) -> None:
        turns: Counter[str | None] = Counter()
        for index, heard in enumerate(self.receptions):
            rows = self.expected.get(heard.frame_id or "", ())
            turn, turns[heard.frame_id] = turns[heard.frame_id], turns[heard.frame_id] + 1
            asked = turn < len(rows) and rows[turn].words.level2 != ABSENT
            if asked and heard.outcome is not None:
                outcome = replace(heard.outcome, level2=heard.level2)
                self.receptions[index] = replace(heard, outcome=outcome)


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
        case "finding":
            due = Provoked(event["owner"], event["rule"], event["station"])
            evidence.expected_findings.append(due)
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


def _read_too_late(evidence: Evidence, event: Event) -> None:
    if event["stage"] == "going on":
        evidence.provoked.add(Provoked("gateway", TOO_LATE_RULE, event["station"]))


def _read_evicted(evidence: Evidence, event: Event) -> None:
    evidence.evictions += 1


def _read_line(evidence: Evidence, event: Event) -> None:
    evidence.lines[event["dev_eui"]].append(without_signal(event["text"]))


def _read_published(evidence: Evidence, event: Event) -> None:
    body = event["body"]
    evidence.published.append(body)
    if not body.get("unverified", False):
        evidence.ids_us[body.get("messageId", "")].append(event["t_us"])


def _read_lns(evidence: Evidence, event: Event) -> None:
    evidence.retention_us = event.get("retention_us", evidence.retention_us)
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
    "lns.too_late": _read_too_late,
    "application.effect": lambda evidence, event: evidence.effects.read(event),
    "inbox.ignored": lambda evidence, event: evidence.effects.read(event),
    "stimulus.missed": lambda ev, event: ev.missed.append((event["owner"], event["reason"])),
    "case.finding": lambda ev, event: ev.found.append((event["owner"], event["text"])),
    "upstream.status": _read_status,
    "upstream.published": _read_published,
}
