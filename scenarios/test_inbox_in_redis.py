"""What holds for the inbox of an application holds where it lies in a real Redis."""

import pytest

from bench.clock import milliseconds, seconds
from scenarios import test_consumer, test_detectors
from scenarios.test_in_redis import in_redis

GROUPS = (test_consumer, test_detectors)
LEFT_OUT = {
    "what_waits_behind_five_hundred_stays_behind_them": "each of them is decided on alone here",
}

for _group in GROUPS:
    for _name, _scenario in vars(_group).items():
        if _name.startswith("test_") and _name.removeprefix("test_") not in LEFT_OUT:
            globals().setdefault(_name, in_redis(_scenario))


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "restart")
@pytest.mark.parametrize("what", ["restarts", "forget scripts", "fail over"])
async def test_a_redis_that_is_another_one_costs_no_effect(rig, what):
    """Whoever finds that asks once more, and remembers all of before."""
    rig.keep_in_redis()
    rig.consumer(keys=True)
    before = await rig.inject(rig.alpha, message_id="before", number=1, key="before")
    for number in (2, 3):
        if what == "restarts":
            await rig.restart_store(empty=False)
        else:
            await rig.disturb_redis(what)
        rig.expect_effects(await rig.inject(rig.alpha, number=number))
    await rig.inject(rig.alpha, message_id="before", number=4)
    rig.expect_effects(before)
    rig.expect_ignored(before, by="window")


@pytest.mark.requires("redis")
async def test_an_id_may_have_any_characters(rig):
    """Of UTF-8, where a character may have several octets; what is told of it has them as well."""
    rig.keep_in_redis()
    rig.consumer(keys=True)
    messages = [
        await rig.inject(rig.alpha, message_id=name, number=number, key=f"{name} once")
        for number, name in enumerate(("gr\u00fcn", "\u20ac\u20ac", "\U0001f4e1 7", "a b\r\n"), 1)
    ]
    again = await rig.inject(rig.alpha, message_id="gr\u00fcn", number=5)
    for message in messages:
        rig.expect_effects(message)
    rig.expect_ignored(again, by="window")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_what_had_its_effect_is_confirmed_for_as_long_as_that_takes(rig):
    """The wire breaks between effect and confirmation: it is neither lost nor had again."""
    rig.keep_in_redis()
    rig.consumer(keys=True)
    before = await rig.inject(rig.alpha, number=1)
    rig.slow_store(milliseconds(1_500), "application")
    meanwhile = await rig.inject(rig.alpha, message_id="x", number=2, key="x")
    await rig.wait(milliseconds(2_000))
    rig.cut_store("application")
    behind = [await rig.inject(rig.charlie, number=number) for number in (1, 2)]
    await rig.wait(seconds(20))
    await rig.restore_store("application")
    await rig.wait(seconds(1))
    after = await rig.inject(rig.alpha, message_id="x", number=3)
    for message in (before, meanwhile, *behind):
        rig.expect_effects(message)
    rig.expect_ignored(after, by="window")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "full")
async def test_what_had_its_effect_is_confirmed_when_there_is_room_again(rig):
    """Redis has it reserved, and takes nothing more by then; what comes meanwhile waits."""
    rig.keep_in_redis()
    rig.consumer(keys=True)
    before = await rig.inject(rig.alpha, number=1)
    rig.slow_store(milliseconds(1_500), "application")
    meanwhile = await rig.inject(rig.alpha, message_id="x", number=2, key="x")
    await rig.wait(milliseconds(1_000))
    await rig.disturb_redis("be full")
    behind = await rig.inject(rig.alpha, number=3)
    await rig.wait(seconds(20))
    await rig.disturb_redis("have room")
    await rig.wait(seconds(20))
    await rig.restore_store("application")
    await rig.wait(seconds(3))
    after = await rig.inject(rig.alpha, message_id="x", number=4)
    for message in (before, meanwhile, behind):
        rig.expect_effects(message)
    rig.expect_ignored(after, by="window")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_who_decided_on_nothing_says_the_next_under_another_name(rig):
    """Another consumer has the message; nobody knows whether that was heard, as the wire breaks."""
    rig.keep_in_redis()
    for name in ("slow", "other"):
        rig.consumer(name, store="shared")
    before = await rig.inject(rig.alpha)
    await rig.wait(seconds(1))
    for name, ms in (("slow", 1_000), ("other", 350)):
        rig.slow_store(milliseconds(ms), name)
    message = await rig.inject(rig.alpha)
    await rig.wait(milliseconds(500))
    rig.cut_store("other")
    await rig.wait(seconds(3))
    for name in ("slow", "other"):
        await rig.restore_store(name)
    await rig.wait(seconds(3))
    for one in (before, message):
        rig.expect_effects(one)
        rig.expect_ignored(one, by="window")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_whose_lease_is_over_leaves_alone_what_another_one_has(rig):
    """Its effect fails long after another consumer has begun with the same message."""
    rig.keep_in_redis()
    rig.consumer("slow", store="shared", refuses="x", refusals=1)
    rig.consumer("other", store="shared")
    before = await rig.inject(rig.alpha)
    await rig.wait(seconds(1))
    for name, ms in (("slow", 1_000), ("other", 350)):
        rig.slow_store(milliseconds(ms), name)
    message = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(milliseconds(500))
    await rig.disturb_redis("let expire")
    await rig.wait(seconds(10))
    for name in ("slow", "other"):
        await rig.restore_store(name)
    await rig.wait(seconds(5))
    for one in (before, message):
        rig.expect_effects(one)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_an_effect_that_outlasts_its_lease_is_counted_once_and_changes_nothing(rig):
    """Another consumer has it too; what is remembered is what was confirmed first."""
    rig.keep_in_redis()
    for name in ("slow", "other"):
        rig.consumer(name, store="shared", keys=True)
    before = await rig.inject(rig.alpha, number=1)
    await rig.wait(seconds(1))
    for name, ms in (("slow", 1_000), ("other", 350)):
        rig.slow_store(milliseconds(ms), name)
    message = await rig.inject(rig.alpha, message_id="x", number=2, key="x")
    await rig.wait(milliseconds(500))
    await rig.disturb_redis("let expire")
    await rig.wait(milliseconds(400))
    await rig.restore_store("slow")
    await rig.wait(seconds(5))
    await rig.restore_store("other")
    after = await rig.inject(rig.alpha, message_id="x", number=3)
    await rig.wait(seconds(1))
    rig.expect_effects(before)
    rig.expect_effects(message, 2)
    rig.expect_ignored(after, by="window", times=2)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
@pytest.mark.parametrize("us", [1_900_000, 2_000_000])
async def test_a_redis_that_answers_within_two_seconds_is_there(rig, us):
    """One that takes longer is away: nothing is decided on until it answers in time."""
    rig.keep_in_redis()
    rig.consumer()
    before = await rig.inject(rig.alpha, number=1)
    rig.slow_store(us, "application")
    messages = [await rig.inject(rig.alpha, number=number) for number in (2, 3)]
    await rig.wait(seconds(15))
    await rig.restore_store("application")
    await rig.wait(seconds(5))
    for message in (before, *messages):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "full")
async def test_a_duplicate_is_counted_when_there_is_room_again(rig):
    """Redis has it reserved, and takes nothing more by then."""
    rig.keep_in_redis()
    rig.consumer()
    before = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(1))
    rig.slow_store(milliseconds(1_500), "application")
    again = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(milliseconds(1_000))
    await rig.disturb_redis("be full")
    await rig.wait(seconds(20))
    await rig.disturb_redis("have room")
    await rig.wait(seconds(20))
    await rig.restore_store("application")
    await rig.wait(seconds(3))
    rig.expect_effects(before)
    rig.expect_ignored(again, by="window")
