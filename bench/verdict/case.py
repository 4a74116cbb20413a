"""One case: its lines in the capture, and the verdict they add up to."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import pairwise, zip_longest
from operator import itemgetter
from typing import Any, Protocol

from bench.capture.reading import Event, contents
from bench.verdict.expectation import ABSENT, NO_LINK, NOTHING, Due, Evidence, Heard, Reasons, Words
from bench.verdict.owner import FINDING, SURE_STALL_MAX_US, Found
from bench.verdict.particulars import ANSWER_FIELDS, may_be_said, wrong_bodies, wrong_particulars
from lns.lorawan.identifiers import Eui
from lns.uplink.registry import EndDevice


@dataclass(frozen=True, slots=True)
class Title:
    case: str
    scenario: str
    file: str
    group: str
    title: str
    strategy: str | None = None
    confirmed: bool | None = None
    attempt: int = 1
    params: dict[str, str] = field(default_factory=dict)


class StimulusMissed(Exception):
    """What a scenario set up did not come about; `owner` is who is the reason: air, gateway, …"""

    def __init__(self, owner: str, reason: str) -> None:
        super().__init__(reason)
        self.owner = owner


def fault_fields(
    seam: str,
    fault: str,
    detail: Mapping[str, object],
    *,
    server: str | None = None,
    station: str | None = None,
) -> dict[str, object]:
    """What `fault.begin` and `fault.end` say; `server` and `station`: who alone meets it."""
    fields: dict[str, object] = {"seam": seam, "fault": fault}
    fields |= {} if station is None else {"station": station}
    fields["origin"] = "injected"
    fields |= {} if server is None else {"lns": server}
    return fields | {"detail": dict(detail)}


class Book(Protocol):
    """Where a case writes its lines: a capture, or what keeps them for one."""

    def record(
        self, source: str, kind: str, fields: dict[str, object], *, t_us: int | None = None
    ) -> dict[str, object]: ...

    def flush(self) -> None: ...


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


class Case:
    """Records the events of one case, into a capture and for the verdict.

    Every line names the case, so that cases may run side by side. What is recorded before `begin`
    is written right after it. `repeated`: it is over, and another attempt follows.
    """

    def __init__(self, title: Title, book: Book, *, rig: str) -> None:
        self.title = title
        self._book = book
        self.rig = rig
        self._events: list[Event] = []
        self._early: list[tuple[str, str, dict[str, object]]] = []
        self._begun = False
        self._rows: dict[str, int] = {}
        self._answers: dict[str, int] = {}
        self._races = 0
        self._numbers: dict[str, tuple[int, int]] = {}
        self.repeated = False

    def record(self, source: str, kind: str, fields: dict[str, object]) -> None:
        if self._begun:
            self._write(source, kind, fields, None)
        else:
            self._early.append((source, kind, fields))

    def collect(self, event: Event) -> None:
        """Write an event that another process has written already, as of its own time."""
        self._write(event["source"], event["kind"], contents(event), event["t_us"])

    def witness(self, event: Event) -> None:
        """Judge by an event too that concerns every case there is; it has been written."""
        if self._begun:
            self._events.append(event)

    def fault(self, seam: str, fault: str, kind: str = "fault.begin", **detail: object) -> None:
        """Tell of a fault that the bench injects."""
        self.record("bench", kind, fault_fields(seam, fault, detail))

    def _write(self, source: str, kind: str, fields: dict[str, object], t_us: int | None) -> None:
        fields = {"case": self.title.case, **fields}
        written: Event = self._book.record(source, kind, fields, t_us=t_us)
        self._events.append(written)
        count, _ = self._numbers.get(source, (0, 0))
        self._numbers[source] = count + 1, written["seq"]

    @property
    def events(self) -> Sequence[Event]:
        """The events of this case so far, as they were written."""
        return self._events

    def begin(self) -> None:
        """Open the case; only once, however often it is asked for."""
        if self._begun:
            return
        self._begun = True
        title = self.title
        fields: dict[str, object] = {
            "scenario": title.scenario,
            "file": title.file,
            "group": title.group,
            "title": title.title,
            "rig": self.rig,
            "params": title.params,
        }
        if title.strategy is not None:
            fields["strategy"] = title.strategy
        if title.confirmed is not None:
            fields["confirmed"] = title.confirmed
        self.record("bench", "case.begin", fields)
        early, self._early = self._early, []
        for event in early:
            self.record(*event)

    def device(
        self,
        device: EndDevice,
        *,
        f_cnt_up: int | None,
        f_cnt_down: int = 0,
        only_at: str | None = None,
    ) -> None:
        """Tell the facts of a device that a score needs; no keys."""
        fields: dict[str, Any] = {
            "dev_eui": device.dev_eui,
            "name": device.name,
            "activation": device.activation,
            "strategy": device.strategy,
            "lorawan": device.lorawan,
            "relaxed_f_cnt": device.relaxed_f_cnt,
            "f_cnt_bits": device.f_cnt_bits,
            "nb_trans": device.nb_trans,
        }
        optional = {
            "join_eui": device.join_eui,
            "dev_addr": device.dev_addr,
            "server": device.server,
            "only_at": only_at,
            "dev_status_s": device.dev_status_s,
            "join_nonce_min": device.join_nonce_min if device.join_nonce_min > 1 else None,
            "f_cnt_up": f_cnt_up,
            "f_cnt_down": f_cnt_down or None,
        }
        fields |= {name: value for name, value in optional.items() if value is not None}
        self._fact("case.device", fields)

    def station(self, eui: Eui, name: str) -> None:
        self._fact("case.station", {"eui": eui, "name": name})

    def lns(self, lns: str, event: str, **facts: object) -> None:
        self._fact("case.lns", {"lns": lns, "event": event, **facts})

    def expect_outcome(
        self, frame_id: str, station: Eui, due: Due, *, race: int | None = None
    ) -> None:
        """Expect the words of the next reception of a frame, in order of arrival at the LNS."""
        n = self._rows.get(frame_id, 0)
        self._rows[frame_id] = n + 1
        words = due.words
        fields: dict[str, object] = {
            "expect": "outcome",
            "frame_id": frame_id,
            "n": n,
            "station": station,
            "status": words.status,
            "upstream": words.upstream,
            "reason": words.reason,
            "answer": words.answer,
        }
        if words.level2 != ABSENT:
            fields["level2"] = words.level2
        if race is not None:
            fields["race"] = race
        self._fact("case.expect", fields)

    def expect_race(self, frame_id: str, due: Mapping[Eui, Due]) -> None:
        """Expect stations to deliver a frame at one moment, each with the words of any of them."""
        self._races += 1
        for station, one in due.items():
            self.expect_outcome(frame_id, station, one, race=self._races)

    def expect_line(self, dev_eui: Eui, line: str) -> None:
        """Expect a device to say something, after what it was expected to say before.

        RSSI and SNR of a downlink may be left out: `without_signal`.
        """
        self.expect("device", dev_eui=dev_eui, line=line)

    def expect(self, what: str, **facts: object) -> None:
        """Expect a particular, such as "status" or "effect" (`bench.verdict.particulars`)."""
        self._fact("case.expect", {"expect": what, **facts})

    def expect_answer(self, frame_id: str, said: Mapping[str, int | bool | None]) -> None:
        """Expect the next answer to a frame to say this, by the names of `ANSWER_FIELDS`."""
        unknown = sorted(set(said) - set(ANSWER_FIELDS))
        if unknown:
            raise ValueError(f"no answer says {', '.join(unknown)}; {', '.join(ANSWER_FIELDS)}")
        n = self._answers.get(frame_id, 0)
        self._answers[frame_id] = n + 1
        self.expect("answer", frame_id=frame_id, n=n, body=dict(said))

    def missed(self, owner: str, reason: str) -> None:
        """Note that something did not come about that the scenario builds on."""
        self._fact("stimulus.missed", {"owner": owner, "reason": reason})

    def find(self, *all_found: Found) -> None:
        """Note what the bench itself has found wrong; it decides the verdict."""
        for found in all_found:
            self._fact(FINDING, found.fields())

    def end(
        self,
        error: str | None = None,
        *,
        owner: str = "bench",
        repeated: Callable[[Verdict], bool] = lambda verdict: False,
    ) -> Verdict:
        """Judge and close the case; `error` is what kept the bench from running it, and whose.

        What went wrong because nothing reached a network server is a stimulus that was missed.
        Marked as `repeated` when that says that another attempt follows. What the case has written
        until then is in the operating system's hands, and counted in `books`.
        """
        self.begin()
        if error is not None and (owner_missed := self._missed_by) is not None:
            self.missed(owner_missed, f"then: {error}")  # it has broken nothing that it met whole
            error = None
        verdict = self._judged(error, owner)
        went_wrong = verdict.result is Result.FAIL or error is not None
        why = unreached(self.in_order(), is_stuck=error is not None) if went_wrong else None
        if why is not None:
            self.missed("air", why if error is None else f"{why}; then: {error}")
            verdict = self._judged(None, owner)
        fields: dict[str, object] = {
            "verdict": verdict.result,
            "reasons": list(verdict.reasons),
            "attempt": self.title.attempt,
        }
        self.repeated = repeated(verdict)
        if self.repeated:
            fields["repeated"] = True
        if verdict.owner is not None:
            fields["owner"] = verdict.owner
        fields["books"] = [
            {"source": source, "lines": count, "last_seq": last_seq}
            for source, (count, last_seq) in sorted(self._numbers.items())
        ]
        self._fact("case.end", fields)
        self._book.flush()
        return verdict

    @property
    def _missed_by(self) -> str | None:
        """Who has kept the case from proving anything before it was over."""
        missed = (event["owner"] for event in self._events if event["kind"] == "stimulus.missed")
        return next(missed, None)

    def _judged(self, error: str | None, owner: str) -> Verdict:
        verdict = judge(self.in_order())
        if error is None:
            return verdict
        if verdict.result is Result.FAIL:
            return replace(verdict, reasons=(*verdict.reasons, f"besides: {error}"))
        return Verdict(Result.ERROR, owner, (error,))

    def in_order(self) -> list[Event]:
        """The events of this case so far, in order of time."""
        return sorted(self._events, key=itemgetter("t_us", "source", "seq"))

    def _fact(self, kind: str, fields: dict[str, object]) -> None:
        self.record("bench", kind, fields)


EUI_DIGITS = 16
HOST_STALL_MAX_US = 50_000  # a longer one may have made a device, a station or a server late


def judge(events: Sequence[Event]) -> Verdict:
    """The verdict of one case from its events alone, and the stalls of the host while it was open.

    A reception that was due and not delivered makes the case INCONCLUSIVE unless something that
    was delivered is wrong; a case that expects nothing proves nothing and is an ERROR. What is
    wrong while the host stalled proves nothing either: a slow machine is no failing network server;
    but who has ended, was silent for many seconds or says what is no text is no victim of a moment.
    A stimulus that the bench itself saw not come about proves nothing at all.
    Whether all lines of the case are there, `bench.capture.wholeness` says.
    """
    evidence = Evidence.of(events)
    wrong_words, doubts = _compare(evidence)
    # What is wrong before the antenna comes first: what a device then does is no fault of its own.
    failures = [*evidence.found, *wrong_words]
    failures += [("LNS", violation) for violation in violations(evidence)]
    failures += _missing_lines(evidence)
    if evidence.particulars:
        failures += wrong_particulars(evidence, events)
    if evidence.missed:
        owner, reasons = evidence.missed[0][0], [*evidence.missed, *failures, *doubts]
        return Verdict(Result.INCONCLUSIVE, owner, _each_once(reasons))
    stall_us = max(evidence.stalls_us, default=0)
    if evidence.sure and HOST_STALL_MAX_US < stall_us <= SURE_STALL_MAX_US:
        failures = evidence.sure
    elif failures and stall_us > HOST_STALL_MAX_US:
        stalled = ("bench", f"host stalled {(stall_us + 500) // 1000} ms")
        failures, doubts = [], [stalled, *failures, *doubts]
    if failures:
        return Verdict(Result.FAIL, failures[0][0], _each_once(failures))
    if evidence.error is not None:
        return Verdict(Result.ERROR, evidence.error_owner, (evidence.error,))
    if doubts:
        return Verdict(Result.INCONCLUSIVE, doubts[0][0], _each_once(doubts))
    if not evidence.expects_anything:
        return Verdict(Result.ERROR, "bench", ("the scenario expects nothing",))
    return Verdict(Result.PASS)


def _each_once(reasons: Reasons) -> tuple[str, ...]:
    """What was found again and again in the same words is one reason, with how often."""
    often = Counter(reason for _, reason in reasons)
    return tuple(text if n == 1 else f"{text} ({n} times)" for text, n in often.items())


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
    if evidence.found or wrong_words or wrong_bodies(evidence) or violations(evidence):
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
    if reception.outcome is None and expected != NOTHING:
        return [("LNS", f"{where}: no outcome, expected {expected}")]
    if reception.outcome not in (None, expected):
        return [("LNS", f"{where}: expected {expected}, observed {reception.outcome}")]
    return []


def _missing_lines(evidence: Evidence) -> Reasons:
    reasons: Reasons = []
    for dev_eui, lines in evidence.unsaid().items():
        for line in lines:
            had_cause = may_be_said(line, evidence.handed_over.get(dev_eui, ()))
            owner = "device" if had_cause else "LNS"
            reasons.append((owner, f"device {dev_eui} did not say {line!r}"))
    return reasons


# Conservation laws over what the parties wrote independently of each other: the tap what stations
# delivered, the network server what became of it, the application what it got, the air what was
# sent. A violation is a finding whatever the scenario expected.
def violations(evidence: Evidence) -> list[str]:
    """Each law that does not hold in one case, whose lines are all there, and what breaks it."""
    return [f"{law}: {text}" for law, broken in _LAWS.items() for text in broken(evidence)]


def _one_outcome_per_reception(evidence: Evidence) -> Iterator[str]:
    cut_short = evidence.cut_short
    for one in evidence.receptions:
        if one.outcome is None and one not in cut_short:
            through = evidence.name(one.station)
            yield f"{one.frame_id or 'unreadable'} through {through} has no outcome"
    for row in evidence.surplus_outcomes:
        frame, station = row.get("frame_id", "unreadable"), row["station"]
        yield f"{frame}: an outcome without a reception at {station}"


def is_all_published(events: Sequence[Event]) -> bool:
    """Whether the application has all that network servers have forwarded in a case so far."""
    return not any(_forwarded_means_published(Evidence.of(events)))


def _forwarded_means_published(evidence: Evidence) -> Iterator[str]:
    owed = Counter[_Published](
        (one.get("dev_eui"), one["station"], one.get("f_cnt"), one["upstream"] == "marked")
        for one in evidence.outcomes
        if one["upstream"] != "dropped"
    )
    unsaid = Counter((one.station, one.without_mic) for one in evidence.cut_short)
    got, may_be = Counter[_Published](), Counter[_Published]()
    for body in evidence.published:
        station, f_cnt = body.get("station", ""), body.get("fCnt")
        key = (body.get("devEui"), station, f_cnt, body.get("dupMsg", False))
        got[key] += 1
        frame = f"{body.get('devAddr')}:{f_cnt & 0xFFFF if isinstance(f_cnt, int) else ''}"
        may_be[key] = unsaid[station, frame]
    # What is put aside may be on its way: it comes now, when it is released, or both, or never.
    came = {one: (us, evidence.ids_us.get(one, [-1])) for one, us in evidence.parked_us.items()}
    never = Counter(_frame_of(one) for one, (us, came_us) in came.items() if max(came_us) < us)
    again = Counter(_frame_of(one) for one, (_, came_us) in came.items() if len(came_us) > 1)
    for key in sorted(owed.keys() | got.keys(), key=str):
        dev_eui, station, f_cnt, marked = key
        left, frame = never if owed[key] > got[key] else again, f"{dev_eui} {f_cnt}"
        missed = max(0, owed[key] - got[key], got[key] - owed[key] - may_be[key])
        excused = min(missed, left[frame])
        left[frame] -= excused
        if missed > excused:
            what = "marked" if marked else "unmarked"
            yield (
                f"{dev_eui} FCnt {f_cnt} through {evidence.name(station)}:"
                f" {owed[key]} {what} by outcome, {got[key]} published"
            )
    for message_id, used_us in evidence.ids_us.items():
        # A frame that level 1 forgot may be accepted once more, under its name.
        times = 1 + sum(b - a < evidence.retention_us for a, b in pairwise(used_us))
        if times > 1 and not (evidence.lns_restarts or evidence.is_forgotten):
            yield f"message id {message_id} was used {times} times"


_Published = tuple[str | None, str, int | None, bool]  # DevEUI, station, FCnt, whether it is marked
_MESSAGE = re.compile(r"([0-9A-F]{16})-[0-9A-F]{8}(?:\.[0-9]+)?-([0-9]+)")


def _frame_of(message_id: str) -> str:
    """DevEUI and counter in the id of a message; nothing of what a device said of itself."""
    found = _MESSAGE.match(message_id)
    return f"{found[1]} {found[2]}" if found and not message_id.endswith("-status") else ""


def _one_answer_per_reception(evidence: Evidence) -> Iterator[str]:
    owed: Counter[tuple[str, int | None]] = Counter(
        (outcome["station"], outcome.get("xtime"))
        for outcome in evidence.outcomes
        if outcome["answer"] in ("RX1", "RX2")
    )
    sent: Counter[tuple[str, int | None]] = Counter(
        (event["station"], event["xtime"]) for event in evidence.downlinks if "xtime" in event
    )
    at_the_tap: Counter[tuple[str, int | None]] = Counter(evidence.dnmsgs)
    told_us = {(one["station"], one.get("xtime")): one["t_us"] for one in evidence.outcomes}
    cut_short = {(one.station, one.xtime) for one in evidence.cut_short}
    for key in sorted((owed.keys() | sent.keys() | at_the_tap.keys()) - cut_short, key=str):
        unseen = at_the_tap[key] < owed[key] and not evidence.is_blind(key[0], told_us[key])
        if owed[key] != sent[key] or at_the_tap[key] > owed[key] or unseen:
            yield (
                f"{evidence.name(key[0])} at xtime {key[1]}: {owed[key]} by outcome,"
                f" {sent[key]} scheduled, {at_the_tap[key]} passed the tap"
            )


def _scheduled_means_handed_over(evidence: Evidence) -> Iterator[str]:
    downlinks = [event for event in evidence.downlinks if "xtime" not in event]
    told_us = {(event["station"], event["diid"]): event["t_us"] for event in downlinks}
    scheduled = Counter((event["station"], event["diid"]) for event in downlinks)
    seen = Counter(evidence.diids)
    for key in sorted(scheduled.keys() | seen.keys()):
        unseen = seen[key] < scheduled[key] and not evidence.is_blind(key[0], told_us[key])
        if seen[key] > scheduled[key] or unseen:
            yield (
                f"{evidence.name(key[0])}: downlink {key[1]} was scheduled"
                f" {scheduled[key]} times and reached the tap {seen[key]} times"
            )


def _answer_through_the_station_that_heard_it(evidence: Evidence) -> Iterator[str]:
    heard = {(reception.station, reception.xtime) for reception in evidence.receptions}
    for station, xtime in evidence.dnmsgs:
        if (station, xtime) not in heard:
            name = evidence.name(station)
            yield f"a downlink for xtime {xtime}, which this station never reported ({name})"


def _nothing_accepted_that_nobody_sent(evidence: Evidence) -> Iterator[str]:
    for outcome in evidence.outcomes:
        if outcome["upstream"] != "dropped" and outcome.get("frame_id") not in evidence.sent:
            yield f"{outcome.get('frame_id', 'unreadable')} went upstream and no device sent it"


def _no_downlink_counter_twice(evidence: Evidence) -> Iterator[str]:
    """Each server keeps its own order, where no application lets it wait and no store forgets."""
    if evidence.is_forgotten:
        return
    used: defaultdict[tuple[str, str | None], dict[str, list[int]]] = defaultdict(dict)
    for event in evidence.downlinks:
        session, f_cnt = (event["dev_eui"], event.get("dev_addr")), event.get("f_cnt_down")
        if f_cnt is None:
            continue
        own = used[session].setdefault(event.get("lns", ""), [])
        is_behind = f_cnt < max(own, default=0) and not evidence.upstream_late_us
        if is_behind or any(f_cnt in one for one in used[session].values()):
            yield f"{session[0]}: FCntDown {f_cnt} after {max([f_cnt, *own])}"
        own.append(f_cnt)


_LAWS: Mapping[str, Callable[[Evidence], Iterator[str]]] = {
    "one outcome per reception": _one_outcome_per_reception,
    "forwarded means published": _forwarded_means_published,
    "one answer per reception": _one_answer_per_reception,
    "scheduled means handed over": _scheduled_means_handed_over,
    "answer through the station that heard it": _answer_through_the_station_that_heard_it,
    "nothing accepted that nobody sent": _nothing_accepted_that_nobody_sent,
    "no downlink counter twice": _no_downlink_counter_twice,
}
