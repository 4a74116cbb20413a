"""What stays in a server's outbox while the broker is away, refuses or says nothing.

A message is on the disk before its device is answered. It comes to the broker in order, under its
number and its id, however often the way to it is lost.
"""

import pytest

from bench.clock import milliseconds, minutes, seconds
from scenarios.delivering import delivered, expect_in_order
from scenarios.words import COPY, FIRST, REFUSED

pytestmark = pytest.mark.requires("outbox")


@pytest.mark.fault("lns", "broker away")
@pytest.mark.fault("broker", "away")
async def test_an_uplink_is_answered_while_the_broker_is_away(rig, strategy, confirmed):
    """What is on the disk of the network server is safe: it is answered, and delivered later."""
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=confirmed)]
    rig.cut_upstream()
    uplinks += [await rig.alpha.send(confirmed=confirmed) for _ in range(2)]
    await rig.restore_upstream()
    for uplink in uplinks:
        await rig.until_published(uplink)
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "killed")
@pytest.mark.fault("broker", "away, server killed")
async def test_what_was_answered_survives_a_crash(rig, strategy):
    """A message that the broker has not seen yet is delivered after the crash, under its id."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.cut_upstream()
    answered = await rig.alpha.send(confirmed=True)
    await rig.kill_lns()
    await rig.restore_upstream()
    await rig.start_lns()
    after = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(4))
    for uplink in (before, answered, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through="west", fCnt=uplink.f_cnt)


@pytest.mark.fault("broker", "away for too long")
async def test_what_waits_for_too_long_is_put_aside_until_a_person_lets_it_go(rig):
    """`retry_max_s`: nobody expects it any more; released, it has another number and its old id."""
    rig.consumer()
    rig.park_after(seconds(3))
    rig.only("west")
    before = await delivered(rig)
    await rig.stop_broker()
    parked = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(6))
    await rig.start_broker()
    await rig.release_parked()
    await rig.until_published(parked)
    for n, uplink in {1: before, 3: parked}.items():
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through="west", sequenceNumber=n)
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
async def test_what_waits_comes_in_order_and_is_counted_on(rig):
    """However much it is: all of it, each under its number."""
    rig.consumer()
    rig.only("west")
    rig.cut_upstream()
    uplinks = [await rig.alpha.send() for _ in range(45)]
    await rig.restore_upstream()
    await rig.wait(seconds(11))  # the back-off may take half a minute
    await rig.until_published(uplinks[-1])
    uplinks.append(await rig.alpha.send())
    await rig.until_published(uplinks[-1])
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "away, server killed")
async def test_numbers_and_order_outlive_restarts(rig):
    """What waited goes out first after each start, and what comes then counts on."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    rig.cut_upstream()
    for _ in range(3):
        uplinks += [await rig.alpha.send(confirmed=True) for _ in range(2)]
        await rig.restart_lns()
    await rig.restore_upstream()
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)
    rig.expect_ignored(uplinks[0], by="window", times=0)


@pytest.mark.fault("broker", "away, server killed")
@pytest.mark.requires("virtual time")
async def test_a_copy_that_outlives_a_restart_has_the_key_of_its_frame(rig):
    """Also where the server before was of an earlier version, which wrote messages without keys."""
    rig.consumer(keys=True)
    rig.east.delay_uplinks(milliseconds(100))
    rig.cut_upstream()
    uplinks = [await rig.alpha.send() for _ in range(2)]
    for _ in range(2):
        await rig.restart_lns()
    await rig.restore_upstream()
    await rig.wait(seconds(20))
    for uplink in uplinks:
        rig.expect(uplink, FIRST + COPY, first="west", copy="east")
        rig.expect_effects(uplink)
        rig.expect_ignored(uplink, by="key")


@pytest.mark.fault("broker", "forgets")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("lost", ["connection", "server"])
@pytest.mark.parametrize(("later", "again"), [(seconds(1), 1), (seconds(25), 0)])
async def test_what_was_acknowledged_just_before_goes_out_again(rig, lost, later, again):
    """A broker writes a while later: for `keep_s` it may forget what it has acknowledged.

    All of it comes once more, in its order, before what is behind it.
    """
    rig.consumer()
    rig.keep_acknowledged(seconds(20))
    rig.only("west")
    uplinks = [await delivered(rig) for _ in range(3)]
    await rig.wait(later)
    if lost == "connection":
        rig.cut_upstream()
        await rig.restore_upstream()
    else:
        await rig.restart_lns()
    await rig.wait(seconds(5))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)
    for uplink in uplinks[:3]:
        rig.expect_ignored(uplink, by="window", times=again)


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("away", [seconds(2), minutes(1), minutes(20)])
async def test_a_broker_that_is_back_is_found_within_half_a_minute(rig, away):
    """However long it was away: the waits between two attempts grow, and have an end."""
    rig.consumer()
    rig.only("west")
    await rig.stop_broker()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.wait(away)
    await rig.start_broker()
    await rig.wait(min(away + seconds(1), seconds(11)))
    await rig.until_published(uplink)
    expect_in_order(rig, [uplink])


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
async def test_a_broker_that_was_there_for_long_is_found_again_at_once(rig):
    """Also when nothing was sent meanwhile: how long it was away before that counts no more."""
    rig.consumer()
    rig.park_after(seconds(9))
    rig.only("west")
    await rig.stop_broker()
    await rig.wait(minutes(5))
    await rig.start_broker()
    await rig.wait(minutes(2))
    await rig.stop_broker()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.start_broker()
    await rig.wait(seconds(10))
    expect_in_order(rig, [uplink])


@pytest.mark.fault("broker", "outbox full")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("room", [1, 3])
async def test_a_full_outbox_refuses_and_has_room_again(rig, strategy, confirmed, room):
    """Exactly so many; what was refused was not heard, and the numbers have no gap."""
    rig.consumer()
    rig.limit_outbox(room)
    rig.only("west")
    rig.cut_upstream()
    waiting = [await rig.alpha.send(confirmed=confirmed) for _ in range(room)]
    refused = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_upstream()
    await rig.until_published(waiting[-1])
    await rig.wait(seconds(1))
    waiting.append(await delivered(rig, confirmed=confirmed))
    expect_in_order(rig, waiting)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect_on_air(refused)


@pytest.mark.fault("broker", "outbox full")
@pytest.mark.requires("virtual time")
async def test_what_is_put_aside_takes_room_until_it_is_released(rig, confirmed):
    """A message that waits for a person is in the outbox as well, also after a start."""
    rig.consumer()
    rig.limit_outbox(2)
    rig.park_after(seconds(3))
    rig.only("west")
    rig.cut_upstream()
    parked = [await rig.alpha.send(confirmed=confirmed)]
    await rig.wait(seconds(6))
    parked.append(await rig.alpha.send(confirmed=confirmed))
    refused = [await rig.alpha.send(confirmed=confirmed)]
    await rig.wait(seconds(6))
    refused.append(await rig.alpha.send(confirmed=confirmed))
    await rig.restart_lns()
    refused.append(await rig.alpha.send(confirmed=confirmed))
    await rig.restore_upstream()
    await rig.wait(seconds(10))
    refused.append(await rig.alpha.send(confirmed=confirmed))
    await rig.release_parked()
    await rig.until_published(parked[-1])
    await rig.wait(seconds(1))
    after = await delivered(rig, confirmed=confirmed)
    expect_in_order(rig, [*parked, after], first=3)
    for uplink in refused:
        rig.expect(uplink, REFUSED, refused="west")
        rig.expect_on_air(uplink)


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_what_is_put_aside_keeps_its_order(rig):
    """Released, it stands behind what was sent meanwhile, with numbers of its own."""
    rig.consumer()
    rig.park_after(seconds(5))
    rig.only("west")
    await rig.stop_broker()
    parked = [await rig.alpha.send(confirmed=True) for _ in range(3)]
    await rig.wait(seconds(8))
    await rig.start_broker()
    await rig.wait(seconds(20))  # until the server has found it
    between = await delivered(rig)
    await rig.release_parked()
    await rig.until_published(parked[-1])
    after = await delivered(rig)
    expect_in_order(rig, [between, *parked, after], first=4)


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_a_copy_that_was_put_aside_has_the_key_of_its_frame(rig):
    """A consumer recognises it by that, as the first message has come before it."""
    rig.consumer(keys=True)
    rig.park_after(seconds(5))
    rig.east.delay_uplinks(milliseconds(100))
    await rig.stop_broker()
    uplink = await rig.alpha.send()
    await rig.wait(seconds(8))
    await rig.start_broker()
    await rig.wait(seconds(20))
    await rig.release_parked()
    await rig.until_published(uplink, 2)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")
    rig.expect_effects(uplink)
    rig.expect_ignored(uplink, by="key")


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_what_waits_for_less_is_not_put_aside(rig):
    """Before its time it is sent as if nothing had been."""
    rig.consumer()
    rig.park_after(seconds(30))
    rig.only("west")
    rig.cut_upstream()
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.wait(seconds(10))
    await rig.restore_upstream()
    await rig.until_published(uplinks[0])
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_what_waits_is_put_aside_when_its_time_is_over(rig):
    """Not much later: a person who looks then finds it."""
    rig.consumer()
    rig.park_after(seconds(10))
    rig.only("west")
    before = await delivered(rig)
    rig.cut_upstream()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(13))
    await rig.release_parked()
    await rig.restore_upstream()
    await rig.until_published(uplink)
    expect_in_order(rig, [before])
    expect_in_order(rig, [uplink], first=3)


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("earlier", [milliseconds(181), milliseconds(182), milliseconds(183)])
async def test_what_waits_for_exactly_as_long_as_it_may_is_not_put_aside(rig, earlier):
    """A server looks every second since it began: then it is three seconds old, or 1 ms beside."""
    rig.park_after(seconds(3))
    rig.only("west")
    rig.cut_upstream()
    frame = await rig.craft(rig.alpha)
    await rig.wait(0, whole=milliseconds(1))
    await rig.restart_lns()
    await rig.wait(seconds(2) - earlier)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(7))
    rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_what_waits_for_too_long_together_is_put_aside_together(rig):
    """However many they are: none waits until it is its turn to be looked at."""
    device = rig.provision("delta", f_cnt=7)
    rig.park_after(seconds(5))
    rig.only("west")
    before = await delivered(rig)
    rig.cut_upstream()
    frames = [await rig.craft(one) for one in (rig.alpha, device) for _ in range(5)]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(10))
    await rig.release_parked()
    await rig.restore_upstream()
    for frame in frames:
        await rig.until_published(frame)
    for frame in (before, *frames):
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("lns", "killed")
@pytest.mark.fault("broker", "away for too long")
@pytest.mark.requires("virtual time")
async def test_a_server_that_was_away_for_too_long_does_not_send_what_waited(rig):
    """It is put aside as if the server had run, though the broker is there at once."""
    rig.consumer()
    rig.park_after(seconds(5))
    rig.only("west")
    before = await delivered(rig)
    rig.cut_upstream()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.kill_lns()
    await rig.wait(seconds(8))
    await rig.restore_upstream()
    await rig.start_lns()
    await rig.wait(seconds(3))
    await rig.release_parked()
    await rig.until_published(uplink)
    expect_in_order(rig, [before])
    expect_in_order(rig, [uplink], first=3)


@pytest.mark.fault("broker", "outbox full")
@pytest.mark.requires("virtual time")
async def test_what_is_put_aside_takes_the_room_of_one(rig, confirmed):
    """It has left those that are to be sent."""
    rig.consumer()
    rig.limit_outbox(2)
    rig.park_after(seconds(5))
    rig.only("west")
    rig.cut_upstream()
    parked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(8))
    await rig.restore_upstream()
    await rig.wait(seconds(20))  # until the server has found it
    after = await delivered(rig, confirmed=confirmed)
    await rig.release_parked()
    await rig.until_published(parked)
    expect_in_order(rig, [after, parked], first=2)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_what_may_be_with_the_broker_is_not_put_aside(rig):
    """It was sent, and nobody knows yet: it keeps its number, however long that takes."""
    rig.consumer()
    rig.park_after(seconds(3))
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.hold_messages()
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.wait(seconds(9))
    await rig.find_broker()
    await rig.until_published(uplinks[-1])
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)
    rig.expect_ignored(uplinks[1], by="window", times=0)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_what_is_put_aside_lets_nothing_overtake_what_may_be_with_the_broker(rig):
    """Of a topic one message is on its way at a time, also when those between are put aside."""
    rig.consumer()
    rig.park_after(seconds(6))
    rig.only("west")
    before = await delivered(rig)
    await rig.hold_messages()
    sent, parked = [await rig.alpha.send(confirmed=True) for _ in range(2)]
    await rig.wait(seconds(8))
    behind = await rig.alpha.send(confirmed=True)
    await rig.find_broker()
    await rig.until_published(behind)
    await rig.release_parked()
    await rig.until_published(parked)
    expect_in_order(rig, [before, sent])
    expect_in_order(rig, [behind, parked], first=4)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("silent, again", [(seconds(15), 0), (seconds(23), 1), (seconds(47), 1)])
async def test_a_broker_that_says_nothing_for_twenty_seconds_is_left(rig, silent, again):
    """Before that it may only be slow, and what it was told is not told again."""
    rig.consumer()
    rig.only("west")
    before = await delivered(rig)
    await rig.hold_messages()
    uplink = await rig.alpha.send(confirmed=True)
    await rig.wait(silent)
    await rig.find_broker()
    await rig.wait(seconds(31))
    await rig.until_published(uplink, 1 + again)
    expect_in_order(rig, [before, uplink])
    rig.expect_ignored(uplink, by="window", times=again)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_a_broker_that_says_nothing_is_left_whatever_else_it_is_sent(rig):
    """Only what it says counts: messages of other devices on their way make nobody wait longer."""
    rig.consumer()
    rig.only("west")
    before = await delivered(rig)
    await rig.hold_messages()
    alpha = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(12))
    charlie = await rig.charlie.send(confirmed=True)
    await rig.wait(seconds(11))
    await rig.find_broker()
    await rig.wait(seconds(31))
    for uplink in (alpha, charlie):
        await rig.until_published(uplink, 2)
        rig.expect_ignored(uplink, by="window")
    expect_in_order(rig, [before, alpha])
    expect_in_order(rig, [charlie])


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("refusals", [0, 3])
async def test_a_broker_that_answers_late_and_again_and_again_is_not_left(rig, refusals):
    """Twenty seconds are counted from its last word, while one message after another waits."""
    rig.consumer()
    rig.only("west")
    alpha, charlie = [await delivered(rig)], [await rig.charlie.send(confirmed=True)]
    await rig.delay_pubacks(seconds(8))
    for device in (rig.alpha, rig.charlie):
        await rig.refuse_messages(refusals, of=device)
    for _ in range(4):
        alpha.append(await rig.alpha.send(confirmed=True))
        charlie.append(await rig.charlie.send(confirmed=True))
    await rig.wait(minutes(2))
    await rig.find_broker()
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)
        for uplink in uplinks:
            rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_a_clock_that_is_set_back_makes_nobody_tell_of_what_is_to_come(rig):
    """What waits was received an hour from now, what waits behind it was received just now."""
    rig.consumer()
    rig.only("west")
    before = await delivered(rig)
    await rig.refuse_messages(6, of=rig.alpha)
    waiting = await rig.alpha.send(confirmed=True)
    rig.step_wall_clock(-seconds(3_600))
    behind = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(12))
    other = await rig.charlie.send(confirmed=True)
    await rig.wait(minutes(1))
    for uplinks in ([before, waiting, behind], [other]):
        expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_a_server_tells_of_the_oldest_that_waits_on_any_topic(rig):
    """Two are refused for half a minute: all of before the earlier one is with the broker."""
    rig.consumer()
    rig.only("west")
    for device in (rig.alpha, rig.charlie):
        await rig.refuse_messages(6, of=device)
    uplinks = [await rig.alpha.send(confirmed=True), await rig.charlie.send(confirmed=True)]
    await rig.wait(minutes(1))
    for uplink in uplinks:
        expect_in_order(rig, [uplink])


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_what_was_on_its_way_goes_out_again_before_what_is_behind_it(rig):
    """The broker ends with what it has not read; a consumer would take it for an old one later."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.hold_messages()
    uplinks += [await rig.alpha.send(confirmed=True) for _ in range(3)]
    await rig.stop_broker()
    await rig.find_broker()
    await rig.start_broker()
    await rig.wait(seconds(5))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("refusals", [1, 4])
async def test_what_the_broker_refuses_is_sent_again(rig, refusals):
    """Its id and number stay, and what comes behind it waits."""
    rig.consumer()
    rig.only("west")
    before = await delivered(rig)
    await rig.refuse_messages(refusals)
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.wait(minutes(1))
    await rig.refuse_messages(1)
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.wait(minutes(1))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, [before, *uplinks])


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("away", [False, True])
async def test_what_is_put_aside_takes_its_refusals_along(rig, away):
    """What comes next on its topic is refused for the first time, and tried again soon."""
    rig.park_after(seconds(10))
    rig.only("west")
    before = await delivered(rig)
    # Five or six of nine before it is put aside; three or four of five before the broker goes.
    await rig.refuse_messages(5 if away else 9, of=rig.alpha)
    parked = [await rig.alpha.send()]
    await rig.wait(seconds(1 if away else 8))
    if away:
        rig.cut_upstream()
    else:  # what is behind it is refused as late as it would have been
        parked.append(await rig.alpha.send())
    await rig.wait(minutes(1))
    if away:
        await rig.restore_upstream()
        await rig.wait(seconds(31))
    after = await rig.alpha.send()
    await rig.until_published(after)
    await rig.release_parked()
    await rig.until_published(parked[-1])
    for uplink in (before, *parked, after):
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("refusals", [1, 2, 4])
async def test_what_is_behind_a_refused_message_stays_behind_it(rig, refusals):
    """The broker would take it, and a consumer would take the refused one for an old one then."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.hold_messages()
    uplinks += [await rig.alpha.send(confirmed=True) for _ in range(3)]
    await rig.refuse_messages(refusals)
    await rig.find_broker()
    await rig.wait(minutes(1))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_a_topic_that_is_refused_holds_up_no_other(rig):
    """Its messages wait and are tried again; those of other devices come as if nothing had been."""
    rig.consumer()
    rig.only("west")
    alpha = [await delivered(rig)]
    await rig.refuse_messages(9, of=rig.alpha)
    alpha += [await rig.alpha.send(confirmed=True) for _ in range(2)]
    await rig.wait(seconds(45))
    charlie = []
    for _ in range(4):
        charlie.append(await rig.charlie.send(confirmed=True))
        await rig.wait(seconds(1))
        await rig.until_published(charlie[-1])
    await rig.wait(minutes(4))
    await rig.until_published(alpha[-1])
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)
        for uplink in uplinks:
            rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("after", [seconds(5), seconds(20)])
async def test_what_is_refused_waits_its_time_on_the_next_connection_too(rig, after):
    """A broker that comes back has not changed its mind; the oldest one is still the oldest."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    for device in (rig.charlie, rig.alpha):
        await rig.refuse_messages(6, of=device)
    other = await rig.charlie.send(confirmed=True)
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.wait(after)
    await rig.stop_broker()
    await rig.start_broker()
    await rig.wait(minutes(2))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)
    expect_in_order(rig, [other])


@pytest.mark.fault("lns", "killed")
@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_what_is_refused_outlives_a_crash_whatever_is_acknowledged_beside_it(rig):
    """Messages of another device are removed, and those before and behind them are not."""
    rig.consumer()
    rig.only("west")
    alpha, charlie = [await delivered(rig)], []
    await rig.hold_messages()
    alpha.append(await rig.alpha.send(confirmed=True))
    charlie.append(await rig.charlie.send(confirmed=True))
    alpha.append(await rig.alpha.send(confirmed=True))
    await rig.refuse_messages(3, of=rig.alpha)
    await rig.find_broker()
    await rig.until_published(charlie[0])
    await rig.wait(seconds(1))
    await rig.restart_lns()
    await rig.wait(seconds(20))
    await rig.until_published(alpha[-1])
    charlie.append(await rig.charlie.send(confirmed=True))
    await rig.until_published(charlie[-1])
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("refusals", [1, 3])
async def test_what_is_refused_together_is_tried_again_each_in_its_time(rig, refusals):
    """The broker has read messages of three devices at once, and refuses two of them."""
    rig.consumer()
    rig.only("west")
    devices = rig.alpha, rig.charlie, rig.provision("delta")
    before = await delivered(rig)
    await rig.hold_messages()
    uplinks = [await device.send(confirmed=True) for device in devices]
    for device in devices[:2]:
        await rig.refuse_messages(refusals, of=device)
    await rig.find_broker()
    await rig.wait(minutes(1))
    expect_in_order(rig, [before, uplinks[0]])
    for uplink in uplinks[1:]:
        expect_in_order(rig, [uplink])


@pytest.mark.fault("broker", "login refused")
@pytest.mark.requires("virtual time")
async def test_a_broker_that_refuses_the_login_is_left_and_sought_again(rig):
    """It is told nothing then; some time it may let the server in."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.refuse_logins(3)
    await rig.stop_broker()
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.start_broker()
    await rig.wait(seconds(30))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "login refused")
@pytest.mark.requires("virtual time")
async def test_who_is_refused_comes_again_after_his_wait_and_not_later(rig):
    """It is told at once that nobody lets it in: it waits for no other word of the broker."""
    rig.consumer()
    rig.only("west")
    uplinks = [await delivered(rig)]
    await rig.refuse_logins(3)
    await rig.lose_pubacks()
    await rig.find_broker()
    await rig.wait(seconds(8))
    uplinks.append(await delivered(rig))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_a_connection_that_took_one_and_refused_another_was_not_in_vain(rig):
    """The broker says both at once; when it is lost, the waits begin anew."""
    rig.consumer()
    rig.only("west")
    alpha, charlie = [await delivered(rig)], []
    await rig.hold_messages()
    alpha.append(await rig.alpha.send(confirmed=True))
    charlie.append(await rig.charlie.send(confirmed=True))
    await rig.refuse_messages(9, of=rig.alpha)
    await rig.refuse_logins(3)
    await rig.stop_broker()
    await rig.find_broker()
    await rig.start_broker()
    await rig.until_published(charlie[0])
    await rig.lose_pubacks()
    await rig.find_broker()
    await rig.wait(minutes(4))
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
async def test_a_thousand_that_are_refused_hold_up_nobody_else(rig):
    """However many of a device wait, whatever becomes of the connection: the others go at once."""
    rig.only("west")
    others = [await rig.charlie.send(confirmed=True)]
    await rig.refuse_messages(9, of=rig.alpha)
    for _ in range(1_010):
        await rig.say(rig.told(await rig.craft(rig.alpha), by="west"), by="west")
        await rig.wait(milliseconds(10))
    others.append(await rig.charlie.send(confirmed=True))
    await rig.until_published(others[-1])
    rig.cut_upstream()
    await rig.restore_upstream()
    others += [await rig.charlie.send(confirmed=True) for _ in range(2)]
    await rig.until_published(others[-1])
    await rig.wait(minutes(4))
    last = await rig.alpha.send(confirmed=True)
    await rig.until_published(last)
    for uplink in (*others, last):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
async def test_how_far_it_is_a_server_says_as_soon_as_the_broker_takes_more(rig):
    """More topics wait than the broker takes messages at once; consumers need not wait for all."""
    rig.only("west")
    devices = [rig.provision(f"waiting-{number}") for number in range(5)]
    uplinks = [await rig.alpha.send()]
    rig.cut_upstream()
    uplinks += [await device.send() for device in devices]
    await rig.restore_upstream()
    await rig.wait(seconds(25))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
async def test_a_broker_that_comes_and_goes_is_found_again_at_once(rig):
    """It has taken messages each time, so the waits begin anew: nothing is put aside."""
    rig.consumer()
    rig.park_after(seconds(9))
    rig.only("west")
    uplinks = [await delivered(rig)]
    for _ in range(6):
        await rig.stop_broker()
        uplinks.append(await rig.alpha.send(confirmed=True))
        await rig.start_broker()
        await rig.wait(seconds(12))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "connections end")
@pytest.mark.requires("virtual time")
async def test_a_broker_that_ends_a_connection_is_back_within_half_a_second(rig):
    """Each connection has come to something: none of the waits is a second one."""
    rig.consumer()
    rig.only("west")
    uplinks = []
    for _ in range(5):
        uplinks.append(await delivered(rig))
        await rig.wait(seconds(1))
        await rig.lose_pubacks()
        await rig.find_broker()
        await rig.wait(seconds(2))
    expect_in_order(rig, uplinks)


@pytest.mark.fault("broker", "forgets")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize(("later", "again"), [(seconds(20) - 1, 1), (seconds(20), 0)])
async def test_what_was_acknowledged_stays_to_the_microsecond(rig, later, again):
    """What was acknowledged as long ago as it stays, the broker has written."""
    rig.consumer()
    rig.keep_acknowledged(seconds(20))
    rig.only("west")
    before = await rig.craft(rig.alpha)
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(before, by="west"), by="west")
    await rig.wait(milliseconds(10))
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(2) + later)  # so long it is on its way
    rig.cut_upstream()
    await rig.restore_upstream()
    await rig.wait(seconds(5))
    after = await delivered(rig)
    expect_in_order(rig, [after], first=3)
    for one, times in (before, 0), (frame, again):
        rig.expect(one, FIRST, first="west")
        rig.expect_ignored(one, by="window", times=times)


@pytest.mark.fault("broker", "away")
@pytest.mark.requires("virtual time")
async def test_what_a_broker_has_is_not_sent_again_however_soon_it_goes(rig):
    """It has said so, and the server keeps nothing for longer unless it is asked to."""
    rig.consumer()
    rig.only("west")
    frame = await rig.craft(rig.alpha)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(200))
    await rig.stop_broker()
    await rig.start_broker()
    await rig.wait(seconds(5))
    after = await delivered(rig)
    expect_in_order(rig, [after], first=2)
    rig.expect(frame, FIRST, first="west")
    rig.expect_ignored(frame, by="window", times=0)


@pytest.mark.fault("broker", "PUBACK lost")
@pytest.mark.requires("virtual time")
async def test_all_that_was_not_acknowledged_comes_again_in_order(rig):
    """The broker had one of each device, which has one effect; the others come behind it."""
    rig.consumer()
    rig.only("west")
    await rig.lose_pubacks()
    alpha = [await rig.alpha.send(confirmed=True)]
    charlie = [await rig.charlie.send(confirmed=True)]
    alpha += [await rig.alpha.send(confirmed=True) for _ in range(2)]
    await rig.find_broker()
    alpha.append(await delivered(rig))
    await rig.wait(seconds(5))
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)
        rig.expect_ignored(uplinks[0], by="window")
        for uplink in uplinks[1:]:
            rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.fault("lns", "broker away")
@pytest.mark.fault("broker", "away")
async def test_each_server_has_an_outbox_of_its_own(rig, confirmed):
    """What one of them cannot send waits there, and nobody else's does."""
    rig.consumer()
    rig.put_on("lns-b", "east")
    rig.only("west")
    before = await delivered(rig, confirmed=confirmed)
    rig.cut_upstream()
    waiting = await rig.alpha.send(confirmed=confirmed)
    rig.only("east")
    free = await rig.charlie.send(confirmed=confirmed)
    await rig.until_published(free)
    await rig.restore_upstream()
    await rig.until_published(waiting)
    for uplink, station, n in ((before, "west", 1), (waiting, "west", 2), (free, "east", 1)):
        rig.expect(uplink, FIRST, first=station)
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through=station, sequenceNumber=n)
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "nothing to send")
@pytest.mark.requires("virtual time")
async def test_a_server_tells_how_far_its_messages_have_come(rig):
    """Every ten seconds, also when there is nothing to send and when something waits."""
    rig.consumer()
    rig.only("west")
    await rig.queue_status(rig.alpha)
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.wait(minutes(2))
    await rig.hold_messages()
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.wait(seconds(12))
    await rig.find_broker()
    await rig.wait(minutes(1))
    uplinks.append(await rig.charlie.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_effects(uplink)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_a_broker_is_sent_no_more_at_once_than_it_takes(rig):
    """Three messages wait for it, what the server tells of itself included; the rest waits here."""
    rig.consumer()
    rig.only("west")
    await rig.bravo.join()
    devices = rig.alpha, rig.bravo, rig.charlie
    for device in devices:
        await rig.until_published(await device.send(confirmed=True))
    await rig.delay_pubacks(seconds(15))
    uplinks = [await device.send(confirmed=True) for _ in range(4) for device in devices]
    await rig.wait(minutes(3))
    await rig.find_broker()
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_effects(uplink)
        rig.expect_ignored(uplink, by="window", times=0)


@pytest.mark.fault("broker", "slow path")
@pytest.mark.requires("virtual time")
async def test_how_far_messages_have_come_is_told_though_more_wait_than_may_go(rig):
    """Room is kept for it: it goes before the next of those that wait."""
    rig.only("west")
    devices = [rig.provision(f"one-{number}") for number in range(4)]
    await delivered(rig)
    await rig.delay_pubacks(seconds(8))
    frames = [await rig.craft(device) for _ in range(5) for device in devices]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(minutes(2))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("broker", "message refused")
@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("refusals", [1, 6])
async def test_what_is_told_holds_for_what_is_refused_later(rig, refusals):
    """The oldest that waits counts, whether it is on its way or behind another."""
    rig.consumer()
    rig.only("west")
    alpha = [await delivered(rig)]
    await rig.refuse_messages(refusals, of=rig.alpha)
    if refusals == 1:
        await rig.hold_messages()
    alpha += [await rig.alpha.send(confirmed=True) for _ in range(2)]
    await rig.wait(seconds(1))
    await rig.hold_messages()
    charlie = [await rig.charlie.send(confirmed=True)]
    await rig.wait(seconds(12))
    await rig.find_broker()
    await rig.wait(minutes(1))
    for uplinks in (alpha, charlie):
        expect_in_order(rig, uplinks)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("broker", "silent")
async def test_a_broker_that_answers_nothing_is_left_and_sought_again(rig):
    """Neither messages nor logins: what it has taken goes out again when it answers."""
    rig.only("west")
    before = await delivered(rig)
    await rig.lose_pubacks()
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.wait(seconds(70))
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.find_broker()
    await rig.wait(seconds(40))
    uplinks.append(await delivered(rig))
    for number, uplink in enumerate((before, *uplinks), 1):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        rig.expect_upstream(uplink, through="west", sequenceNumber=number)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("broker", "silent")
async def test_a_broker_that_is_gone_is_missed_though_there_is_nothing_to_send(rig):
    """Nobody has ended the connection: its server asks whether it is there, and leaves then."""
    rig.consumer()
    rig.only("west")
    before = await delivered(rig)
    await rig.wait(seconds(1))
    await rig.lose_pubacks()
    await rig.wait(minutes(3))
    await rig.find_broker()
    await rig.wait(seconds(31))
    expect_in_order(rig, [before, await delivered(rig)])
