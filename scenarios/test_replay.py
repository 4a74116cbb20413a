"""A frame sent again by somebody else: ADR 007, "replay attacks"."""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.words import AGAIN, COPY, EXPIRED, FIRST, FORGED, OVER

OLDER = Table("""
    strategy kind        | again
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
OLDER_WITHIN = Table("""
    strategy kind        | again
    *        confirmed   | DuplicateDueToResubmission dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | DuplicateDueToResubmission dropped(InvalidFrameCounter) NotAsked
""")
UNKNOWN = Table("""
    strategy kind        | again
    *        *           | - dropped(UnknownDevice) NotAsked
""")


async def test_a_replay_at_once_looks_like_a_resubmission(rig, strategy, confirmed):
    """Within the retention and through the same station nobody can tell it from a retry."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="west", after=seconds(5))
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")


async def test_a_replay_through_the_other_station_is_a_copy(rig, strategy, confirmed):
    """A replay through another station never gets an answer."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="east", after=seconds(5))
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


async def test_a_replay_after_the_retention_meets_the_frame_counter(rig, strategy, confirmed):
    """A cache miss is new; unconfirmed, the counter stops it; confirmed, it is a resubmission."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="west", after=seconds(61))
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="west")


async def test_a_replay_after_the_retention_through_the_other_station(rig, strategy, confirmed):
    """After the retention no station owns the frame any more."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="east", after=seconds(61))
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="east")


async def test_a_replay_of_an_older_frame_is_refused(rig, strategy, confirmed):
    """Once the counter has moved on, an old frame is old, copy or not."""
    rig.only("west")
    older = await rig.alpha.send(confirmed=confirmed)
    newer = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(older, by="west", after=seconds(20))
    await rig.replay(older, by="west", after=seconds(61))
    rig.expect(older, FIRST + OLDER_WITHIN + OLDER, first="west", again="west")
    rig.expect(newer, FIRST, first="west")


async def test_a_storm_of_replays_is_answered_three_times(rig, strategy):
    """A replay costs at most three answers; each keeps the entry alive."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    for _ in range(5):
        await rig.replay(uplink, by="west", after=seconds(30))
    rig.expect(uplink, FIRST + AGAIN * 3 + OVER * 2, first="west", again="west", over="west")


async def test_a_replay_after_a_rejoin_belongs_to_nobody(rig, strategy, confirmed):
    """With the first frame of the new session the old keys are gone."""
    device = rig.provision("joiner", activation="otaa", strategy=strategy)
    rig.only("west")
    await device.join()
    old = await device.send(confirmed=confirmed)
    await device.join()
    new = await device.send(confirmed=confirmed)
    await rig.replay(old, by="west", after=seconds(5))
    rig.expect(old, FIRST + UNKNOWN, first="west", again="west")
    rig.expect(new, FIRST, first="west")


async def test_a_frame_with_a_wrong_mic_belongs_to_nobody(rig, strategy, confirmed):
    """A forged frame does not enter level 1, so it shadows no genuine one."""
    rig.only("west")
    forged = await rig.forge(rig.alpha, by="west", confirmed=confirmed)
    genuine = await rig.alpha.send(confirmed=confirmed)
    rig.expect(forged, FORGED, forged="west")
    rig.expect(genuine, FIRST, first="west")


async def test_a_device_nobody_provisioned_is_unknown(rig, strategy, confirmed):
    """A frame of a foreign network is refused by its DevAddr."""
    stranger = rig.stranger()
    rig.only("west")
    uplink = await stranger.send(confirmed=confirmed)
    rig.expect(uplink, UNKNOWN, again="west")


@pytest.mark.fault("lns", "restart")
async def test_what_is_told_while_a_server_ends_is_lost_by_nobody(rig):
    """It may never have read it; it has forgotten nothing else."""
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    lost = await rig.craft(rig.charlie, confirmed=True)
    await rig.say(rig.told(lost, by="west"), by="west")
    await rig.restart_lns()
    last = await rig.alpha.send(confirmed=True)
    for uplink in (first, last):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_what_a_replay_is_answered_is_no_answer_to_what_the_device_sends_meanwhile(rig):
    """It comes between the windows of the device, which sends its own frame again."""
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    await rig.replay(first, by="west", after=seconds(5))
    rig.only("west", "east")
    rig.west.delay_uplinks(milliseconds(300))
    rig.east.suppress_downlinks(1)
    repeated = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(first, FIRST + AGAIN, first="west", again="west")
    rig.expect(repeated, FIRST + COPY + AGAIN + COPY, first="east", again="east", copy="west")
    rig.expect_reply(repeated)
