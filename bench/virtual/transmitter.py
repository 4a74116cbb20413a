"""When does a station send a downlink, in which window, and when not at all?

Nothing is reported for a downlink that is not sent: that is how the station behaves. Source: Basics
Station, s2e.c (window choice, duty cycle, priorities), s2conf.h (TX_AIM_GAP 20 ms).
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

from bench.transmission import Transmission
from bench.verdict.wire import CLASS_A, CLASS_C, Tuned, Wanted
from bench.virtual.lorawan.channel_plan import ChannelPlan, time_on_air_us
from lns.clock import now_us

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
        self.is_broken = self.is_told = False

    def break_down(self) -> None:
        """Show no time from now on: frames have the `xtime` 0, and `getxtime` is answered by 0."""
        self.is_broken = True

    def repeat_session(self) -> None:
        """Draw the byte of this session once more at the next start; the counter begins at 0."""
        self._repeats = True

    def differ_from(self, *clocks: "ConcentratorClock") -> None:
        """Draw none of the bytes that these clocks have, itself perhaps among them."""
        self._apart = clocks

    def start(self, now_us: int) -> None:
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
        if not self._session or self.is_broken or now_us < self._started_us + READ_AFTER_US:
            return 0
        self.is_told = True
        return self.xtime(now_us)

    def xtime(self, at_us: int) -> int:
        """The `xtime` of a moment on the bench's clock; 0 before the first start."""
        if not self._session or self.is_broken:
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


AIM_GAP_US = 20_000
SEEN_EMITTING_US = 5_000
RX2_AFTER_RX1_US = 1_000_000
CLASS_C_RETRY_US = 100_000
CLASS_C_RETRIES_MAX = 10
JOBS_MAX = 128
_ALTERNATIVE_PENALTY = 10


@dataclass(frozen=True, slots=True)
class Allowed:
    """What `router_config` allows: the defined data rates and the range of frequencies (Hz)."""

    drs: tuple[int, ...]
    freq_range_hz: tuple[int, int]

    def allows(self, parameters: Tuned | None) -> bool:
        """Whether a downlink may have these; one bad window spoils the whole message."""
        low_hz, high_hz = self.freq_range_hz
        return parameters is None or (
            parameters[0] in self.drs and low_hz <= parameters[1] <= high_hz
        )


@dataclass(slots=True, eq=False)
class Job:
    """A downlink on its way to the antenna: the window chosen now, and the one left."""

    wanted: Wanted
    start_us: int
    xtime: int
    dr: int
    freq_hz: int
    airtime_us: int
    later: Tuned | None
    retries_left: int = 0
    handed_over: bool = False

    @property
    def priority(self) -> int:
        """Lower while there is another chance."""
        return self.wanted.priority - _ALTERNATIVE_PENALTY * bool(self.later or self.retries_left)

    def overlaps(self, other: "Job") -> bool:
        return (
            self.start_us < other.start_us + other.airtime_us
            and other.start_us < self.start_us + self.airtime_us
        )


class Transmitter:
    """The transmit queue of one radio; remembers planned frames and each band's duty cycle.

    `emit` puts a frame on the air now; `emitted` is told 5 ms after its start.
    """

    def __init__(
        self,
        region: ChannelPlan,
        clock: ConcentratorClock,
        *,
        emit: Callable[[Job], Transmission],
        emitted: Callable[[Job], None],
        duty_cycle: bool = False,
    ) -> None:
        self._region = region
        self._clock = clock
        self._emit = emit
        self._emitted = emitted
        self._duty_cycle = duty_cycle
        self._plan: Allowed | None = None
        self._jobs: list[Job] = []
        self._bands_free_us: dict[int, int] = {}

    def start(self, plan: Allowed) -> None:
        """Begin anew with a channel plan; what was planned is forgotten."""
        self._plan = plan
        self._jobs.clear()

    def stop(self) -> None:
        """Forget everything planned, and plan nothing more until `start`."""
        self._plan = None
        self._jobs.clear()

    def plan(self, wanted: Wanted) -> None:
        """Plan a downlink for the first window that can be met, or drop it."""
        plan = self._plan
        if plan is None or len(self._jobs) >= JOBS_MAX:
            return
        if not (plan.allows(wanted.rx1) and plan.allows(wanted.rx2)):
            return
        job: Job | None = None  # class B needs a time source that this station has not
        if wanted.device_class == CLASS_A:
            job = self._class_a(wanted)
        elif wanted.device_class == CLASS_C:
            job = self._class_c(wanted)
        if job is not None:
            self._jobs.append(job)
            self._at(job.start_us - AIM_GAP_US, self._hand_over, job)

    def _class_a(self, wanted: Wanted) -> Job | None:
        rx1_xtime = wanted.xtime + max(wanted.rx_delay_s, 1) * 1_000_000
        rx1_us = self._clock.time_us(rx1_xtime)
        if rx1_us is None:
            return None  # an obsolete session
        earliest_us = now_us() + AIM_GAP_US
        if wanted.rx1 is not None and rx1_us >= earliest_us:
            return self._job(wanted, rx1_us, rx1_xtime, wanted.rx1, wanted.rx2)
        rx2_us = rx1_us + RX2_AFTER_RX1_US
        if wanted.rx2 is not None and rx2_us >= earliest_us:
            return self._job(wanted, rx2_us, rx1_xtime + RX2_AFTER_RX1_US, wanted.rx2, None)
        return None

    def _class_c(self, wanted: Wanted) -> Job | None:
        if wanted.rx2 is None or (not wanted.xtime and wanted.rx1 is not None):
            return None
        job = self._class_a(wanted) if wanted.xtime and wanted.rx1 is not None else None
        if job is None or (job.dr, job.freq_hz) != wanted.rx1:
            asap_us = now_us() + AIM_GAP_US
            job = self._job(wanted, asap_us, self._clock.xtime(asap_us), wanted.rx2, None)
        job.retries_left = CLASS_C_RETRIES_MAX
        return job

    def _job(
        self, wanted: Wanted, start_us: int, xtime: int, now: Tuned, later: Tuned | None
    ) -> Job:
        airtime_us = self._airtime_us(wanted, now[0])
        return Job(wanted, start_us, xtime, *now, airtime_us, later)

    def _hand_over(self, job: Job) -> None:
        if job not in self._jobs:
            return
        if self._is_blocked(job):
            self._postpone(job)
            return
        job.handed_over = True
        band = duty_cycle_rate(job.freq_hz)
        self._bands_free_us[band] = job.start_us + job.airtime_us * band
        self._at(job.start_us, self._send, job)

    def _is_blocked(self, job: Job) -> bool:
        if self._duty_cycle and self._region.name == "EU868":
            if job.start_us < self._bands_free_us.get(duty_cycle_rate(job.freq_hz), 0):
                return True
        rivals = [other for other in self._jobs if other is not job and other.overlaps(job)]
        return any(other.handed_over or other.priority > job.priority for other in rivals)

    def _postpone(self, job: Job) -> None:
        if job.wanted.device_class == CLASS_C:
            if job.later is None and not job.retries_left:
                return self._jobs.remove(job)
            job.retries_left -= job.later is None
            job.start_us = now_us() + AIM_GAP_US + CLASS_C_RETRY_US * (job.later is None)
            job.xtime = self._clock.xtime(job.start_us)
        elif job.later is None:
            return self._jobs.remove(job)
        else:
            job.start_us += RX2_AFTER_RX1_US
            job.xtime += RX2_AFTER_RX1_US
        if job.later is not None:
            job.dr, job.freq_hz = job.later
            job.airtime_us = self._airtime_us(job.wanted, job.dr)
            job.later = None
        self._at(job.start_us - AIM_GAP_US, self._hand_over, job)

    def _send(self, job: Job) -> None:
        if job not in self._jobs:
            return
        transmission = self._emit(job)
        self._at(transmission.start_us + SEEN_EMITTING_US, self._tell, job)
        self._at(transmission.end_us, self._finish, job)

    def _tell(self, job: Job) -> None:
        if job in self._jobs:
            self._emitted(job)

    def _finish(self, job: Job) -> None:
        if job in self._jobs:
            self._jobs.remove(job)

    def _airtime_us(self, wanted: Wanted, dr: int) -> int:
        data_rate = self._region.data_rates[dr]
        assert data_rate is not None
        return time_on_air_us(data_rate, len(wanted.pdu), crc=False)

    def _at(self, when_us: int, callback: Callable[[Job], None], job: Job) -> None:
        asyncio.get_running_loop().call_at(when_us / 1_000_000, callback, job)


def allowed(config: dict[str, Any], region: ChannelPlan) -> Allowed:
    """What a `router_config` allows on this air; nothing for fields that cannot be read.

    A region name that the station does not know forbids every downlink, as in the real one.
    """
    drs, freq_range = config.get("DRs"), config.get("freq_range")
    if config.get("region") != region.name or not isinstance(drs, list):
        return Allowed((), (0, 0))
    pairs = zip(region.data_rates, drs, strict=False)
    defined = tuple(
        dr
        for dr, (data_rate, entry) in enumerate(pairs)
        if data_rate is not None and _is_defined(entry)
    )
    match freq_range:
        case [int(low_hz), int(high_hz)]:
            return Allowed(defined, (low_hz, high_hz))
        case _:
            return Allowed(defined, (0, 0))


def _is_defined(entry: object) -> bool:
    match entry:
        case [int(sf), *_]:
            return sf >= 0
        case _:
            return False


def duty_cycle_rate(freq_hz: int) -> int:
    """The band of EU868 that a frequency counts for: its silence per airtime, 10, 100 or 1000."""
    if 869_400_000 <= freq_hz <= 869_650_000:
        return 10
    if 868_000_000 <= freq_hz <= 868_600_000 or 869_700_000 <= freq_hz <= 870_000_000:
        return 100
    return 1000
