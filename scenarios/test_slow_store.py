"""The store that network servers share answers too late, not at all, or restarts.

ADR 007, part 2: a server that is not told in time who owns a frame cannot answer it. What the
store forgets, the servers still know for themselves.
"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, COPY, FIRST, LOST, LOST_UPSTREAM, OWNED, STRANGE, UNVERIFIED

USED = Table("""
    strategy kind | used
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")

OLD = Table("""
    strategy kind        | old
    *        *           | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")

OLD_COPY = Table("""
    strategy kind        | copy
    *        unconfirmed | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")

# --- a store that is there, and no help -------------------------------------------------------


@pytest.mark.fault("store", "slow")
async def test_an_answer_after_rx1_is_none(rig, strategy, confirmed):
    """The store grants the frame and says so too late: delivered flagged, and not answered.

    The other server is told that the frame has an owner; the claim of the next one is not late.
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(600))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.slow_store(seconds(1), "lns-a")
    slow = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store("lns-a")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(slow, UNVERIFIED + LOST, unverified="west", lost="east")
    rig.expect_upstream(slow, through="west", unverified=True)
    rig.expect_on_air(slow)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "slow")
async def test_a_store_that_says_nothing_for_long_holds_nothing_up(rig, strategy, confirmed):
    """Nobody says for 15 s who owns the frame: the only copy is delivered at once, flagged.

    Catalogue: G08.
    """
    rig.put_on("lns-b", "east")
    rig.only("east")
    before = await rig.alpha.send(confirmed=confirmed)
    rig.slow_store(seconds(15))
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, UNVERIFIED, unverified="east")
    rig.expect_upstream(during, through="east", unverified=True)
    for uplink in (before, after):
        rig.expect(uplink, OWNED, owned="east")
        rig.expect_reply(uplink)


@pytest.mark.requires("own store", "wires")
@pytest.mark.fault("store", "paused")
async def test_a_store_that_stands_still_is_away(rig, strategy, confirmed):
    """It takes every question and answers none; what it was told meanwhile does no harm later."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(600))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.pause_store()
    during = await rig.alpha.send(confirmed=confirmed)
    rig.resume_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, UNVERIFIED * 2, unverified=("west", "east"))
    rig.expect_on_air(during)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


# --- a store that restarts --------------------------------------------------------------------


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_store_that_restarts_knows_who_owned_what(rig, strategy, confirmed):
    """What it granted before is granted still: the other server does not answer the retry."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.restart_store(empty=False)
    await rig.replay(uplink, by="east")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
    rig.expect(after, OWNED, owned="west")
    for answered in (uplink, after):
        rig.expect_reply(answered)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_store_that_forgot_everything_is_told_again(rig, strategy, confirmed):
    """The servers know the counters themselves: the next frame has an owner and a right answer."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150), receptions=1)
    before = await rig.alpha.send(confirmed=confirmed)
    await rig.restart_store(empty=True)
    rig.west.delay_uplinks(milliseconds(150))
    after = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    for uplink in after:
        rig.expect(uplink, OWNED + LOST, owned="east", lost="west")
    for uplink in (before, *after):
        rig.expect_reply(uplink)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_retry_after_the_store_forgot_is_answered_as_before(rig, strategy):
    """The server that delivered the frame knows it still, and answers with a counter that is new.

    (A server that was refused it could not tell this from a frame that its owner gave back.)
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    uplink = await rig.alpha.send(confirmed=True)
    await rig.restart_store(empty=True)
    await rig.replay(uplink, by="west")
    rig.expect(uplink, OWNED + LOST + AGAIN, owned="west", lost="east", again="west")
    rig.expect_on_air(uplink, "RX1", "RX1")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_session_that_the_store_forgot_is_told_again_by_its_frames(rig, strategy):
    """Who joined through one server is a stranger to the other until the first one hears it."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    await rig.restart_store(empty=True)
    rig.only("east")
    stranger = await rig.bravo.send()
    rig.only("west")
    told = await rig.bravo.send(confirmed=True)
    rig.only("east")
    known = await rig.bravo.send(confirmed=True)
    rig.expect(join, FIRST, first="west")
    rig.expect(stranger, STRANGE, strange="east")
    for uplink, station in ((first, "west"), (told, "west"), (known, "east")):
        rig.expect(uplink, OWNED, owned=station)
        rig.expect_reply(uplink)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_forged_frame_keeps_no_server_from_looking_for_its_device(rig, strategy, confirmed):
    """Nobody knew of the DevAddr when it was forged; a moment later somebody does."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    await rig.restart_store(empty=True)
    forged = await rig.forge(rig.bravo, by="east")
    told = await rig.bravo.send(confirmed=True)
    rig.only("east")
    known = await rig.bravo.send(confirmed=confirmed)
    rig.expect(join, FIRST, first="west")
    rig.expect(forged, STRANGE, strange="east")
    for uplink, station in ((first, "west"), (told, "west"), (known, "east")):
        rig.expect(uplink, OWNED, owned=station)
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "cut")
async def test_who_was_a_stranger_without_the_store_is_none_with_it(rig, strategy, confirmed):
    """A server that could not ask does so as soon as the store is back."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    rig.only("east")
    rig.cut_store("lns-b")
    stranger = await rig.bravo.send()
    await rig.restore_store("lns-b")
    known = await rig.bravo.send(confirmed=confirmed)
    rig.expect(join, FIRST, first="west")
    rig.expect(stranger, STRANGE, strange="east")
    rig.expect(known, OWNED, owned="east")
    rig.expect_reply(known)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
async def test_no_number_of_strangers_without_the_store_is_one_too_many_with_it(rig):
    """Whoever could not be looked up is over: the next one is, however many there were before."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    rig.cut_store("lns-b")
    strangers = [await rig.forge(rig.bravo, by="east") for _ in range(70)]
    await rig.restore_store("lns-b")
    known = await hear(rig, rig.bravo, "east", confirmed=True)
    rig.expect(join, FIRST, first="west")
    for stranger in strangers:
        rig.expect(stranger, STRANGE, strange="east")
    rig.expect(known, OWNED, owned="east")


@pytest.mark.requires("own store", "virtual time")
@pytest.mark.fault("store", "restart")
async def test_a_dev_nonce_that_the_store_forgot_is_used_for_who_took_it(rig, strategy):
    """The server that accepted the join remembers it itself, as long as it lives."""
    rig.put_on("lns-b", "north")
    rig.only("west")
    join = await rig.bravo.join()
    await rig.restart_store(empty=True)
    await rig.replay(join, by="west", after=seconds(61))
    after = await rig.bravo.send(confirmed=True)
    rig.expect(join, FIRST + USED, first="west", used="west")
    rig.expect(after, OWNED, owned="west")
    rig.expect_reply(after)


@pytest.mark.requires("own store", "virtual time")
@pytest.mark.fault("store", "restart")
async def test_a_life_that_the_store_forgot_goes_on(rig, strategy, confirmed):
    """The servers know between them which life a relaxed device is in, and tell the store again."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    device = rig.provision("relaxed", f_cnt=500)
    before = await device.send(b"old", confirmed=confirmed)
    await device.restart(memory=False)
    new = await device.send(b"new", confirmed=confirmed)
    await rig.restart_store(empty=True)
    after = [await device.send(b"new", confirmed=confirmed) for _ in range(2)]
    for uplink in (before, new, *after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)
    for uplink in (new, *after):
        key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1-{uplink.f_cnt}"
        rig.expect_upstream(uplink, through="west", removeDuplicatesKey=key)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_copies_of_a_stranger_wait_for_one_answer_of_the_store(rig, strategy):
    """A device that joined elsewhere is looked up once; both copies are of a known device then."""
    rig.put_on("lns-b", "east")
    device, _ = rig.provision("new", activation="otaa", strategy=strategy), rig.north
    rig.only("east")
    join = await device.join()
    frame = await rig.craft(device)
    rig.slow_store(milliseconds(60))
    for station in ("west", "north"):
        await rig.say(rig.told(frame, by=station), by=station)
    await rig.wait(seconds(2))
    await rig.restore_store()
    rig.expect(join, FIRST, first="east")
    rig.expect(frame, FIRST + COPY, first="west", copy="north")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_strangers_are_looked_up_side_by_side(rig):
    """Who joined elsewhere does not wait until another one has been found; one is of class B."""
    rig.put_on("lns-b", "east")
    devices = [rig.provision(f"new-{number}", activation="otaa") for number in range(4)]
    rig.only("east")
    joins = [await device.join() for device in devices]
    frames = [await rig.craft(device, class_b=device is devices[0]) for device in devices]
    rig.slow_store(milliseconds(60))
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(2))
    await rig.restore_store()
    for join in joins:
        rig.expect(join, FIRST, first="east")
    for frame in frames:
        rig.expect(frame, OWNED, owned="west")


@pytest.mark.requires("own store", "virtual time")
@pytest.mark.fault("store", "restart")
async def test_a_frame_that_fits_nobody_is_looked_up_again_after_five_seconds(rig):
    """And no sooner, though the store knows its device by then."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    first = await hear(rig, rig.bravo, "west")
    told, stranger = [await rig.craft(rig.bravo) for _ in range(2)]
    await rig.restart_store(empty=True)
    for frame, station, after in (
        (stranger, "east", milliseconds(1_000)),
        (told, "west", milliseconds(3_800)),
        (stranger, "east", milliseconds(300)),
        (stranger, "east", milliseconds(3_000)),
    ):
        await tell(rig, frame, station)
        await rig.wait(after)
    rig.expect(join, FIRST, first="west")
    rig.expect(stranger, STRANGE * 2 + OWNED, strange="east", owned="east")
    for frame in (first, told):
        rig.expect(frame, OWNED, owned="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_a_status_that_nobody_can_verify_says_so(rig):
    """It goes with the frame that it came in, of which another server may have told as well."""
    rig.put_on("lns-b", "east")
    rig.only("east")
    before = await rig.alpha.send()
    rig.slow_store(seconds(15))
    during = await rig.craft(rig.alpha, f_opts=b"\x06\xff\x01")
    await rig.say(rig.told(during, by="east"), by="east")
    await rig.wait(seconds(20))
    await rig.restore_store()
    rig.expect(before, OWNED, owned="east")
    rig.expect(during, UNVERIFIED, unverified="east")
    rig.expect_upstream(during, through="east", unverified=True)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "partition")
@pytest.mark.parametrize("relaxed", [False, True], ids=["strict", "relaxed"])
async def test_what_the_other_server_has_told_of_is_heard_for_the_first_time(rig, relaxed):
    """Without the store it is forwarded as the frame that it is, and the counter begins nothing."""
    rig.put_on("lns-b", "east")
    device = rig.provision("alone", f_cnt=10, relaxed_f_cnt=relaxed)
    before = await hear(rig, device, "west", "east")
    late, newest = await rig.craft(device), await rig.craft(device)
    await tell(rig, newest, "west")
    await rig.wait(seconds(3))
    await tell(rig, late, "east")
    await rig.wait(seconds(3))
    rig.cut_store("lns-b")
    await tell(rig, newest, "east")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-b")
    after = await hear(rig, device, "west", "east")
    rig.expect(late, LOST, lost="east")
    rig.expect(newest, OWNED + UNVERIFIED, owned="west", unverified="east")
    for frame in (before, after):
        rig.expect(frame, OWNED + LOST, owned="west", lost="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
@pytest.mark.parametrize("later", [milliseconds(50), seconds(1)])
async def test_a_copy_of_what_was_refused_as_too_far_waits_for_its_first_one_alone(rig, later):
    """That was looked up, and the copy is as far: what level 1 has seen, nobody asks about."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    far = await rig.craft(device, f_cnt=20_000)
    rig.slow_store(milliseconds(150), "lns-a")
    await tell(rig, far, "west")
    await rig.wait(later)
    await tell(rig, far, "east")
    await rig.wait(seconds(1))
    await rig.restore_store("lns-a")
    rig.expect(far, OLD + OLD_COPY, old="west", copy="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_a_copy_that_waits_for_a_frame_of_a_session_that_is_over_is_of_none(rig, strategy):
    """The store is asked about the first one: another server has seen the end of the session."""
    rig.put_on("lns-b", "north", "south")
    rig.only("north")
    joins = [await rig.bravo.join()]
    known = await rig.bravo.send()
    unheard = await rig.craft(rig.bravo)
    rig.only("west")
    joins.append(await rig.bravo.join())
    new = await rig.bravo.send()
    rig.slow_store(milliseconds(150), "lns-b")
    await tell(rig, unheard, "north", "south")
    await rig.wait(seconds(2))
    await rig.restore_store("lns-b")
    for frames, station in (((joins[0], known), "north"), ((joins[1], new), "west")):
        for frame in frames:
            rig.expect(frame, FIRST, first=station)
    rig.expect(unheard, STRANGE * 2, strange=("north", "south"))


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "partition")
async def test_a_session_that_is_over_takes_none_with_it_that_waits_for_its_first_frame(rig):
    """Another server has heard that; the one that opened it knows it without the store."""
    rig.put_on("lns-b", "north")
    rig.only("north")
    joins = [await rig.bravo.join()]
    known = await rig.bravo.send()
    unheard = await rig.craft(rig.bravo)
    joins.append(await rig.bravo.join())
    rig.only("west")
    new = await rig.bravo.send()
    await tell(rig, unheard, "north")
    await rig.wait(seconds(1))
    rig.cut_store("lns-b")
    rig.only("north")
    alone = await rig.bravo.send()
    for frame in (*joins, known):
        rig.expect(frame, FIRST, first="north")
    rig.expect(new, FIRST, first="west")
    rig.expect(unheard, STRANGE, strange="north")
    rig.expect(alone, UNVERIFIED, unverified="north")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_a_frame_is_old_that_a_newer_one_overtakes_on_its_way_to_the_store(rig, strategy):
    """Both are older than what another server has told of: only their own order counts here."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    known = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (10, 20)]
    lost = await hear(rig, device, "east", f_cnt=11)
    newer, old = [await rig.craft(device, f_cnt=f_cnt) for f_cnt in (15, 14)]
    rig.slow_store(milliseconds(150), "lns-b")
    await tell(rig, newer, "east")
    await rig.wait(milliseconds(50))
    await tell(rig, old, "east")
    await rig.wait(seconds(2))
    await rig.restore_store("lns-b")
    for frame in known:
        rig.expect(frame, OWNED, owned="west")
    for frame in (lost, newer):
        rig.expect(frame, LOST, lost="east")
    rig.expect(old, OLD, old="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_a_frame_that_the_store_answers_late_makes_no_older_one_new(rig, strategy):
    """What was heard meanwhile is newer, and what is between the two is old at this server."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    known = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (10, 20)]
    late, newer, old = [await rig.craft(device, f_cnt=f_cnt) for f_cnt in (11, 15, 13)]
    rig.slow_store(milliseconds(150), "lns-b")
    await tell(rig, late, "east")
    await rig.wait(milliseconds(50))
    await rig.restore_store("lns-b")
    for frame in (newer, old):
        await tell(rig, frame, "east")
        await rig.wait(seconds(2))
    for frame in known:
        rig.expect(frame, OWNED, owned="west")
    for frame in (late, newer):
        rig.expect(frame, LOST, lost="east")
    rig.expect(old, OLD, old="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_what_a_server_was_granted_too_late_is_its_own_for_the_others(rig, strategy):
    """It has delivered the frame without knowing; a stranger's makes the other one read of it."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west", "north")
    rig.slow_store(milliseconds(400), "lns-a")
    frame = await hear(rig, device, "west")
    await rig.restore_store("lns-a")
    await rig.forge(device, by="north")
    await tell(rig, frame, "north")
    rig.expect(before, OWNED + LOST, owned="west", lost="north")
    rig.expect(frame, UNVERIFIED + LOST, unverified="west", lost="north")


@pytest.mark.fault("store", "slow")
@pytest.mark.requires("slow application", "virtual time")
async def test_what_was_lost_is_taken_back_before_it_is_given_back(rig):
    """A newer frame comes while the store is told, and is lost as well: both are new again."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    frames = [await rig.craft(device) for _ in range(2)]
    rig.slow_store(milliseconds(60), "lns-a")
    rig.refuse_upstream(2)
    await tell(rig, frames[0], "west")
    await rig.wait(milliseconds(90))
    await tell(rig, frames[1], "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(before, OWNED, owned="west")
    for frame in frames:
        await tell(rig, frame, "west")
        await rig.wait(seconds(1))
        rig.expect(frame, LOST_UPSTREAM + OWNED, back="west", owned="west")
