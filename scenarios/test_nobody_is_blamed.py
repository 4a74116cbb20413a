"""Several things happen at once, all of them rightly: nobody may be blamed for it."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.words import FIRST, OWNED

TOLD_AGAIN = FIRST + Table("""
    strategy kind      | again
    *        confirmed | DuplicateDueToResubmission forwarded RX2
""")

pytestmark = pytest.mark.requires("virtual time")  # what matters is when each of them happens


async def send_its_own(rig):
    """A frame that belongs to the server of west."""
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="west")


async def test_a_station_without_a_clock_is_asked_anew_on_each_connection(rig):
    """Its next connection begins with a short wait again."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.west.break_clock()
    for _ in range(2):
        rig.west.cut()
        await rig.wait(milliseconds(400))
        rig.west.restore()
        await rig.wait(seconds(5))


async def test_a_device_of_class_c_has_left_the_session_in_which_it_is_spoken_to(rig):
    """It has joined again, and its server takes the session up with the first frame in it."""
    rig.only("west")
    device = rig.provision("always", activation="otaa", device_class="C")
    await device.join()
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    await device.join()
    await rig.queue_downlink(device, payload=b"\x05\x01", port=3)
    await rig.wait(minutes(1))
    after = await device.send()
    rig.expect(after, FIRST, first="west")


async def test_a_station_that_was_lost_often_comes_back_later_and_later(rig):
    """Whoever could not reach a server waits ten seconds for each loss so far."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    for _ in range(2):
        rig.east.leave_half_open(seconds(20))
        await rig.wait(seconds(8))
    rig.east.cut()
    await rig.wait(seconds(5) + milliseconds(600))
    rig.east.restore()
    await rig.wait(minutes(1))


async def test_equal_frames_that_waited_for_a_connection_are_told_once(rig):
    """Which of them a station tells nobody knows: the one that it heard best."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    for _ in range(3):
        rig.west.leave_half_open(seconds(1))
        await rig.wait(seconds(9))
    rig.west.leave_half_open(seconds(1))
    await rig.alpha.send(transmissions=3)
    await rig.alpha.send(b"next")
    await rig.wait(minutes(1))


async def test_a_device_begins_again_twice_and_knows_its_second_beginning_alone(rig):
    """What it knew before the first one is gone, though it keeps its memory at the second."""
    rig.only("west")
    device = rig.provision("forgetful", relaxed_f_cnt=True)
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    await device.restart(memory=False)
    await device.restart(memory=True)
    await device.send()
    await rig.wait(seconds(3))


async def test_a_frame_that_is_told_again_half_a_second_later_has_the_windows_of_the_first(rig):
    """Its moment is the same: what answers the second telling comes in what is left of it."""
    rig.only("west")
    rig.west.repeat_uplinks(milliseconds(900))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, TOLD_AGAIN, first="west", again="west")


async def test_a_downlink_that_is_held_up_has_a_counter_of_before(rig):
    """The next one passes it on its way."""
    rig.only("west")
    frames = [await rig.craft(rig.alpha, confirmed=True) for _ in range(2)]
    rig.west.delay_downlinks(milliseconds(300), 1)
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(100))
        rig.expect(frame, FIRST, first="west")
    await rig.wait(seconds(3))


async def test_a_station_without_a_clock_is_handed_what_answers_nothing(rig):
    """A device of class C is spoken to through it; what was heard without a clock has no part."""
    rig.only("west")
    device = rig.provision("always", device_class="C")
    first = await device.send()
    rig.expect(first, FIRST, first="west")
    rig.west.break_clock()
    rig.west.restart()
    await rig.wait(seconds(12))
    await device.send()
    await rig.queue_downlink(device, payload=b"\x05\x01", port=3)
    await rig.wait(seconds(20))


@pytest.mark.fault("broker", "how far the messages have come")
async def test_a_broker_refuses_what_a_server_says_of_itself(rig):
    """It says so anew ten seconds later, which is soon enough."""
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    await rig.refuse_messages(1)
    await rig.wait(seconds(45))


@pytest.mark.fault("broker", "an application that takes its time")
async def test_a_message_is_held_up_while_a_server_says_that_none_is(rig):
    """The server knows nothing of it: it has handed it over."""
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    for _ in range(8):
        rig.delay_upstream(milliseconds(1500))
        await rig.alpha.send()


async def test_what_a_device_grants_in_a_frame_that_was_refused_is_asked_for_again(rig):
    """Nobody has it: the server asks with its next answer."""
    rig.in_region("AS923-1")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.refuse_upstream(1)
    for f_opts in (b"\x09", b""):
        frame = await rig.craft(rig.alpha, f_opts=f_opts, confirmed=True)
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(seconds(5))


async def test_a_frame_is_forgotten_where_it_was_told_and_not_where_another_tells_it(rig):
    """Both servers had it; at one of them it was silent for longer than it is remembered."""
    rig.put_on("lns-b", "east")
    device = rig.provision("often", nb_trans=3)
    rig.only("west")
    alone = await rig.alpha.send(confirmed=True)
    rig.expect(alone, OWNED, owned="west")
    frame = await rig.craft(device, confirmed=True, adr=True)
    for station, after in (("west", seconds(20)), ("east", seconds(59)), ("west", seconds(5))):
        await rig.say(rig.told(frame, by=station), by=station)
        await rig.wait(after)


async def test_an_answer_that_came_too_late_was_the_first(rig):
    """The next one asks for nothing that goes with a first answer."""
    rig.in_region("AS923-1")
    device = rig.provision("late", nb_trans=3)
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.west.delay_uplinks(seconds(3), 1)
    await device.send(b"!", confirmed=True, retries=1)


async def test_somebody_is_spoken_to_before_a_station_has_said_that_it_sends(rig):
    """It says so ten milliseconds after its begin; until then nobody knows it."""
    device = rig.provision("always", device_class="C")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    frame = await rig.craft(device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(1_000))
    await rig.queue_downlink(device, payload=b"\x05\x01", port=3)
    await rig.wait(seconds(5))


async def test_a_device_of_class_c_does_not_listen_on_the_channel_of_its_first_window(rig):
    """What answers a frame that somebody made comes there, and asks for something."""
    rig.in_region("AS923-1")
    device = rig.provision("always", device_class="C")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.west.suppress_downlinks(1)
    await device.send(b"!", confirmed=True)
    frame = await rig.craft(device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(5))
    await device.send()


async def test_a_frame_is_told_again_while_a_server_asks_whose_it_is(rig):
    """Each telling has a claim of its own, and an answer with its own counter."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, OWNED, owned="west")
    rig.slow_store(milliseconds(50))
    rig.west.repeat_uplinks(milliseconds(30), 2)
    await rig.alpha.send(confirmed=True)


async def test_a_frame_comes_as_a_copy_whose_clock_shows_a_later_moment(rig):
    """The answer to the copy has windows of its own, after those of the first one."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, OWNED, owned="west")
    rig.west.break_clock()
    rig.west.clone_uplinks_to("east", milliseconds(20))
    rig.only("west", "east")
    rig.west.delay_uplinks(milliseconds(10), 1)
    await rig.alpha.send(confirmed=True)


async def test_what_a_device_grants_counts_after_a_frame_that_was_too_far_ahead(rig):
    """Nobody has taken that one: the next one is as new as before."""
    device = rig.provision("often", nb_trans=3)
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    await device.set_adr(True)
    await device.send(b"!")
    far = await rig.craft(device, f_cnt=20_000)
    await rig.say(rig.told(far, by="west"), by="west")
    await device.send(b"!", confirmed=True)


@pytest.mark.fault("broker", "says nothing")
async def test_a_broker_that_says_nothing_refuses_nobody(rig):
    """Whoever was to be refused hears nothing of it, and waits."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    await rig.refuse_logins(1)
    rig.cut_upstream()
    await rig.wait(seconds(1))
    await rig.restore_upstream()
    await rig.lose_pubacks()
    await rig.wait(seconds(5))
    await rig.find_broker()
    await rig.alpha.send()


@pytest.mark.fault("broker", "says nothing when it is back")
async def test_a_broker_that_was_away_says_nothing_when_it_is_back(rig):
    """How often a server has tried meanwhile nobody has seen: it waits for longer and longer."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    await rig.stop_broker()
    await rig.wait(seconds(2))
    await rig.start_broker()
    await rig.lose_pubacks()
    await rig.wait(seconds(5))
    await rig.find_broker()
    await rig.alpha.send()


async def test_a_second_answer_passes_the_first_one(rig):
    """That one is held up, and has what goes with a first answer."""
    device = rig.provision("often", nb_trans=3)
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.west.delay_downlinks(seconds(3), 1)
    rig.west.repeat_uplinks(seconds(1))
    await device.send(b"!", confirmed=True)
    await rig.wait(seconds(5))


@pytest.mark.fault("broker", "is slow")
async def test_a_server_waits_for_its_broker_and_another_one_answers_meanwhile(rig):
    """It was given its counter first, and hands it over last, in time."""
    rig.put_on("lns-b", "east")
    device = rig.provision("quick")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.delay_upstream(milliseconds(1_500), lns="lns-a")
    frame = await rig.craft(device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.only("east")
    await device.send(b"!", confirmed=True)
    await rig.wait(seconds(5))


@pytest.mark.requires("redis")
async def test_what_a_device_has_granted_a_store_forgets_with_its_claims(rig):
    """The next server asks the device once more: it knows nobody who could tell."""
    rig.in_region("AS923-1")
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    await rig.alpha.send()
    rig.only("east")
    await rig.disturb_redis("let expire")
    await rig.alpha.send(confirmed=True)


async def test_what_a_device_grants_in_a_frame_of_before_counts_for_nobody(rig):
    """Somebody has used a later counter meanwhile: the frame is refused."""
    rig.in_region("AS923-1")
    device = rig.provision("granting", f_cnt_up=9)
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    await device.send(b"!", confirmed=True)
    later = await rig.craft(device, f_cnt=20)
    await rig.say(rig.told(later, by="west"), by="west")
    await device.send(b"!")
    await rig.wait(seconds(5))


@pytest.mark.fault("broker", "is away")
async def test_a_message_is_held_up_that_is_older_than_one_that_waits(rig):
    """It comes behind that one, and the server says how far it is without it."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.cut_upstream()
    rig.delay_upstream(milliseconds(1_500))
    for device in (rig.alpha, rig.charlie):
        frame = await rig.craft(device)
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(200))
    await rig.wait(seconds(5))
    await rig.restore_upstream()
    await rig.wait(seconds(5))


@pytest.mark.fault("broker", "is behind a slow disk")
async def test_what_a_slow_disk_has_begun_is_done_when_it_is_quick_again(rig):
    """A message is written and read again: both take their time, and nobody waits for less."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    for _ in range(2):
        await rig.slow_disk(milliseconds(300))
        await rig.alpha.send()
        await rig.slow_disk(0)
    await rig.wait(seconds(5))


@pytest.mark.fault("store", "is slow")
async def test_a_device_grants_in_its_next_frame_while_the_one_before_is_decided(rig):
    """A server that answers that one has not judged the next one, which has been told already."""
    rig.in_region("AS923-1")
    rig.put_on("lns-b", "east")
    device = rig.provision("granting")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    await device.send(b"!", confirmed=True)
    rig.slow_store(milliseconds(100))
    frames = [
        await rig.craft(device, confirmed=True),
        await rig.craft(device, f_opts=b"\x09", confirmed=True),
    ]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(5))
    await rig.wait(seconds(5))
    await rig.restore_store()


@pytest.mark.fault("broker", "is slow")
async def test_a_status_is_wanted_that_is_on_its_way_to_the_application(rig):
    """The device has told it unasked, and the server is about to hand it over."""
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.delay_upstream(milliseconds(1_500))
    frame = await rig.craft(rig.alpha, f_opts=b"\x06\x80\x05")
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.queue_status(rig.alpha)
    await rig.wait(seconds(5))


@pytest.mark.fault("broker", "is behind a slow disk, and its server is killed")
async def test_what_is_acknowledged_while_a_killed_server_still_writes_is_left_by_nobody(rig):
    """It ends in the middle of a commit, and until then the broker goes on serving it."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.expect_reply(first)
    rig.only("west", "east")
    await rig.slow_disk(milliseconds(300))
    await rig.alpha.send(confirmed=True)
    await rig.slow_disk(0)
    await rig.kill_lns()
    await rig.start_lns()
    await rig.wait(seconds(2))
    await rig.kill_lns()
    await rig.start_lns()


@pytest.mark.fault("broker", "login refused")
async def test_a_login_that_is_refused_again_and_again_is_waited_for(rig):
    """Each time a server waits for longer: what it has comes when it may come at last."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    await rig.refuse_logins(7)
    rig.cut_upstream()
    await rig.wait(seconds(1))
    await rig.restore_upstream()
    await rig.alpha.send()


@pytest.mark.fault("upstream", "is held up, and its server is killed")
async def test_a_message_that_is_held_up_dies_with_its_server(rig):
    """Nobody has it: it is neither published nor asked for once more."""
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.delay_upstream(milliseconds(1_500))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(1_200))
    await rig.kill_lns()
    await rig.start_lns()
    await rig.wait(seconds(5))


async def test_a_relaxed_device_that_begins_again_with_its_first_counter_has_granted_nothing(rig):
    """Another frame with the counter of the first one: what was asked in the life before is gone.

    The device itself goes on, and its server has to ask it once more.
    """
    device = rig.provision("begins-again", relaxed_f_cnt=True, nb_trans=2)
    rig.only("west")
    await device.send()
    other = await rig.craft(device, f_cnt=1, payload=b"other")
    await rig.say(rig.told(other, by="west"), by="west")
    await rig.wait(seconds(1))
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "is behind a slow disk, which is full then")
async def test_a_disk_is_full_when_what_it_has_begun_is_written(rig):
    """Who is in the middle of a write on a slow disk has found room for it."""
    rig.keep_on_disk()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    await rig.slow_disk(milliseconds(300))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(50))
    await rig.fill_disk()
    await rig.slow_disk(0)
    await rig.free_disk()


async def test_an_answer_that_is_held_up_is_not_the_one_that_was_heard(rig):
    """Three answer one frame, and the one that asks for something comes last: none hears it."""
    rig.in_region("AS923-1")
    device = rig.provision("three-times", strategy="Drop")
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(300), 1)
    rig.west.repeat_uplinks(milliseconds(30), 2)
    await device.send(confirmed=True)
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")


@pytest.mark.requires("device time")
async def test_whoever_hears_no_answer_knows_no_time(rig):
    """Neither does it know how well it is heard: it says that it was not told."""
    rig.only("west")
    await rig.alpha.ask_time()
    await rig.alpha.ask_link()
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink, "+EVT:TIMEREQ_FAILED")


@pytest.mark.fault("upstream", "is held up, its station is cut off and its server killed")
async def test_what_a_station_has_told_that_is_cut_off_dies_with_its_server(rig):
    """Its link ended before its server did, which is no reason to have decided it by then."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.delay_upstream(milliseconds(1_500))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(200))
    rig.west.cut()
    await rig.wait(seconds(1))
    await rig.restart_lns()


@pytest.mark.fault("store", "forgets everything")
async def test_a_store_that_forgot_everything_begins_with_its_join_nonces_again(rig):
    """A device that counts them need not take the accept."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joins-again", activation="otaa")
    await device.join()
    await rig.restart_store(empty=True)
    await device.join()
    await device.send()
    rig.only("west")
    await send_its_own(rig)


@pytest.mark.fault("store", "answers late")
async def test_an_odd_microsecond_is_not_lost_on_the_way(rig):
    """Half of it to the store, and the other half back."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    for late_us in (1, 333, 77_777):
        rig.slow_store(late_us)
        await send_its_own(rig)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "is away when its server is killed")
async def test_a_server_that_is_killed_without_its_redis_is_started_with_it(rig):
    """At the end, by the bench itself; a scenario that starts it has to give it its Redis first."""
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.cut_store()
    await rig.kill_lns()
    await rig.wait(seconds(5))
    with pytest.raises(RuntimeError, match="lns-a cannot begin without its store"):
        await rig.start_lns()


@pytest.mark.fault("store", "forgets everything")
async def test_what_a_device_has_granted_a_store_forgets_with_everything(rig):
    """It has granted its dwell times, and is asked for them once more."""
    rig.in_region("AS923-1")
    rig.put_on("lns-b", "east")
    rig.only("west")
    for _ in range(2):
        await send_its_own(rig)
    await rig.restart_store(empty=True)
    await rig.restart_lns()
    for _ in range(2):
        await send_its_own(rig)


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "forgets everything")
async def test_a_redis_forgets_with_its_sessions_what_a_consumer_has_had(rig):
    """Its inbox lies beside them: it counts from one again, and takes again what it has had."""
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.consumer()
    rig.only("west")
    await rig.alpha.send()
    await rig.restart_store(empty=True)
    await send_its_own(rig)


@pytest.mark.fault("store", "forgets everything")
async def test_whose_a_frame_is_a_store_forgets_with_everything(rig):
    """Two servers own one frame and call its message by one name; then both count down anew."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(seconds(2), 1)
    await rig.alpha.send(confirmed=True)
    await rig.restart_store(empty=True)
    await rig.wait(seconds(2))
    frame = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(frame, by="east"), by="east")
    await rig.restart_store(empty=True)
    rig.only("west")
    await rig.wait(seconds(2))
    await send_its_own(rig)


@pytest.mark.fault("broker", "its outbox is wiped")
async def test_what_a_wiped_server_tells_again_it_tells_anew(rig):
    """Under the same name and the same number: it knows neither any more."""
    rig.put_on("lns-b", "east")
    heard_by_both = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(1))
    await rig.wipe_producer("lns-b")
    await rig.replay(heard_by_both, by="east", after=seconds(3))
    rig.only("west")
    await send_its_own(rig)


@pytest.mark.fault("upstream", "is held up, and its server killed between two copies")
async def test_a_text_that_is_told_again_after_a_crash_has_an_outcome_of_its_own(rig):
    """The same text three times: the second one dies with its server, and the third is decided."""
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, FIRST, first="west")
    rig.delay_upstream(milliseconds(1_500), 2)
    text = rig.told(await rig.craft(rig.charlie, confirmed=True), by="west")
    for after in seconds(3), milliseconds(500):
        await rig.say(text, by="west")
        await rig.wait(after)
    await rig.restart_lns()
    await rig.say(text, by="west")


@pytest.mark.fault("store", "forgets everything")
async def test_a_server_that_begins_behind_an_emptied_store_knows_no_counter(rig):
    """Its downlinks may be none to a device that has heard later ones, and nobody could know."""
    device = rig.provision("spoken-to", f_cnt=1, f_cnt_down=5)
    rig.put_on("lns-b", "east")
    rig.only("west")
    await rig.start()
    await rig.restart_store(empty=True)
    await rig.kill_lns("lns-a")
    await rig.start_lns("lns-a")
    await rig.wait(seconds(2))
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="west")


@pytest.mark.fault("store", "forgets everything")
async def test_a_server_that_goes_on_behind_an_emptied_store_knows_its_counters(rig):
    """The other one begins, and knows none."""
    device = rig.provision("spoken-to", f_cnt=1, f_cnt_down=65_534)
    rig.put_on("lns-b", "east")
    rig.only("west")
    await rig.start()
    await rig.restart_store(empty=True)
    await rig.restart_lns(lns="lns-b")
    await rig.wait(seconds(2))
    uplink = await device.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="west")


@pytest.mark.fault("broker", "message refused")
@pytest.mark.parametrize("after", [milliseconds(1), milliseconds(400)])
async def test_what_is_too_old_when_its_turn_comes_keeps_nobody_waiting(rig, after):
    """The next one leaves before the server has put the first one aside."""
    rig.park_after(seconds(1))
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.refuse_messages(2)
    await rig.alpha.send(confirmed=True)
    await rig.wait(after)
    await rig.alpha.send(confirmed=True)


@pytest.mark.fault("broker", "late")
async def test_what_is_too_old_when_it_comes_to_the_outbox_is_put_aside_later(rig):
    """Nothing of that was its server's to hasten."""
    rig.park_after(seconds(1))
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.delay_upstream(seconds(3))
    await rig.alpha.send()
    await rig.wait(seconds(6))


@pytest.mark.fault("broker", "away for too long")
async def test_what_is_put_aside_may_have_the_name_of_what_came_before_a_crash(rig):
    """A server that was killed counts the copies of a frame anew."""
    rig.park_after(seconds(1))
    rig.put_on("lns-b", "east")
    device = rig.provision("always", strategy="None")
    rig.only("west")
    first = await rig.alpha.send(confirmed=True)
    rig.expect(first, OWNED, owned="west")
    rig.only("west", "east")
    uplink = await device.send()
    await rig.kill_lns("lns-a")
    await rig.start_lns("lns-a")
    await rig.stop_broker()
    await rig.replay(uplink, by="west", after=seconds(20))
    await rig.wait(seconds(4))
    await rig.start_broker()


async def test_a_request_is_done_when_its_station_has_said_so_over_a_web_socket(rig):
    """What a server says of a text is behind it in the books, however fast the server is."""
    rig.open_door()
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"\x05\x01", port=3)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")


async def test_a_station_that_begins_again_has_left_its_web_socket(rig):
    """A server that is met by it twice ends the older one."""
    rig.open_door()
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.west.restart()
    await rig.wait(seconds(20))


@pytest.mark.fault("store", "slow")
async def test_what_a_device_grants_while_no_store_answers_is_asked_for_again(rig):
    """Its frame was refused, so nothing of it was heard."""
    rig.in_region("AS923-1")
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    rig.slow_store(seconds(1))
    await rig.alpha.send()
    await rig.wait(seconds(3))
    await rig.restore_store()
    await rig.alpha.send(confirmed=True)


@pytest.mark.requires("redis")
@pytest.mark.fault("lns", "killed")
@pytest.mark.parametrize("after", [5, 49, 101])
async def test_who_is_killed_waits_for_no_redis_and_comes_to_it_no_more(rig, after):
    """It was about to be told whose a frame is, or to keep what it knows."""
    rig.put_on("lns-b", "east")
    rig.keep_in_redis()
    rig.only("east")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED, owned="east")
    rig.slow_store(milliseconds(50))
    await rig.wait(seconds(1))
    await rig.say(rig.told(await rig.craft(rig.alpha), by="east"), by="east")
    await rig.pause(milliseconds(after))
    await rig.kill_lns("lns-b")
    await rig.start_lns("lns-b")
    await rig.restore_store()


@pytest.mark.fault("broker", "away for too long")
async def test_who_has_lost_its_outbox_puts_its_first_message_aside_once_more(rig):
    """It numbers them from 1 again."""
    rig.park_after(seconds(1))
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    for _ in range(2):
        await rig.stop_broker()
        await rig.alpha.send()
        await rig.wait(seconds(4))
        await rig.start_broker()
        await rig.wipe_producer()


@pytest.mark.fault("upstream", "is slow")
async def test_an_answer_whose_application_was_slow_comes_behind_that_to_the_next_frame(rig):
    """Their counters came with their claims, in order; the device takes the later one only."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, OWNED, owned="west")
    rig.delay_upstream(milliseconds(1_500))
    for _ in range(2):
        frame = await rig.craft(rig.alpha, confirmed=True)
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(50))
    await rig.wait(seconds(5))
