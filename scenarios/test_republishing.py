"""What a consumer publishes once more, on topics of its own, for those who come behind it.

What it accepts is in its file together with what it knows of it, and leaves the file when the
broker has it: nothing is missing there, whoever dies meanwhile.
"""

import pytest

from bench.clock import milliseconds, seconds

pytestmark = [pytest.mark.requires("relay"), pytest.mark.requires("virtual time")]

MUCH = 1_000


async def test_what_is_accepted_is_published_once_more_as_it_came(rig):
    """With id, key, partition and number; what has no number has 0, what has no key its id."""
    rig.keep_on_disk()
    rig.consumer(keys=True, republishes=MUCH)
    messages = [await rig.inject(rig.alpha, number=5, key="k", partition="p")]
    await rig.wait(milliseconds(10))  # it has left, and is in the file still
    messages += [
        await rig.inject(rig.alpha),
        await rig.inject(rig.bravo, number=2, message_id="ä" * 100, key="é" * 120),
        # 127 and 128 octets of user properties: from there on their length has two (1.5.5).
        await rig.inject(rig.bravo, message_id="m" * 25, partition="pp"),
        await rig.inject(rig.bravo, message_id="m" * 26, partition="p"),
    ]
    await rig.inject(rig.alpha, message_id=messages[1].message_id)
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)
    rig.expect_ignored(messages[1], by="window")


async def test_who_publishes_once_more_keeps_when_the_oldest_message_was_sent(rig):
    """Whatever becomes of messages, their keys live by it when the consumer begins again."""
    rig.keep_on_disk()
    rig.consumer(keys=True, knows_oldest=True, republishes=MUCH)
    messages = [await rig.inject(rig.alpha, key=key) for key in "ab"]
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.start_consumer()
    messages.append(await rig.inject(rig.alpha, key="c"))
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.requires("full application")
@pytest.mark.fault("consumer", "no room")
async def test_what_is_published_once_more_waits_for_the_broker_in_its_order(rig):
    """It outlives the consumer; as many wait as may, and what comes then is not accepted yet."""
    rig.keep_on_disk()
    rig.consumer(republishes=7)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.fill_application()
    messages += [await rig.inject(rig.alpha, number=number) for number in range(2, 6)]
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.start_consumer()
    messages += [await rig.inject(rig.alpha, number=number) for number in range(6, 12)]
    await rig.wait(seconds(20))
    await rig.make_room()
    await rig.wait(seconds(60))
    messages.append(await rig.inject(rig.alpha, number=12))
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("full application")
@pytest.mark.fault("consumer", "disk full")
async def test_what_waits_to_be_published_once_more_is_counted_rightly(rig):
    """Two may wait: what could not be kept is none of them, and whatever the broker has is gone."""
    rig.keep_on_disk()
    rig.consumer(republishes=2)
    await rig.inject(rig.alpha, number=1)
    await rig.wait(seconds(1))
    await rig.break_writes(2)
    messages = []
    for first in (2, 3, 4):
        await rig.fill_application()
        devices = rig.charlie, rig.alpha, rig.bravo
        messages += [await rig.inject(device, number=first) for device in devices]
        await rig.wait(seconds(2))
        await rig.make_room()
        await rig.wait(seconds(60))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.fault("consumer", "disk full")
async def test_what_was_published_once_more_leaves_the_file_when_that_can_be_written(rig):
    """The broker has it, and it is not sent again; nor is what comes meanwhile."""
    rig.keep_on_disk()
    rig.consumer(republishes=MUCH)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.break_writes(2, after=1)
    messages += [await rig.inject(rig.alpha, number=2)]
    await rig.wait(milliseconds(500))
    messages += [await rig.inject(rig.alpha, number=3)]
    await rig.wait(seconds(5))
    for message in messages:
        rig.expect_effects(message)
