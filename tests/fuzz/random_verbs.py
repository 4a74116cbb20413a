"""Do the verbs of a rig, in any order, ever make the bench blame who is right?

`lorabench run tests/fuzz/random_verbs.py --seed 7` plays 200 cases; another seed plays others.
"""

from random import Random

import pytest

from bench.scenario import Rig
from scenarios.random_verbs import play

CASES = 200


@pytest.mark.requires("virtual time", "redis")
@pytest.mark.fault("broker", "anything")
@pytest.mark.parametrize("number", range(CASES))
async def test_whatever_happens_nobody_is_blamed_who_is_right(rig: Rig, number: int) -> None:
    """A few devices, one or two servers, and a dozen verbs."""
    await play(rig, Random(rig.setup.seed + number))
