"""Which window an answer gets, shortly before and after each limit."""

import json

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear
from scenarios.words import AGAIN, FIRST, IN_RX2, TOO_LATE

pytestmark = pytest.mark.requires("virtual time")

JOIN_TOO_LATE = Table("""
    strategy kind | first
    *        join | NonDuplicate dropped TooLate
""")
# A server needs 400 ms from its decision to the antenna; RX2 opens a second after RX1.
LIMITS = [(560, FIRST), (640, IN_RX2), (1_560, IN_RX2), (1_640, TOO_LATE)]
JOIN_LIMITS = [(4_560, FIRST), (4_640, IN_RX2), (5_560, IN_RX2), (5_640, JOIN_TOO_LATE)]


@pytest.mark.parametrize(("late_ms", "due"), LIMITS, ids=[f"{ms}ms" for ms, _ in LIMITS])
async def test_the_window_follows_from_the_age_of_the_uplink(rig, strategy, late_ms, due):
    """RX1 if it opens 400 ms from now or later, else RX2, else neither."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(late_ms), receptions=1)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, due, first="west")
    is_answered = due is not TOO_LATE
    rig.expect_reply(uplink, None if is_answered else "+EVT:SEND_CONFIRMED_FAILED(4)")


@pytest.mark.parametrize(("late_ms", "due"), JOIN_LIMITS, ids=[f"{ms}ms" for ms, _ in JOIN_LIMITS])
async def test_the_window_of_an_accept_follows_from_the_age_of_the_request(rig, late_ms, due):
    """The same five seconds after the request; what came too late opens no session."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(late_ms), receptions=1)
    join = await rig.bravo.join()
    again = await rig.bravo.join()
    uplink = await rig.bravo.send(confirmed=True)
    rig.expect(join, due, first="west")
    rig.expect(again, FIRST, first="west")
    rig.expect(uplink, FIRST, first="west")
    for frame in (again, uplink):
        rig.expect_reply(frame)


async def test_an_answer_that_came_too_late_used_up_nothing(rig, strategy):
    """The next one has the counter that it would have had, and the budget is whole."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(1_700), receptions=2)
    late = await rig.alpha.send(confirmed=True, retries=4)
    uplink = await rig.alpha.send(confirmed=True)
    too_late = Table("""
        strategy kind      | again
        Drop     confirmed | DuplicateDueToResubmission dropped(ResubmissionSuppressed) TooLate
        Mark     confirmed | DuplicateDueToResubmission marked TooLate
        None     confirmed | DuplicateDueToResubmission forwarded TooLate
    """)
    rig.expect(late, TOO_LATE + too_late + AGAIN, first="west", again="west")
    rig.expect(uplink, FIRST, first="west")
    for frame in (late, uplink):
        rig.expect_reply(frame)


@pytest.mark.requires("session kept by a failed join")
async def test_a_session_in_use_outlives_every_join_that_nobody_heard(rig, strategy):
    """However many accepts are lost, the device goes on as before, and so does the server."""
    rig.only("west")
    await rig.bravo.join()
    before = await rig.bravo.send()
    rig.west.suppress_downlinks(9)
    unheard = [await rig.bravo.join() for _ in range(9)]
    uplinks = [before, await rig.bravo.send(), await rig.bravo.send(confirmed=True)]
    for join in unheard:
        rig.expect(join, FIRST, first="west")
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
    rig.expect_reply(uplinks[-1])


async def test_a_device_that_joins_again_counts_from_the_start(rig, strategy, confirmed):
    """Frames of the session before are unknown once the new one has spoken."""
    rig.only("west")
    await rig.bravo.join()
    old = [await rig.craft(rig.bravo, confirmed=confirmed) for _ in range(2)]
    await rig.say(rig.told(old[0], by="west"), by="west")
    await rig.wait(seconds(3))
    await rig.bravo.join()
    fresh = await rig.bravo.send(confirmed=confirmed)
    await rig.say(rig.told(old[1], by="west"), by="west")
    gone = Table("""
        strategy kind | gone
        *        *    | - dropped(UnknownDevice) NotAsked
    """)
    rig.expect(old[0], FIRST, first="west")
    rig.expect(fresh, FIRST, first="west")
    rig.expect(old[1], gone, gone="west")


# --- what a station reports on the air ------------------------------------------------------------


@pytest.mark.parametrize("late_us", [0, 499_999, 500_000, 1_000_000])
async def test_the_window_on_the_air_is_the_nearer_one(rig, late_us):
    """A station says when it has sent an answer; half a second after RX1 it is nearer to RX2."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.say(rig.sent(by="west", late=late_us), by="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1" if late_us < 500_000 else "RX2")


@pytest.mark.parametrize("confirmed_down", [False, True])
async def test_a_downlink_that_is_reported_twice_was_sent_once(rig, confirmed_down):
    """What it carried is done once, and the next one is not taken for it."""
    rig.only("west")
    for payload in (b"one", b"two"):
        await rig.queue_downlink(rig.alpha, payload=payload, port=9, confirmed=confirmed_down)
    uplink = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.wait(seconds(2))
    for _ in range(2):
        await rig.say(rig.sent(by="west"), by="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")


async def test_a_report_may_spell_its_device_in_more_than_one_way(rig):
    """Octets with dashes or without, of either case: it is the same device.

    Some stations call the number of what they have sent `seqno`, or the device `DevEUI`.
    """
    rig.only("west")
    rig.west.suppress_downlinks(4)
    ways = (("-", "diid", "DevEui"), ("", "diid", "DevEui"), ("-", "seqno", "DevEui"))
    for separator, number, name in (*ways, ("-", "diid", "DevEUI")):
        uplink = await rig.craft(rig.alpha, confirmed=True)
        await rig.say(rig.told(uplink, by="west"), by="west")
        await rig.wait(seconds(1))
        said = json.loads(rig.sent(by="west"))
        said[name] = said.pop("DevEui").lower().replace("-", separator)
        said.pop("seqno", None)
        said[number] = said.pop("diid")
        await rig.say(json.dumps(said), by="west")
        await rig.wait(seconds(1))
        rig.expect(uplink, FIRST, first="west")
        rig.expect_on_air(uplink, "RX1")


@pytest.mark.parametrize("named", [{}, {"xtime": 0}], ids=["none", "0"])
async def test_a_report_that_names_no_moment_is_one(rig, named):
    """The answer is on the air all the same, and what the application said is proven."""
    await rig.queue_downlink(rig.alpha, payload=b"on")
    rig.west.suppress_downlinks(1)
    uplink = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(1))
    said = json.loads(rig.sent(by="west"))
    said.pop("xtime")
    await rig.say(json.dumps(said | named), by="west")
    await rig.wait(seconds(3))
    after = await hear(rig, rig.alpha, "west", confirmed=True)
    for frame in (uplink, after):
        rig.expect(frame, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_answer(after, f_port=None)


async def test_a_report_may_spell_its_device_as_stations_spell_themselves(rig):
    """Octets with colons, or ID6: four groups, and `::` for one or more that are zero."""
    device = rig.provision("zeros", dev_eui="70B3000000000A02", f_cnt=10)
    spellings = ("70:b3:00:00:00:00:0A:02", "70B3:0:0:A02", "70b3::a02", "70b3:0::a02")
    rig.west.suppress_downlinks(len(spellings) + 2)
    for spelling in (*spellings, "70b3::0:0:a02", "70b3:::a02"):
        uplink = await hear(rig, device, "west", confirmed=True, after=seconds(1))
        said = json.loads(rig.sent(by="west")) | {"DevEui": spelling}
        await rig.say(json.dumps(said), by="west")
        await rig.wait(seconds(1))
        rig.expect(uplink, FIRST, first="west")
        rig.expect_on_air(uplink, *["RX1"] * (spelling in spellings))


async def test_a_report_of_a_downlink_for_somebody_else_proves_nothing(rig):
    """Number, DevEUI and station have to fit; the right report counts all the same."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=9)
    uplink = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.wait(seconds(1))
    text = rig.sent(by="west")
    said = json.loads(text)
    for other in ({"DevEui": "70-B3-D5-7E-D0-00-0F-FF"}, {"diid": -said["diid"]}):
        await rig.say(json.dumps(said | other), by="west")
    await rig.say(text, by="east")
    await rig.wait(seconds(1))
    await rig.say(json.dumps(said | {"DR": 15}), by="west")  # whatever that is there
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")


async def test_a_station_that_tells_of_a_session_it_never_named_is_asked_each_time(rig):
    """Its clock says which radio session runs; a frame of another one cannot be answered."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    strange = []
    for _ in range(2):
        frame = await rig.craft(rig.charlie, confirmed=True)
        told = json.loads(rig.told(frame, by="west"))
        told["upinfo"]["xtime"] ^= 3 << 48
        await rig.say(json.dumps(told), by="west")
        await rig.wait(seconds(5))
        strange.append(frame)
    after = await rig.alpha.send(confirmed=True)
    for frame in strange:
        rig.expect(frame, TOO_LATE, first="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.parametrize(("after_ms", "due"), [(1_500, TOO_LATE), (2_500, FIRST)])
async def test_a_connection_has_a_second_to_introduce_itself(rig, after_ms, due):
    """A version would end the radio session, so until then nobody knows if there is one to answer.

    The station is back a second after its link was lost.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.reconnect_without_version()
    await rig.wait(milliseconds(after_ms))
    frame = await rig.craft(rig.charlie, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.expect(before, FIRST, first="west")
    rig.expect(frame, due, first="west")


async def test_nobody_is_spoken_to_while_his_answer_is_on_the_air(rig):
    """It carries nothing of the application, and at DR0 it takes a second all the same.

    Another one is answered meanwhile, elsewhere.
    """
    always, other = (rig.provision(name, f_cnt=10, device_class="C") for name in ("one", "other"))
    for station, device in (("west", always), ("east", other)):
        frame = await rig.craft(device, confirmed=True)
        await rig.say(rig.told(frame, by=station, dr=0), by=station)
        await rig.wait(milliseconds(100))
        rig.expect(frame, FIRST, first=station)
    await rig.wait(milliseconds(1_200))
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(5))
    rig.expect_downlink(always, b"on", port=8, window="C")
