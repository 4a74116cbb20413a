"""What level 1 remembers: as many frames as it has room for, for as long as it is configured.

ADR 007, part 1, and `[dedup]`. Policy in memory, on exact times: no wire has a part in it.
"""

import pytest

from bench.clock import microseconds, milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, COPY, EXPIRED, FIRST, LOST, OWNED, TOO_LATE, UNVERIFIED

pytestmark = pytest.mark.requires("virtual time")

JOIN_AGAIN = Table("""
    strategy kind | again
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")

THEIRS = Table("""
    strategy kind        | theirs
    *        unconfirmed | - dropped(BelongsToAnotherServer) NotAsked
""")

TOO_OLD = Table("""
    strategy kind        | old
    *        *           | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")


async def say_all(rig, frames, *, by):
    """Let a station tell frames one after another, with a moment for each."""
    for frame in frames:
        await rig.say(rig.told(frame, by=by), by=by)
        await rig.wait(seconds(2))


# --- a small one --------------------------------------------------------------------------------


async def test_a_full_cache_forgets_the_frame_that_was_silent_longest(rig, strategy, confirmed):
    """Each copy makes its frame the youngest; what left too early is new again, and is told.

    There is room for three frames: a, b, c; a is heard again; d takes the place of b, and b, told
    once more, that of c.
    """
    rig.dedup(entries_max=3)
    devices = [rig.provision(name, f_cnt=10) for name in "abcd"]
    a, b, c, d = [await rig.craft(device, confirmed=confirmed) for device in devices]
    await say_all(rig, (a, b, c), by="west")
    await say_all(rig, (a,), by="east")
    await say_all(rig, (d,), by="west")
    await say_all(rig, (a, d, b), by="east")
    rig.expect(a, FIRST + COPY * 2, first="west", copy="east")
    rig.expect(b, FIRST + EXPIRED, first="west", again="east")
    rig.expect(c, FIRST, first="west")
    rig.expect(d, FIRST + COPY, first="west", copy="east")
    rig.expect_evictions(2)


async def test_joins_and_frames_share_the_room(rig, strategy):
    """A join that was forgotten too early is no duplicate, and its nonce is used all the same."""
    rig.dedup(entries_max=2)
    rig.only("west")
    join = await rig.bravo.join()
    uplinks = [await device.send() for device in (rig.alpha, rig.charlie)]
    await rig.replay(join, by="east", after=seconds(20))
    rig.expect(join, FIRST + JOIN_AGAIN, first="west", again="east")
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
    rig.expect_evictions(2)


async def test_a_forged_frame_takes_no_room(rig, strategy, confirmed):
    """What nobody can prove is not remembered, however much of it there is."""
    rig.dedup(entries_max=2)
    rig.only("west")
    ours = [await rig.craft(device, confirmed=confirmed) for device in (rig.alpha, rig.charlie)]
    await say_all(rig, ours, by="west")
    for _ in range(4):
        await rig.forge(rig.alpha, by="west")
        await rig.forge_join(rig.bravo, by="west")
    await say_all(rig, ours, by="east")
    for frame in ours:
        rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect_evictions(0)


async def test_a_frame_for_another_server_takes_no_room(rig):
    """Whose a device is stands in its record: nothing has to be remembered of what it sends."""
    rig.dedup(entries_max=2)
    rig.put_on("lns-b", "north")
    pinned = rig.provision("pinned", f_cnt=10, server="lns-b")
    ours = [await rig.craft(device, confirmed=True) for device in (rig.alpha, rig.charlie)]
    await say_all(rig, ours, by="west")
    theirs = [await rig.craft(pinned) for _ in range(3)]
    await say_all(rig, theirs, by="west")
    await say_all(rig, ours, by="east")
    for frame in ours:
        rig.expect(frame, OWNED + COPY, owned="west", copy="east")
    for frame in theirs:
        rig.expect(frame, THEIRS, theirs="west")
    rig.expect_evictions(0)


@pytest.mark.fault("store", "cut")
async def test_what_left_while_it_was_claimed_tells_nothing_of_another_frame(rig):
    """There is room for one: nobody asks any more in which life the frame lies that was claimed."""
    rig.put_on("lns-b", "north")
    rig.dedup(entries_max=1)
    relaxed = rig.provision("relaxed", f_cnt=500)
    strict = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    newest = await rig.craft(strict, confirmed=True)
    lives = [await rig.craft(relaxed, f_cnt=f_cnt) for f_cnt in (500, 0, 1)]
    await say_all(rig, (*lives[:2], newest), by="west")
    rig.slow_store(milliseconds(150), "lns-a")
    for frame, by in ((lives[2], "west"), (newest, "east")):
        await rig.say(rig.told(frame, by=by), by=by)
    await rig.wait(seconds(3))
    rig.cut_store("lns-a")
    other = await rig.craft(rig.charlie)
    await say_all(rig, (other, newest), by="west")
    await say_all(rig, (newest,), by="east")
    await rig.restore_store("lns-a")
    for frame in lives:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(other, UNVERIFIED, unverified="west")
    due = OWNED + EXPIRED + UNVERIFIED + COPY
    rig.expect(newest, due, owned="west", again="east", unverified="west", copy="east")
    key = f"{strict.provisioned.dev_eui}-{strict.provisioned.dev_addr}-{newest.f_cnt}"
    rig.expect_upstream(newest, through="east", removeDuplicatesKey=key)
    rig.expect_evictions(6)


async def test_claims_have_room_for_so_many_sessions_and_twice_as_many_frames(rig):
    """What leaves for others is what was silent longest, and nothing as long as there is room.

    There is room for two. A copy of an older frame comes while three are remembered; those of the
    newest ones when a third session has come, and all frames are forgotten.
    """
    rig.put_on("lns-b", "east")
    rig.put_on("lns-c", "north")
    rig.dedup(sessions_max=2)
    devices = [rig.provision(name, f_cnt=10, relaxed_f_cnt=False) for name in "abc"]
    older = await rig.craft(devices[0])
    newest, silent, last = [await rig.craft(device) for device in devices]
    await say_all(rig, (older, silent, newest), by="west")
    await say_all(rig, (older,), by="east")
    await say_all(rig, (last,), by="west")
    await rig.wait(seconds(60))
    await say_all(rig, (newest, last), by="north")
    rig.expect(older, OWNED + LOST, owned="west", lost="east")
    rig.expect(silent, OWNED, owned="west")
    for frame in (newest, last):
        rig.expect(frame, OWNED + LOST, owned="west", lost="north")


# --- as long as configured ------------------------------------------------------------------------


@pytest.mark.parametrize("retention_us", [seconds(1), seconds(10), minutes(10)])
async def test_frames_are_remembered_for_as_long_as_configured(
    rig, strategy, confirmed, retention_us
):
    """A microsecond before the end it is a copy, and renewed; at the end of that it is new."""
    rig.dedup(retention=retention_us)
    rig.only("west")
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.replay(uplink, by="east", after=retention_us - microseconds(1))
    await rig.replay(uplink, by="east", after=retention_us)
    rig.expect(uplink, FIRST + COPY + EXPIRED, first="west", copy="east", again="east")
    rig.expect_evictions(0)


async def test_two_servers_remember_for_as_long_as_configured(rig, strategy, confirmed):
    """Whose frame it was outlives what each of them has heard of it."""
    rig.put_on("lns-b", "east")
    rig.dedup(retention=seconds(10))
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    await say_all(rig, (uplink,), by="west")
    await say_all(rig, (uplink,), by="east")
    await rig.wait(seconds(4))
    await say_all(rig, (uplink,), by="west")
    rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
    rig.expect(uplink, AGAIN, again="west")


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("early_us", [1, 0])
async def test_two_servers_forget_a_first_message_when_that_is_over(rig, early_us):
    """A microsecond before it is a copy of theirs; then its device may have begun again."""
    rig.put_on("lns-b", "east")
    rig.dedup(retention=seconds(10))
    device = rig.provision("relaxed", f_cnt=500)
    first = await rig.craft(device, f_cnt=0)
    await rig.say(rig.told(first, by="west"), by="west")
    await rig.wait(seconds(10) - microseconds(early_us))
    await rig.say(rig.told(first, by="east"), by="east")
    await rig.wait(seconds(3))
    if early_us:
        rig.expect(first, OWNED + LOST, owned="west", lost="east")
    else:
        rig.expect(first, OWNED * 2, owned=("west", "east"))


# --- many frames, and a quiet minute --------------------------------------------------------------


async def flood(rig, devices, *, by):
    """One frame of each device, all within a second."""
    frames = [await rig.craft(device) for device in devices]
    for frame in frames:
        await rig.say(rig.told(frame, by=by), by=by)
        await rig.wait(microseconds(5_000))
    return frames


async def test_after_a_quiet_minute_there_is_room_for_as_many_again(rig):
    """All of a full cache is due at once; what comes next finds room, and is remembered."""
    devices = [rig.provision(f"device-{n}", f_cnt=10) for n in range(130)]
    rig.dedup(entries_max=len(devices))
    before = await flood(rig, devices, by="west")
    await rig.wait(seconds(60))
    after = await flood(rig, devices, by="west")
    await say_all(rig, (after[0], after[-1], before[0]), by="east")
    rig.expect(before[0], FIRST + TOO_OLD, first="west", old="east")
    for frame in before[1:]:
        rig.expect(frame, FIRST, first="west")
    for frame in after[1:-1]:
        rig.expect(frame, FIRST, first="west")
    for frame in (after[0], after[-1]):
        rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect_evictions(1)


async def test_of_a_full_cache_only_what_was_silent_for_a_minute_leaves(rig):
    """Half of it was heard again half a minute later: that half stays, with its first station."""
    devices = [rig.provision(f"device-{n}", f_cnt=10) for n in range(140)]
    rig.dedup(entries_max=len(devices))
    frames = await flood(rig, devices, by="west")
    await rig.wait(seconds(30))
    renewed, silent = frames[::2], frames[1::2]
    for frame in renewed:
        await rig.say(rig.told(frame, by="east"), by="east")
    await rig.wait(seconds(31))
    more = await flood(rig, devices[1::2], by="west")
    for frame in renewed:
        await rig.say(rig.told(frame, by="east"), by="east")
    for frame in renewed:
        rig.expect(frame, FIRST + COPY * 2, first="west", copy="east")
    for frame in (*silent, *more):
        rig.expect(frame, FIRST, first="west")
    rig.expect_evictions(0)


@pytest.mark.requires("slow application")
async def test_a_copy_that_waited_has_the_name_of_its_frame(rig, strategy):
    """The application takes longer than frames are remembered; a newer one has come meanwhile."""
    rig.dedup(retention=seconds(1))
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    await rig.start()
    rig.delay_upstream(seconds(4))
    frame = await rig.craft(device, confirmed=True)
    await tell(rig, frame, "west", "east")
    await rig.wait(milliseconds(500))
    newer = await hear(rig, device, "west")
    await rig.wait(seconds(5))
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-10"
    rig.expect(frame, TOO_LATE + COPY, first="west", copy="east")
    rig.expect(newer, FIRST, first="west")
    if strategy != "Drop":
        rig.expect_upstream(frame, through="east", removeDuplicatesKey=key)
