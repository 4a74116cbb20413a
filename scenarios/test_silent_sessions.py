"""What servers and store know of a session that is silent for long, over, or forgotten."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    EXPIRED,
    FIRST,
    FORGED,
    LOST,
    OWNED,
    TOO_LATE,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

GONE = Table("""
    strategy kind        | gone
    *        *           | - dropped(UnknownDevice) NotAsked
""")
WAITED = Table("""
    strategy kind        | waited
    *        confirmed   | DuplicateDueToResubmission forwarded Suppressed NotOwner
""")


@pytest.mark.fault("store", "slow")
async def test_a_minute_begins_when_a_frame_is_heard(rig, confirmed):
    """What the store says of it 150 ms later renews nothing: after 60 s of silence it is new."""
    rig.put_on("lns-b", "east")
    device = rig.provision("slow", f_cnt=10)
    await rig.start()
    rig.slow_store(milliseconds(150), "lns-a")
    frame = await hear(rig, device, "west", after=milliseconds(60_050), confirmed=confirmed)
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(frame, OWNED + EXPIRED, owned="west", again="west")


@pytest.mark.parametrize("silent", [23 * 60 + 49, 23 * 60 + 51, 24 * 60 + 5])
async def test_who_was_told_nothing_for_a_day_looks_before_claims_are_forgotten(rig, silent):
    """Ten minutes before: then the older frame is none that is new, though a claim remembers it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    older = await hear(rig, device, "east")
    newest = await hear(rig, device, "east", after=minutes(silent))
    await tell(rig, older, "west")
    await rig.wait(seconds(3))
    looks = silent > 23 * 60 + 50
    again = {"again" if looks else "lost": "west"}
    rig.expect(before, OWNED, owned="west")
    rig.expect(older, OWNED + (EXPIRED if looks else LOST), owned="east", **again)
    rig.expect(newest, OWNED, owned="east")


@pytest.mark.fault("store", "cut")
async def test_who_could_not_look_after_a_day_does_so_when_the_store_is_back(rig):
    """What was told meanwhile was old here anyway; the other one is old as claims are forgotten."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west")
    older = await hear(rig, device, "east")
    newest = await hear(rig, device, "east", after=minutes(24 * 60 + 5))
    rig.cut_store("lns-a")
    await tell(rig, before, "west")
    await rig.wait(seconds(1))
    await rig.restore_store("lns-a")
    await tell(rig, older, "west")
    await rig.wait(seconds(3))
    rig.expect(before, OWNED + EXPIRED, owned="west", again="west")
    rig.expect(older, OWNED + EXPIRED, owned="east", again="west")
    rig.expect(newest, OWNED, owned="east")


async def test_other_bytes_with_the_counter_of_the_newest_frame_are_old(rig, strategy):
    """Of a life before, told by somebody a day later where nobody has heard of the life since."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=10, strategy=strategy)
    old = await hear(rig, device, "west", f_cnt=11)
    farther = await hear(rig, device, "west", f_cnt=500)
    begun = [await hear(rig, device, "west", f_cnt=n, payload=b"begun") for n in (0, 11)]
    await rig.wait(minutes(24 * 60))
    await tell(rig, old, "east")
    await rig.wait(seconds(3))
    for frame in (farther, *begun):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(old, OWNED + EXPIRED, owned="west", again="east")


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "restart")
async def test_who_heard_the_newest_frame_knows_it_when_the_store_forgot_it(rig):
    """Other bytes with its counter are another frame, and have a name of their own."""
    rig.put_on("lns-b", "east")
    device, _ = rig.provision("relaxed", f_cnt=7), rig.north
    old = await hear(rig, device, "west", payload=b"old", confirmed=True)
    await rig.restart_store(empty=True)
    new = await hear(rig, device, "north", f_cnt=7, payload=b"new", confirmed=True)
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-7"
    rig.expect(old, OWNED, owned="west")
    rig.expect(new, EXPIRED, again="north")
    rig.expect_upstream(old, through="west", removeDuplicatesKey=key)
    mic = new.phy[-4:].hex().upper()
    rig.expect_upstream(new, through="north", removeDuplicatesKey=f"{key}.{mic}")


async def test_a_repeated_frame_of_a_session_that_is_over_is_of_nobody(rig):
    """Its device has joined elsewhere and sends there: the server that answered it is told so."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.bravo.join()
    known = await hear(rig, rig.bravo, "west", confirmed=True)
    rig.only("east")
    again = await rig.bravo.join()
    new = await hear(rig, rig.bravo, "east")
    await tell(rig, known, "west")
    await rig.wait(seconds(3))
    rig.expect(before, FIRST, first="west")
    rig.expect(again, FIRST, first="east")
    rig.expect(known, OWNED + GONE, owned="west", gone="west")
    rig.expect(new, OWNED, owned="east")


async def test_a_session_that_is_over_is_not_spoken_to(rig):
    """A class C device has joined elsewhere; what waits for it goes with its next answer."""
    rig.put_on("lns-b", "east")
    device = rig.provision("listening", activation="otaa", device_class="C")
    rig.only("west")
    join = await device.join()
    before = await device.send()
    rig.only("east")
    again = await device.join()
    new = await device.send()
    await rig.queue_downlink(device, payload=b"on", port=8)
    await rig.wait(seconds(5))
    rig.only("west")
    after = await device.send()
    rig.expect(join, FIRST, first="west")
    rig.expect(again, FIRST, first="east")
    for uplink, station in ((before, "west"), (new, "east")):
        rig.expect(uplink, OWNED, owned=station)
    rig.expect(after, WITH_DOWNLINK, first="west")
    rig.expect_downlink(device, b"on", port=8)


@pytest.mark.requires("slow application")
async def test_a_copy_that_waited_takes_no_session_back(rig):
    """Its device has begun again meanwhile: a frame of the life before is none that goes on."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500)
    await rig.start()
    rig.delay_upstream(seconds(3))
    old = await rig.craft(device, confirmed=True)
    for _ in range(2):
        await tell(rig, old, "west")
        await rig.wait(milliseconds(100))
    begun = await hear(rig, device, "west", f_cnt=0, after=seconds(6))
    after = await hear(rig, device, "west", f_cnt=1)
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}.1-"
    rig.expect(old, TOO_LATE + WAITED, first="west", waited="west")
    for frame in (begun, after):
        rig.expect(frame, OWNED, owned="west")
    rig.expect_upstream(after, through="west", removeDuplicatesKey=f"{key}1")


async def test_the_repeated_answers_of_another_server_are_its_own(rig):
    """Who has read of them in the store refuses nothing for that: the frame is the other one's."""
    rig.put_on("lns-b", "east")
    device = rig.provision("repeating", f_cnt=10, relaxed_f_cnt=False)
    frame = await rig.craft(device, confirmed=True)
    await tell(rig, frame, "east", "west")
    await rig.wait(seconds(3))
    for _ in range(3):
        await tell(rig, frame, "east")
        await rig.wait(seconds(3))
    await rig.forge(device, by="west")  # nobody fits it, so the server looks
    await rig.wait(seconds(1))
    await tell(rig, frame, "west")
    await rig.wait(seconds(1))
    due = OWNED + LOST + AGAIN * 3 + WAITED
    rig.expect(frame, due, owned="east", lost="west", again="east", waited="west")


async def test_who_has_read_of_one_device_knows_nothing_of_another_of_its_address(rig, strategy):
    """Two devices have one; a day later one of them is heard, and an older frame of the other."""
    rig.put_on("lns-b", "east")
    facts = {"dev_addr_text": "01000009", "relaxed_f_cnt": False, "strategy": strategy}
    known, other = (rig.provision(name, f_cnt=10, **facts) for name in ("known", "other"))
    await rig.start()
    await rig.wait(minutes(5))
    older = await hear(rig, other, "east")
    newest = await hear(rig, other, "east")
    heard = await hear(rig, known, "west", after=minutes(10))
    await rig.wait(minutes(23 * 60 + 40))
    later = await hear(rig, known, "west", after=minutes(20))
    await tell(rig, older, "west")
    await rig.wait(seconds(3))
    for frame, station in ((newest, "east"), (heard, "west"), (later, "west")):
        rig.expect(frame, OWNED, owned=station)
    rig.expect(older, OWNED + EXPIRED, owned="east", again="west")


async def test_what_a_stranger_says_makes_no_older_frame_a_new_one(rig, strategy):
    """Its server has read of the device for a forged frame, a day after it heard it last."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    older = await hear(rig, device, "east")
    newest = await hear(rig, device, "east", after=minutes(24 * 60 + 5))
    forged = await rig.forge(device, by="west")
    await rig.wait(seconds(3))
    await tell(rig, older, "west")
    await rig.wait(seconds(3))
    rig.expect(newest, OWNED, owned="east")
    rig.expect(forged, FORGED, forged="west")
    rig.expect(older, OWNED + EXPIRED, owned="east", again="west")


async def test_an_older_frame_of_a_session_that_opened_elsewhere_is_old(rig):
    """Nobody has told its server of the session before; claims have forgotten its frames."""
    rig.put_on("lns-b", "east")
    rig.only("east")
    joining = await rig.bravo.join()
    older = await hear(rig, rig.bravo, "east")
    newest = await hear(rig, rig.bravo, "east", after=minutes(24 * 60 + 5))
    await tell(rig, older, "west")
    await rig.wait(seconds(3))
    rig.expect(joining, FIRST, first="east")
    rig.expect(newest, OWNED, owned="east")
    rig.expect(older, OWNED + EXPIRED, owned="east", again="west")


async def test_what_another_server_has_asked_a_device_may_grant_here(rig):
    """Its server has read of that with the counters; the device is asked no more."""
    rig.put_on("lns-b", "east")
    device = rig.provision("repeating", f_cnt=10, nb_trans=3, relaxed_f_cnt=False)
    asked = await hear(rig, device, "east", adr=True, confirmed=True)
    forged = await rig.forge(device, by="west")  # nobody fits it, so the server looks
    await rig.wait(seconds(1))
    granted = await hear(rig, device, "west", adr=True, f_opts=bytes.fromhex("0307"))
    after = await hear(rig, device, "west", adr=True)
    rig.expect(forged, FORGED, forged="west")
    rig.expect(asked, OWNED, owned="east")
    for frame in (granted, after):
        rig.expect(frame, OWNED, owned="west")
