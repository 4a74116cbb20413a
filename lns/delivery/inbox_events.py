"""What does an inbox report of every message that was offered to it?

Events of the capture. Each is told when what it says is kept in the store; a consumer that is
killed in between does not tell it, and tells `inbox.ignored` when the message comes again, whose
`first_position` is that of the `inbox.accepted` nobody was told.
"""

from collections.abc import Callable
from typing import Any, ClassVar

from msgspec import Struct

from lns.delivery.detection import Detector, Duplicate
from lns.delivery.incoming import Incoming, Unfit, Unreadable


class OfMessage(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What each event says of the message that it is about."""

    channel: str
    message_id: str
    partition_key: str
    sequence_number: int | None = None
    key: str | None = None


class Accepted(OfMessage, frozen=True, kw_only=True):
    """A message had its effect (`inbox.accepted`), as the `position`-th of this inbox, from 1."""

    kind: ClassVar[str] = "inbox.accepted"
    position: int


class Ignored(OfMessage, frozen=True, kw_only=True):
    """A message had no effect, as it was there before (`inbox.ignored`).

    `by` is the detector that recognised it; `first_position` is where it has had its effect, and
    for a sequence number the position of the newest message of its stream.
    """

    kind: ClassVar[str] = "inbox.ignored"
    by: Detector
    first_position: int


class Unread(Struct, frozen=True, kw_only=True):
    """A message that cannot be told from others had no effect (`inbox.unreadable`)."""

    kind: ClassVar[str] = "inbox.unreadable"
    channel: str
    reason: Unfit
    detail: str
    bytes_count: int


class Parked(OfMessage, frozen=True, kw_only=True):
    """The effect of a message failed `tries` times; it was put aside (`inbox.parked`)."""

    kind: ClassVar[str] = "inbox.parked"
    reason: str
    tries: int


Event = Accepted | Ignored | Unread | Parked
Told = Callable[[Event], None]


def accepted(message: Incoming, position: int) -> Accepted:
    """The event of a message that had its effect."""
    return Accepted(**_identity(message), position=position)


def ignored(message: Incoming, duplicate: Duplicate) -> Ignored:
    """The event of a message that was recognised."""
    first = duplicate.first_position
    return Ignored(**_identity(message), by=duplicate.by, first_position=first)


def unread(message: Unreadable) -> Unread:
    """The event of a message that cannot be read."""
    return Unread(
        channel=message.channel,
        reason=message.reason,
        detail=message.detail,
        bytes_count=message.bytes_count,
    )


def parked(message: Incoming, reason: str, tries: int) -> Parked:
    """The event of a message that was put aside."""
    return Parked(**_identity(message), reason=reason, tries=tries)


def _identity(message: Incoming) -> dict[str, Any]:
    """The fields of `OfMessage`."""
    return {
        "channel": message.channel,
        "message_id": message.message_id,
        "partition_key": message.partition_key,
        "sequence_number": message.sequence_number,
        "key": message.remove_duplicates_key,
    }
