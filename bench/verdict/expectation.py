"""What is due, what was there, and what verdict follows?

Expectations are data: the words of one reception in the order station, status, upstream with its
reason, answer ("east Duplicate dropped(Duplicate) Suppressed"), and the word of level 2 where that
is due ("west NonDuplicate forwarded RX1 Owner"). A verdict is a reading of the
events of one case and of nothing else; the Spark score of the same events gives the same one.
"""

import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import cycle, pairwise, zip_longest

from bench.capture.reading import Event
from bench.verdict.evidence import (
    ABSENT,
    NO_LINK,
    TOO_LATE_RULE,
    Evidence,
    Heard,
    Words,
    without_signal,
)
from bench.verdict.owner import ScenarioMistake, not_there
from lns.dedup.claim import Level2
from lns.dedup.strategy import Reason, Status, Strategy, Upstream
from lns.downlink.receive_window import Answer


# Conservation laws over what the parties wrote independently of each other: the tap what stations
# delivered, the network server what became of it, the application what it got, the air what was
# sent. A violation is a finding whatever the scenario expected.
@dataclass(frozen=True, slots=True)
class Violation:
    """One law that does not hold, with the facts that break it."""

    rule: str
    text: str

    def __str__(self) -> str:
        return f"{self.rule}: {self.text}"


def violations(evidence: Evidence) -> list[Violation]:
    """Every violation of a conservation law in one case, whose lines are all there."""
    laws = (
        _one_outcome_per_reception,
        _forwarded_means_published,
        _one_answer_per_reception,
        _scheduled_means_handed_over,
        _answer_through_the_station_that_heard_it,
        _nothing_accepted_that_nobody_sent,
        _no_downlink_counter_twice,
    )
    return [Violation(rule, text) for law in laws for rule, text in law(evidence)]


Broken = Iterator[tuple[str, str]]


def _one_outcome_per_reception(evidence: Evidence) -> Broken:
    rule = "one outcome per reception"
    for reception in evidence.receptions:
        if reception.outcome is None:
            name = evidence.name(reception.station)
            yield rule, f"{reception.frame_id or 'unreadable'} through {name} has no outcome"
    for outcome in evidence.surplus_outcomes:
        frame = outcome.get("frame_id", "unreadable")
        yield rule, f"{frame}: an outcome without a reception at {outcome['station']}"


def _forwarded_means_published(evidence: Evidence) -> Broken:
    rule = "forwarded means published"
    owed: Counter[tuple[str | None, str, int | None, bool]] = Counter()
    for outcome in evidence.outcomes:
        if outcome["upstream"] != "dropped":
            marked = outcome["upstream"] == "marked"
            key = (outcome.get("dev_eui"), outcome["station"], outcome.get("f_cnt"), marked)
            owed[key] += 1
    got = Counter(
        (body.get("devEui"), body.get("station", ""), body.get("fCnt"), body.get("dupMsg", False))
        for body in evidence.published
    )
    for key in sorted(owed.keys() | got.keys(), key=str):
        if owed[key] != got[key]:
            dev_eui, station, f_cnt, marked = key
            what = "marked" if marked else "unmarked"
            yield (
                rule,
                (
                    f"{dev_eui} FCnt {f_cnt} through {evidence.name(station)}:"
                    f" {owed[key]} {what} by outcome, {got[key]} published"
                ),
            )
    for message_id, used_us in evidence.ids_us.items():
        # A frame that level 1 forgot may be accepted once more, under its name.
        times = 1 + sum(b - a < evidence.retention_us for a, b in pairwise(used_us))
        if times > 1 and not evidence.lns_restarts:
            yield rule, f"message id {message_id} was used {times} times"


def _one_answer_per_reception(evidence: Evidence) -> Broken:
    rule = "one answer per reception"
    owed: Counter[tuple[str, int | None]] = Counter(
        (outcome["station"], outcome.get("xtime"))
        for outcome in evidence.outcomes
        if outcome["answer"] in ("RX1", "RX2")
    )
    sent: Counter[tuple[str, int | None]] = Counter(
        (event["station"], event["xtime"]) for event in evidence.downlinks if "xtime" in event
    )
    at_the_tap: Counter[tuple[str, int | None]] = Counter(evidence.dnmsgs)
    told_us = {
        (outcome["station"], outcome.get("xtime")): outcome["t_us"] for outcome in evidence.outcomes
    }
    for key in sorted(owed.keys() | sent.keys() | at_the_tap.keys(), key=str):
        unseen = at_the_tap[key] < owed[key] and not evidence.is_blind(key[0], told_us[key])
        if owed[key] != sent[key] or at_the_tap[key] > owed[key] or unseen:
            yield (
                rule,
                (
                    f"{evidence.name(key[0])} at xtime {key[1]}: {owed[key]} by outcome,"
                    f" {sent[key]} scheduled, {at_the_tap[key]} passed the tap"
                ),
            )


def _scheduled_means_handed_over(evidence: Evidence) -> Broken:
    rule = "scheduled means handed over"
    downlinks = [event for event in evidence.downlinks if "xtime" not in event]
    told_us = {(event["station"], event["diid"]): event["t_us"] for event in downlinks}
    scheduled = Counter((event["station"], event["diid"]) for event in downlinks)
    seen = Counter(evidence.diids)
    for key in sorted(scheduled.keys() | seen.keys()):
        unseen = seen[key] < scheduled[key] and not evidence.is_blind(key[0], told_us[key])
        if seen[key] > scheduled[key] or unseen:
            yield (
                rule,
                (
                    f"{evidence.name(key[0])}: downlink {key[1]} was scheduled"
                    f" {scheduled[key]} times and reached the tap {seen[key]} times"
                ),
            )


def _answer_through_the_station_that_heard_it(evidence: Evidence) -> Broken:
    heard = {(reception.station, reception.xtime) for reception in evidence.receptions}
    for station, xtime in evidence.dnmsgs:
        if (station, xtime) not in heard:
            yield (
                "answer through the station that heard it",
                (
                    f"a downlink for xtime {xtime}, which this station never reported"
                    f" ({evidence.name(station)})"
                ),
            )


def _nothing_accepted_that_nobody_sent(evidence: Evidence) -> Broken:
    for outcome in evidence.outcomes:
        if outcome["upstream"] != "dropped" and outcome.get("frame_id") not in evidence.sent:
            yield (
                "nothing accepted that nobody sent",
                f"{outcome.get('frame_id', 'unreadable')} went upstream and no device sent it",
            )


def _no_downlink_counter_twice(evidence: Evidence) -> Broken:
    used: defaultdict[tuple[str, str | None], int] = defaultdict(lambda: -1)
    for event in evidence.downlinks:
        if "f_cnt_down" not in event:
            continue
        session = (event["dev_eui"], event.get("dev_addr"))
        if event["f_cnt_down"] <= used[session]:
            yield (
                "no downlink counter twice",
                f"{session[0]}: FCntDown {event['f_cnt_down']} after {used[session]}",
            )
        used[session] = max(used[session], event["f_cnt_down"])


EUI_DIGITS = 16
HOST_STALL_MAX_US = 50_000  # a longer one may have made a device, a station or a server late


class Result(StrEnum):
    """The word of a verdict. A pass needs a delivered stimulus."""

    PASS = "PASS"
    FAIL = "FAIL"
    INCONCLUSIVE = "INCONCLUSIVE"
    ERROR = "ERROR"


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdict of one case: whose it is where it is not a PASS, and every reason for it."""

    result: Result
    owner: str | None = None
    reasons: tuple[str, ...] = ()

    def __str__(self) -> str:
        owner = f" ({self.owner})" if self.owner else ""
        return f"{self.result}{owner}" + "".join(f"\n  {reason}" for reason in self.reasons)


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

    The status is "-" where level 1 is not reached.
    """
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


def judge(events: Sequence[Event]) -> Verdict:
    """The verdict of one case from its events alone, and the stalls of the host while it was open.

    A reception that was due and not delivered makes the case INCONCLUSIVE unless something that
    was delivered is wrong; a case that expects nothing proves nothing and is an ERROR. What is
    wrong while the host stalled proves nothing either: a slow machine is no failing network server.
    A stimulus that the bench itself saw not come about proves nothing at all.
    Whether all lines of the case are there, `bench.capture.wholeness` says.
    """
    evidence = Evidence.of(events)
    wrong_words, doubts = _compare(evidence)
    # What is wrong before the antenna comes first: what a device then does is no fault of its own.
    failures = [*evidence.found, *wrong_words]
    failures += [("LNS", str(violation)) for violation in violations(evidence)]
    failures += _missing_lines(evidence)
    failures += _wrong_bodies(evidence)
    failures += _wrong_windows(evidence)
    failures += [("LNS", wrong) for wrong in evidence.answers.wrong()]
    failures += _wrong_evictions(evidence)
    failures += _wrong_statuses(evidence)
    failures += [("application", wrong) for wrong in evidence.effects.wrong()]
    failures += _unprovoked(evidence)
    if evidence.missed:
        owner, reasons = evidence.missed[0][0], [*evidence.missed, *failures, *doubts]
        return Verdict(Result.INCONCLUSIVE, owner, tuple(reason for _, reason in reasons))
    stall_us = max(evidence.stalls_us, default=0)
    if failures and stall_us > HOST_STALL_MAX_US:
        stalled = ("bench", f"host stalled {(stall_us + 500) // 1000} ms")
        failures, doubts = [], [stalled, *failures, *doubts]
    if failures:
        return Verdict(Result.FAIL, failures[0][0], tuple(reason for _, reason in failures))
    if evidence.error is not None:
        return Verdict(Result.ERROR, evidence.error_owner, (evidence.error,))
    if not evidence.expects_anything:
        return Verdict(Result.ERROR, "bench", ("the scenario expects nothing",))
    if doubts:
        return Verdict(Result.INCONCLUSIVE, doubts[0][0], tuple(reason for _, reason in doubts))
    return Verdict(Result.PASS)


def unreached(events: Sequence[Event], *, is_stuck: bool = False) -> str | None:
    """Why a case that went wrong proves nothing: what was to reach a network server did not.

    None where something that did reach one is wrong, or where stations had no link although nobody
    had disturbed anything: that may be the doing of the server. `is_stuck`: the case went no
    further; a join request that was lost is reason enough then.
    """
    evidence = Evidence.of(events)
    is_disturbed = any(event["kind"] == "fault.begin" for event in events)
    if not is_disturbed and any(event.get("cause") == NO_LINK for event in events):
        return None
    wrong_words, _ = _compare(evidence)
    if evidence.found or wrong_words or _wrong_bodies(evidence) or violations(evidence):
        return None
    if evidence.sent and not evidence.receptions:
        return "nothing that was sent has reached a network server"
    heard = evidence.heard
    lost = _lost_joins(events, heard) if is_stuck else []
    if lost:
        return f"the join request {lost[0]} has not reached a network server"
    for frame_id, rows in evidence.expected.items():
        for n, (row, reception) in enumerate(zip_longest(rows, heard.get(frame_id, ()))):
            if row is not None and (reception is None or reception.station != row.station):
                name = evidence.name(row.station)
                return f"{frame_id} #{n} has not reached a network server through {name}"
    return None


def _lost_joins(events: Sequence[Event], heard: Mapping[str, object]) -> list[str]:
    newest: dict[str, str] = {}
    for event in events:
        if event["kind"] != "radio.transmit" or event.get("origin") != "device":
            continue
        frame_id = event.get("frame_id", "")
        if event["direction"] == "up" and len(frame_id.partition(":")[0]) == EUI_DIGITS:
            newest[event["dev_eui"]] = frame_id
    return [frame_id for frame_id in newest.values() if frame_id not in heard]


Reasons = list[tuple[str, str]]  # (owner, reason)


def _compare(evidence: Evidence) -> tuple[Reasons, Reasons]:
    failures: Reasons = []
    doubts: Reasons = []
    heard = evidence.heard
    for frame_id, rows in evidence.expected.items():
        pairs = zip_longest(rows, heard.get(frame_id, []))
        for n, (row, reception) in enumerate(pairs):
            if row is None:
                assert reception is not None
                name = evidence.name(reception.station)
                doubts.append(("air", f"{frame_id} #{n}: {name} heard it and was not to"))
            elif reception is None or reception.station != row.station:
                got = "nobody" if reception is None else evidence.name(reception.station)
                doubts.append(
                    (
                        "air",
                        f"{frame_id} #{n}: {evidence.name(row.station)} was to hear it, {got} did",
                    )
                )
            else:
                failures += _wrong_words(evidence, frame_id, n, row.words, reception)
    return failures, doubts


def _wrong_words(
    evidence: Evidence, frame_id: str, n: int, expected: Words, reception: Heard
) -> Reasons:
    where = f"{frame_id} #{n} through {evidence.name(reception.station)}"
    if reception.outcome is None:
        return [("LNS", f"{where}: no outcome, expected {expected}")]
    if reception.outcome != expected:
        return [("LNS", f"{where}: expected {expected}, observed {reception.outcome}")]
    return []


def _missing_lines(evidence: Evidence) -> Reasons:
    reasons: Reasons = []
    for dev_eui, lines in evidence.expected_lines.items():
        observed = iter(evidence.lines.get(dev_eui, ()))
        for line in lines:
            if without_signal(line) not in observed:  # consumes up to the match: the order counts
                owner = "device" if evidence.answered(dev_eui) else "LNS"
                reasons.append((owner, f"device {dev_eui} did not say {line!r}"))
    return reasons


def _wrong_bodies(evidence: Evidence) -> Reasons:
    reasons: Reasons = []
    for due in evidence.expected_bodies:
        which = due.dev_eui, due.f_cnt, due.station
        for body in evidence.published:
            if (body.get("devEui"), body.get("fCnt"), body.get("station")) != which:
                continue
            for name, value in due.body.items():
                if body.get(name) != value:
                    where = f"message {body.get('messageId')} through {evidence.name(due.station)}"
                    told = f"expected {name} {value!r}, observed {body.get(name)!r}"
                    reasons.append(("LNS", f"{where}: {told}"))
    return reasons


def _wrong_windows(evidence: Evidence) -> Reasons:
    reasons: Reasons = []
    for frame_id, due in evidence.expected_on_air.items():
        observed = evidence.on_air.get(frame_id, [])
        if observed != due:
            said = ", ".join(observed) or "none"
            wanted = ", ".join(due) or "none"
            difference = f"expected {wanted}, observed {said}"
            reasons.append(("gateway", f"answers to {frame_id} on the air: {difference}"))
    return reasons


def _wrong_evictions(evidence: Evidence) -> Reasons:
    due, evicted = evidence.expected_evictions, evidence.evictions
    if due is None or due == evicted:
        return []
    return [("LNS", f"frames forgotten too early: expected {due}, observed {evicted}")]


def _unprovoked(evidence: Evidence) -> Reasons:
    """Findings that a scenario was to bring about, of those that one can see without the score."""
    return [
        ("bench", f"{evidence.name(due.station)}: expected the finding {due.rule}, observed none")
        for due in evidence.expected_findings
        if due.rule == TOO_LATE_RULE and due not in evidence.provoked
    ]


def _wrong_statuses(evidence: Evidence) -> Reasons:
    return [
        ("LNS", f"status of {dev_eui}: expected {due} times, observed {heard} times")
        for dev_eui, due in evidence.expected_statuses.items()
        if (heard := len(evidence.statuses.get(dev_eui, ()))) != due
    ]


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
