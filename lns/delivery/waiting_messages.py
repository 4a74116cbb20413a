"""Which of the messages that were offered to an inbox are to be decided on next?

In the order in which they came, and never one before another of its stream: a message whose effect
is to be tried again holds its stream back, for the sequence numbers behind it would make a
duplicate of it. Other streams go on.
"""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from lns.delivery.incoming import Incoming, Stream, Unreadable


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
