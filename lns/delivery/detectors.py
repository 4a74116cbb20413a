"""Which detectors does a consumer have, and what do they say together?

One after the other: the window of ids, the sequence numbers, the Remove Duplicates keys. The first
one that recognises a message decides. Of a message that one of them ignored nothing is remembered
but its sequence number, for it was received.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from lns.delivery.detection import ConfigurationError, Duplicate, duration
from lns.delivery.incoming import Incoming
from lns.delivery.message_id_window import WINDOW_MAX_US, MessageIdWindow
from lns.delivery.remove_duplicates_keys import RemoveDuplicatesKeys
from lns.delivery.sequence_tracker import PERFORMS, SequenceTracker
from lns.store.inbox_entries import Entries, Place

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
        """All of them remember a message that was accepted."""
        for detector in self._all:
            detector.remember(entries, message, now_us, position)

    def forget(self, entries: Entries, now_us: int, at_most: int) -> None:
        """Let go of what is over, but not too much at once."""
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
    def _all(self) -> tuple[MessageIdWindow | SequenceTracker | RemoveDuplicatesKeys, ...]:
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
            f"{store} was created with {_told(created)}, which cannot become {_told(settings)};"
            " name another store, or remove this one"
        )


def _set(entries: Entries, name: str, value: int) -> None:
    if (by := value - entries.number(name)) != 0:
        entries.add(name, by)


def _told(settings: dict[str, int]) -> str:
    words = [name for name in ("partitioned", "sessions") if settings[name]]
    window = f"a window of {duration(settings['window_us'])}"
    return window + "".join(f", {word}" for word in words)
