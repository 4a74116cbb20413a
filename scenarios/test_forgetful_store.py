"""A store that forgot, or says nothing, beside servers that remember: what do they tell it?"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from bench.virtual import crafted
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    COPY,
    ELSEWHERE_AGAIN,
    EXPIRED,
    FIRST,
    LOST,
    LOST_UPSTREAM,
    OVER,
    OWNED,
    STRANGE,
    UNVERIFIED,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

DROPPED = Table("""
    strategy kind        | dropped
    *        confirmed   | NonDuplicate dropped(StoreUnavailable) Suppressed Unavailable
""")
REFUSED = Table("""
    strategy kind        | refused
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
LIMIT = Table("""
    strategy kind        | limit
    *        confirmed   | NonDuplicate dropped(ResubmissionLimit) Suppressed NotAsked
""")
LOST_ALONE = Table("""
    strategy kind        | alone
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked Unavailable
""")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_server_remembers_whose_a_frame_was_for_a_store_that_forgot(rig, strategy):
    """What it tells the store is what the store had told it: the frame is still another one's."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west", "north", confirmed=True)
    await rig.restart_store(empty=True)
    await rig.wait(seconds(61))
    await tell(rig, before, "north")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "north")
    rig.expect(before, OWNED + LOST * 2, owned="west", lost="north")
    rig.expect(after, OWNED, owned="north")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_whose_a_life_was_a_store_that_forgot_is_told_with_the_life(rig, strategy):
    """It has heard of the life before only, from a server that missed the restart of the device."""
    rig.put_on("lns-b", "north")
    rig.put_on("lns-c", "south")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "north", "west", "south", f_cnt=500)
    begun = [await hear(rig, device, "north", "west", f_cnt=n, confirmed=True) for n in (0, 2)]
    await rig.wait(seconds(61))
    await rig.restart_store(empty=True)
    recorded = await hear(rig, device, "south", f_cnt=501)
    await tell(rig, begun[1], "west")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED + LOST * 2, owned="north", lost=("west", "south"))
    rig.expect(recorded, OWNED, owned="south")
    rig.expect(begun[0], OWNED + LOST, owned="north", lost="west")
    rig.expect(begun[1], OWNED + LOST * 2, owned="north", lost="west")


@pytest.mark.requires("own store", "slow application")
@pytest.mark.fault("store", "restart")
async def test_what_is_given_back_goes_to_whom_it_was_before_the_store_forgot(rig, strategy):
    """The other server could not deliver the next frame; the one before is not its own for that."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west", "north", confirmed=True)
    await rig.restart_store(empty=True)
    rig.refuse_upstream()
    refused = await hear(rig, device, "north", confirmed=True)
    for station in ("north", "west"):
        await tell(rig, before, station)
        await rig.wait(seconds(3))
    due = OWNED + LOST + ELSEWHERE_AGAIN + AGAIN
    rig.expect(before, due, owned="west", lost="north", theirs="north", again="west")
    rig.expect(refused, LOST_UPSTREAM, back="north")


async def test_the_first_frame_of_all_is_heard_like_any_other(rig, strategy):
    """FCnt 0 at the server that lost it: once more, when it is forgotten, it is an old frame."""
    rig.put_on("lns-b", "north")
    device = rig.provision("fresh", relaxed_f_cnt=False, strategy=strategy)
    frame = await hear(rig, device, "west", "north", f_cnt=0)
    await rig.wait(seconds(61))
    await tell(rig, frame, "north")
    rig.expect(frame, OWNED + LOST + EXPIRED, owned="west", lost="north", again="north")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
@pytest.mark.parametrize("heard_by", [("west",), ("west", "north")])
async def test_each_answer_to_a_frame_counts_for_a_store_that_forgot(rig, heard_by):
    """One and three repeated ones: the server that gave none of them goes on behind them."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    frames = []
    for _ in range(2):
        frame = await hear(rig, device, *heard_by, confirmed=True)
        for _ in range(3):
            await tell(rig, frame, "west")
            await rig.wait(seconds(3))
        frames.append(frame)
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "north", confirmed=True)
    for frame in frames:
        if "north" in heard_by:
            due = OWNED + LOST + AGAIN * 3
            rig.expect(frame, due, owned="west", lost="north", again="west")
        else:
            rig.expect(frame, OWNED + AGAIN * 3, owned="west", again="west")
    rig.expect(after, OWNED, owned="north")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_the_answer_to_the_very_first_frame_counts_for_a_store_that_forgot(rig):
    """Whoever has heard nothing of a session has missed FCnt 0, too."""
    rig.put_on("lns-b", "north")
    device = rig.provision("fresh", relaxed_f_cnt=False)
    first = await hear(rig, device, "west", f_cnt=0, confirmed=True)
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "north", f_cnt=1, confirmed=True)
    rig.expect(first, OWNED, owned="west")
    rig.expect(after, OWNED, owned="north")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_each_frame_of_an_outage_counts_for_a_store_that_forgot(rig):
    """A server that could ask nobody heard two frames, which the other one answered four times."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    await rig.start()
    rig.cut_store("lns-b")
    frames = []
    for _ in range(2):
        frame = await hear(rig, device, "west", "north", confirmed=True)
        for _ in range(3):
            await tell(rig, frame, "west")
            await rig.wait(seconds(3))
        frames.append(frame)
    await rig.restart_store(empty=True)
    await rig.restore_store("lns-b")
    after = await hear(rig, device, "north", confirmed=True)
    for frame in frames:
        due = OWNED + UNVERIFIED + AGAIN * 3
        rig.expect(frame, due, owned="west", unverified="north", again="west")
    rig.expect(after, OWNED, owned="north")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_who_has_missed_thousands_takes_no_counter_that_a_device_refuses(rig):
    """A quarter of MAX_FCNT_GAP at most, however many answers there may have been."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "north", confirmed=True)
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "north", f_cnt=10 + 16_000, confirmed=True)
    rig.expect(before, OWNED, owned="north")
    rig.expect(after, OWNED, owned="north")
    rig.expect_answer(after, f_cnt=1 + 4_096)


async def test_frames_that_nobody_takes_leave_no_downlink_counter_out(rig):
    """Refused as too far, they were answered by nobody: the device takes the answer that follows.

    A store that has never heard of the session leaves out what others may have said, once.
    """
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=80_000)
    too_far = [await hear(rig, device, "west", f_cnt=80_000 + 16_385 + n) for n in range(3)]
    begun = await hear(rig, device, "west", f_cnt=0, confirmed=True)
    for frame in too_far:
        rig.expect(frame, REFUSED, refused="west")
    rig.expect(begun, OWNED, owned="west")
    rig.expect_answer(begun, f_cnt=0, ack=True)


@pytest.mark.requires("slow application")
async def test_other_bytes_of_a_counter_that_was_given_back_keep_a_name_of_their_own(rig):
    """A copy of the first ones may have gone up elsewhere; in a minute nobody remembers either."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    rig.refuse_upstream()
    back = await hear(rig, device, "west", f_cnt=10, payload=b"one")
    frame = await hear(rig, device, "west", f_cnt=10, payload=b"two", confirmed=True)
    await rig.wait(seconds(61))
    await tell(rig, frame, "west")
    rig.expect(back, LOST_UPSTREAM, back="west")
    rig.expect(frame, OWNED + EXPIRED, owned="west", again="west")
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-10"
    own = f"{name}.{frame.phy[-4:].hex().upper()}"
    rig.expect_upstream(frame, through="west", removeDuplicatesKey=own)


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "away")
async def test_what_nobody_could_verify_or_deliver_was_not_heard(rig, strategy):
    """Without the store a server counts alone; what it could not deliver it takes back alone."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.cut_store()
    rig.refuse_upstream()
    frame = await hear(rig, device, "west")
    await tell(rig, frame, "west")
    rig.expect(before, OWNED, owned="west")
    rig.expect(frame, LOST_ALONE + UNVERIFIED, alone="west", unverified="west")


@pytest.mark.fault("lns", "restart")
async def test_a_first_message_that_a_server_claimed_before_its_restart_asks_for_nothing(rig):
    """It may be an old one that somebody replays: what the application wants waits for the next."""
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500)
    first = await hear(rig, device, "west", f_cnt=0)
    await rig.restart_lns()
    await rig.queue_downlink(device, payload=b"on", port=9)
    await tell(rig, first, "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "west", f_cnt=1)
    rig.expect(first, OWNED * 2, owned="west")
    rig.expect(after, WITH_DOWNLINK, first="west")


@pytest.mark.fault("store", "away")
async def test_what_was_heard_without_the_store_is_old_when_a_stranger_repeats_it(rig, strategy):
    """Another server owns a newer frame, as a forged one makes this server look up."""
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.cut_store()
    alone = await hear(rig, device, "west")
    await rig.restore_store()
    newer = await hear(rig, device, "north")
    await rig.forge(device, by="west")
    await rig.wait(seconds(61))
    await tell(rig, alone, "west")
    rig.expect(before, OWNED, owned="west")
    rig.expect(alone, UNVERIFIED + EXPIRED, unverified="west", again="west")
    rig.expect(newer, OWNED, owned="north")


@pytest.mark.fault("store", "away")
@pytest.mark.parametrize("relaxed", [True, False])
async def test_what_was_heard_without_the_store_is_old_though_the_store_knows_none_of_it(
    rig, strategy, relaxed
):
    """Its server looks whether the device has begun again elsewhere, and nobody has heard it."""
    rig.put_on("lns-b", "north")
    device = rig.provision("alone", f_cnt=500, strategy=strategy, relaxed_f_cnt=relaxed)
    before = await hear(rig, device, "west")
    rig.cut_store()
    alone = [await hear(rig, device, "west") for _ in range(2)]
    await rig.restore_store()
    await rig.wait(seconds(61))
    for frame in alone:
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    after = await hear(rig, device, "west")
    rig.expect(before, OWNED, owned="west")
    for frame in alone:
        rig.expect(frame, UNVERIFIED + EXPIRED, unverified="west", again="east")
    rig.expect(after, OWNED, owned="west")


@pytest.mark.fault("store", "away")
async def test_which_bytes_had_a_counter_is_known_without_the_store(rig):
    """It was kept without them, and the store has told whose it is: others are another frame."""
    rig.put_on("lns-b", "north")
    device = rig.provision("veteran", f_cnt=10, relaxed_f_cnt=False)
    one = await hear(rig, device, "west", f_cnt=9, payload=b"one", confirmed=True)
    rig.cut_store()
    two = await hear(rig, device, "east", f_cnt=9, payload=b"two", confirmed=True)
    rig.expect(one, EXPIRED, again="west")
    rig.expect(two, UNVERIFIED, unverified="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-9"
    rig.expect_upstream(one, through="west", removeDuplicatesKey=key)
    name = f"{key}.{two.phy[-4:].hex().upper()}"
    rig.expect_upstream(two, through="east", removeDuplicatesKey=name)


@pytest.mark.fault("store", "away")
async def test_a_counter_that_was_kept_without_its_bytes_is_that_of_whoever_repeats_it(rig):
    """Nobody says what frame it was: that has its name, and no other one."""
    rig.put_on("lns-b", "north")
    device = rig.provision("veteran", f_cnt=10, relaxed_f_cnt=False)
    await rig.start()
    rig.cut_store()
    again = await hear(rig, device, "west", f_cnt=9, confirmed=True)
    rig.expect(again, UNVERIFIED, unverified="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-9"
    rig.expect_upstream(again, through="west", removeDuplicatesKey=key)


@pytest.mark.fault("store", "slow")
@pytest.mark.fault("lns", "restart")
async def test_what_a_server_keeps_late_takes_nothing_from_what_others_have_kept(rig):
    """It has heard an older frame alone: the newest one has had its answers, and its copy an id."""
    rig.put_on("lns-b", "north")
    device, south = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False), rig.station("south")
    before = await hear(rig, device, "west", "north")
    late, frame = await rig.craft(device), await rig.craft(device, confirmed=True)
    for stations in (("west", "east"), ("west",), ("west",), ("west",)):
        await tell(rig, frame, *stations)
        await rig.wait(seconds(3))
    rig.slow_store(milliseconds(400), "lns-b")
    await tell(rig, late, "north")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-b")
    await rig.restart_lns()
    await tell(rig, frame, "west", "south")
    rig.expect(before, OWNED + LOST, owned="west", lost="north")
    rig.expect(late, UNVERIFIED, unverified="north")
    due = OWNED + COPY + AGAIN * 3 + LIMIT + COPY
    rig.expect(frame, due, owned="west", copy=("east", "south"), again="west", limit="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-12"
    rig.expect_upstream(frame, through="south", messageId=f"{key}-{south.eui}-5")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_frame_that_is_refused_again_and_again_is_one_that_was_missed(rig):
    """The store has forgotten the counter: all know of one answer; four more may have gone."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", "north", confirmed=True)
    for _ in range(2):
        await rig.wait(seconds(61))
        await tell(rig, frame, "north")
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "north", confirmed=True)
    rig.expect(frame, OWNED + LOST * 3, owned="west", lost="north")
    rig.expect(after, OWNED, owned="north")
    rig.expect_answer(after, f_cnt=5)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_two_frames_of_one_counter_are_two_that_were_missed(rig):
    """The device has begun again with other bytes: each of them may have had its answers."""
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500)
    begun = [
        await hear(rig, device, "west", "north", f_cnt=0, payload=payload)
        for payload in (b"one", b"two")
    ]
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "north", f_cnt=2, confirmed=True)
    for frame in begun:
        rig.expect(frame, OWNED + LOST, owned="west", lost="north")
    rig.expect(after, OWNED, owned="north")
    rig.expect_answer(after, f_cnt=3 * 4)


@pytest.mark.fault("store", "slow")
@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize(("f_cnt", "repeats"), [(0, 2), (501, 3)])
async def test_what_was_claimed_before_a_restart_is_answered_three_times_more_if_it_is_new(
    rig, strategy, f_cnt, repeats
):
    """The server was granted it too late, and has begun anew: it knows that it has not answered.

    But of a first message, which it may have had: that is a retry for all it knows.
    """
    rig.put_on("lns-b", "north")
    rig.on_outage("closed")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.slow_store(milliseconds(400), "lns-a")
    first = await hear(rig, device, "west", f_cnt=f_cnt, confirmed=True)
    await rig.restore_store("lns-a")
    await rig.restart_lns()
    for _ in range(2 + repeats):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(
        first, DROPPED + OWNED + AGAIN * repeats + OVER,
        dropped="west", owned="west", again="west", over="west",
    )  # fmt: skip


async def test_a_frame_that_was_kept_without_its_bytes_is_of_no_session_that_is_over(rig):
    """Others may know whose it is; one of them knows that the device has joined again."""
    rig.put_on("lns-b", "north")
    device = rig.provision("moved", activation="otaa", f_cnt=10, preset_session=True)
    known = device.provisioned
    rig.only("north")
    join = await device.join()
    address, keys = rig.sessions_opened(known)[-1]
    old = crafted.data(device.dev_eui, known.dev_addr, known.keys, 9)
    new = crafted.data(device.dev_eui, address, keys, 1, session=1)
    for frame, station in ((new, "north"), (old, "west")):
        rig.announce(frame)
        await tell(rig, frame, station)
        await rig.wait(seconds(1))
    for frame in (join, new):
        rig.expect(frame, FIRST, first="north")
    rig.expect(old, STRANGE, strange="west")


@pytest.mark.requires("own store", "virtual time")
@pytest.mark.fault("store", "restart")
async def test_an_answer_of_the_store_that_came_late_takes_no_downlink_counter_back(rig):
    """A downlink of class C took the next one meanwhile; the store has forgotten that since."""
    rig.put_on("lns-b", "east")
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.slow_store(milliseconds(150), "lns-a")
    slow = await hear(rig, always, "west", after=milliseconds(100))
    await rig.restore_store("lns-a")
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(5))
    await rig.restart_store(empty=True)
    after = await hear(rig, always, "west", confirmed=True)
    for frame in (before, slow, after):
        rig.expect(frame, OWNED, owned="west")
    rig.expect_downlink(always, b"on", port=8, window="C")
