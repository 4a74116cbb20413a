"""Does a server tell how far its messages have come, before more of them go?"""

_AT_ONCE_US = 100_000


class Overtaking:
    """What messages do while a statement is due; remembers the first that went before it.

    That one may have been on its way. A second one, later, has taken the room that was kept.
    """

    def __init__(self) -> None:
        self._first_us: int | None = None

    def is_wrong(self, at_us: int, due_us: int) -> bool:
        """Whether a message that comes now should have waited for a statement due at `due_us`."""
        if at_us <= due_us:
            self._first_us = None
        elif self._first_us is None:
            self._first_us = at_us
        return self._first_us is not None and at_us > self._first_us + _AT_ONCE_US
