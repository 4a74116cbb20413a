"""Of what time is the oldest message that may still come?

The second formula of CMQ needs `min_msg_time`. Each network server retains its own at the broker:
everything that it sent before that time is with the broker. What the broker still has for this
consumer comes before that statement when it is asked for once more, as a session is one queue; so
a statement counts when all that came before it is done.
"""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import msgspec
from msgspec import Struct

MIN_MSG_TIME = "min_msg_time_us"
TOPIC = "lorawan/+/min_msg_time"

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def topic_of(lns: str) -> str:
    """Where a network server retains its statement."""
    return f"lorawan/{lns}/min_msg_time"


class Statement(Struct, frozen=True, rename="camel"):
    """What a producer says of itself: nothing of before `min_msg_time` is still to be sent.

    It tries for `retry_max_s` to send a message, and then no more.
    """

    lns: str
    min_msg_time: datetime
    retry_max_s: int


_decode = msgspec.json.Decoder(Statement).decode


def statement(lns: str, min_msg_us: int, retry_us: int) -> bytes:
    """The statement as JSON in UTF-8; times in µs, since 1970 (UTC)."""
    at = _EPOCH + timedelta(milliseconds=min_msg_us // 1000)
    return msgspec.json.encode(Statement(lns, at, retry_us // 1_000_000))


def time_us(text: str) -> int | None:
    """A time in ISO 8601 or in seconds since 1970, in µs (UTC); None for nothing. ValueError."""
    text = text.strip()
    if not text:
        return None
    if text.replace(".", "", 1).isdecimal():
        whole, _, fraction = text.partition(".")
        return int(whole) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    return _us(datetime.fromisoformat(text))


class MinMsgTime:
    """What all producers together say; `oldest_us` is for `RemoveDuplicatesKeys`.

    `known_us` is what was kept of before. It counts until each producer had time to be heard: what
    is not said again within a round (`next_round`) counts no more. `retries` is told the topic and
    the longest time (µs) that a producer tries to send a message.
    """

    def __init__(self, known_us: int | None, retries: Callable[[str, int], None]) -> None:
        self._before: dict[str, int] = {} if known_us is None else {"": known_us}
        self._said: dict[str, int] = {}
        self._retries = retries

    @property
    def oldest_us(self) -> int | None:
        """The smallest of all (µs, UTC); None when nobody has said anything."""
        return min((self._before | self._said).values(), default=None)

    def hear(self, topic: str, payload: bytes) -> None:
        """Take what a producer has retained; ValueError when it is no statement."""
        if not payload:
            return
        try:
            said = _decode(payload)
        except msgspec.DecodeError:
            at_us = time_us(payload.decode())
        else:
            at_us = _us(said.min_msg_time)
            self._retries(topic, said.retry_max_s * 1_000_000)
        if at_us is not None:
            self._said[topic] = at_us

    def set(self, min_msg_us: int | None) -> None:
        """Take what whoever was asked has said of the whole queue; None: it is empty."""
        self._before, self._said = {}, {} if min_msg_us is None else {"": min_msg_us}

    def next_round(self) -> None:
        """Everybody is asked again."""
        if self._said:
            self._before, self._said = self._said, {}


def known_us(numbers: Mapping[str, int]) -> int | None:
    """What a store has kept, by its numbers."""
    return numbers.get(MIN_MSG_TIME) or None


def _us(at: datetime) -> int:
    return ((at if at.tzinfo else at.replace(tzinfo=UTC)) - _EPOCH) // timedelta(microseconds=1)
