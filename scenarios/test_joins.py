"""Join requests: ADR 007, 1b, and a DevNonce that is used once and for ever."""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from bench.virtual.stacks import BASICS_MODEM, LORAMAC_NODE
from scenarios.telling import tell
from scenarios.words import COPY, FIRST, FORGED, IN_RX2

USED = Table("""
    strategy kind | used
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")
FOREIGN = Table("""
    strategy kind | foreign
    *        join | NonDuplicate dropped(UnknownDevice) Suppressed
""")
ASKED = Table("""
    strategy kind        | asked
    *        unconfirmed | NonDuplicate forwarded RX1
""")
OF_ANOTHER_SESSION = Table("""
    strategy kind | late
    *        join | NonDuplicate dropped TooLate
""")
UNKNOWN = Table("""
    strategy kind | first
    *        join | - dropped(UnknownDevice) NotAsked
""")


async def test_a_join_heard_by_two_stations_is_accepted_once(rig, strategy):
    """Joins know no soft duplicate: the second copy is a Duplicate for every strategy."""
    rig.east.delay_uplinks(milliseconds(100))
    join = await rig.bravo.join()
    rig.expect(join, FIRST + COPY, first="west", copy="east")
    rig.expect_reply(join, "+EVT:JOINED")


async def test_a_join_heard_by_three_stations_is_accepted_once(rig, strategy):
    """One accept, through the station that was first."""
    rig.west.delay_uplinks(milliseconds(100))
    rig.north.delay_uplinks(milliseconds(300))
    join = await rig.bravo.join()
    rig.expect(join, FIRST + COPY * 2, first="east", copy=("west", "north"))
    rig.expect_reply(join, "+EVT:JOINED")


async def test_a_device_joins_and_is_answered_in_as923(rig, strategy):
    """A region is a table: what a board is told of it, and what it then does, is in no other."""
    rig.in_region("AS923-1")
    rig.only("west")
    join = await rig.bravo.join()
    uplink = await rig.bravo.send(confirmed=True)
    rig.expect(join, FIRST, first="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(join, "+EVT:JOINED")
    rig.expect_reply(uplink)


async def test_a_join_replayed_at_once_is_a_duplicate(rig, strategy):
    """There is no resubmission of a join: a device changes its DevNonce."""
    rig.only("west")
    join = await rig.bravo.join()
    await rig.replay(join, by="west", after=seconds(8))
    await rig.replay(join, by="east", after=seconds(8))
    rig.expect(join, FIRST + COPY * 2, first="west", copy=("west", "east"))


async def test_a_join_replayed_after_the_retention_finds_its_nonce_used(rig, strategy):
    """The DevNonce is remembered for ever, level 1 only for a minute."""
    rig.only("west")
    join = await rig.bravo.join()
    await rig.replay(join, by="west", after=seconds(61))
    await rig.replay(join, by="east", after=seconds(3_600))
    rig.expect(join, FIRST + USED * 2, first="west", used=("west", "east"))


async def test_an_older_join_replayed_finds_its_nonce_used(rig, strategy):
    """Every DevNonce is remembered, not only the last one."""
    rig.only("west")
    older = await rig.bravo.join()
    newer = await rig.bravo.join()
    await rig.replay(older, by="west", after=seconds(400))
    rig.expect(older, FIRST + USED, first="west", used="west")
    rig.expect(newer, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_a_join_replayed_after_a_restart_of_the_server(rig, strategy):
    """The DevNonce outlives the process."""
    rig.only("west")
    join = await rig.bravo.join()
    await rig.restart_lns()
    await rig.replay(join, by="east", after=seconds(4))
    rig.expect(join, FIRST + USED, first="west", used="east")


async def test_a_forged_join_does_not_block_the_real_one(rig, strategy):
    """The MIC comes before level 1: a forged join leaves no trace."""
    rig.only("west")
    forged = await rig.forge_join(rig.bravo, by="west")
    join = await rig.bravo.join()
    rig.expect(forged, FORGED, forged="west")
    rig.expect(join, FIRST, first="west")
    rig.expect_reply(join, "+EVT:JOINED")


@pytest.mark.parametrize("octet", range(4))
async def test_every_octet_of_a_mic_counts(rig, octet):
    """Of a join request and of a data frame: whoever has three of four right has no key."""
    rig.only("west")
    forged = await rig.forge_join(rig.bravo, by="west", octet=octet)
    join = await rig.bravo.join()
    before = await rig.alpha.send()
    frame = await rig.forge(rig.alpha, by="west", octet=octet)
    for one in (forged, frame):
        rig.expect(one, FORGED, forged="west")
    for one in (join, before):
        rig.expect(one, FIRST, first="west")


async def test_a_join_of_an_unknown_device_is_refused(rig, strategy):
    """Nobody answers a device that is not provisioned."""
    rig.only("west")
    join = await rig.stranger(activation="otaa").join()
    rig.expect(join, UNKNOWN, first="west")
    rig.expect_reply(join, "+EVT:JOIN_FAILED_RX_TIMEOUT")


async def test_a_lost_join_accept_is_followed_by_a_new_join(rig, strategy):
    """The device tries again with the next DevNonce, which is a new join."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    lost = await rig.bravo.join()
    join = await rig.bravo.join()
    rig.expect(lost, FIRST, first="west")
    rig.expect(join, FIRST, first="west")
    rig.expect_reply(join, "+EVT:JOINED")


async def test_a_join_too_late_for_rx1_is_accepted_in_rx2(rig, strategy):
    """A join accept has five seconds, and six.

    Catalogue: E23.
    """
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(4_800))
    join = await rig.bravo.join()
    rig.expect(join, IN_RX2, first="west")
    rig.expect_reply(join, "+EVT:JOINED")


@pytest.mark.requires("session kept by a failed join")
async def test_the_old_session_lives_until_the_new_one_speaks(rig, strategy):
    """A device that did not hear the join accept goes on with its old keys.

    Catalogue: E16.
    """
    rig.only("west")
    await rig.bravo.join()
    before = await rig.bravo.send()
    rig.west.suppress_downlinks(1)
    unheard = await rig.bravo.join()
    after = await rig.bravo.send()
    rig.expect(unheard, FIRST, first="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_a_device_that_checks_the_join_nonce_joins_again_and_again(rig, strategy):
    """LoRaWAN 1.0.4, 6.2.3: the JoinNonce of a device increases, also over a restart.

    A stack that checks it takes no accept with another one.
    """
    rig.only("west")
    joins = [await rig.bravo.join() for _ in range(3)]
    await rig.restart_lns()
    joins.append(await rig.bravo.join())
    for join in joins:
        rig.expect(join, FIRST, first="west")
        rig.expect_reply(join, "+EVT:JOINED")


async def test_two_servers_never_give_one_join_nonce_twice(rig, strategy):
    """They share the JoinNonces of a device as they share its DevNonces."""
    rig.put_on("lns-b", "east")
    joins = []
    for station in ("west", "east", "west", "east"):
        rig.only(station)
        joins.append((await rig.bravo.join(), station))
    for join, station in joins:
        rig.expect(join, FIRST, first=station)
        rig.expect_reply(join, "+EVT:JOINED")


@pytest.mark.parametrize("by", ["west", "east"])
@pytest.mark.parametrize("version", ["1.0.2", "1.0.3"])
async def test_a_join_that_nobody_heard_ends_no_session(rig, strategy, version, by):
    """Recorded, never heard, replayed after the real join and before its first uplink.

    By the same server or by another one; the accept of the replay opens a session that waits.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("joiner", activation="otaa", strategy=strategy, lorawan=version)
    rig.only()
    unheard = [await device.join() for _ in range(2)]
    rig.only("west")
    join = await device.join()
    for frame in unheard:
        await rig.say(rig.told(frame, by=by), by=by)
    uplinks = [await device.send() for _ in range(2)]
    rig.expect(join, FIRST, first="west")
    for frame in unheard:
        rig.expect(frame, FIRST, first=by)
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")


# --- which nonces, and whose ----------------------------------------------------------------------


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("servers", [1, 2])
async def test_two_devices_may_use_one_dev_nonce(rig, strategy, servers):
    """A DevNonce is a device's own: both join with it within a second, and are told apart."""
    other = rig.provision("other", activation="otaa")
    if servers == 2:
        rig.put_on("lns-b", "east")
    rig.heard_by("west", "east", "west", "east")
    joins = [await device.join() for device in (rig.bravo, other)]
    uplinks = [await device.send(b"same", confirmed=True) for device in (rig.bravo, other)]
    for frame, station in zip((*joins, *uplinks), ("west", "east") * 2, strict=True):
        rig.expect(frame, FIRST, first=station)
        rig.expect_reply(frame)


DRAWN = (0x8F31, 0x0102, 0xFFFF, 0x0000, 0x8F30)
"""DevNonces as 1.0.2 and 1.0.3 draw them: in no order."""


async def _say_joins(rig, device, nonces, *, by):
    joins = [await rig.craft_join(device, dev_nonce=nonce) for nonce in nonces]
    for join in joins:
        await rig.say(rig.told(join, by=by), by=by)
        await rig.wait(seconds(7))
    return joins


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("by", ["west", "east"])
@pytest.mark.parametrize("version", ["1.0.2", "1.0.3"])
async def test_nonces_are_drawn_at_random_and_each_is_used_once(rig, version, by):
    """A lower one than before is as good as any; each is refused ever after, by all servers."""
    rig.put_on("lns-b", "east")
    device = rig.provision("drawing", activation="otaa", lorawan=version)
    joins = await _say_joins(rig, device, DRAWN, by="west")
    for join in joins:
        await rig.replay(join, by=by, after=seconds(400))
        rig.expect(join, FIRST + USED, first="west", used=by)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("by", ["west", "east"])
async def test_a_counted_nonce_never_goes_back(rig, by):
    """LoRaWAN 1.0.4, 6.2.4: the DevNonce is a counter; one that was never used is refused too."""
    rig.put_on("lns-b", "east")
    device = rig.provision("counting", activation="otaa", lorawan="1.0.4")
    [before] = await _say_joins(rig, device, (5,), by="west")
    refused = await _say_joins(rig, device, (4, 0), by=by)
    after = await _say_joins(rig, device, (6, 0xFFFF), by=by)
    rig.expect(before, FIRST, first="west")
    for join in refused:
        rig.expect(join, USED, used=by)
    for join in after:
        rig.expect(join, FIRST, first=by)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("join_eui", ["70B3D57ED00000FF", "0000000000000000", "F0B3D57ED0000000"])
async def test_a_join_to_somebody_elses_join_eui_uses_nothing_up(rig, strategy, join_eui):
    """It is proven by its MIC, and not for this network: the same DevNonce joins here next."""
    rig.only("west")
    foreign = await rig.craft_join(rig.bravo, join_eui=join_eui)
    await tell(rig, foreign, "west", "east")
    join = await rig.bravo.join()
    rig.expect(foreign, FOREIGN + COPY, foreign="west", copy="east")
    rig.expect(join, FIRST, first="west")
    rig.expect_reply(join)


@pytest.mark.requires("virtual time")
async def test_two_devices_of_one_join_eui_have_keys_of_their_own(rig, strategy):
    """A join in the name of one with the key of the other is forged."""
    other = rig.provision("other", activation="otaa")
    rig.only("west")
    join = await rig.bravo.join()
    forged = await rig.forge_join(other, by="west")
    rig.expect(join, FIRST, first="west")
    rig.expect(forged, FORGED, forged="west")


# --- what an accept settles -----------------------------------------------------------------------


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("stack", [LORAMAC_NODE, BASICS_MODEM], ids=["from 1", "from 0"])
@pytest.mark.parametrize("servers", [1, 2])
async def test_both_counters_begin_anew_with_a_session(rig, servers, stack):
    """Whatever the session before had come to, up and down, and whichever server hears it."""
    station = "east" if servers == 2 else "west"
    if servers == 2:
        rig.put_on("lns-b", "east")
    device = rig.provision("again", activation="otaa", stack=stack)
    rig.only("west")
    sessions = []
    for by in ("west", station):
        rig.only(by)
        join = await device.join()
        uplinks = [await device.send(confirmed=True) for _ in range(2)]
        sessions.append((by, join, uplinks))
    for by, join, uplinks in sessions:
        rig.expect(join, FIRST, first=by)
        rig.expect_reply(join)
        for f_cnt, uplink in enumerate(uplinks):
            rig.expect(uplink, FIRST, first=by)
            rig.expect_answer(uplink, f_cnt=f_cnt, ack=True)
            rig.expect_upstream(uplink, through=by, fCnt=stack.first_f_cnt + f_cnt)
            rig.expect_reply(uplink)


async def test_what_waits_for_a_device_outlives_its_session(rig, strategy):
    """The application speaks to a device: what it wants said goes down in the next session."""
    rig.only("west")
    before = await rig.bravo.join()
    await rig.queue_downlink(rig.bravo, payload=b"on", port=7)
    join = await rig.bravo.join()
    uplink = await rig.bravo.send()
    for one in (before, join):
        rig.expect(one, FIRST, first="west")
    rig.expect(uplink, ASKED, asked="west")
    rig.expect_answer(uplink, f_cnt=0, f_port=7)
    rig.expect_downlink(rig.bravo, b"on", port=7)


@pytest.mark.requires("virtual time")
async def test_a_join_of_a_radio_session_that_is_over_is_not_answered(rig):
    """Its station would discard the xtime of it; the DevNonce is used, and copies are copies."""
    join = await rig.craft_join(rig.bravo)
    text = rig.told(join, by="west")
    rig.west.restart()
    await rig.wait(seconds(1))
    await rig.say(text, by="west")
    await tell(rig, join, "east")
    await rig.wait(seconds(7))
    rig.expect(join, OF_ANOTHER_SESSION + COPY, late="west", copy="east")


async def test_a_device_that_has_joined_is_none_of_another_join_server(rig):
    """It asks in the name of one that its record does not have, with a DevNonce that is new."""
    rig.only("west")
    join = await rig.bravo.join()
    foreign = await rig.craft_join(rig.bravo, join_eui="70B3D57ED00000FF")
    await rig.say(rig.told(foreign, by="west"), by="west")
    rig.expect(join, FIRST, first="west")
    rig.expect(foreign, FOREIGN, foreign="west")
