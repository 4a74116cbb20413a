"""Has the stream of this message come further already?

The duplicate detection of the AEP Engine: the last sequence number of every stream is kept, and
what is not beyond it was there before.
"""

from lns.delivery.detection import Detector, Duplicate
from lns.delivery.incoming import Incoming
from lns.store.inbox_entries import Entries, Mark, Place, Table

NUM_DUP_MSGS_RCVD = "NumDupMsgsRcvd"
PERFORMS = "performDuplicateChecking"


class SequenceTracker:
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
    >>> from lns.store.inbox_memory import MemoryEntries
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
        """Where the last number of the stream of this message is."""
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
        """The stream has come as far as this message, which was received."""
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
        """Judge a message, and remember it when it is accepted (None), or count it."""
        duplicate = self.judge(entries, message, now_us)
        if duplicate is None:
            self.remember(entries, message, now_us, position)
        else:
            entries.add(NUM_DUP_MSGS_RCVD, 1)
        return duplicate

    def num_dup_msgs_rcvd(self, entries: Entries) -> int:
        """How many duplicates were ignored; 0 as long as nothing is checked."""
        return entries.number(NUM_DUP_MSGS_RCVD) if self._checks else 0
