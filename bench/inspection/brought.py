"""What does a message say of itself, or why can no consumer tell it from others?

Read anew from its octets, with nothing of the consumer that was brought it.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field

BYTES_MAX, TEXT_MAX, NUMBER_MAX = 262_144, 256, 2**63 - 1
_NAMES = {
    "messageId": "message_id", "partitionKey": "partition_key", "sessionId": "session_id",
    "sequenceNumber": "sequence_number", "removeDuplicatesKey": "key",
}  # fmt: skip
Facts = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class Brought:
    """A message as the broker brings it; `facts` is what names it, or `unfit` why nothing does."""

    body: Mapping[str, object] | None
    octets: int
    qos: int = 1
    facts: Facts = field(default_factory=dict)
    unfit: str | None = None

    @classmethod
    def of(
        cls,
        payload: bytes,
        properties: Mapping[str, str] | None = None,
        qos: int = 1,
        *,
        sessions: bool = False,
    ) -> "Brought":
        """What body and user properties name; with `sessions` a session has to be a partition."""
        body = _body(payload)
        facts, unfit = _named(body, payload, properties or {}, sessions=sessions)
        return cls(body if isinstance(body, dict) else None, len(payload), qos, facts, unfit)


def _body(payload: bytes) -> object:
    """The JSON; the octets themselves where they are none."""
    try:
        read: object = json.loads(payload.decode())
    except (ValueError, RecursionError):
        return payload
    return read


def _named(
    body: object, payload: bytes, properties: Mapping[str, str], *, sessions: bool
) -> tuple[Facts, str | None]:
    if len(payload) > BYTES_MAX:
        return {}, "TooLarge"
    if body is payload:
        return {}, "NotJson"
    if not isinstance(body, dict):
        return {}, "WrongField"
    said = {name: body[name] for name in _NAMES if body.get(name) is not None}
    told = {name: _of_property(name, properties[name]) for name in _NAMES if properties.get(name)}
    told = {name: value for name, value in told.items() if value is not None}
    if not all(_is_fit(name, value) for names in (said, told) for name, value in names.items()):
        return {}, "WrongField"
    if any(said[name] != told[name] for name in said.keys() & told.keys()):
        return {}, "Contradiction"
    facts = {_NAMES[name]: value for name, value in (told | said).items()}
    facts.setdefault("partition_key", "")
    if "message_id" not in facts:
        return {}, "NoMessageId"
    if sessions and facts.get("session_id") != facts["partition_key"]:
        return {}, "SessionIsNotPartition"
    facts.pop("session_id", None)
    return facts, None


def _of_property(name: str, text: str) -> object:
    """A text knows no null and no number: "" is none, and so is 0 where a number stands."""
    if name == "sequenceNumber" and re.fullmatch("[0-9]{1,19}", text):
        return int(text) or None
    return text


def _is_fit(name: str, value: object) -> bool:
    if name == "sequenceNumber":
        return type(value) is int and 1 <= value <= NUMBER_MAX
    return isinstance(value, str) and 1 <= len(value) <= TEXT_MAX
