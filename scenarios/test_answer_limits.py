"""What fits an answer, what has to wait for the next one, and until when: each limit on both sides.

LoRaWAN 1.0.4, 4.2 and 4.3; Regional Parameters RP002 (payload sizes).
"""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear
from scenarios.words import AGAIN, ASKED, COPY, FIRST, IN_RX2, LATE, OWNED, TOO_LATE, WITH_DOWNLINK

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

KEPT_BACK = Table("""
    strategy kind        | back
    *        confirmed   | NonDuplicate forwarded Suppressed Owner
""")
UNVERIFIED = Table("""
    strategy kind        | unverified
    *        confirmed   | NonDuplicate forwarded Suppressed Unavailable
""")
UNKEPT = Table("""
    strategy kind        | unkept
    *        confirmed   | NonDuplicate forwarded Suppressed
""")
COPY_OF_ASKING = Table("""
    strategy kind        | copy
    Drop     *           | Duplicate dropped(Duplicate) Suppressed
    Mark     *           | SoftDuplicate marked Suppressed
    None     *           | SoftDuplicate forwarded Suppressed
""")


async def heard(rig, device, *, after=3_000_000, dr=None, freq_hz=None, **facts):
    """A frame of a device that the first station has just heard; then time passes."""
    frame = await rig.craft(device, **facts)
    await rig.say(rig.told(frame, by="west", dr=dr, freq_hz=freq_hz), by="west")
    await rig.wait(after)
    return frame


# --- when -----------------------------------------------------------------------------------------

# The server knows the clock of a station here to 9 µs.
LATEST = {599_991: FIRST, 599_992: IN_RX2, 1_599_991: IN_RX2, 1_599_992: TOO_LATE}


@pytest.mark.parametrize("late_us", LATEST)
async def test_a_window_is_met_400_ms_before_it_opens(rig, late_us):
    """And not a microsecond later."""
    clock = await heard(rig, rig.charlie)
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(late_us)
    await rig.say(text, by="west")
    rig.expect(clock, FIRST, first="west")
    rig.expect(frame, LATEST[late_us], first="west")


# --- how much -------------------------------------------------------------------------------------

RX2_SIZES = {"EU868": (51, 0), "US915": (33, 8)}


@pytest.mark.parametrize("name", RX2_SIZES)
@pytest.mark.parametrize("beyond", [0, 1])
async def test_what_rx2_cannot_take_waits_for_rx1(rig, name, beyond):
    """Too late for RX1, and one octet too many for RX2: it is not given up."""
    most, rx2_dr = RX2_SIZES[name]
    rig.in_region(name)
    rig.only("west")
    before = await heard(rig, rig.charlie)
    await rig.queue_downlink(rig.alpha, payload=bytes(most + beyond), port=9)
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(900))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    after = await heard(rig, rig.alpha, confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.expect(frame, LATE, late="west")
    rig.expect_answer(frame, f_port=None if beyond else 9, f_pending=bool(beyond), rx2_dr=rx2_dr)
    rig.expect(after, FIRST, first="west")
    rig.expect_answer(after, f_port=9 if beyond else None, f_pending=False)


async def test_commands_go_first(rig):
    """With them the payload of the application has no room: it goes with the next answer."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=bytes(51), port=9)
    asking = await heard(rig, rig.alpha, dr=0, f_opts=b"\x02")
    silent = await heard(rig, rig.alpha, dr=0)
    rig.expect(asking, ASKED, asked="west")
    rig.expect_answer(asking, f_port=None, f_pending=True)
    rig.expect(silent, ASKED, asked="west")
    rig.expect_answer(silent, f_port=9, f_pending=False)


@pytest.mark.parametrize(("size", "fits"), [(49, True), (50, False)])
async def test_commands_and_payload_share_an_answer_that_takes_both(rig, size, fits):
    """DevStatusReq is one octet, LinkCheckAns three: DR0 takes 51 together."""
    rig.only("west")
    await rig.queue_status(rig.alpha)
    await rig.queue_downlink(rig.alpha, payload=bytes(size - 1), port=9)
    asking = await heard(rig, rig.alpha, dr=0)
    rig.expect(asking, ASKED, asked="west")
    rig.expect_answer(asking, f_port=9, f_pending=False)
    await rig.queue_downlink(rig.alpha, payload=bytes(size - 1), port=10)
    both = await heard(rig, rig.alpha, dr=0, f_opts=b"\x02")
    rig.expect(both, ASKED, asked="west")
    rig.expect_answer(both, f_port=10 if fits and size < 49 else None)


async def test_an_answer_has_commands_beside_what_the_application_says(rig, confirmed):
    """What the device asked for, what the network wants of it, and behind them the payload."""
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    rig.only("west")
    await rig.queue_status(device)
    for payload in (b"on", b"off"):
        await rig.queue_downlink(device, payload=payload, port=9, confirmed=confirmed)
    facts = {"adr": True, "confirmed": confirmed}
    asking = await heard(rig, device, dr=5, f_opts=b"\x02\x0d", **facts)
    telling = await heard(rig, device, dr=5, f_opts=b"\x03\x07\x06\xff\x01", ack=True, **facts)
    rig.expect(asking, ASKED, asked="west")
    rig.expect_answer(asking, f_opts_bytes=15, f_port=9, ack=confirmed, f_pending=True)
    rig.expect(telling, ASKED, asked="west")
    rig.expect_answer(telling, f_opts_bytes=0, f_port=9, ack=confirmed, f_pending=False)
    rig.expect_status(device)


STRANGE_DRS = {"EU868": (0, (8, 15)), "US915": (8, (5, 7, 8, 13, 14, 15)), "AS923-1": (2, (8, 15))}
"""Data rate of RX2, and those of no uplink."""


@pytest.mark.parametrize("name", STRANGE_DRS)
async def test_a_data_rate_that_the_region_has_not_is_answered_in_rx2(rig, name):
    """A station may tell any; nobody knows where RX1 would be, nor how well it was heard."""
    rig.in_region(name)
    rig.only("west")
    rx2_dr, drs = STRANGE_DRS[name]
    frames = [await heard(rig, rig.alpha, dr=dr, f_opts=b"\x02") for dr in drs]
    for frame in frames:
        rig.expect(frame, LATE, late="west")
        rig.expect_answer(frame, rx1_dr=None, rx2_dr=rx2_dr)


async def test_fsk_has_no_margin(rig):
    """It is answered as it was sent; how far it is above the noise nobody can say."""
    rig.only("west")
    frame = await heard(rig, rig.alpha, dr=7, f_opts=b"\x02")
    rig.expect(frame, ASKED, asked="west")
    rig.expect_answer(frame, rx1_dr=7)


@pytest.mark.parametrize("dr", range(6))
async def test_each_spreading_factor_has_a_floor_of_its_own(rig, dr):
    """SF12 is heard at -20 dB, each one below 2.5 dB above that: the margin is told in whole dB."""
    frame = await rig.craft(rig.alpha, f_opts=b"\x02")
    text = rig.told(frame, by="west", dr=dr)
    await rig.say(text.replace('"snr":7.5', '"snr":1.25'), by="west")
    half = await rig.craft(rig.alpha, f_opts=b"\x02")
    await rig.wait(seconds(3))
    text = rig.told(half, by="west", dr=dr)
    await rig.say(text.replace('"snr":7.5', '"snr":1.75'), by="west")
    await rig.wait(seconds(3))
    for one in (frame, half):
        rig.expect(one, ASKED, asked="west")


@pytest.mark.parametrize("snr", [-11.25, 1_000])
async def test_a_margin_is_from_0_to_254(rig, snr):
    """However little of the frame there was, and whatever a station says: 255 stands for none."""
    frame = await rig.craft(rig.alpha, f_opts=b"\x02")
    text = rig.told(frame, by="west")
    await rig.say(text.replace('"snr":7.5', f'"snr":{snr}'), by="west")
    await rig.wait(seconds(2))
    rig.expect(frame, ASKED, asked="west")


# --- what is under way ----------------------------------------------------------------------------


async def test_what_is_under_way_is_not_sent_twice_before_rx2_is_over(rig):
    """Nobody has reported it yet: it is sent again from then on, and meanwhile FPending tells."""
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    first = await heard(rig, rig.alpha, after=milliseconds(1_300))
    silent = await heard(rig, rig.alpha, after=milliseconds(400))
    asking = await heard(rig, rig.alpha, confirmed=True, after=milliseconds(400))
    again = await heard(rig, rig.alpha)
    last = await heard(rig, rig.alpha)
    for frame in (first, again):
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9, f_pending=False)
    rig.expect(silent, FIRST, first="west")
    rig.expect(asking, FIRST, first="west")
    rig.expect_answer(asking, f_port=None, f_pending=True)
    rig.expect(last, FIRST, first="west")


async def test_what_nobody_proves_is_sent_three_times_in_rx2_too(rig):
    """Whichever window it leaves in: the fourth frame gets nothing any more."""
    clock = await heard(rig, rig.charlie)
    rig.west.suppress_downlinks(9)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    rig.expect(clock, FIRST, first="west")
    for turn in range(4):
        frame = await rig.craft(rig.alpha)
        text = rig.told(frame, by="west")
        await rig.wait(milliseconds(850))
        await rig.say(text, by="west")
        await rig.wait(milliseconds(1_200))  # RX2 is just over
        rig.expect(frame, LATE if turn < 3 else FIRST, **{"late" if turn < 3 else "first": "west"})


async def test_a_report_of_what_was_sent_again_proves_nothing_more(rig):
    """It comes late: that it is on the air was known from the second sending."""
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    first = await heard(rig, rig.alpha)
    late = rig.sent(by="west")
    again = await heard(rig, rig.alpha)
    await rig.say(late, by="west")
    last = await heard(rig, rig.alpha)
    for frame in (first, again):
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9)
    rig.expect(last, FIRST, first="west")


async def test_a_report_that_comes_behind_forty_others_is_of_its_downlink(rig):
    """A server knows what it has handed over until that is reported."""
    rig.west.suppress_downlinks(41)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    first = await heard(rig, rig.alpha)
    late = rig.sent(by="west")
    for _ in range(40):
        frame = await heard(rig, rig.charlie, after=milliseconds(50), confirmed=True)
    await rig.say(late, by="west")
    after = await heard(rig, rig.alpha)
    rig.expect(first, WITH_DOWNLINK, first="west")
    for one in (frame, after):
        rig.expect(one, FIRST, first="west")
    rig.expect_on_air(first, "RX1")


async def test_an_acknowledgement_proves_only_what_asked_for_one(rig, confirmed):
    """And only what was sent: a device that acknowledges too much takes nothing from anybody."""
    rig.west.suppress_downlinks(1)
    early = await heard(rig, rig.alpha)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9, confirmed=confirmed)
    first = await heard(rig, rig.alpha, ack=True)
    again = await heard(rig, rig.alpha, ack=not confirmed)
    rig.expect(early, FIRST, first="west")
    for frame in (first, again):
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9, confirmed=confirmed, f_pending=False)


async def test_sixteen_downlinks_wait_for_a_device(rig):
    """The seventeenth is refused; they go down in their order."""
    rig.only("west")
    for number in range(18):
        await rig.queue_downlink(rig.alpha, payload=bytes([number]), port=number + 1)
    for number in range(17):
        uplink = await heard(rig, rig.alpha)
        rig.expect(uplink, WITH_DOWNLINK if number < 16 else FIRST, first="west")
        if number < 16:
            rig.expect_answer(uplink, f_port=number + 1, f_pending=number < 15)


@pytest.mark.fault("store", "cut")
async def test_an_answer_that_did_not_leave_has_used_nothing_up(rig):
    """The store goes away before the counter is kept: what the application said waits as before."""
    rig.put_on("lns-b", "east")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    rig.slow_store(milliseconds(100), "lns-a")
    kept_back = await heard(rig, rig.alpha, confirmed=True, after=milliseconds(50))
    rig.cut_store("lns-a")
    await rig.wait(milliseconds(400))
    await rig.restore_store("lns-a")
    rig.west.suppress_downlinks(3)
    tries = [await heard(rig, rig.alpha) for _ in range(3)]
    last = await heard(rig, rig.alpha)
    rig.expect(kept_back, KEPT_BACK, back="west")
    for frame in tries:
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9)
    rig.expect(last, FIRST, first="west")


@pytest.mark.fault("store", "cut")
async def test_an_answer_that_did_not_leave_takes_no_time_from_the_one_before_it(rig):
    """A class C device has 8 s to acknowledge what that has brought, whatever is wanted then."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.put_on("lns-b", "east")
    await rig.queue_downlink(always, payload=b"sure", port=9, confirmed=True)
    rig.west.suppress_downlinks(1)
    first = await heard(rig, always)
    rig.slow_store(milliseconds(100), "lns-a")
    kept_back = await heard(rig, always, confirmed=True, after=milliseconds(50))
    rig.cut_store("lns-a")
    await rig.wait(milliseconds(400))
    await rig.restore_store("lns-a")
    await rig.queue_downlink(always, payload=b"next", port=10)
    await rig.wait(seconds(1))
    again = await heard(rig, always)
    rig.expect(kept_back, KEPT_BACK, back="west")
    for frame in (first, again):
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9)


@pytest.mark.fault("store", "slow")
async def test_a_frame_that_nobody_vouched_for_is_not_answered_later(rig):
    """The store is back before RX1 opens; whose the frame is it was not asked again."""
    rig.put_on("lns-b", "east")
    rig.slow_store(seconds(1))
    frame = await heard(rig, rig.alpha, confirmed=True, after=milliseconds(200))
    await rig.restore_store()
    await rig.wait(seconds(2))
    rig.expect(frame, UNVERIFIED, unverified="west")


# --- commands -------------------------------------------------------------------------------------


async def test_a_copy_of_a_frame_that_asks_withholds_its_answer(rig, strategy):
    """Whatever it asks for: the time, the link, or any sign of life."""
    for facts in ({"f_opts": b"\x0d"}, {"f_opts": b"\x02"}, {"adr": True, "adr_ack_req": True}):
        frame = await heard(rig, rig.alpha, after=milliseconds(100), **facts)
        await rig.say(rig.told(frame, by="east"), by="east")
        await rig.wait(seconds(3))
        rig.expect(frame, ASKED + COPY_OF_ASKING, asked="west", copy="east")


@pytest.mark.parametrize("dr", [0, 1, 5])
async def test_who_is_asked_to_repeat_sends_as_fast_as_before(rig, dr):
    """LinkADRReq names a data rate in any case: that of the frame that it answers."""
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    asked = await heard(rig, device, dr=dr, adr=True)
    rig.expect(asked, ASKED, asked="west")
    rig.expect_answer(asked, f_opts_bytes=5)


async def test_a_copy_tells_no_status_and_ends_no_request(rig, strategy):
    """What its first one has told is told; what the application wants meanwhile is asked for."""
    device = rig.provision("telling", f_cnt=10, strategy=strategy)
    frame = await heard(rig, device, after=milliseconds(100), f_opts=b"\x06\xff\x01")
    await rig.queue_status(device)
    await rig.say(rig.told(frame, by="east"), by="east")
    await rig.wait(seconds(3))
    asking = await heard(rig, device)
    rig.expect(frame, FIRST + COPY, first="west", copy="east")
    rig.expect(asking, ASKED, asked="west")
    rig.expect_status(device)


async def test_a_repeated_answer_asks_for_nothing(rig, strategy):
    """Of the three times that a device is asked for its status none is a repetition."""
    device = rig.provision("silent", f_cnt=10, strategy=strategy)
    await rig.queue_status(device)
    frame = await heard(rig, device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    frames = [await heard(rig, device) for _ in range(3)]
    rig.expect(frame, FIRST + AGAIN, first="west", again="west")
    for number, one in enumerate(frames):
        words = ASKED if number < 2 else FIRST
        rig.expect(one, words, **{"asked" if number < 2 else "first": "west"})


async def test_a_status_that_is_given_up_takes_no_counter(rig):
    """Asked for three times in vain: the frame behind those is not answered, and claims nothing."""
    rig.put_on("lns-b", "east")
    device = rig.provision("silent", f_cnt=10, f_cnt_down=4)
    await rig.queue_status(device)
    for _ in range(3):
        rig.expect(await heard(rig, device), ASKED, asked="west")
    rig.expect(await heard(rig, device), FIRST, first="west")
    asking = await heard(rig, device, confirmed=True)
    rig.expect(asking, ASKED, asked="west")
    rig.expect_answer(asking, f_cnt=7)


@pytest.mark.parametrize("us", [250_000, 999_990, 2_000_000_000_000_000, 5_000_000_000_000_000])
async def test_a_station_with_gps_knows_best_what_time_it_is(rig, us):
    """A device is told the moment when its frame ended, whatever the server's clock shows.

    Beyond 31 bits of seconds too, and beyond 32 their lower ones.
    """
    frame = await rig.craft(rig.alpha, f_opts=b"\x0d")
    text = rig.told(frame, by="west")
    assert '"gpstime":0' in text
    told = f'"gpstime":{1_400_000_000_000_000 + us}'
    await rig.say(text.replace('"gpstime":0', told), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, ASKED, asked="west")


async def test_a_fine_timestamp_is_no_time_of_day(rig):
    """`fts` counts the nanoseconds of some second: without `gpstime` the server's clock counts."""
    frame = await rig.craft(rig.alpha, f_opts=b"\x0d")
    text = rig.told(frame, by="west")
    assert '"fts":-1' in text
    await rig.say(text.replace('"fts":-1', '"fts":987654321'), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, ASKED, asked="west")


@pytest.mark.fault("store", "slow")
async def test_what_came_while_an_answer_was_made_durable_is_pending(rig):
    """The device has to ask again soon: one more waits by the time that its answer leaves."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    await rig.start()
    rig.slow_store(milliseconds(190), "lns-a")
    await rig.queue_downlink(device, payload=b"one", port=8)
    frame = await rig.craft(device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(300))
    await rig.queue_downlink(device, payload=b"two", port=8)
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(frame, OWNED, owned="west")
    rig.expect_answer(frame, f_port=8, f_pending=True)


async def test_a_refusal_ends_what_was_asked(rig):
    """A LinkADRAns behind it answers nothing any more."""
    delta = rig.provision("delta", nb_trans=3)
    asked = await heard(rig, delta, adr=True)
    refused = await heard(rig, delta, f_opts=b"\x03\x00")
    unasked = await heard(rig, delta, f_opts=b"\x03\x07")
    again = await heard(rig, delta, adr=True)
    for frame in (asked, again):
        rig.expect(frame, ASKED, asked="west")
    for frame in (refused, unasked):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.parametrize("late_us", [-1, 0])
async def test_a_status_is_due_when_its_time_is_over(rig, late_us):
    """`dev_status_s` after the last one, and not a microsecond before."""
    delta = rig.provision("delta", dev_status_s=3_600)
    told = await heard(rig, delta, f_opts=b"\x06\xff\x01", after=0)
    await rig.wait(seconds(3_600) + late_us)
    frame = await heard(rig, delta)
    rig.expect(told, FIRST, first="west")
    rig.expect(frame, FIRST if late_us else ASKED, **{"first" if late_us else "asked": "west"})


async def test_a_status_that_the_application_wanted_is_one_as_well(rig):
    """`dev_status_s` counts from the last one, whoever has asked for it."""
    delta = rig.provision("delta", dev_status_s=3_600)
    for wanted, wait_min in ((False, 30), (True, 40)):
        if wanted:
            await rig.queue_status(delta)
        asked = await heard(rig, delta)
        told = await heard(rig, delta, f_opts=b"\x06\xff\x01")
        await rig.wait(minutes(wait_min))
        rig.expect(asked, ASKED, asked="west")
        rig.expect(told, FIRST, first="west")
    rig.expect(await heard(rig, delta), FIRST, first="west")
    rig.expect_status(delta, times=2)


@pytest.mark.parametrize("dr", [0, 6, 7])
async def test_what_sets_the_repetitions_leaves_the_data_rate_as_it_is(rig, dr):
    """A wide channel and FSK as well: LinkADRReq has no word for that but to say it again."""
    delta = rig.provision("delta", nb_trans=3)
    frame = await heard(rig, delta, adr=True, dr=dr)
    rig.expect(frame, ASKED, asked="west")


async def test_a_device_that_is_left_alone_is_asked_again_when_it_is_due(rig):
    """Three times in vain; `dev_status_s` later it may have learnt to answer."""
    delta = rig.provision("delta", dev_status_s=3_600)
    for round_ in range(2):
        frames = [await heard(rig, delta) for _ in range(5)]
        for n, frame in enumerate(frames):
            rig.expect(frame, ASKED if n < 3 else FIRST, **{"asked" if n < 3 else "first": "west"})
        await rig.wait(minutes(60 + round_))


# --- class C --------------------------------------------------------------------------------------


async def test_class_c_sends_what_waits_one_after_the_other(rig):
    """As soon as the one before is reported on the air; the device hears all before it speaks."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    for text in (b"one", b"two"):
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(5))
    after = await always.send()
    for text in (b"one", b"two"):
        rig.expect_downlink(always, text, port=8, window="C")
    rig.expect_reply(after)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_class_c_is_sent_again_what_an_answer_did_not_bring(rig, confirmed):
    """Its station never reports the answer: it is sent by itself then, and no uplink is waited for.

    As long as it is under way nothing else is sent; what is confirmed goes in RX2 as well.
    """
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"on", port=8, confirmed=confirmed)
    uplink = await always.send()
    await rig.wait(seconds(20))
    rig.expect(uplink, WITH_DOWNLINK, first="west")
    rig.expect_downlink(always, b"on", port=8, window="C")


async def test_class_c_is_sent_again_what_an_answer_did_not_bring_in_rx2(rig):
    """The same where RX1 could not be met any more."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"on", port=8)
    frame = await rig.craft(always)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(700))
    await rig.say(text, by="west")
    await rig.wait(seconds(10))
    rig.expect(frame, LATE, late="west")
    rig.expect_downlink(always, b"on", port=8, window="C")


async def test_class_c_with_a_late_rx1_is_sent_again_what_an_answer_did_not_bring(rig):
    """RxDelay is fifteen seconds: until then the answer is under way, and nobody asks again."""
    always = rig.provision("slow", activation="otaa", device_class="C", rx_delay_s=15)
    rig.only("west")
    joining = await always.join()
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"on", port=8)
    uplink = await always.send()
    await rig.wait(seconds(30))
    rig.expect(joining, FIRST, first="west")
    rig.expect(uplink, WITH_DOWNLINK, first="west")
    rig.expect_downlink(always, b"on", port=8, window="C")


@pytest.mark.parametrize("is_sure", [False, True])
async def test_class_c_is_not_sent_again_what_an_answer_brought_in_rx2(rig, is_sure):
    """Its station reports it a moment after the window has opened: nothing is missing before.

    What the device is to acknowledge it may acknowledge for eight seconds from then on.
    """
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    await rig.queue_downlink(always, payload=b"on", port=8, confirmed=is_sure)
    frame = await rig.craft(always)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(700))
    await rig.say(text, by="west")
    await rig.wait(seconds(7 if is_sure else 10))
    after = await heard(rig, always, confirmed=True, ack=is_sure)
    rig.expect(frame, LATE, late="west")
    rig.expect_answer(frame, f_cnt=0, f_port=8)
    rig.expect(after, FIRST, first="west")
    rig.expect_answer(after, f_cnt=1, f_port=None)


AIRS = {
    "SF12": ("EU868", None, 43),
    "SF11": ("EU868", 1, 43),
    "SF10": ("AS923-1", None, 43),
    "FSK": ("EU868", 7, 222),
}
"""Region, data rate of RX2, octets of the first downlink."""


@pytest.mark.parametrize(("name", "rx2_dr", "size"), AIRS.values(), ids=AIRS)
async def test_class_c_is_sent_to_when_the_air_is_free(rig, name, rx2_dr, size):
    """DR0 takes seconds: what waits comes when the one before is over, and is sent once."""
    rig.in_region(name)
    rig.only("west")
    facts = {"f_cnt": 10} if rx2_dr is None else {"activation": "otaa", "rx2_dr": rx2_dr}
    always = rig.provision("listening", device_class="C", **facts)
    if rx2_dr is not None:
        rig.expect(await always.join(), FIRST, first="west")
    before = await always.send()
    texts = [bytes([number]) * octets for number, octets in enumerate((size, size - 3, 40))]
    for text in texts:
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(12))
    after = await always.send()
    for text in texts:
        rig.expect_downlink(always, text, port=8, window="C")
    rig.expect_reply(after)
    is_told = name == "AS923-1"  # how long a frame may be
    rig.expect(before, WITH_DOWNLINK if is_told else FIRST, first="west")
    rig.expect(after, FIRST, first="west")


async def test_class_c_is_sent_to_when_the_air_is_free_though_nothing_waited(rig):
    """What is asked for while the one before is on the air waits until the device can hear it."""
    rig.only("west")
    always = rig.provision("listening", device_class="C")
    before = await always.send()
    texts = [bytes([number]) * 40 for number in range(2)]
    for text in texts:
        await rig.queue_downlink(always, payload=text, port=8)
        await rig.wait(seconds(1))
    await rig.wait(seconds(6))
    after = await always.send()
    for text in texts:
        rig.expect_downlink(always, text, port=8, window="C")
    rig.expect_reply(after)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_class_c_goes_on_after_an_answer(rig):
    """What waits for one that nobody has heard goes with its first answer, and then at once."""
    always = rig.provision("listening", device_class="C", dr=0)
    rig.only("west")
    long = b"one" * 10
    for text in (long, b"two"):
        await rig.queue_downlink(always, payload=text, port=8)
    first = await always.send()
    await rig.wait(seconds(5))
    after = await always.send()
    rig.expect_downlink(always, long, port=8)
    rig.expect_downlink(always, b"two", port=8, window="C")
    rig.expect_reply(after)
    rig.expect(first, WITH_DOWNLINK, first="west")
    rig.expect(after, FIRST, first="west")


async def test_class_c_goes_on_after_a_frame_that_was_told_too_late(rig):
    """It cannot be answered any more; what waits needs no window."""
    always = rig.provision("listening", device_class="C")
    rig.only("west")
    clock = await heard(rig, rig.charlie)
    await rig.queue_downlink(always, payload=b"on", port=8)
    frame = await rig.craft(always)
    text = rig.told(frame, by="west")
    await rig.wait(seconds(2))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    for one in (clock, frame):
        rig.expect(one, FIRST, first="west")
    rig.expect_downlink(always, b"on", port=8, window="C")


@pytest.mark.fault("tap", "cut")
async def test_class_c_waits_for_a_station_that_is_away(rig):
    """What is asked meanwhile goes with the next answer, for its station is nowhere to be found."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.cut()
    await rig.wait(seconds(1))
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(1))
    rig.west.restore()
    await rig.wait(seconds(20))
    after = await always.send()
    rig.expect_downlink(always, b"on", port=8)
    rig.expect(before, FIRST, first="west")
    rig.expect(after, WITH_DOWNLINK, first="west")


@pytest.mark.fault("tap", "cut")
async def test_class_c_waits_for_an_acknowledgement_as_long_as_its_station_is_there(rig):
    """Nobody heard it, and the station went away: it goes with the next answer, not by itself.

    What is asked for afterwards is sent at once again.
    """
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"on", port=8, confirmed=True)
    await rig.wait(seconds(1))
    rig.west.cut()
    await rig.wait(seconds(1))
    rig.west.restore()
    await rig.wait(seconds(20))
    after = await always.send()
    acknowledges = await always.send()
    await rig.queue_downlink(always, payload=b"off", port=8)
    await rig.wait(seconds(5))
    rig.expect_downlink(always, b"on", port=8)
    rig.expect_downlink(always, b"off", port=8, window="C")
    for uplink in (before, acknowledges):
        rig.expect(uplink, FIRST, first="west")
    rig.expect(after, WITH_DOWNLINK, first="west")


@pytest.mark.fault("store", "cut")
async def test_class_c_waits_for_a_store_that_is_away(rig):
    """No counter can be taken; what waits goes with an answer once there is one again.

    However often it was tried meanwhile: nothing has left."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await always.send()
    rig.cut_store("lns-a")
    for text in (b"on", b"off", b"more"):
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(5))
    await rig.restore_store("lns-a")
    await rig.wait(seconds(5))
    after = await always.send()
    await rig.wait(seconds(5))
    rig.expect_downlink(always, b"on", port=8)
    for text in (b"off", b"more"):
        rig.expect_downlink(always, text, port=8, window="C")
    rig.expect(before, FIRST, first="west")
    rig.expect(after, WITH_DOWNLINK, first="west")


async def test_class_c_waits_for_rx1_with_what_rx2_cannot_take(rig):
    """RX2 is DR0, and takes 51 octets; the answer to its next uplink takes more."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    await rig.queue_downlink(always, payload=bytes(51), port=8)
    await rig.wait(seconds(5))
    await rig.queue_downlink(always, payload=bytes(52), port=9)
    asked = await always.send()
    rig.expect(before, FIRST, first="west")
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect_answer(asked, f_port=9, f_pending=False)
    rig.expect_downlink(always, bytes(51), port=8, window="C")
    rig.expect_downlink(always, bytes(52), port=9)


async def test_each_class_c_device_is_sent_to_through_a_station_of_its_own(rig):
    """Two of them, each heard by another station: nobody waits for the report that one misses."""
    devices = {
        station: rig.provision(f"near-{station}", f_cnt=10, device_class="C")
        for station in ("west", "east")
    }
    for station, device in devices.items():
        rig.only(station)
        rig.expect(await device.send(), FIRST, first=station)
    rig.only(*devices)
    rig.west.suppress_downlinks(1)
    for device in devices.values():
        await rig.queue_downlink(device, payload=b"on", port=8)
        await rig.wait(seconds(1))
        rig.expect_downlink(device, b"on", port=8, window="C")
    await rig.wait(seconds(5))


async def test_class_c_is_sent_to_through_the_station_that_heard_it_last(rig):
    """A device moves: the station of before would send into the void."""
    always = rig.provision("moving", f_cnt=10, device_class="C")
    for station in ("west", "east"):
        rig.only(station)
        uplink = await always.send()
        await rig.queue_downlink(always, payload=b"at " + station.encode(), port=8)
        await rig.wait(seconds(5))
        rig.expect(uplink, FIRST, first=station)
        rig.expect_downlink(always, b"at " + station.encode(), port=8, window="C")


async def test_a_downlink_may_have_no_payload(rig):
    """Its FPort is all that it says."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"", port=8)
    uplink = await rig.alpha.send()
    rig.expect(uplink, WITH_DOWNLINK, first="west")


async def test_class_c_is_sent_to_through_the_first_station_of_its_frame(rig):
    """Whoever tells a copy of it has heard the device as well, and is not spoken to."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.east.delay_uplinks(milliseconds(200))
    uplink = await always.send()
    await rig.queue_downlink(always, payload=b"\x01", port=8)
    await rig.wait(seconds(5))
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_downlink(always, b"\x01", port=8, window="C")


WAITS = {"the air": (bytes(40), 0), "a report": (b"lost", 1)}
"""What the sender waits for: the downlink before, and how often it is lost."""


@pytest.mark.parametrize(("text", "lost"), WAITS.values(), ids=WAITS)
async def test_class_c_follows_a_device_that_moves_while_the_next_waits(rig, text, lost):
    """Its frame is told too late for an answer; what comes next leaves where it was heard."""
    always = rig.provision("moving", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(lost)
    for one in (text, b"next"):
        await rig.queue_downlink(always, payload=one, port=8)
    moved = await rig.craft(always)
    told = rig.told(moved, by="east")
    await rig.wait(milliseconds(1_700))
    rig.only("east")
    await rig.say(told, by="east")
    await rig.wait(seconds(12))
    after = await always.send()
    for one in (text, b"next"):
        rig.expect_downlink(always, one, port=8, window="C")
    for uplink, station in ((before, "west"), (moved, "east"), (after, "east")):
        rig.expect(uplink, FIRST, first=station)


async def test_class_c_is_spoken_to_where_it_was_heard_though_it_joins_elsewhere(rig):
    """Until it is heard in the new session nobody knows that it has that."""
    always = rig.provision("listening", activation="otaa", device_class="C")
    rig.only("west")
    await always.join()
    heard = await always.send()
    rig.only("east")
    await always.join()
    await rig.queue_downlink(always, payload=b"old", port=9)
    await rig.wait(seconds(15))
    after = await always.send()
    rig.expect(heard, FIRST, first="west")
    rig.expect(after, FIRST, first="east")


@pytest.mark.fault("store", "cut")
async def test_class_c_is_not_spoken_to_behind_an_accept(rig):
    """What no counter could be taken for waits for its next uplink.

    Nobody knows yet that it has the new session, and in the old one it does not listen any more.
    """
    always = rig.provision("listening", activation="otaa", device_class="C")
    rig.put_on("lns-b", "east")
    rig.only("west")
    await always.join()
    before = await always.send()
    rig.cut_store("lns-a")
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(5))
    await rig.restore_store("lns-a")
    await rig.wait(seconds(5))
    await always.join()
    await rig.wait(seconds(15))
    after = await always.send()
    rig.expect_downlink(always, b"on", port=8)
    rig.expect(before, FIRST, first="west")
    rig.expect(after, WITH_DOWNLINK, first="west")


async def test_class_c_without_proof_is_sent_three_times(rig):
    """A station that says nothing of it has not sent it: every three seconds, and then no more."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(3)
    for text in (b"unheard", b"heard"):
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(13))
    after = await always.send()
    rig.expect(before, FIRST, first="west")
    rig.expect_downlink(always, b"heard", port=8, window="C")
    rig.expect_reply(after)
    rig.expect(after, FIRST, first="west")


async def test_class_c_is_sent_again_in_time_however_late_that_reaches_the_station(rig):
    """The first one is lost, the second one is held up: it was said three seconds after that."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    uplink = await always.send()
    rig.west.suppress_downlinks(1)
    rig.west.delay_downlinks(seconds(2), downlinks=2)
    await rig.queue_downlink(always, payload=b"on", port=9)
    await rig.wait(seconds(10))
    rig.expect(uplink, FIRST, first="west")
    rig.expect_downlink(always, b"on", port=9, window="C")


async def test_class_c_waits_eight_seconds_for_an_acknowledgement(rig):
    """It may have to wait for its duty cycle; only then is the downlink sent again."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    await rig.queue_downlink(always, payload=b"sure", port=8, confirmed=True)
    await rig.wait(seconds(7))
    acknowledges = await always.send()
    await rig.wait(seconds(9))
    for uplink in (before, acknowledges):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_downlink(always, b"sure", port=8, window="C")


async def test_class_c_is_not_told_with_an_answer_what_is_under_way(rig):
    """For eight seconds it may have heard it: its next uplink is a sign of life and no more."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"sure", port=8, confirmed=True)
    silent = await always.send()
    asking = await always.send(confirmed=True)
    await rig.wait(seconds(9))
    after = await always.send()
    rig.expect_downlink(always, b"sure", port=8, window="C")
    for uplink in (before, silent, asking, after):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(asking, f_port=None, f_pending=True)


async def test_class_c_waits_no_longer_than_for_the_report(rig):
    """What was reported on the air is proven: the next one follows when the air is free."""
    rig.in_region("US915")
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    texts = [bytes([number]) for number in range(3)]
    for text in texts:
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(2))
    after = await always.send()
    for text in texts:
        rig.expect_downlink(always, text, port=8, window="C")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_class_c_goes_on_when_the_last_sending_is_on_the_air(rig):
    """Two were lost; the third is proven as the first would have been, and the next one follows."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(2)
    for text in (b"lost", b"next"):
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(12))
    after = await always.send()
    for text in (b"lost", b"next"):
        rig.expect_downlink(always, text, port=8, window="C")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


async def test_class_c_gives_a_station_time_to_report(rig):
    """A report that is a second late is one: what it tells of is not sent a second time."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.delay_downlinks(seconds(1), 1)
    await rig.queue_downlink(always, payload=b"once", port=8)
    await rig.wait(seconds(9))
    after = await always.send(confirmed=True)
    rig.expect_downlink(always, b"once", port=8, window="C")
    for uplink, f_cnt in ((before, None), (after, 1)):
        rig.expect(uplink, FIRST, first="west")
        if f_cnt is not None:
            rig.expect_answer(uplink, f_cnt=f_cnt)


async def test_class_c_is_told_again_when_eight_seconds_have_gone_by(rig):
    """Nobody heard it, and nobody acknowledges: it is on the air once more, and no later."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(always, payload=b"sure", port=8, confirmed=True)
    await rig.wait(seconds(11))
    after = await always.send()
    rig.expect_downlink(always, b"sure", port=8, window="C")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_an_answer_for_a_station_that_is_gone_by_then_is_none(rig):
    """Its counters are being kept when the link is lost: the device hears nothing."""
    device = rig.provision("patient", activation="otaa", rx_delay_s=15)
    rig.only("west")
    join = await device.join()
    await rig.start()
    rig.slow_store(milliseconds(199))
    frame = await rig.craft(device, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(20))
    rig.west.cut()
    await rig.wait(seconds(3))
    await rig.restore_store()
    rig.west.restore()
    rig.expect(join, FIRST, first="west")
    rig.expect(frame, TOO_LATE, first="west")


@pytest.mark.fault("store", "slow")
async def test_what_was_for_a_station_that_is_gone_has_used_nothing_up(rig):
    """What the application said was not handed over: it is sent three times more."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    rig.slow_store(milliseconds(199))
    gone = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(gone, by="west"), by="west")
    await rig.wait(milliseconds(20))
    rig.west.cut()
    await rig.wait(seconds(3))
    await rig.restore_store()
    rig.west.restore()
    await rig.wait(seconds(12))
    rig.west.suppress_downlinks(3)
    tries = [await heard(rig, rig.alpha) for _ in range(3)]
    last = await heard(rig, rig.alpha)
    rig.expect(gone, TOO_LATE, first="west")
    for frame in tries:
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_port=9)
    rig.expect(last, FIRST, first="west")


@pytest.mark.requires("twin stations")
@pytest.mark.fault("store", "slow")
async def test_an_answer_for_a_station_of_which_nobody_is_left_is_none(rig):
    """One that has its EUI came later and is gone; the first is connected, and not spoken to."""
    rig.impersonate("west", by="impostor")
    before = await rig.craft(rig.charlie, confirmed=True)
    await rig.say(rig.told(before, by="impostor"), by="impostor")
    await rig.wait(seconds(3))
    rig.slow_store(milliseconds(199))
    frame = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(frame, by="impostor"), by="west")
    await rig.wait(milliseconds(250))
    rig.station("impostor").cut()
    await rig.wait(seconds(3))
    await rig.restore_store()
    rig.station("impostor").restore()
    rig.expect(before, FIRST, first="impostor")
    rig.expect(frame, TOO_LATE, first="west")


# --- stations that cannot answer ------------------------------------------------------------------


async def test_a_station_that_is_always_late_is_told_of(rig):
    """At five in a row, at ten, and when it answers again."""
    before = await heard(rig, rig.charlie)
    rig.expect(before, FIRST, first="west")
    for late in (True,) * 11 + (False,) * 2 + (True,) * 5 + (False,):
        frame = await rig.craft(rig.alpha, confirmed=True)
        text = rig.told(frame, by="west")
        await rig.wait(seconds(2) if late else 0)
        await rig.say(text, by="west")
        await rig.wait(seconds(2))
        rig.expect(frame, TOO_LATE if late else FIRST, first="west")
    rig.expect_finding("too late", owner="gateway", about="west")


@pytest.mark.fault("store", "cut")
async def test_what_was_no_answer_ends_no_row_of_late_ones(rig):
    """A store that is away keeps the answer back, and a copy has none: the row goes on."""
    before = await heard(rig, rig.charlie)
    rig.expect(before, FIRST, first="west")
    for number in range(5):
        if number == 3:
            rig.cut_store()
            kept_back = await heard(rig, rig.alpha, confirmed=True)
            rig.expect(kept_back, UNKEPT, unkept="west")
            await rig.restore_store()
            silent = await heard(rig, rig.charlie)
            rig.expect(silent, FIRST, first="west")
        frame = await rig.craft(rig.alpha, confirmed=True)
        text = rig.told(frame, by="west")
        await rig.wait(seconds(2))
        await rig.say(text, by="west")
        await rig.wait(seconds(2))
        rig.expect(frame, TOO_LATE, first="west")
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_connection_that_is_over_leaves_nothing_behind(rig):
    """Two devices of class C have something on the air, which nobody waits for any more there."""
    devices = [rig.provision(name, f_cnt=10, device_class="C") for name in ("always", "also")]
    rig.only("west")
    uplinks = [await hear(rig, device, "west") for device in devices]
    rig.west.suppress_downlinks(9)
    for device in devices:
        await rig.queue_downlink(device, payload=b"on", port=8)
    await rig.wait(milliseconds(500))
    rig.west.cut()
    await rig.wait(seconds(5))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
