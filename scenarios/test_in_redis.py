"""What holds for servers that share a store holds where that is a real Redis.

Scenarios of other groups, with one strategy and kind: scripts there decide on claims and merge
sessions.
"""

import inspect
from functools import wraps

import pytest

from bench.clock import milliseconds, seconds
from scenarios import (
    test_claim_limits,
    test_counter_limits,
    test_counter_lives,
    test_forgetful_store,
    test_join_limits,
    test_second_look,
    test_several_servers,
    test_slow_store,
)
from scenarios.telling import hear, tell
from scenarios.test_kept_on_disk import NOT_KEPT
from scenarios.test_several_servers import JOINED_ELSEWHERE
from scenarios.words import FIRST, FORGED, LOST, OWNED, UNVERIFIED

GROUPS = (
    test_claim_limits,
    test_counter_lives,
    test_forgetful_store,
    test_join_limits,
    test_second_look,
    test_several_servers,
    test_slow_store,
)
LEFT_OUT = {
    "a_newer_frame_makes_no_copy_old_that_waits": "of one server, which claims nothing",
    "a_device_tells_its_status_in_each_life": "begins with a session that no server has written",
    "the_answers_of_another_server_to_an_old_first_message_are_its_own": "the same",
    "an_answer_that_was_under_way_counts_no_life_back": "lost with the wire that it was in",
    "what_the_application_asks_for_in_mid_claim_has_a_counter_of_its_own": "asks too soon here",
    "whoever_may_have_joined_elsewhere_is_looked_up": "a round trip longer here",
    "a_repeat_that_waited_spends_of_its_own_life_only": "the same",
    "what_is_read_of_a_device_meanwhile_ends_no_join": "lost with the wire that it was in",
    "a_join_that_is_kept_ends_no_other_one": "the same",
    "what_is_read_of_a_device_meanwhile_makes_no_join_an_old_one": "the same",
    "a_copy_is_the_first_while_its_frame_is_given_back": "the same",
    "what_was_looked_at_twice_has_three_answers_more": "waits until Redis has forgotten",
    "what_was_known_elsewhere_is_known_though_nobody_takes_it": "the same",
}


def in_redis(scenario):
    """A scenario as it is, but for the store, and for how often it is played."""
    takes = inspect.signature(scenario)

    @pytest.mark.requires("redis")
    @wraps(scenario)
    async def there(rig, **facts):
        rig.keep_in_redis()
        row = {"strategy": rig.strategy, "confirmed": True}
        await scenario(rig, **facts, **{name: row[name] for name in row.keys() & takes.parameters})

    rest = [one for name, one in takes.parameters.items() if name not in ("strategy", "confirmed")]
    del there.__wrapped__  # it stands in this file
    there.__signature__ = takes.replace(parameters=rest)
    return there


for _group in GROUPS:
    for _name, _scenario in vars(_group).items():
        if _name.startswith("test_") and _name.removeprefix("test_") not in LEFT_OUT:
            globals().setdefault(_name, in_redis(_scenario))

test_the_last_counters_of_downlinks_are_used = in_redis(
    test_counter_limits.test_the_last_counters_of_downlinks_are_used
)
test_no_more_answers_can_have_been_missed_than_a_session_has_left = in_redis(
    test_counter_limits.test_no_more_answers_can_have_been_missed_than_a_session_has_left
)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_a_server_that_begins_waits_longer_for_its_redis_than_a_frame_can(rig):
    """Nobody is there yet who has to be answered in time."""
    rig.keep_in_redis()
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.slow_store(seconds(1))
    await rig.restart_lns()
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, OWNED, owned="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "full")
async def test_a_redis_that_is_full_is_away(rig):
    """It refuses whatever would be kept: nobody owns a frame, and no join is accepted."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    join = await rig.craft_join(rig.bravo)
    await rig.disturb_redis("forget scripts")
    await rig.disturb_redis("be full")
    during = await rig.alpha.send(confirmed=True)
    await tell(rig, join, "west")
    await rig.wait(seconds(8))
    await rig.disturb_redis("have room")
    await tell(rig, join, "west")
    await rig.wait(seconds(8))
    after = [await rig.alpha.send(confirmed=True) for _ in range(2)]
    rig.expect(join, NOT_KEPT + FIRST, unkept="west", first="west")
    rig.expect(during, UNVERIFIED, unverified="west")
    for uplink in (before, *after):
        rig.expect(uplink, OWNED, owned="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "restart")
@pytest.mark.parametrize(
    "what", ["restarts", "forgets its scripts", "is a replica", "is elsewhere"]
)
async def test_a_redis_that_is_another_one_costs_no_answer(rig, what):
    """Who finds that asks once more at once: frames, joins, and what is kept of both.

    Elsewhere: the last of four Sentinels says where. One cannot be reached and one says nothing,
    which takes a while; one knows of no master.
    """
    rig.keep_in_redis(by_sentinels=what == "is elsewhere")
    rig.put_on("lns-b", "east")
    for lns in ("lns-a", "lns-b") if what == "is elsewhere" else ():
        rig.slow_store(milliseconds(30), lns)
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=True)
    for _ in range(2):
        match what:
            case "restarts":
                await rig.restart_store(empty=False)
            case "is a replica" | "is elsewhere":
                await rig.disturb_redis("fail over")
            case _:
                await rig.disturb_redis("forget scripts")
        after = await rig.alpha.send(confirmed=True)
        joining = await rig.bravo.join()
        rig.expect(after, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(after)
        rig.expect(joining, FIRST + JOINED_ELSEWHERE, first="west", elsewhere="east")
        rig.expect_reply(joining)
    rig.expect(before, OWNED + LOST, owned="west", lost="east")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "hang")
async def test_a_redis_that_hangs_is_left_for_the_one_that_is_master_by_then(rig):
    """It is there and says nothing: that costs one answer, and the Sentinels are asked again."""
    rig.keep_in_redis(by_sentinels=True)
    rig.put_on("lns-b", "east")
    for lns in ("lns-a", "lns-b"):
        rig.slow_store(milliseconds(30), lns)
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    await rig.disturb_redis("hang")
    during = await rig.alpha.send(confirmed=True)
    after = [await rig.alpha.send(confirmed=True) for _ in range(2)]
    rig.expect(during, UNVERIFIED, unverified="west")
    for uplink in (before, *after):
        rig.expect(uplink, OWNED, owned="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("redis")
@pytest.mark.parametrize("retention_s", [1, 600])
async def test_a_redis_remembers_a_frame_for_as_long_as_its_servers_do(rig, retention_s):
    """And is told so with each claim; nothing expires here, but the bench reads for how long."""
    rig.keep_in_redis()
    rig.dedup(retention=seconds(retention_s))
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(100))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
    rig.expect_reply(uplink)


@pytest.mark.requires("redis", "virtual time")
async def test_whatever_servers_claim_a_redis_grants_it_as_the_rules_say(rig):
    """Three of them, in any order; each knows what it was told last, or does not.

    They keep sessions side by side as well, and more of them than one round trip asks for.
    """
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    await rig.bid_at_random(rig.alpha)
    rig.expect(uplink, OWNED, owned="west")
    rig.expect_reply(uplink)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_who_waits_behind_a_redis_that_is_too_slow_gives_up_in_time_as_well(rig):
    """Its claim leaves when the one before it is given up; no more is heard of either."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    other = rig.provision("other", f_cnt=10)
    before = [await hear(rig, device, "west", confirmed=True) for device in (rig.alpha, other)]
    rig.slow_store(milliseconds(600), "lns-a")
    frames = [await rig.craft(device, confirmed=True) for device in (rig.alpha, other)]
    for frame in frames:
        await tell(rig, frame, "west")
        await rig.wait(milliseconds(100))
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    after = [await hear(rig, device, "west", confirmed=True) for device in (rig.alpha, other)]
    for frame in frames:
        rig.expect(frame, UNVERIFIED, unverified="west")
    for frame in (*before, *after):
        rig.expect(frame, OWNED, owned="west")


@pytest.mark.requires("redis", "virtual time")
@pytest.mark.fault("store", "restart")
async def test_a_replica_that_answers_who_reads_keeps_nothing_from_the_master(rig):
    """What is to be kept leaves together with what is to be read; both are asked of the master."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    other = rig.provision("other", activation="otaa")
    joining = [await rig.craft_join(device) for device in (rig.bravo, other)]
    before = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.slow_store(milliseconds(30), "lns-a")
    frame = await rig.craft(rig.alpha, confirmed=True)
    for one, ms in zip((frame, *joining), (20, 15, 5), strict=True):
        await tell(rig, one, "west")
        await rig.wait(milliseconds(ms))
        if one is joining[0]:
            await rig.disturb_redis("fail over")
    await rig.wait(seconds(10))
    await rig.restore_store("lns-a")
    for uplink in (before, frame):
        rig.expect(uplink, OWNED, owned="west")
    for one in joining:
        rig.expect(one, FIRST, first="west")


@pytest.mark.requires("redis", "virtual time")
@pytest.mark.fault("store", "slow")
async def test_whoever_waits_no_longer_for_a_redis_takes_nothing_from_others(rig):
    """A stranger's frame is looked up no longer; what left with that is kept, and answered."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    pinned = [rig.provision(name, f_cnt=10, server="lns-a") for name in ("one", "other")]
    before = [await hear(rig, device, "west") for device in pinned]
    frames = [await rig.craft(device, confirmed=True) for device in pinned]
    rig.slow_store(milliseconds(190), "lns-a")
    await tell(rig, frames[0], "west")
    await rig.wait(milliseconds(5))
    await tell(rig, frames[1], "west")
    await rig.wait(milliseconds(5))
    forged = await rig.forge(rig.alpha, by="west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(forged, FORGED, forged="west")
    for frame in (*before, *frames):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.requires("redis", "virtual time")
@pytest.mark.fault("store", "hang")
async def test_frames_that_come_at_once_are_claimed_one_after_another(rig):
    """They go to Redis together; then it hangs, and costs one answer although it was quick."""
    rig.keep_in_redis(by_sentinels=True)
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, OWNED, owned="west")
    await rig.flood(rig.alpha, by="west", frames=5)
    await rig.disturb_redis("hang")
    during = await rig.alpha.send()
    rig.expect(during, UNVERIFIED, unverified="west")
