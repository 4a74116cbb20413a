"""Which board plays which device of a case?"""

from collections.abc import Iterator, Sequence
from itertools import permutations

from bench.plan.abilities import Board
from bench.plan.planned_case import PlannedCase, PlannedDevice


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
