"""One network server owns a frame: races for it, owners that die or stand still, and time.

ADR 007, part 2: the first server that asks owns the frame, and only the owner answers.
"""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    ELSEWHERE,
    EXPIRED,
    FIRST,
    LOST,
    LOST_UPSTREAM,
    OVER,
    OWNED,
    REFUSED_AGAIN,
    TAKEN_OVER,
    UNVERIFIED,
    WITH_DOWNLINK,
)

DAYS = minutes(3 * 24 * 60)

# A join that two servers hear: one of them uses the DevNonce, and the other finds it used.
JOIN_RACE = Table("""
    strategy kind | accepted                  | refused
    *        join | NonDuplicate dropped RX1  | NonDuplicate dropped(DevNonceUsed) Suppressed
""")

# An old frame, for a server that knows what the others have heard since.
TOO_OLD = Table("""
    strategy kind        | old
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed NotAsked
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked NotAsked
""")

# The newest frame at a server that has restarted since, and does not own it.
AFTER_RESTART = Table("""
    strategy kind        | late
    Drop     confirmed   | NonDuplicate dropped(DuplicateAtOtherServer) Suppressed NotOwner
    Mark     confirmed   | NonDuplicate marked Suppressed NotOwner
    None     confirmed   | NonDuplicate forwarded Suppressed NotOwner
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked NotAsked
""")

# A frame whose claim is forgotten, at a server that never heard it and knows whose it was.
STALE = Table("""
    strategy kind        | stale
    Drop     confirmed   | NonDuplicate dropped(DuplicateAtOtherServer) Suppressed
    Mark     confirmed   | NonDuplicate marked Suppressed
    None     confirmed   | NonDuplicate forwarded Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")

# The owner's frame once more, when that has restarted and another server owns a newer one.
RETURNED = Table("""
    strategy kind      | returned
    *        confirmed | NonDuplicate dropped(InvalidFrameCounter) Suppressed
""")


# --- races ------------------------------------------------------------------------------------


async def test_of_two_servers_at_the_same_moment_one_owns_the_frame(rig, strategy, confirmed):
    """Whichever asks first owns the frame; never both, never none, and one answers."""
    rig.put_on("lns-b", "east")
    for uplink in [await rig.alpha.send(confirmed=confirmed) for _ in range(3)]:
        rig.expect_race(uplink, OWNED + LOST, between=("west", "east"))
        rig.expect_reply(uplink)


async def test_of_three_servers_at_the_same_moment_one_owns_the_frame(rig, strategy, confirmed):
    """However many servers ask at once, one of them owns the frame."""
    rig.put_on("lns-b", "east")
    rig.put_on("lns-c", "north")
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect_race(uplink, OWNED + LOST * 2, between=("west", "east", "north"))
    rig.expect_reply(uplink)


async def test_of_two_servers_at_the_same_moment_one_accepts_a_join(rig, strategy):
    """The DevNonce is used once, whichever server is the first."""
    rig.put_on("lns-b", "east")
    joining = await rig.bravo.join()
    rig.expect_race(joining, JOIN_RACE, between=("west", "east"))
    rig.expect_reply(joining)


# --- servers that die or stand still ----------------------------------------------------------


async def test_a_frame_stays_with_the_server_that_died(rig, strategy, confirmed):
    """A claim is no lock that runs out: until the next frame nobody else may answer.

    Catalogue: G09. Under Drop the frame is lost with the server that had claimed it; the next one
    has an owner at once.
    """
    rig.put_on("lns-b", "east")
    rig.only("east")
    await rig.orphan_next_frame(rig.alpha)
    orphan = await rig.alpha.send(confirmed=confirmed)
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(orphan, LOST, lost="east")
    rig.expect_on_air(orphan)
    rig.expect(after, OWNED, owned="east")
    rig.expect_reply(after)


@pytest.mark.requires("slow application")
@pytest.mark.fault("upstream", "refuses")
async def test_an_owner_that_cannot_deliver_gives_the_frame_back(rig, strategy, confirmed):
    """It lives, and says that it could not keep the message: the other server delivers it."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    rig.refuse_upstream(1)
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, LOST_UPSTREAM + OWNED, back="west", owned="east")
    rig.expect_reply(uplink)


@pytest.mark.requires("slow application")
@pytest.mark.fault("upstream", "refuses")
async def test_a_copy_is_the_first_while_its_frame_is_given_back(rig, strategy, confirmed):
    """The store takes its time to hear of it: what comes meanwhile waits, and is delivered then."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    rig.slow_store(milliseconds(100), "lns-a")
    rig.west.repeat_uplinks(milliseconds(150))
    rig.refuse_upstream(1)
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, LOST_UPSTREAM + OWNED, back="west", owned="west")
    rig.expect_reply(uplink)


@pytest.mark.requires("slow application")
@pytest.mark.fault("upstream", "refuses")
async def test_what_is_given_back_takes_nothing_from_the_owner_before(rig, strategy):
    """The frame before it is still another server's, so its copy is one that came from there.

    Whoever gives a frame back does not own the one before it: what it hears late of that goes the
    way of a copy, and is not refused as a counter that it had itself.
    """
    rig.put_on("lns-b", "east")
    rig.west.delay_uplinks(seconds(15), receptions=2)
    rig.only("west")
    older = await rig.alpha.send(confirmed=False)
    rig.only("west", "east")
    uplink = await rig.alpha.send(confirmed=False)
    rig.only("west")
    rig.refuse_upstream(1)
    refused = await rig.alpha.send(confirmed=False)
    await rig.wait(seconds(20))
    rig.expect(refused, LOST_UPSTREAM, back="west")
    rig.expect(older, ELSEWHERE, elsewhere="west")
    rig.expect(uplink, OWNED + ELSEWHERE, owned="east", elsewhere="west")


@pytest.mark.requires("wires")
@pytest.mark.fault("store", "owner stands still")
async def test_an_owner_that_stands_still_delivers_late_and_flagged(rig, strategy, confirmed):
    """It was granted the frame and learns it too late: nobody answers, and nothing is lost."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(600))
    before = await rig.alpha.send(confirmed=confirmed)
    await rig.pause_lns_in_mid_claim()
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(10))
    rig.resume_lns()
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, UNVERIFIED + LOST, unverified="west", lost="east")
    rig.expect_upstream(during, through="west", unverified=True)
    rig.expect_on_air(during)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
async def test_a_loser_that_restarts_does_not_own_the_retry(rig, strategy, confirmed):
    """It has forgotten that it heard the frame; whose it is, the store knows."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.restart_lns(lns="lns-b")
    await rig.replay(uplink, by="east")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, OWNED + LOST + AFTER_RESTART, owned="west", lost="east", late="east")
    rig.expect(after, OWNED + LOST, owned="west", lost="east")
    for answered in (uplink, after):
        rig.expect_reply(answered)


# --- time -------------------------------------------------------------------------------------


@pytest.mark.requires("wall clock")
async def test_clocks_that_differ_make_no_difference(rig, strategy, confirmed):
    """The clock of one host is 5 s ahead; then the clocks jump by days, to and fro.

    Catalogue: G19.
    """
    rig.put_on("lns-b", "east")
    rig.step_wall_clock(seconds(5), lns="lns-b")
    rig.east.delay_uplinks(milliseconds(150))
    await rig.meanwhile(milliseconds(150), lambda: rig.step_wall_clock(DAYS, lns="lns-b"))
    uplinks = [await rig.alpha.send(confirmed=confirmed)]
    rig.step_wall_clock(-DAYS, lns="lns-a")
    uplinks += [await rig.alpha.send(confirmed=confirmed)]
    for uplink in uplinks:
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
async def test_who_owned_a_frame_is_known_for_a_day(rig, strategy, confirmed):
    """After 23 h the claim still stands; after 25 h the next frame passes, whoever hears it.

    Catalogue: G17.
    """
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(first, by="east", after=minutes(23 * 60))
    await rig.wait(minutes(2 * 60))
    rig.only("east")
    second = await rig.alpha.send(confirmed=confirmed)
    rig.expect(first, OWNED + LOST, owned="west", lost="east")
    rig.expect(second, OWNED, owned="east")
    for uplink in (first, second):
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize(("after", "window"), [(1_439, "1"), (1_441, "C")])
@pytest.mark.parametrize("told_again_by", ["west", "east"])
async def test_a_session_is_nobodys_a_day_after_its_newest_frame(rig, after, window, told_again_by):
    """What the application wants of another server than its owner waits for an uplink till then.

    What is told again in between, and is refused, makes the day no longer.
    """
    rig.put_on("lns-b", "west")
    facts = {"device_class": "C", "strategy": "None", "relaxed_f_cnt": False}
    always = rig.provision("listening", f_cnt=10, **facts)
    rig.east.delay_uplinks(milliseconds(100), receptions=1)
    before = await always.send(confirmed=told_again_by == "east")
    await rig.replay(before, by=told_again_by, after=minutes(22 * 60))
    await rig.wait(minutes(after - 22 * 60))
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(5))
    rig.only("east")
    newest = await always.send()
    if told_again_by == "east":
        rig.expect(before, OWNED + LOST * 2, owned="west", lost="east")
    else:
        rig.expect(before, OWNED + LOST + EXPIRED, owned="west", lost="east", again="west")
    rig.expect(newest, WITH_DOWNLINK if window == "1" else FIRST, first="east")
    rig.expect_downlink(always, b"on", port=8, window=window)


@pytest.mark.requires("virtual time")
async def test_what_claims_have_forgotten_counters_remember(rig, strategy, confirmed):
    """A frame of the day before is replayed to a server that has never heard the device."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.replay(uplinks[0], by="east", after=minutes(25 * 60))
    rig.only("east")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplinks[0], OWNED + TOO_OLD, owned="west", old="east")
    rig.expect(uplinks[1], OWNED, owned="west")
    rig.expect(after, OWNED, owned="east")
    rig.expect_reply(after)


@pytest.mark.requires("virtual time")
async def test_the_first_frame_after_a_day_has_copies_like_any_other(rig, strategy, confirmed):
    """What claims have forgotten is read again, and the copy is of a frame that was read so."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    uplinks = [await rig.alpha.send(confirmed=confirmed)]
    await rig.wait(minutes(25 * 60))
    uplinks += [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    for uplink in uplinks:
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
async def test_the_first_copy_after_a_day_is_old_when_a_newer_frame_was_heard(
    rig, strategy, confirmed
):
    """As it is to a server that heard both itself: a late copy of an older frame (ADR 007)."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150), receptions=1)
    both = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(minutes(25 * 60))
    rig.only("west")
    late, newest = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.replay(late, by="east", after=seconds(1))
    rig.expect(both, OWNED + LOST, owned="west", lost="east")
    rig.expect(late, OWNED + TOO_OLD, owned="west", old="east")
    rig.expect(newest, OWNED, owned="west")
    for uplink in (both, late, newest):
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
async def test_after_a_day_the_others_are_asked_once(rig, strategy):
    """What is read then makes no frame an old one that comes later, of devices old and new."""
    rig.put_on("lns-b", "east")
    await rig.alpha.send()
    await rig.wait(minutes(25 * 60))
    rig.only("west")
    await rig.bravo.join()
    for device in (rig.alpha, rig.bravo):
        rig.only("west", "east")
        rig.east.delay_uplinks(milliseconds(150), receptions=1)
        both = await device.send()
        rig.only("west")
        late, newest = [await device.send() for _ in range(2)]
        await rig.replay(late, by="east", after=seconds(1))
        for uplink in (both, late):
            rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect(newest, OWNED, owned="west")


@pytest.mark.requires("virtual time")
async def test_a_station_that_connects_anew_brings_no_server_up_to_date(rig, strategy):
    """The day counts from when the server has read the store, whoever came back since."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplinks = [await rig.alpha.send() for _ in range(2)]
    await rig.wait(minutes(12 * 60))
    rig.east.restart()
    await rig.replay(uplinks[0], by="east", after=minutes(25 * 60))
    rig.expect(uplinks[0], OWNED + TOO_OLD, owned="west", old="east")
    rig.expect(uplinks[1], OWNED, owned="west")


@pytest.mark.requires("own store", "virtual time")
@pytest.mark.fault("lns", "killed")
async def test_a_claim_outlives_the_server_that_had_it(rig, strategy, confirmed):
    """It is dead for good: nobody answers its frame in its place, not even when the claim is gone.

    The store forgets it, and the other server knows still whose frame it was.
    """
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.kill_lns("lns-a")
    await rig.replay(uplink, by="east", after=seconds(61))
    await rig.wait(seconds(1))
    await rig.restart_store(empty=True)
    await rig.replay(uplink, by="east", after=seconds(61))
    rig.only("east")
    after = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    rig.expect(uplink, OWNED + ELSEWHERE + STALE, owned="west", elsewhere="east", stale="east")
    for one in after:
        rig.expect(one, OWNED, owned="east")
        rig.expect_reply(one)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("lns", "killed")
async def test_an_owner_that_comes_back_answers_what_is_its_own_only(rig, strategy):
    """It died after it had claimed; meanwhile the other server owns the next frame."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    rig.west.suppress_downlinks(1)
    own = await rig.alpha.send(confirmed=True)
    await rig.kill_lns("lns-a")
    rig.only("east")
    theirs = await rig.alpha.send(confirmed=True)
    await rig.start_lns("lns-a")
    await rig.replay(own, by="west", after=seconds(12))
    await rig.replay(theirs, by="west", after=seconds(12))
    rig.only("west")
    after = await rig.alpha.send(confirmed=True)
    rig.expect(own, OWNED + RETURNED, owned="west", returned="west")
    rig.expect(theirs, OWNED + LOST, owned="east", lost="west")
    rig.expect(after, OWNED, owned="west")
    rig.expect_on_air(theirs, "RX1")
    for one in (theirs, after):
        rig.expect_reply(one)


@pytest.mark.requires("slow application", "virtual time")
async def test_a_repeat_that_another_server_owns_and_nobody_delivers_gives_no_answer_back(rig):
    """It has cost none here: of the frame that is taken over since, three answers are repeated."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    await rig.start()
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, device, "west", "east", confirmed=True, after=seconds(1))
    rig.refuse_upstream(lns="lns-b")
    await tell(rig, frame, "east")
    await rig.wait(seconds(12))
    for _ in range(4):
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    rig.expect(
        frame,
        LOST_UPSTREAM + LOST + REFUSED_AGAIN + TAKEN_OVER + AGAIN * 2 + OVER,
        back="west", lost="east", refused="east", taken="east", again="east", over="east",
    )  # fmt: skip


@pytest.mark.requires("slow application", "virtual time")
async def test_what_was_given_back_is_remembered_for_a_minute_since_it_was_claimed(rig, strategy):
    """Not since it was given back, ten seconds later: then it is one more first message."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.delay_upstream(seconds(15), lns="lns-a")
    first = await hear(rig, device, "west", "east", f_cnt=0, after=seconds(62))
    await tell(rig, first, "east")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(first, LOST_UPSTREAM + LOST + OWNED, back="west", lost="east", owned="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.2-0"
    if strategy == "Drop":  # the others have forwarded it in the life before, too
        rig.expect_upstream(first, through="east", removeDuplicatesKey=key)


async def test_who_has_claimed_a_frame_and_died_may_own_it_for_who_owned_the_one_before(rig):
    """That is said of it, and is no mistake of those who say it."""
    rig.put_on("lns-b", "east")
    rig.only("east")
    before = await rig.alpha.send(confirmed=True)
    await rig.orphan_next_frame(rig.alpha)
    orphan = await rig.alpha.send(confirmed=True)
    after = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="east")
    rig.expect(orphan, LOST, lost="east")
    rig.expect(after, OWNED, owned="east")
