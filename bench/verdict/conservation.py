"""Do the books of a case balance?

Conservation laws over what the parties wrote independently of each other: the tap what stations
delivered, the network server what became of it, the application what it got, the air what was
sent. A violation is a finding whatever the scenario expected.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass

from bench.verdict.evidence import Evidence


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
    # Unverified: nobody could say whether another server delivers the same message.
    verified = [body for body in evidence.published if not body.get("unverified", False)]
    for message_id, times in Counter(body.get("messageId") for body in verified).items():
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
