"""Does a message of the application say what its frame said, and what its station told of it?"""

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from math import inf
from types import NoneType
from typing import Any

from bench.inspection.downlink import Answered
from bench.verdict.owner import Found, Scrutiny
from bench.virtual.lorawan.air_interface import Cid, DataFrame, from_device

Fields = Mapping[str, type | tuple[type, ...]]
_OF_EVERY_MESSAGE: Fields = {
    "messageId": str, "removeDuplicatesKey": str, "partitionKey": str, "sequenceNumber": int,
    "lns": str, "devEui": str, "devAddr": str, "fCnt": int, "station": str, "receivedAt": str,
}  # fmt: skip
UPLINK: Fields = {
    **_OF_EVERY_MESSAGE, "confirmed": bool, "payload": str, "rssi": (int, float),
    "snr": (int, float), "freqHz": int, "dr": int, "fPort": (int, NoneType),
}  # fmt: skip
STATUS: Fields = {**_OF_EVERY_MESSAGE, "battery": int, "margin": int}
"""What each kind of message has at least."""
_ONLY_AS_TRUE = "dupMsg", "unverified"
_TIME = "%Y-%m-%dT%H:%M:%S.%fZ"
_IS_TIME = re.compile(r"[0-9]{4}(-[0-9]{2}){2}T[0-9]{2}(:[0-9]{2}){2}\.[0-9]{3}Z").fullmatch
_MILLISECOND_US = 1_000
PUT_ASIDE_US = 2_100_000
"""How long a server takes to put aside what it does not send any more."""
_ON_ITS_WAY_US = 1_000_000
"""By then a message has come that was sent before its outbox was lost."""
_OF_FRAME = re.compile(r"(\.[1-9][0-9]*)?(-([0-9]+)(\.[0-9A-F]{8})?)")
"""In a key, behind the session: the life of a relaxed device, the counter, other bytes."""
_OF_COPY = re.compile(r"(?:-(.+)-[1-9][0-9]*)?")
"""In an id, behind the key: the station of a copy, and its number."""


def misshapen(body: dict[str, Any], fields: Fields, check: Scrutiny) -> list[Found]:
    """The fields that a message has not, or with a value that is none for them."""
    lacks = [
        check.wrong(name, "a value", body.get(name))
        for name, kind in fields.items()
        if name not in body or not isinstance(body[name], kind)
    ]
    return lacks + [
        check.wrong(name, "yes, or left out", body[name])
        for name in _ONLY_AS_TRUE
        if body.get(name, True) is not True
    ]


def addressed(topic: str, word: str, body: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
    """Whether a message says the same as its topic, of which server and of which device it is."""
    due = f"lorawan/{body['lns']}/{body['devEui']}/{word}"
    yield from check.same("topic", due, topic)
    yield from check.same("partitionKey", body["devEui"], body["partitionKey"])


class Names:
    """The keys of the frames so far: all messages of one have one, and no other frame has it.

    But for the life of a relaxed device, which is part of the key, and for the MIC in it:
    `retention_us` after a frame was told, nobody knows which bytes had its counter.
    """

    def __init__(self) -> None:
        self.retention_us: float = inf
        self._name_of: dict[str, tuple[str, int]] = {}
        self._frame_of: dict[str, str] = {}

    def forget(self) -> None:
        """Their store is emptied: servers may give the names of before to other frames."""
        self._name_of.clear()
        self._frame_of.clear()

    def compare(
        self, body: dict[str, Any], heard: Sequence[Answered], check: Scrutiny
    ) -> Iterator[Found]:
        """What is wrong in the names of a message of a frame that was `heard` so."""
        key, stations = body["removeDuplicatesKey"], (None, body["station"])
        frame = f"{body['devEui']}-{body['devAddr']}"
        found = _OF_FRAME.fullmatch(key.removeprefix(frame)) if key.startswith(frame) else None
        if found is not None and found[3] != str(body["fCnt"]) and not heard:
            yield check.wrong("fCnt", f"{found[3]}, as in {key}", body["fCnt"])
            return
        if found is None or found[3] != str(body["fCnt"]):
            yield check.wrong("removeDuplicatesKey", f"{frame}-{body['fCnt']}", key)
            return
        of_copy = _OF_COPY.fullmatch(body["messageId"].removeprefix(key))
        if not body["messageId"].startswith(key) or not of_copy or of_copy[1] not in stations:
            due = f"{key}, of a copy with station and number"
            yield check.wrong("messageId", due, body["messageId"])
        says = [one for one in heard if _payload(one) == body.get("payload")]
        frames = {one.uplink.frame_id for one in says or heard}
        if len(frames) != 1:
            return  # two frames have this counter: nobody can say which of them it is
        frame_id = frames.pop()
        # A device that begins again may send the same bytes once more: in another life.
        mic = found[4] if body.get("unverified") else None
        name, told_us = self._name_of.get(frame_id, (found[2], check.t_us))
        if mic and name in (found[2], found[2].removesuffix(mic)):
            return  # whom nobody tells which bytes had an older counter calls them by their own
        self._name_of.setdefault(frame_id, (name, told_us))
        if check.t_us - told_us < self.retention_us:
            yield from check.same("removeDuplicatesKey", frame + name, frame + found[2])
        if body.get("unverified"):
            return  # another server may have given its name to another frame meanwhile
        first = self._frame_of.setdefault(key, frame_id)
        if first != frame_id:
            yield check.wrong("removeDuplicatesKey", "one of this frame", f"{key} of {first}")


class Numbers:
    """The sequence number of the newest message of each topic: every new message has the next one.

    But for those that are put aside, which get another one when they are released: behind one that
    is too old a server goes on at once, and puts it aside within two turns of a second.
    `begins_at_one`: nothing was published on any topic before the case.
    """

    def __init__(self) -> None:
        self.begins_at_one = False
        self._newest: dict[str, int] = {}
        self._before: dict[str, int] = {}
        """What a topic had come to when its outbox was lost: one more may be on its way."""
        self._maybe: dict[str, int] = {}
        """What a topic has come to behind a lost outbox, if it was not of before that it told."""
        self._messages: set[tuple[str, str, int]] = set()
        self._aside: defaultdict[tuple[str, int], list[tuple[int, str]]] = defaultdict(list)
        self._wiped_us: dict[str, int] = {}

    def put_aside(self, events: Iterable[Mapping[str, Any]]) -> None:
        """Which messages are not sent under their number, and since when."""
        for event in events:
            if event["kind"] == "upstream.parked":
                aside = event["t_us"], event["message_id"]
                self._aside[event["topic"], event["sequence_number"]].append(aside)

    def forget(self, lns: str, t_us: int) -> None:
        """A server has lost its outbox, and with it how far its topics have come."""
        self._wiped_us[lns] = t_us
        for topic in [topic for topic in self._newest if topic.split("/")[1] == lns]:
            self._before[topic] = self._newest.pop(topic)

    def compare(self, topic: str, body: dict[str, Any], check: Scrutiny) -> Iterator[Found]:
        """What is wrong in the number of a message, unless it is one that comes again."""
        number = body["sequenceNumber"]
        this = topic, body["messageId"], number
        if this in self._messages:
            if topic not in self._newest:
                self._maybe[topic] = number
            return
        self._messages.add(this)
        newest, maybe = self._newest.get(topic, 0), self._maybe.pop(topic, None)
        if maybe is not None and number == maybe + 1:
            newest = maybe
        if newest or self.begins_at_one:
            due, wiped_us = newest + 1, self._wiped_us.get(topic.split("/")[1], -1)
            if number != due and self._was_on_its_way(topic, number, check.t_us - wiped_us):
                return
            until_us = check.t_us + PUT_ASIDE_US
            while any(  # but for itself, which was sent before and acknowledged by nobody
                wiped_us < us <= until_us and (topic, message_id, due) != this
                for us, message_id in self._aside.get((topic, due), ())
            ):
                due += 1
            yield from check.same("sequenceNumber", due, number)
        self._newest[topic] = number

    def _was_on_its_way(self, topic: str, number: int, after_us: int) -> bool:
        """Whether a message left before its outbox was lost, `after_us` ago."""
        if after_us >= _ON_ITS_WAY_US or number != self._before.get(topic, number) + 1:
            return False
        self._before[topic] = number
        return True


def in_time(
    body: dict[str, Any], began: datetime | None, since_us: int | None, check: Scrutiny
) -> Iterator[Found]:
    """Whether `receivedAt` lies between the reception and the message, by the server's clock.

    `began`: the wall clock when the bench's clock was 0, where the bench knows it.
    """
    text = body["receivedAt"]
    try:
        at = datetime.fromisoformat(text) if _IS_TIME(text) else None
    except ValueError:
        at = None
    if at is None:
        yield check.wrong("receivedAt", "UTC, with milliseconds", text)
    elif began is not None and since_us is not None:
        at_us = (at - began) // timedelta(microseconds=1)
        if not since_us - _MILLISECOND_US <= at_us <= check.t_us:
            due = began + timedelta(microseconds=since_us)
            yield check.wrong("receivedAt", due.strftime(_TIME), text)


def status(body: dict[str, Any], heard: Sequence[Answered], check: Scrutiny) -> Iterator[Found]:
    """What is wrong in a message that tells what a device said of itself."""
    name = f"{body['devEui']}-{body['devAddr']}"
    frame_name = rf"{name}(\.[1-9][0-9]*)?-{body['fCnt']}(\.[0-9A-F]{{8}})?"
    if re.fullmatch(f"{frame_name}-status", body["messageId"]) is None:
        yield check.wrong("messageId", f"{name}-{body['fCnt']}-status", body["messageId"])
    yield from check.same("removeDuplicatesKey", body["messageId"], body["removeDuplicatesKey"])
    said = [status for one in heard for status in statuses(one)[-1:]]
    observed = [body["battery"], body["margin"]]
    if heard and observed not in said:
        due = said[-1] if said else None
        yield check.wrong("battery and margin", due, observed)


class StatusNames:
    """The ids of what devices told of themselves: each is of one frame, and used once.

    It is used again where somebody could not know that it was told (`may_repeat`).
    """

    def __init__(self) -> None:
        self._frames_of: dict[str, set[str]] = {}

    def compare(
        self, body: dict[str, Any], heard: Sequence[Answered], check: Scrutiny, *, may_repeat: bool
    ) -> Iterator[Found]:
        """What is wrong in the id of a status that was `heard` so."""
        told, name = [body["battery"], body["margin"]], body["messageId"]
        frames = {one.uplink.frame_id for one in heard if told in statuses(one)[-1:]}
        before = self._frames_of.setdefault(name, frames)
        if before is not frames and not may_repeat:
            yield check.wrong("messageId", "one never used before", name)
        elif before and frames and not before & frames:
            yield check.wrong("messageId", "one of this frame", f"{name} of {min(before)}")


def statuses(heard: Answered) -> list[list[int]]:
    """Battery and margin (dB), as often as a device tells them in one frame."""
    frame, session = heard.uplink.frame, heard.session
    if not isinstance(frame, DataFrame) or session is None:
        return []
    octets = session.commands(frame, heard.f_cnt)
    told = [c.told for c in from_device(octets) if c.cid is Cid.DEV_STATUS]
    return [[octet[0], ((octet[1] & 0x3F) ^ 0x20) - 0x20] for octet in told]


def message(body: dict[str, Any], heard: Sequence[Answered], check: Scrutiny) -> Iterator[Found]:
    """What is wrong in the message of an uplink, which was `heard` so through its station."""
    nearest: list[Found] | None = None
    for one in heard:
        found = list(_compared(body, one, check))
        if nearest is None or len(found) < len(nearest):
            nearest = found
    yield from nearest or ()


def _compared(body: dict[str, Any], heard: Answered, check: Scrutiny) -> Iterator[Found]:
    uplink, frame = heard.uplink, heard.uplink.frame
    assert isinstance(frame, DataFrame)
    yield from check.same("devAddr", frame.dev_addr, body["devAddr"])
    yield from check.same("fPort", frame.f_port, body.get("fPort"))
    yield from check.same("confirmed", frame.confirmed, body["confirmed"])
    if heard.session is not None:
        yield from check.same("payload", _payload(heard), body["payload"])
    yield from check.same("freqHz", uplink.freq_hz, body["freqHz"])
    yield from check.same("dr", uplink.dr, body["dr"])
    yield from check.same("rssi", uplink.rssi, float(body["rssi"]))
    yield from check.same("snr", uplink.snr, float(body["snr"]))


def _payload(heard: Answered) -> str | None:
    """What a frame carries, in clear, where its keys are known."""
    frame, session = heard.uplink.frame, heard.session
    if not isinstance(frame, DataFrame) or session is None:
        return None
    return (frame.clear(session.keys, heard.f_cnt) if frame.encrypted else b"").hex()
