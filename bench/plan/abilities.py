"""What can the boards of a bench do, and which of them plays which device of a case?"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations

from bench.device.dialects import dialect_of
from bench.device.interfaces import Traits
from bench.lab.inventory.entries import Inventory
from bench.plan.planned_case import PlannedCase, PlannedDevice


@dataclass(frozen=True, slots=True, kw_only=True)
class Board:
    """One device of a bench, and what its firmware does."""

    name: str
    dialect: str
    traits: Traits

    @property
    def obeys_retries(self) -> bool:
        """Whether it repeats a confirmed message as often as it is told."""
        return self.traits.obeys_retries

    @property
    def sets_counters(self) -> bool:
        """Whether it can be told its frame counters."""
        return self.traits.sets_counters

    @property
    def tells_windows(self) -> bool:
        """Whether it says in which window it heard what."""
        return self.traits.tells_windows


def board(name: str, dialect: str) -> Board:
    """A board that does what its dialect is known for; an identified one may do more or less."""
    return Board(name=name, dialect=dialect, traits=dialect_of(dialect).traits)


@dataclass(frozen=True, slots=True, kw_only=True)
class Abilities:
    """A bench as a plan sees it.

    `extras`: what was fitted besides, in the words of `bench.plan.needs`. `capabilities`: what
    scenarios may ask for with `requires`.
    """

    boards: tuple[Board, ...]
    stations: int
    replayers: int = 0
    attenuators: int = 0
    region: str = "EU868"
    conducted: bool = False
    extras: frozenset[str] = frozenset()
    capabilities: frozenset[str] = frozenset({"wires", "own store"})

    @property
    def devices(self) -> int:
        """How many devices there are."""
        return len(self.boards)

    @property
    def dialects(self) -> tuple[str, ...]:
        """What the boards speak, each once."""
        return tuple(dict.fromkeys(board.dialect for board in self.boards))

    @property
    def obeys_retries(self) -> int:
        """How many boards repeat as often as they are told."""
        return sum(board.obeys_retries for board in self.boards)

    def must_set_counter(self, device: PlannedDevice) -> bool:
        """Whether no board begins by itself with the counter that a scenario says."""
        return all(device.wants_counter(board.traits.first_f_cnt) for board in self.boards)

    @property
    def sets_counters(self) -> int:
        """How many boards can be told their counters."""
        return sum(board.sets_counters for board in self.boards)


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


def usual_bench(dialects: Iterable[str] = ("rui3", "rui3", "lora-e5")) -> Abilities:
    """Two RUI3 boards, a LoRa-E5, a replayer and two stations, on cables."""
    return Abilities(
        boards=tuple(board(f"{name}-{n}", name) for n, name in enumerate(dialects, 1)),
        stations=2,
        replayers=1,
        conducted=True,
    )


def fits(board: Board, device: PlannedDevice) -> bool:
    """Whether a board can do what the scenario asks of this device."""
    return (
        _repeats(board, device)
        and (board.sets_counters or not device.wants_counter(board.traits.first_f_cnt))
        and (board.tells_windows or not device.expects_downlink)
    )


def by_the_network(device: PlannedDevice, board: Board) -> bool:
    """Whether this board is told by a LinkADRReq how often to send each frame of this device.

    It is, unless it obeys a command; and can be, where a session is there before the case begins.
    """
    if device.nb_trans == 1 or device.activation != "abp":
        return False
    if not (device.is_in_mid_life or board.sets_counters):
        return False
    return not (board.obeys_retries and device.only_retries)


def _repeats(board: Board, device: PlannedDevice) -> bool:
    if device.repetitions <= {1} or (board.obeys_retries and device.only_retries):
        return True
    return by_the_network(device, board)


def is_choosy(planned: PlannedCase) -> bool:
    """Whether some device of a case cannot be played by just any board."""
    return any(
        not device.repetitions <= {1} or device.explicit_counter or device.expects_downlink
        for device in planned.on_air
    )


def assignments(planned: PlannedCase, boards: Sequence[Board]) -> Iterator[tuple[Board, ...]]:
    """Every way to give each device on the air a board of its own, in the order of the devices.

    First those that leave the boards free that can do most.
    """
    devices = planned.on_air
    modest_first = sorted(boards, key=lambda board: board.obeys_retries + board.sets_counters)
    for chosen in permutations(modest_first, len(devices)):
        if all(map(fits, chosen, devices)):
            yield chosen
