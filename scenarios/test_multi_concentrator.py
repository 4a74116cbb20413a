"""One transmission through several stations: ADR 007, "Duplicates from different concentrators"."""

from bench.clock import milliseconds
from bench.verdict.expectation import Table
from scenarios.words import COPY, FIRST

LATE_COPY = Table("""
    strategy kind        | copy
    Drop     confirmed   | Duplicate dropped(Duplicate) Suppressed
    Drop     unconfirmed | Duplicate dropped(Duplicate) NotAsked
    Mark     confirmed   | SoftDuplicate dropped(InvalidFrameCounter) Suppressed
    Mark     unconfirmed | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
    None     confirmed   | SoftDuplicate dropped(InvalidFrameCounter) Suppressed
    None     unconfirmed | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")


async def test_a_second_station_delivers_the_same_frame(rig, strategy, confirmed):
    """A copy through another station is a Duplicate under Drop, else a SoftDuplicate."""
    rig.east.delay_uplinks(milliseconds(100))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


async def test_the_first_to_deliver_owns_the_frame_whoever_it_is(rig, strategy, confirmed):
    """The first copy counts, not the station that usually hears best."""
    rig.west.delay_uplinks(milliseconds(100))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="east", copy="west")
    rig.expect_reply(uplink)


async def test_three_stations_deliver_the_same_frame(rig, strategy, confirmed):
    """Every further station is a copy; one answer, through the first."""
    rig.east.delay_uplinks(milliseconds(100))
    rig.north.delay_uplinks(milliseconds(200))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY * 2, first="west", copy=("east", "north"))
    rig.expect_reply(uplink)


async def test_three_stations_in_the_opposite_order(rig, strategy, confirmed):
    """The order of arrival decides, whatever the order of the stations."""
    rig.west.delay_uplinks(milliseconds(200))
    rig.east.delay_uplinks(milliseconds(100))
    rig.north.delay_uplinks(0)
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY * 2, first="north", copy=("east", "west"))
    rig.expect_reply(uplink)


async def test_a_single_station_makes_no_duplicates(rig, strategy, confirmed):
    """What one station hears once is new, each time."""
    rig.only("west")
    for _ in range(3):
        uplink = await rig.alpha.send(confirmed=confirmed)
        rig.expect(uplink, FIRST, first="west")


async def test_two_devices_with_equal_counters_do_not_meet(rig, strategy, confirmed):
    """The DevEUI is part of the key: another device's frame is no copy."""
    rig.east.delay_uplinks(milliseconds(100))
    ours = await rig.alpha.send(confirmed=confirmed)
    theirs = await rig.charlie.send(confirmed=confirmed)
    rig.expect(ours, FIRST + COPY, first="west", copy="east")
    rig.expect(theirs, FIRST + COPY, first="west", copy="east")


async def test_a_copy_made_by_the_bench_counts_like_one_from_the_air(rig, strategy, confirmed):
    """A cloned reception stands for a second concentrator when only one can hear."""
    rig.only("west")
    rig.west.clone_uplinks_to("east", milliseconds(100))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


async def test_a_slow_backhaul_keeps_the_copy_a_copy(rig, strategy, confirmed):
    """A copy ten seconds late is still a copy of the newest frame."""
    rig.east.delay_uplinks(milliseconds(10_000))
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.settle()
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


async def test_a_late_copy_of_an_older_frame_says_nothing_new(rig, strategy, confirmed):
    """A soft duplicate passes only while its frame is the newest of the session."""
    rig.east.delay_uplinks(milliseconds(20_000), receptions=1)
    older = await rig.alpha.send(confirmed=confirmed)
    rig.only("west")
    newer = await rig.alpha.send(confirmed=confirmed)
    await rig.settle()
    rig.expect(older, FIRST + LATE_COPY, first="west", copy="east")
    rig.expect(newer, FIRST, first="west")
