"""What a network server promises while processes die and wires break; real ones only."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.words import COPY, FIRST, TOO_LATE

pytestmark = pytest.mark.requires("wires")

UNVERIFIED = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate forwarded Suppressed
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")


@pytest.mark.fault("lns", "paused")
async def test_what_a_paused_server_reads_late_is_not_answered(rig, strategy, confirmed):
    """A server that stood still forwards what waited for it, and wastes no downlink on it."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    rig.pause_lns()
    late = await rig.alpha.send(confirmed=confirmed)
    rig.resume_lns()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(before, FIRST, first="west")
    rig.expect(late, TOO_LATE, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_on_air(late)


@pytest.mark.fault("lns", "paused")
async def test_a_pause_does_not_make_a_copy_new(rig, strategy, confirmed):
    """One station tells a frame before a pause, the other one during it: still a copy."""
    rig.east.delay_uplinks(seconds(1))
    before = await rig.alpha.send(confirmed=confirmed)
    await rig.meanwhile(seconds(0.7), rig.pause_lns)
    await rig.meanwhile(seconds(2.5), rig.resume_lns)
    divided = await rig.alpha.send(confirmed=confirmed)
    for uplink in (before, divided):
        rig.expect(uplink, FIRST + COPY, first="west", copy="east")


@pytest.mark.fault("lns", "killed")
async def test_what_was_heard_during_a_crash_is_told_afterwards(rig, strategy, confirmed):
    """A station keeps what it hears until it looks for its server again; told late, and once.

    It looks again 1, 2, 4 and 8 s after it has lost its link, and what it has is lost if nobody is
    there: so it loses its link three times, and then the server has 8 s to come back.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    for back_after in (2, 3, 5):
        rig.west.cut()
        rig.west.restore()
        await rig.wait(seconds(back_after))
    await rig.kill_lns()
    meanwhile = await rig.alpha.send(confirmed=confirmed)
    await rig.start_lns()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(before, FIRST, first="west")
    rig.expect(meanwhile, TOO_LATE, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_on_air(meanwhile)


@pytest.mark.fault("store", "away")
async def test_without_its_store_a_server_forwards_and_does_not_answer(rig, strategy, confirmed):
    """What cannot be made durable is not answered; the next frame after the outage is."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store()
    unverified = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(before, FIRST, first="west")
    rig.expect(unverified, UNVERIFIED, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_on_air(unverified)


@pytest.mark.fault("store", "foreign value")
async def test_a_foreign_value_in_the_store_harms_one_device_only(rig, strategy, confirmed):
    """Nobody can say who owns its frames: they are delivered flagged, and the next are not."""
    rig.put_on("lns-b", "north")
    rig.only("west")
    before = [await device.send(confirmed=confirmed) for device in (rig.alpha, rig.charlie)]
    await rig.spoil_store(rig.alpha)
    spoilt = await rig.alpha.send(confirmed=confirmed)
    beside = await rig.charlie.send(confirmed=confirmed)
    await rig.mend_store(rig.alpha)
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(spoilt, UNVERIFIED, first="west")
    rig.expect_upstream(spoilt, through="west", unverified=True)
    rig.expect_on_air(spoilt)
    for uplink in (*before, beside, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
