"""The catalogue's situations of answers: windows, counters, stations that do not send them."""

import pytest

from bench.clock import milliseconds, seconds
from scenarios.words import AGAIN, COPY, FIRST, IN_RX2, TOO_LATE, WITH_DOWNLINK


async def test_every_answer_has_a_counter_of_its_own(rig, strategy):
    """A device refuses a repeated FCntDown, so no answer repeats one, however often it is asked.

    Catalogue: H01. The device hears an answer before and after a resubmission is answered twice.
    """
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.west.suppress_downlinks(1)
    repeated = await rig.alpha.send(confirmed=True, retries=1)
    after = await rig.alpha.send(confirmed=True)
    rig.expect(repeated, FIRST + AGAIN, first="west", again="west")
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
    for uplink in (before, repeated, after):
        rig.expect_reply(uplink)


@pytest.mark.requires("slow application")
@pytest.mark.parametrize(
    ("handling_us", "due", "window"),
    [(milliseconds(550), FIRST, "RX1"), (milliseconds(650), IN_RX2, "RX2")],
    ids=["550ms", "650ms"],
)
async def test_an_answer_needs_four_tenths_of_a_second(rig, strategy, handling_us, due, window):
    """An answer decided less than 400 ms before RX1 opens goes to RX2.

    Catalogue: H02.
    """
    rig.only("west")
    rig.delay_upstream(handling_us)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, due, first="west")
    rig.expect_on_air(uplink, window)
    rig.expect_reply(uplink)


async def test_an_answer_that_the_duty_cycle_forbids_in_rx1_goes_to_rx2(rig, strategy):
    """Every answer names both windows, so a station whose band is used up has another band.

    Catalogue: H03.
    """
    device = rig.provision("slow", f_cnt=10, dr=0)
    rig.only("west")
    rig.west.keep_duty_cycle()
    free = await device.send(confirmed=True)
    used_up = await device.send(confirmed=True)
    for uplink, window in ((free, "RX1"), (used_up, "RX2")):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_on_air(uplink, window)
        rig.expect_reply(uplink)


async def test_an_answer_that_no_station_reports_was_not_sent(rig, strategy):
    """Only `dntxed` says that an answer is on the air; the retry is answered anew.

    Catalogue: H04.
    """
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(2_500), downlinks=1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_reply(uplink)


async def test_what_the_application_sends_goes_down_once(rig, strategy):
    """A pending downlink leaves with the answer to the first copy, and is done with that.

    Catalogue: H05. The next uplink shows that nothing waits any more: it is not answered.
    """
    rig.east.delay_uplinks(milliseconds(50))
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    asked = await rig.alpha.send()
    await rig.wait(seconds(2))  # RX2 of its answer is over: it could be sent again
    silent = await rig.alpha.send()
    rig.expect(asked, WITH_DOWNLINK + COPY, first="west", copy="east")
    rig.expect_on_air(asked, "RX1")
    rig.expect_downlink(rig.alpha, b"on", port=7)
    rig.expect(silent, FIRST + COPY, first="west", copy="east")
    rig.expect_on_air(silent)


async def test_a_device_that_always_listens_need_not_ask(rig, strategy):
    """What waits for a class C device is sent at once, through the station that heard it last."""
    device = rig.provision("listening", f_cnt=10, device_class="C")
    rig.heard_by("east", "west", "west")
    before = [await device.send() for _ in range(2)]
    await rig.queue_downlink(device, payload=b"on", port=7)
    await rig.wait(seconds(2))
    after = await device.send()
    rig.expect_downlink(device, b"on", port=7, window="C")
    for uplink, station in zip((*before, after), ("east", "west", "west"), strict=True):
        rig.expect(uplink, FIRST, first=station)
        rig.expect_on_air(uplink)


async def test_a_station_discards_the_xtime_of_a_former_session(rig, strategy):
    """An answer that meets a restarted station is lost without a word.

    Catalogue: H10.
    """
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(500))
    await rig.meanwhile(milliseconds(300), rig.west.restart)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink)
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


@pytest.mark.requires("slow application")
async def test_no_answer_is_sent_to_a_station_that_has_restarted(rig, strategy):
    """A server that knows of the restart says so instead of wasting an answer.

    Beside H10 of the catalogue: here the restart comes before the decision.
    """
    rig.only("west")
    rig.delay_upstream(milliseconds(500))
    await rig.meanwhile(milliseconds(300), rig.west.restart)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, TOO_LATE, first="west")
    rig.expect_on_air(uplink)


async def test_the_downlink_counter_passes_sixteen_bits(rig, strategy):
    """FCntDown counts on beyond 65535, and the device follows.

    Catalogue: H11.
    """
    device = rig.provision("old", f_cnt=10, f_cnt_down=65_535)
    rig.only("west")
    last = await device.send(confirmed=True)
    rolled_over = await device.send(confirmed=True)
    for uplink in (last, rolled_over):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_mac_commands_in_a_copy_say_nothing_new(rig, strategy):
    """The LinkADRAns counts once, from the first copy; the server asks for repetitions no more.

    Catalogue: H12.
    """
    device = rig.provision("repeating", f_cnt=10, nb_trans=2)
    rig.heard_by("west", ("west", "east"), "west", "west")
    rig.east.delay_uplinks(milliseconds(100))
    asked = await device.send(confirmed=True)
    granted = await device.send(confirmed=True)
    silent = await device.send()
    rig.expect(asked, FIRST, first="west")
    rig.expect(granted, FIRST + COPY, first="west", copy="east")
    rig.expect(silent, FIRST + AGAIN, first="west", again="west")
