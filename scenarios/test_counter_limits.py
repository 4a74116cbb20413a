"""Counters and lives at their edges: roll-overs, the last one, a life that goes on after all."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    COPY,
    EXPIRED,
    FIRST,
    FORGED,
    LOST,
    OVER,
    OWNED,
    UNVERIFIED,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

LATE = Table("""
    strategy kind        | late
    Drop     *           | Duplicate dropped(Duplicate) NotAsked
    Mark     *           | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
    None     *           | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")
OLD = Table("""
    strategy kind        | old
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
UNTAKEN = Table("""
    strategy kind        | untaken
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked
""")
ASKED = Table("""
    strategy kind        | asked
    *        unconfirmed | NonDuplicate forwarded RX1
""")
# One answer too many, where servers share the device.
TOO_MANY = Table("""
    strategy kind        | over
    *        confirmed   | DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed Owner
""")
TOO_FAR_AGAIN = Table("""
    strategy kind        | far
    *        confirmed   | DuplicateDueToResubmission dropped(InvalidFrameCounter) Suppressed
""")
THEIRS = Table("""
    strategy kind        | theirs
    *        confirmed   | NonDuplicate dropped(DuplicateAtOtherServer) Suppressed NotOwner
    *        unconfirmed | NonDuplicate dropped(DuplicateAtOtherServer) NotAsked NotOwner
""")
# The downlink counters of a session are used up.
MUTE = Table("""
    strategy kind        | mute
    *        *           | NonDuplicate forwarded Suppressed
""")
MUTE_OWNED = Table("""
    strategy kind        | mute
    *        confirmed   | NonDuplicate forwarded Suppressed Owner
""")
LAST = (1 << 32) - 1


async def say(rig, frame, *, by="west", wait=3_000_000):
    """Let a station tell a frame, and wait."""
    await rig.say(rig.told(frame, by=by), by=by)
    await rig.wait(wait)


@pytest.mark.parametrize("span", [1, 2, 3, 0xFFFF], ids=lambda span: f"{span:X}FFFF")
async def test_a_frame_of_before_the_roll_over_is_old_and_not_forged(rig, span):
    """Its sixteen bits stand for the span before; the next ones for the span that begins.

    Whoever forges one is told from both, though nothing comes after the last span.
    """
    last = span << 16 | 0xFFFF
    device = rig.provision("veteran", f_cnt=last - 1)
    counters = range(last - 1, min(last + 2, LAST) + 1)
    old, *newer = [await rig.craft(device, f_cnt=f_cnt) for f_cnt in counters]
    for frame in newer:
        await say(rig, frame)
        rig.expect(frame, FIRST, first="west")
        rig.expect_upstream(frame, through="west", fCnt=frame.f_cnt)
    await say(rig, old)
    forged = await rig.forge(device, by="west")
    rig.expect(old, OLD, old="west")
    rig.expect(forged, FORGED, forged="west")


# By how many spans of sixteen bits a counter is beyond the newest one, which is in the fifth span.
SPANS = {-4: "old", -3: "forged", -2: "forged", -1: "old", 1: "old", 2: "forged"}


@pytest.mark.parametrize("steps", [-1, 0, 1])
async def test_no_counter_is_looked_for_beyond_two_spans(rig, confirmed, steps):
    """The span before, this one, the next, and the first: what is of another is as if forged."""
    newest = 0x40010
    device = rig.provision("veteran", f_cnt=newest, relaxed_f_cnt=False)
    newer = await hear(rig, device, "west", f_cnt=newest)
    for span, word in SPANS.items():
        f_cnt = newest + (span << 16) + steps
        frame = await hear(rig, device, "west", f_cnt=f_cnt, confirmed=confirmed)
        if word == "old":
            rig.expect(frame, OLD, old="west")
        else:
            rig.expect(frame, FORGED, forged="west")
    rig.expect(newer, FIRST, first="west")


async def test_a_device_that_counts_with_sixteen_bits_has_no_second_span_in_any_life(rig):
    """What shows the same sixteen bits and stands for more is forged, however near to a life."""
    device = rig.provision("short", f_cnt=0xFFF0, f_cnt_bits=16)
    frames = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0xFFF0, 0)]
    for f_cnt in (0x10001, 0x1000A):
        beyond = await hear(rig, device, "west", f_cnt=f_cnt)
        rig.expect(beyond, FORGED, forged="west")
    frames.append(await hear(rig, device, "west", f_cnt=0xFFF1))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")


async def test_a_late_copy_of_before_the_roll_over_is_a_copy(rig, strategy):
    """Level 1 knows it; its counter is older than the newest one."""
    device = rig.provision("veteran", f_cnt=0x1FFFF, strategy=strategy)
    before, after = [await rig.craft(device) for _ in range(2)]
    for frame in (before, after):
        await say(rig, frame)
    await say(rig, before, by="east")
    rig.expect(before, FIRST + LATE, first="west", late="east")
    rig.expect(after, FIRST, first="west")


async def test_the_last_counters_of_downlinks_are_used(rig):
    """32 bits, each of them once; a device hears each as newer than the one before."""
    device = rig.provision("veteran", f_cnt=10, f_cnt_down=LAST - 1)
    rig.only("west")
    for f_cnt_down in (0xFFFE, 0xFFFF):
        uplink = await device.send(confirmed=True)
        rig.expect(uplink, FIRST, first="west")
        rig.expect_answer(uplink, f_cnt=f_cnt_down, ack=True)
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize(
    "where", ["in a file", "beside", pytest.param("in Redis", marks=pytest.mark.requires("redis"))]
)
async def test_a_session_whose_downlink_counters_are_used_up_is_mute_and_no_more(rig, where):
    """What it says goes up, and whoever begins anew knows the session and all others yet."""
    match where:
        case "in a file":
            rig.keep_on_disk()
        case "in Redis":
            rig.keep_in_redis()
    if where != "in a file":
        rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10, f_cnt_down=LAST, device_class="C")
    rig.only("west")
    last, *mute = [await device.send(confirmed=True) for _ in range(4)]
    await rig.queue_downlink(device, payload=b"on", port=8)
    mute.append(await device.send())
    await rig.restart_lns()
    mute.append(await device.send(confirmed=True))
    other = await rig.alpha.send(confirmed=True)
    rig.expect_answer(last, f_cnt=0xFFFF, ack=True)
    for uplink in (last, other):
        rig.expect(uplink, FIRST, first="west")
    for uplink in mute:
        rig.expect(uplink, MUTE, mute="west")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_no_more_answers_can_have_been_missed_than_a_session_has_left(rig):
    """A store that forgot is told of some; then none is left, and whose a frame is it says yet."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10, f_cnt_down=LAST - 1)
    before = await hear(rig, device, "west", confirmed=True)
    await rig.restart_store(empty=True)
    mute = [await hear(rig, device, "west", f_cnt=n, confirmed=True) for n in (20, 21)]
    rig.expect(before, OWNED, owned="west")
    for uplink in mute:
        rig.expect(uplink, MUTE_OWNED, mute="west")


async def test_a_copy_of_the_life_before_keeps_its_name(rig, strategy):
    """The device has begun again meanwhile: the copies that come yet are of the frame of before."""
    device, _ = rig.provision("relaxed", f_cnt=5, strategy=strategy), rig.north
    rig.only("west")
    old = await rig.craft(device)
    await say(rig, old)
    await device.restart(memory=False)
    new = await device.send()
    for station in ("east", "north"):
        await say(rig, old, by=station)
    rig.expect(old, FIRST + COPY * 2, first="west", copy=("east", "north"))
    rig.expect(new, FIRST, first="west")


async def test_a_third_message_is_no_first_one_at_any_server(rig, confirmed):
    """FCnt 0 and 1 may be a restart; 2 is as old as it looks, for a server that never heard it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", strategy="Drop")
    rig.only("west")
    _, two, three = [await device.send(confirmed=confirmed) for _ in range(3)]
    await rig.wait(seconds(70))
    await say(rig, two, by="east")
    after = await device.send(confirmed=confirmed)
    rig.expect(two, OWNED + THEIRS, owned="west", theirs="east")
    for uplink in (three, after):
        rig.expect(uplink, OWNED, owned="west")
        rig.expect_reply(uplink)


async def test_a_life_that_goes_on_knows_its_newest_frame(rig, confirmed):
    """After a replayed first frame the device goes on; what it sent then is no news later."""
    device = rig.provision("relaxed", f_cnt=500)
    one = await rig.craft(device, f_cnt=1, confirmed=confirmed)
    before, after = [await rig.craft(device, confirmed=confirmed) for _ in range(2)]
    for frame in (before, one, after):
        await say(rig, frame)
        rig.expect(frame, FIRST, first="west")
    await rig.wait(seconds(61))
    await say(rig, after)
    rig.expect(after, EXPIRED, again="west")


async def test_a_life_after_a_life_that_ended_has_a_number_of_its_own(rig):
    """A replay began one, the device went back; when it restarts really, that is a third one."""
    device = rig.provision("relaxed", f_cnt=500)
    rig.only("west")
    replayed = await rig.craft(device, f_cnt=0, payload=b"recorded")
    before, after = [await rig.craft(device) for _ in range(2)]
    for frame in (before, replayed, after):
        await say(rig, frame)
        rig.expect(frame, FIRST, first="west")
    await device.restart(memory=False)
    new = await device.send(b"begun again")
    later = await device.send()
    for frame, life in ((before, ""), (replayed, ".1"), (after, ""), (new, ".2"), (later, ".2")):
        key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}{life}-{frame.f_cnt}"
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=key)
    for frame in (new, later):
        rig.expect(frame, FIRST, first="west")


async def test_a_new_life_is_asked_for_repetitions_again(rig):
    """A device that restarts sends once, until it is told otherwise."""
    device = rig.provision("delta", nb_trans=2)
    rig.only("west")
    for life in (b"one", b"two"):
        asked, granted = [await device.send(life) for _ in range(2)]
        rig.expect(asked, ASKED, asked="west")
        rig.expect(granted, FIRST + AGAIN, first="west", again="west")
        await device.restart(memory=False)


@pytest.mark.requires("slow application")
async def test_a_life_that_was_not_delivered_has_not_begun(rig):
    """The device goes on: it was asked for repetitions already, and its answers are counted on."""
    device = rig.provision("delta", f_cnt=20, nb_trans=2, adr=True)
    rig.only("west")
    replayed = await rig.craft(device, f_cnt=1, payload=b"recorded")
    asked = await device.send()
    granted = await device.send()
    rig.west.suppress_downlinks(9)
    counted = await rig.craft(device, confirmed=True, adr=True)
    for _ in range(3):
        await say(rig, counted)
    rig.refuse_upstream()
    await say(rig, replayed)
    for _ in range(2):
        await say(rig, counted)
    after = await rig.craft(device, adr=True)
    await say(rig, after)
    rig.expect(asked, ASKED, asked="west")
    rig.expect(granted, FIRST + AGAIN, first="west", again="west")
    rig.expect(replayed, UNTAKEN, untaken="west")
    rig.expect(counted, FIRST + AGAIN * 3 + OVER, first="west", again="west", over="west")
    rig.expect(after, FIRST, first="west")


@pytest.mark.requires("slow application")
@pytest.mark.parametrize("first", [0, 1])
async def test_a_first_message_that_nobody_has_begins_no_life(rig, first):
    """Nothing was sent up in it: the next one that begins has its number, and another name."""
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.refuse_upstream()
    lost = await hear(rig, device, "west", f_cnt=0)
    begun = [await hear(rig, device, "west", f_cnt=n, payload=b"new") for n in (first, 2)]
    rig.expect(lost, UNTAKEN, untaken="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}"
    for frame, life in ((before, ""), (begun[0], ".1"), (begun[1], ".1")):
        rig.expect(frame, FIRST, first="west")
        own = "" if frame.f_cnt else f".{frame.phy[-4:].hex().upper()}"
        name = f"{key}{life}-{frame.f_cnt}{own}"
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=name)


@pytest.mark.requires("slow application")
@pytest.mark.parametrize("lost", [8, 9])
async def test_eight_frames_that_nobody_has_keep_their_names(rig, lost):
    """A copy of one may be on its way yet: other bytes of its counter have another name."""
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    rig.refuse_upstream(lost)
    for _ in range(lost):
        frame = await hear(rig, device, "west")
        rig.expect(frame, UNTAKEN, untaken="west")
    others = [await hear(rig, device, "west", f_cnt=n, payload=b"other") for n in (11, 12)]
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}"
    for frame in (before, *others):
        rig.expect(frame, FIRST, first="west")
    for number, frame in enumerate(others):
        mic = frame.phy[-4:].hex().upper()
        own = "" if (lost, number) == (9, 0) else f".{mic}"
        name = f"{key}-{frame.f_cnt}{own}"
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=name)


@pytest.mark.requires("slow application")
async def test_a_frame_that_nobody_has_keeps_its_name_whatever_is_lost_after_it(rig):
    """Other bytes of its counter had another name, and take it none when nobody has them either."""
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    rig.refuse_upstream(2)
    frame, other = [
        await hear(rig, device, "west", f_cnt=11, payload=text) for text in (b"1", b"2")
    ]
    await say(rig, frame)
    rig.expect(before, FIRST, first="west")
    rig.expect(frame, UNTAKEN + FIRST, untaken="west", first="west")
    rig.expect(other, UNTAKEN, untaken="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-11"
    rig.expect_upstream(frame, through="west", removeDuplicatesKey=key)


@pytest.mark.requires("slow application")
async def test_a_frame_that_nobody_has_keeps_its_name_in_its_own_life_only(rig):
    """Other bytes of that counter have another name in that life, and their own in the next one."""
    device = rig.provision("relaxed")
    rig.refuse_upstream()
    lost, farther = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (3, 5)]
    begun = [await hear(rig, device, "west", f_cnt=f_cnt, payload=b"new") for f_cnt in (0, 3)]
    rig.expect(lost, UNTAKEN, untaken="west")
    rig.expect(farther, FIRST, first="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1"
    for frame in begun:
        rig.expect(frame, FIRST, first="west")
        name = f"{key}-{frame.f_cnt}"
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=name)


@pytest.mark.parametrize("asking", [0, 1], ids=["at the end", "before another one"])
async def test_an_answer_too_many_to_an_old_first_message_costs_nothing(rig, strategy, asking):
    """Servers share the device: the store is asked whose it is, but for no downlink counter.

    Nor does the store keep it as one that was given.
    """
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=0, strategy=strategy)
    first, newer = [await hear(rig, device, "west", confirmed=True) for _ in range(2)]
    for _ in range(4):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    after = [await hear(rig, device, "west", confirmed=True) for _ in range(asking)]
    for frame in (newer, *after):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(first, OWNED + AGAIN * 3 + TOO_MANY, owned="west", again="west", over="west")
    for frame in after:
        rig.expect_answer(frame, f_cnt=5)


@pytest.mark.fault("store", "partition")
async def test_what_is_old_here_is_not_new_for_a_store_that_is_far_behind(rig, confirmed):
    """This server went on alone: for the others it would be too far ahead."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west")
    rig.cut_store("lns-a")
    alone = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (16_000, 32_000)]
    await rig.restore_store("lns-a")
    old = await hear(rig, device, "west", f_cnt=31_000, confirmed=confirmed)
    newer = await hear(rig, device, "west", f_cnt=32_001, confirmed=confirmed)
    for frame in (before, newer):
        rig.expect(frame, OWNED, owned="west")
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect(old, OLD, old="west")


@pytest.mark.fault("store", "partition")
async def test_what_is_too_far_for_the_others_costs_no_answer(rig, strategy):
    """It is the newest frame here, sent again: each time it is too far, and never one too many."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.cut_store("lns-a")
    alone = [
        await hear(rig, device, "west", f_cnt=f_cnt, confirmed=True) for f_cnt in (16_000, 32_000)
    ]
    await rig.restore_store("lns-a")
    for _ in range(5):
        await tell(rig, alone[1], "west")
        await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(alone[0], UNVERIFIED, unverified="west")
    rig.expect(alone[1], UNVERIFIED + TOO_FAR_AGAIN * 5, unverified="west", far="west")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "partition")
async def test_what_is_too_far_for_the_others_is_whose_it_was_yet(rig, strategy):
    """The store says that the frame before is another server's; it forgets that, and is told."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "east", "west")
    rig.cut_store("lns-a")
    alone = [
        await hear(rig, device, "west", f_cnt=f_cnt, confirmed=True) for f_cnt in (16_000, 32_000)
    ]
    await rig.restore_store("lns-a")
    await tell(rig, alone[1], "west")
    await rig.wait(seconds(3))
    await rig.restart_store(empty=True)
    await tell(rig, alone[1], "west")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED + LOST, owned="east", lost="west")
    rig.expect(alone[0], UNVERIFIED, unverified="west")
    due = UNVERIFIED + TOO_FAR_AGAIN + AGAIN
    rig.expect(alone[1], due, unverified="west", far="west", again="west")


@pytest.mark.fault("store", "partition")
async def test_what_was_too_far_for_the_others_was_no_frame_of_theirs(rig, strategy):
    """When they have come nearer it is sent again: its server has delivered it, and nobody else."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.cut_store("lns-a")
    nearer, newest = [
        await hear(rig, device, "west", f_cnt=f_cnt, confirmed=True) for f_cnt in (16_000, 32_000)
    ]
    await rig.restore_store("lns-a")
    for station in ("west", "east", "west"):
        await tell(rig, nearer if station == "east" else newest, station)
        await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(nearer, UNVERIFIED + OWNED, unverified="west", owned="east")
    due = UNVERIFIED + TOO_FAR_AGAIN + AGAIN
    rig.expect(newest, due, unverified="west", far="west", again="west")
