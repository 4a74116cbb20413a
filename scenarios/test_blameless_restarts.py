"""Devices, servers and stores begin again and know less than before: nobody is blamed for it."""

import pytest

from bench.clock import milliseconds, seconds
from scenarios.words import FIRST, OWNED

pytestmark = pytest.mark.requires("virtual time")  # what matters is when each of them happens


async def test_a_device_that_begins_again_hears_no_counter_of_more_than_16_bits(rig):
    """It takes the rest of the counter for 0 (LoRaWAN 1.0.4, 4.3.1.5), and its server does not."""
    device = rig.provision("veteran", f_cnt=10, f_cnt_down=65_536, relaxed_f_cnt=True)
    rig.only("west")
    await device.restart(memory=False)
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "slow")
async def test_a_copy_that_found_no_room_has_had_its_number(rig):
    """The next one is one more, and so it stands in the store. Who has no room may refuse it."""
    rig.limit_outbox(1)
    device = rig.provision("softly", strategy="None")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.only("west", "east")
    for _ in range(3):
        uplink = await device.send()
    await rig.replay(uplink, by="east", after=seconds(3))


@pytest.mark.fault("upstream", "is held up, and its server is killed")
async def test_what_a_killed_server_was_about_to_hand_over_is_lost_behind_a_door_too(rig):
    """Its stations are at WebSockets, which end a little later than it does."""
    rig.open_door()
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.delay_upstream(seconds(3))
    await rig.say(rig.told(await rig.craft(rig.alpha), by="west"), by="west")
    await rig.wait(seconds(2))
    await rig.wipe_producer()
    await rig.wait(seconds(10))


@pytest.mark.fault("broker", "is away, and a server that hands over is killed")
async def test_who_is_killed_behind_a_door_says_nothing_of_what_it_is_about(rig):
    """What is held up would be told of before its connections end, if they ended in order."""
    rig.open_door()
    device = rig.provision("softly", strategy="None")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.cut_upstream()
    rig.delay_upstream(seconds(3))
    frame = await rig.craft(device)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.say(rig.told(frame, by="east"), by="east")
    await rig.wait(milliseconds(2_100))
    await rig.wipe_producer()
    await rig.restore_upstream()
    await rig.wait(seconds(10))


@pytest.mark.fault("store", "forgets everything")
async def test_who_has_begun_behind_an_emptied_store_knows_no_counter_behind_the_next_one(rig):
    """Whoever knew how far its downlinks have come did not claim a frame of the device since."""
    device = rig.provision("veteran", f_cnt_down=5, relaxed_f_cnt=False)
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    rig.only("west", "east")
    rig.east.delay_uplinks(milliseconds(30))
    await rig.restart_store(empty=True)
    await rig.restart_lns()
    await device.send()
    await rig.restart_store(empty=True)
    await device.send(confirmed=True)
    await rig.wait(seconds(3))


@pytest.mark.fault("store", "forgets everything")
async def test_who_comes_to_an_emptied_store_names_a_frame_as_another_one_was(rig):
    """Two frames of a relaxed device had one counter, and no two servers heard the same of them."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="west")
    await rig.restart_store(empty=True)
    again = await rig.craft(rig.alpha, f_cnt=uplink.f_cnt, payload=b"again")
    await rig.say(rig.told(again, by="east"), by="east")
    await rig.wait(seconds(3))


@pytest.mark.fault("store", "forgets everything")
async def test_a_device_that_begins_again_hears_a_downlink_once_more(rig):
    """It is answered as it was in its life before, by who knows nothing of that."""
    device = rig.provision("again", relaxed_f_cnt=True)
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    await device.send(b"?", confirmed=True)
    await device.restart(memory=False)
    await rig.restart_store(empty=True)
    rig.only("east")
    await device.send(b"?", confirmed=True)
    await rig.wait(seconds(3))


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "slow")
async def test_an_answer_whose_claim_was_slow_passes_the_one_before(rig):
    """Two frames at once, and each waits until what it has spent is kept."""
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="west")
    rig.slow_store(milliseconds(50))
    await rig.restart_store(empty=True)
    for f_cnt, wait in (uplink.f_cnt + 1, milliseconds(80)), (uplink.f_cnt + 2, seconds(3)):
        crafted = await rig.craft(rig.alpha, confirmed=True, f_cnt=f_cnt)
        await rig.say(rig.told(crafted, by="west"), by="west")
        await rig.wait(wait)
    await rig.restore_store()


@pytest.mark.fault("broker", "away for too long")
async def test_what_was_put_aside_before_its_outbox_was_lost_keeps_no_number(rig):
    """Another message has that number in the new outbox, and is sent under it."""
    rig.park_after(seconds(1))
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.stop_broker()
    await rig.alpha.send()
    await rig.wait(seconds(4))
    await rig.start_broker()
    await rig.wipe_producer()
    for _ in range(2):
        await rig.alpha.send()


async def test_a_copy_that_comes_late_is_the_first_that_its_station_tells(rig):
    """Its clock has been shown, so its server knows when the frame ended."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.only("west", "east")
    rig.west.clone_uplinks_to("east", seconds(1))
    rig.west.drop_uplinks(1)
    rig.east.drop_uplinks(1)
    await rig.alpha.send(confirmed=True)


async def test_a_station_that_is_cut_off_while_it_is_away_waits_for_the_longer(rig):
    """It finds no server when its wait is over, and has been lost before."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    for _ in range(2):
        rig.east.leave_half_open(seconds(20))
        await rig.wait(milliseconds(1_900))
    rig.east.cut()
    await rig.wait(milliseconds(300))
    rig.east.restore()
    await rig.wait(seconds(30))


@pytest.mark.fault("broker", "refuses, and nobody hears it")
async def test_who_does_not_hear_that_a_message_was_refused_sends_it_on_the_next_connection(rig):
    """It waits after refusals that it has heard."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.refuse_messages(2)
    await rig.lose_pubacks()
    await rig.alpha.send()
    await rig.wait(milliseconds(900))
    await rig.find_broker()
    await rig.wait(seconds(5))


@pytest.mark.fault("upstream", "a server has lost what it promised, and its store everything")
async def test_behind_a_lost_outbox_a_frame_may_have_its_name_and_its_number_again(rig):
    """Who knows nothing any more takes a frame of before for a new one. The next is number 2."""
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", strategy="Mark", relaxed_f_cnt=True)
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    uplink = await device.send(confirmed=True)
    await rig.restart_store(empty=True)
    await rig.wipe_producer()
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.wait(seconds(2))
    await device.send()


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "is slow, and forgets the scripts")
async def test_a_slow_store_that_has_forgotten_its_scripts_is_asked_twice(rig):
    """A server waits for both of its answers."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    await rig.disturb_redis("forget scripts")
    rig.slow_store(milliseconds(150))
    await rig.alpha.send()


@pytest.mark.requires("crash in a transaction")
async def test_on_a_slow_disk_a_consumer_tries_again_a_little_later(rig):
    """And what it puts aside, it has put aside a little before it tells of that."""
    rig.keep_on_disk()
    rig.consumer(refuses="70B3D57ED0000001", refusals=6)
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.wait(milliseconds(400))
    await rig.slow_disk(milliseconds(20))
    await rig.alpha.send()
    await rig.slow_disk(0)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "is slow")
async def test_who_could_not_be_told_in_time_asks_a_device_once_more(rig):
    """One server has the answer of the store, and the other has it too late."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    device = rig.provision("often", strategy="Mark", nb_trans=3, adr=True)
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    rig.only("west", "east")
    rig.slow_store(milliseconds(150), "lns-a")
    rig.slow_store(milliseconds(250), "lns-b")
    await device.send()
    await rig.wait(seconds(3))
    rig.slow_store(0)
    rig.west.delay_uplinks(milliseconds(20))
    await device.send()


async def test_of_two_equal_wishes_the_first_may_be_lost(rig):
    """A server that ended has forgotten it; what it sends is the second, and the last."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.queue_downlink(rig.alpha, payload=b"same")
    await rig.restart_lns()
    await rig.queue_downlink(rig.alpha, payload=b"same")
    await rig.wait(seconds(1))
    await rig.alpha.send()


async def test_what_a_device_says_while_its_message_is_held_up_counts_a_little_later(rig):
    """Its next frame passes that one, and is answered as if it had said nothing."""
    rig.in_region("AS923-1")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.delay_upstream(seconds(3))
    said, after = await rig.craft(rig.alpha, f_opts=b"\x09"), await rig.craft(rig.alpha)
    for frame in (said, after):
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(seconds(1))
    await rig.wait(seconds(5))


async def test_a_session_that_is_over_leaves_its_address_to_other_devices(rig):
    """Servers draw numbers twice here; who has joined again elsewhere needs the old one no more."""
    rig.put_on("lns-b", "east")
    other = rig.provision("other", activation="otaa")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    await rig.bravo.join()
    rig.only("east")
    await rig.bravo.join()
    rig.only("west", "east")
    await rig.bravo.send()
    rig.only("west")
    await other.join()


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "is slow, and its server is killed")
@pytest.mark.parametrize("asks", [True, False])
async def test_what_a_server_has_handed_over_when_it_is_killed_comes_without_an_outcome(rig, asks):
    """It waits for its store until it says what became of the frame."""
    rig.only("west")
    before = await rig.alpha.send()
    rig.expect(before, FIRST, first="west")
    rig.slow_store(milliseconds(150))
    await rig.say(rig.told(await rig.craft(rig.alpha, confirmed=asks), by="west"), by="west")
    await rig.wait(milliseconds(200))
    await rig.kill_lns()
    await rig.restore_store()
    await rig.start_lns()
