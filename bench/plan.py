"""What does a case need, what does a bench lack for it, and how long do many of them take?

A verb says what it takes where it stands (`@needs`), and a dry run notes what a case has called.
What is disturbed between stations and application, or told at the tap of a station, needs nothing
but the bench itself.

The bound: what a case cannot avoid is the airtime of its devices, the receive windows and
retransmission time-outs that follow, and the waits that the scenario itself demands; as many of
its boards as it needs are taken for so long. Spread perfectly over the boards, with nothing to set
up in between, that is the bound. Where the air is not conducted, add the silence that a duty cycle
demands.

The schedule: choosy cases first, as few boards can play them, then the longest; each begins as soon
as its boards are free. Cases that have to be alone come last, one by one.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from enum import StrEnum
from functools import wraps
from inspect import iscoroutinefunction
from itertools import permutations
from typing import Any, ParamSpec, TypeVar

import msgspec

from bench.device.dialects import dialect_of
from bench.device.interfaces import Traits
from bench.lab.inventory import Inventory
from bench.lab.regulation import HOUR_US, AirtimeLedger
from lns.lorawan.region import region

# Found by playing the case on the simulated rig (`bench.run.simulated`); pure values, as JSON and
# back.
WHOLE_STATION = frozenset({"cut", "restart", "reconnect_without_version", "leave_half_open"})
"""What happens to a station as a whole, so that no other case can use it meanwhile."""
NOTICED = frozenset(
    {"kill_lns", "start_lns", "restart_lns", "wipe_producer"}
    | {"pause_lns", "pause_lns_in_mid_claim", "resume_lns"}
)
"""What happens to a network server, and its stations notice: no other case may use them then."""
OWN_SERVERS = frozenset({"lns", "store"})
"""The seams at which a fault needs network servers that no other case uses."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedAct:
    """One thing that a device does: send, join or restart, with what `send` and `restart` say."""

    verb: str
    confirmed: bool = False
    retries: int = 0
    transmissions: int = 1
    memory: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedDevice:
    """One device of a case, and what it does in order.

    `explicit_counter`: the scenario itself says which counter comes next; `next_f_cnt` is that
    counter, None where nobody has heard the device. `explicit_identity`: it says DevAddr or keys.
    `crafted`: frames in its name are built by the bench. `transmissions` and `airtime_us` are those
    of the device itself, repetitions included.
    """

    name: str
    activation: str
    class_c: bool = False
    known: bool = True
    dr: int | None = None
    explicit_counter: bool = False
    next_f_cnt: int | None = None
    explicit_identity: bool = False
    acts: tuple[PlannedAct, ...] = ()
    crafted: bool = False
    expects_downlink: bool = False
    transmissions: int = 0
    airtime_us: int = 0

    @property
    def is_on_air(self) -> bool:
        """Whether a board has to play it; otherwise only its name is used."""
        return bool(self.acts)

    @property
    def repetitions(self) -> frozenset[int]:
        """How often its messages are sent, each number once."""
        return frozenset(
            max(act.transmissions, act.retries + 1) for act in self.acts if act.verb == "send"
        )

    @property
    def only_retries(self) -> bool:
        """Whether what is repeated is always a confirmed message without acknowledgement."""
        return all(act.transmissions == 1 for act in self.acts)

    @property
    def nb_trans(self) -> int:
        """How often each of its messages is sent, where that is the same for all; else 1.

        This the bench can have of any board, by a LinkADRReq.
        """
        return next(iter(self.repetitions)) if len(self.repetitions) == 1 else 1

    @property
    def wants_retries(self) -> bool:
        """Whether its board has to repeat some messages, and others not."""
        return len(self.repetitions) > 1

    def wants_counter(self, first_f_cnt: int) -> bool:
        """Whether its board has to be told a counter that the scenario says.

        Any board can begin anew, with its own `first_f_cnt`.
        """
        says = self.is_on_air and self.explicit_counter and self.next_f_cnt is not None
        return says and self.next_f_cnt != first_f_cnt

    @property
    def is_in_mid_life(self) -> bool:
        """Whether any counter will do that is not that of a beginning."""
        return self.next_f_cnt is not None and not self.explicit_counter


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedCase:
    """One case: how long it takes, and everything that it uses.

    `duration_us` is what radios, stations and the scenario's own waits take, with waits about the
    retention shortened as on a bench; no set-up and no settling. `stations` and `servers` are the
    names used, `verbs` what is asked of rig, stations (`west.cut`) and devices (`alpha.send`), and
    `takes` what those of rig and stations need of a bench (`bench.plan`).
    `injected_airtime_us` is what a replayer has to send. `requires` and `faults` are the markers.
    """

    case: str
    duration_us: int
    region: str
    servers: tuple[str, ...] = ()
    stations: tuple[str, ...] = ()
    consumers: tuple[str, ...] = ()
    verbs: tuple[str, ...] = ()
    takes: tuple[str, ...] = ()
    devices: tuple[PlannedDevice, ...] = ()
    injected_airtime_us: int = 0
    requires: tuple[str, ...] = ()
    faults: tuple[str, ...] = ()

    @property
    def on_air(self) -> tuple[PlannedDevice, ...]:
        return tuple(device for device in self.devices if device.is_on_air)

    @property
    def airtime_us(self) -> int:
        return sum(device.airtime_us for device in self.devices) + self.injected_airtime_us

    @property
    def replays(self) -> bool:
        return "replay" in self.verbs

    @property
    def takes_stations(self) -> bool:
        return not WHOLE_STATION.isdisjoint(self.station_verbs)

    @property
    def alone(self) -> bool:
        """Whether a bench plays it while no other case is played."""
        return self.takes_stations or not NOTICED.isdisjoint(self.rig_verbs)

    @property
    def weakened(self) -> int:
        return sum(verb == f"{name}.weaken" for name in self.stations for verb in self.verbs)

    @property
    def own_servers(self) -> bool:
        faulty = not OWN_SERVERS.isdisjoint(self.faults)
        return faulty or bool(self.consumers) or len(self.servers) > 1

    @property
    def rig_verbs(self) -> frozenset[str]:
        return frozenset(verb for verb in self.verbs if "." not in verb)

    @property
    def station_verbs(self) -> frozenset[str]:
        called = (verb.rpartition(".") for verb in self.verbs if "." in verb)
        return frozenset(verb for name, _, verb in called if name in self.stations)

    def as_json(self) -> dict[str, Any]:
        return asdict(self)


def from_json(fields: Mapping[str, Any]) -> PlannedCase:
    """The case that `as_json` described, also after JSON has made lists of its tuples."""
    return msgspec.convert(fields, PlannedCase)


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One device of a bench, and what its firmware does."""

    name: str
    dialect: str
    traits: Traits


def board(name: str, dialect: str) -> Board:
    """A board that does what its dialect is known for; an identified one may do more or less."""
    return Board(name=name, dialect=dialect, traits=dialect_of(dialect).traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """A bench as a plan sees it.

    `extras`: what was fitted besides, in the words of `bench.plan`. `capabilities`: what
    scenarios may ask for with `requires`.
    """

    boards: tuple[Board, ...]
    stations: int
    replayers: int = 0
    attenuators: int = 0
    region: str = "EU868"
    conducted: bool = False
    extras: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset({"wires", "outbox", "own store"})

    @property
    def devices(self) -> int:
        return len(self.boards)

    @property
    def obeys_retries(self) -> int:
        return sum(board.traits.obeys_retries for board in self.boards)

    def must_set_counter(self, device: PlannedDevice) -> bool:
        """Whether no board begins by itself with the counter that a scenario says."""
        return all(device.wants_counter(board.traits.first_f_cnt) for board in self.boards)

    @property
    def sets_counters(self) -> int:
        return sum(board.traits.sets_counters for board in self.boards)


def abilities_of(inventory: Inventory) -> Abilities:
    """What a bench can do by its file alone, before any board has told its firmware."""
    return Abilities(
        boards=tuple(board(one.name, one.radio.dialect) for one in inventory.devices),
        stations=len(inventory.gateways),
        replayers=len(inventory.replayers),
        attenuators=sum(one.attenuator is not None for one in inventory.gateways),
        region=inventory.region,
        conducted=inventory.conducted,
    )


def usual_bench() -> Abilities:
    """Two RUI3 boards, a LoRa-E5, a replayer and two stations, on cables."""
    return Abilities(
        boards=(board("rui3-1", "rui3"), board("rui3-2", "rui3"), board("lora-e5-3", "lora-e5")),
        stations=2,
        replayers=1,
        conducted=True,
    )


def fits(board: Board, device: PlannedDevice) -> bool:
    return (
        _repeats(board, device)
        and (board.traits.sets_counters or not device.wants_counter(board.traits.first_f_cnt))
        and (board.traits.tells_windows or not device.expects_downlink)
    )


def by_the_network(device: PlannedDevice, board: Board) -> bool:
    """Whether this board is told by a LinkADRReq how often to send each frame of this device.

    It is, unless it obeys a command; and can be, where a session is there before the case begins.
    """
    if device.nb_trans == 1 or device.activation != "abp":
        return False
    if not (device.is_in_mid_life or board.traits.sets_counters):
        return False
    return not (board.traits.obeys_retries and device.only_retries)


def _repeats(board: Board, device: PlannedDevice) -> bool:
    if device.repetitions <= {1} or (board.traits.obeys_retries and device.only_retries):
        return True
    return by_the_network(device, board)


def is_choosy(planned: PlannedCase) -> bool:
    return any(
        not device.repetitions <= {1} or device.explicit_counter or device.expects_downlink
        for device in planned.on_air
    )


def assignments(planned: PlannedCase, boards: Sequence[Board]) -> Iterator[tuple[Board, ...]]:
    """Every way to give each device on the air a board of its own, in the order of the devices.

    First those that leave the boards free that can do most.
    """
    devices = planned.on_air
    modest_first = sorted(
        boards, key=lambda board: board.traits.obeys_retries + board.traits.sets_counters
    )
    for chosen in permutations(modest_first, len(devices)):
        if all(map(fits, chosen, devices)):
            yield chosen


class Item(StrEnum):
    """What a verb may take."""

    REPLAYER = "a replayer"
    ATTENUATOR = "an attenuator"
    GPS = "a GPS receiver"
    ANTENNA = "a second antenna"
    DUTY_CYCLE = "a station that keeps its duty cycle"
    SILENT = "a station that can be kept from introducing itself"
    CLOCK = "a station whose clock can be broken"
    SESSION = "a station whose session byte can be chosen"
    TWIN = "many radios on one EUI"
    BURST = "many radios at one moment"
    APPLICATION = "slow application"
    OUTBOX = "outbox"
    WALL_CLOCK = "wall clock"
    VIRTUAL_TIME = "virtual time"
    WIRES = "wires"


_P = ParamSpec("_P")
_R = TypeVar("_R")


def needs(item: Item) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """A verb takes this; `must_have` of whoever is asked for the verb refuses what it has not."""

    def mark(verb: Callable[_P, _R]) -> Callable[_P, _R]:
        @wraps(verb)
        def asked(*given: _P.args, **facts: _P.kwargs) -> _R:
            given[0].must_have(item)  # type: ignore[attr-defined]
            return verb(*given, **facts)

        @wraps(verb)
        async def asked_and_waited_for(*given: _P.args, **facts: _P.kwargs) -> Any:
            given[0].must_have(item)  # type: ignore[attr-defined]
            return await verb(*given, **facts)  # type: ignore[misc]

        marked: Any = asked_and_waited_for if iscoroutinefunction(verb) else asked
        marked.needs = item
        return marked  # type: ignore[no-any-return]

    return mark


def needed_by(kind: type, verb: str) -> Item | None:
    """What a verb takes; None where any bench can do it."""
    item = getattr(getattr(kind, verb, None), "needs", None)
    return item if isinstance(item, Item) else None


_ORDINALS = ("", "a", "a second", "a third", "a fourth", "a fifth", "a sixth")


def lacking(planned: PlannedCase, bench: Abilities) -> tuple[str, ...]:
    """What is missing for a case on this bench, in words, each once; nothing where it can be."""
    return tuple(dict.fromkeys(_missing(planned, bench)))


def _missing(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    if planned.region != bench.region:
        yield f"region {planned.region}"
    yield from _missing_boards(planned, bench)
    if len(planned.stations) > bench.stations:
        yield f"{_ordinal(len(planned.stations))} station"
    if planned.weakened > bench.attenuators:
        yield Item.ATTENUATOR.value
    yield from (item for item in planned.takes if not _has(Item(item), bench))
    yield from (word for word in planned.requires if word not in bench.capabilities)


def _missing_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    named = list(_named_boards(planned, bench))
    yield from named
    if not named and not any(True for _ in assignments(planned, bench.boards)):
        yield "a board that can do all of what one device needs"


def _named_boards(planned: PlannedCase, bench: Abilities) -> Iterator[str]:
    on_air = planned.on_air
    if len(on_air) > bench.devices:
        yield f"{_ordinal(len(on_air))} board"
    if sum(device.wants_retries for device in on_air) > bench.obeys_retries:
        yield "a board that repeats as often as it is told (LoRa-E5)"
    if sum(bench.must_set_counter(device) for device in on_air) > bench.sets_counters:
        yield "a board that can set its counters (LoRa-E5)"
    if any(device.crafted for device in on_air):
        yield "a device that gives up its counters"


def _has(item: Item, bench: Abilities) -> bool:
    if item is Item.REPLAYER:
        return bench.replayers > 0
    if item is Item.ATTENUATOR:
        return True  # as many as stations are weakened; they have been counted
    if item is Item.DUTY_CYCLE:
        return not bench.conducted
    return item.value in bench.extras | bench.capabilities


def _ordinal(number: int) -> str:
    return _ORDINALS[number] if number < len(_ORDINALS) else f"a {number}th"


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
    return (not is_choosy(planned), -len(planned.on_air), -planned.duration_us, planned.case)


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
