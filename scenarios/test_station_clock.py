"""Which moment an `xtime` names, and which radio session it belongs to (Basics Station, ral.h).

The bench speaks for the station: bits 62 to 56 are its radio, 55 to 48 the session of that, the
rest microseconds.
"""

import json
from typing import Any

import pytest

from bench.clock import milliseconds, minutes, seconds
from scenarios.telling import hear
from scenarios.words import AGAIN, FIRST, IN_RX2, TOO_LATE

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

SESSION = 1 << 48
COUNTER = SESSION - 1


async def says(rig: Any, words: Any, *, xtime: int | None = None, older_us: int = 0) -> None:
    """A frame that the station heard at `xtime` (now), which it says was so long ago; its fate."""
    frame = await rig.craft(rig.alpha, confirmed=True)
    text = json.loads(rig.told(frame, by="west"))
    told = text["upinfo"]["xtime"] if xtime is None else xtime
    text["upinfo"]["xtime"] = told and told - older_us
    await rig.say(json.dumps(text), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, words, first="west")


async def now(rig: Any) -> int:
    """What the station's clock shows."""
    frame = await rig.craft(rig.charlie)
    return int(json.loads(rig.told(frame, by="west"))["upinfo"]["xtime"])


async def reports(rig: Any, *xtimes: int) -> None:
    """The station shows its clocks."""
    await rig.say(json.dumps({"msgtype": "getxtime", "xtimes": xtimes}), by="west")


async def test_two_clocks_drift_apart_by_fifty_millionths_at_most(rig):
    """After 10 000 s by half a second: what is more than that is a text that was under way."""
    rig.only("west")
    await says(rig, FIRST)
    await rig.wait(seconds(10_000))
    # The crystals of the bench are 3 millionths apart: 30 ms.
    for later, words in ((480, FIRST), (930, IN_RX2), (460, FIRST), (910, FIRST), (1_360, IN_RX2)):
        await says(rig, words, older_us=milliseconds(later))


async def test_a_clock_that_is_fast_is_followed_for_hours(rig):
    """Its moments seem to come from ahead; none of them is of an earlier session."""
    rig.only("west")
    await says(rig, FIRST)
    for hour in range(1, 5):
        await rig.wait(seconds(3_600))
        await says(rig, FIRST, older_us=-milliseconds(180) * hour)


async def test_a_moment_that_is_far_ahead_spoils_no_later_answer(rig):
    """Every other frame seems late by as much, until the station has shown its clock once more."""
    rig.only("west")
    await says(rig, FIRST)
    for ahead_s in (1, 100, 2_000):
        await rig.wait(seconds(20))
        await says(rig, FIRST, older_us=-seconds(ahead_s))
        await says(rig, FIRST)
        await says(rig, IN_RX2, older_us=milliseconds(700))


@pytest.mark.parametrize(("ahead_ms", "words"), [(95, IN_RX2), (105, FIRST)])
async def test_a_moment_is_asked_about_that_is_ahead_by_more_than_a_tenth_of_a_second(
    rig, ahead_ms, words
):
    """By less it may be what texts take, and all before were late: so are those behind it."""
    rig.only("west")
    await says(rig, FIRST)
    await rig.wait(seconds(20))
    await says(rig, FIRST, older_us=-milliseconds(ahead_ms))
    await says(rig, words, older_us=milliseconds(550))


async def knows_of(rig, *, clocks, which):
    """So many radios show their clocks; by each of `which` it is known how late a frame is."""
    rig.only("west")
    await says(rig, FIRST)
    shown = [(unit << 56) + SESSION + unit * 1_000_003 for unit in range(1, clocks + 1)]
    await reports(rig, *shown)
    began = await now(rig)
    for number in which:
        since_us = await now(rig) - began
        await says(rig, IN_RX2, xtime=shown[number] + since_us - milliseconds(700))
    return shown, began


async def test_every_radio_has_a_clock_of_its_own(rig):
    """Sixteen are remembered: of each it is known when a frame was under way for long."""
    await knows_of(rig, clocks=15, which=(0, 7, 14))
    await says(rig, IN_RX2, older_us=milliseconds(700))


async def test_a_counter_has_forty_eight_bits(rig):
    """It goes on beyond each half of them."""
    rig.only("west")
    for bits in (32, 40, 47):
        clock = (3 << 56) + (bits * SESSION) + (1 << bits) - seconds(1)
        await reports(rig, clock)
        began = await now(rig)
        for older_us, words in ((0, FIRST), (milliseconds(700), IN_RX2)):
            since_us = await now(rig) - began
            await says(rig, words, xtime=clock + since_us - older_us)


async def test_a_report_that_was_under_way_does_not_set_a_clock_back(rig):
    """The smallest difference that was seen is the best."""
    rig.only("west")
    await says(rig, FIRST)
    await reports(rig, await now(rig) - milliseconds(700))
    await says(rig, IN_RX2, older_us=milliseconds(700))


async def test_no_frame_takes_back_which_session_runs(rig):
    """The station has said it; whoever names another one is not answered, however late."""
    rig.only("west")
    await says(rig, FIRST)
    await rig.wait(seconds(20))
    other = (await now(rig)) ^ (SESSION * 0x80)
    await says(rig, TOO_LATE, xtime=other)
    await says(rig, FIRST)


@pytest.mark.parametrize(("after_ms", "words"), [(999, TOO_LATE), (1_000, FIRST)])
async def test_a_session_that_nobody_reports_runs_after_ten_seconds(rig, after_ms, words):
    """A station that does not introduce itself: a second later it may be answered as before.

    Ten seconds later a frame may name another session, and ends the one before. Whoever names
    that makes the server ask, and the station says which one it is.
    """
    rig.only("west")
    await says(rig, FIRST)
    rig.west.reconnect_without_version()
    await rig.wait(milliseconds(1_000 + after_ms))  # it is back after one second
    began = await now(rig)
    other = began ^ (SESSION * 0x80)
    await says(rig, words)
    await says(rig, FIRST)
    await rig.wait(milliseconds(4_000 - after_ms))
    for session, words in ((other, FIRST), (began, TOO_LATE), (began, FIRST), (other, TOO_LATE)):
        await says(rig, words, xtime=session + await now(rig) - began)


async def test_no_frame_names_another_session_in_the_first_ten_seconds(rig):
    """It may have been under way when the link ended: the session of before is answered as ever."""
    rig.only("west")
    await says(rig, FIRST)
    rig.west.reconnect_without_version()
    await rig.wait(milliseconds(10_999))  # it is back after one second
    await says(rig, TOO_LATE, xtime=(await now(rig)) ^ (SESSION * 0x80))
    await says(rig, FIRST)


async def test_a_frame_without_a_clock_names_no_session(rig):
    """0 is no moment: nobody can answer it, and the session of before runs on."""
    rig.only("west")
    await says(rig, FIRST)
    rig.west.reconnect_without_version()
    await rig.wait(seconds(12))  # it is back after one second; ten later a frame may name another
    await says(rig, TOO_LATE, xtime=0)
    await says(rig, FIRST)


async def test_a_session_that_is_drawn_again_soon_has_a_clock_of_its_own(rig):
    """Eight bits at random: what they named before the radio began anew is over.

    A frame of then, under way for long, would be one of the future: it sets no clock.
    """
    rig.only("west")
    await says(rig, FIRST)
    clock = (3 << 56) + 7 * SESSION
    await reports(rig, clock + seconds(1))
    await rig.wait(seconds(2))
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(milliseconds(5_500))
    await reports(rig, clock + seconds(5))
    began = await now(rig)
    await says(rig, TOO_LATE, xtime=clock + seconds(100))
    await says(rig, FIRST, xtime=clock + seconds(5) + await now(rig) - began)


async def test_a_session_that_is_drawn_again_is_told_from_a_late_frame_of_before(rig):
    """Nobody had heard of it, and its frame comes before the radio shows that it began anew."""
    rig.only("west")
    await says(rig, FIRST)
    clock = (3 << 56) + 7 * SESSION
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(seconds(1))
    await says(rig, TOO_LATE, xtime=clock + seconds(100))
    await reports(rig, clock + seconds(2))
    began = await now(rig)
    await says(rig, FIRST, xtime=clock + seconds(2) + await now(rig) - began)


@pytest.mark.parametrize("is_first", [False, True])
async def test_a_quicker_frame_does_not_hide_when_a_session_began(rig, is_first):
    """It shows how late the report was; what was under way meanwhile is of before all the same.

    Be it told behind the report, or before it.
    """
    rig.only("west")
    await says(rig, FIRST)
    clock = (3 << 56) + 7 * SESSION
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(seconds(1))
    clock += seconds(1)
    began = await now(rig)
    if is_first:
        await says(rig, TOO_LATE, xtime=clock)
    await reports(rig, clock + await now(rig) - began - milliseconds(200))
    for since_us, words in ((0, FIRST), (seconds(100), TOO_LATE), (0, FIRST)):
        await says(rig, words, xtime=clock + since_us + await now(rig) - began)


@pytest.mark.parametrize("is_first", [False, True])
@pytest.mark.parametrize(("ahead_us", "words"), [(500, FIRST), (501, TOO_LATE)])
async def test_how_far_a_clock_can_have_counted_since_its_configuration(
    rig, ahead_us, words, is_first
):
    """In ten seconds half a millisecond too much: what is further is of an earlier session.

    Be it told before the report as well, or only behind it.
    """
    rig.only("west")
    await says(rig, FIRST)
    clock = (3 << 56) + 7 * SESSION
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(seconds(1))
    if is_first:
        await says(rig, TOO_LATE, xtime=clock + seconds(1) + ahead_us)
    else:
        await rig.wait(seconds(3))
    await reports(rig, clock)
    await says(rig, words, xtime=clock + seconds(4) + ahead_us)


async def test_of_seventeen_clocks_the_newest_are_known(rig):
    """Sixteen are remembered: whose moment came last is not forgotten for those before it."""
    shown, began = await knows_of(rig, clocks=17, which=(16, 15))
    # The oldest of them is told of again, and is the newest but one then.
    await reports(rig, shown[1] + await now(rig) - began, (100 << 56) + SESSION)
    await says(rig, IN_RX2, xtime=shown[1] + await now(rig) - began - milliseconds(700))
    # That of the first radio is forgotten; its session runs all the same.
    await says(rig, FIRST)


async def test_a_radio_that_shows_its_clock_leaves_those_of_others_as_they_are(rig):
    """What the other has shown was under way for long when it comes: it says nothing new."""
    rig.only("west")
    await says(rig, FIRST)
    shown = await now(rig)
    await reports(rig, (3 << 56) + SESSION)
    await rig.wait(seconds(5))
    await reports(rig, shown)
    await says(rig, TOO_LATE, older_us=seconds(5))
    await says(rig, FIRST)


async def test_a_radio_that_shows_its_clock_ends_no_session_of_another(rig):
    """A report of the first that was under way for long says nothing new then."""
    rig.only("west")
    await says(rig, FIRST)
    await reports(rig, (3 << 56) + SESSION)
    await rig.wait(seconds(5))
    await reports(rig, await now(rig) - milliseconds(700))
    await says(rig, IN_RX2, older_us=milliseconds(700))
    await says(rig, FIRST)


@pytest.mark.parametrize("radio", [1, 3, 127])
async def test_a_session_that_another_has_ended_is_over_on_every_radio(rig, radio):
    """Whoever names it ten seconds after the link came back only makes the server ask."""
    rig.only("west")
    await says(rig, FIRST)
    ended, running = ((radio << 56) + session * SESSION for session in (9, 10))
    began = await now(rig)
    for session in (ended, running):
        await reports(rig, session + seconds(1))
    rig.west.reconnect_without_version()
    await rig.wait(seconds(12))  # it is back after one second
    for session, words in ((ended, TOO_LATE), (running, FIRST)):
        await says(rig, words, xtime=session + seconds(1) + await now(rig) - began)


async def test_a_clock_that_is_forgotten_may_be_shown_anew(rig):
    """Sixteen were heard of since it ended: whoever names it ten seconds later is believed."""
    rig.only("west")
    await says(rig, FIRST)
    began = await now(rig)
    ended = began ^ (SESSION * 0x80)
    await reports(rig, ended)
    await reports(rig, await now(rig))
    for session in range(1, 17):
        await says(rig, TOO_LATE, xtime=began ^ (SESSION * 0x40) ^ (SESSION * session))
    rig.west.reconnect_without_version()
    await rig.wait(seconds(12))  # it is back after one second
    await says(rig, FIRST, xtime=ended + await now(rig) - began)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_report_ends_the_second_that_a_new_connection_has(rig):
    """A station that does not introduce itself shows its clock: it is answered at once."""
    rig.only("west")
    await says(rig, FIRST)
    rig.west.reconnect_without_version()
    await rig.wait(milliseconds(1_100))  # it is back after one second
    clock = await now(rig)
    await reports(rig, clock)
    frame = await rig.craft(rig.alpha, confirmed=True)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    rig.expect(frame, FIRST, first="west")


async def test_a_station_that_goes_on_after_its_configuration_is_answered_ten_seconds_later(rig):
    """Its radio did not begin anew, and it cannot say what its clock shows: its frames do."""
    rig.only("west")
    await says(rig, FIRST)
    clock = await now(rig)
    rig.west.break_clock()
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(seconds(6))
    await says(rig, TOO_LATE, xtime=clock + seconds(6))
    await rig.wait(seconds(2))
    await says(rig, FIRST, xtime=clock + seconds(11))


async def test_a_station_that_shows_no_clock_is_asked_soon_and_then_less_often(rig):
    """After 50 ms, then 100, 200 … up to a second; once it has shown its clock, soon again."""
    rig.only("west")
    await says(rig, FIRST)
    clock = await now(rig)
    rig.west.break_clock()
    await reports(rig, 0)
    await rig.wait(seconds(6))
    await reports(rig, clock + seconds(6))
    await rig.wait(seconds(3))
    await reports(rig, 0)
    await rig.wait(seconds(3))


async def test_a_clock_is_shown_after_the_last_question_and_not_the_first(rig):
    """Zeros are an answer, too: what was ahead of the clock since then was never true."""
    rig.only("west")
    await says(rig, FIRST)
    await rig.wait(seconds(20))
    frame = await rig.craft(rig.charlie)
    text = json.loads(rig.told(frame, by="west"))
    clock = text["upinfo"]["xtime"]
    rig.west.break_clock()
    await reports(rig, 0)
    await rig.wait(milliseconds(800))
    text["upinfo"]["xtime"] = clock + milliseconds(1_500)
    await rig.say(json.dumps(text), by="west")
    # The fifth question is on the wire: this is the answer to it, and zeros come behind it.
    await rig.wait(milliseconds(787))
    await reports(rig, clock + milliseconds(1_587))
    await says(rig, FIRST, xtime=clock + milliseconds(1_587))
    rig.expect(frame, FIRST, first="west")


async def test_a_clock_is_shown_after_the_first_of_two_questions_without_an_answer(rig):
    """A frame makes the server ask once more; no moment of before its first question counts."""
    rig.only("west")
    await says(rig, FIRST)
    rig.west.lose_clock(3)
    await rig.say('{"msgtype":"version","station":"2.0.6(linux/std)","protocol":2}', by="west")
    await rig.wait(milliseconds(100))
    clock, began = (3 << 56) + 7 * SESSION + seconds(1), await now(rig)
    await rig.wait(milliseconds(100))
    frame = await rig.craft(rig.charlie)
    text = json.loads(rig.told(frame, by="west"))
    text["upinfo"]["xtime"] = clock + await now(rig) - began
    await rig.say(json.dumps(text), by="west")
    await rig.wait(milliseconds(100))
    await reports(rig, clock + milliseconds(50))
    await says(rig, FIRST, xtime=clock + await now(rig) - began)
    rig.expect(frame, FIRST, first="west")


async def test_a_moment_that_is_ahead_is_asked_about_though_the_clock_was_just_shown(rig):
    """The server was about to ask, and had no need to any more: now it has."""
    rig.only("west")
    await says(rig, FIRST)
    await rig.wait(seconds(20))
    await reports(rig, 0)
    await reports(rig, await now(rig))
    frame = await rig.craft(rig.charlie)
    text = json.loads(rig.told(frame, by="west"))
    text["upinfo"]["xtime"] += seconds(1)
    await rig.say(json.dumps(text), by="west")
    await rig.wait(seconds(3))
    await says(rig, FIRST)
    rig.expect(frame, FIRST, first="west")


async def test_a_clock_is_the_one_of_the_connection_that_came_last(rig):
    """It is remembered when that has ended too, though an older one had not yet."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.leave_half_open(noticed_after_us=seconds(8))
    await rig.wait(seconds(20))
    rig.west.reconnect_without_version()
    await rig.wait(seconds(5))  # it is back after one, and a second later it may be answered
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_frames_of_no_session_make_nobody_ask_more_often(rig):
    """A station shows no clock, and tells of frames of a session that it never named."""
    rig.only("west")
    await says(rig, FIRST)
    clock = await now(rig)
    rig.west.break_clock()
    await reports(rig, 0)
    for part in range(20):
        frame = await rig.craft(rig.charlie)
        text = json.loads(rig.told(frame, by="west"))
        text["upinfo"]["xtime"] = (clock ^ (SESSION * 0x80)) + part * milliseconds(230)
        await rig.say(json.dumps(text), by="west")
        await rig.wait(milliseconds(230))
        rig.expect(frame, FIRST, first="west")


@pytest.mark.parametrize("cause", ["no clock", "another session", "late"])
async def test_who_cannot_be_answered_is_named_with_the_reason(rig, cause):
    """Five in a row: its clock is not known, its session does not run, or it tells too late.

    Whoever tells of no clock is not asked for one that it has shown.
    """
    rig.only("west")
    await says(rig, FIRST)
    for _ in range(6):
        moment = await now(rig)
        if cause == "late":
            await says(rig, TOO_LATE, older_us=seconds(5))
        else:
            await says(rig, TOO_LATE, xtime=0 if cause == "no clock" else moment ^ (SESSION * 0x80))
    await says(rig, FIRST)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_who_cannot_be_answered_for_long_is_named_less_and_less_often(rig):
    """After 5, 10 and 20 in a row; an answer in RX2 ends it as one in RX1 does."""
    rig.only("west")
    await says(rig, FIRST)
    for _ in range(20):
        await says(rig, TOO_LATE, older_us=seconds(5))
    await says(rig, IN_RX2, older_us=milliseconds(1_200))
    for _ in range(4):
        await says(rig, TOO_LATE, older_us=seconds(5))
    await says(rig, FIRST)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_row_of_late_frames_is_of_one_station_and_ends_with_an_answer_alone(rig):
    """West is late five times, east four times; what asks for nothing in between ends no row."""
    stations = ("west", "east") * 4 + ("west", "west")
    for number, by in enumerate(stations):
        frame = await rig.craft(rig.alpha, confirmed=number != 4)
        text = rig.told(frame, by=by)
        await rig.wait(seconds(5))
        await rig.say(text, by=by)
        rig.expect(frame, TOO_LATE, first=by)
    rig.expect_finding("too late", owner="gateway", about="west")


@pytest.mark.requires("twin stations")
async def test_a_connection_that_was_replaced_has_no_say_in_the_clock(rig):
    """It tells of a radio that nobody sends through: answers go on through the newer connection."""
    rig.impersonate("west", by="impostor")
    await rig.start()
    await rig.wait(seconds(5))
    before = await hear(rig, rig.alpha, "impostor", confirmed=True)
    await reports(rig, await now(rig))
    after = await hear(rig, rig.alpha, "impostor", confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="impostor")


async def test_what_waits_outlives_a_station_that_goes_when_it_is_asked_for_its_clock(rig):
    """With 256 frames under way nobody reads that it has gone: the question finds the wire cut."""
    rig.only("west")
    await says(rig, FIRST)
    rig.west.break_clock()
    rig.delay_upstream(seconds(9))
    frame = await rig.craft(rig.charlie)
    text = rig.told(frame, by="west")
    await reports(rig, 0)
    for _ in range(256):
        await rig.say(text, by="west")
    await rig.meanwhile(milliseconds(10), rig.west.cut)
    await rig.wait(seconds(10))
    rig.expect(frame, FIRST + AGAIN * 255, first="west", again="west")


async def test_a_station_that_says_no_version_tells_what_it_heard_while_it_was_away(rig):
    """Since when it is back nobody knows: it says nothing before its first frame."""
    rig.only("west")
    before = await rig.alpha.send()
    rig.west.reconnect_without_version()
    away = await rig.alpha.send()
    await rig.wait(minutes(1))
    back = await rig.alpha.send()
    for uplink in (before, away, back):
        rig.expect(uplink, FIRST, first="west")


async def test_a_server_begins_again_though_a_station_is_cut_off(rig):
    """The station comes when its link is there again, and what it says is heard."""
    rig.only("east")
    before = await rig.alpha.send(confirmed=True)
    rig.west.cut()
    await rig.restart_lns()
    meanwhile = await rig.alpha.send(confirmed=True)
    rig.west.restore()
    await rig.wait(minutes(1))
    rig.only("west")
    after = await rig.alpha.send(confirmed=True)
    for uplink, station in ((before, "east"), (meanwhile, "east"), (after, "west")):
        rig.expect(uplink, FIRST, first=station)
        rig.expect_reply(uplink)


async def test_a_server_begins_again_though_a_station_shows_no_clock(rig):
    """It never will; what it hears is delivered, and answered through the other one."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.east.break_clock()
    await rig.restart_lns()
    after = await rig.alpha.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
async def test_a_server_begins_again_though_what_a_station_shows_of_its_clock_is_lost(rig):
    """How long ago its first frame ended nobody knows; that shows the clock for the next one."""
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.lose_clock(1)
    await rig.restart_lns()
    first = await rig.alpha.send(confirmed=True)
    after = await rig.alpha.send(confirmed=True)
    for uplink, words in ((before, FIRST), (first, TOO_LATE), (after, FIRST)):
        rig.expect(uplink, words, first="west")
