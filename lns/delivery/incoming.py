"""What does a consumer read of a message before it decides whether it has seen it?

The identity stands in the JSON body and in the user properties of MQTT 5.0 alike (Upstream). One
place is enough; where both name something, they must agree.
"""

import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

BODY_BYTES_MAX = 262_144  # a message that the standard tier of Service Bus would still take
TEXT_MAX = 256
NUMBER_MAX = 2**63 - 1

Text = Annotated[str, Meta(min_length=1, max_length=TEXT_MAX)]
Number = Annotated[int, Meta(ge=1, le=NUMBER_MAX)]
Stream = tuple[str, str, int]


class Unfit(StrEnum):
    """Why a message cannot be read."""

    TOO_LARGE = "TooLarge"
    NOT_JSON = "NotJson"
    WRONG_FIELD = "WrongField"
    CONTRADICTION = "Contradiction"
    NO_MESSAGE_ID = "NoMessageId"
    SESSION_IS_NOT_PARTITION = "SessionIsNotPartition"


class Unreadable(Struct, frozen=True):
    """A message that nobody can tell from another one; `detail` never repeats its content."""

    bus: str
    channel: str
    qos: int
    reason: Unfit
    detail: str
    bytes_count: int


class Incoming(Struct, frozen=True, kw_only=True, gc=False):
    """One message as it came: `channel` is the topic, `body` its JSON in UTF-8.

    `partition_key` is "" where there is none. A `sequence_number` counts from 1. Texts have at
    most 256 characters.
    """

    bus: str = "mqtt"
    channel: str
    qos: int = 1
    message_id: str
    partition_key: str = ""
    session_id: str | None = None
    sequence_number: int | None = None
    remove_duplicates_key: str | None = None
    body: bytes = b"{}"

    @classmethod
    def of(
        cls,
        topic: str,
        payload: bytes,
        properties: Mapping[str, str],
        qos: int,
        *,
        bus: str = "mqtt",
    ) -> "Incoming | Unreadable":
        """The message with this JSON body (UTF-8, at most 256 KiB) and these user properties."""

        def unreadable(reason: Unfit, detail: str) -> Unreadable:
            return Unreadable(bus, topic, qos, reason, detail, len(payload))

        if len(payload) > BODY_BYTES_MAX:
            return unreadable(Unfit.TOO_LARGE, f"more than {BODY_BYTES_MAX} octets")
        try:
            payload.decode()
            named = _decode(payload)
        except msgspec.ValidationError as error:
            return unreadable(Unfit.WRONG_FIELD, str(error))
        except (ValueError, RecursionError) as error:
            return unreadable(Unfit.NOT_JSON, _said(error))
        try:
            from_properties = _named_in(properties)
        except msgspec.ValidationError as error:
            return unreadable(Unfit.WRONG_FIELD, f"user properties: {error}")
        for name in _Named.__struct_fields__:
            in_body, in_properties = getattr(named, name), getattr(from_properties, name)
            if None not in (in_body, in_properties) and in_body != in_properties:
                return unreadable(Unfit.CONTRADICTION, f"body and user properties differ: {name}")
        message_id = named.message_id or from_properties.message_id
        if message_id is None:
            return unreadable(Unfit.NO_MESSAGE_ID, "neither body nor user properties name one")
        return cls(
            bus=bus,
            channel=topic,
            qos=qos,
            message_id=message_id,
            partition_key=named.partition_key or from_properties.partition_key or "",
            session_id=named.session_id or from_properties.session_id,
            sequence_number=named.sequence_number or from_properties.sequence_number,
            remove_duplicates_key=named.remove_duplicates_key
            or from_properties.remove_duplicates_key,
            body=payload,
        )

    @property
    def stream(self) -> Stream:
        """What has sequence numbers of its own, and an order: bus, channel and QoS."""
        return self.bus, self.channel, self.qos


class _Named(Struct, frozen=True, rename="camel"):
    message_id: Text | None = None
    partition_key: Text | None = None
    session_id: Text | None = None
    sequence_number: Number | None = None
    remove_duplicates_key: Text | None = None


_decode = msgspec.json.Decoder(_Named).decode
_CAMEL = tuple(entry.encode_name for entry in msgspec.structs.fields(_Named))


def _named_in(properties: Mapping[str, str]) -> _Named:
    # MQTT knows no null: "", and 0 for a number, say that there is none.
    present: dict[str, object] = {name: properties[name] for name in _CAMEL if properties.get(name)}
    number = properties.get("sequenceNumber", "")
    if re.fullmatch(r"[0-9]{1,19}", number):
        present["sequenceNumber"] = int(number) or None
    return msgspec.convert(present, _Named)


def _said(error: ValueError | RecursionError) -> str:
    if isinstance(error, UnicodeDecodeError):
        return f"no UTF-8 at octet {error.start}"
    return str(error)


class InboxFull(Exception):
    """More messages wait than may; the one that was offered was not taken."""


@dataclass(slots=True)
class Offered:
    """One message and whom to tell that it is done; `number` is its order, `tries` were in vain.

    Its next try is due at `due_us` on the monotonic clock.
    """

    number: int
    message: Incoming | Unreadable
    acknowledge: Callable[[], None]
    tries: int = 0
    due_us: int = 0

    @property
    def stream(self) -> Stream:
        """What has an order of its own."""
        return self.message.bus, self.message.channel, self.message.qos


class WaitingMessages:
    """The messages that wait for a decision, at most `waiting_max`."""

    def __init__(self, waiting_max: int) -> None:
        self._waiting_max = waiting_max
        self._offered: deque[Offered] = deque()
        self._next_number = 0
        self._on_its_way = 0

    def __len__(self) -> int:
        return len(self._offered) + self._on_its_way

    def add(self, message: Incoming | Unreadable, acknowledge: Callable[[], None]) -> None:
        """Take one message; InboxFull."""
        if len(self) >= self._waiting_max:
            raise InboxFull(f"{len(self)} messages wait for a decision already")
        self._offered.append(Offered(self._next_number, message, acknowledge))
        self._next_number += 1

    def take(self, at_most: int, now_us: int) -> list[Offered]:
        """The next messages, in order; they are done, or given back, before more are taken."""
        taken: list[Offered] = []
        passed: list[Offered] = []
        held: set[Stream] = set()
        while self._offered and len(taken) < at_most:
            offered = self._offered.popleft()
            if offered.due_us > now_us or (held and offered.stream in held):
                held.add(offered.stream)
                passed.append(offered)
            else:
                taken.append(offered)
        self._offered.extendleft(reversed(passed))
        self._on_its_way = len(taken)
        return taken

    def give_back(self, offered: Iterable[Offered]) -> None:
        """The rest of what was taken is done; these still wait, where they were."""
        self._on_its_way = 0
        returned = list(offered)
        if returned:
            order = sorted((*returned, *self._offered), key=lambda one: one.number)
            self._offered = deque(order)

    def next_due_us(self) -> int | None:
        """When the first of them may be taken, on the monotonic clock; None when none waits."""
        due: dict[Stream, int] = {}
        for offered in self._offered:
            due.setdefault(offered.stream, offered.due_us)
        return min(due.values(), default=None)
