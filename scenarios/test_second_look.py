"""What a server would refuse, and looks at once more: perhaps others have heard what it has not."""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    COPY,
    EXPIRED,
    FIRST,
    LOST,
    LOST_UPSTREAM,
    OVER,
    OWNED,
    UNVERIFIED,
)

TOO_FAR = Table("""
    strategy kind        | far
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed NotAsked
""")
FAR = Table("""
    strategy kind        | far
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
NEAR = Table("""
    strategy kind        | near
    *        unconfirmed | DuplicateDueToResubmission forwarded NotAsked Owner
""")
AGAIN_LATE = Table("""
    strategy kind        | late
    *        confirmed   | DuplicateDueToResubmission forwarded TooLate
""")
TOO_MANY = Table("""
    strategy kind        | over
    *        confirmed   | DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed Owner
""")
OWNED_LATE = Table("""
    strategy kind        | late
    *        confirmed   | NonDuplicate forwarded TooLate Owner
    *        unconfirmed | NonDuplicate forwarded NotAsked Owner
""")
NEW_AGAIN = Table("""
    strategy kind        | again
    *        confirmed   | DuplicateDueToResubmission forwarded RX1 Owner
""")
LOST_UPSTREAM_ELSEWHERE = Table("""
    strategy kind        | refused
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed NotOwner
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked NotOwner
""")

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it


async def begun_elsewhere(rig):
    """A device that has begun again: west has heard it, and east only how far it came before."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    both = await hear(rig, device, "west", "east")
    rig.expect(both, OWNED + LOST, owned="west", lost="east")
    for f_cnt in (0, 1):
        rig.expect(await hear(rig, device, "west", f_cnt=f_cnt), OWNED, owned="west")
    return device


async def test_a_frame_that_asks_for_nothing_takes_no_downlink_counter(rig):
    """Its server has looked whose it is; the first answer of the session has counter 0."""
    device = await begun_elsewhere(rig)
    silent = await hear(rig, device, "east", f_cnt=2)
    asking = await hear(rig, device, "east", f_cnt=3, confirmed=True)
    for frame in (silent, asking):
        rig.expect(frame, OWNED, owned="east")
    rig.expect_answer(asking, f_cnt=0)


async def test_a_look_takes_no_downlink_counter(rig):
    """The newest frame may begin a life that others heard of: asked once more, it is answered."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10)
    frame = await hear(rig, device, "west", confirmed=True, after=seconds(61))
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "west", confirmed=True)
    rig.expect(frame, OWNED + EXPIRED, owned="west", again="west")
    rig.expect(after, OWNED, owned="west")
    rig.expect_answer(after, f_cnt=2)


@pytest.mark.fault("store", "slow")
async def test_a_first_message_is_claimed_at_once(rig):
    """There is no time for one question more: the store is slow, and the station tells it late."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    rig.only("west")
    before = await device.send()
    await device.restart(memory=False)
    rig.slow_store(milliseconds(199), "lns-a")
    rig.west.delay_uplinks(milliseconds(370))
    first = await device.send(confirmed=True)
    await rig.restore_store("lns-a")
    for uplink in (before, first):
        rig.expect(uplink, OWNED, owned="west")
    rig.expect_on_air(first, "RX1")


async def test_what_came_late_is_heard_for_the_first_time_however_far_the_others_are(rig, strategy):
    """East has heard nothing since counter 9: 32 000 is too far for it, and behind the newest."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    frames = [
        await hear(rig, device, "west", f_cnt=f_cnt, after=seconds(1))
        for f_cnt in (16_000, 32_000, 48_000)
    ]
    await tell(rig, frames[1], "east")
    rig.expect(frames[1], OWNED + LOST, owned="west", lost="east")
    for frame in (frames[0], frames[2]):
        rig.expect(frame, OWNED, owned="west")


@pytest.mark.requires("slow application")
async def test_what_was_looked_at_and_not_delivered_was_not_heard(rig, confirmed):
    """It was too far for east, as nobody has kept yet how far west has come: west waits still."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    rig.delay_upstream(seconds(8), lns="lns-a")
    farther = await hear(rig, device, "west", f_cnt=16_000, after=seconds(1))
    rig.refuse_upstream(lns="lns-b")
    frame = await hear(rig, device, "east", f_cnt=20_000, after=seconds(1), confirmed=confirmed)
    await tell(rig, frame, "east")
    await rig.wait(seconds(8))
    for uplink in (before, farther):
        rig.expect(uplink, OWNED, owned="west")
    rig.expect(frame, LOST_UPSTREAM + OWNED, back="east", owned="east")


@pytest.mark.requires("slow application")
async def test_what_another_server_owns_and_nobody_took_was_not_heard(rig, confirmed):
    """East has looked it up as too far; its own message is refused, and comes again."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    rig.delay_upstream(seconds(8), messages=2, lns="lns-a")
    farther = await hear(rig, device, "west", f_cnt=16_000, after=seconds(1))
    frame = await rig.craft(device, f_cnt=20_000, confirmed=confirmed)
    await tell(rig, frame, "west")
    await rig.wait(milliseconds(100))
    rig.refuse_upstream(lns="lns-b")
    for _ in range(2):
        await tell(rig, frame, "east")
        await rig.wait(seconds(1))
    await rig.wait(seconds(8))
    for uplink in (before, farther):
        rig.expect(uplink, OWNED, owned="west")
    rig.expect(
        frame, OWNED_LATE + LOST_UPSTREAM_ELSEWHERE + LOST, late="west", refused="east", lost="east"
    )


@pytest.mark.requires("slow application")
async def test_what_was_looked_at_and_given_back_elsewhere_is_new_again(rig, strategy):
    """West owned it when east has looked, and could not deliver it: nobody has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west", f_cnt=10)
    rig.delay_upstream(seconds(8), lns="lns-a")
    farther = await hear(rig, device, "west", f_cnt=16_000, after=seconds(1))
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await rig.craft(device, f_cnt=20_000, confirmed=True)
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(20))
    await tell(rig, frame, "east")
    for uplink in (before, farther):
        rig.expect(uplink, OWNED, owned="west")
    rig.expect(frame, LOST_UPSTREAM + LOST + NEW_AGAIN, back="west", lost="east", again="east")


@pytest.mark.requires("slow application")
async def test_what_began_a_life_and_was_not_delivered_was_not_heard_in_it(rig, strategy):
    """East goes on in that life meanwhile; what west has heard of the one before says nothing."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    before = await hear(rig, device, "west", "east")
    rig.delay_upstream(seconds(15), lns="lns-a")
    begun = await hear(rig, device, "west", f_cnt=0, after=seconds(1))
    farther = [await hear(rig, device, "east", f_cnt=n, after=seconds(1)) for n in (1, 2)]
    too_far = await hear(rig, device, "west", f_cnt=20_000, after=seconds(15))
    await tell(rig, farther[1], "west")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(begun, LOST_UPSTREAM, back="west")
    rig.expect(farther[0], OWNED, owned="east")
    rig.expect(too_far, FAR, far="west")
    rig.expect(farther[1], OWNED + LOST, owned="east", lost="west")


@pytest.mark.requires("slow application")
async def test_what_was_heard_before_a_life_that_nobody_took_is_old(rig, strategy):
    """What began that life is taken back, and what was heard in the one before counts again."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    newest = await hear(rig, device, "east", "west", f_cnt=12)
    rig.refuse_upstream(lns="lns-a")
    begun = await hear(rig, device, "west", f_cnt=0, after=seconds(61))
    await tell(rig, newest, "west")
    rig.expect(newest, OWNED + LOST + EXPIRED, owned="east", lost="west", again="west")
    rig.expect(begun, LOST_UPSTREAM, back="west")


@pytest.mark.fault("store", "slow")
async def test_what_was_looked_at_twice_has_three_answers_more(rig):
    """The first reply of the store was late; nobody has kept how far west has come."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    rig.delay_upstream(seconds(2), lns="lns-a")
    farther = await hear(rig, device, "west", f_cnt=16_000, after=seconds(1))
    rig.cut_store("lns-a")
    await rig.wait(seconds(2))
    rig.slow_store(milliseconds(600), "lns-b")
    frame = await hear(rig, device, "east", f_cnt=20_000, confirmed=True, after=seconds(61))
    await rig.restore_store("lns-b")
    for _ in range(4):
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    for uplink in (before, farther):
        rig.expect(uplink, OWNED, owned="west")
    rig.expect(
        frame,
        TOO_FAR + OWNED + AGAIN * 2 + OVER,
        far="east",
        owned="east",
        again="east",
        over="east",
    )


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "slow")
async def test_what_was_known_elsewhere_is_known_though_nobody_takes_it(rig):
    """The store has granted it before, and nobody heard of that: it has no counter to take back."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    rig.delay_upstream(seconds(2), lns="lns-a")
    farther = await hear(rig, device, "west", f_cnt=16_000, after=seconds(1))
    rig.cut_store("lns-a")
    await rig.wait(seconds(2))
    rig.slow_store(milliseconds(600), "lns-b")
    frame = await hear(rig, device, "east", f_cnt=20_000, confirmed=True, after=seconds(61))
    await rig.restore_store("lns-b")
    rig.refuse_upstream(lns="lns-b")
    await tell(rig, frame, "east")
    await rig.wait(seconds(3))
    rig.cut_store("lns-b")
    await tell(rig, frame, "east")
    for uplink in (before, farther):
        rig.expect(uplink, OWNED, owned="west")
    words = TOO_FAR + LOST_UPSTREAM + UNVERIFIED
    rig.expect(frame, words, far="east", back="east", unverified="east")


async def test_what_was_too_far_has_one_name_at_every_server(rig):
    """West has refused it; north takes it, under its MIC; west knows whose copy it hears then."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    far = await hear(rig, device, "west", f_cnt=20_000)
    nearer = await hear(rig, device, "north", f_cnt=10_000)
    await tell(rig, far, "north")
    await rig.wait(seconds(1))
    await tell(rig, nearer, "west")
    await rig.wait(seconds(1))
    await tell(rig, far, "east")
    rig.expect(nearer, OWNED + LOST, owned="north", lost="west")
    rig.expect(far, FAR + OWNED + COPY, far="west", owned="north", copy="east")
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-20000"
    mic = far.phy[-4:].hex().upper()
    for station in ("north", "east"):
        rig.expect_upstream(far, through=station, removeDuplicatesKey=f"{name}.{mic}")


async def test_what_was_too_far_a_moment_ago_has_a_name_of_its_own(rig):
    """Nobody knows by then what else may have had its counter: it is told with its MIC."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    far = await hear(rig, device, "west", f_cnt=20_000)
    nearer = await hear(rig, device, "west", f_cnt=10_000)
    await tell(rig, far, "west")
    rig.expect(nearer, OWNED, owned="west")
    rig.expect(far, FAR + NEAR, far="west", near="west")
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-20000"
    mic = far.phy[-4:].hex().upper()
    rig.expect_upstream(far, through="west", removeDuplicatesKey=f"{name}.{mic}")


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "slow")
async def test_a_repeat_that_waited_spends_of_its_own_life_only(rig):
    """Two newer frames come, one while it waits and one while the store is asked whose it is."""
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed")
    await rig.start()
    rig.slow_store(milliseconds(190), "lns-a")
    rig.delay_upstream(seconds(3), lns="lns-a")
    first = await hear(rig, device, "west", f_cnt=0, confirmed=True, after=milliseconds(100))
    await tell(rig, first, "west")
    await rig.wait(milliseconds(100))
    newer = [await hear(rig, device, "west", f_cnt=1, after=milliseconds(3_100))]
    newer.append(await hear(rig, device, "west", f_cnt=2))
    await rig.restore_store("lns-a")
    for _ in range(4):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    for frame in newer:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(
        first,
        OWNED_LATE + AGAIN_LATE + AGAIN * 3 + TOO_MANY,
        late="west",
        again="west",
        over="west",
    )


@pytest.mark.requires("slow application")
async def test_a_copy_waits_for_no_repetition_of_its_frame(rig):
    """The frame is delivered: what becomes of the repetition is nothing to its copy."""
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", confirmed=True)
    rig.delay_upstream(seconds(2))
    for station in ("west", "east"):
        await tell(rig, frame, station)
        await rig.wait(milliseconds(100))
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST + AGAIN_LATE + COPY, first="west", late="west", copy="east")
    rig.expect_upstream(frame, through="east", sequenceNumber=2)


async def test_who_looks_is_told_of_a_life_that_is_over_again(rig, strategy):
    """West began one, and went back to the one before; a frame of it is none that came too late."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    both = await hear(rig, device, "west", "east")
    begun = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 1, 2)]
    back = await hear(rig, device, "west", f_cnt=11)
    await tell(rig, begun[2], "east")
    await rig.wait(seconds(1))
    for frame in (*begun[:2], back):
        rig.expect(frame, OWNED, owned="west")
    for frame in (both, begun[2]):
        rig.expect(frame, OWNED + LOST, owned="west", lost="east")
