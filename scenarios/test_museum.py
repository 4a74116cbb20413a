"""The museum: duplicate bugs of network servers that are publicly known, each as a scenario.

The thread or the place where it was told stands in each docstring. None of them is to be ours: of
each there is a mutant that shows the same fault (`tests/mutants/museum.py`).
"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.words import AGAIN, COPY, EXPIRED, FIRST

OLD = Table("""
    strategy kind        | old
    Drop     confirmed   | Duplicate dropped(Duplicate) Suppressed
    Drop     unconfirmed | Duplicate dropped(Duplicate) NotAsked
    Mark     confirmed   | SoftDuplicate dropped(InvalidFrameCounter) Suppressed
    Mark     unconfirmed | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
    None     confirmed   | SoftDuplicate dropped(InvalidFrameCounter) Suppressed
    None     unconfirmed | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")
USED = Table("""
    strategy kind | used
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")
REFUSED = Table("""
    strategy kind      | refused
    *        confirmed | NonDuplicate dropped(UpstreamUnavailable) Suppressed
""")
FORGED = Table("""
    strategy kind | forged
    *        join | - dropped(MicMismatch) NotAsked
""")


async def test_a_replay_by_another_station_is_no_copy(rig, strategy, confirmed):
    """Azure/iotedge-lorawan-starterkit#1090: it counted as a soft duplicate and went up again."""
    rig.only("west")
    old, newer = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.replay(old, by="east", after=seconds(10))
    rig.expect(old, FIRST + OLD, first="west", old="east")
    rig.expect(newer, FIRST, first="west")


async def test_a_copy_restarts_no_counter(rig, strategy, confirmed):
    """Azure/iotedge-lorawan-starterkit#1032 and #937: a copy of FCnt 0 or 1 reset the counter.

    Then the newest frame was new once more.
    """
    rig.east.delay_uplinks(seconds(20), 1)
    device = rig.provision("relaxed", strategy=strategy)
    rig.heard_by(("west", "east"), "west", "west")
    frames = [await device.send(confirmed=confirmed) for _ in range(3)]
    await rig.wait(seconds(25))
    await rig.replay(frames[2], by="west", after=seconds(61))
    rig.expect(frames[0], FIRST + COPY, first="west", copy="east")
    rig.expect(frames[1], FIRST, first="west")
    rig.expect(frames[2], FIRST + EXPIRED, first="west", again="west")


async def test_a_slow_gateway_brings_a_copy(rig, strategy, confirmed):
    """gotthardp/lorawan-server#147, TheThingsNetwork/lorawan-stack#2034: after the window it was
    taken for a frame of its own."""
    rig.east.delay_uplinks(seconds(5))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(uplink)


async def test_of_two_gateways_at_one_moment_one_is_the_first(rig, strategy, confirmed):
    """helium/console#527: neither was marked late, and both were delivered."""
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect_race(uplink, FIRST + COPY, between=("west", "east"))


async def test_a_confirmed_uplink_is_acknowledged_again(rig, strategy):
    """brocaar/chirpstack-network-server#272 and #502: a confirmed retry got no ACK."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_reply(uplink)


async def test_a_retry_at_another_data_rate_is_a_retry(rig, strategy, confirmed):
    """TheThingsNetwork/lorawan-stack PR #2110: another data rate made it another frame."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(3))
    await rig.say(rig.told(uplink, by="west", dr=2, freq_hz=868_300_000), by="west")
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")


async def test_a_gateway_that_repeats_itself_for_minutes_is_heard_once(rig, strategy):
    """TheThingsNetwork/lorawan-stack#4095: a looping gateway sent one frame for minutes."""
    rig.only("west")
    uplink = await rig.alpha.send()
    for _ in range(5):
        await rig.replay(uplink, by="west", after=seconds(40))
    rig.expect(uplink, FIRST + AGAIN * 5, first="west", again=("west",) * 5)


async def test_a_restart_right_after_a_restart_is_one(rig, strategy, confirmed):
    """TheThingsNetwork/lorawan-stack#4502: FCnt 0 directly after FCnt 0 was dropped."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    before = await device.send(b"on", confirmed=confirmed)
    await device.restart(memory=False)
    after = await device.send(b"off", confirmed=confirmed)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_a_dev_nonce_is_used_once_whatever_anybody_forgot(rig, strategy):
    """jgromes/RadioLib#1480 and #1154, Lora-net/LoRaMac-node#556: reused after a reset."""
    rig.only("west")
    joining = await rig.bravo.join()
    await rig.restart_lns()
    await rig.replay(joining, by="west", after=seconds(61))
    rig.expect(joining, FIRST + USED, first="west", used="west")


@pytest.mark.requires("slow application")
async def test_a_retry_of_what_nobody_took_is_delivered(rig, strategy):
    """Azure/iotedge-lorawan-starterkit, ConcentratorDeduplication: after a failure upstream the
    retry was acknowledged as a duplicate, and the message lost."""
    rig.only("west")
    rig.refuse_upstream()
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, REFUSED + FIRST, refused="west", first="west")
    rig.expect_reply(uplink)


async def test_copies_use_up_no_answers(rig, strategy):
    """Azure/iotedge-lorawan-starterkit#1334 and PR #1404: five stations used up the retry limit."""
    rig.station("north")
    rig.east.delay_uplinks(milliseconds(50))
    rig.north.delay_uplinks(milliseconds(100))
    rig.heard_by(("west", "east", "north"), "west", "west")
    rig.west.suppress_downlinks(2)
    uplink = await rig.alpha.send(confirmed=True, retries=2)
    rig.expect(
        uplink,
        FIRST + COPY * 2 + AGAIN * 2,
        first="west",
        copy=("east", "north"),
        again=("west", "west"),
    )
    rig.expect_reply(uplink)


async def test_a_forged_join_blocks_no_real_one(rig, strategy):
    """Azure/iotedge-lorawan-starterkit, JoinRequestMessageHandler: the key was filled before the
    MIC was checked."""
    rig.only("west")
    forged = await rig.forge_join(rig.bravo, by="west")
    joining = await rig.bravo.join()
    rig.expect(forged, FORGED, forged="west")
    rig.expect(joining, FIRST, first="west")
    rig.expect_reply(joining)


async def test_the_first_frame_after_sixteen_bits_is_taken(rig, strategy, confirmed):
    """Azure/iotedge-lorawan-starterkit: the frame exactly at the roll-over was lost."""
    device = rig.provision("veteran", f_cnt=65_535, strategy=strategy)
    rig.only("west")
    for uplink in [await device.send(confirmed=confirmed) for _ in range(3)]:
        rig.expect(uplink, FIRST, first="west")


async def test_an_answer_is_never_repeated_with_its_counter(rig, strategy):
    """gotthardp/lorawan-server, lorawan_mac: the answer to a retry had the FCntDown of the first
    one, and a device that had heard that refused it."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.suppress_downlinks(1)
    repeated = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(before, FIRST, first="west")
    rig.expect(repeated, FIRST + AGAIN, first="west", again="west")
    for uplink in (before, repeated):
        rig.expect_reply(uplink)
