"""Do the verbs of a rig, in any order, ever make the bench blame who is right?

`lorabench run tests/fuzz/random_verbs.py --seed 7` plays 200 cases; another seed plays others. They
do more than the cases that are always the same (`scenarios/test_together.py`).
"""

from contextlib import suppress
from random import Random
from typing import Any

import pytest

from bench.rig.stations import ServerSilent
from bench.scenario import Rig, seconds
from scenarios.random_verbs import Act, World, play

CASES = 200
DOORS = "", "nothing", "", "token", "", "certificate", "", "any certificate"


async def step_clock(world: World) -> None:
    world.rig.step_wall_clock(seconds(world.dice.choice([-3_600, -1, 7_200])))


async def wipe(world: World) -> None:
    """Unless it owes a message, which would be lost."""
    if world.may_begin:
        with suppress(RuntimeError):
            await world.rig.wipe_producer(world.dice.choice(world.servers))


async def forget(world: World) -> None:
    """Not the Redis of a consumer: its inbox knows nothing then of the file with its effects."""
    if len(world.servers) > 1 and not (world.in_redis and world.has_consumer):
        await world.rig.restart_store(empty=True)


async def republish(world: World) -> None:
    if world.sent and world.has_upstream:
        after = seconds(world.dice.choice([1, 20, 70]))
        # Nobody has heard it, or it was refused.
        with suppress(ServerSilent, TimeoutError, LookupError):
            await world.rig.republish(world.dice.choice(world.sent), after=after)


async def reset(world: World) -> None:
    """A device that has to join begins anew, and joins."""
    for device in world.joins & {world.device}:
        await device.restart(memory=world.dice.random() < 0.5)
        await device.join()
        if device.session is None:
            world.devices.remove(device)


async def delay_by_odd_times(world: World) -> None:
    world.station.delay_uplinks(world.dice.choice([1, 777, 199_999, 999_999, 5_000_001]))


async def lose_clock(world: World) -> None:
    world.station.lose_clock(world.dice.choice([1, 3]))


async def slow_store_by_odd_times(world: World) -> None:
    if len(world.servers) > 1:
        world.rig.slow_store(world.dice.choice([1, 999, 150_001, 199_999, 200_000, 2_000_000]))
        await world.device.send(b"odd", confirmed=world.dice.random() < 0.5)
        await world.rig.wait(seconds(3))
        await world.rig.restore_store()
        world.is_cut_off = False


MORE: dict[Act, float] = {
    step_clock: 2, wipe: 3, forget: 3, republish: 2, reset: 3, delay_by_odd_times: 3,
    slow_store_by_odd_times: 4, lose_clock: 1,
}  # fmt: skip


async def release(world: World) -> None:
    """Without it, what was put aside stays so."""
    if world.may_begin:
        await world.rig.release_parked(world.dice.choice(world.servers))


def park(rig: Rig, dice: Random) -> None:
    """Let network servers put aside what waits, and have room for little."""
    rig.park_after(seconds(dice.choice([1, 5, 30])))
    if dice.random() < 0.4:
        rig.limit_outbox(dice.choice([1, 3]))


def settings_of_consumer(dice: Random) -> dict[str, Any]:
    """What a second consumer is told, in any combination that it takes."""
    drawn: list[dict[str, Any]] = [
        {"sequence": False},
        {"keys": True, "retention": seconds(dice.choice([10, 60])), "network": seconds(5)},
        {"keys": True, "retry": 0, "network": 0, "knows_oldest": dice.random() < 0.5},
        {"window": dice.choice([None, seconds(20), seconds(600)])},
        {"partitioned": True},
        {"sessions": True},
        {"elsewhere": True},
        {"refuses": "70B3D57ED0000001", "refusals": dice.choice([1, 2, 6])},
        {"store": "shared"},
    ]
    return {
        name: value for one in dice.sample(drawn, dice.randint(0, 5)) for name, value in one.items()
    }


@pytest.mark.requires("virtual time", "redis")
@pytest.mark.fault("broker", "anything")
@pytest.mark.parametrize("number", range(CASES))
async def test_whatever_happens_nobody_is_blamed_who_is_right(rig: Rig, number: int) -> None:
    """A few devices, one or two servers, and two dozen verbs.

    Of five cases one is at a door, one has a second consumer, and one puts messages aside.
    """
    dice, more, shows = Random(rig.setup.seed + number), MORE, None
    match number % 5:
        case 0:
            shows = DOORS[number // 5 % len(DOORS)]
        case 1:
            rig.consumer("second", **settings_of_consumer(dice))
        case 2:
            park(rig, dice)
            more = {**MORE, release: 4}
    await play(rig, dice, more, shows=shows)
