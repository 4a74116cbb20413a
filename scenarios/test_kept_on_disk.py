"""What does a network server that is alone find again in the file where it keeps what it knows?"""

import json

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from lns.clock import StoreUnavailable
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, EXPIRED, FIRST, IN_RX2, OVER, STRANGE, TOO_LATE

pytestmark = pytest.mark.requires("virtual time")  # others keep it in a store that is a program

UNANSWERED = Table("""
    strategy kind      | first
    *        confirmed | NonDuplicate forwarded Suppressed
""")
USED = Table("""
    strategy kind | used
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")
NOT_KEPT = Table("""
    strategy kind | unkept
    *        join | NonDuplicate dropped(StoreUnavailable) Suppressed
""")

MORE_HZ = (867_100_000, 867_300_000, 867_500_000, 867_700_000, 867_900_000)
EU868_MOST = {"rx1_dr_offset": 5, "rx2_dr": 7, "more_channels_hz": MORE_HZ, "rx_delay_s": 15}
WEEK = minutes(7 * 24 * 60)
FURTHEST = [
    ("EU868", {"rx2_dr": 0, "dev_status_s": 60}, {**EU868_MOST, "join_nonce_min": 0xFF0000}),
    ("US915", {"rx2_dr": 8, "f_cnt_bits": 16}, {"rx2_dr": 13, "rx1_dr_offset": 3, "nb_trans": 15}),
]
"""In a region the least and the most that a file may say of a device."""


async def has_effect_with_room(rig, number):
    """The application has room again, and the next message is behind all that waited."""
    await rig.make_room()
    await rig.wait(seconds(2))
    last = await rig.inject(rig.alpha, number=number)
    rig.expect_effects(last)
    rig.expect_ignored(last, by="sequence", times=0)


async def test_whatever_is_written_a_file_keeps_it_as_memory_does(rig):
    """All that was written together or none of it; sessions, inboxes, and files of any kind."""
    rig.keep_on_disk()
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    await rig.bid_at_random(rig.alpha)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplink)


async def test_what_is_kept_in_a_file_is_what_has_happened(rig):
    """Sessions, counters, repeated answers and DevNonces; and who said nothing is as it was."""
    rig.keep_on_disk()
    rig.provision("silent", f_cnt=10)
    rig.only("west")
    joins = [await rig.bravo.join() for _ in range(2)]
    uplinks = [await one.send(confirmed=True) for one in (rig.alpha, rig.bravo, rig.bravo)]
    await rig.replay(uplinks[-1], by="west")
    await rig.replay(joins[1], by="west", after=seconds(61))
    for frame in (joins[0], *uplinks[:-1]):
        rig.expect(frame, FIRST, first="west")
    rig.expect(joins[1], FIRST + USED, first="west", used="west")
    rig.expect(uplinks[-1], FIRST + AGAIN, first="west", again="west")


@pytest.mark.fault("lns", "restart")
async def test_a_server_that_begins_anew_finds_in_its_file_how_far_it_came(rig):
    """Which answers were repeated, which nonces are used, and of which session a frame is."""
    rig.keep_on_disk()
    rig.only("west")
    joins = [await rig.bravo.join()]
    uplinks = [await rig.bravo.send(confirmed=True) for _ in range(2)]
    for number in range(4):
        if number == 2:
            await rig.restart_lns()
        await rig.replay(uplinks[1], by="west")
        await rig.wait(seconds(3))
    await rig.replay(joins[0], by="west")
    unheard = await rig.craft(rig.bravo)
    joins.append(await rig.bravo.join())
    await rig.restart_lns()
    uplinks.append(await rig.bravo.send(confirmed=True))
    await tell(rig, unheard, "west")
    due = FIRST + AGAIN * 2 + EXPIRED + OVER
    rig.expect(uplinks[1], due, first="west", again="west", over="west")
    rig.expect(joins[0], FIRST + USED, first="west", used="west")
    rig.expect(unheard, STRANGE, strange="west")
    for frame in (joins[1], uplinks[0], uplinks[2]):
        rig.expect(frame, FIRST, first="west")
        rig.expect_reply(frame)


@pytest.mark.parametrize("edge", FURTHEST, ids=lambda edge: edge[0])
async def test_a_configuration_may_say_the_most_and_the_least(rig, edge):
    """What a file may just say is read, and the device is served as it says."""
    region, least, most = edge
    rig.in_region(region)
    rig.keep_on_disk()
    rig.dedup(retention=seconds(86_400 if region == "EU868" else 1))
    rig.only("west")
    devices = [
        rig.provision(name, activation="otaa", **facts)
        for name, facts in (("least", least), ("most", most))
    ]
    for device in devices:
        join, uplink = await device.join(), await device.send(confirmed=True)
        for frame in (join, uplink):
            rig.expect(frame, FIRST, first="west")
            rig.expect_reply(frame)


@pytest.mark.fault("lns", "disk full")
@pytest.mark.parametrize(
    "takes", ["nothing", "the JoinNonce", "nothing for good", "the JoinNonce for good"]
)
async def test_a_join_that_a_full_disk_did_not_take_is_new_when_it_comes_again(rig, takes):
    """Its DevNonce was used for nothing; nor was a frame heard that could not be kept."""
    rig.keep_on_disk()
    rig.only("west")
    before = await hear(rig, rig.alpha, "west", confirmed=True)
    join = await rig.craft_join(rig.bravo)
    match takes:
        case "nothing":
            await rig.fill_disk()
        case "the JoinNonce":
            await rig.fill_store(after=1)
        case "nothing for good":
            await rig.break_writes(1)
        case _:
            await rig.break_writes(1, after=1)
    await tell(rig, join, "west")
    await rig.wait(seconds(8))
    await rig.free_disk()
    await tell(rig, join, "west")
    await rig.wait(seconds(8))
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.expect(join, NOT_KEPT + FIRST, unkept="west", first="west")
    for frame in (before, after):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("lns", "disk full")
async def test_a_file_that_takes_no_counters_is_asked_again_with_the_next_frame(rig):
    """The application has it, so it counts; nobody is answered by what may be forgotten."""
    rig.keep_on_disk()
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.fill_store(after=1)
    uplinks += [await rig.alpha.send(confirmed=True) for _ in range(3)]
    await rig.free_disk()
    uplinks.append(await rig.alpha.send(confirmed=True))
    for uplink in uplinks:
        unkept = uplink in uplinks[2:4]
        rig.expect(uplink, UNANSWERED if unkept else FIRST, first="west")


@pytest.mark.fault("lns", "disk full")
async def test_an_answer_in_rx2_is_kept_once(rig):
    """Its counters are in the file before it leaves, and nothing is to be kept when it has left."""
    rig.keep_on_disk()
    rig.only("west")
    before = await hear(rig, rig.alpha, "west", confirmed=True)
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(seconds(1))
    await rig.fill_store(after=1)
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    await rig.free_disk()
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    for one in (before, after):
        rig.expect(one, FIRST, first="west")
    rig.expect(frame, IN_RX2, first="west")


@pytest.mark.fault("lns", "disk slow")
async def test_what_comes_while_the_disk_is_busy_is_kept_next_and_answered_as_soon(rig):
    """Each write takes 200 ms, and what comes meanwhile is all in the next one."""
    rig.keep_on_disk()
    await rig.slow_disk(milliseconds(200))
    frames = [await rig.craft(one, confirmed=True) for one in (rig.alpha, rig.charlie)]
    frames.append(await rig.craft_join(rig.bravo))
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(50))
    await rig.wait(seconds(8))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("lns", "disk slow")
@pytest.mark.parametrize(
    ("taken_ms", "due"), [(880, FIRST), (960, IN_RX2), (1_880, IN_RX2), (1_960, TOO_LATE)]
)
async def test_an_answer_has_the_window_that_is_left_when_its_counter_is_kept(rig, taken_ms, due):
    """RX1 while a station can meet it yet, then RX2; what would come too late stays here.

    What such an answer was to bring goes with the next one.
    """
    rig.keep_on_disk()
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    await rig.slow_disk(milliseconds(taken_ms))
    late = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(5))
    await rig.slow_disk(0)
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.expect(late, due, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_answer(after, f_port=9 if due is TOO_LATE else None, f_cnt=1)


@pytest.mark.fault("lns", "disk slow")
async def test_nothing_is_left_behind_rx2(rig):
    """RX1 was over when the station told it, and RX2 is when its counter is kept."""
    rig.keep_on_disk()
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(900))
    await rig.slow_disk(milliseconds(1_200))
    await rig.say(text, by="west")
    await rig.wait(seconds(5))
    rig.expect(frame, TOO_LATE, first="west")


@pytest.mark.fault("lns", "disk slow")
async def test_what_has_room_in_rx1_alone_stays_when_that_is_gone_meanwhile(rig):
    """RX2 takes 51 octets; the next answer is kept in time."""
    rig.keep_on_disk()
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=bytes(52), port=9)
    await rig.slow_disk(milliseconds(1_200))
    late = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(5))
    await rig.slow_disk(0)
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.expect(late, TOO_LATE, first="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_answer(after, f_port=9)


@pytest.mark.fault("lns", "disk slow")
async def test_class_c_is_sent_at_once_what_was_kept_too_late_for_an_answer(rig):
    """It always listens: nothing waits for its next uplink."""
    rig.keep_on_disk()
    rig.only("west")
    always = rig.provision("listening", f_cnt=10, device_class="C")
    await rig.queue_downlink(always, payload=b"on", port=9)
    await rig.slow_disk(milliseconds(1_960))
    late = await hear(rig, always, "west", confirmed=True, after=seconds(9))
    rig.expect(late, TOO_LATE, first="west")
    rig.expect_downlink(always, b"on", port=9, window="C")


@pytest.mark.fault("lns", "disk slow")
async def test_what_did_not_leave_a_second_time_is_acknowledged_for_the_first_time(rig):
    """The second answer that was to bring it was kept too late; the device has heard the first."""
    rig.keep_on_disk()
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9, confirmed=True)
    brought = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(12))
    await rig.slow_disk(milliseconds(1_960))
    late = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(5))
    await rig.slow_disk(0)
    heard = await hear(rig, rig.alpha, "west", ack=True, after=seconds(12))
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    for frame in (brought, heard, after):
        rig.expect(frame, FIRST, first="west")
    rig.expect(late, TOO_LATE, first="west")
    rig.expect_answer(brought, f_port=9)
    rig.expect_answer(after, f_port=None)


@pytest.mark.fault("lns", "disk slow")
async def test_a_station_that_begins_anew_meanwhile_is_handed_no_answer_of_before(rig):
    """Its radio session ended with the clock that the uplink was heard by."""
    rig.keep_on_disk()
    rig.only("west")
    before = await hear(rig, rig.charlie, "west", confirmed=True)
    await rig.slow_disk(milliseconds(1_700))
    late = await hear(rig, rig.alpha, "west", confirmed=True, after=milliseconds(100))
    rig.west.restart()
    await rig.wait(seconds(5))
    await rig.slow_disk(0)
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.expect(late, TOO_LATE, first="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("lns", "disk slow")
async def test_a_join_that_was_kept_too_late_is_new_when_it_comes_again(rig):
    """It waits for a write that began before, longer than for a store; the disk has it in the end.

    The device was not answered, so it asks with the same DevNonce again.
    """
    rig.keep_on_disk()
    join = await rig.craft_join(rig.bravo)
    await rig.slow_disk(milliseconds(1_200))
    await tell(rig, join, "west")
    await rig.wait(milliseconds(600))
    other = await hear(rig, rig.alpha, "west", after=seconds(8))
    await rig.slow_disk(0)
    await tell(rig, join, "west")
    await rig.wait(seconds(8))
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    rig.expect(join, NOT_KEPT + FIRST, unkept="west", first="west")
    for frame in (other, after):
        rig.expect(frame, FIRST, first="west")


# --- the inbox of a consumer ----------------------------------------------------------------------


@pytest.mark.fault("consumer", "crash")
@pytest.mark.parametrize("at", ["effect", "commit", "ack"])
async def test_a_consumer_that_begins_anew_finds_in_its_file_what_has_had_its_effect(rig, at):
    """What was kept comes again and is recognised; of what was taken back nothing is there."""
    rig.keep_on_disk()
    rig.consumer(keys=True)
    before = [await rig.inject(rig.alpha, number=number) for number in (1, 2)]
    await rig.wait(seconds(1))
    await rig.crash_consumer(at)
    crashed = await rig.inject(rig.alpha, message_id="x", number=3)
    await rig.wait(seconds(1))
    await rig.start_consumer()
    for message in (*before, crashed):
        await rig.inject(rig.alpha, message_id=message.message_id, number=9)
    late = await rig.inject(rig.charlie, number=4)
    for message in (*before, crashed, late):
        rig.expect_effects(message)
    rig.expect_ignored(crashed, by="window", times=2 if at == "ack" else 1)


@pytest.mark.fault("consumer", "crash")
async def test_what_a_consumer_has_asked_for_when_it_died_is_no_message(rig):
    """Its session has both subscriptions yet: what producers say of themselves comes then."""
    rig.keep_on_disk()
    rig.consumer()
    await rig.crash_consumer("ack")
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.start_consumer()
    await rig.wait(seconds(1))
    messages.append(await rig.inject(rig.alpha, number=2))
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)
    rig.expect_ignored(messages[0], by="window")


async def test_an_id_is_remembered_however_often_its_consumer_begins_anew(rig):
    """Also where the one before was of an earlier version, which did not know topics apart."""
    rig.keep_on_disk()
    rig.consumer(sequence=False)
    first = await rig.inject(rig.alpha)
    for _ in range(3):
        await rig.wait(seconds(1))
        await rig.kill_consumer()
        await rig.start_consumer()
        await rig.inject(rig.alpha, message_id=first.message_id)
    rig.expect_effects(first)
    rig.expect_ignored(first, by="window", times=3)


async def test_ids_of_an_earlier_version_count_for_a_week(rig):
    """It knew no topics; then none of what it knew may count, and ids are those of their topic."""
    rig.keep_on_disk()
    rig.consumer(window=WEEK, sequence=False)
    first = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(1))
    for away in (seconds(1), WEEK):
        await rig.kill_consumer()
        await rig.wait(away)
        await rig.start_consumer()
    after = await rig.inject(rig.charlie)
    rig.expect_effects(first)
    rig.expect_effects(after)


ANYWHERE = pytest.mark.parametrize(
    "where",
    ["in memory", "in a file", pytest.param("in Redis", marks=pytest.mark.requires("redis"))],
)


def _keep(rig, where):
    match where:
        case "in a file":
            rig.keep_on_disk()
        case "in Redis":
            rig.keep_in_redis()


@pytest.mark.parametrize("before", [1, 2])
@ANYWHERE
async def test_what_a_record_says_by_now_counts_from_the_next_start(rig, where, before):
    """The device gets JoinNonces beyond those of another network, and repeats less than before.

    With its second frame it says that it repeats as it was asked to.
    """
    _keep(rig, where)
    device = rig.provision("moved", activation="otaa", nb_trans=3)
    rig.only("west")
    frames = [await device.join()] + [await device.send(confirmed=True) for _ in range(before)]
    await rig.change_record(device, join_nonce_min=1_000, nb_trans=2)
    frames += [await device.send(confirmed=True) for _ in range(3)]
    frames += [await device.join() for _ in range(2)]
    for frame in frames:
        rig.expect(frame, FIRST, first="west")
        rig.expect_reply(frame)


@ANYWHERE
async def test_what_an_inbox_keeps_has_its_time(rig, where):
    """To the microsecond, though the consumer has begun anew since; and numbers go on."""
    _keep(rig, where)
    rig.consumer(window=seconds(20), keys=True, retention=seconds(30), retry=0, network=0)
    by_id = await rig.inject(rig.alpha, message_id="x", key="k", number=5)
    by_key = await rig.inject(rig.charlie, message_id="y", key="l", number=7)
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.wait(seconds(19) - 1)
    await rig.start_consumer()
    await rig.inject(rig.bravo)
    await rig.wait(0)  # what is over then leaves with that
    await rig.inject(rig.alpha, message_id="x", key="m", number=6)
    await rig.wait(1)
    await rig.inject(rig.charlie, message_id="y", key="l", number=8)
    late = await rig.inject(rig.charlie, message_id="z", number=6)
    await rig.wait(seconds(10))
    known = []
    for number, name in enumerate("vw", 7):
        known.append(await rig.inject(rig.alpha, message_id=name, key="k", number=number))
        await rig.wait(0)
    await rig.wait(1)
    await rig.inject(rig.alpha, message_id="x", key="k", number=9)
    rig.expect_effects(by_id, 2)
    rig.expect_effects(by_key)
    rig.expect_ignored(by_id, by="window")
    rig.expect_ignored(by_key, by="key")
    for message, by in ((late, "sequence"), *((one, "key") for one in known)):
        rig.expect_effects(message, 0)
        rig.expect_ignored(message, by=by)


@ANYWHERE
async def test_what_is_over_leaves_an_inbox_a_few_at_a_time(rig, where):
    """64 ids with each message, the oldest first: so no message waits long for it."""
    _keep(rig, where)
    rig.consumer(window=seconds(20), sequence=False)
    messages = [await rig.inject(rig.alpha) for _ in range(66)]
    await rig.wait(seconds(21))
    for _ in range(2):
        messages.append(await rig.inject(rig.bravo))
        await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)


@ANYWHERE
@pytest.mark.requires("small inbox")
async def test_what_an_inbox_has_no_room_for_leaves_it_and_is_counted(rig, where):
    """Of three ids, keys and numbers the oldest each, which then is new before its time."""
    _keep(rig, where)
    rig.consumer(keys=True, window=seconds(20), entries_max=2)
    ids = [await rig.inject(rig.alpha, key=key) for key in "klm"]
    await rig.wait(seconds(1))
    for one in reversed(ids):
        await rig.inject(rig.alpha, message_id=one.message_id)
    keys = [await rig.inject(rig.alpha, key=key) for key in "mlk"]
    devices = rig.alpha, rig.bravo, rig.charlie
    numbers = [await rig.inject(one, number=5) for one in (*devices, *reversed(devices))]
    await rig.wait(seconds(20))
    after = [await rig.inject(rig.alpha)]  # with it all that was before has left
    for _ in range(2):
        await rig.wait(seconds(1))
        after.append(await rig.inject(rig.bravo))
    await rig.inject(rig.bravo, message_id=after[1].message_id)
    rig.expect_effects(ids[0], 2)
    for message in (*ids[1:], keys[2], *numbers[:3], numbers[5], *after):
        rig.expect_effects(message)
    known_by = ("window", [*ids[1:], after[1]]), ("key", keys[:2]), ("sequence", numbers[3:5])
    for by, known in known_by:
        for message in known:
            rig.expect_ignored(message, by=by)


@ANYWHERE
@pytest.mark.requires("small inbox")
async def test_what_leaves_for_want_of_room_is_counted_though_its_time_is_over(rig, where):
    """In every store: room is made first, and then what is over goes."""
    _keep(rig, where)
    rig.consumer(keys=True, retention=seconds(10), retry=0, network=0, entries_max=1)
    messages = [await rig.inject(rig.alpha, key="before")]
    await rig.wait(seconds(20))
    messages.append(await rig.inject(rig.alpha, key="after"))
    for message in messages:
        rig.expect_effects(message)


@ANYWHERE
@pytest.mark.requires("small inbox")
async def test_a_key_whose_time_is_over_may_leave_before_another_needs_its_room(rig, where):
    """With the decision before, and is not counted then."""
    _keep(rig, where)
    rig.consumer(keys=True, retention=seconds(10), retry=0, network=0, entries_max=3)
    messages = [await rig.inject(rig.alpha, key="before")]
    await rig.wait(seconds(20))
    messages += [await rig.inject(rig.alpha, key=key) for key in "abcd"]
    for message in messages:
        rig.expect_effects(message)


@ANYWHERE
@pytest.mark.requires("small inbox")
async def test_what_fails_takes_no_room_in_mind(rig, where):
    """Its effect was not had, so it is remembered for nothing, and drives nothing out."""
    _keep(rig, where)
    rig.consumer(keys=True, entries_max=2, refuses="x", refusals=3)
    first = await rig.inject(rig.alpha, key="k", number=1)
    refused = await rig.inject(rig.charlie, message_id="x", key="x", number=1)
    await rig.wait(milliseconds(250))
    await rig.inject(rig.alpha, message_id=first.message_id, number=2)
    await rig.wait(seconds(3))
    await rig.inject(rig.alpha, message_id=first.message_id, number=3)
    for message in (first, refused):
        rig.expect_effects(message)
    rig.expect_ignored(first, by="window", times=2)


@ANYWHERE
@pytest.mark.requires("small inbox")
async def test_what_fails_drives_nothing_out(rig, where):
    """As often as it is tried: what leaves for it is back, and is counted when it has succeeded."""
    _keep(rig, where)
    rig.consumer(keys=True, entries_max=2, refuses="x", refusals=3)
    devices = rig.alpha, rig.bravo
    before = [await rig.inject(device, key=device.dev_eui) for device in devices]
    await rig.wait(seconds(1))
    failing = await rig.inject(rig.charlie, message_id="x", key="x")
    await rig.wait(milliseconds(250))
    await rig.inject(rig.alpha, message_id=before[0].message_id)
    await rig.wait(seconds(3))
    await rig.inject(rig.bravo, message_id=before[1].message_id)
    for message in (*before, failing):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="window", times=int(message is not failing))


@ANYWHERE
async def test_what_is_remembered_anew_keeps_nothing_else_in_mind(rig, where):
    """The id that came first comes again when its time is over: those after it go all the same."""
    _keep(rig, where)
    rig.consumer(window=seconds(20), sequence=False)
    again = await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(1))
    once = [await rig.inject(rig.alpha)]
    await rig.wait(seconds(19))
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(2))
    once.append(await rig.inject(rig.alpha))
    rig.expect_effects(again, 2)
    for message in once:
        rig.expect_effects(message)


@ANYWHERE
async def test_what_is_put_aside_and_comes_again_at_once_waits_no_more(rig, where):
    """It waited behind the one whose fifth try failed: its own is the first that does not."""
    _keep(rig, where)
    rig.consumer(refuses="x", refusals=5, sequence=False)
    refused = await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(30))
    rig.expect_effects(refused)


@pytest.mark.requires("user properties")
async def test_what_failed_five_times_waits_in_the_file_until_it_succeeds(rig):
    """Put aside, and nothing of its effect is there; brought again it has it, like any other."""
    rig.keep_on_disk()
    rig.consumer(refuses="x", refusals=11, sequence=False)
    before = await rig.inject(rig.alpha, properties={"messageId": "behind others"})
    refused = await rig.inject(rig.alpha, message_id="x")
    put_aside = await rig.inject(rig.charlie, message_id="x aside")
    await rig.wait(seconds(30))
    await rig.kill_consumer()
    await rig.start_consumer()
    await rig.inject(rig.alpha, message_id="x")
    await rig.wait(seconds(30))
    rig.expect_effects(put_aside, 0)
    for message in (before, refused):
        rig.expect_effects(message)


@pytest.mark.requires("full application")
@pytest.mark.fault("consumer", "no room")
async def test_what_a_consumer_cannot_take_stays_with_the_broker(rig):
    """It reads no more than it may hold, and goes on when it has room."""
    rig.keep_on_disk()
    rig.consumer()
    await rig.fill_application()
    for number in range(1, 216):
        await rig.inject(rig.alpha, number=number)
    await rig.wait(seconds(60))
    await rig.fill_application(5)
    await rig.wait(seconds(10))
    await has_effect_with_room(rig, number=216)


@pytest.mark.requires("full application", "unlimited broker")
@pytest.mark.fault("broker", "unlimited")
async def test_a_consumer_holds_no_more_than_it_may_whatever_it_is_brought(rig):
    """It reads no further then, and takes the rest once it has acknowledged some."""
    rig.keep_on_disk()
    rig.consumer()
    await rig.unlimit_broker()
    await rig.fill_application()
    for number in range(1, 216):
        await rig.inject(rig.alpha, number=number)
    await rig.wait(seconds(20))
    await has_effect_with_room(rig, number=216)


@pytest.mark.requires("user properties", "QoS 0")
@pytest.mark.fault("broker", "restart")
async def test_a_consumer_finds_its_broker_again_and_what_it_did_not_acknowledge(rig):
    """The broker has its subscription, and brings what it has not heard to be done once more."""
    rig.keep_on_disk()
    rig.consumer(keys=True, knows_oldest=True)
    messages = [
        await rig.inject(rig.alpha, number=5, properties={"removeDuplicatesKey": "k"}),
        await rig.inject(rig.alpha, number=2, properties={"partitionKey": "p"}, qos=0),
    ]
    await rig.wait(seconds(50))
    await rig.lose_acks()
    again = await rig.inject(rig.alpha, number=6)
    await rig.redeliver()
    await rig.wait(seconds(5))
    await rig.stop_broker()
    await rig.wait(seconds(5))
    await rig.start_broker()
    await rig.wait(seconds(20))
    messages.append(await rig.inject(rig.alpha, number=7))
    await rig.wait(seconds(1))
    for message in (*messages, again):
        rig.expect_effects(message)
    rig.expect_ignored(again, by="window")


@pytest.mark.requires("QoS 0")
async def test_what_nobody_has_to_acknowledge_holds_up_no_acknowledgement(rig):
    """Its effect fails for a while; what came behind it on another topic is done with at once."""
    rig.keep_on_disk()
    rig.consumer(refuses="x", refusals=3)
    messages = [await rig.inject(rig.alpha, message_id="x", qos=0), await rig.inject(rig.charlie)]
    await rig.wait(seconds(5))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.requires("unlimited broker")
@pytest.mark.fault("broker", "subscription refused")
@pytest.mark.parametrize(("refusals", "after"), [(3, seconds(10)), (9, seconds(150))])
async def test_a_consumer_that_may_not_subscribe_leaves_and_comes_again(rig, refusals, after):
    """It would be brought nothing new; some time the broker may let it, within half a minute."""
    rig.keep_on_disk()
    rig.consumer()
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.refuse_subscriptions(refusals)
    await rig.redeliver()
    await rig.wait(after)
    messages.append(await rig.inject(rig.alpha, number=2))
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.requires("unlimited broker")
@pytest.mark.fault("broker", "subscription refused")
async def test_a_consumer_that_begins_and_may_not_subscribe_comes_again(rig):
    """It does not wait for its broker to begin, and has heard nothing until that grants it."""
    rig.keep_on_disk()
    rig.consumer()
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.refuse_subscriptions(3)
    await rig.start_consumer()
    await rig.wait(seconds(10))
    messages.append(await rig.inject(rig.alpha, number=2))
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.fault("consumer", "disk full")
async def test_what_a_file_does_not_take_for_good_has_its_effect_once(rig):
    """What a consumer did is taken back when its commit fails: it is done again, and kept then."""
    rig.keep_on_disk()
    rig.consumer(keys=True)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.break_writes(2)
    messages += [await rig.inject(rig.alpha, number=number) for number in (2, 3)]
    messages.append(await rig.inject(rig.charlie, number=1))
    await rig.wait(seconds(3))
    messages.append(await rig.inject(rig.alpha, number=4))
    for message in messages:
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.fault("consumer", "disk slow")
async def test_a_consumer_that_ends_waits_for_its_disk(rig):
    """What is being kept had its effect, and is told; nobody has acknowledged it, so it comes."""
    rig.keep_on_disk()
    rig.consumer()
    messages = [await rig.inject(rig.alpha, number=2)]
    old = await rig.inject(rig.alpha, number=2)
    await rig.wait(seconds(1))
    await rig.slow_disk(seconds(9))
    messages.append(await rig.inject(rig.alpha, number=3))
    await rig.wait(milliseconds(100))
    await rig.kill_consumer()
    await rig.slow_disk(0)
    await rig.wait(seconds(1))
    await rig.start_consumer()
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)
    for message, by in ((messages[1], "window"), (old, "sequence")):
        rig.expect_ignored(message, by=by)


@pytest.mark.fault("consumer", "disk full")
async def test_a_consumer_whose_disk_fails_does_not_begin(rig):
    """It says so, and has taken nothing: what came meanwhile has its effect once it can begin."""
    rig.keep_on_disk()
    rig.consumer(keys=True)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.kill_consumer()
    await rig.break_writes(1)
    messages.append(await rig.inject(rig.alpha, number=2))
    with pytest.raises(StoreUnavailable):
        await rig.start_consumer()
    rig.cut_store("application")
    with pytest.raises(StoreUnavailable):
        await rig.start_consumer()
    await rig.restore_store("application")
    await rig.start_consumer()
    await rig.wait(seconds(1))
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.requires("full application")
@pytest.mark.fault("consumer", "no room")
@pytest.mark.parametrize(("elsewhere", "octets"), [(False, 150), (True, 0)])
async def test_what_does_not_fit_is_no_effect_of_an_application(rig, elsewhere, octets):
    """What there is of it is taken back, and all of it comes once when there is room."""
    rig.keep_on_disk()
    rig.consumer(elsewhere=elsewhere)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    await rig.fill_application(octets=octets)
    messages += [await rig.inject(rig.alpha, number=number) for number in (2, 3)]
    await rig.wait(seconds(3))
    await has_effect_with_room(rig, number=4)
    for message in messages:
        rig.expect_effects(message)


@pytest.mark.requires("small inbox", "QoS 0")
@pytest.mark.fault("consumer", "disk full")
async def test_what_a_consumer_has_no_room_for_is_brought_again(rig):
    """As many wait for its disk as may: it begins another connection, until it has the last one."""
    rig.keep_on_disk()
    rig.consumer(waiting_max=205)
    before = await rig.inject(rig.alpha, number=1)
    await rig.wait(seconds(1))
    rig.cut_store("application")
    messages = [await rig.inject(rig.alpha, number=n, qos=0) for n in range(1, 206)]
    last = await rig.inject(rig.alpha, number=2)
    await rig.wait(seconds(3))
    await rig.restore_store("application")
    await rig.wait(seconds(20))
    for message in (before, *messages, last):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.requires("small inbox", "QoS 0")
@pytest.mark.fault("consumer", "disk full")
@pytest.mark.parametrize("restarts", [False, True])
async def test_a_consumer_begins_again_while_it_holds_all_it_may(rig, restarts):
    """What it has not acknowledged is brought once more, and each has one effect."""
    rig.keep_on_disk()
    rig.consumer(waiting_max=205)
    messages = [await rig.inject(rig.alpha, number=1)]
    await rig.wait(seconds(1))
    rig.cut_store("application")
    held = [await rig.inject(rig.alpha, number=n, qos=0) for n in range(2, 206)]
    messages += [await rig.inject(rig.charlie, number=1), await rig.inject(rig.alpha, number=300)]
    await rig.wait(seconds(3))
    messages.append(await rig.inject(rig.charlie, number=2))
    await rig.restore_store("application")
    if restarts:
        await rig.kill_consumer()
        await rig.start_consumer()
    await rig.wait(seconds(20))
    for message in messages if restarts else (*messages, *held):
        rig.expect_effects(message)


@pytest.mark.fault("consumer", "disk full")
async def test_a_file_that_takes_nothing_loses_no_message_of_an_inbox(rig):
    """Its disk is full for a while: what came meanwhile has its effect then, in order."""
    rig.keep_on_disk()
    rig.consumer(keys=True, refuses="x", refusals=1)
    before = await rig.inject(rig.alpha, number=1)
    await rig.wait(seconds(1))
    rig.cut_store("application")
    messages = [await rig.inject(rig.alpha, number=number) for number in (2, 3)]
    messages.append(await rig.inject(rig.charlie, message_id="x", number=1))
    await rig.wait(seconds(3))
    await rig.restore_store("application")
    await rig.wait(seconds(3))
    messages.append(await rig.inject(rig.alpha, number=4))
    for message in (before, *messages):
        rig.expect_effects(message)
        rig.expect_ignored(message, by="sequence", times=0)


@pytest.mark.fault("program", "capture full")
@pytest.mark.parametrize("room", [0, 40])
async def test_a_capture_that_was_full_tells_how_much_is_missing(rig, room):
    """The server serves on, and each line that is there is whole."""
    rig.keep_on_disk()
    rig.only("west")
    uplinks = []
    for _ in range(2):
        uplinks.append(await rig.alpha.send(confirmed=True))
        await rig.fill_capture(room)
        uplinks.append(await rig.alpha.send(confirmed=True))
        await rig.free_capture()
    uplinks.append(await rig.alpha.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
async def test_a_capture_goes_on_where_it_was_torn(rig):
    """A line that its writer could not end has a number yet; the next one has the next."""
    rig.keep_on_disk()
    rig.only("west")
    uplinks = []
    for times in (0, 1, 2):
        for _ in range(times):
            await rig.restart_lns()
        uplinks.append(await rig.alpha.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
async def test_a_capture_that_has_grown_goes_on_in_a_new_file(rig):
    """Half of what may stay is the older one; numbers go on, also when a server begins anew."""
    rig.keep_on_disk(capture_mib=1)
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=True)]
    unreadable = json.dumps({"msgtype": "timesync", "txtime": "x" * 400})
    for _ in range(3_000):
        await rig.say(unreadable, by="west")
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.restart_lns()
    uplinks.append(await rig.alpha.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
