"""What shows only the second time: a refused frame, a half spent budget, the same counter again."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    ASKED,
    COPY,
    ENDED,
    EXPIRED,
    FIRST,
    FORGED,
    LATE,
    LOST,
    LOST_UPSTREAM,
    OVER,
    OWNED,
    REFUSED,
    REFUSED_AGAIN,
    STRANGE,
    TAKEN_OVER,
    UNVERIFIED,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

INVALID = Table("""
    strategy kind        | invalid
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
INVALID_AGAIN = Table("""
    strategy kind        | invalid2
    *        confirmed   | DuplicateDueToResubmission dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | DuplicateDueToResubmission dropped(InvalidFrameCounter) NotAsked
""")
TAKEN = Table("""
    strategy kind        | taken
    Drop     *           | DuplicateDueToResubmission dropped(ResubmissionSuppressed) NotAsked
    Mark     *           | DuplicateDueToResubmission marked NotAsked
    None     *           | DuplicateDueToResubmission forwarded NotAsked
""")
LOST_AGAIN = Table("""
    strategy kind        | lost
    *        unconfirmed | DuplicateDueToResubmission dropped(UpstreamUnavailable) NotAsked
""")
TAKEN_ASKING = Table("""
    strategy kind        | taken
    Drop     *           | DuplicateDueToResubmission dropped(ResubmissionSuppressed) Suppressed
    Mark     *           | DuplicateDueToResubmission marked Suppressed
    None     *           | DuplicateDueToResubmission forwarded Suppressed
""")
BACK_ASKING = Table("""
    strategy kind        | back
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) Suppressed Owner
""")
LOST_ASKING = Table("""
    strategy kind        | lost
    *        unconfirmed | NonDuplicate forwarded Suppressed NotOwner
""")
TAKEN_OVER_ASKING = Table("""
    strategy kind        | taken
    *        unconfirmed | DuplicateDueToResubmission forwarded Suppressed Owner
""")
TURNS_US = {"a moment later": milliseconds(100), "when it is answered": seconds(3)}


async def test_an_old_frame_through_the_same_station_is_refused_as_one_sent_again(
    rig, strategy, confirmed
):
    """Nobody has found out in which life it lies; through which station it came is known."""
    device = rig.provision("strict", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    newest = await hear(rig, device, "west", f_cnt=11)
    old = await hear(rig, device, "west", f_cnt=9, confirmed=confirmed)
    await tell(rig, old, "west")
    rig.expect(newest, FIRST, first="west")
    rig.expect(old, INVALID + INVALID_AGAIN, invalid="west", invalid2="west")


@pytest.mark.fault("store", "slow")
@pytest.mark.parametrize("us", TURNS_US.values(), ids=TURNS_US)
async def test_what_a_station_tells_again_while_it_is_claimed_is_sent_again(rig, strategy, us):
    """It waits for the fate of the first one, and is a resubmission as any other."""
    rig.put_on("lns-b", "north")
    device = rig.provision("slow", f_cnt=10, strategy=strategy)
    await rig.start()
    rig.slow_store(milliseconds(150), "lns-a")
    frame = await hear(rig, device, "west", after=us, confirmed=True)
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(frame, OWNED + AGAIN, owned="west", again="west")


@pytest.mark.requires("slow application")
async def test_what_waits_for_a_first_message_has_the_answers_of_its_life(rig):
    """In the life before, the same counter had all of them; this one is on its way upstream."""
    device = rig.provision("relaxed")
    before = await hear(rig, device, "west", confirmed=True)
    for _ in range(3):
        await tell(rig, before, "west")
        await rig.wait(seconds(3))
    rig.delay_upstream(milliseconds(300))
    facts = {"f_cnt": before.f_cnt, "payload": b"new", "confirmed": True}
    begun = await hear(rig, device, "west", "west", **facts)
    rig.expect(before, FIRST + AGAIN * 3, first="west", again="west")
    rig.expect(begun, FIRST + AGAIN, first="west", again="west")


@pytest.mark.requires("slow application")
async def test_a_first_message_that_is_lost_takes_nothing_from_another_one(rig):
    """The device begins once more while the first is on its way: the lives keep their numbers."""
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.delay_upstream(seconds(15))
    lost = await hear(rig, device, "west", f_cnt=0, payload=b"lost")
    begun = await hear(rig, device, "west", f_cnt=0, payload=b"begun", after=seconds(12))
    after = await hear(rig, device, "west", f_cnt=1)
    rig.expect(lost, REFUSED, refused="west")
    for frame in (before, begun, after):
        rig.expect(frame, FIRST, first="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.2"
    for frame in (begun, after):
        rig.expect_upstream(frame, through="west", removeDuplicatesKey=f"{key}-{frame.f_cnt}")


@pytest.mark.requires("slow application")
async def test_a_repeat_of_a_life_before_that_is_lost_is_a_repeat_yet(rig, strategy):
    """Its first station has told it in the life before, whatever became of it since."""
    device = rig.provision("relaxed", strategy=strategy)
    frame = await hear(rig, device, "west", f_cnt=5, confirmed=True)
    begun = await hear(rig, device, "west", f_cnt=0)
    rig.refuse_upstream(1)
    for _ in range(2):
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
    rig.expect(begun, FIRST, first="west")
    if strategy == "Drop":
        rig.expect(frame, FIRST + AGAIN * 2, first="west", again="west")
    else:
        due = FIRST + REFUSED_AGAIN + AGAIN
        rig.expect(frame, due, first="west", refused="west", again="west")


async def test_a_copy_of_a_repeat_is_of_the_life_that_the_repeat_lies_in(rig, strategy):
    """Its first copy was of the life before; the device has begun again, and sends equal bytes."""
    device = rig.provision("relaxed", strategy=strategy)
    frame = await hear(rig, device, "west", f_cnt=2)
    begun = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 1)]
    await tell(rig, frame, "west", "east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1"
    for one in begun:
        rig.expect(one, FIRST, first="west")
        rig.expect_upstream(one, through="west", removeDuplicatesKey=f"{key}-{one.f_cnt}")
    rig.expect(frame, FIRST + TAKEN + COPY, first="west", taken="west", copy="east")
    if strategy != "Drop":
        rig.expect_upstream(frame, through="east", removeDuplicatesKey=f"{key}-2")


@pytest.mark.requires("slow application")
async def test_what_waits_for_a_repeat_that_is_lost_takes_its_place(rig, strategy):
    """The repeat is newer in the life that has begun since: whoever comes next waits for its fate.

    With Drop nothing goes up, so nothing is lost, and the next one is as old as it looks.
    """
    device = rig.provision("relaxed", strategy=strategy)
    frame = await hear(rig, device, "west", f_cnt=2)
    begun = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 1)]
    rig.delay_upstream(seconds(15))
    for _ in range(2):
        await tell(rig, frame, "west")
        await rig.wait(milliseconds(100))
    await rig.wait(seconds(20))
    for one in begun:
        rig.expect(one, FIRST, first="west")
    if strategy == "Drop":
        due = FIRST + TAKEN + INVALID_AGAIN
        rig.expect(frame, due, first="west", taken="west", invalid2="west")
    else:
        due = FIRST + LOST_AGAIN + TAKEN
        rig.expect(frame, due, first="west", lost="west", taken="west")


@pytest.mark.requires("slow application")
@pytest.mark.fault("lns", "restart")
async def test_an_answer_that_a_server_died_over_is_not_spent(rig):
    """It was repeating it when it ended: three answers are left, as in the store."""
    device = rig.provision("repeating", f_cnt=10)
    frame = await hear(rig, device, "west", confirmed=True)
    rig.delay_upstream(seconds(60))
    await tell(rig, frame, "west")
    await rig.wait(seconds(1))
    await rig.restart_lns()
    for _ in range(4):
        await tell(rig, frame, "west")
        await rig.wait(seconds(2))
    due = FIRST + ENDED + EXPIRED + AGAIN * 2 + OVER
    rig.expect(frame, due, first="west", ended="west", again="west", over="west")


@pytest.mark.requires("slow application")
@pytest.mark.parametrize("spent", [1, 2])
async def test_a_repeat_that_was_not_delivered_gives_back_one_answer(rig, spent):
    """Not those that were spent before it: in all there are three, whenever it fails."""
    device = rig.provision("repeating", f_cnt=10)
    frame = await hear(rig, device, "west", confirmed=True)
    for _ in range(spent):
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
    rig.refuse_upstream(1)
    for _ in range(5 - spent):
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
    due = FIRST + AGAIN * spent + REFUSED_AGAIN + AGAIN * (3 - spent) + OVER
    rig.expect(frame, due, first="west", again="west", refused="west", over="west")


@pytest.mark.parametrize("f_cnt", [0, 1])
async def test_a_life_may_begin_with_the_counter_that_was_the_newest(rig, confirmed, f_cnt):
    """Other bytes, a quiet minute later, through another server: the device has begun again."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    first = await hear(rig, device, "west")
    before = await hear(rig, device, "west", f_cnt=f_cnt, payload=b"old", after=seconds(61))
    rig.expect(first, OWNED, owned="west")
    again = await hear(rig, device, "east", f_cnt=f_cnt, payload=b"new", confirmed=confirmed)
    after = await hear(rig, device, "east", f_cnt=f_cnt + 1)
    for frame, station in ((before, "west"), (again, "east"), (after, "east")):
        rig.expect(frame, OWNED, owned=station)
    lives = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}"
    for frame, life in ((before, 1), (again, 2), (after, 2)):
        key = f"{lives}.{life}-{frame.f_cnt}"
        rig.expect_upstream(frame, through="west" if life == 1 else "east", removeDuplicatesKey=key)


@pytest.mark.parametrize("spans", [1, 2])
async def test_the_same_16_bits_of_a_roll_over_before_are_old(rig, confirmed, spans):
    """65 536 less, and signed so: no resubmission of the newest frame, and not answered."""
    device = rig.provision("veteran", f_cnt=0x30005, relaxed_f_cnt=False)
    newest = await hear(rig, device, "west")
    old = await hear(rig, device, "west", f_cnt=0x30005 - spans * 0x10000, confirmed=confirmed)
    rig.expect(newest, FIRST, first="west")
    rig.expect(
        old, INVALID if spans == 1 else FORGED, **{"invalid" if spans == 1 else "forged": "west"}
    )


@pytest.mark.parametrize("servers", [1, 2])
async def test_a_first_message_that_asks_for_no_answer_may_come_ever_again(rig, strategy, servers):
    """Three answers are all that a counter has; a frame that is owed none uses none."""
    if servers == 2:
        rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, "west")
    first = await hear(rig, device, "west", f_cnt=1)
    for _ in range(5):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    rig.expect(before, FIRST, first="west")
    rig.expect(first, FIRST + TAKEN * 5, first="west", taken="west")


async def test_a_repeated_first_message_uses_no_counter_for_nothing(rig, strategy):
    """It asks how well it is heard, which is answered once; then comes the next counter."""
    rig.put_on("lns-b", "north")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    first = await hear(rig, device, "west", f_cnt=1, f_opts=b"\x02")
    await tell(rig, first, "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "west", f_cnt=2, confirmed=True)
    rig.expect(first, ASKED + TAKEN_ASKING, asked="west", taken="west")
    rig.expect_answer(after, f_cnt=1)
    rig.expect(after, OWNED, owned="west")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_who_owns_frames_again_has_missed_none_of_them(rig):
    """It was refused one, then granted one: the store may forget, it knows the next counter."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10, relaxed_f_cnt=False)
    theirs = await hear(rig, device, "west", "east", confirmed=True)
    ours = await hear(rig, device, "east", confirmed=True)
    await rig.restart_store(empty=True)
    after = await hear(rig, device, "east", confirmed=True)
    rig.expect(theirs, OWNED + LOST, owned="west", lost="east")
    for f_cnt, frame in enumerate((ours, after), start=1):
        rig.expect(frame, OWNED, owned="east")
        rig.expect_answer(frame, f_cnt=f_cnt)


async def test_the_counter_that_a_server_began_with_is_asked_about_and_old(rig, strategy):
    """Unconfirmed: nobody knows its bytes, and nobody has it as new."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    one = await hear(rig, device, "west", f_cnt=9)
    rig.expect(one, EXPIRED, again="west")


@pytest.mark.fault("lns", "restart")
async def test_a_grant_to_repeat_counts_after_a_restart(rig):
    """The server that asked for it has begun anew: what it asked is in the store."""
    device = rig.provision("repeating", f_cnt=10, nb_trans=2, relaxed_f_cnt=False)
    asked = await hear(rig, device, "west", adr=True)
    await rig.restart_lns()
    granted = await hear(rig, device, "west", adr=True, f_opts=b"\x03\x07")
    after = await hear(rig, device, "west", adr=True)
    rig.expect(asked, WITH_DOWNLINK, first="west")
    for frame in (granted, after):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.parametrize("forgets", ["begins anew", "a minute later", "has no room"])
async def test_a_server_that_has_forgotten_a_frame_asks_with_the_answer_that_it_repeats(
    rig, forgets
):
    """To its level 1 the frame is new, and the device has not been heard to grant anything."""
    device = rig.provision("repeating", f_cnt=10, nb_trans=2, relaxed_f_cnt=False)
    if forgets == "has no room":
        rig.dedup(entries_max=1)
    frame = await hear(rig, device, "west", adr=True, confirmed=True)
    match forgets:
        case "begins anew":
            await rig.restart_lns()
        case "a minute later":
            await rig.wait(minutes(1))
        case _:
            rig.expect(await hear(rig, rig.charlie, "west"), FIRST, first="west")
            rig.expect_evictions(2)
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST + EXPIRED, first="west", again="west")
    for _ in range(2):
        rig.expect_answer(frame, ack=True, f_opts_bytes=5)


async def test_a_life_that_goes_on_is_told_again_how_often_to_send(rig):
    """The device has been told in that life and in the one that began since; it may have restarted.

    Nobody knows which of the two it remembers.
    """
    device = rig.provision("repeating", f_cnt=500, nb_trans=2)
    granted = {"adr": True, "f_opts": b"\x03\x07"}
    for f_cnt, facts, due in (
        (500, {"adr": True}, WITH_DOWNLINK),
        (501, granted, FIRST),
        (0, {"adr": True}, WITH_DOWNLINK),
        (1, granted, FIRST),
        (502, {"adr": True}, WITH_DOWNLINK),
    ):
        frame = await hear(rig, device, "west", f_cnt=f_cnt, **facts)
        rig.expect(frame, due, first="west")


@pytest.mark.requires("slow application")
async def test_a_restart_that_was_taken_back_leaves_what_was_asked(rig):
    """The application has not taken the first message: the device goes on, and grants it."""
    device = rig.provision("repeating", f_cnt=500, nb_trans=2)
    asked = await hear(rig, device, "west", adr=True)
    rig.refuse_upstream()
    lost = await hear(rig, device, "west", f_cnt=0)
    granted = await hear(rig, device, "west", f_cnt=501, adr=True, f_opts=b"\x03\x07")
    after = await hear(rig, device, "west", f_cnt=502, adr=True)
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect(lost, REFUSED, refused="west")
    for frame in (granted, after):
        rig.expect(frame, FIRST, first="west")


async def test_strangers_who_were_looked_up_keep_nobody_from_it(rig):
    """The store was asked about sixty-five frames of nobody, one after the other."""
    rig.put_on("lns-b", "east")
    stranger = rig.provision("stranger", known=False, f_cnt=10)
    device = rig.provision("new", activation="otaa")
    rig.only("east")
    join = await device.join()
    strange = [await hear(rig, stranger, "west", after=milliseconds(5)) for _ in range(65)]
    frame = await hear(rig, device, "west")
    rig.expect(join, FIRST, first="east")
    rig.expect(frame, FIRST, first="west")
    for one in strange:
        rig.expect(one, STRANGE, strange="west")


@pytest.mark.fault("store", "slow")
async def test_strangers_of_one_station_keep_no_other_one_from_the_store(rig):
    """Sixty-four are asked about at once through west; what east tells is looked up beside them.

    The last of those sixty-four is no stranger, nor is the next one, which nobody asks about until
    east tells it too. What was looked up before, one after another, takes none of their places.
    """
    rig.put_on("lns-b", "north")
    device = rig.provision("new", activation="otaa")
    last, next_one = [rig.provision(name, activation="otaa") for name in ("last", "next")]
    strangers = [rig.provision(f"stranger-{n}", known=False, f_cnt=10) for n in range(64)]
    rig.only("north")
    joins = [await one.join() for one in (device, last, next_one)]
    before = [await hear(rig, one, "west", after=seconds(1)) for one in strangers[:2]]
    frame, found, missed = [await rig.craft(one) for one in (device, last, next_one)]
    strange = [await rig.craft(one) for one in strangers]
    rig.slow_store(milliseconds(100), "lns-a")
    for one in (*strange[:63], found, missed, strange[63]):
        await rig.say(rig.told(one, by="west"), by="west")
        await rig.wait(milliseconds(1))
    await rig.wait(milliseconds(20))
    for one in (frame, missed):
        await rig.say(rig.told(one, by="east"), by="east")
    await rig.wait(seconds(2))
    await rig.restore_store("lns-a")
    for join in joins:
        rig.expect(join, FIRST, first="north")
    rig.expect(frame, FIRST, first="east")
    rig.expect(found, FIRST, first="west")
    rig.expect(missed, STRANGE + FIRST, strange="west", first="east")
    for one in (*before, *strange):
        rig.expect(one, STRANGE, strange="west")


async def test_what_was_refused_in_a_life_has_the_name_of_the_life_that_takes_it(rig, strategy):
    """A relaxed device begins again and comes to send the same bytes: its copies are of that."""
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    before = await hear(rig, device, "west", f_cnt=10)
    frame = await hear(rig, device, "west", f_cnt=5)
    life = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (0, 4)]
    await tell(rig, frame, "west", "east")
    await rig.wait(seconds(3))
    for one in (before, *life):
        rig.expect(one, FIRST, first="west")
    rig.expect(frame, INVALID + TAKEN + COPY, invalid="west", taken="west", copy="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1-5"
    if strategy != "Drop":
        rig.expect_upstream(frame, through="east", removeDuplicatesKey=key)


@pytest.mark.parametrize("number", [-(1 << 63), 0x1_0000_0102, (1 << 63) - 1])
async def test_an_antenna_has_64_bits(rig, number):
    """Whatever a station calls it comes back with the answer."""
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west").replace('"rctx":0', f'"rctx":{number}')
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST, first="west")
    rig.expect_answer(frame, rctx=number)


async def test_a_request_may_have_2048_octets(rig):
    """Spaces behind it count; of one more nothing is read."""
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9, octets=2_048)
    asked = await hear(rig, rig.alpha, "west")
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect_answer(asked, f_port=9)


async def test_a_counter_of_16_bits_has_no_more(rig):
    """A frame signed with a 17th is of nobody; the device begins again, if it may."""
    device = rig.provision("short", f_cnt=0xFFFE, f_cnt_bits=16)
    last = [await hear(rig, device, "west") for _ in range(2)]
    beyond = await hear(rig, device, "west", f_cnt=0x10000)
    begun = await hear(rig, device, "west", f_cnt=0, payload=b"again")
    for frame in (*last, begun):
        rig.expect(frame, FIRST, first="west")
    rig.expect(beyond, FORGED, forged="west")


@pytest.mark.parametrize("waited_us", [seconds(1), milliseconds(1_300)])
async def test_what_leaves_in_rx2_is_under_way_until_that_opens(rig, waited_us):
    """Nobody reports it: the next uplink after that is answered with it once more."""
    clock = await hear(rig, rig.charlie, "west")
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    frame = await rig.craft(rig.alpha)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(900))
    await rig.say(text, by="west")
    await rig.wait(waited_us)
    again = await hear(rig, rig.alpha, "west")
    last = await hear(rig, rig.alpha, "west")
    is_over = waited_us > seconds(1)
    rig.expect(clock, FIRST, first="west")
    rig.expect(frame, LATE, late="west")
    rig.expect(again, WITH_DOWNLINK if is_over else FIRST, first="west")
    rig.expect_answer(again if is_over else last, f_port=9)
    rig.expect(last, FIRST if is_over else WITH_DOWNLINK, first="west")


async def test_each_copy_of_a_frame_has_the_next_number(rig, strategy):
    """From 1 for each frame, however many copies others had; with Drop there is none."""
    device, _ = rig.provision("copied", f_cnt=10, strategy=strategy), rig.north
    for _ in range(2):
        frame = await hear(rig, device, "west", "east", "north")
        rig.expect(frame, FIRST + COPY * 2, first="west", copy=("east", "north"))
        key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-{frame.f_cnt}"
        for number, station in enumerate(("east", "north"), start=1):
            if strategy == "Drop":
                continue
            eui = rig.setup.station(station).eui
            rig.expect_upstream(frame, through=station, messageId=f"{key}-{eui}-{number}")


@pytest.mark.fault("lns", "restart")
async def test_a_server_that_begins_anew_numbers_its_downlinks_beyond_those_of_before(rig):
    """However many it had sent a moment ago: a station may tell of them yet."""
    before = [
        await hear(rig, rig.alpha, "west", after=milliseconds(50), confirmed=True)
        for _ in range(40)
    ]
    await rig.restart_lns()
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    for frame in (*before, after):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.requires("slow application")
@pytest.mark.parametrize("owner", ["west", "east"])
async def test_a_first_message_that_was_given_back_is_delivered_by_whoever_hears_it(
    rig, strategy, owner
):
    """Not a repeat of anything: its owner could not deliver it, and no other server has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    before = await hear(rig, device, owner)
    rig.delay_upstream(seconds(15), lns="lns-a")
    first = await hear(rig, device, "west", "east", f_cnt=0, confirmed=True, after=seconds(12))
    for _ in range(2):
        await tell(rig, first, "east")
        await rig.wait(seconds(3))
    after = await hear(rig, device, "west", f_cnt=2)
    rig.expect(before, OWNED, owned=owner)
    words = LOST_UPSTREAM + LOST + TAKEN_OVER + AGAIN
    rig.expect(first, words, back="west", lost="east", taken="east", again="east")
    rig.expect(after, OWNED, owned="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1"
    rig.expect_upstream(first, through="east", removeDuplicatesKey=f"{key}-0")
    rig.expect_upstream(after, through="west", removeDuplicatesKey=f"{key}-2")


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "partition")
async def test_a_life_that_began_alone_counts_beside_one_that_was_given_back(rig):
    """The first message of the other is delivered late: no number is used for two lives."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.delay_upstream(seconds(15), lns="lns-a")
    first = await hear(rig, device, "west", "east", f_cnt=0, confirmed=True, after=seconds(12))
    rig.cut_store("lns-b")
    alone = await hear(rig, device, "east", f_cnt=0, payload=b"alone")
    await rig.restore_store("lns-b")
    await tell(rig, first, "east")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "west", f_cnt=0, payload=b"after")
    rig.expect(first, LOST_UPSTREAM + LOST + TAKEN_OVER, back="west", lost="east", taken="east")
    rig.expect(alone, UNVERIFIED, unverified="east")
    for frame in (before, after):
        rig.expect(frame, OWNED, owned="west")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.4-0"
    rig.expect_upstream(after, through="west", removeDuplicatesKey=key)


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "partition")
@pytest.mark.parametrize("between", ["nothing", "an older frame", "a new life"])
async def test_other_bytes_of_a_counter_that_was_given_back_are_another_frame(rig, between):
    """A copy of the first ones went up under its name, through a server that did not own it.

    A copy of the others has their name, whoever tells it.
    """
    rig.put_on("lns-b", "east", "south")
    device, one = await given_back(rig)
    if between == "a new life":
        rig.cut_store("lns-b")
        rig.expect(await hear(rig, device, "east", f_cnt=0), UNVERIFIED, unverified="east")
        await rig.restore_store("lns-b")
        rig.expect(await hear(rig, device, "east", f_cnt=1), OWNED, owned="east")
    elif between == "an older frame":
        rig.expect(await hear(rig, device, "east", f_cnt=12), OWNED, owned="east")
    two = await hear(rig, device, "east", "south", f_cnt=14, payload=b"two")
    rig.expect(one, LOST_UPSTREAM + LOST, back="west", lost="north")
    rig.expect(two, OWNED + COPY, owned="east", copy="south")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-14"
    rig.expect_upstream(one, through="north", removeDuplicatesKey=key)
    name = f"{key}.{two.phy[-4:].hex().upper()}"
    for station in ("east", "south"):
        rig.expect_upstream(two, through=station, removeDuplicatesKey=name)


@pytest.mark.requires("slow application")
async def test_a_repeat_that_is_delivered_for_another_server_is_one_yet(rig):
    """Unconfirmed, so it gets no answer, whatever it asks for."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    before = await hear(rig, device, "west")
    rig.delay_upstream(seconds(15), lns="lns-a")
    facts = {"f_cnt": 0, "f_opts": b"\x02", "after": seconds(12)}
    first = await hear(rig, device, "west", "east", **facts)
    await tell(rig, first, "east")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    words = BACK_ASKING + LOST_ASKING + TAKEN_OVER_ASKING
    rig.expect(first, words, back="west", lost="east", taken="east")


TWO_GIVEN_BACK = {"older": (12, 14), "newer": (14, 12), "of the life before": (14, 0)}


@pytest.mark.requires("slow application")
@pytest.mark.parametrize("counters", TWO_GIVEN_BACK.values(), ids=TWO_GIVEN_BACK)
async def test_of_two_frames_that_were_given_back_the_first_keeps_its_name(rig, counters):
    """Its copy went up elsewhere: what comes with its counter is another frame."""
    rig.put_on("lns-b", "east")
    rig.put_on("lns-c", "north")
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west", "east")
    rig.delay_upstream(seconds(15), messages=2, lns="lns-a")
    first, second = [
        await hear(rig, device, *stations, f_cnt=f_cnt, payload=b"one", after=seconds(12))
        for stations, f_cnt in zip((("west", "north"), ("west",)), counters, strict=True)
    ]
    other = await hear(rig, device, "east", f_cnt=first.f_cnt, payload=b"two")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(first, LOST_UPSTREAM + LOST, back="west", lost="north")
    rig.expect(second, LOST_UPSTREAM, back="west")
    rig.expect(other, OWNED, owned="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-{first.f_cnt}"
    rig.expect_upstream(first, through="north", removeDuplicatesKey=key)
    name = f"{key}.{other.phy[-4:].hex().upper()}"
    rig.expect_upstream(other, through="east", removeDuplicatesKey=name)


@pytest.mark.requires("slow application")
async def test_an_older_frame_that_is_given_back_once_more_takes_no_name_from_a_newer_one(rig):
    """Its station tells it again between the two; a copy of the newer one went up elsewhere."""
    rig.put_on("lns-b", "east")
    rig.put_on("lns-c", "north")
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west", "east")
    rig.delay_upstream(seconds(15), messages=3, lns="lns-a")
    older = await hear(rig, device, "west", f_cnt=12, after=seconds(12))
    newer = await hear(rig, device, "west", "north", f_cnt=14, after=seconds(12))
    await tell(rig, older, "west")
    await rig.wait(seconds(12))
    other = await hear(rig, device, "east", f_cnt=14, payload=b"two")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(older, LOST_UPSTREAM * 2, back="west")
    rig.expect(newer, LOST_UPSTREAM + LOST, back="west", lost="north")
    rig.expect(other, OWNED, owned="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-14"
    name = f"{key}.{other.phy[-4:].hex().upper()}"
    rig.expect_upstream(other, through="east", removeDuplicatesKey=name)


@pytest.mark.requires("slow application")
async def test_the_bytes_that_were_given_back_have_the_name_of_their_copy(rig):
    """The store knows it when it has forgotten the frame."""
    rig.put_on("lns-b", "east")
    device, one = await given_back(rig)
    await rig.wait(seconds(61))
    await tell(rig, one, "east")
    rig.expect(one, LOST_UPSTREAM + LOST + OWNED, back="west", lost="north", owned="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-14"
    for station in ("north", "east"):
        rig.expect_upstream(one, through=station, removeDuplicatesKey=key)


@pytest.mark.requires("slow application")
async def test_other_bytes_of_a_counter_that_was_given_back_tell_a_status_of_their_own(rig):
    """That of the first ones went up before their message failed, and is another message."""
    rig.put_on("lns-b", "east")
    device = rig.provision("delta", f_cnt=10)
    before = await hear(rig, device, "west", "east")
    for late_us in (0, seconds(15)):  # the status is taken, the message is not
        rig.delay_upstream(late_us, lns="lns-a")
    one = await hear(rig, device, "west", f_cnt=14, f_opts=b"\x06\xff\x01", after=seconds(12))
    two = await hear(rig, device, "east", f_cnt=14, f_opts=b"\x06\xfe\x02")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.expect(one, LOST_UPSTREAM, back="west")
    rig.expect(two, OWNED, owned="east")
    rig.expect_status(device, times=2)


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "partition")
async def test_a_frame_that_cannot_be_given_back_is_granted_its_owner_again(rig):
    """The store is away when the application has refused it: it is the owner's, and not lost."""
    rig.put_on("lns-b", "east")
    before = await hear(rig, rig.alpha, "west")
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(1))
    rig.cut_store("lns-a")
    await rig.wait(seconds(11))
    await rig.restore_store("lns-a")
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED, owned="west")
    rig.expect(frame, LOST_UPSTREAM + OWNED, back="west", owned="west")


async def given_back(rig):
    """A frame that west owns and cannot deliver, while north has forwarded its copy."""
    rig.put_on("lns-c", "north")
    device = rig.provision("relaxed", f_cnt=10)
    before = await hear(rig, device, "west", "east")
    rig.expect(before, OWNED + LOST, owned="west", lost="east")
    rig.delay_upstream(seconds(15), lns="lns-a")
    frame = await hear(rig, device, "west", "north", f_cnt=14, payload=b"one", after=seconds(12))
    return device, frame
