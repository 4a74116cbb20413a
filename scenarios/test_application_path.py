"""What the application gets while servers crash, brokers restart and wires lose what they carry.

The chain: station, network server, outbox, broker, consumer, effect. Each message that a server
owes has its effect exactly once; what it sends again is recognised.
"""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from lns.dedup.strategy import Strategy
from scenarios.words import AGAIN, COPY, ELSEWHERE, FIRST, REFUSED, TOO_LATE

AGAIN_AFTER_A_CRASH = Table("""
    strategy kind        | again
    *        confirmed   | NonDuplicate forwarded RX1
    *        unconfirmed | NonDuplicate forwarded NotAsked
""")


def copies(strategy, times=1):
    """How many copies of a frame a strategy lets through."""
    return 0 if strategy is Strategy.DROP else times


@pytest.mark.fault("broker", "PUBACK lost")
async def test_a_message_whose_puback_is_lost_has_one_effect(rig, strategy, confirmed):
    """The broker has it, the server does not know that, and sends it again under the same id.

    Catalogue: I01.
    """
    rig.consumer()
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    await rig.until_published(before)
    await rig.lose_pubacks()
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.until_published(uplink)
    await rig.find_broker()
    await rig.until_published(uplink, times=2)
    for one in (before, uplink):
        rig.expect(one, FIRST, first="west")
        rig.expect_reply(one)
        rig.expect_effects(one)
    rig.expect_ignored(before, by="window", times=0)
    rig.expect_ignored(uplink, by="window")


@pytest.mark.fault("broker", "PUBACK lost, server killed")
async def test_a_server_that_dies_between_publish_and_puback_repeats_itself(rig):
    """Killed after the broker has taken a message: after the restart it comes again, same id.

    Catalogue: I02. The nearest neighbour of a crash after PUBREC.
    """
    rig.consumer()
    rig.only("west")
    await rig.lose_pubacks()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.until_published(uplink)
    await rig.kill_lns()
    await rig.find_broker()
    await rig.start_lns()
    await rig.until_published(uplink, times=2)
    after = await rig.alpha.send(confirmed=True)
    for one in (uplink, after):
        rig.expect(one, FIRST, first="west")
        rig.expect_reply(one)
        rig.expect_effects(one)
    rig.expect_ignored(uplink, by="window")
    rig.expect_ignored(after, by="window", times=0)


@pytest.mark.fault("broker", "restart")
async def test_a_restart_of_the_broker_loses_nothing(rig, confirmed):
    """What is sent while the broker is away waits in the outbox, and then has its effect.

    Catalogue: I03. With QoS 1 and an outbox nothing is lost.
    """
    rig.consumer()
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=confirmed)]
    await rig.until_published(uplinks[0])
    await rig.stop_broker()
    uplinks += [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.start_broker()
    uplinks += [await rig.alpha.send(confirmed=confirmed)]
    for uplink in uplinks:
        await rig.until_published(uplink)
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_effects(uplink)


@pytest.mark.requires("wires")
@pytest.mark.fault("broker", "one client id for two servers")
async def test_two_servers_with_one_client_id_lose_nothing(rig):
    """The broker ends the older connection each time; what was under way comes again.

    Catalogue: I05. How often each server is thrown out is not looked at; effects are.
    """
    rig.consumer()
    rig.put_on("lns-b", "east")
    rig.share_client_id("lns-a", "lns-b")
    uplinks = []
    for station in ("west", "east", "west", "east"):
        rig.only(station)
        uplink = await rig.alpha.send()
        rig.expect(uplink, FIRST, first=station)
        uplinks.append(uplink)
    for uplink in uplinks:
        await rig.until_published(uplink)
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "slow path")
async def test_a_copy_may_arrive_before_the_original(rig, strategy, confirmed):
    """A consumer that drops what is marked would lose the frame: both are messages of their own.

    Catalogue: I06. The owner's way to the broker is slow, the other server's is not.
    """
    rig.consumer()
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(150_000)
    await rig.hold_messages("lns-a")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.until_published(uplink, copies(strategy), lns="lns-b")
    await rig.find_broker("lns-a")
    await rig.until_published(uplink, 1 + copies(strategy))
    rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect_effects(uplink, 1 + copies(strategy))
    rig.expect_ignored(uplink, by="window", times=0)
    rig.expect_ignored(uplink, by="sequence", times=0)


@pytest.mark.fault("broker", "slow path")
async def test_by_key_a_frame_counts_once_whichever_copy_is_first(rig, strategy):
    """The key names the frame: the copy has the effect, and the original is the duplicate."""
    rig.consumer(keys=True)
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(150_000)
    await rig.hold_messages("lns-a")
    uplink = await rig.alpha.send()
    await rig.until_published(uplink, copies(strategy), lns="lns-b")
    await rig.find_broker("lns-a")
    rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect_effects(uplink)
    rig.expect_ignored(uplink, by="key", times=copies(strategy))


async def test_copies_are_effects_by_id_and_one_effect_by_key(rig, strategy):
    """A strategy that lets copies through leaves it to the application what a duplicate is.

    Catalogue: I07. One consumer compares ids, the other one Remove Duplicates keys too.
    """
    rig.consumer("by id")
    rig.consumer("by key", keys=True)
    rig.east.delay_uplinks(150_000)
    uplink = await rig.alpha.send()
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_effects(uplink, 1 + copies(strategy), consumer="by id")
    rig.expect_ignored(uplink, by="window", times=0)
    rig.expect_effects(uplink, consumer="by key")
    rig.expect_ignored(uplink, by="key", times=copies(strategy), consumer="by key")


async def test_copies_of_two_servers_are_effects_of_their_own(rig, strategy):
    """Two servers with two stations each: every message that was let through has its effect."""
    rig.consumer()
    rig.put_on("lns-b", "north", "south")
    for station, place in {"east": 1, "north": 2, "south": 3}.items():
        rig.station(station).delay_uplinks(120_000 * place)
    uplinks = [await rig.alpha.send() for _ in range(2)]
    for uplink in uplinks:
        rig.expect(
            uplink,
            FIRST + COPY + ELSEWHERE + COPY,
            first="west",
            copy=("east", "south"),
            elsewhere="north",
        )
        rig.expect_effects(uplink, 1 + copies(strategy, 3))


async def test_five_equal_measurements_are_five_effects(rig):
    """The content is never the key.

    Catalogue: J17.
    """
    rig.consumer(keys=True)
    rig.only("west")
    uplinks = [await rig.alpha.send(b"21.5") for _ in range(5)]
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)


async def test_ids_go_on_behind_sixteen_bits(rig):
    """FCnt 65536 is 0 on the air, and neither id nor key of the first frame."""
    rig.consumer(keys=True)
    rig.only("west")
    veteran = rig.provision("veteran", f_cnt=65_535)
    uplinks = [await veteran.send() for _ in range(3)]
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)


async def test_a_new_session_has_new_ids(rig):
    """After another join the counter begins anew, and no message of before is meant."""
    rig.consumer(keys=True)
    rig.only("west")
    uplinks = []
    for _ in range(2):
        await rig.bravo.join()
        uplinks += [await rig.bravo.send() for _ in range(2)]
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "outbox lost")
async def test_a_server_that_lost_its_outbox_is_heard(rig):
    """It numbers its messages from 1 again, and the consumer begins anew with it."""
    rig.consumer()
    rig.only("west")
    before = [await rig.alpha.send() for _ in range(3)]
    await rig.until_published(before[-1])
    await rig.wipe_producer()
    after = [await rig.alpha.send() for _ in range(3)]
    for uplink in before + after:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_effects(uplink)
    rig.expect_ignored(after[0], by="sequence", times=0)


@pytest.mark.fault("lns", "restart")
async def test_a_frame_that_goes_up_again_after_a_crash_has_one_effect(rig):
    """The server's counter was not durable: id and key of the message follow from the frame."""
    rig.consumer(keys=True)
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True)
    await rig.until_published(uplink)
    await rig.restart_lns(f_cnt_up=9)
    await rig.replay(uplink, by="west", after=4_000_000)
    await rig.until_published(uplink, times=2)
    rig.expect(uplink, FIRST + AGAIN_AFTER_A_CRASH, first="west", again="west")
    rig.expect_effects(uplink)
    rig.expect_ignored(uplink, by="window")


@pytest.mark.fault("lns", "disk full")
async def test_nothing_is_answered_that_a_full_disk_did_not_take(rig, strategy, confirmed):
    """What could not be promised to the application was not heard; with room it goes on."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    await rig.fill_disk()
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.free_disk()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, REFUSED, refused="west")
    rig.expect_on_air(during)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through="west", fCnt=uplink.f_cnt)


@pytest.mark.requires("virtual time")
async def test_frames_that_wait_keep_a_station_from_nothing_else(rig):
    """They wait for the application."""
    rig.only("west")
    rig.delay_upstream(seconds(9), messages=20)
    frames = []
    for _ in range(20):
        frames.append(await rig.craft(rig.alpha))
        await rig.say(rig.told(frames[-1], by="west"), by="west")
    frames.append(await rig.charlie.send(confirmed=True))
    await rig.wait(seconds(9))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")
    rig.expect_reply(frames[-1])


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("copies", [255, 256])
async def test_a_station_is_read_while_fewer_than_256_of_its_frames_wait(rig, copies):
    """They wait for what becomes of a frame; more are read when these are done, and wait anew."""
    rig.only("west")
    frames, asking = [], []
    for count in (copies, 1):
        rig.delay_upstream(seconds(9))
        frames.append(await rig.craft(rig.alpha))
        text = rig.told(frames[-1], by="west")
        for _ in range(count):
            await rig.say(text, by="west")
        asking.append(await rig.charlie.send(confirmed=True))
        await rig.wait(seconds(9))
    in_time = asking if copies == 255 else asking[1:]
    rig.expect(frames[0], FIRST + AGAIN * (copies - 1), first="west", again="west")
    rig.expect(frames[1], FIRST, first="west")
    for uplink in asking:
        rig.expect(uplink, FIRST if uplink in in_time else TOO_LATE, first="west")
    for uplink in in_time:
        rig.expect_reply(uplink)
