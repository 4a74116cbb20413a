"""Is a message a duplicate: by its id, by its number in a stream, by its key?

One detector after the other; the first one that recognises a message decides. Of a message that one
of them ignored nothing is remembered but its sequence number, for it was received.

The second formula of CMQ needs `min_msg_time`, the time of the oldest message that may still come.
Each network server retains its own at the broker: everything that it sent before that time is with
the broker. What the broker still has for this consumer comes before that statement when it is asked
for once more, as a session is one queue; so a statement counts when all that came before it is
done.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

import msgspec
from msgspec import Struct

from lns.clock import EPOCH, since_1970_us
from lns.delivery.incoming import Incoming
from lns.store.inbox_store import Entries, Mark, Place, Table

MIN_MSG_TIME = "min_msg_time_us"
TOPIC = "lorawan/+/min_msg_time"


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
    at = EPOCH + timedelta(milliseconds=min_msg_us // 1000)
    return msgspec.json.encode(Statement(lns, at, retry_us // 1_000_000))


_CHARACTERS_MAX = 64
# The last second that ISO 8601 can name in four digits of a year. Milliseconds since 1970 are far
# beyond it.
_LATEST_S = 253_402_300_799


def time_us(text: str) -> int | None:
    """A time in ISO 8601 or in seconds since 1970, in µs (UTC); None for nothing. ValueError.

    No time is after the year 9999: whoever forgets what is older would forget everything.
    """
    text = text.strip()
    if not text:
        return None
    if len(text) > _CHARACTERS_MAX:
        raise ValueError(f"a time has no {len(text)} characters")
    if text.replace(".", "", 1).isdecimal():
        whole, _, fraction = text.partition(".")
        if int(whole) > _LATEST_S:
            raise ValueError(f"{whole} seconds since 1970 are after the year 9999")
        return int(whole) * 1_000_000 + int(fraction[:6].ljust(6, "0"))
    return since_1970_us(datetime.fromisoformat(text))


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
        except (ValueError, RecursionError):
            at_us = time_us(payload.decode())
        else:
            at_us = since_1970_us(said.min_msg_time)
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


DAY_US = 86_400_000_000


class ConfigurationError(ValueError):
    """A detector cannot be what was asked for; the text names what was asked and what may be."""


class Detector(StrEnum):
    """Who recognised a duplicate."""

    WINDOW = "window"
    SEQUENCE = "sequence"
    KEY = "key"


class Duplicate(Struct, frozen=True):
    """A message that was there before: `by` whom it was recognised, and the position it has then.

    For a sequence number that is the position of the newest message of the stream.
    """

    by: Detector
    first_position: int


def duration(us: int) -> str:
    """A time in the largest unit that leaves a whole number."""
    for unit_us, unit in ((DAY_US, "d"), (3_600_000_000, "h"), (60_000_000, "min")):
        if us and us % unit_us == 0:
            return f"{us // unit_us} {unit}"
    return f"{us // 1_000_000} s" if us % 1_000_000 == 0 else f"{us} us"


class Judge(Protocol):
    """What recognises a message that was there before; what it remembers is among the entries."""

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        """The message that this one repeats; None when there is none."""

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        """A message was accepted."""

    def take(
        self, entries: Entries, message: Incoming, now_us: int, position: int = 0
    ) -> Duplicate | None:
        """Judge a message, and remember it when it is accepted (None)."""
        duplicate = self.judge(entries, message, now_us)
        if duplicate is None:
            self.remember(entries, message, now_us, position)
        return duplicate


WINDOW_US = 600_000_000
WINDOW_MIN_US = 20_000_000
WINDOW_MAX_US = 7 * DAY_US


class MessageIdWindow(Judge):
    """Ignores a message whose id was accepted less than `window_us` before, 20 s to 7 days.

    At exactly `window_us` it is accepted again. Each topic has ids of its own. Nothing else is
    compared, or the id and the partition key when `partitioned`. With `sessions`, partition key
    and session id must be equal (`fits`). ConfigurationError for a window outside the limits.

    Times are UTC in µs, as the window outlives the process. A clock that is set forward shortens
    the window by so much for what was accepted before, one that is set back lengthens it.

    What it costs is bounded by the window: a mark for every id that was accepted during it.

    Stores were written once that remembered ids without their topic. Until `topicless_until_us`
    (UTC) those count for every topic.

    >>> from lns.delivery import Incoming, MessageIdWindow
    >>> from lns.store.inbox_store import MemoryEntries
    >>> window, entries = MessageIdWindow(20_000_000), MemoryEntries()
    >>> order = Incoming(channel="orders", message_id="12345.2017/payment")
    >>> [window.take(entries, order, at_us) is None for at_us in (0, 15_000_000, 30_000_000)]
    [True, False, True]
    """

    def __init__(
        self,
        window_us: int = WINDOW_US,
        *,
        partitioned: bool = False,
        sessions: bool = False,
        topicless_until_us: int = 0,
    ) -> None:
        if not WINDOW_MIN_US <= window_us <= WINDOW_MAX_US:
            raise ConfigurationError(
                f"a window of {duration(window_us)} cannot be; it is"
                f" {duration(WINDOW_MIN_US)} to {duration(WINDOW_MAX_US)}"
            )
        self._window_us = window_us
        self._partitioned = partitioned
        self._sessions = sessions
        self._topicless_until_us = topicless_until_us

    @property
    def window_us(self) -> int:
        return self._window_us

    @property
    def settings(self) -> dict[str, int]:
        """What a store is created with, and keeps."""
        return {
            "window_us": self._window_us,
            "partitioned": int(self._partitioned),
            "sessions": int(self._sessions),
        }

    def fits(self, message: Incoming) -> bool:
        """Whether session id and partition key are equal, where there are sessions."""
        return not self._sessions or message.session_id == message.partition_key

    def as_kept(self, window_us: int, topicless_until_us: int) -> "MessageIdWindow":
        """This window as a store keeps it; what else it was created with cannot change."""
        if (window_us, topicless_until_us) == (self._window_us, self._topicless_until_us):
            return self
        return MessageIdWindow(
            window_us,
            partitioned=self._partitioned,
            sessions=self._sessions,
            topicless_until_us=topicless_until_us,
        )

    def place(self, message: Incoming) -> Place:
        # With their lengths, so that no two topics and ids have one name.
        bus, channel = message.bus, message.channel
        name = f"{len(bus)}:{bus}:{len(channel)}:{channel}:{self._id(message)}"
        return Place(Table.WINDOW, name)

    def places(self, message: Incoming) -> tuple[Place, ...]:
        """All places where this id may be remembered."""
        if not self._topicless_until_us:
            return (self.place(message),)
        return self.place(message), Place(Table.WINDOW, self._id(message))

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        for place in self.places(message):
            mark = entries.get(place)
            if mark is not None and now_us - mark.at_us < self._window_us:
                return Duplicate(Detector.WINDOW, mark.position)
        return None

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        entries.put(self.place(message), Mark(now_us, position))

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        entries.forget(Table.WINDOW, now_us - self._window_us + 1, at_most)

    def _id(self, message: Incoming) -> str:
        if not self._partitioned:
            return message.message_id
        partition_key = message.partition_key
        return f"{len(partition_key)}:{partition_key}:{message.message_id}"


NUM_DUP_MSGS_RCVD = "NumDupMsgsRcvd"
PERFORMS = "performDuplicateChecking"


class SequenceTracker(Judge):
    """Ignores a message with a number above 1 that is not above the last one of its stream.

    A stream is bus, channel and QoS. A gap is accepted, so a message that others have overtaken
    counts as a duplicate, and is lost: streams must arrive in order. The number 1 begins a new
    space, always: where 1 comes again, 2 does so too, and both are accepted. Messages without a
    number pass. The last numbers have no end.

    What another detector has ignored was received too: its number is noted, and counted in
    `NumDupMsgsRcvd` when it says duplicate (`ignored`).

    With `perform_duplicate_checking` off everything passes and `NumDupMsgsRcvd` is 0. The numbers
    are still noted, so that no stream that began anew meanwhile is taken for an old one later.

    >>> from lns.delivery import Incoming, SequenceTracker
    >>> from lns.store.inbox_store import MemoryEntries
    >>> tracker, entries = SequenceTracker(), MemoryEntries()
    >>> def accepted(number):
    ...     message = Incoming(channel="up", message_id=f"m{number}", sequence_number=number)
    ...     return tracker.take(entries, message, now_us=0) is None
    >>> [number for number in (1, 2, 5, 3, 5, 6) if accepted(number)]
    [1, 2, 5, 6]
    >>> tracker.num_dup_msgs_rcvd(entries)
    2
    """

    def __init__(self, *, perform_duplicate_checking: bool = True) -> None:
        self._checks = perform_duplicate_checking

    @property
    def performs_duplicate_checking(self) -> bool:
        """Whether anything is ever ignored."""
        return self._checks

    def place(self, message: Incoming) -> Place:
        bus, channel, qos = message.stream
        return Place(Table.SEQUENCE, f"{qos}:{len(bus)}:{bus}:{channel}")

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        """The newest message of the stream, if this one is not beyond it; whatever the time is."""
        number = message.sequence_number
        if not self._checks or number is None or number == 1:
            return None
        mark = entries.get(self.place(message))
        if mark is None or number > mark.number:
            return None
        return Duplicate(Detector.SEQUENCE, mark.position)

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        if message.sequence_number is not None:
            entries.put(self.place(message), Mark(now_us, position, message.sequence_number))

    def ignored(
        self, entries: Entries, message: Incoming, now_us: int, first_position: int
    ) -> bool:
        """Whether the number of a message says duplicate that some detector has ignored.

        Where it does not, the stream has come as far as this message, which was received all the
        same, and had its effect at `first_position`.
        """
        if self.judge(entries, message, now_us) is not None:
            return True
        if message.sequence_number is not None:
            mark = entries.get(self.place(message))
            position = first_position if mark is None else max(mark.position, first_position)
            self.remember(entries, message, now_us, position)
        return False

    def take(
        self, entries: Entries, message: Incoming, now_us: int, position: int = 0
    ) -> Duplicate | None:
        duplicate = super().take(entries, message, now_us, position)
        if duplicate is not None:
            entries.add(NUM_DUP_MSGS_RCVD, 1)
        return duplicate

    def num_dup_msgs_rcvd(self, entries: Entries) -> int:
        """How many duplicates were ignored; 0 as long as nothing is checked."""
        return entries.number(NUM_DUP_MSGS_RCVD) if self._checks else 0


RETENTION_MAX_US = 15 * DAY_US  # "a maximum message validity period of 15 days"
RETRY_US = DAY_US  # as long as a network server tries to send a message, by default
NETWORK_US = 10_000_000


class RemoveDuplicatesKeys(Judge):
    """Ignores a message whose key was consumed, as long as the same key may still arrive.

    A key was consumed too long ago when that was *before* one of two times; at exactly that time
    it is still known:

    - now - `retention_us` - `retry_us` - `network_us`: how long the queue keeps a message, how
      long its producer tries again, and how long a message is on its way;
    - with `min_msg_time_us`, which tells when the oldest message that nobody has consumed was
      sent: that time - `retry_us` - `network_us`. A queue that is stuck keeps its keys longer.
      Where it tells None, the queue is empty, and the first formula counts.

    A message without a key passes. The keys of one consumer may be in its own store; several
    consumers of one queue need one store together, or each of them consumes the key once.

    Times are UTC in µs, retention at most 15 days: ConfigurationError. A clock that is set forward
    lets keys go too early by as much, one that is set back keeps them longer.

    >>> from lns.delivery import Incoming, RemoveDuplicatesKeys
    >>> from lns.store.inbox_store import MemoryEntries
    >>> keys, entries = RemoveDuplicatesKeys(), MemoryEntries()
    >>> def consumed(message_id, key):
    ...     pay = Incoming(channel="pay", message_id=message_id, remove_duplicates_key=key)
    ...     return keys.take(entries, pay, now_us=0) is None
    >>> consumed("a", "10$ at 12:00"), consumed("b", "10$ at 12:00"), consumed("c", "10$ at 12:01")
    (True, False, True)
    """

    def __init__(
        self,
        *,
        retention_us: int = RETENTION_MAX_US,
        retry_us: int = RETRY_US,
        network_us: int = NETWORK_US,
        min_msg_time_us: Callable[[], int | None] | None = None,
    ) -> None:
        if not 0 < retention_us <= RETENTION_MAX_US:
            raise ConfigurationError(
                f"a retention of {duration(retention_us)} cannot be; it is more than 0 and at most"
                f" {duration(RETENTION_MAX_US)}"
            )
        for name, us in (("retry", retry_us), ("network", network_us)):
            if us < 0:
                raise ConfigurationError(f"a {name} time of {us} us cannot be; it is 0 or more")
        self._retention_us = retention_us
        self._late_us = retry_us + network_us
        self._min_msg_time_us = min_msg_time_us

    def cut_off_us(self, now_us: int) -> int:
        """A key that was consumed before this time is forgotten."""
        oldest_us = None if self._min_msg_time_us is None else self._min_msg_time_us()
        if oldest_us is None:
            oldest_us = now_us - self._retention_us
        return oldest_us - self._late_us

    def place(self, message: Incoming) -> Place | None:
        key = message.remove_duplicates_key
        return None if key is None else Place(Table.KEY, key)

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        place = self.place(message)
        mark = None if place is None else entries.get(place)
        if mark is None or mark.at_us < self.cut_off_us(now_us):
            return None
        return Duplicate(Detector.KEY, mark.position)

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        place = self.place(message)
        if place is not None:
            entries.put(place, Mark(now_us, position))

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        oldest_us = None if self._min_msg_time_us is None else self._min_msg_time_us()
        if oldest_us is not None and (by := oldest_us - entries.number(MIN_MSG_TIME)) != 0:
            entries.add(MIN_MSG_TIME, by)
        entries.forget(Table.KEY, self.cut_off_us(now_us), at_most)


WINDOW_LENGTH = "window_us"
_CREATED = "created"
_HAS_TOPICS = "has_topics"
_TOPICLESS_UNTIL = "topicless_until_us"


@dataclass(frozen=True, slots=True)
class Detectors:
    """The chain of one consumer; None is off.

    The window belongs to the store: whether there is one, and whether it is partitioned or has
    sessions, is fixed when the store is created (Azure Service Bus). Its length may change, for
    all consumers of the store. The others may be switched on and off.
    """

    window: MessageIdWindow | None = field(default_factory=MessageIdWindow)
    sequence: SequenceTracker | None = field(default_factory=SequenceTracker)
    keys: RemoveDuplicatesKeys | None = None

    def fits(self, message: Incoming) -> bool:
        """Whether a message is one that these detectors can tell from others."""
        return self.window is None or self.window.fits(message)

    def places(self, message: Incoming) -> tuple[Place, ...]:
        """What must not change while this message is decided on."""
        places: list[Place] = []
        if self.window is not None:
            places += self.window.places(message)
        if self.sequence is not None and message.sequence_number is not None:
            places.append(self.sequence.place(message))
        if self.keys is not None and (key := self.keys.place(message)) is not None:
            places.append(key)
        return tuple(places)

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        """What the first detector says that recognises the message; None when none does."""
        for detector in self._all:
            duplicate = detector.judge(entries, message, now_us)
            if duplicate is not None:
                return duplicate
        return None

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        for detector in self._all:
            detector.remember(entries, message, now_us, position)

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        if self.window is not None:
            self.window.forget(entries, now_us, at_most)
        if self.keys is not None:
            self.keys.forget(entries, now_us, at_most)

    def ignore(
        self, entries: Entries, message: Incoming, now_us: int, duplicate: Duplicate
    ) -> bool:
        """Note that an ignored message was received; whether its sequence number says duplicate."""
        return self.sequence is not None and self.sequence.ignored(
            entries, message, now_us, duplicate.first_position
        )

    def settle(self, entries: Entries, store: str, now_us: int) -> None:
        """Create a store for these, or change what it may change; ConfigurationError.

        `now_us` is UTC. Stores of before ids had a topic are brought up to date.
        """
        checks = self.sequence is not None and self.sequence.performs_duplicate_checking
        settings = {WINDOW_LENGTH: 0, "partitioned": 0, "sessions": 0}
        if self.window is not None:
            settings |= self.window.settings
        created = {name: entries.number(name) for name in settings}
        if not entries.number(_CREATED):
            entries.add(_CREATED, 1)
            entries.add(_HAS_TOPICS, 1)
        else:
            _expect_as_created(created, settings, store)
        for name, value in {**settings, PERFORMS: int(checks)}.items():
            _set(entries, name, value)
        if not entries.number(_HAS_TOPICS):
            entries.add(_HAS_TOPICS, 1)
            _set(entries, _TOPICLESS_UNTIL, now_us + WINDOW_MAX_US)
        elif entries.number(_TOPICLESS_UNTIL) <= now_us:
            _set(entries, _TOPICLESS_UNTIL, 0)

    def as_kept(self, entries: Entries) -> "Detectors":
        """These as the store has them now: another consumer may have changed the window."""
        if self.window is None:
            return self
        window = self.window.as_kept(
            entries.number(WINDOW_LENGTH) or self.window.window_us, entries.number(_TOPICLESS_UNTIL)
        )
        return self if window is self.window else replace(self, window=window)

    def with_window_of(self, numbers: Mapping[str, int]) -> "Detectors":
        """These with the window that a store has, by its numbers; as they are for a new store."""
        if self.window is None or not numbers.get(_CREATED):
            return self
        window_us = numbers.get(WINDOW_LENGTH, 0)
        return replace(self, window=self.window.as_kept(window_us, 0) if window_us else None)

    @property
    def _all(self) -> tuple[Judge, ...]:
        chain = self.window, self.sequence, self.keys
        return tuple(detector for detector in chain if detector is not None)


def _expect_as_created(created: dict[str, int], settings: dict[str, int], store: str) -> None:
    """ConfigurationError when something is asked for that only a new store can have."""
    if bool(created[WINDOW_LENGTH]) is not bool(settings[WINDOW_LENGTH]):
        states = ("with", "without") if created[WINDOW_LENGTH] else ("without", "with")
        raise ConfigurationError(
            f"{store} was created {states[0]} duplicate detection by message id, and is to be"
            f" used {states[1]} it; that is chosen at creation: name another store, or remove"
            " this one"
        )
    if {**created, WINDOW_LENGTH: 0} != {**settings, WINDOW_LENGTH: 0}:
        raise ConfigurationError(
            f"{store} was created with {_words(created)}, which cannot become {_words(settings)};"
            " name another store, or remove this one"
        )


def _set(entries: Entries, name: str, value: int) -> None:
    if (by := value - entries.number(name)) != 0:
        entries.add(name, by)


def _words(settings: dict[str, int]) -> str:
    words = [name for name in ("partitioned", "sessions") if settings[name]]
    window = f"a window of {duration(settings['window_us'])}"
    return window + "".join(f", {word}" for word in words)
