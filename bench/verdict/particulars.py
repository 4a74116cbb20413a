"""What may be due of a case besides words and lines, and was it there?

Bodies of messages, windows and answers octet by octet, evictions, statuses, effects at consumers,
findings on purpose: what few scenarios expect is looked for only where it is due.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.capture.reading import Event
from bench.verdict.expectation import Evidence, Reasons
from bench.verdict.wire import json_of

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


_OF_PORT = re.compile(r"(?:UNICAST:|PORT: )([0-9]+)")
_ACKNOWLEDGED = ("SEND_CONFIRMED_OK", "ACK Received")
_OF_ITSELF = ("TX_DONE", "MSG: Done")


def may_be_said(line: str, dnmsgs: Sequence[dict[str, Any]]) -> bool:
    """Whether a device has a reason to say a line: one of these downlinks to it can be why.

    What it says of a port, or of an acknowledgement, has been sent to it; for any other line a
    downlink is enough. That its windows are over it says whatever it hears.
    """
    port = _OF_PORT.search(line)
    return line.endswith(_OF_ITSELF) or any(
        (port is None or said.get("f_port") == int(port[1]))
        and (said.get("ack") is True or not line.endswith(_ACKNOWLEDGED))
        for said in map(answer_of, dnmsgs)
    )


def _differences(due: Said, answers: Sequence[Said]) -> list[str]:
    if not answers:
        return ["none was sent"]
    said = answers[0]
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


TOO_LATE_RULE = "too late"
"""The rule of a station that could not answer several times in a row."""


def wrong_particulars(evidence: Evidence, events: Sequence[Event]) -> Reasons:
    """What is wrong of the particulars that are due in a case with these events."""
    due: defaultdict[str, list[Event]] = defaultdict(list)
    for row in evidence.particulars:
        due[row["expect"]].append(row)
    return [
        *wrong_bodies(evidence),
        *_wrong_windows(due["on_air"], evidence),
        *_wrong_answers(due["answer"], evidence, events),
        *_wrong_evictions(due["evicted"], events),
        *_wrong_statuses(due["status"], events),
        *wrong_effects(evidence, events),
        *_unprovoked(due["finding"], evidence, events),
    ]


def wrong_bodies(evidence: Evidence) -> Reasons:
    """Messages of the application whose fields are not as they are due."""
    reasons: Reasons = []
    for due in evidence.particulars:
        if due["expect"] != "upstream":
            continue
        which = due["dev_eui"], due["f_cnt"], due["station"]
        for body in evidence.published:
            if (body.get("devEui"), body.get("fCnt"), body.get("station")) != which:
                continue
            where = f"message {body.get('messageId')} through {evidence.name(due['station'])}"
            for name, value in due["body"].items():
                if body.get(name) != value:
                    told = f"expected {name} {value!r}, observed {body.get(name)!r}"
                    reasons.append(("LNS", f"{where}: {told}"))
    return reasons


def _wrong_windows(rows: Sequence[Event], evidence: Evidence) -> Reasons:
    reasons: Reasons = []
    for frame_id, due in {row["frame_id"]: row["windows"] for row in rows}.items():
        observed = evidence.on_air.get(frame_id, [])
        if observed != due:
            said = ", ".join(observed) or "none"
            wanted = ", ".join(due) or "none"
            difference = f"expected {wanted}, observed {said}"
            reasons.append(("gateway", f"answers to {frame_id} on the air: {difference}"))
    return reasons


def _wrong_answers(rows: Sequence[Event], evidence: Evidence, events: Sequence[Event]) -> Reasons:
    told = {(heard.station, heard.xtime): heard.frame_id for heard in evidence.receptions}
    answers: defaultdict[str | None, list[Said]] = defaultdict(list)
    for event in events if rows else ():
        if event["kind"] == "station.text" and event["direction"] == "down":
            fields = json_of(event["text"])
            if fields is None or fields.get("msgtype") != "dnmsg":
                continue
            if isinstance(fields.get("xtime"), int):
                frame_id = told.get((event["station"], fields["xtime"]))
                answers[frame_id].append(answer_of(fields))
    return [
        ("LNS", f"answer {row['n']} to {row['frame_id']}: {difference}")
        for row in rows
        for difference in _differences(row["body"], answers[row["frame_id"]][row["n"] :])
    ]


def _wrong_evictions(rows: Sequence[Event], events: Sequence[Event]) -> Reasons:
    evicted = sum(event["kind"] == "lns.evicted" for event in events)
    if not rows or rows[-1]["count"] == evicted:
        return []
    due = rows[-1]["count"]
    return [("LNS", f"frames forgotten too early: expected {due}, observed {evicted}")]


def _wrong_statuses(rows: Sequence[Event], events: Sequence[Event]) -> Reasons:
    told: defaultdict[str, set[str]] = defaultdict(set)
    for event in events:
        if event["kind"] == "upstream.status":
            body = event["body"]
            told[body.get("devEui", "")].add(body.get("messageId", ""))
    return [
        ("LNS", f"status of {dev_eui}: expected {due} times, observed {heard} times")
        for dev_eui, due in {row["dev_eui"]: row["count"] for row in rows}.items()
        if (heard := len(told[dev_eui])) != due
    ]


def wrong_effects(evidence: Evidence, events: Sequence[Event]) -> Reasons:
    """Effects and ignored duplicates at consumers that are not as many as are due."""
    observed = [one for one in events if one["kind"] in ("application.effect", "inbox.ignored")]
    reasons: Reasons = []
    for due in evidence.particulars:
        if due["expect"] not in ("effect", "ignored"):
            continue
        which, consumer, by = Which.of(due), due.get("consumer"), due.get("by")
        count = sum(
            one.get("by") == by
            and consumer in (None, one["consumer"])
            and which.fits(one["message_id"])
            for one in observed
        )
        if count != due["count"]:
            what = "effects" if by is None else f"{by} duplicates"
            told = f"expected {due['count']}, observed {count}"
            where = f"{what} of {which} at {consumer or 'all consumers'}"
            reasons.append(("application", f"{where}: {told}"))
    return reasons


def _unprovoked(rows: Sequence[Event], evidence: Evidence, events: Sequence[Event]) -> Reasons:
    """Findings that a scenario was to bring about, of those that one can see without the score."""
    provoked = {
        ("gateway", event["station"])
        for event in events
        if event["kind"] == "lns.too_late" and event["stage"] == "going on"
    }
    return [
        (
            "bench",
            f"{evidence.name(row['station'])}: expected the finding {row['rule']}, observed none",
        )
        for row in rows
        if row["rule"] == TOO_LATE_RULE and (row["owner"], row["station"]) not in provoked
    ]
