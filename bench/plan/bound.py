"""How long does a set of cases take at the very least, whoever plays it?

What a case cannot avoid is the airtime of its devices, the receive windows and retransmission
time-outs that follow, and the waits that the scenario itself demands; as many of its boards as it
needs are taken for so long. Spread perfectly over the boards, with nothing to set up in between,
that is the bound. Where the air is not conducted, add the silence that a duty cycle demands.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from bench.lab.regulation.airtime_ledger import HOUR_US
from bench.plan.abilities import Abilities
from bench.plan.planned_case import PlannedCase
from lns.lorawan.region import region


@dataclass(frozen=True, slots=True, kw_only=True)
class Bound:
    """Times in µs below which no bench of these boards comes; `total_us` is the bound itself.

    `alone_us`: cases that do something to whole stations, one after another. Beside each other:
    `longest_us` the longest of the others, `boards_us` the work of all boards evenly spread,
    `retries_us` and `counters_us` that of the boards which alone can do so, `duty_cycle_us` how
    long the law lets their airtime take.
    """

    alone_us: int
    longest_us: int
    boards_us: int
    retries_us: int
    counters_us: int
    duty_cycle_us: int

    @property
    def total_us(self) -> int:
        """The bound."""
        beside_us = max(self.longest_us, self.boards_us, self.retries_us, self.counters_us)
        return max(self.alone_us + beside_us, self.duty_cycle_us)


def bound(cases: Iterable[PlannedCase], bench: Abilities) -> Bound:
    """The bound of cases that this bench can play."""
    listed = list(cases)
    beside = [case for case in listed if not case.takes_stations]
    taken = [(device, case.duration_us) for case in beside for device in case.on_air]
    return Bound(
        alone_us=sum(case.duration_us for case in listed if case.takes_stations),
        longest_us=max((case.duration_us for case in beside), default=0),
        boards_us=_spread((us for _, us in taken), bench.devices),
        retries_us=_spread((us for one, us in taken if one.wants_retries), bench.obeys_retries),
        counters_us=_spread(
            (us for one, us in taken if bench.must_set_counter(one)), bench.sets_counters
        ),
        duty_cycle_us=0 if bench.conducted else _silence_us(listed, bench),
    )


def _spread(times_us: Iterable[int], boards: int) -> int:
    """The work of each board, if all of them have the same, rounded up."""
    return -(-sum(times_us) // max(boards, 1))


def _silence_us(cases: Sequence[PlannedCase], bench: Abilities) -> int:
    """How long a duty cycle makes the airtime of these last: one hour's share is free at once."""
    band = region(bench.region).duty_cycle_band(join_channel_hz(bench))
    if band is None:
        return 0
    devices_us = (device.airtime_us for case in cases for device in case.on_air)
    replayed_us = (case.injected_airtime_us for case in cases)
    most_us = max(_spread(devices_us, bench.devices), _spread(replayed_us, bench.replayers))
    free_us = HOUR_US * band.per_mille // 1000
    return max(0, most_us - free_us) * 1000 // band.per_mille


def join_channel_hz(bench: Abilities) -> int:
    """A channel that every device uses: its band is the one whose share runs out."""
    return region(bench.region).join_channels[0].freq_hz
