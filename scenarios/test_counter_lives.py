"""A relaxed counter that begins again, or seems to: one life of a session for all servers."""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    ASKED,
    COPY,
    ELSEWHERE,
    ELSEWHERE_AGAIN,
    EXPIRED,
    FIRST,
    FORGED,
    LOST,
    LOST_UPSTREAM,
    OWNED,
    TAKEN_OVER,
    UNVERIFIED,
)
from scenarios.words import REFUSED as NOT_TAKEN

# A frame of the life before, bit by bit, in the life that began since: a first message once more.
AGAIN = Table("""
    strategy kind        | again
    Drop     confirmed   | DuplicateDueToResubmission dropped(ResubmissionSuppressed) RX1
    Mark     confirmed   | DuplicateDueToResubmission marked RX1
    None     confirmed   | DuplicateDueToResubmission forwarded RX1
    Drop     unconfirmed | DuplicateDueToResubmission dropped(ResubmissionSuppressed) NotAsked
    Mark     unconfirmed | DuplicateDueToResubmission marked NotAsked
    None     unconfirmed | DuplicateDueToResubmission forwarded NotAsked
""")
REFUSED = Table("""
    strategy kind        | first
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
OLD = Table("""
    strategy kind        | old
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed NotAsked
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked NotAsked
""")
KNOWN = Table("""
    strategy kind        | known
    *        confirmed   | NonDuplicate forwarded RX1 Owner
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked Owner
""")
UNVERIFIED_AGAIN = Table("""
    strategy kind      | again
    Drop     confirmed | DuplicateDueToResubmission dropped(ResubmissionSuppressed) Suppressed
    Mark     confirmed | DuplicateDueToResubmission marked Suppressed
    None     confirmed | DuplicateDueToResubmission forwarded Suppressed
""")
REFUSED_AGAIN = Table("""
    strategy kind        | refused
    *        unconfirmed | DuplicateDueToResubmission dropped(UpstreamUnavailable) NotAsked Owner
""")
FAR = pytest.mark.parametrize("f_cnt", [5_001, 20_001, 200_001])


def key_of(device, f_cnt, life=0):
    """The key that all copies of a frame share."""
    begun = f".{life}" if life else ""
    return f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}{begun}-{f_cnt}"


@FAR
async def test_a_replayed_first_message_mutes_nobody(rig, strategy, confirmed, f_cnt):
    """It counts as a restart; the next frame takes the session back to the life it continues."""
    device = rig.provision("relaxed", strategy=strategy, f_cnt=f_cnt)
    rig.only("west")
    before = await device.send(confirmed=confirmed)
    old = await rig.craft(device, f_cnt=0)
    await rig.say(rig.told(old, by="west"), by="west")
    after = [await device.send(confirmed=confirmed) for _ in range(2)]
    for uplink in (before, old, *after):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_upstream(old, through="west", removeDuplicatesKey=key_of(device, 0, life=1))
    for uplink in after:
        rig.expect_reply(uplink)
        key = key_of(device, uplink.f_cnt)
        rig.expect_upstream(uplink, through="west", messageId=key, removeDuplicatesKey=key)


@FAR
async def test_a_replay_to_one_server_mutes_nobody_at_the_other(rig, strategy, confirmed, f_cnt):
    """Both servers know of the life that went on, whichever of them hears the next frame."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    device = rig.provision("relaxed", strategy=strategy, f_cnt=f_cnt)
    before = await device.send(confirmed=confirmed)
    old = await rig.craft(device, f_cnt=0)
    await rig.say(rig.told(old, by="east"), by="east")
    after = await device.send(confirmed=confirmed)
    rig.only("east")
    last = await device.send(confirmed=confirmed)
    for uplink in (before, after):
        rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    for uplink in (old, last):
        rig.expect(uplink, FIRST, first="east")
    for uplink in (after, last):
        rig.expect_upstream(
            uplink, through="east", removeDuplicatesKey=key_of(device, uplink.f_cnt)
        )


async def test_a_restart_that_one_server_heard_is_one_for_the_other(rig, strategy, confirmed):
    """The other one has heard the same counter in the life before: equal to it, and yet new."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    device = rig.provision("relaxed", strategy=strategy)
    both = ("west", "east")
    rig.heard_by(both, both, both, "west", "west", "east")
    before = [await device.send(b"old", confirmed=confirmed) for _ in range(3)]
    await device.restart(memory=False)
    here = [await device.send(b"new", confirmed=confirmed) for _ in range(2)]
    there = await device.send(b"new", confirmed=confirmed)
    for uplink in before:
        rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    for uplink in here:
        rig.expect(uplink, FIRST, first="west")
    rig.expect(there, FIRST, first="east")
    rig.expect_reply(there)


async def test_the_copies_of_a_restart_have_one_key(rig, strategy, confirmed):
    """Whichever server hears of it first."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", strategy=strategy, f_cnt=5)
    rig.only("west", "east")
    rig.east.delay_uplinks(milliseconds(150))
    before = await device.send(b"old", confirmed=confirmed)
    await device.restart(memory=False)
    rig.west.delay_uplinks(milliseconds(400))
    after = [await device.send(b"new", confirmed=confirmed) for _ in range(2)]
    rig.expect(before, FIRST + ELSEWHERE, first="west", elsewhere="east")
    for uplink in after:
        rig.expect(uplink, FIRST + ELSEWHERE, first="east", elsewhere="west")
        for station in ("west", "east"):
            key = key_of(device, uplink.f_cnt, life=1)
            rig.expect_upstream(uplink, through=station, removeDuplicatesKey=key)


async def test_an_equal_frame_of_the_next_life_is_a_first_message(rig, strategy, confirmed):
    """Its counter is newer than that of the life it is in, though level 1 has heard it before."""
    device = rig.provision("relaxed", strategy=strategy)
    rig.only("west")
    for payload in (b"old", b"old", b"old"):
        await device.send(payload, confirmed=confirmed)
    equal = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    for payload in (b"new", b"new", b"new"):
        await device.send(payload, confirmed=confirmed)
    await device.send(b"21.5 C", confirmed=confirmed)
    after = await device.send(b"new", confirmed=confirmed)
    rig.expect(equal, FIRST + AGAIN, first="west", again="west")
    rig.expect(after, FIRST, first="west")


@pytest.mark.requires("slow application")
async def test_a_newer_frame_makes_no_copy_old_that_waits(rig, strategy, confirmed):
    """A copy waits for the fate of its first one, which the application takes its time for."""
    rig.delay_upstream(milliseconds(300))
    waits = await rig.craft(rig.alpha, confirmed=confirmed)
    newer = await rig.craft(rig.alpha, confirmed=confirmed)
    for frame, station in ((waits, "west"), (waits, "east"), (newer, "west")):
        await rig.say(rig.told(frame, by=station), by=station)
        await rig.wait(milliseconds(20))
    rig.expect(waits, FIRST + COPY, first="west", copy="east")
    rig.expect(newer, FIRST, first="west")


@pytest.mark.requires("virtual time")
async def test_restarts_in_turn_are_lives_of_one_session(rig, strategy, confirmed):
    """Three restarts, each heard by the other server first: every life has its number and keys."""
    rig.put_on("lns-b", "east", "south")
    device = rig.provision("relaxed", strategy=strategy, f_cnt=5)
    stations = ("west", "east", "north", "south")
    rig.station("north")
    lives = []
    for life, station in enumerate(stations):
        if life:
            await device.restart(memory=False)
        rig.only(station)
        uplinks = [await device.send(b"%d" % life, confirmed=confirmed) for _ in range(2)]
        lives.append((life, station, uplinks))
    for life, station, uplinks in lives:
        for uplink in uplinks:
            rig.expect(uplink, FIRST, first=station)
            rig.expect_reply(uplink)
            key = key_of(device, uplink.f_cnt, life)
            rig.expect_upstream(uplink, through=station, removeDuplicatesKey=key)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("lns", "restart")
async def test_a_restart_is_one_for_a_server_that_restarted_itself(rig, strategy, confirmed):
    """It reads in the store how far the life before came, and that it is over."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", strategy=strategy, f_cnt=500)
    rig.only("west")
    before = await device.send(b"old", confirmed=confirmed)
    await device.restart(memory=False)
    here = await device.send(b"new", confirmed=confirmed)
    await rig.restart_lns(lns="lns-b")
    rig.only("east")
    there = await device.send(b"new", confirmed=confirmed)
    for uplink, station in ((before, "west"), (here, "west"), (there, "east")):
        rig.expect(uplink, FIRST, first=station)
        rig.expect_reply(uplink)
    rig.expect_upstream(there, through="east", removeDuplicatesKey=key_of(device, there.f_cnt, 1))


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("by", ["west", "east"])
async def test_the_same_first_measurement_within_a_minute_is_a_copy_for_all(
    rig, strategy, confirmed, by
):
    """Equal bytes a moment later: nobody can tell a restart from a copy, whichever server hears it.

    At the server that heard them first they are a first message once more (ADR 007).
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", strategy=strategy)
    rig.heard_by("west", by)
    first = await device.send(b"21.5 C", confirmed=confirmed)
    await device.restart(memory=False)
    await device.send(b"21.5 C", confirmed=confirmed)
    rig.heard_by("west")
    after = await device.send(b"22.0 C", confirmed=confirmed)
    if by == "west":
        rig.expect(first, FIRST + AGAIN, first="west", again="west")
    else:
        rig.expect(first, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect(after, FIRST, first="west")


@pytest.mark.parametrize(("lives", "less", "into"), [(8, 10, 0), (9, 10, 1), (9, 0, 0)])
async def test_a_session_goes_back_to_one_of_its_last_eight_lives(rig, lives, less, into):
    """Each came less far than the one before; of nine the oldest is forgotten.

    Of those that came as far as each other one counts.
    """
    device = rig.provision("relaxed", f_cnt=500)
    counters = [f_cnt for life in range(1, lives) for f_cnt in (0, 400 - less * life)]
    frames = []
    for number, f_cnt in enumerate([500, *counters, 0, 501]):
        frame = await rig.craft(device, f_cnt=f_cnt, payload=bytes([number]))
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(100))
        frames.append(frame)
    for frame in frames:
        rig.expect(frame, FIRST, first="west")
    key = key_of(device, 501, life=into)
    rig.expect_upstream(frames[-1], through="west", removeDuplicatesKey=key)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("servers", [1, 2])
async def test_lives_before_the_one_that_goes_on_stay_and_those_after_it_are_over(rig, servers):
    """A life goes on, then one before it; what begins next has a number that no life ever had."""
    if servers == 2:
        rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500)
    lives = [(500, 0), (0, 1), (400, 1), (0, 2), (401, 1), (501, 0), (502, 0), (1, 3), (503, 0)]
    for number, (f_cnt, life) in enumerate(lives):
        by = "east" if life == 2 else "west"
        frame = await rig.craft(device, f_cnt=f_cnt, payload=bytes([number]))
        await rig.say(rig.told(frame, by=by), by=by)
        key = key_of(device, f_cnt, life=life)
        rig.expect_upstream(frame, through=by, removeDuplicatesKey=key)
        if f_cnt <= 1:
            rig.expect(frame, FIRST, first=by)
            await rig.wait(seconds(1))
            continue
        await rig.replay(frame, by=by, after=seconds(60))
        rig.expect(frame, FIRST + EXPIRED, first=by, again=by)


@pytest.mark.parametrize("ahead", [16_384, 16_385])
async def test_a_life_goes_on_as_far_as_its_own_counter_lets_it(rig, ahead):
    """MAX_FCNT_GAP beyond where that life ended, however short the lives after it were."""
    device = rig.provision("relaxed", f_cnt=20_000)
    frames = []
    for number, f_cnt in enumerate((20_000, 0, 100, 0, 20_000 + ahead)):
        frame = await rig.craft(device, f_cnt=f_cnt, payload=bytes([number]))
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(100))
        frames.append(frame)
    *before, far = frames
    for frame in before:
        rig.expect(frame, FIRST, first="west")
    rig.expect(far, FIRST if ahead == 16_384 else REFUSED, first="west")


async def test_an_equal_frame_of_the_next_life_is_the_newest_one(rig, strategy):
    """The device has begun again and said the same: what has a lower counter is older than that."""
    device = rig.provision("relaxed", strategy=strategy, f_cnt=5)
    frames = [await rig.craft(device, f_cnt=f_cnt, payload=b"same") for f_cnt in (5, 0)]
    frames.append(await rig.craft(device, f_cnt=4, payload=b"another"))
    for frame in (frames[0], frames[1], frames[0], frames[2]):
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(seconds(1))
    rig.expect(frames[0], FIRST + AGAIN, first="west", again="west")
    rig.expect(frames[1], FIRST, first="west")
    rig.expect(frames[2], REFUSED, first="west")


@pytest.mark.requires("virtual time")
async def test_a_copy_of_what_was_old_in_a_life_before_is_of_that_life(rig):
    """It was refused when it came first; in the life that began since it would be new."""
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west")
    old = await hear(rig, device, "west", f_cnt=5, payload=b"old")
    begun = await hear(rig, device, "west", f_cnt=0)
    await tell(rig, old, "east")
    await rig.wait(seconds(1))
    for frame in (before, begun):
        rig.expect(frame, FIRST, first="west")
    rig.expect(old, EXPIRED + COPY, again="west", copy="east")
    name = f"{key_of(device, 5)}.{old.phy[-4:].hex().upper()}"
    rig.expect_upstream(old, through="east", removeDuplicatesKey=name)


@pytest.mark.requires("virtual time")
async def test_a_frame_of_a_life_before_is_not_new_at_its_owner(rig, strategy):
    """It owned that life and began the next one, which goes on at another server."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    before = await hear(rig, device, "west", confirmed=True)
    begun = await hear(rig, device, "west", f_cnt=0, payload=b"new")
    there = await hear(rig, device, "east", f_cnt=1, payload=b"new")
    await tell(rig, before, "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "east", f_cnt=2, payload=b"new")
    rig.expect(before, OWNED + ELSEWHERE_AGAIN, owned="west", theirs="west")
    rig.expect(begun, OWNED, owned="west")
    for frame in (there, after):
        rig.expect(frame, OWNED, owned="east")


@pytest.mark.requires("virtual time")
async def test_a_copy_of_what_another_server_owned_is_of_the_life_that_it_had_there(rig, strategy):
    """Refused as old when it came first; in the life that began since, a copy is let through."""
    rig.put_on("lns-b", "east", "north")
    device, _ = rig.provision("relaxed", f_cnt=5, strategy=strategy), rig.north
    frame = await hear(rig, device, "west", f_cnt=5)
    newer = await hear(rig, device, "east", f_cnt=6)
    await tell(rig, frame, "east")
    begun = await hear(rig, device, "east", f_cnt=0)
    await tell(rig, frame, "north")
    await rig.wait(seconds(1))
    for one in (newer, begun):
        rig.expect(one, OWNED, owned="east")
    rig.expect(frame, OWNED + EXPIRED + COPY, owned="west", again="east", copy="north")
    if strategy != "Drop":
        rig.expect_upstream(frame, through="north", removeDuplicatesKey=key_of(device, 5))


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_what_was_granted_too_late_is_known_when_it_comes_again(rig, confirmed):
    """Of a life that only the other server heard of: the store says so when a minute is over."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west")
    begun = await hear(rig, device, "east", f_cnt=0)
    rig.slow_store(seconds(1), "lns-a")
    frame = await hear(rig, device, "west", f_cnt=3, confirmed=confirmed)
    await rig.restore_store("lns-a")
    await rig.wait(seconds(61))
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(begun, OWNED, owned="east")
    rig.expect(frame, OLD + KNOWN, old="west", known="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "away")
@pytest.mark.parametrize("learns", ["of its frame", "of a stranger"])
async def test_a_life_has_the_number_that_all_servers_together_give_it(rig, learns):
    """One began and was over elsewhere; who learns that later begins none of its number alone."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.cut_store("lns-a")
    alone = await hear(rig, device, "west", f_cnt=510, confirmed=True)
    there = [await hear(rig, device, "east", f_cnt=f_cnt) for f_cnt in (0, 505)]
    await rig.restore_store("lns-a")
    if learns == "of its frame":
        await tell(rig, alone, "west")
        await rig.wait(seconds(3))
    else:
        await rig.forge(device, by="west")
    rig.cut_store("lns-a")
    begun = await hear(rig, device, "west", f_cnt=0, payload=b"anew")
    rig.expect(before, OWNED, owned="west")
    due = UNVERIFIED + AGAIN if learns == "of its frame" else UNVERIFIED
    rig.expect(alone, due, unverified="west", **({"again": "west"} if due != UNVERIFIED else {}))
    for frame in there:
        rig.expect(frame, OWNED, owned="east")
    rig.expect(begun, UNVERIFIED, unverified="west")
    rig.expect_upstream(begun, through="west", removeDuplicatesKey=key_of(device, 0, life=2))


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "partition")
async def test_a_life_that_began_and_was_over_without_the_store_is_counted_there(rig):
    """What it knows is newer than what the server brings that was alone, but for the number."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west", "east")
    rig.cut_store("lns-a")
    alone = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 505)]
    there = await hear(rig, device, "east", f_cnt=510)
    await rig.restore_store("lns-a")
    late = await hear(rig, device, "west", f_cnt=507)
    told = await hear(rig, device, "west", f_cnt=511)
    begun = await hear(rig, device, "east", f_cnt=0, payload=b"anew")
    rig.expect(before, OWNED + ELSEWHERE, owned="west", elsewhere="east")
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect(late, LOST, lost="west")
    rig.expect(told, OWNED, owned="west")
    for frame in (there, begun):
        rig.expect(frame, OWNED, owned="east")
    rig.expect_upstream(begun, through="east", removeDuplicatesKey=key_of(device, 0, life=2))


@pytest.mark.requires("virtual time")
async def test_who_learns_that_a_life_before_goes_on_hears_what_came_late_for_the_first_time(rig):
    """It is old in the life that is over, and in the one that goes on it is another server's."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    both = [await hear(rig, device, "west", "east", f_cnt=f_cnt) for f_cnt in (500, 0, 5)]
    back = await hear(rig, device, "west", f_cnt=501)
    late = await hear(rig, device, "east", f_cnt=3)
    for frame in both:
        rig.expect(frame, OWNED + LOST, owned="west", lost="east")
    rig.expect(back, OWNED, owned="west")
    rig.expect(late, LOST, lost="east")


HISTORIES = {
    "one": ((500,), (510,), (0, 1), ((505, 1), (511, 0))),
    "farther here": ((500,), (510,), (520, 0, 1), ((515, 1), (521, 0))),
    "the middle one": ((1_000, 0, 600, 0, 300), (610,), (0, 1), ((305, 2), (1_001, 0))),
    "two there": ((1_000,), (1_010, 0, 5), (1, 0, 1), ((1_005, 1), (1_011, 0))),
}
"""What both servers hear, then one of them, then the other; then what, and of which life it is."""


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "partition")
@pytest.mark.parametrize(("both", "there", "alone", "after"), HISTORIES.values(), ids=HISTORIES)
async def test_how_far_a_former_life_came_is_known_from_all_servers(rig, both, there, alone, after):
    """One went on with it alone, the other began the next one without the store."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=both[0])
    payloads = (bytes([number]) for number in range(99))
    for f_cnt in both:
        frame = await hear(rig, device, "west", "east", f_cnt=f_cnt, payload=next(payloads))
        rig.expect(frame, OWNED + ELSEWHERE, owned="west", elsewhere="east")
    rig.cut_store("lns-a")
    for station, f_cnts, word in (("east", there, OWNED), ("west", alone, UNVERIFIED)):
        for f_cnt in f_cnts:
            frame = await hear(rig, device, station, f_cnt=f_cnt, payload=next(payloads))
            rig.expect(frame, word, **{"owned" if word is OWNED else "unverified": station})
    await rig.restore_store("lns-a")
    told = await hear(rig, device, "west", f_cnt=2)
    rig.expect(told, OWNED, owned="west")
    for f_cnt, life in after:
        frame = await hear(rig, device, "east", f_cnt=f_cnt, payload=next(payloads))
        rig.expect(frame, OWNED, owned="east")
        key = key_of(device, f_cnt, life=life)
        rig.expect_upstream(frame, through="east", removeDuplicatesKey=key)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "partition")
async def test_a_life_that_came_less_far_than_the_next_one_is_over(rig):
    """It went on at another server meanwhile: what lies between them is old."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=1)
    before = await hear(rig, device, "west", "east", payload=b"old")
    rig.cut_store("lns-a")
    there = await hear(rig, device, "east", f_cnt=300)
    alone = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (1, 400)]
    await rig.restore_store("lns-a")
    told = await hear(rig, device, "west", f_cnt=401)
    between = await hear(rig, device, "west", f_cnt=350)
    rig.expect_upstream(told, through="west", removeDuplicatesKey=key_of(device, 401, life=1))
    rig.expect(before, OWNED + ELSEWHERE, owned="west", elsewhere="east")
    rig.expect(there, OWNED, owned="east")
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect(told, OWNED, owned="west")
    rig.expect(between, EXPIRED, again="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
async def test_two_lives_that_began_elsewhere_are_known_from_one_frame(rig):
    """East has heard the device in neither; without the store it goes on in the newest."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    both = await hear(rig, device, "west", "east")
    begun = [await hear(rig, device, "west", f_cnt=0, payload=b"%d" % n) for n in range(2)]
    one = await hear(rig, device, "east", f_cnt=1)
    rig.cut_store("lns-b")
    alone = await hear(rig, device, "east", f_cnt=2)
    rig.expect(both, OWNED + LOST, owned="west", lost="east")
    for frame in begun:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(one, OWNED, owned="east")
    rig.expect(alone, UNVERIFIED, unverified="east")
    rig.expect_upstream(alone, through="east", messageId=key_of(device, 2, life=2))


@pytest.mark.requires("virtual time")
async def test_a_device_tells_its_status_in_each_life(rig):
    """A consumer would take the later one for the same message, had it the same id."""
    device = rig.provision("relaxed", f_cnt=0)
    rig.only("west")
    lives = [(f_cnt, payload) for payload in (b"old", b"new") for f_cnt in (0, 1)]
    for f_cnt, payload in lives:
        facts = {"f_cnt": f_cnt, "payload": payload, "f_opts": b"\x06\xff\x20"}
        frame = await hear(rig, device, "west", **facts)
        rig.expect(frame, FIRST, first="west")
    rig.expect_status(device, times=4)


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("servers", [1, 2])
async def test_a_session_that_goes_back_forgets_all_lives_since(rig, confirmed, servers):
    """There were two: what is newer than the first of them is old yet in the life that goes on."""
    if servers == 2:
        rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    taken = [
        await hear(rig, device, "west", f_cnt=f_cnt, payload=bytes([n]), after=seconds(1))
        for n, f_cnt in enumerate((500, 0, 5, 1, 501))
    ]
    old = await hear(rig, device, "west", f_cnt=300, confirmed=confirmed)
    for frame in taken:
        rig.expect(frame, FIRST, first="west")
    rig.expect(old, OLD, old="west")


@pytest.mark.requires("virtual time", "slow application")
async def test_what_was_granted_stays_so_when_a_frame_of_another_life_is_taken_back(rig):
    """It went on in the life before, and nobody took it: the device is in the newest one yet."""
    device = rig.provision("twice", f_cnt=20, nb_trans=2)
    before = await hear(rig, device, "west", f_cnt=20)
    begun = await hear(rig, device, "west", f_cnt=0, adr=True)
    granted = await hear(rig, device, "west", f_cnt=1, adr=True, f_opts=b"\x03\x07")
    rig.refuse_upstream()
    lost = await hear(rig, device, "west", f_cnt=21)
    after = await hear(rig, device, "west", f_cnt=2, adr=True)
    rig.expect(begun, ASKED, asked="west")
    for frame in (before, granted, after):
        rig.expect(frame, FIRST, first="west")
    rig.expect(lost, NOT_TAKEN, refused="west")


@pytest.mark.requires("virtual time", "slow application")
async def test_what_was_heard_in_one_life_was_not_heard_in_the_next(rig, strategy):
    """West is told of that one, and takes back what it hears in it: all of it is new there."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    older = await hear(rig, device, "east", "west", f_cnt=12)
    begun, newest = [await hear(rig, device, "east", f_cnt=f_cnt) for f_cnt in (0, 5)]
    forged = await rig.forge(device, by="west")
    rig.refuse_upstream(lns="lns-a")
    lost = await hear(rig, device, "west", f_cnt=6)
    await tell(rig, newest, "west")
    rig.expect(older, OWNED + LOST, owned="east", lost="west")
    rig.expect(begun, OWNED, owned="east")
    rig.expect(newest, OWNED + LOST, owned="east", lost="west")
    rig.expect(forged, FORGED, forged="west")
    rig.expect(lost, LOST_UPSTREAM, back="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "away")
async def test_a_life_that_began_without_the_store_is_of_whoever_heard_it(rig):
    """The store learns of it with a repeat, which its server may answer; it owned the frame."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west", "east")
    rig.cut_store("lns-b")
    alone = await hear(rig, device, "east", f_cnt=0, confirmed=True)
    await rig.restore_store("lns-b")
    await tell(rig, alone, "east")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(alone, UNVERIFIED + TAKEN_OVER, unverified="east", taken="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("lns", "restart")
async def test_a_life_that_was_gone_back_to_is_the_newest_in_the_store_as_well(rig):
    """The other server has kept the life between; whoever restarts reads which is over."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west", "east")
    between = await hear(rig, device, "west", f_cnt=0)
    newest = await hear(rig, device, "east", f_cnt=501)
    await rig.restart_lns(lns="lns-b")
    await tell(rig, newest, "east")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(between, OWNED, owned="west")
    rig.expect(newest, OWNED + EXPIRED, owned="east", again="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "away")
async def test_a_first_message_that_is_repeated_without_the_store_begins_nothing(rig, strategy):
    """Nobody says whose it is, so it is not answered; the next frame is of the same life."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=0, confirmed=True)
    rig.cut_store("lns-a")
    await tell(rig, first, "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    after = await hear(rig, device, "west", f_cnt=2)
    for frame in (before, after):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(first, OWNED + UNVERIFIED_AGAIN, owned="west", again="west")
    rig.expect_upstream(after, through="west", removeDuplicatesKey=key_of(device, 2, life=1))


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("f_cnt, life", [(0x20000, 1), (0x50000, 0)])
async def test_the_session_goes_back_to_any_life_whatever_its_upper_half(rig, f_cnt, life):
    """On the air are 16 bits of a counter: each life that it may go on in is tried."""
    device = rig.provision("relaxed", f_cnt=0x4FFFF)
    counters = [0x4FFFF, 0, *(16_384 * step - 1 for step in range(1, 9)), 0]
    frames = [
        await hear(rig, device, "west", f_cnt=f_cnt, payload=b"%d" % number, after=seconds(1))
        for number, f_cnt in enumerate(counters)
    ]
    back = await hear(rig, device, "west", f_cnt=f_cnt)
    for frame in (*frames, back):
        rig.expect(frame, FIRST, first="west")
    rig.expect_upstream(back, through="west", messageId=key_of(device, f_cnt, life))


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
async def test_a_life_that_came_as_far_as_the_one_before_goes_on(rig):
    """Of the life before, the server that was cut off has heard only the beginning."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed")
    first = await hear(rig, device, "west", f_cnt=0, payload=b"old")
    rig.cut_store("lns-a")
    there = [await hear(rig, device, "east", f_cnt=n, payload=b"old") for n in range(1, 6)]
    alone = [await hear(rig, device, "west", f_cnt=n, payload=b"new") for n in range(6)]
    await rig.restore_store("lns-a")
    after = await hear(rig, device, "west", f_cnt=6, payload=b"new")
    for frame, station in [(first, "west"), *((one, "east") for one in there), (after, "west")]:
        rig.expect(frame, OWNED, owned=station)
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect_upstream(after, through="west", messageId=key_of(device, 6, life=1))


@pytest.mark.requires("slow application", "virtual time")
async def test_a_repeat_that_is_not_delivered_stays_that_of_its_server(rig):
    """A frame of the life before, bit by bit: level 1 has delivered it, so nobody else need."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=2)
    equal = await hear(rig, device, "west", f_cnt=2)
    begun = [await hear(rig, device, "west", f_cnt=n, payload=b"new") for n in (0, 1)]
    rig.refuse_upstream(lns="lns-a")
    await tell(rig, equal, "west")
    await rig.wait(seconds(1))
    await tell(rig, equal, "east")
    for frame in begun:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(equal, OWNED + REFUSED_AGAIN + LOST, owned="west", refused="west", lost="east")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
@pytest.mark.parametrize(("came", "life"), [(3, 2), (5, 1)])
async def test_a_life_outlives_those_before_that_came_no_farther(rig, came, life):
    """Cut off, west has counted and begun twice; the store knows of one life, which came to 5.

    So the next counter is none of the life that came to 3, nor of the one that came as far: both
    were over before.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed")
    first = await hear(rig, device, "west", f_cnt=0, payload=b"a")
    rig.cut_store("lns-a")
    alone = [await hear(rig, device, "west", f_cnt=n, payload=b"a") for n in range(1, came + 1)]
    there = [await hear(rig, device, "east", f_cnt=n, payload=b"b") for n in range(6)]
    alone += [
        await hear(rig, device, "west", f_cnt=n, payload=payload)
        for n, payload in ((0, b"c"), (0, b"d"), (1, b"d"))
    ]
    await rig.restore_store("lns-a")
    after = await hear(rig, device, "west", f_cnt=came + 1, payload=b"d")
    for frame, station in [(first, "west"), *((one, "east") for one in there), (after, "west")]:
        rig.expect(frame, OWNED, owned=station)
    for frame in alone:
        rig.expect(frame, UNVERIFIED, unverified="west")
    rig.expect_upstream(after, through="west", messageId=key_of(device, came + 1, life=life))


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
async def test_an_answer_that_was_under_way_counts_no_life_back(rig):
    """The store gave it before the device began again, and has not heard of that yet."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west", "east")
    rig.slow_store(milliseconds(150), "lns-a")
    slow = await hear(rig, device, "west", after=milliseconds(50))
    rig.cut_store("lns-a")
    begun = [await hear(rig, device, "west", f_cnt=f_cnt, payload=b"new") for f_cnt in (1, 0)]
    await rig.restore_store("lns-a")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(slow, OWNED, owned="west")
    for life, frame in enumerate(begun, 1):
        rig.expect(frame, UNVERIFIED, unverified="west")
        key = key_of(device, frame.f_cnt, life)
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=key)


@pytest.mark.requires("slow application", "virtual time")
async def test_what_was_given_back_lies_in_the_life_in_which_it_is_taken(rig):
    """The device began again meanwhile, and then once more with the same bytes."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.refuse_upstream()
    first = await hear(rig, device, "west", f_cnt=0)
    between = await hear(rig, device, "west", f_cnt=1)
    await tell(rig, first, "west", "east")
    for frame in (before, between):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(first, LOST_UPSTREAM + OWNED + LOST, back="west", owned="west", lost="east")
    for station in ("west", "east"):
        key = key_of(device, 0, life=2)
        rig.expect_upstream(first, through=station, removeDuplicatesKey=key)
