"""Do the verbs of a rig, in any order, ever make the bench blame who is right?

`lorabench run tests/fuzz/random_verbs.py --seed 7` plays 200 cases; another seed plays others. They
do more than the cases that are always the same (`scenarios/test_together.py`).
"""

from contextlib import suppress
from random import Random

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


async def slow_store_by_odd_times(world: World) -> None:
    if len(world.servers) > 1:
        world.rig.slow_store(world.dice.choice([1, 999, 150_001, 199_999, 200_000, 2_000_000]))
        await world.device.send(b"odd", confirmed=world.dice.random() < 0.5)
        await world.rig.wait(seconds(3))
        await world.rig.restore_store()
        world.is_cut_off = False


MORE: dict[Act, float] = {
    step_clock: 2, wipe: 3, forget: 3, republish: 2, reset: 3, delay_by_odd_times: 3,
    slow_store_by_odd_times: 4,
}  # fmt: skip


@pytest.mark.requires("virtual time", "redis")
@pytest.mark.fault("broker", "anything")
@pytest.mark.parametrize("number", range(CASES))
async def test_whatever_happens_nobody_is_blamed_who_is_right(rig: Rig, number: int) -> None:
    """A few devices, one or two servers, and two dozen verbs; every fifth case at a door."""
    shows = DOORS[number // 5 % len(DOORS)] if number % 5 == 0 else None
    await play(rig, Random(rig.setup.seed + number), MORE, shows=shows)
