"""What seldom comes together: a new session and a slow application, a pinned device that asks."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from bench.virtual import crafted
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    ASKED,
    COPY,
    ENDED,
    EXPIRED,
    FIRST,
    LOST,
    OVER,
    OWNED,
    REFUSED,
    STRANGE,
    UNVERIFIED,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

THEIRS = Table("""
    strategy kind        | theirs
    *        *           | - dropped(BelongsToAnotherServer) NotAsked
""")
THEIRS_ASKING = Table("""
    strategy kind        | theirs
    *        *           | - dropped(BelongsToAnotherServer) Suppressed
""")
OLD = Table("""
    strategy kind        | old
    *        *           | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
OLD_COPY = Table("""
    strategy kind        | copy
    *        *           | SoftDuplicate dropped(InvalidFrameCounter) NotAsked
""")
LOST_COPY = Table("""
    strategy kind        | copy
    Drop     *           | Duplicate dropped(Duplicate) Suppressed
    Mark     *           | SoftDuplicate dropped(UpstreamUnavailable) Suppressed
    None     *           | SoftDuplicate dropped(UpstreamUnavailable) Suppressed
""")
ASKS = {
    "LinkCheckReq": {"f_opts": b"\x02"},
    "DeviceTimeReq": {"f_opts": b"\x0d"},
    "ADRACKReq": {"adr_ack_req": True},
    "ADRACKReq, LinkADRAns": {"adr_ack_req": True, "f_opts": b"\x03\x07"},
}


@pytest.mark.parametrize("asks", ASKS.values(), ids=ASKS)
async def test_whatever_asks_for_an_answer_is_told_to_have_asked(rig, asks):
    """By the server that answers, and by the one that must not."""
    rig.put_on("lns-b", "east")
    device = rig.provision("pinned", f_cnt=10, server="lns-b", relaxed_f_cnt=False)
    asking = await hear(rig, device, "west", "east", **asks)
    silent = await hear(rig, device, "west", "east", f_opts=b"\x03\x07")
    rig.expect(asking, THEIRS_ASKING + ASKED, theirs="west", asked="east")
    rig.expect(silent, THEIRS + FIRST, theirs="west", first="east")


@pytest.mark.requires("slow application")
async def test_a_session_whose_first_frame_is_on_its_way_up_is_spoken_to(rig):
    """The device sends in it, and listens in it, whatever the application makes of that frame."""
    device = rig.provision("listening", activation="otaa", device_class="C", lorawan="1.0.3")
    rig.only("west")
    frames = [await device.join(), await device.send(), await device.join()]
    rig.delay_upstream(seconds(4))
    frames.append(await hear(rig, device, "west", after=seconds(1)))
    await rig.queue_downlink(device, payload=b"on")
    await rig.wait(seconds(8))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")
    rig.expect_downlink(device, b"on", window="C")


async def test_a_session_that_is_read_with_the_one_before_ends_it(rig):
    """Another server has opened it, and has not heard of it since: its first frame comes here."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    join = await device.join()
    before = await hear(rig, device, "west")
    known = await hear(rig, device, "east")
    old = await rig.craft(device)
    unheard = await rig.craft_join(device, dev_nonce=777)
    await rig.say(rig.told(unheard, by="west"), by="west")
    await rig.wait(seconds(7))
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    new = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(new)
    await tell(rig, new, "east")
    await rig.wait(seconds(3))
    await tell(rig, old, "east")
    await rig.wait(seconds(3))
    for frame, station in ((join, "west"), (before, "west"), (known, "east")):
        rig.expect(frame, FIRST, first=station)
    rig.expect(unheard, FIRST, first="west")
    rig.expect(new, FIRST, first="east")
    rig.expect(old, STRANGE, strange="east")


@pytest.mark.fault("store", "slow")
@pytest.mark.requires("slow application")
async def test_what_an_answer_needs_is_asked_for_with_its_claim(rig):
    """The store is waited for twice, and the answer leaves in RX1; a third time it would not."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    await rig.queue_downlink(device, payload=b"now")
    rig.slow_store(milliseconds(190), "lns-a")
    rig.delay_upstream(milliseconds(400), lns="lns-a")
    frame = await hear(rig, device, "west")
    await rig.restore_store("lns-a")
    rig.expect(before, FIRST, first="west")
    rig.expect(frame, WITH_DOWNLINK, first="west")


@pytest.mark.fault("store", "slow")
async def test_a_minute_begins_when_a_copy_comes_and_not_when_its_wait_is_over(rig):
    """It waits for the first one, which is too far; a minute after it came all is forgotten."""
    rig.put_on("lns-b", "north")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    far = await rig.craft(device, f_cnt=20_000)
    rig.slow_store(milliseconds(150), "lns-a")
    await tell(rig, far, "west")
    await rig.wait(milliseconds(50))
    await tell(rig, far, "east")
    await rig.wait(seconds(1))
    await rig.restore_store("lns-a")
    await rig.wait(milliseconds(59_200))
    await tell(rig, far, "east")
    await rig.wait(seconds(1))
    rig.expect(far, OLD + OLD_COPY + OLD, old=("west", "east"), copy="east")


@pytest.mark.requires("slow application")
@pytest.mark.fault("lns", "restart")
async def test_no_frame_is_kept_that_is_on_its_way_up(rig):
    """Two are when a downlink is numbered; the server ends, and both of them are new again."""
    device = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    rig.delay_upstream(seconds(60), 2)
    frames = [await hear(rig, device, "west", after=seconds(1)) for _ in range(2)]
    await rig.queue_downlink(device, payload=b"on")
    await rig.wait(seconds(1))
    await rig.restart_lns()
    for frame in frames:
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
    rig.expect(before, FIRST, first="west")
    for frame in frames:
        rig.expect(frame, ENDED + FIRST, ended="west", first="west")


@pytest.mark.fault("store", "cut")
async def test_a_status_that_comes_late_is_of_its_own_frame(rig):
    """The server knows that others have come farther, and nobody says whose this one is."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    first = await hear(rig, device, "west")
    late = await hear(rig, device, "east")
    told = await hear(rig, device, "east", f_opts=b"\x06\xff\x01")
    newest = await hear(rig, device, "east")
    await tell(rig, late, "west")
    await rig.wait(seconds(1))
    rig.cut_store("lns-a")
    await tell(rig, told, "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(first, OWNED, owned="west")
    rig.expect(late, OWNED + LOST, owned="east", lost="west")
    rig.expect(told, OWNED + UNVERIFIED, owned="east", unverified="west")
    rig.expect(newest, OWNED, owned="east")
    rig.expect_status(device, times=2)


async def test_a_copy_of_what_came_again_after_a_minute_is_of_its_life(rig):
    """Its counter was the newest then; the device has begun again since, and is not there yet."""
    device = rig.provision("relaxed", strategy="None")
    frame = await hear(rig, device, "west", f_cnt=5, confirmed=True, after=seconds(61))
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    rig.expect(await hear(rig, device, "west", f_cnt=0), FIRST, first="west")
    await tell(rig, frame, "east")
    rig.expect(frame, FIRST + EXPIRED + COPY, first="west", again="west", copy="east")
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-5"
    rig.expect_upstream(frame, through="east", removeDuplicatesKey=key)


@pytest.mark.parametrize("is_spread", [False, True], ids=["one line", "several lines"])
async def test_a_status_may_be_wanted_in_any_json_text(rig, is_spread):
    """Blanks mean nothing; the device is asked with the next answer."""
    device = rig.provision("delta", f_cnt=10)
    await rig.queue_status(device, is_spread=is_spread)
    asked = await hear(rig, device, "west")
    told = await hear(rig, device, "west", f_opts=b"\x06\xff\x01")
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect_answer(asked, f_opts_bytes=1)
    rig.expect(told, FIRST, first="west")
    rig.expect_status(device)


async def test_who_has_looked_after_a_day_hears_what_comes_late_from_then_on(rig):
    """Though the first thing that it was told was old; and so after another silent day."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    rig.expect(await hear(rig, device, "west"), OWNED, owned="west")
    for _ in range(2):
        old = await hear(rig, device, "east")
        rig.expect(await hear(rig, device, "east", after=minutes(25 * 60)), OWNED, owned="east")
        await tell(rig, old, "west")
        await rig.wait(seconds(3))
        late, newest = [await hear(rig, device, "east") for _ in range(2)]
        await tell(rig, late, "west")
        await rig.wait(seconds(3))
        rig.expect(old, OWNED + EXPIRED, owned="east", again="west")
        rig.expect(late, OWNED + LOST, owned="east", lost="west")
        rig.expect(newest, OWNED, owned="east")


@pytest.mark.fault("store", "slow")
async def test_all_that_is_told_while_somebody_looks_after_a_day_is_judged_by_it(rig):
    """The newest frame is no old one; one before it is, and comes before the store has answered."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10)
    rig.expect(await hear(rig, device, "west"), OWNED, owned="west")
    old = await hear(rig, device, "east")
    newest = await hear(rig, device, "east", after=minutes(25 * 60))
    rig.slow_store(milliseconds(100), "lns-a")
    await tell(rig, newest, "west")
    await rig.wait(milliseconds(50))
    await tell(rig, old, "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(old, OWNED + EXPIRED, owned="east", again="west")
    rig.expect(newest, OWNED + LOST, owned="east", lost="west")


async def test_what_two_answers_have_carried_in_vain_is_sent_by_itself(rig):
    """A device that always listens need not send once more to be spoken to a third time."""
    device = rig.provision("listening", f_cnt=10, device_class="C")
    await rig.queue_downlink(device, payload=b"on")
    rig.west.suppress_downlinks(2)
    for after in (seconds(3), seconds(12)):
        rig.expect(
            await hear(rig, device, "west", confirmed=True, after=after), FIRST, first="west"
        )
    rig.expect_downlink(device, b"on", window="C")


async def test_who_begins_again_elsewhere_is_asked_there_how_often_to_send(rig):
    """What another server has agreed with it was of the life before."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, nb_trans=3)
    await hear(rig, device, "west", adr=True, confirmed=True)
    granted = await hear(rig, device, "west", adr=True, confirmed=True, f_opts=b"\x03\x07")
    begun = await hear(rig, device, "east", f_cnt=0, adr=True, confirmed=True)
    for frame, station, octets in ((granted, "west", 0), (begun, "east", 5)):
        rig.expect(frame, OWNED, owned=station)
        rig.expect_answer(frame, f_opts_bytes=octets)


@pytest.mark.requires("slow application")
async def test_what_was_granted_stays_granted_when_the_next_frame_is_lost(rig):
    """That one was on its way when the frame before it was taken, with what it grants."""
    rig.in_region("AS923-1")
    device = rig.provision("granting", f_cnt=10, nb_trans=3)
    asked = await hear(rig, device, "west", adr=True, confirmed=True)
    rig.delay_upstream(seconds(3))
    granted = await hear(rig, device, "west", adr=True, f_opts=b"\x03\x07\x09", after=seconds(1))
    rig.delay_upstream(seconds(15))
    lost = await hear(rig, device, "west", adr=True, after=seconds(15))
    after = await hear(rig, device, "west", adr=True, confirmed=True)
    for frame in (asked, granted, after):
        rig.expect(frame, FIRST, first="west")
    rig.expect(lost, REFUSED, refused="west")
    rig.expect_answer(after, f_opts_bytes=0)


async def test_copies_are_numbered_beyond_a_roll_over(rig):
    """Each has an id of its own, whatever its counter."""
    stations = [rig.station(name) for name in ("east", "north")]
    device = rig.provision("far", f_cnt=70_000, strategy="None", relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", "east", "north")
    rig.expect(frame, FIRST + COPY * 2, first="west", copy=("east", "north"))
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-70000"
    for number, station in enumerate(stations, 1):
        due = f"{name}-{station.eui}-{number}"
        rig.expect_upstream(frame, through=station.name, messageId=due)


@pytest.mark.fault("store", "cut")
async def test_other_bytes_of_a_counter_are_another_frame_whoever_says_so(rig):
    """First nobody could say whose they are; told again, the store knows another frame by it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    newest = await hear(rig, device, "west", f_cnt=10)
    rig.cut_store("lns-a")
    other = await hear(rig, device, "west", f_cnt=10, payload=b"other", confirmed=True)
    await rig.restore_store("lns-a")
    await tell(rig, other, "west")
    await rig.wait(seconds(3))
    rig.expect(newest, OWNED, owned="west")
    rig.expect(other, UNVERIFIED + AGAIN, unverified="west", again="west")


async def test_what_a_device_does_not_acknowledge_is_sent_three_times(rig):
    """It is on the air each time, which proves nothing yet; nobody waits for its next uplink."""
    device = rig.provision("silent", f_cnt=10, device_class="C")
    rig.only("west")
    rig.expect(await device.send(), FIRST, first="west")
    await rig.queue_downlink(device, payload=b"on", confirmed=True)
    await rig.wait(seconds(30))
    rig.expect_downlink(device, b"on", window="C")


async def test_other_bytes_have_a_name_of_their_own_in_a_life_before_as_well(rig):
    """The device has begun again and goes on where it was; its first frame there is lost."""
    device = rig.provision("relaxed", f_cnt=500)
    for f_cnt in (500, 0):
        rig.expect(await hear(rig, device, "west", f_cnt=f_cnt), FIRST, first="west")
    rig.refuse_upstream(1)
    lost = await hear(rig, device, "west", f_cnt=501, payload=b"lost")
    other = await hear(rig, device, "west", f_cnt=501, payload=b"other")
    rig.expect(lost, REFUSED, refused="west")
    rig.expect(other, FIRST, first="west")
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-501"
    mic = other.phy[-4:].hex().upper()
    rig.expect_upstream(other, through="west", removeDuplicatesKey=f"{name}.{mic}")


@pytest.mark.requires("slow application")
async def test_a_frame_of_a_session_that_ended_on_its_way_up_ends_no_other(rig):
    """The device has joined twice more meanwhile, and was heard in the session between them."""
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    frames = [await device.join(), await device.send()]
    rig.delay_upstream(seconds(9))
    frames.append(await hear(rig, device, "west", after=milliseconds(100)))
    frames.append(await device.join())
    again = await rig.craft_join(device, dev_nonce=777)
    await tell(rig, again, "west")
    await rig.wait(milliseconds(100))
    frames += [again, await hear(rig, device, "west", after=milliseconds(100))]
    await rig.wait(seconds(8))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_who_answers_looks_after_what_it_carries_whoever_hears_the_device_by_then(rig):
    """That one was away for a while: it sends what the answer did not bring all the same."""
    device = rig.provision("listening", f_cnt=10, device_class="C")
    await rig.queue_downlink(device, payload=b"on")
    rig.west.suppress_downlinks(1)
    rig.slow_store(milliseconds(190), "lns-a")
    frame = await hear(rig, device, "west", after=milliseconds(100))
    newer = await hear(rig, device, "east", after=milliseconds(600))
    await rig.restore_store("lns-a")
    rig.east.cut()
    await rig.wait(milliseconds(500))
    rig.east.restore()
    await rig.wait(seconds(15))
    rig.expect(frame, WITH_DOWNLINK, first="west")
    rig.expect(newer, FIRST, first="east")
    rig.expect_downlink(device, b"on", window="C")


async def test_what_was_sent_at_once_is_in_no_answer_while_it_may_be_acknowledged(rig):
    """The device has eight seconds for that: a frame that it sends before is not the place."""
    device = rig.provision("silent", f_cnt=10, device_class="C")
    before = await hear(rig, device, "west")
    await rig.queue_downlink(device, payload=b"on", confirmed=True)
    await rig.wait(seconds(4))
    frame = await hear(rig, device, "west", confirmed=True, after=seconds(1))
    later = await hear(rig, device, "west", ack=True)
    for uplink in (before, frame, later):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(frame, f_port=None)


@pytest.mark.requires("slow application")
async def test_a_copy_that_is_lost_takes_no_answer_back(rig, strategy):
    """It had none: its frame is answered three times more, whatever became of its copies."""
    device = rig.provision("repeating", f_cnt=10, strategy=strategy)
    frame = await hear(rig, device, "west", confirmed=True)
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    rig.refuse_upstream(strategy != "Drop")
    await tell(rig, frame, "east")
    for _ in range(3):
        await rig.wait(seconds(3))
        await tell(rig, frame, "west")
    due = FIRST + AGAIN + LOST_COPY + AGAIN * 2 + OVER
    rig.expect(frame, due, first="west", again="west", copy="east", over="west")


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "partition")
async def test_a_session_that_is_over_takes_none_with_it_whose_first_frame_is_on_its_way_up(rig):
    """Its server was refused that one; a frame of before that comes late ends nothing else."""
    rig.put_on("lns-b", "north")
    rig.only("west")
    frames = [await rig.bravo.join(), await rig.bravo.send()]
    unheard = await rig.craft(rig.bravo)
    frames.append(await rig.bravo.join())
    rig.delay_upstream(seconds(6), lns="lns-a")
    both = await hear(rig, rig.bravo, "north", "west", after=milliseconds(500))
    await tell(rig, unheard, "west")
    await rig.wait(seconds(10))
    rig.cut_store("lns-a")
    alone = await hear(rig, rig.bravo, "west", confirmed=True)
    for frame in frames:
        rig.expect(frame, FIRST, first="west")
    rig.expect(alone, UNVERIFIED, unverified="west")
    rig.expect(both, FIRST + LOST, first="north", lost="west")
    rig.expect(unheard, STRANGE, strange="west")
