"""What becomes of what waits for the broker when the disk is full, or fails, or room is short."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from scenarios.delivering import delivered, expect_in_order
from scenarios.telling import hear
from scenarios.words import FIRST, REFUSED

pytestmark = [pytest.mark.requires("outbox"), pytest.mark.requires("virtual time")]


@pytest.mark.fault("broker", "disk full")
async def test_what_a_full_disk_does_not_forget_is_sent_once(rig, confirmed):
    """The broker takes what waited; with room again it leaves the file, and what comes counts on.

    What could not be written was not heard, and is in no count of what waits.
    """
    rig.consumer()
    rig.only("west")
    rig.cut_upstream()
    uplinks = [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.fill_disk()
    refused = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_upstream()
    await rig.wait(seconds(15))
    await rig.free_disk()
    await rig.wait(seconds(3))
    await rig.restart_lns()
    uplinks.append(await delivered(rig, confirmed=confirmed))
    expect_in_order(rig, uplinks)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect_on_air(refused)
    for uplink in uplinks:
        rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.fault("broker", "disk full")
@pytest.mark.parametrize("breaks", [False, True])
async def test_what_a_full_disk_refuses_together_is_refused_at_once(rig, breaks):
    """Messages of one moment share one write, and its fate: none of them waits for another one.

    Whether it cannot begin, or fails at its commit.
    """
    rig.consumer()
    rig.only("west")
    frames = {
        "west": await rig.craft(rig.alpha, confirmed=True),
        "east": await rig.craft(rig.charlie, confirmed=True),
    }
    await (rig.break_writes(1) if breaks else rig.fill_disk())
    for station, frame in frames.items():
        await rig.say(rig.told(frame, by=station), by=station)
    await rig.wait(seconds(15))
    await rig.free_disk()
    after = await delivered(rig)
    for station, frame in frames.items():
        rig.expect(frame, REFUSED, refused=station)
    expect_in_order(rig, [after])


@pytest.mark.fault("broker", "away")
async def test_a_file_that_was_long_is_short_again(rig):
    """What a thousand messages took while the broker was away is given back to the file system."""
    rig.only("west")
    rig.cut_upstream()
    for _ in range(1_300):
        frame = await rig.craft(rig.alpha, payload=bytes(200))
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(1))
    await rig.wait(seconds(1))
    await rig.restore_upstream()
    await rig.wait(minutes(1))
    last = await delivered(rig)
    rig.expect(last, FIRST, first="west")


@pytest.mark.fault("broker", "disk full")
async def test_what_fails_at_its_commit_was_neither_promised_nor_forgotten(rig, confirmed):
    """A message that is not kept was not heard; one that is not removed is not sent again."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig, confirmed=confirmed)]
    await rig.wait(seconds(1))
    await rig.break_writes(1)
    refused = await rig.alpha.send(confirmed=confirmed)
    uplinks.append(await delivered(rig, confirmed=confirmed))
    await rig.wait(seconds(1))
    await rig.break_writes(2, after=1)
    uplinks.append(await delivered(rig, confirmed=confirmed))
    await rig.wait(seconds(4))
    uplinks.append(await delivered(rig, confirmed=confirmed))
    expect_in_order(rig, uplinks)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect_on_air(refused)


@pytest.mark.fault("broker", "disk full")
async def test_what_a_full_disk_does_not_put_aside_is_put_aside_later(rig):
    """It waits for too long all the same: nobody is sent it before a person lets it go."""
    rig.consumer()
    rig.park_after(seconds(5))
    rig.only("west")
    before = await delivered(rig)
    rig.cut_upstream()
    parked = await rig.alpha.send(confirmed=True)
    await rig.fill_disk()
    await rig.wait(seconds(8))
    await rig.free_disk()
    await rig.wait(seconds(3))
    await rig.restore_upstream()
    await rig.wait(seconds(10))
    await rig.release_parked()
    await rig.until_published(parked)
    expect_in_order(rig, [before])
    expect_in_order(rig, [parked], first=3)


@pytest.mark.fault("broker", "away for too long")
async def test_what_the_disk_has_too_late_waits_all_the_same(rig):
    """Whoever waited for that has given up and answers nobody; it is put aside in its time."""
    rig.park_after(seconds(3))
    rig.only("west")
    before = await delivered(rig)
    await rig.wait(seconds(1))
    rig.cut_upstream()
    await rig.slow_disk(seconds(12))
    frame = await hear(rig, rig.alpha, "west", after=seconds(1))
    await rig.slow_disk(0)
    await rig.wait(seconds(20))
    await rig.restore_upstream()
    await rig.wait(seconds(31))
    after = await delivered(rig)
    rig.expect(frame, REFUSED, refused="west")
    for number, uplink in ((1, before), (3, after)):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_upstream(uplink, through="west", sequenceNumber=number)


@pytest.mark.fault("broker", "slow path")
async def test_what_is_sent_while_the_disk_is_asked_what_is_too_old_is_not_put_aside(rig):
    """It goes out in its time, and is too old when the disk, which writes another one, answers."""
    rig.consumer()
    rig.park_after(seconds(5))
    rig.only("west")
    before = await delivered(rig)
    await rig.delay_pubacks(milliseconds(4_300))
    frames = [await rig.craft(rig.alpha) for _ in range(2)]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(100))
    await rig.wait(seconds(3))
    await rig.slow_disk(seconds(3))
    other = await rig.craft(rig.charlie)
    await rig.say(rig.told(other, by="west"), by="west")
    await rig.wait(milliseconds(10))
    await rig.slow_disk(0)
    await rig.wait(seconds(20))
    await rig.find_broker()
    for number, frame in enumerate((before, *frames), 1):
        rig.expect(frame, FIRST, first="west")
        rig.expect_upstream(frame, through="west", sequenceNumber=number)
    rig.expect(other, FIRST, first="west")


@pytest.mark.fault("broker", "disk broken")
async def test_what_a_broken_disk_keeps_to_itself_is_sent_when_it_works_again(rig, confirmed):
    """The device was answered, so nobody but the server itself would look for it once more."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig, confirmed=confirmed)]
    await rig.break_disk(after=1)
    uplinks.append(await rig.alpha.send(confirmed=confirmed))
    await rig.wait(seconds(5))
    refused = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(2))
    await rig.free_disk()
    await rig.wait(seconds(3))
    await rig.until_published(uplinks[-1])
    expect_in_order(rig, uplinks)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect_on_air(refused)


@pytest.mark.fault("broker", "away for too long")
async def test_what_waits_for_too_long_is_put_aside_though_the_clock_is_set_back(rig):
    """It was found too old while it could not be put aside, and stays so by any clock."""
    rig.consumer()
    rig.park_after(seconds(3))
    rig.only("west")
    before = await delivered(rig)
    rig.cut_upstream()
    parked = [await rig.alpha.send(confirmed=True) for _ in range(2)]
    await rig.fill_disk()
    await rig.wait(seconds(5))
    await rig.restore_upstream()
    await rig.wait(seconds(20))
    rig.step_wall_clock(-seconds(3_600))
    await rig.free_disk()
    await rig.wait(seconds(2))
    after = await delivered(rig)
    await rig.release_parked()
    await rig.until_published(parked[-1])
    expect_in_order(rig, [before])
    expect_in_order(rig, [after, *parked], first=4)


@pytest.mark.fault("broker", "away")
@pytest.mark.parametrize("refusals", [0, 4])
async def test_a_broker_that_is_there_for_a_moment_is_tried_later_each_time(rig, refusals):
    """It takes nothing in a second, so nothing has come of it: the waits go on growing."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.refuse_messages(refusals, of=rig.alpha)
    uplinks += [await rig.alpha.send(confirmed=True) for _ in range(refusals > 0)]
    for wait_s in (2, 3, 4, 6, 10):
        await rig.stop_broker()
        await rig.start_broker()
        await rig.wait(seconds(wait_s))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.parametrize("ms", [600, 5_000])
async def test_a_server_that_ends_waits_a_moment_for_what_is_on_its_way(rig, ms):
    """The broker has the message, and says so while the server ends: it is not sent again.

    Or it says so too late, and nobody waits for it.
    """
    rig.only("west")
    before = await delivered(rig)
    await rig.delay_pubacks(seconds(3) + milliseconds(ms))
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    for uplink in (before, frame):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "slow path")
async def test_a_message_that_is_acknowledged_lets_none_of_another_topic_go(rig):
    """Of each topic one message is on its way: the second one waits for the PUBACK of its first."""
    rig.only("west")
    before = await delivered(rig)
    await rig.wait(seconds(11))
    await rig.delay_pubacks(seconds(2))
    frames = [await rig.craft(one) for one in (rig.alpha, rig.charlie, rig.charlie)]
    for frame, wait_ms in zip(frames, (500, 1_600, 5_000), strict=True):
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(wait_ms))
    for uplink in (before, *frames):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "message refused")
async def test_what_a_refusal_makes_room_for_goes_at_once(rig):
    """Of three messages on their way the first is refused: the fourth waits for no other PUBACK."""
    rig.only("west")
    devices = [rig.alpha, rig.charlie, *(rig.provision(name) for name in ("delta", "echo"))]
    before = await delivered(rig)
    await rig.wait(seconds(11))
    await rig.refuse_messages(1, of=rig.alpha)
    await rig.delay_pubacks(seconds(20))
    frames = [await rig.craft(device) for device in devices]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(milliseconds(200))
    await rig.wait(minutes(2))
    for uplink in (before, *frames):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "away for too long")
async def test_what_cannot_be_put_aside_yet_is_the_oldest_that_waits(rig):
    """Its server says so as long as that is so, whatever else it sends meanwhile."""
    rig.consumer()
    rig.park_after(seconds(45))
    rig.only("west")
    rig.cut_upstream()
    parked = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(32))
    later = await rig.charlie.send(confirmed=True)
    await rig.fill_disk()
    await rig.wait(seconds(12))
    await rig.restore_upstream()
    await rig.wait(seconds(32))
    await rig.free_disk()
    await rig.wait(seconds(3))
    await rig.release_parked()
    await rig.until_published(parked)
    expect_in_order(rig, [later])
    expect_in_order(rig, [parked], first=2)
