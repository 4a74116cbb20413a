"""The catalogue's situations of stations: antennas, links that end, an EUI used twice."""

import pytest

from bench.clock import milliseconds, seconds
from scenarios.words import AGAIN, COPY, FIRST, TOO_LATE


@pytest.mark.requires("known strength")
async def test_the_first_to_deliver_answers_however_weak_it_hears(rig, strategy):
    """The order of arrival decides who answers, not the strength of a reception.

    Catalogue: C04.
    """
    rig.east.weaken(24)
    rig.west.delay_uplinks(milliseconds(800))
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST + COPY, first="east", copy="west")
    rig.expect_upstream(uplink, through="east", rssi=-110)
    rig.expect_reply(uplink)


async def test_two_antennas_in_one_poll_make_one_reception(rig, strategy, confirmed):
    """A station tells only the better of two copies that it heard at one moment.

    Catalogue: C08.
    """
    rig.only("west")
    rig.west.add_antenna(weaker_db=6)
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_upstream(uplink, through="west", rssi=-86)
    rig.expect_reply(uplink)


@pytest.mark.requires("slow application")
async def test_nobody_answers_for_a_station_whose_link_has_ended(rig, strategy):
    """The copy of another station is a copy still, so the device must ask again.

    Catalogue: C09.
    """
    rig.delay_upstream(milliseconds(250))
    rig.east.delay_uplinks(milliseconds(200))
    await rig.meanwhile(milliseconds(150), rig.west.cut)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, TOO_LATE + COPY, first="west", copy="east")
    rig.expect_on_air(uplink)
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_the_end_of_an_old_connection_does_not_touch_the_new_one(rig, strategy):
    """Answers go over the newest connection of a station, also when an older one ends later.

    Catalogue: C12.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.leave_half_open(noticed_after_us=seconds(8))
    await rig.wait(seconds(2))
    meanwhile = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(8))
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, meanwhile, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("twin stations")
async def test_two_stations_with_one_eui_look_like_one(rig, strategy):
    """What both hear is a resubmission; only the one that connected last is answered through.

    Catalogue: C16.
    """
    rig.impersonate("west", by="impostor").delay_uplinks(milliseconds(50))
    rig.only("west", "impostor")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, TOO_LATE + AGAIN, first="west", again="impostor")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_reply(uplink)


async def test_a_frame_before_the_version_is_a_frame(rig, strategy, confirmed):
    """A station whose link comes back may deliver what it heard before it introduces itself.

    Catalogue: C17.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    rig.west.reconnect_without_version()
    await rig.wait(seconds(5))  # it is back after one, and a second later it may be answered
    unintroduced = await rig.alpha.send(confirmed=confirmed)
    for uplink in (before, unintroduced):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_a_station_that_draws_its_session_byte_again_is_answered(rig, strategy):
    """The byte is drawn at random at each start of the radio: the same one is another session.

    Catalogue: beside H10.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(3))
    rig.west.repeat_session()
    rig.west.restart()
    await rig.wait(seconds(5))
    after = [await rig.alpha.send(confirmed=True) for _ in range(2)]
    for uplink in (before, *after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
async def test_a_frame_of_an_earlier_session_of_the_same_byte_is_not_answered(rig, strategy):
    """It names a moment that the new session has yet to come to; it does not set the clock.

    Catalogue: beside H10.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(30))
    late = await rig.craft(rig.charlie, confirmed=True)
    text = rig.told(late, by="west")
    rig.west.repeat_session()
    rig.west.restart()
    await rig.wait(seconds(5))
    await rig.say(text, by="west")
    after = await rig.alpha.send(confirmed=True)
    rig.expect(late, TOO_LATE, first="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_a_station_without_a_clock_leaves_what_it_hears_first_unanswered(rig, strategy):
    """The first station owns the answer (ADR 007); the report names the one that cannot give any.

    Catalogue: beside C09.
    """
    rig.east.delay_uplinks(milliseconds(200))
    before = await rig.alpha.send(confirmed=True)
    rig.west.break_clock()
    unanswered = [await rig.alpha.send(confirmed=True) for _ in range(6)]
    rig.expect(before, FIRST + COPY, first="west", copy="east")
    for uplink in unanswered:
        rig.expect(uplink, TOO_LATE + COPY, first="west", copy="east")
        rig.expect_on_air(uplink)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_burst_is_cut_off_in_the_station(rig, strategy):
    """A station queues 64 frames; what comes on top is lost there and nobody is told.

    Catalogue: K07.
    """
    burst = await rig.flood(rig.alpha, by="west", frames=100)
    for uplink in burst[:64]:
        rig.expect(uplink, FIRST, first="west")


async def test_frames_heard_without_a_link_are_delivered_late(rig, strategy):
    """The radio goes on while the link is down; the station tells everything when it is back.

    A second later it opens it again, and its server must be there.

    Catalogue: K08.
    """
    rig.only("west")
    heard = [await rig.alpha.send()]
    rig.west.cut()
    await rig.meanwhile(milliseconds(300), rig.west.restore)
    heard.append(await rig.alpha.send())
    await rig.wait(seconds(5))
    for uplink in heard:
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.requires("virtual time")  # its patience, which grows with each loss
async def test_frames_heard_without_a_link_are_told_in_their_order(rig):
    """Lost for the third time, the station comes back after 4 s; meanwhile it hears two frames.

    Catalogue: beside K08.
    """
    rig.only("west")
    heard = [await rig.alpha.send()]
    for _ in range(3):
        await rig.wait(seconds(4))
        rig.west.cut()
        await rig.meanwhile(milliseconds(300), rig.west.restore)
    heard += [await rig.alpha.send() for _ in range(2)]
    await rig.wait(seconds(5))
    for uplink in heard:
        rig.expect(uplink, FIRST, first="west")


async def test_a_station_that_finds_no_server_loses_what_it_heard(rig, strategy):
    """It stops its radio and waits, 10 s and longer; another station has heard the frames.

    Catalogue: beside K08.
    """
    rig.east.delay_uplinks(milliseconds(200))
    before = await rig.alpha.send()
    rig.west.cut()
    lost = [await rig.alpha.send() for _ in range(2)]
    rig.west.restore()
    await rig.wait(seconds(20))
    later = await rig.alpha.send()
    for uplink in lost:
        rig.expect(uplink, FIRST, first="east")
    for uplink in (before, later):
        rig.expect(uplink, FIRST + COPY, first="west", copy="east")


async def test_a_frame_told_after_its_windows_is_not_answered(rig, strategy):
    """A queued frame goes up when the link is back, and no downlink is wasted on it.

    Beside K08 of the catalogue: here the frame asks for an answer.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.cut()
    await rig.meanwhile(milliseconds(300), rig.west.restore)
    queued = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(5))
    rig.expect(before, FIRST, first="west")
    rig.expect(queued, TOO_LATE, first="west")
    rig.expect_on_air(queued)
