"""What stands in the small print: the name of what was refused, whose answers are spent, limits."""

import json
import re

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    ASKED,
    COPY,
    FIRST,
    LATE,
    LOST,
    OVER,
    OWNED,
    TOO_LATE,
    UNVERIFIED,
    WITH_DOWNLINK,
)

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

OLD = Table("""
    strategy kind        | old
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
AGREES = Table("""
    strategy kind        | agrees
    *        unconfirmed | NonDuplicate forwarded RX1 Owner
""")

NEW_AGAIN = Table("""
    strategy kind        | again
    *        unconfirmed | DuplicateDueToResubmission forwarded NotAsked
""")
NAMES = {"1": {"first": "west"}, "2": {"late": "west"}}


def key_of(device, f_cnt, frame=None, life=0):
    """The name of a frame; with `frame` another one has, or may have, the one without its MIC."""
    provisioned = device.provisioned
    in_life = f".{life}" if life else ""
    mic = f".{frame.phy[-4:].hex().upper()}" if frame else ""
    return f"{provisioned.dev_eui}-{provisioned.dev_addr}{in_life}-{f_cnt}{mic}"


async def test_what_was_refused_has_a_name_of_the_life_that_it_was_refused_in(rig):
    """The device is back in its first life, where an old frame is refused; then it begins again.

    A copy of that frame is no older than the newest life: it goes up, with the name of the first.
    """
    device = rig.provision("relaxed", f_cnt=500, strategy="Mark")
    for f_cnt in (500, 0, 501):
        rig.expect(await hear(rig, device, "west", f_cnt=f_cnt), FIRST, first="west")
    old = await hear(rig, device, "west", f_cnt=300)
    rig.expect(await hear(rig, device, "west", f_cnt=1), FIRST, first="west")
    await tell(rig, old, "east")
    rig.expect(old, OLD + COPY, old="west", copy="east")
    rig.expect_upstream(old, through="east", removeDuplicatesKey=key_of(device, 300, old))


async def test_what_was_refused_is_not_the_newest_frame_of_which_nobody_knows_the_bytes(rig):
    """The server knows how far the session came, and nothing else of that frame."""
    device = rig.provision("relaxed", f_cnt=501, strategy="Mark")
    old = await hear(rig, device, "west", f_cnt=300)
    rig.expect(await hear(rig, device, "west", f_cnt=0), FIRST, first="west")
    await tell(rig, old, "east")
    rig.expect(old, OLD + COPY, old="west", copy="east")
    rig.expect_upstream(old, through="east", removeDuplicatesKey=key_of(device, 300, old))


@pytest.mark.requires("own store")
@pytest.mark.fault("store", "slow")
async def test_a_counter_that_was_taken_while_a_claim_was_under_way_stays_taken(rig):
    """What the store says of the claim comes later, and is of before; then the store forgets."""
    rig.put_on("lns-b", "east")
    device = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    frames = [await hear(rig, device, "west", confirmed=True)]
    rig.slow_store(milliseconds(190), "lns-a")
    frames.append(await rig.craft(device))
    await tell(rig, frames[1], "west")
    await rig.wait(milliseconds(100))
    await rig.restore_store("lns-a")
    await rig.queue_downlink(device, payload=b"now")
    await rig.wait(seconds(5))
    await rig.restart_store(empty=True)
    frames.append(await hear(rig, device, "west", confirmed=True))
    for frame in frames:
        rig.expect(frame, OWNED, owned="west")
    rig.expect_answer(frames[-1], f_cnt=2)


async def test_each_of_two_first_messages_has_three_answers_more(rig):
    """A device that may have begun again may repeat both, by turns."""
    device = rig.provision("relaxed", strategy="None")
    frames = [await hear(rig, device, "west", f_cnt=f_cnt, confirmed=True) for f_cnt in (0, 1)]
    for _ in range(4):
        for frame in frames:
            await tell(rig, frame, "west")
            await rig.wait(seconds(3))
    for frame in frames:
        rig.expect(frame, FIRST + AGAIN * 3 + OVER, first="west", again="west", over="west")


@pytest.mark.fault("lns", "restart")
async def test_a_server_that_has_just_begun_has_not_been_silent_for_a_day(rig, strategy):
    """It read the store when it began: a frame that came late there is no old one here."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False, strategy=strategy)
    rig.expect(await hear(rig, device, "west"), OWNED, owned="west")
    await rig.wait(minutes(24 * 60 + 5))
    await rig.restart_lns()
    late, newer = [await hear(rig, device, "east", after=seconds(1)) for _ in range(2)]
    await tell(rig, late, "west")
    rig.expect(late, OWNED + LOST, owned="east", lost="west")
    rig.expect(newer, OWNED, owned="east")


@pytest.mark.parametrize("octets", [33, 34, 53])
async def test_what_a_repeater_would_have_no_room_for_waits_for_a_faster_window(rig, octets):
    """RX2 of US915 takes 53 octets, and 33 with the header of a repeater."""
    rig.in_region("US915")
    device = rig.provision("listening", f_cnt=10, device_class="C")
    rig.expect(await hear(rig, device, "west"), FIRST, first="west")
    await rig.queue_downlink(device, payload=bytes(octets))
    await rig.wait(seconds(5))
    asked = await hear(rig, device, "west")
    rig.expect(asked, FIRST if octets == 33 else WITH_DOWNLINK, first="west")


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "slow")
@pytest.mark.parametrize(
    ("store_us", "upstream_us", "answered"),
    [(175_000, 425_000, WITH_DOWNLINK), (175_002, 424_998, LATE)],
    ids=["50 ms", "less"],
)
async def test_what_is_ready_50_ms_before_its_window_leaves_in_it(
    rig, store_us, upstream_us, answered
):
    """To the microsecond; it was wanted when its claim was over, and asks the store twice more."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    rig.expect(await hear(rig, device, "west"), OWNED, owned="west")
    rig.slow_store(store_us, "lns-a")
    rig.delay_upstream(upstream_us, lns="lns-a")
    frame = await rig.craft(device)
    await tell(rig, frame, "west")
    await rig.wait(milliseconds(300))
    await rig.queue_downlink(device, payload=b"now")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    name = "first" if answered is WITH_DOWNLINK else "late"
    rig.expect(frame, answered, **{name: "west"})


async def test_each_device_has_sixteen_places(rig):
    """What waits for one takes none from another one."""
    devices = [rig.provision(name, f_cnt=10) for name in ("one", "other")]
    for _ in range(16):
        for device in devices:
            await rig.queue_downlink(device, payload=b"later")
    for device in devices:
        rig.expect(await hear(rig, device, "west"), WITH_DOWNLINK, first="west")


async def test_what_an_answer_has_no_room_for_is_sent_behind_it(rig):
    """The device always listens: nothing waits for its next frame, however long that takes."""
    device = rig.provision("listening", f_cnt=10, device_class="C")
    await rig.start()
    await rig.queue_downlink(device, payload=b"first", confirmed=True)
    await rig.queue_downlink(device, payload=bytes(51))
    asked = await hear(rig, device, "west")
    proves = await rig.craft(device, ack=True, f_opts=b"\x02")
    await rig.say(rig.told(proves, by="west", dr=0), by="west")
    await rig.wait(seconds(10))
    for frame in (asked, proves):
        rig.expect(frame, WITH_DOWNLINK, first="west")
    rig.expect_answer(proves, f_port=None, f_opts_bytes=3)
    rig.expect_downlink(device, bytes(51), window="C")


@pytest.mark.parametrize("window", ["1", "2"])
async def test_what_an_answer_brought_can_be_acknowledged(rig, window):
    """However long it is on the air, the device has eight seconds before it is sent once more."""
    device = rig.provision("listening", device_class="C", dr=0)
    rig.only("west")
    if window == "2":
        rig.west.delay_uplinks(milliseconds(700))
    await rig.queue_downlink(device, payload=b"on", confirmed=True)
    asked = await device.send()
    await rig.wait(seconds(3))
    proves = await device.send()
    rig.expect(asked, WITH_DOWNLINK if window == "1" else LATE, **NAMES[window])
    rig.expect(proves, FIRST, first="west")
    rig.expect_downlink(device, b"on", window=window)


async def test_a_device_of_class_c_is_spoken_to_where_its_new_session_was_heard(rig):
    """The first frame of a session tells where it is, as any other does."""
    device = rig.provision("listening", activation="otaa", device_class="C")
    for station in ("west", "east"):
        rig.only(station)
        rig.expect(await device.join(), FIRST, first=station)
        rig.expect(await device.send(), FIRST, first=station)
        await rig.wait(seconds(6))
    await rig.queue_downlink(device, payload=b"here")
    await rig.wait(seconds(5))
    rig.expect_downlink(device, b"here", window="C")


async def test_what_is_a_whole_span_too_far_is_proven_and_refused(rig):
    """Its 16 bits are those of a counter that would be new: the MIC says that it is another one."""
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    far = await hear(rig, device, "west", f_cnt=(1 << 16) + 20)
    rig.expect(far, OLD, old="west")
    rig.expect(await hear(rig, device, "west"), FIRST, first="west")


async def test_what_was_refused_and_is_new_in_the_next_life_has_that_one_in_its_name(rig):
    """Its copies too: what was known of it before is over."""
    device = rig.provision("relaxed", f_cnt=500, strategy="None")
    rig.expect(await hear(rig, device, "west"), FIRST, first="west")
    old = await hear(rig, device, "west", f_cnt=300)
    rig.expect(await hear(rig, device, "west", f_cnt=0), FIRST, first="west")
    await tell(rig, old, "west", "east")
    rig.expect(old, OLD + NEW_AGAIN + COPY, old="west", again="west", copy="east")
    for station in ("west", "east"):
        key = key_of(device, 300, life=1)
        rig.expect_upstream(old, through=station, removeDuplicatesKey=key)


@pytest.mark.fault("lns", "disk slow")
async def test_a_station_that_begins_anew_before_rx2_is_handed_no_answer_of_before(rig):
    """The counter was kept in time for that window, which is of a radio session that is over."""
    rig.keep_on_disk()
    rig.only("west")
    before = await hear(rig, rig.charlie, "west", confirmed=True)
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(600))
    await rig.slow_disk(milliseconds(1_300))
    await rig.say(text, by="west")
    await rig.wait(milliseconds(5))
    rig.west.restart()
    await rig.wait(seconds(5))
    await rig.slow_disk(0)
    rig.expect(before, FIRST, first="west")
    rig.expect(frame, TOO_LATE, first="west")


async def test_who_asks_for_any_answer_without_adr_is_not_told_how_often_to_send(rig):
    """It would grant that and not do it: nobody tells it before it has the ADR bit again."""
    device = rig.provision("repeating", f_cnt=10, nb_trans=2, relaxed_f_cnt=False)
    for adr, octets in ((False, 0), (True, 5)):
        frame = await hear(rig, device, "west", adr=adr, adr_ack_req=True)
        rig.expect(frame, WITH_DOWNLINK, first="west")
        rig.expect_answer(frame, f_opts_bytes=octets)


async def test_what_was_agreed_elsewhere_is_known_though_a_later_join_was_not_heard(rig):
    """West knows the session from a frame before; the one that nobody uses is the newest."""
    rig.put_on("lns-b", "east")
    device = rig.provision("repeating", activation="otaa", nb_trans=2)
    rig.only("east")
    rig.expect(await device.join(), FIRST, first="east")
    await device.set_adr(False)
    rig.only("west")
    rig.expect(await device.send(), FIRST, first="west")
    await device.set_adr(True)
    rig.only("east")
    rig.expect(await device.send(), WITH_DOWNLINK, first="east")
    rig.heard_by(("east",), ())
    rig.expect(await device.send(transmissions=2), FIRST, first="east")
    unheard = await rig.craft_join(device)
    await tell(rig, unheard, "east")
    await rig.wait(seconds(8))
    rig.expect(unheard, FIRST, first="east")
    rig.heard_by(("west",), ())
    rig.expect(await device.send(transmissions=2), FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_what_was_kept_of_a_former_life_counts_as_heard_after_a_restart(rig, strategy):
    """The device has begun again and gone back: what the store has of that is no news."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    frames = [await hear(rig, device, "west", f_cnt=f_cnt) for f_cnt in (500, 0, 501)]
    await rig.restart_lns(lns="lns-b")
    await tell(rig, frames[-1], "east")
    for frame in frames[:-1]:
        rig.expect(frame, OWNED, owned="west")
    rig.expect(frames[-1], OWNED + OLD, owned="west", old="east")


@pytest.mark.fault("store", "cut")
async def test_what_a_server_heard_alone_in_a_former_life_is_no_news_to_it(rig, strategy):
    """Another one came farther since; it learns so from a frame that is too far for both."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=500, strategy=strategy)
    await rig.start()
    rig.cut_store("lns-b")
    frames = [await hear(rig, device, "east", f_cnt=f_cnt) for f_cnt in (500, 0, 501)]
    await rig.restore_store("lns-b")
    after = await hear(rig, device, "west", f_cnt=502)
    far = await hear(rig, device, "east", f_cnt=20_000, after=minutes(2))
    await tell(rig, frames[-1], "east")
    for frame in frames[:-1]:
        rig.expect(frame, UNVERIFIED, unverified="east")
    rig.expect(after, OWNED, owned="west")
    rig.expect(far, OLD, old="east")
    rig.expect(frames[-1], UNVERIFIED + OLD, unverified="east", old="east")


@pytest.mark.requires("slow application")
@pytest.mark.fault("store", "cut")
async def test_a_device_is_asked_again_for_what_no_store_could_say_was_agreed(rig):
    """Its frame was claimed in time; then the store was away for a moment."""
    rig.put_on("lns-b", "east")
    device = rig.provision("repeating", f_cnt=10, nb_trans=2, relaxed_f_cnt=False)
    asked = await hear(rig, device, "west", adr=True)
    granted = await hear(rig, device, "west", adr=True, f_opts=b"\x03\x07")
    rig.slow_store(milliseconds(100), "lns-b")
    rig.delay_upstream(milliseconds(200), lns="lns-b")
    frame = await rig.craft(device, adr=True)
    await tell(rig, frame, "east")
    await rig.wait(milliseconds(50))
    rig.cut_store("lns-b")
    await rig.wait(milliseconds(60))
    await rig.restore_store("lns-b")
    await rig.wait(seconds(3))
    rig.expect(asked, AGREES, agrees="west")
    rig.expect(granted, OWNED, owned="west")
    rig.expect(frame, AGREES, agrees="east")


async def test_nobody_waits_until_another_device_has_heard_what_it_is_sent(rig):
    """Both always listen; what the first one hears takes seconds."""
    devices = [rig.provision(name, f_cnt=10, device_class="C") for name in ("one", "other")]
    for device in devices:
        rig.expect(await hear(rig, device, "west", after=seconds(6)), FIRST, first="west")
    for device in devices:
        await rig.queue_downlink(device, payload=bytes(51))
        await rig.wait(milliseconds(500))
    await rig.wait(seconds(10))
    for device in devices:
        rig.expect_downlink(device, bytes(51), window="C")


async def test_a_status_is_told_wherever_in_its_frame_it_stands(rig):
    """Behind whatever else the device says."""
    device = rig.provision("telling", f_cnt=10)
    rig.expect(await hear(rig, device, "west"), FIRST, first="west")
    frame = await hear(rig, device, "west", f_opts=b"\x02\x0d\x06\xff\x10")
    rig.expect(frame, ASKED, asked="west")
    rig.expect_status(device)


async def test_what_is_sent_for_the_last_time_is_not_given_up_before_it_is_heard(rig):
    """Its station tells the frame again at once; the device acknowledges with the next one."""
    device = rig.provision("strict", strategy="None", relaxed_f_cnt=False)
    rig.only("west")
    await rig.queue_downlink(device, payload=b"on", confirmed=True)
    rig.west.suppress_downlinks(2)
    asked = [await device.send() for _ in range(2)]
    rig.west.repeat_uplinks(milliseconds(500))
    third = await device.send(confirmed=True)
    await rig.wait(seconds(3))
    proves = await device.send()
    for uplink in asked:
        rig.expect(uplink, WITH_DOWNLINK, first="west")
    rig.expect(third, FIRST + AGAIN, first="west", again="west")
    rig.expect(proves, FIRST, first="west")
    rig.expect_downlink(device, b"on", window="1")


async def test_a_report_of_another_device_does_not_take_away_that_of_the_right_one(rig):
    """A station names somebody else first; then it says what it has sent, and to whom."""
    frame = await hear(rig, rig.alpha, "west", confirmed=True, after=milliseconds(100))
    texts = [one.get("text") or "" for one in rig.case.events if one.get("direction") == "down"]
    told = next(json.loads(text) for text in reversed(texts) if '"pdu"' in text)
    other = "-".join(rig.charlie.dev_eui[at : at + 2] for at in range(0, 16, 2))
    report = {"msgtype": "dntxed", "diid": told["diid"], "DevEui": other, "xtime": told["xtime"]}
    report |= {"DR": 5, "Freq": 868_100_000, "rctx": 0, "txtime": 0.0, "gpstime": 0}
    await rig.say(json.dumps(report), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST, first="west")


@pytest.mark.requires("redis")
@pytest.mark.fault("store", "restart")
async def test_a_store_that_has_lost_a_device_ends_none_of_its_sessions(rig):
    """Somebody asks to join with its name, so that the store is read: there is nothing."""
    rig.keep_in_redis()
    rig.put_on("lns-b", "east")
    rig.only("west")
    rig.expect(await rig.bravo.join(), FIRST, first="west")
    rig.expect(await rig.bravo.send(), OWNED, owned="west")
    await rig.restart_store(empty=True)
    request = await rig.craft_join(rig.bravo)
    await tell(rig, request, "west")
    await rig.wait(seconds(8))
    rig.expect(request, FIRST, first="west")
    rig.expect(await rig.bravo.send(), OWNED, owned="west")


@pytest.mark.parametrize("strength", ['"rssi":-47.5', '"rssi":-1.2e2'])
async def test_how_strong_a_frame_was_may_have_a_fraction(rig, strength):
    """A station says it as its radio does, and the application gets it so."""
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = re.sub('"rssi":[-0-9.]+', strength, rig.told(frame, by="west"))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST, first="west")


async def test_a_frame_may_come_without_a_word_of_how_it_was_heard(rig):
    """There is no moment to answer it at; the application has it all the same."""
    frame = await rig.craft(rig.alpha)
    text = json.loads(rig.told(frame, by="west"))
    text.pop("upinfo")
    await rig.say(json.dumps(text), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("tap", "cut")
async def test_a_station_that_is_back_speaks_to_nobody_who_is_spoken_to(rig):
    """At DR0 the first downlink takes seconds; the link was lost while the second one waited."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    texts = [bytes([number]) * 43 for number in range(3)]
    for text in texts[:2]:
        await rig.queue_downlink(always, payload=text, port=8)
        await rig.wait(milliseconds(100))
    rig.west.cut()
    await rig.wait(milliseconds(100))
    rig.west.restore()
    await rig.wait(milliseconds(1_500))
    await rig.queue_downlink(always, payload=texts[2], port=8)
    await rig.wait(seconds(12))
    after = await always.send()
    for text in texts:
        rig.expect_downlink(always, text, port=8, window="C")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
