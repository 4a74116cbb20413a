"""What is due of one case, and what was there: who sent, who heard, what was said about it?

Expectations are data: the words of one reception in the order station, status, upstream with its
reason, answer ("east Duplicate dropped(Duplicate) Suppressed"), and the word of level 2 where that
is due ("west NonDuplicate forwarded RX1 Owner"). Evidence is read from the capture lines only, with
the station's own spelling of a frame; the network server is asked nothing.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import cycle
from typing import Any

from bench.capture.reading import HOST_STALLED, Event
from bench.verdict.owner import FINDING, SURE, ScenarioMistake, not_there
from bench.verdict.wire import eui_of, is_reception, json_of, reception_in
from lns.dedup.claim import Level2
from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.lorawan.region import Answer

ABSENT = "-"
NO_LINK = "no link"
"""Why a tap dropped a text: it had nobody to give it to."""
LINK = "station.link"
"""What a tap tells of the link to a network server: it was refused, or the server closed it."""
UNDER_WAY_US = 1_000_000
"""How long what a network server has said may be on its way to the tap of a station."""
Reasons = list[tuple[str, str]]  # (owner, reason)


@dataclass(frozen=True, slots=True)
class Words:
    """The words of an outcome; "-" where one is absent, or of no interest as `level2` may be."""

    status: str
    upstream: str
    reason: str
    answer: str
    level2: str = ABSENT

    def __str__(self) -> str:
        if self == NOTHING:
            return _NOTHING
        reason = "" if self.reason == ABSENT else f"({self.reason})"
        level2 = "" if self.level2 == ABSENT else f" {self.level2}"
        return f"{self.status} {self.upstream}{reason} {self.answer}{level2}"


_NOTHING = "no outcome"
NOTHING = Words(ABSENT, ABSENT, ABSENT, ABSENT)
"""What is due of a reception over which the server is ended."""


@dataclass(frozen=True, slots=True)
class Due:
    """The expected words of one reception of a frame, through the station of that name."""

    station: str
    words: Words


Row = tuple[Words, ...]


Key = tuple[str, str]  # (strategy, kind)


class Table:
    """Expected words by strategy and kind of frame, as text.

    A column is one reception of the frame; the head names its role ("first", "copy", "again"), in
    the order in which the network server hears them. `*` stands for every strategy or kind; the
    kinds are confirmed, unconfirmed and join. ValueError names what cannot be read, so a misspelt
    word is found before anything runs. Tables are put together: `FIRST + COPY * 2`.

        strategy kind        | first                       | copy
        Drop     confirmed   | NonDuplicate forwarded RX1  | Duplicate dropped(Duplicate) Suppressed
    """

    def __init__(self, text: str) -> None:
        head, *lines = [line for line in text.strip().splitlines() if line.strip()]
        self._roles = tuple(cell.strip() for cell in head.split("|")[1:])
        self._rows: dict[Key, Row] = {}
        for line in lines:
            which, *cells = (cell.strip() for cell in line.split("|"))
            if len(cells) != len(self._roles):
                raise ValueError(f"{line!r}: {len(self._roles)} roles, {len(cells)} cells")
            row = tuple(words(cell) for cell in cells)
            self._rows |= dict.fromkeys(_keys(which), row)

    def __add__(self, other: "Table") -> "Table":
        shared = [key for key in self._rows if key in other._rows]
        rows = {key: self._rows[key] + other._rows[key] for key in shared}
        return _table(self._roles + other._roles, rows)

    def __mul__(self, times: int) -> "Table":
        return _table(self._roles * times, {key: row * times for key, row in self._rows.items()})

    def only(self, role: str) -> "Table":
        column = self._column(role)
        return _table((role,), {key: (row[column],) for key, row in self._rows.items()})

    def again(self, role: str, new_role: str) -> "Table":
        """This table and one more reception like `role`, named `new_role`."""
        column = self._column(role)
        rows = {key: (*row, row[column]) for key, row in self._rows.items()}
        return _table((*self._roles, new_role), rows)

    def _column(self, role: str) -> int:
        if role not in self._roles:
            raise not_there("role", role, dict.fromkeys(self._roles))
        return self._roles.index(role)

    def row(
        self, strategy: Strategy, kind: str, stations: Mapping[str, str | tuple[str, ...]]
    ) -> tuple[Due, ...]:
        """What is due; a role played by several stations goes round them.

        ScenarioMistake when the table has no such row, or nobody plays a role.
        """
        for role in stations:
            self._column(role)
        for role in self._roles:
            if not stations.get(role):
                raise ScenarioMistake(f'role {role!r} is bound to no station: add {role}="west"')
        players = {
            role: cycle((station,) if isinstance(station, str) else station)
            for role, station in stations.items()
        }
        row = self._row(strategy, kind)
        return tuple(
            Due(next(players[role]), due) for role, due in zip(self._roles, row, strict=True)
        )

    def _row(self, strategy: Strategy, kind: str) -> Row:
        row = self._rows.get((strategy.value, kind))
        if row is None:
            rows = ", ".join(" ".join(key) for key in self._rows)
            raise ScenarioMistake(
                f"the table has no row for {strategy.value} {kind}; it has {rows}"
            )
        return row

    def race(self, strategy: Strategy, kind: str, stations: Sequence[str]) -> tuple[Due, ...]:
        """What is due when stations deliver at one moment, each column for any one of them.

        ScenarioMistake where there is no such row, ValueError where there are not as many stations
        as columns, or only some columns name a word of level 2.
        """
        row = self._row(strategy, kind)
        if len(set(stations)) != len(stations) or len(stations) != len(row):
            said = ", ".join(stations)
            raise ValueError(f"a race of {len(row)} needs as many stations, not {said or 'none'}")
        if len({words.level2 == ABSENT for words in row}) > 1:
            raise ValueError("in a race either every column names a word of level 2, or none does")
        return tuple(map(Due, stations, row))


def _table(roles: tuple[str, ...], rows: dict[Key, Row]) -> Table:
    table = Table.__new__(Table)
    table._roles = roles
    table._rows = rows
    return table


_WORDS = re.compile(r"(\S+)\s+(\w+)(?:\((\w+)\))?\s+(\w+)(?:\s+(\w+))?")


def words(text: str) -> Words:
    """Read "status upstream(reason) answer", and a word of level 2 if there is one.

    The status is "-" where level 1 is not reached. "no outcome" is due where the server is ended.
    """
    if text.strip() == _NOTHING:
        return NOTHING
    found = _WORDS.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not 'status upstream(reason) answer'")
    status, upstream, reason, answer, level2 = found.groups(default=ABSENT)
    _check(status, {ABSENT, *Status}, "status", text)
    _check(upstream, set(Upstream), "upstream", text)
    _check(reason, {ABSENT, *Reason}, "reason", text)
    _check(answer, set(Answer), "answer", text)
    _check(level2, {ABSENT, *Level2}, "word of level 2", text)
    return Words(status, upstream, reason, answer, level2)


def _keys(which: str) -> Iterable[tuple[str, str]]:
    strategy, _, kind = which.partition(" ")
    kinds = {"*": ["confirmed", "unconfirmed", "join"]}.get(kind.strip(), [kind.strip()])
    if strategy != "*":
        _check(strategy, set(Strategy), "strategy", which)
    strategies = list(Strategy) if strategy == "*" else [Strategy(strategy)]
    for kind_ in kinds:
        _check(kind_, {"confirmed", "unconfirmed", "join"}, "kind", which)
    return [(strategy_.value, kind_) for strategy_ in strategies for kind_ in kinds]


def _check(word: str, known: set[str], what: str, text: str) -> None:
    if word not in known:
        raise ValueError(f"{text!r}: {word!r} is no {what}; known: {', '.join(sorted(known))}")


_SIGNAL = re.compile(r"^(\+EVT:RX_[0-9A-Z]+):-?[0-9]+:-?[0-9]+:")


def without_signal(line: str) -> str:
    """What a device says of a downlink is due without RSSI and SNR: nobody can know them before.

    `+EVT:RX_1:-71:9:UNICAST:7:c0ffee` -> `+EVT:RX_1:UNICAST:7:c0ffee`; any other line as it is.
    """
    return _SIGNAL.sub(r"\1:", line)


@dataclass(frozen=True, slots=True)
class Expected:
    """One `case.expect` row of a frame, in order of arrival at the network server.

    Rows with the same number `race` stand for receptions at the same moment; see `_settled`.
    """

    station: str
    words: Words
    race: int | None = None


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

    @property
    def without_mic(self) -> str:
        """DevAddr and 16 bits of the counter; nothing of what cannot be read."""
        return (self.frame_id or "").rpartition(":")[0]


@dataclass(slots=True)
class Evidence:
    """One case. `heard` and `expected` are keyed by frame_id, lines by DevEUI.

    `particulars`: the rows of what else is due (`bench.verdict.particulars`). `stalls_us`: how late
    the host woke, each time that it did while the case was open.
    """

    names: dict[str, str] = field(default_factory=dict)
    expected: dict[str, list[Expected]] = field(default_factory=lambda: defaultdict(list))
    expected_lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    particulars: list[Event] = field(default_factory=list)
    lines: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    receptions: list[Heard] = field(default_factory=list)
    outcomes: list[Event] = field(default_factory=list)
    surplus_outcomes: list[Event] = field(default_factory=list)
    sent: set[str] = field(default_factory=set)
    forged: set[str] = field(default_factory=set)
    published: list[dict[str, Any]] = field(default_factory=list)
    ids_us: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    """When each message id was used; not of unverified messages: another server sends them too."""
    parked_us: dict[str, int] = field(default_factory=dict)
    """When servers have put a message aside last, by its id, until a person lets it go."""
    retention_us: int = 60_000_000
    downlinks: list[Event] = field(default_factory=list)
    handed_over: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    on_air: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    dnmsgs: list[tuple[str, int]] = field(default_factory=list)
    diids: list[tuple[str, int]] = field(default_factory=list)  # of what answers no uplink
    links_lost_us: dict[str, list[int]] = field(default_factory=lambda: defaultdict(list))
    cut: set[str] = field(default_factory=set)
    """The stations that a scenario has cut off: no link of theirs ends with its server."""
    is_forgotten: bool = False
    """Whether a store has lost everything: whose a frame is, another server may be told."""
    lns_killed_us: list[int] = field(default_factory=list)
    upstream_late_us: int = 0
    """How long a scenario has let a message wait for its outbox or its disk, at most."""
    lns_restarted_us: int | None = None
    lns_restarts: int = 0
    stalls_us: list[int] = field(default_factory=list)
    missed: list[tuple[str, str]] = field(default_factory=list)  # (owner, reason)
    found: list[tuple[str, str]] = field(default_factory=list)  # (owner, text)
    sure: list[tuple[str, str]] = field(default_factory=list)  # those of them that no stall excuses
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
        return bool(self.expected or self.expected_lines) or any(
            row["expect"] != "finding" for row in self.particulars
        )

    def unsaid(self) -> dict[str, list[str]]:
        """What each device was to say and did not; no entry for who has said it all.

        Lines are due in order: after one that is missing nothing is found.
        """
        missing: dict[str, list[str]] = {}
        for dev_eui, due in self.expected_lines.items():
            said = iter(self.lines.get(dev_eui, ()))
            for line in due:
                if without_signal(line) not in said:
                    missing.setdefault(dev_eui, []).append(line)
        return missing

    def name(self, station: str) -> str:
        return self.names.get(station, station)

    def is_blind(self, station: str, t_us: int) -> bool:
        """Whether the tap may not have seen what was said to a station then.

        Its link was lost, or a network server ended, before or while that was on its way.
        """
        lost_us = [*self.links_lost_us.get(station, ())[:1], self.lns_restarted_us]
        return any(at_us is not None and at_us <= t_us + UNDER_WAY_US for at_us in lost_us)

    @property
    def cut_short(self) -> list[Heard]:
        """The receptions without an outcome over which a scenario may have ended the server.

        Its message may be out by then, and so may its answer. When a station tells the same text
        again, nobody knows which of them has no outcome. A copy waits until its first one is
        delivered, and then for its own delivery.
        """
        within_us = UNDER_WAY_US + 2 * self.upstream_late_us
        since_us: dict[tuple[str, int | None], int] = {}
        cut_short: list[Heard] = []
        for one in self.receptions if self.lns_restarts else ():
            first_us = since_us.setdefault((one.station, one.xtime), one.t_us)
            lost_us = [*self.links_lost_us.get(one.station, ())]
            lost_us += self.lns_killed_us if one.station in self.cut else ()
            was_ended = any(first_us <= at_us <= one.t_us + within_us for at_us in lost_us)
            cut_short += [one] if one.outcome is None and was_ended else []
        return cut_short

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
                self.receptions[index] = Heard(
                    reception.station, reception.frame_id, reception.xtime, reception.t_us,
                    _words(event), event.get("level2", ABSENT),
                )  # fmt: skip
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


def _words(event: Event, level2: str = ABSENT) -> Words:
    return Words(
        event.get("status", ABSENT),
        event["upstream"],
        event.get("reason", ABSENT),
        event["answer"],
        level2,
    )


def _read_expect(evidence: Evidence, event: Event) -> None:
    match event["expect"]:
        case "device":
            evidence.expected_lines[event["dev_eui"]].append(event["line"])
        case "outcome":
            words = _words(event, event.get("level2", ABSENT))
            row = Expected(event["station"], words, event.get("race"))
            evidence.expected[event["frame_id"]].append(row)
        case _:
            evidence.particulars.append(event)


def _read_text(evidence: Evidence, event: Event) -> None:
    if event["direction"] == "down":
        _read_dnmsg(evidence, event)
        return
    if event.get("dropped"):
        return
    station, told = event["station"], reception_in(event["text"])
    if told is not None:
        evidence.receptions.append(Heard(station, told.frame_id, told.xtime, event["t_us"]))
    elif is_reception(event["text"]):
        evidence.receptions.append(Heard(station, None, None, event["t_us"]))


def _read_dnmsg(evidence: Evidence, event: Event) -> None:
    fields = json_of(event["text"])
    if fields is None or fields.get("msgtype") != "dnmsg":
        return
    dev_eui = eui_of(fields.get("DevEui", fields.get("DevEUI")))
    if dev_eui is not None:
        evidence.handed_over.setdefault(dev_eui, []).append(fields)
    if isinstance(fields.get("xtime"), int):  # also of a downlink that no station could read
        evidence.dnmsgs.append((event["station"], fields["xtime"]))
    elif isinstance(fields.get("diid"), int):
        evidence.diids.append((event["station"], fields["diid"]))


def _read_link(evidence: Evidence, event: Event) -> None:
    evidence.links_lost_us[event["station"]].append(event["t_us"])


def _read_fault(evidence: Evidence, event: Event) -> None:
    match event["seam"], event["fault"]:
        case "upstream", "delay":
            evidence.upstream_late_us = max(evidence.upstream_late_us, event["detail"]["us"])
        case "store", "slow disk":
            evidence.upstream_late_us = max(evidence.upstream_late_us, event["detail"]["after_us"])
        case "store", "restart" if event["detail"]["empty"]:
            evidence.is_forgotten = True
        case "tap", "cut":
            evidence.cut.add(event["station"])


def _read_transmit(evidence: Evidence, event: Event) -> None:
    if event["direction"] == "up":
        (evidence.sent if event["genuine"] else evidence.forged).add(event["frame_id"])


def _read_downlink(evidence: Evidence, event: Event) -> None:
    if event["stage"] == "scheduled":
        evidence.downlinks.append(event)
    else:
        evidence.on_air[event.get("frame_id", "")].append(event["window"])


def _read_line(evidence: Evidence, event: Event) -> None:
    evidence.lines[event["dev_eui"]].append(without_signal(event["text"]))


def _read_published(evidence: Evidence, event: Event) -> None:
    body = event["body"]
    evidence.published.append(body)
    if not body.get("unverified", False):
        evidence.ids_us[body.get("messageId", "")].append(event["t_us"])


def _read_lns(evidence: Evidence, event: Event) -> None:
    evidence.retention_us = event.get("retention_us", evidence.retention_us)
    if event["event"] == "kill":
        evidence.lns_killed_us.append(event["t_us"])
    if event["event"] == "restart":
        evidence.lns_restarts += 1
        evidence.lns_restarted_us = evidence.lns_restarted_us or event["t_us"]


def _read_end(evidence: Evidence, event: Event) -> None:
    if event["verdict"] == "ERROR":
        evidence.error = "; ".join(event["reasons"]) or "the bench failed"
        evidence.error_owner = event.get("owner", "bench")


def _read_finding(evidence: Evidence, event: Event) -> None:
    found = (event["owner"], event["text"])
    evidence.found.append(found)
    if event["rule"] in SURE:
        evidence.sure.append(found)


_READERS: dict[str, Callable[[Evidence, Event], None]] = {
    "case.expect": _read_expect,
    "case.station": lambda evidence, event: evidence.names.update({event["eui"]: event["name"]}),
    "case.lns": _read_lns,
    "case.end": _read_end,
    "device.line": _read_line,
    "station.text": _read_text,
    LINK: _read_link,
    "fault.begin": _read_fault,
    "radio.transmit": _read_transmit,
    "lns.outcome": lambda evidence, event: evidence.outcomes.append(event),
    "lns.downlink": _read_downlink,
    "stimulus.missed": lambda ev, event: ev.missed.append((event["owner"], event["reason"])),
    "upstream.parked": lambda evidence, event: evidence.parked_us.update(
        {event["message_id"]: event["t_us"]}
    ),
    FINDING: _read_finding,
    "upstream.published": _read_published,
}
