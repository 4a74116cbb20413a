"""When is the air of a lab free for one more frame?

Boards that play different cases share the air: two frames at once spoil each other, and a gateway
that sends hears nothing. What is known to come can be waited for.
"""

import asyncio
from dataclasses import dataclass

from lns.clock import now_us

START_UP_US = 60_000
"""How long after its command a board may begin to send."""
MARGIN_US = 15_000


@dataclass(frozen=True, slots=True)
class _Busy:
    begin_us: int
    end_us: int


class AirTraffic:
    """What is on the air and what is about to be; remembers it until it is over."""

    def __init__(self) -> None:
        self._busy: list[_Busy] = []

    def expect(self, begin_us: int, airtime_us: int) -> None:
        """Somebody will be sending from then on: a gateway its downlink."""
        self._busy.append(_Busy(begin_us - MARGIN_US, begin_us + airtime_us + MARGIN_US))

    async def clear(self, airtime_us: int) -> None:
        """Wait until a frame of this length can be sent at once, and keep that time free for it."""
        needed_us = START_UP_US + airtime_us + MARGIN_US
        while (begin_us := self.free_from(now_us(), needed_us)) > now_us():  # noqa: ASYNC110
            await asyncio.sleep((begin_us - now_us()) / 1_000_000)
        self._busy.append(_Busy(now_us(), now_us() + needed_us))

    def free_from(self, at_us: int, needed_us: int) -> int:
        """The earliest time from then on at which so much time is free."""
        self._busy = sorted(
            (busy for busy in self._busy if busy.end_us > at_us), key=lambda busy: busy.begin_us
        )
        for busy in self._busy:
            if at_us + needed_us <= busy.begin_us:
                break
            at_us = max(at_us, busy.end_us)
        return at_us
