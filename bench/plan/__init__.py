"""How long does a set of cases take, at the very least and by a schedule?

The bound: what a case cannot avoid is the airtime of its devices, the receive windows and
retransmission time-outs that follow, and the waits that the scenario itself demands; as many of
its boards as it needs are taken for so long. Spread perfectly over the boards, with nothing to set
up in between, that is the bound. Where the air is not conducted, add the silence that a duty cycle
demands.

The schedule: choosy cases first, as few boards can play them, then the longest; each begins as soon
as its boards are free. Cases that have to be alone come last, one by one.
"""

import heapq
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from bench.lab.regulation import HOUR_US, AirtimeLedger
from bench.plan.needs import Abilities, Board, PlannedCase, assignments, is_choosy
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
        beside_us = max(self.longest_us, self.boards_us, self.retries_us, self.counters_us)
        return max(self.alone_us + beside_us, self.duty_cycle_us)


def bound(cases: Iterable[PlannedCase], bench: Abilities) -> Bound:
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
    return -(-sum(times_us) // max(boards, 1))


def _silence_us(cases: Sequence[PlannedCase], bench: Abilities) -> int:
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Overheads:
    """What a case costs besides what it does (µs): known state before it, settling after it.

    `lns_start_us` for each of its network servers, which start while its boards are set up.
    `injected_max`: how many cases without any board on the air are played at once.
    """

    setup_us: int = 3_000_000
    settle_us: int = 3_000_000
    lns_start_us: int = 1_500_000
    injected_max: int = 4

    def occupied_us(self, planned: PlannedCase) -> int:
        servers_us = len(planned.servers) * self.lns_start_us
        before_us = max(self.setup_us if planned.on_air else 0, servers_us)
        return before_us + planned.duration_us + self.settle_us


@dataclass(frozen=True, slots=True, kw_only=True)
class Turn:
    """When a case has its turn (µs from the beginning), and which board is which device."""

    case: str
    start_us: int
    end_us: int
    boards: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """The turns of all cases in the order in which they begin; the most urgent first."""

    turns: tuple[Turn, ...]

    @property
    def duration_us(self) -> int:
        return max((turn.end_us for turn in self.turns), default=0)


def schedule(
    cases: Iterable[PlannedCase], bench: Abilities, overheads: Overheads | None = None
) -> Schedule:
    """Give every case its turn; ValueError for a case that no boards of this bench can play."""
    listed = list(cases)
    timetable = _Timetable(bench, overheads or Overheads())
    beside = sorted((case for case in listed if not case.alone), key=_urgency)
    turns = [timetable.turn(case) for case in beside]
    for case in (case for case in listed if case.alone):
        timetable.wait_for_all()
        turns.append(timetable.turn(case))
    return Schedule(turns=tuple(sorted(turns, key=lambda turn: turn.start_us)))


def _urgency(planned: PlannedCase) -> tuple[bool, int, int, str]:
    return (
        not is_choosy(planned),
        -len(planned.on_air),
        -planned.duration_us,
        planned.case,
    )


class _Timetable:
    """When each board, and each place for a case without any, is free again (µs)."""

    def __init__(self, bench: Abilities, overheads: Overheads) -> None:
        self._bench = bench
        self._overheads = overheads
        self._free_us = {board.name: 0 for board in bench.boards}
        self._places_us = [0] * overheads.injected_max
        self._ledger = AirtimeLedger(region(bench.region), conducted=bench.conducted)
        self._freq_hz = join_channel_hz(bench)

    def turn(self, planned: PlannedCase) -> Turn:
        """Take the boards that are free first."""
        length_us = self._overheads.occupied_us(planned)
        if not planned.on_air:
            start_us = heapq.heappop(self._places_us)
            heapq.heappush(self._places_us, start_us + length_us)
            boards: Sequence[Board] = ()
        else:
            start_us, boards = self._earliest(planned)
        end_us = start_us + length_us
        for device, board in zip(planned.on_air, boards, strict=True):
            self._free_us[board.name] = end_us
            if device.airtime_us:
                self._ledger.note(board.name, self._freq_hz, device.airtime_us, start_us)
        names = {
            device.name: board.name for device, board in zip(planned.on_air, boards, strict=True)
        }
        return Turn(case=planned.case, start_us=start_us, end_us=end_us, boards=names)

    def wait_for_all(self) -> None:
        """Nothing begins before everything so far has ended."""
        until_us = max([*self._free_us.values(), *self._places_us])
        self._free_us = dict.fromkeys(self._free_us, until_us)
        self._places_us = [until_us] * len(self._places_us)

    def _earliest(self, planned: PlannedCase) -> tuple[int, Sequence[Board]]:
        ways = list(self._ways(planned))
        if not ways:
            raise ValueError(f"{planned.case}: no boards of this bench can play it")
        return min(ways, key=lambda way: way[0])

    def _ways(self, planned: PlannedCase) -> Iterator[tuple[int, Sequence[Board]]]:
        for boards in assignments(planned, self._bench.boards):
            dues_us = [
                self._ledger.due_us(
                    board.name, self._freq_hz, device.airtime_us, self._free_us[board.name]
                )
                for device, board in zip(planned.on_air, boards, strict=True)
            ]
            yield max(dues_us), boards
