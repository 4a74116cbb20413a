"""What does the counter of one station's concentrator show?"""

from random import Random

_PPM = 1_000_000
_START_COUNTER_MAX_US = 1 << 20  # it is 0 when the radio starts, and read a moment later
_SESSIONS = range(1, 256)
_SESSION_AT = 48  # | 0 | unit 7 | session 8 | microseconds 48 |
_COUNTER_END = 1 << _SESSION_AT
READ_AFTER_US = 20_000
"""How long the radio runs before the station has read its clock: never when `getxtime` comes
together with the `router_config` that started it (Basics Station, timesync.c)."""


class ConcentratorClock:
    """A counter with its own start, its own session and its own error, since the radio started.

    `ppm`: how much faster than the bench's clock it runs. `offset_us`: where the counter starts;
    None draws a low value with every session. So the session byte is drawn, and may be the last
    one by chance; after `repeat_session` it is, and after `differ_from` it is not.
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
        self._apart: tuple[ConcentratorClock, ...] = ()
        self._is_broken = False
        self.is_told = False

    def break_down(self) -> None:
        """Show no time from now on: frames have the `xtime` 0, and `getxtime` is answered by 0."""
        self._is_broken = True

    def repeat_session(self) -> None:
        """Draw the byte of this session once more at the next start; the counter begins at 0."""
        self._repeats = True

    def differ_from(self, *clocks: "ConcentratorClock") -> None:
        """Draw none of the bytes that these clocks have, itself perhaps among them."""
        self._apart = clocks

    def start(self, now_us: int) -> None:
        """Begin a new session."""
        taken = [clock._session for clock in self._apart]
        session = self._chance.choice([byte for byte in _SESSIONS if byte not in taken])
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
        return self._session << _SESSION_AT | counter_us % _COUNTER_END

    def time_us(self, xtime: int) -> int | None:
        """The moment of an `xtime` on the bench's clock; None for another session."""
        session, counter_us = divmod(xtime, _COUNTER_END)
        if not self._session or session % 256 != self._session:
            return None
        counted_us = counter_us - self._counter_us
        return self._started_us + counted_us * _PPM // (_PPM + self._ppm)
