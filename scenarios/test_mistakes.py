"""What becomes of everything else when the program of a network server makes a mistake?"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.words import COPY, FIRST, OWNED

pytestmark = [
    pytest.mark.requires("virtual time"),
    pytest.mark.fault("program", "a mistake of its own"),
]

LOST = Table("""
    strategy kind | lost
    *        *    | - dropped(InternalError) NotAsked
""")
UNREADABLE = '{"msgtype":"dntxed","diid":"x"}'


async def test_a_mistake_costs_one_reception(rig):
    """It is told with its frame; the device sends it again, and that is a first copy."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.stumble("application")
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    after = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, LOST + FIRST, lost="west", first="west")
    for frame in (before, uplink, after):
        rig.expect_reply(frame)
    for frame in (before, after):
        rig.expect(frame, FIRST, first="west")


async def test_a_copy_takes_the_place_of_a_frame_that_a_mistake_has_cost(rig):
    """Which waits for what becomes of the first one."""
    rig.east.delay_uplinks(milliseconds(100))
    rig.stumble("application")
    uplink = await rig.alpha.send()
    after = await rig.alpha.send()
    rig.expect(uplink, LOST + FIRST, lost="west", first="east")
    rig.expect(after, FIRST + COPY, first="west", copy="east")


async def test_what_a_mistake_has_cost_one_server_another_delivers(rig):
    """It is given back all the same: of the copy nobody says that somebody has delivered it."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(100))
    rig.stumble("application", "lns-a")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, LOST + OWNED, lost="west", owned="east")
    rig.expect_reply(uplink)


async def test_a_mistake_costs_one_join(rig):
    """The same: the next request is accepted."""
    rig.only("west")
    rig.stumble("store")
    lost = await rig.bravo.join()
    join, uplink = await rig.bravo.join(), await rig.bravo.send(confirmed=True)
    rig.expect(lost, LOST, lost="west")
    rig.expect_reply(lost, "+EVT:JOIN_FAILED_RX_TIMEOUT")
    for frame in (join, uplink):
        rig.expect(frame, FIRST, first="west")
        rig.expect_reply(frame)


async def test_a_copy_takes_the_place_of_a_join_that_a_mistake_has_cost(rig):
    """The device is let in by whoever hears it next."""
    rig.east.delay_uplinks(milliseconds(100))
    rig.stumble("store")
    join, uplink = await rig.bravo.join(), await rig.bravo.send(confirmed=True)
    rig.expect(join, LOST + FIRST, lost="west", first="east")
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    for frame in (join, uplink):
        rig.expect_reply(frame)


async def test_a_mistake_over_one_text_leaves_the_next_ones(rig):
    """The connection stays, and what the station tells then is read; only the event is lost."""
    rig.only("west")
    before = await rig.alpha.send()
    await rig.meanwhile(milliseconds(700), lambda: rig.stumble("lns.downlink"))
    reported = await rig.alpha.send(confirmed=True)
    await rig.say(UNREADABLE, by="west")
    after = await rig.alpha.send(confirmed=True)
    for frame in (before, reported, after):
        rig.expect(frame, FIRST, first="west")
        rig.expect_reply(frame)


async def test_a_mistake_costs_one_downlink_of_class_c(rig):
    """What is sent at once and comes to nothing is told; the next one is sent."""
    device = rig.provision("valve", device_class="C", f_cnt=10)
    rig.only("west")
    uplink = await device.send()
    rig.stumble("store")
    await rig.queue_downlink(device, payload=b"\x01")
    await rig.wait(seconds(2))
    await rig.queue_downlink(device, payload=b"\x02")
    rig.expect(uplink, FIRST, first="west")
    for payload in (b"\x01", b"\x02"):
        rig.expect_downlink(device, payload, window="C")


async def test_a_mistake_of_one_of_two_servers_costs_its_frame(rig):
    """It has claimed the frame, and nobody else takes it; the next one is heard as ever."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    rig.stumble("application")
    lost = await rig.alpha.send()
    after = await rig.alpha.send(confirmed=True)
    rig.expect(lost, LOST, lost="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_reply(after)
