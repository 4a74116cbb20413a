"""Many things at once, in an order that nobody has thought of: the same in each night.

Other ones with each seed plays `lorabench run tests/fuzz/random_verbs.py --seed 7`.
"""

from random import Random

import pytest

from scenarios.random_verbs import play


@pytest.mark.requires("virtual time", "redis")
@pytest.mark.fault("broker", "anything")
@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize("number", range(1, 45))
async def test_whatever_happens_nobody_is_blamed_who_is_right(rig, number):
    """A few devices, one or two servers, and a dozen verbs."""
    await play(rig, Random(number))


@pytest.mark.requires("virtual time", "redis")
@pytest.mark.fault("broker", "anything")
@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize(("number", "shows"), [*enumerate(["", "", "", "token", "certificate"])])
async def test_whatever_happens_at_a_door_nobody_is_blamed_who_is_right(rig, number, shows):
    """The same where stations come over WebSockets."""
    await play(rig, Random(number), shows=shows)
