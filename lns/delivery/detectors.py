"""Which detectors does a consumer have, and what do they say together?

One after the other: the window of ids, the sequence numbers, the Remove Duplicates keys. The first
one that recognises a message decides. None of them remembers a message that one of them ignored.
"""

from dataclasses import dataclass, field

from lns.delivery.detection import ConfigurationError, Duplicate, duration
from lns.delivery.incoming import Incoming
from lns.delivery.message_id_window import MessageIdWindow
from lns.delivery.remove_duplicates_keys import RemoveDuplicatesKeys
from lns.delivery.sequence_tracker import SequenceTracker
from lns.store.inbox_entries import Entries, Place

_CREATED = "created"
_DETECTS = "window_us"


@dataclass(frozen=True, slots=True)
class Detectors:
    """The chain of one consumer; None is off.

    The window belongs to the store: its length, and whether there is one at all, is fixed when the
    store is created (Azure Service Bus). The others may be switched on and off.
    """

    window: MessageIdWindow | None = field(default_factory=MessageIdWindow)
    sequence: SequenceTracker | None = field(default_factory=SequenceTracker)
    keys: RemoveDuplicatesKeys | None = None

    def fits(self, message: Incoming) -> bool:
        """Whether a message is one that these detectors can tell from others."""
        return self.window is None or self.window.fits(message)

    def places(self, message: Incoming) -> tuple[Place, ...]:
        """What must not change while this message is decided on."""
        places = []
        if self.window is not None:
            places.append(self.window.place(message))
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

    def settle(self, entries: Entries, store: str) -> None:
        """Create a store with this window; ConfigurationError when it was created with another."""
        settings = {"window_us": 0, "partitioned": 0, "sessions": 0}
        if self.window is not None:
            settings |= self.window.settings
        if not entries.number(_CREATED):
            entries.add(_CREATED, 1)
            for name, value in settings.items():
                entries.add(name, value)
            return
        created = {name: entries.number(name) for name in settings}
        if created == settings:
            return
        if not created[_DETECTS] or not settings[_DETECTS]:
            states = ("without", "with") if created[_DETECTS] == 0 else ("with", "without")
            raise ConfigurationError(
                f"{store} was created {states[0]} duplicate detection by message id, and is to be"
                f" used {states[1]} it; that is chosen at creation: name another store, or remove"
                " this one"
            )
        raise ConfigurationError(
            f"{store} was created with {_told(created)}, which cannot become {_told(settings)};"
            " name another store, or remove this one"
        )

    @property
    def _all(self) -> tuple[MessageIdWindow | SequenceTracker | RemoveDuplicatesKeys, ...]:
        chain = self.window, self.sequence, self.keys
        return tuple(detector for detector in chain if detector is not None)


def _told(settings: dict[str, int]) -> str:
    words = [name for name in ("partitioned", "sessions") if settings[name]]
    window = f"a window of {duration(settings['window_us'])}"
    return window + "".join(f", {word}" for word in words)
