"""The upstream that ends in this process: the newest messages, for whoever looks."""

from collections import Counter, deque

from lns.delivery.publisher import ForApplication

MESSAGES_MAX = 1000


class MemoryUpstream:
    """Keeps the newest messages and never refuses one; `numbered` counts each topic from 1."""

    def __init__(self, messages_max: int = MESSAGES_MAX) -> None:
        self._numbers: Counter[str] = Counter()
        self._newest: deque[tuple[int, ForApplication]] = deque(maxlen=messages_max)
        self.taken = 0

    async def publish(self, message: ForApplication) -> None:
        """Take one message."""
        self.taken += 1
        topic = message.topic
        self._numbers[topic] += 1
        self._newest.append((self._numbers[topic], message))

    @property
    def numbered(self) -> tuple[tuple[int, ForApplication], ...]:
        """The newest messages, oldest first, each with its sequence number."""
        return tuple(self._newest)
