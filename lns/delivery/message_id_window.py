"""Was a message with this id accepted a short while ago?

The duplicate detection of Azure Service Bus: a repeat within the history window is accepted from
its sender, and ignored. The window is not sliding: it is measured from the message that was
accepted first, and what was ignored leaves no trace.
"""

from lns.delivery.detection import DAY_US, ConfigurationError, Detector, Duplicate, duration
from lns.delivery.incoming import Incoming
from lns.store.inbox_entries import Entries, Mark, Place, Table

WINDOW_US = 600_000_000
WINDOW_MIN_US = 20_000_000
WINDOW_MAX_US = 7 * DAY_US


class MessageIdWindow:
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
    >>> from lns.store.inbox_memory import MemoryEntries
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
        """The length of the window in µs."""
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
        """Where this id is remembered."""
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
        """The message that this one repeats; None when there is none."""
        for place in self.places(message):
            mark = entries.get(place)
            if mark is not None and now_us - mark.at_us < self._window_us:
                return Duplicate(Detector.WINDOW, mark.position)
        return None

    def remember(self, entries: Entries, message: Incoming, now_us: int, position: int) -> None:
        """Begin the window of a message that was accepted."""
        entries.put(self.place(message), Mark(now_us, position))

    def take(
        self, entries: Entries, message: Incoming, now_us: int, position: int = 0
    ) -> Duplicate | None:
        """Judge a message, and remember it when it is accepted (None)."""
        duplicate = self.judge(entries, message, now_us)
        if duplicate is None:
            self.remember(entries, message, now_us, position)
        return duplicate

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        """Let go of ids whose window is over."""
        entries.forget(Table.WINDOW, now_us - self._window_us + 1, at_most)

    def _id(self, message: Incoming) -> str:
        if not self._partitioned:
            return message.message_id
        partition_key = message.partition_key
        return f"{len(partition_key)}:{partition_key}:{message.message_id}"
