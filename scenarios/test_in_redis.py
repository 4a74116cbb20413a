"""What holds for servers that share a store holds where that is a real Redis.

Scenarios of other groups, one row each: scripts there decide on claims and merge sessions.
"""

import inspect

import pytest

from scenarios import test_claim_limits, test_counter_lives, test_second_look, test_several_servers

GROUPS = (test_claim_limits, test_counter_lives, test_second_look, test_several_servers)
LEFT_OUT = {
    "a_newer_frame_makes_no_copy_old_that_waits": "of one server, which claims nothing",
    "a_device_tells_its_status_in_each_life": "begins with a session that no server has written",
    "the_answers_of_another_server_to_an_old_first_message_are_its_own": "the same",
    "an_answer_that_was_under_way_counts_no_life_back": "lost with the wire that it was in",
    "what_was_looked_at_twice_has_three_answers_more": "waits until Redis has forgotten",
}
PLAYED = {
    name.removeprefix("test_"): scenario
    for group in GROUPS
    for name, scenario in vars(group).items()
    if name.startswith("test_")
    and inspect.signature(scenario).parameters.keys() <= {"rig", "strategy", "confirmed"}
}


@pytest.mark.requires("redis")
@pytest.mark.parametrize(
    "scenario",
    [
        pytest.param(scenario, id=name, marks=getattr(scenario, "pytestmark", []))
        for name, scenario in PLAYED.items()
        if name not in LEFT_OUT
    ],
)
async def test_it_holds(rig, scenario):
    """Whatever the scenario says."""
    rig.keep_in_redis()
    row = {"strategy": rig.strategy, "confirmed": True}
    takes = inspect.signature(scenario).parameters
    await scenario(rig, **{name: fact for name, fact in row.items() if name in takes})
