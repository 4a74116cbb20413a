"""What does the counter of one station's concentrator show?"""

from random import Random

from lns.station.xtime import join, split

_PPM = 1_000_000
_START_COUNTER_MAX_US = 1 << 40
_SESSIONS = range(1, 256)
READ_AFTER_US = 20_000
"""How long the radio runs before the station has read its clock: never when `getxtime` comes
together with the `router_config` that started it (Basics Station, timesync.c)."""


class ConcentratorClock:
    """A counter with its own start, its own session and its own error, since the radio started.

    `ppm`: how much faster than the bench's clock it runs. `offset_us`: where the counter starts;
    None draws it anew with every session, as the session byte is, which is the last one only after
    `repeat_session`.
    `is_told`: the network server knows the session that runs, and can have a frame answered.
    """

    def __init__(self, chance: Random, *, ppm: int = 0, offset_us: int | None = None) -> None:
        self._chance = chance
        self._ppm = ppm
        self._offset_us = offset_us
        self._session = 0
        self._counter_us = 0
        self._started_us = 0
        self._repeats = False
        self._is_broken = False
        self.is_told = False

    def break_down(self) -> None:
        """Show no time from now on: frames have the `xtime` 0, and `getxtime` is answered by 0."""
        self._is_broken = True

    def repeat_session(self) -> None:
        """Draw the byte of this session once more at the next start; the counter begins at 0."""
        self._repeats = True

    def start(self, now_us: int) -> None:
        """Begin a new session."""
        others = [session for session in _SESSIONS if session != self._session]
        session = self._chance.choice(others)
        drawn_us = self._chance.randrange(_START_COUNTER_MAX_US)
        if self._repeats and self._session:
            self._counter_us = 0
        else:
            self._session = session
            self._counter_us = drawn_us if self._offset_us is None else self._offset_us
        self._repeats = False
        self._started_us = now_us
        self.is_told = False

    def tell(self, now_us: int) -> int:
        """The answer to `getxtime`: 0 until the clock has been read."""
        if not self._session or self._is_broken or now_us < self._started_us + READ_AFTER_US:
            return 0
        self.is_told = True
        return self.xtime(now_us)

    def xtime(self, at_us: int) -> int:
        """The `xtime` of a moment on the bench's clock; 0 before the first start."""
        if not self._session or self._is_broken:
            return 0
        elapsed_us = at_us - self._started_us
        counter_us = self._counter_us + elapsed_us + elapsed_us * self._ppm // _PPM
        return join(0, self._session, counter_us)

    def time_us(self, xtime: int) -> int | None:
        """The moment of an `xtime` on the bench's clock; None for another session."""
        parts = split(xtime)
        if not self._session or parts.session != self._session:
            return None
        counted_us = parts.counter_us - self._counter_us
        return self._started_us + counted_us * _PPM // (_PPM + self._ppm)
