"""What a server has put aside, though it may be on its way to the broker still.

Whoever waits for an acknowledgement does not know whether the broker has the message. What was put
aside then may come all the same, perhaps once more when a person lets it go, and has one effect.
"""

import pytest

from bench.clock import seconds
from scenarios.delivering import delivered
from scenarios.words import FIRST, REFUSED

pytestmark = pytest.mark.requires("outbox", "virtual time")


def put_aside_soon(rig):
    rig.consumer()
    rig.park_after(seconds(3))
    rig.only("west")


def expect_heard(rig, *uplinks):
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "away for too long")
async def test_what_is_put_aside_may_have_come_before(rig, confirmed):
    """Its acknowledgement is lost: the broker has it, and the server does not know."""
    put_aside_soon(rig)
    before = await delivered(rig, confirmed=confirmed)
    await rig.lose_pubacks()
    parked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(45))
    await rig.find_broker()
    await rig.wait(seconds(40))
    after = await delivered(rig, confirmed=confirmed)
    expect_heard(rig, before, parked, after)


@pytest.mark.fault("broker", "away for too long")
async def test_what_is_put_aside_may_come_later(rig, confirmed):
    """It was on its way already, and arrives when the way is free again."""
    put_aside_soon(rig)
    before = await delivered(rig, confirmed=confirmed)
    await rig.hold_messages()
    parked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(8))
    await rig.find_broker()
    after = await delivered(rig, confirmed=confirmed)
    await rig.wait(seconds(40))
    expect_heard(rig, before, parked, after)


@pytest.mark.fault("broker", "away for too long")
async def test_what_is_put_aside_and_has_come_comes_again_when_it_is_released(rig, confirmed):
    """Under another number, and its old id: it has no second effect."""
    put_aside_soon(rig)
    await rig.lose_pubacks()
    parked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(45))
    await rig.find_broker()
    await rig.wait(seconds(40))
    after = await delivered(rig, confirmed=confirmed)
    await rig.release_parked()
    await rig.wait(seconds(5))
    expect_heard(rig, parked, after)


@pytest.mark.fault("broker", "away for too long")
async def test_what_is_put_aside_stays_so_until_somebody_lets_it_go(rig, confirmed):
    """Nobody does: its application has not had it, and its device was answered."""
    put_aside_soon(rig)
    before = await delivered(rig, confirmed=confirmed)
    rig.cut_upstream()
    parked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(8))
    await rig.restore_upstream()
    await rig.wait(seconds(40))
    after = await delivered(rig, confirmed=confirmed)
    rig.expect(parked, FIRST, first="west")
    expect_heard(rig, before, after)


@pytest.mark.fault("broker", "outbox full")
async def test_what_is_put_aside_together_takes_room_for_each(rig):
    """Of two devices, and of three messages that there is room for; it is told in its order."""
    put_aside_soon(rig)
    rig.limit_outbox(3)
    rig.cut_upstream()
    uplinks = [await rig.craft(one) for one in (rig.charlie, rig.alpha)]
    for uplink in uplinks:
        await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.wait(seconds(8))
    uplinks.append(await rig.alpha.send(confirmed=True))
    refused = await rig.alpha.send(confirmed=True)
    await rig.restore_upstream()
    await rig.release_parked()
    await rig.wait(seconds(5))
    expect_heard(rig, *uplinks)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect_on_air(refused)


@pytest.mark.fault("broker", "away")
async def test_what_waits_since_a_time_that_is_still_to_come_is_not_too_old(rig):
    """The clock was set back by an hour, and a message may wait for three seconds."""
    put_aside_soon(rig)
    rig.cut_upstream()
    uplink = await rig.alpha.send(confirmed=True)
    rig.step_wall_clock(-seconds(3_600))
    await rig.wait(seconds(5))
    await rig.restore_upstream()
    await rig.wait(seconds(31))
    rig.expect(uplink, FIRST, first="west")
    rig.expect_upstream(uplink, through="west")


@pytest.mark.fault("broker", "message refused")
async def test_what_was_acknowledged_waits_no_more_beside_what_is_put_aside(rig):
    """It is kept for a while, and may have to go out again: nobody is told that it waits."""
    put_aside_soon(rig)
    rig.keep_acknowledged(seconds(20))
    before = await delivered(rig)
    await rig.refuse_messages(5, of=rig.alpha)
    parked = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(8))
    await rig.release_parked()
    await rig.until_published(parked)
    expect_heard(rig, before, parked)
