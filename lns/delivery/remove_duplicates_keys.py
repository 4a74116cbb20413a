"""Has a message with this Remove Duplicates key been consumed already?

The removal of duplicates of CMQ: the producer makes a key for what it has to say, keeps it on its
disk, and sends it with every attempt to say it. Message ids and bodies mean nothing here.
"""

from collections.abc import Callable

from lns.delivery.detection import DAY_US, ConfigurationError, Detector, Duplicate, duration
from lns.delivery.incoming import Incoming
from lns.delivery.min_msg_time import MIN_MSG_TIME
from lns.store.inbox_entries import Entries, Mark, Place, Table

RETENTION_MAX_US = 15 * DAY_US  # "a maximum message validity period of 15 days"
RETRY_US = DAY_US  # as long as a network server tries to send a message, by default
NETWORK_US = 10_000_000


class RemoveDuplicatesKeys:
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
    >>> from lns.store.inbox_memory import MemoryEntries
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
        """Where the key of this message is; None when it has none."""
        key = message.remove_duplicates_key
        return None if key is None else Place(Table.KEY, key)

    def judge(self, entries: Entries, message: Incoming, now_us: int) -> Duplicate | None:
        """The message that had the same key; None when there is none, or no key."""
        place = self.place(message)
        mark = None if place is None else entries.get(place)
        if mark is None or mark.at_us < self.cut_off_us(now_us):
            return None
        return Duplicate(Detector.KEY, mark.position)

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        """The key of a message has been consumed."""
        place = self.place(message)
        if place is not None:
            entries.put(place, Mark(now_us, position))

    def take(
        self, entries: Entries, message: Incoming, now_us: int, position: int = 0
    ) -> Duplicate | None:
        """Judge a message, and remember its key when it is accepted (None)."""
        duplicate = self.judge(entries, message, now_us)
        if duplicate is None:
            self.remember(entries, message, now_us, position)
        return duplicate

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        """Let go of keys that can arrive no more, and keep what the second formula went by."""
        oldest_us = None if self._min_msg_time_us is None else self._min_msg_time_us()
        if oldest_us is not None and (by := oldest_us - entries.number(MIN_MSG_TIME)) != 0:
            entries.add(MIN_MSG_TIME, by)
        entries.forget(Table.KEY, self.cut_off_us(now_us), at_most)
