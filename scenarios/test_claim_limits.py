"""What the store that servers share knows of a session, at its edges: claims, lives, counters."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from lns.lorawan.crypto import SessionKeys
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    ASKED,
    COPY,
    ELSEWHERE,
    EXPIRED,
    FIRST,
    LOST,
    LOST_UPSTREAM,
    OVER,
    OWNED,
    TAKEN_OVER,
    UNVERIFIED,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

ALIKE = SessionKeys(bytes(16), bytes(range(16)))

TOO_FAR = Table("""
    strategy kind        | far
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed NotAsked
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked NotAsked
""")
FAR_COPY = Table("""
    strategy kind        | copy
    Drop     *           | Duplicate dropped(Duplicate) NotAsked
    Mark     *           | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
    None     *           | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")
DROPPED = Table("""
    strategy kind        | dropped
    *        unconfirmed | NonDuplicate dropped(StoreUnavailable) NotAsked Unavailable
""")
LOST_AGAIN = Table("""
    strategy kind        | lost2
    *        confirmed   | DuplicateDueToResubmission dropped(UpstreamUnavailable) Suppressed Owner
""")
GONE = Table("""
    strategy kind        | gone
    *        *           | - dropped(UnknownDevice) NotAsked
""")
REFUSED = Table("""
    strategy kind        | refused
    *        *           | NonDuplicate dropped(StoreUnavailable) Suppressed Unavailable
""")
FIRST_AGAIN = Table("""
    strategy kind | again
    Drop     *    | DuplicateDueToResubmission dropped(ResubmissionSuppressed) NotAsked NotAsked
    Mark     *    | DuplicateDueToResubmission marked NotAsked Owner
    None     *    | DuplicateDueToResubmission forwarded NotAsked Owner
""")
NOT_SENT = Table("""
    strategy kind        | unsent
    *        *           | NonDuplicate forwarded Suppressed Owner
""")


# --- how far a session has come -------------------------------------------------------------------


async def test_what_is_too_far_for_all_servers_belongs_to_none(rig, confirmed):
    """One more than MAX_FCNT_GAP beyond what any of them has heard; the greatest gap is taken."""
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    far = await hear(rig, device, "west", "east", f_cnt=10 + 16_385, confirmed=confirmed)
    most = await hear(rig, device, "west", "east", f_cnt=10 + 16_384, confirmed=confirmed)
    rig.expect(before, OWNED, owned="west")
    rig.expect(far, TOO_FAR * 2, far=("west", "east"))
    rig.expect(most, OWNED + LOST, owned="west", lost="east")


@pytest.mark.parametrize("beyond", [0, 1])
async def test_what_is_too_far_here_is_measured_from_what_was_heard_elsewhere(rig, beyond):
    """The greatest gap beyond that is taken, and one more is too far for both."""
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_cnt=10)
    newer = await hear(rig, device, "east", f_cnt=20)
    far = await hear(rig, device, "west", f_cnt=20 + 16_384 + beyond)
    rig.expect(before, OWNED, owned="west")
    rig.expect(newer, OWNED, owned="east")
    if beyond:
        rig.expect(far, TOO_FAR, far="west")
    else:
        rig.expect(far, OWNED, owned="west")


async def test_what_others_have_carried_on_is_not_too_far(rig):
    """A server that was away for more than MAX_FCNT_GAP frames learns of them from the store.

    With the frames it learns that the device was asked for repetitions, and does so already.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=10, relaxed_f_cnt=False, nb_trans=2)
    asked = await hear(rig, device, "west", f_cnt=10, adr=True)
    granted = await hear(rig, device, "west", f_cnt=16_000, adr=True, f_opts=b"\x03\x07")
    farther = await hear(rig, device, "west", f_cnt=32_000, adr=True)
    there = await hear(rig, device, "east", f_cnt=32_001, adr=True)
    rig.expect(asked, ASKED, asked="west")
    for frame, station in ((granted, "west"), (farther, "west"), (there, "east")):
        rig.expect(frame, OWNED, owned=station)


async def test_what_others_have_asked_for_is_granted_anywhere(rig):
    """A server that learns from the store how far a device has come learns what it was asked."""
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=10, relaxed_f_cnt=False, nb_trans=2)
    before = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (10, 16_000)]
    asked = await hear(rig, device, "west", f_cnt=32_000, adr=True)
    granted = await hear(rig, device, "east", f_cnt=32_001, adr=True, f_opts=b"\x03\x07")
    after = await hear(rig, device, "east", f_cnt=32_002, adr=True)
    rig.expect(asked, ASKED, asked="west")
    for frame in before:
        rig.expect(frame, OWNED, owned="west")
    for frame in (granted, after):
        rig.expect(frame, OWNED, owned="east")


async def test_what_was_granted_in_one_life_is_asked_for_in_another(rig):
    """A server that hears the device in the life before is told of both by the store."""
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=10, nb_trans=2)
    before = await hear(rig, device, "west", f_cnt=10)
    began = await hear(rig, device, "west", f_cnt=0, adr=True)
    granted = await hear(rig, device, "west", f_cnt=1, adr=True, f_opts=b"\x03\x07")
    there = await hear(rig, device, "east", f_cnt=11, adr=True)
    for frame, station in ((began, "west"), (there, "east")):
        rig.expect(frame, ASKED, asked=station)
    for frame in (before, granted):
        rig.expect(frame, OWNED, owned="west")


async def test_what_others_have_carried_over_a_roll_over_is_not_forged(rig):
    """Its counter stands for another one there, so the MIC fits only who has read the store."""
    rig.put_on("lns-b", "east")
    device = rig.provision("ahead", f_cnt=0x1FFFF, relaxed_f_cnt=False)
    counters = [0x1FFFF + 16_384 * step for step in range(9)]
    frames = [await hear(rig, device, "west", f_cnt=f_cnt, after=seconds(1)) for f_cnt in counters]
    there = await hear(rig, device, "east", f_cnt=counters[-1] + 1, confirmed=True)
    for frame, station in [*((frame, "west") for frame in frames), (there, "east")]:
        rig.expect(frame, OWNED, owned=station)


async def test_what_is_too_far_for_the_others_is_too_far_for_who_was_away(rig, confirmed):
    """It knows only the life before, which the others have forgotten: one of too many since.

    What the device tells with it is not told: its status is asked for with the next frame.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=20_000)
    before = await hear(rig, device, "west")
    lives = [
        await hear(rig, device, "east", f_cnt=f_cnt, payload=bytes([life]), after=seconds(1))
        for life in range(9)
        for f_cnt in (0, 3_000 - life)
    ]
    await rig.queue_status(device)
    facts = {"confirmed": confirmed, "f_opts": b"\x06\xff\x01"}
    far = await hear(rig, device, "west", f_cnt=20_001, **facts)
    after = await hear(rig, device, "west", f_cnt=2_993, payload=b"after")
    rig.expect(before, OWNED, owned="west")
    for frame in lives:
        rig.expect(frame, OWNED, owned="east")
    rig.expect(far, TOO_FAR, far="west")
    rig.expect(after, ASKED, asked="west")


async def test_of_all_devices_that_share_an_address_each_is_looked_up(rig):
    """Eight of them; the last is the one whose counter others have carried over a roll-over."""
    rig.put_on("lns-b", "east")
    facts = {"dev_addr_text": "01000009", "relaxed_f_cnt": False}
    alike = [rig.provision(f"device-{number}", f_cnt=0x1FFFF, **facts) for number in range(8)]
    device = max(alike, key=lambda one: str(one.provisioned.dev_eui))
    counters = [0x1FFFF + 16_384 * step for step in range(9)]
    frames = [await hear(rig, device, "west", f_cnt=f_cnt, after=seconds(1)) for f_cnt in counters]
    there = await hear(rig, device, "east", f_cnt=counters[-1] + 1, confirmed=True)
    for frame, station in [*((frame, "west") for frame in frames), (there, "east")]:
        rig.expect(frame, OWNED, owned=station)


@pytest.mark.fault("store", "away")
async def test_a_life_that_began_without_the_store_is_told_to_it(rig, confirmed):
    """The store knows the life before; the server that heard the device knows better."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west", "east")
    rig.cut_store()
    alone = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 1)]
    await rig.restore_store()
    after = await hear(rig, device, "west", "east", f_cnt=2, confirmed=confirmed)
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect(after, OWNED + LOST, owned="west", lost="east")


@pytest.mark.fault("store", "away")
async def test_a_status_that_nobody_can_verify_says_so(rig):
    """Another server may have told the application the same; when the store is back nobody has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", f_opts=b"\x06\xff\x20")
    rig.cut_store()
    alone = await hear(rig, device, "west", f_opts=b"\x06\x00\x1f")
    await rig.restore_store()
    rig.expect(before, OWNED, owned="west")
    rig.expect(alone, UNVERIFIED, unverified="west")
    rig.expect_status(device, times=2)


async def test_a_first_message_that_is_repeated_begins_one_life(rig, strategy):
    """It is answered three times more, and all its copies have one name."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    first = await rig.craft(device, f_cnt=0, confirmed=True)
    for _ in range(5):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    after = await hear(rig, device, "west", f_cnt=1)
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1-1"
    rig.expect(before, OWNED, owned="west")
    rig.expect(first, OWNED + AGAIN * 3 + OVER, owned="west", again="west", over="west")
    rig.expect(after, OWNED, owned="west")
    rig.expect_upstream(after, through="west", removeDuplicatesKey=key)


async def test_two_frames_of_the_counter_that_a_server_began_with_are_two(rig, strategy):
    """Nobody knows which bytes had it: the first that come are it, and others are others."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    one = await hear(rig, device, "west", f_cnt=9, payload=b"one", confirmed=True)
    two = await hear(rig, device, "east", f_cnt=9, payload=b"two", confirmed=True)
    rig.expect(one, EXPIRED, again="west")
    rig.expect(two, LOST, lost="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-9"
    rig.expect_upstream(one, through="west", removeDuplicatesKey=key)


@pytest.mark.fault("store", "cut")
async def test_who_was_told_which_bytes_had_a_counter_knows_their_name(rig):
    """East began with that counter too, and has heard other bytes: these are a copy, by its key."""
    rig.put_on("lns-b", "east", "south")
    device = rig.provision("veteran", f_cnt=10, relaxed_f_cnt=False)
    one = await hear(rig, device, "west", f_cnt=9, payload=b"one", confirmed=True)
    two = await hear(rig, device, "south", f_cnt=9, payload=b"two", confirmed=True)
    rig.cut_store("lns-b")
    await tell(rig, one, "east")
    await rig.wait(seconds(3))
    rig.expect(one, EXPIRED + UNVERIFIED, again="west", unverified="east")
    rig.expect(two, LOST, lost="south")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-9"
    for station in ("west", "east"):
        rig.expect_upstream(one, through=station, removeDuplicatesKey=key)


@pytest.mark.parametrize("servers", [1, 2])
async def test_other_bytes_with_the_newest_counter_have_a_name_of_their_own(rig, servers):
    """A relaxed device has begun again unheard: its third frame is none of those before."""
    if servers == 2:
        rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=7)
    old = await hear(rig, device, "west", payload=b"old", confirmed=True)
    new = await hear(rig, device, "east", f_cnt=7, payload=b"new", confirmed=True)
    mic = new.phy[-4:].hex().upper()
    rig.expect(old, FIRST, first="west")
    if servers == 2:
        rig.expect(new, LOST, lost="east")
    else:
        rig.expect(new, EXPIRED, again="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-7"
    rig.expect_upstream(old, through="west", removeDuplicatesKey=key)
    rig.expect_upstream(new, through="east", removeDuplicatesKey=f"{key}.{mic}")


async def test_a_session_that_ended_elsewhere_is_over_for_good(rig):
    """Whoever was told so once takes no frame of it, though nobody remembers that any more."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.bravo.join()
    known = await hear(rig, rig.bravo, "west", "east")
    late, later = [await rig.craft(rig.bravo) for _ in range(2)]
    again = await rig.bravo.join()
    new = await hear(rig, rig.bravo, "west")
    await tell(rig, late, "east")
    await rig.wait(seconds(7))
    await rig.restart_store(empty=True)
    await tell(rig, later, "east")
    for join in (before, again):
        rig.expect(join, FIRST, first="west")
    rig.expect(known, OWNED + LOST, owned="west", lost="east")
    rig.expect(new, OWNED, owned="west")
    for frame in (late, later):
        rig.expect(frame, GONE, gone="east")


async def test_a_frame_ends_all_sessions_before_its_own_for_all_servers(rig):
    """The one that nobody has sent in, and the one in which the other server has heard it.

    All know for a day that they are over.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    known = await hear(rig, device, "west", "east")
    late = await rig.craft(device)
    unheard = await rig.craft_join(device, dev_nonce=777)
    await tell(rig, unheard, "west")
    await rig.wait(seconds(7))
    again = await device.join()
    new = await hear(rig, device, "west")
    await rig.wait(minutes(1_400))
    await tell(rig, late, "east")
    for join in (before, unheard, again):
        rig.expect(join, FIRST, first="west")
    rig.expect(known, OWNED + LOST, owned="west", lost="east")
    rig.expect(new, OWNED, owned="west")
    rig.expect(late, GONE, gone="east")


async def test_of_two_devices_alike_the_first_one_is_meant_whoever_was_looked_up(rig):
    """One address and the same keys: nobody can tell them apart, so it is always the same one."""
    rig.put_on("lns-b", "east")
    facts = {"f_cnt": 10, "relaxed_f_cnt": False, "dev_addr_text": "01000009", "keys": ALIKE}
    first, _ = rig.provision("one", **facts), rig.provision("another", **facts)
    before = await hear(rig, first, "west")
    await rig.wait(minutes(24 * 60))
    after = [await hear(rig, first, "west") for _ in range(2)]
    for frame in (before, *after):
        rig.expect(frame, OWNED, owned="west")
        rig.expect_upstream(frame, through="west", devEui=first.provisioned.dev_eui)


async def test_of_two_devices_alike_the_first_one_is_meant_though_only_the_other_was_heard(rig):
    """Its first frame is no old one of the other."""
    facts = {"relaxed_f_cnt": False, "dev_addr_text": "01000009", "keys": ALIKE}
    first, _ = rig.provision("one", **facts), rig.provision("another", f_cnt=10, **facts)
    frame = await hear(rig, first, "west")
    rig.expect(frame, FIRST, first="west")
    rig.expect_upstream(frame, through="west", devEui=first.provisioned.dev_eui)


# --- what cannot be delivered ---------------------------------------------------------------------


@pytest.mark.requires("slow application")
async def test_what_was_not_delivered_takes_nothing_from_what_came_after_it(rig):
    """The server gives back the older frame when it owns a newer one already, which stays its."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10)
    await rig.start()
    rig.delay_upstream(seconds(15))
    older = await hear(rig, device, "west", after=seconds(1), confirmed=True)
    newer = await hear(rig, device, "west", after=seconds(75), confirmed=True)
    await tell(rig, newer, "east")
    rig.expect(older, LOST_UPSTREAM, back="west")
    rig.expect(newer, OWNED + ELSEWHERE, owned="west", elsewhere="east")


@pytest.mark.requires("slow application")
async def test_what_was_not_delivered_takes_nothing_from_a_life_that_began_since(rig):
    """The device has begun twice with the same counter; the first of the two nobody has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10)
    await rig.start()
    rig.delay_upstream(seconds(15))
    older = await hear(rig, device, "west", after=seconds(1), f_cnt=0, payload=b"older")
    newer = await hear(rig, device, "west", after=seconds(20), f_cnt=0, payload=b"newer")
    after = await hear(rig, device, "east", f_cnt=2)
    rig.expect(older, LOST_UPSTREAM, back="west")
    rig.expect(newer, OWNED, owned="west")
    rig.expect(after, OWNED, owned="east")


@pytest.mark.requires("slow application")
async def test_what_was_not_delivered_makes_nothing_new_of_the_life_that_began_since(rig):
    """Both frames have counter 5; of the later one west knows for good that it has heard it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=5)
    await rig.start()
    rig.delay_upstream(seconds(15))
    older = await hear(rig, device, "west", after=milliseconds(500), payload=b"older")
    there = [await hear(rig, device, "east", after=milliseconds(500)) for _ in range(2)]
    newer = [
        await hear(rig, device, "west", f_cnt=n, after=milliseconds(500), payload=b"newer")
        for n in range(6)
    ]
    await rig.wait(seconds(10))
    there.append(await hear(rig, device, "east", f_cnt=6, payload=b"newer"))
    await rig.forge(device, by="west")
    await rig.wait(seconds(61))
    await tell(rig, newer[5], "west")
    rig.expect(older, LOST_UPSTREAM, back="west")
    for frame in there:
        rig.expect(frame, OWNED, owned="east")
    for frame in newer[:5]:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(newer[5], OWNED + EXPIRED, owned="west", again="west")


@pytest.mark.requires("own store", "slow application")
@pytest.mark.fault("store", "restart")
async def test_who_cannot_deliver_gives_back_only_what_is_its_own(rig):
    """The store forgot the claim, and granted the frame to the other server meanwhile."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10)
    await rig.start()
    rig.delay_upstream(seconds(15))
    frame = await hear(rig, device, "west", after=seconds(1))
    await rig.restart_store(empty=True)
    await tell(rig, frame, "east")
    await rig.wait(seconds(12))
    await tell(rig, frame, "west")
    rig.expect(
        frame, LOST_UPSTREAM + OWNED + ELSEWHERE, back="west", owned="east", elsewhere="west"
    )


@pytest.mark.requires("slow application")
async def test_what_a_server_takes_over_and_cannot_deliver_costs_no_answer(rig, strategy):
    """The owner gave the frame back; the other one fails once, then has its three answers."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10, strategy=strategy)
    await rig.start()
    rig.delay_upstream(seconds(15))
    frame = await rig.craft(device, confirmed=True)
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(12))
    rig.refuse_upstream()
    for _ in range(5):
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    rig.expect(
        frame,
        LOST_UPSTREAM + LOST + LOST_AGAIN + TAKEN_OVER + AGAIN * 2 + OVER,
        back="west", lost="east", lost2="east", taken="east", again="east", over="east",
    )  # fmt: skip


@pytest.mark.requires("slow application")
async def test_what_two_servers_could_not_deliver_is_new_once_more(rig, strategy, confirmed):
    """Each gave it back, and has not come as far: its retry is the frame that nobody has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    await rig.start()
    rig.refuse_upstream(2)
    frame = await rig.craft(device, confirmed=confirmed)
    for station in ("west", "east", "east"):
        await tell(rig, frame, station)
        await rig.wait(seconds(3))
    rig.expect(frame, LOST_UPSTREAM * 2 + OWNED, back=["west", "east"], owned="east")


@pytest.mark.requires("slow application")
async def test_what_was_given_back_is_new_for_another_server_after_a_minute_too(
    rig, strategy, confirmed
):
    """Nobody remembers the frame any more but the session of the server that was told of it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10, strategy=strategy)
    await rig.start()
    rig.delay_upstream(seconds(15))
    frame = await rig.craft(device, confirmed=confirmed)
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(75))
    await tell(rig, frame, "east")
    rig.expect(frame, LOST_UPSTREAM + LOST + OWNED, back="west", lost="east", owned="east")


@pytest.mark.requires("slow application")
async def test_what_was_given_back_twice_is_new_once_more(rig):
    """East takes it over when nobody remembers it, and cannot deliver it either: so it is new."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10)
    await rig.start()
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, device, "west", "east", after=seconds(75))
    rig.refuse_upstream(lns="lns-b")
    for _ in range(2):
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    words = LOST_UPSTREAM + LOST + LOST_UPSTREAM + OWNED
    rig.expect(frame, words, back=("west", "east"), lost="east", owned="east")


@pytest.mark.requires("slow application")
async def test_a_copy_that_waited_is_judged_as_if_nothing_came_meanwhile(rig, strategy):
    """Its first one is on its way to the application still, and a newer frame is through."""
    device = rig.provision("slow", f_cnt=10, strategy=strategy)
    await rig.start()
    rig.delay_upstream(seconds(3))
    frame = await rig.craft(device)
    await tell(rig, frame, "west", "east")
    await rig.wait(milliseconds(100))
    newer = await hear(rig, device, "west", after=seconds(5))
    rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect(newer, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_a_copy_of_what_all_refuse_is_refused(rig, strategy):
    """It waits for its first one, which is too far ahead for every server: that is no fate."""
    rig.put_on("lns-b", "north")
    device = rig.provision("ahead", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    before = await hear(rig, device, "west")
    rig.slow_store(milliseconds(200), "lns-a")
    frame = await rig.craft(device, f_cnt=20_000)
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(2))
    await rig.restore_store("lns-a")
    rig.expect(before, OWNED, owned="west")
    rig.expect(frame, TOO_FAR + FAR_COPY, far="west", copy="east")


@pytest.mark.fault("store", "away")
async def test_what_a_closed_server_dropped_has_not_advanced_its_counter(rig):
    """A device that never begins again: the same bytes are new when the store is back."""
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    rig.cut_store()
    frame = await hear(rig, device, "west")
    await rig.restore_store()
    await tell(rig, frame, "west")
    rig.expect(before, OWNED, owned="west")
    rig.expect(frame, DROPPED + OWNED, dropped="west", owned="west")


@pytest.mark.fault("store", "slow")
async def test_a_copy_takes_the_place_of_a_first_one_that_the_store_lost(rig, strategy):
    """Nobody can say whose the frame is in time: each of its copies is a first one."""
    rig.put_on("lns-a", "south")
    rig.put_on("lns-b", "north")
    rig.on_outage("closed")
    device = rig.provision("slow", f_cnt=10, strategy=strategy)
    await rig.start()
    rig.slow_store(seconds(1), "lns-a")
    frame = await rig.craft(device, confirmed=True)
    stations = ("west", "east", "south")
    for station in stations:
        await rig.say(rig.told(frame, by=station), by=station)
    await rig.wait(seconds(2))
    await rig.restore_store("lns-a")
    rig.expect(frame, REFUSED * 3, refused=stations)


@pytest.mark.fault("store", "slow")
async def test_a_first_message_whose_reply_was_late_is_new_when_it_comes_again(rig, confirmed):
    """It was granted and nobody heard so: nothing of it was delivered, and nothing was asked."""
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.slow_store(milliseconds(400), "lns-a")
    first = await hear(rig, device, "west", f_cnt=0, f_opts=b"\x02", confirmed=confirmed)
    await rig.restore_store("lns-a")
    await tell(rig, first, "west")
    await rig.wait(seconds(3))
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1-0"
    rig.expect(before, OWNED, owned="west")
    rig.expect(first, REFUSED + ASKED, refused="west", asked="west")
    rig.expect_upstream(first, through="west", messageId=key)


async def expect_two_more_answers(rig, before, first):
    """The first message comes four times more; one answer of its three was given."""
    for _ in range(4):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    due = OWNED + EXPIRED + AGAIN * 2 + OVER
    rig.expect(first, due, owned="west", again="west", over="west")


@pytest.mark.fault("lns", "restart")
async def test_a_first_message_after_a_restart_counts_as_a_repeated_one(rig):
    """It was claimed before: this answer is one of the three that are left."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=0, confirmed=True)
    await rig.restart_lns()
    await expect_two_more_answers(rig, before, first)


@pytest.mark.fault("store", "away")
@pytest.mark.requires("slow application")
async def test_what_is_too_far_for_all_tells_how_far_they_are(rig):
    """West has asked, and was refused; without the store it takes what is near to them.

    Nobody has kept that yet: east waits for its application still.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", "east")
    rig.delay_upstream(seconds(8), lns="lns-b")
    theirs = await hear(rig, device, "east", f_cnt=16_000, after=seconds(1))
    far = await hear(rig, device, "west", f_cnt=40_000, after=seconds(1))
    rig.cut_store("lns-a")
    near = await hear(rig, device, "west", f_cnt=32_000, after=seconds(8))
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(theirs, OWNED, owned="east")
    rig.expect(far, TOO_FAR, far="west")
    rig.expect(near, UNVERIFIED, unverified="west")


async def test_what_was_heard_without_the_store_was_heard(rig):
    """West has been told that others are farther; what it forwards alone it does not do twice."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10)
    before, newest = [await hear(rig, device, "east", f_cnt=f_cnt) for f_cnt in (10, 12)]
    await tell(rig, before, "west")
    await rig.wait(seconds(1))
    rig.cut_store("lns-a")
    alone = await hear(rig, device, "west", f_cnt=11, after=seconds(61))
    await tell(rig, alone, "west")
    rig.expect(before, OWNED + LOST, owned="east", lost="west")
    rig.expect(newest, OWNED, owned="east")
    rig.expect(alone, UNVERIFIED + EXPIRED, unverified="west", again="west")
    # It may have gone up elsewhere; no life begins with such a counter.
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-11"
    mic = alone.phy[-4:].hex().upper()
    rig.expect_upstream(alone, through="west", removeDuplicatesKey=f"{key}.{mic}")


@pytest.mark.requires("slow application")
async def test_what_is_given_back_after_an_outage_is_new(rig, strategy):
    """East has not been told whose the frame before was; this one it was refused."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    await rig.start()
    rig.cut_store("lns-b")
    before = await hear(rig, device, "east")
    await rig.restore_store("lns-b")
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, device, "west", "east", confirmed=True, after=seconds(12))
    await tell(rig, frame, "east")
    rig.expect(before, UNVERIFIED, unverified="east")
    rig.expect(frame, LOST_UPSTREAM + LOST + TAKEN_OVER, back="west", lost="east", taken="east")


@pytest.mark.requires("slow application")
async def test_what_was_refused_after_an_outage_is_new_when_it_is_given_back(rig, strategy):
    """Nobody could tell whose it is, and then it was another's: the last word is what counts."""
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    await rig.start()
    rig.cut_store("lns-b")
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, device, "west", "east", confirmed=True, after=seconds(1))
    await rig.restore_store("lns-b")
    await tell(rig, frame, "east")
    await rig.wait(seconds(12))
    await tell(rig, frame, "east")
    words = LOST_UPSTREAM + REFUSED + LOST + TAKEN_OVER
    rig.expect(frame, words, back="west", refused="east", lost="east", taken="east")


async def test_what_nobody_could_claim_makes_no_other_first_message_new(rig):
    """Its counter is the same, and nothing else: the other one was delivered before a restart."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=0, confirmed=True)
    await rig.restart_lns()
    rig.cut_store()
    other = await hear(rig, device, "west", f_cnt=0, payload=b"other", confirmed=True)
    await rig.restore_store()
    await expect_two_more_answers(rig, before, first)
    rig.expect(other, UNVERIFIED, unverified="west")


@pytest.mark.fault("lns", "restart")
async def test_a_first_message_that_asks_for_nothing_uses_up_no_answer(rig):
    """However often its server begins anew: it is a retry each time."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=0)
    for _ in range(4):
        await rig.restart_lns()
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(first, OWNED * 5, owned=("west",) * 5)


# --- downlink counters ----------------------------------------------------------------------------


async def test_servers_take_turns_with_the_counters_of_a_joined_device(rig):
    """Each answer has the next one, whoever gave the one before."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    rig.expect(join, FIRST, first="west")
    for f_cnt, station in enumerate(("west", "east", "west", "east")):
        rig.only(station)
        uplink = await rig.bravo.send(confirmed=True)
        rig.expect(uplink, OWNED, owned=station)
        rig.expect_answer(uplink, f_cnt=f_cnt)
        rig.expect_reply(uplink)


@pytest.mark.parametrize("activation", ["abp", "otaa"])
@pytest.mark.fault("store", "slow")
async def test_what_the_application_asks_for_in_mid_claim_has_a_counter_of_its_own(rig, activation):
    """The claim took none, for nothing was to be sent when it was made."""
    rig.put_on("lns-b", "east")
    known = {"f_cnt": 10} if activation == "abp" else {}
    device = rig.provision("asked", activation=activation, **known)
    rig.only("west")
    if activation == "otaa":
        rig.expect(await device.join(), FIRST, first="west")
    rig.slow_store(milliseconds(100), "lns-a")
    frame = await hear(rig, device, "west", after=milliseconds(50))
    await rig.queue_downlink(device, payload=b"on", port=9)
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    after = [
        await hear(rig, device, station, confirmed=True) for station in ("east", "west", "east")
    ]
    rig.expect(frame, WITH_DOWNLINK, first="west")
    rig.expect_answer(frame, f_port=9, f_cnt=0)
    for f_cnt, uplink in enumerate(after, start=1):
        rig.expect(uplink, OWNED, owned="west" if f_cnt == 2 else "east")
        rig.expect_answer(uplink, f_cnt=f_cnt)


@pytest.mark.requires("slow application")
async def test_who_lost_the_session_in_mid_answer_sends_nothing(rig):
    """The application asks when the claim is granted; the other server owns a newer frame then."""
    rig.put_on("lns-b", "east")
    await rig.start()
    rig.delay_upstream(milliseconds(300))
    frame = await hear(rig, rig.alpha, "west", after=milliseconds(100))
    newer = await hear(rig, rig.alpha, "east", after=milliseconds(50))
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    await rig.wait(seconds(3))
    after = await hear(rig, rig.alpha, "west")
    rig.expect(frame, NOT_SENT, unsent="west")
    rig.expect_on_air(frame)
    rig.expect(newer, OWNED, owned="east")
    rig.expect(after, WITH_DOWNLINK, first="west")
    rig.expect_answer(after, f_port=9)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_who_has_missed_frames_takes_a_counter_beyond_their_answers(rig):
    """The store has forgotten how many there were: the device takes only what is newer."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10)
    rig.only("west")
    answered = [await device.send(confirmed=True) for _ in range(2)]
    await rig.restart_store(empty=True)
    rig.only("east")
    there = await device.send(confirmed=True)
    for uplink, station in [*((uplink, "west") for uplink in answered), (there, "east")]:
        rig.expect(uplink, OWNED, owned=station)
        rig.expect_reply(uplink)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_server_knows_its_counters_better_than_a_store_that_forgot_them(rig):
    """Many downlinks without an uplink between them: the other server cannot guess how many."""
    rig.put_on("lns-b", "east")
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    for number in range(9):
        await rig.queue_downlink(always, payload=bytes([number]), port=8)
    await rig.wait(seconds(20))
    await rig.restart_store(empty=True)
    rig.only("east")
    elsewhere = await always.send()
    rig.only("west")
    after = await always.send(confirmed=True)
    for number in range(9):
        rig.expect_downlink(always, bytes([number]), port=8, window="C")
    for uplink, station in ((before, "west"), (elsewhere, "east"), (after, "west")):
        rig.expect(uplink, OWNED, owned=station)
    rig.expect_reply(after)


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_a_server_knows_the_counters_of_others_that_it_has_read(rig):
    """It looked a forged frame up before the store forgot: no claim had told it of so many.

    It leaves four out, which the frame that it did not own may have cost.
    """
    rig.put_on("lns-b", "east")
    always = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    before = await hear(rig, always, "west", "east")
    for number in range(9):
        await rig.queue_downlink(always, payload=bytes([number]), port=8)
    await rig.wait(seconds(20))
    await rig.forge(always, by="east")
    await rig.restart_store(empty=True)
    after = await hear(rig, always, "east", confirmed=True)
    for number in range(9):
        rig.expect_downlink(always, bytes([number]), port=8, window="C")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(after, OWNED, owned="east")
    rig.expect_answer(after, f_cnt=13)


async def test_whoever_answers_next_counts_on_behind_what_was_sent_unasked(rig):
    """It has heard nothing of that; the store has counted it."""
    rig.put_on("lns-b", "east")
    always = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    before = await hear(rig, always, "west", "east", confirmed=True)
    for number in range(3):
        await rig.queue_downlink(always, payload=bytes([number]), port=8)
    await rig.wait(seconds(20))
    after = await hear(rig, always, "east", confirmed=True)
    for number in range(3):
        rig.expect_downlink(always, bytes([number]), port=8, window="C")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(after, OWNED, owned="east")
    rig.expect_answer(after, f_cnt=4)


async def test_a_device_of_one_server_goes_on_with_its_counter_after_a_restart(rig):
    """What a server keeps in a store beside others is its own newest, not what was there."""
    rig.put_on("lns-b", "east")
    device = rig.provision("pinned", f_cnt=10, server="lns-a", relaxed_f_cnt=False)
    rig.only("west")
    uplinks = [await device.send(confirmed=True) for _ in range(3)]
    await rig.restart_lns()
    uplinks.append(await device.send(confirmed=True))
    for f_cnt, uplink in enumerate(uplinks):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_answer(uplink, f_cnt=f_cnt)
        rig.expect_reply(uplink)


async def test_an_empty_queue_asks_for_no_counter(rig):
    """What the application wanted has been said: later uplinks ask for nothing, and get nothing."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    await rig.queue_downlink(rig.bravo, payload=b"on", port=9)
    told = await rig.bravo.send()
    silent = [await rig.bravo.send() for _ in range(2)]
    asking = await rig.bravo.send(confirmed=True)
    rig.expect(join, FIRST, first="west")
    rig.expect(told, WITH_DOWNLINK, first="west")
    rig.expect_answer(told, f_cnt=0, f_port=9)
    for uplink in silent:
        rig.expect(uplink, FIRST, first="west")
    rig.expect(asking, FIRST, first="west")
    rig.expect_answer(asking, f_cnt=1)


# --- when a server asks ---------------------------------------------------------------------------


@pytest.mark.fault("store", "slow")
async def test_a_device_of_one_server_waits_for_no_store_after_a_day(rig):
    """Nobody else can have heard it; a shared one is looked up, which takes its time."""
    rig.put_on("lns-b", "east")
    facts = {"f_cnt": 10, "relaxed_f_cnt": False}
    pinned = rig.provision("pinned", server="lns-a", **facts)
    shared = rig.provision("shared", **facts)
    clock = await hear(rig, pinned, "west")
    await rig.wait(minutes(24 * 60))
    await hear(rig, shared, "west")
    rig.slow_store(milliseconds(150), "lns-a")
    frame = await rig.craft(pinned, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(500))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(clock, FIRST, first="west")
    rig.expect(frame, FIRST, first="west")


async def test_nobody_is_asked_whose_a_repeat_is_that_goes_nowhere(rig, strategy):
    """A first message once more: with Drop it is neither delivered nor answered."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=0)
    await tell(rig, first, "west")
    rig.expect(before, OWNED, owned="west")
    rig.expect(first, OWNED + FIRST_AGAIN, owned="west", again="west")


async def test_the_seventeenth_counter_with_copies_takes_no_number_from_the_first(rig, strategy):
    """Copies of a first message may come late: each of them has an id of its own."""
    device = rig.provision("relaxed", strategy=strategy)
    first = await hear(rig, device, "west", "east", f_cnt=1, after=milliseconds(500))
    others = [
        await hear(rig, device, "west", "east", f_cnt=f_cnt, after=milliseconds(500))
        for f_cnt in range(2, 20)
    ]
    await tell(rig, first, "east")
    rig.expect(first, FIRST + COPY * 2, first="west", copy="east")
    for frame in others:
        rig.expect(frame, FIRST + COPY, first="west", copy="east")


async def test_a_counter_whose_copies_still_come_keeps_its_number(rig):
    """Of sixteen counters the one leaves whose copy came longest ago, and not the lowest one."""
    device = rig.provision("relaxed", f_cnt=9)
    before = [
        await hear(rig, device, "west", "east", f_cnt=f_cnt, after=milliseconds(500))
        for f_cnt in range(9, 25)
    ]
    begun = [await hear(rig, device, "west", f_cnt=0)]
    await tell(rig, before[0], "east")
    begun.append(await hear(rig, device, "west", "east", f_cnt=2))
    await tell(rig, before[0], "east")
    rig.expect(before[0], FIRST + COPY * 3, first="west", copy="east")
    for frame in before[1:]:
        rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect(begun[0], FIRST, first="west")
    rig.expect(begun[1], FIRST + COPY, first="west", copy="east")


@pytest.mark.requires("virtual time")
async def test_a_late_copy_of_a_life_before_has_a_number_behind_fifteen_others(rig):
    """The device has begun again since: so much of the life before may still be on its way."""
    device = rig.provision("relaxed", f_cnt=9)
    before = [
        await hear(rig, device, "west", "east", f_cnt=f_cnt, after=milliseconds(500))
        for f_cnt in range(9, 26)
    ]
    begun = await hear(rig, device, "west", f_cnt=0)
    await tell(rig, before[1], "east")
    rig.expect(before[1], FIRST + COPY * 2, first="west", copy="east")
    for frame in (before[0], *before[2:]):
        rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect(begun, FIRST, first="west")
