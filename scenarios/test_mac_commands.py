"""What a device asks of the network itself, and what the network tells it (LoRaWAN 1.0.4, 5)."""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from bench.virtual.stacks import LORAMAC_44
from scenarios.telling import hear
from scenarios.words import AGAIN, ELSEWHERE, FIRST, OWNED

ANSWERED = Table("""
    strategy kind        | answered
    *        unconfirmed | NonDuplicate forwarded RX1
""")


async def test_nothing_is_asked_of_a_device_that_would_not_do_it(rig, strategy):
    """Without the ADR bit a device grants a LinkADRReq and leaves NbTrans as it is.

    It would never be asked again; with the bit it is, and does it.
    """
    delta = rig.provision("delta", nb_trans=3, adr=False, strategy=strategy)
    rig.only("west")
    unwilling = await delta.send()
    await delta.set_adr(True)
    asked = await delta.send()
    repeated = await delta.send()
    rig.expect(unwilling, FIRST, first="west")
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(repeated, FIRST + AGAIN * 2, first="west", again="west")


@pytest.mark.parametrize(
    "nb_trans", [2, pytest.param(15, marks=pytest.mark.requires("virtual time"))]
)
async def test_a_device_that_did_not_hear_it_is_asked_again(rig, strategy, nb_trans):
    """The request is repeated until the device has granted it; it may name fifteen at most."""
    delta = rig.provision("delta", nb_trans=nb_trans, strategy=strategy)
    rig.only("west")
    rig.west.suppress_downlinks(1)
    unheard = await delta.send()
    asked = await delta.send()
    repeated = await delta.send()
    for uplink in (unheard, asked):
        rig.expect(uplink, ANSWERED, answered="west")
    rig.expect(repeated, FIRST + AGAIN * (nb_trans - 1), first="west", again="west")


@pytest.mark.requires("device time")
async def test_a_device_that_asks_for_the_time_is_told_it(rig, strategy):
    """DeviceTimeReq wants an answer, also of a message that is not confirmed."""
    rig.only("west")
    await rig.alpha.ask_time()
    uplink = await rig.alpha.send()
    later = await rig.alpha.send()
    rig.expect(uplink, ANSWERED, answered="west")
    rig.expect_reply(uplink, "+EVT:TIMEREQ_OK")
    rig.expect(later, FIRST, first="west")


@pytest.mark.requires("device time")
async def test_the_time_that_was_lost_on_the_way_is_asked_for_again(rig, strategy):
    """A device that hears no answer knows that, and may ask with the next message."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    await rig.alpha.ask_time()
    unheard = await rig.alpha.send()
    await rig.alpha.ask_time()
    heard = await rig.alpha.send()
    for uplink, line in ((unheard, "+EVT:TIMEREQ_FAILED"), (heard, "+EVT:TIMEREQ_OK")):
        rig.expect(uplink, ANSWERED, answered="west")
        rig.expect_reply(uplink, line)


@pytest.mark.requires("device time", "virtual time")
async def test_the_time_is_that_of_the_frame_and_not_of_its_arrival(rig, strategy, confirmed):
    """However long it was on its way; the bench compares what the answer says."""
    rig.only("west")
    rig.west.delay_uplinks(milliseconds(500))
    await rig.alpha.ask_time()
    uplink = await rig.alpha.send(confirmed=confirmed)
    asked = FIRST if confirmed else ANSWERED
    rig.expect(uplink, asked, **{"first" if confirmed else "answered": "west"})
    rig.expect_reply(uplink, "+EVT:TIMEREQ_OK")


# By data rate: dB above what it needs at an SNR of 12 dB, and how the device hears the answer.
MARGINS = {0: 32, 1: 30, 2: 27, 3: 24, 4: 22, 5: 20}
STRONG = "-84:12"


@pytest.mark.requires("device time", "known strength")
@pytest.mark.parametrize("dr", MARGINS)
async def test_a_device_that_asks_is_told_how_well_it_is_heard(rig, confirmed, dr):
    """LinkCheckAns: the margin in dB above what its data rate needs, and how many stations."""
    delta = rig.provision("delta", f_cnt=10, dr=dr)
    rig.only("west")
    await delta.ask_link()
    uplink = await delta.send(confirmed=confirmed)
    later = await delta.send(confirmed=confirmed)
    asked = FIRST if confirmed else ANSWERED
    rig.expect(uplink, asked, **{"first" if confirmed else "answered": "west"})
    rig.expect(later, FIRST, first="west")
    rig.expect_reply(uplink, f"+EVT:LINKCHECK:0:{MARGINS[dr]}:1:{STRONG}")


@pytest.mark.requires("device time", "known strength")
async def test_a_device_that_is_hardly_heard_is_told_so(rig, strategy):
    """The margin follows the strength of the frame that asks."""
    rig.west.weaken(30)
    rig.only("west")
    await rig.alpha.ask_link()
    uplink = await rig.alpha.send()
    rig.expect(uplink, ANSWERED, answered="west")
    rig.expect_reply(uplink, "+EVT:LINKCHECK:0:8:1:-114:3")


@pytest.mark.requires("device time", "known strength")
async def test_a_link_that_nobody_answers_for_has_failed(rig, strategy):
    """The answer is lost with its downlink; the device may ask again."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    lines = ("+EVT:LINKCHECK:1:0:0:0:0", f"+EVT:LINKCHECK:0:20:1:{STRONG}")
    for line in lines:
        await rig.alpha.ask_link()
        uplink = await rig.alpha.send()
        rig.expect(uplink, ANSWERED, answered="west")
        rig.expect_reply(uplink, line)


async def test_an_application_asks_for_the_status_of_a_device(rig, strategy):
    """DevStatusReq goes with the answer to the next uplink, and the answer to the application."""
    rig.only("west")
    await rig.queue_status(rig.alpha)
    asked = await rig.alpha.send()
    told = await rig.alpha.send()
    later = await rig.alpha.send()
    rig.expect(asked, ANSWERED, answered="west")
    for uplink in (told, later):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_status(rig.alpha)


async def test_a_status_that_two_stations_hear_is_told_once(rig, strategy):
    """What a device says of itself is said by the first copy, whatever the strategy."""
    rig.only("west")
    await rig.queue_status(rig.alpha)
    asked = await rig.alpha.send()
    rig.heard_by(("west", "east"))
    rig.east.delay_uplinks(milliseconds(100))
    await rig.alpha.send()
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect_status(rig.alpha)


@pytest.mark.requires("virtual time")
async def test_the_status_of_a_device_is_asked_for_once_in_a_while(rig, strategy):
    """`dev_status_s` in the record of a device: the next answer after so long asks for it."""
    delta = rig.provision("delta", dev_status_s=3_600, strategy=strategy, f_cnt=65_535)
    rig.only("west")
    for expected in (ANSWERED, FIRST, FIRST, ANSWERED, FIRST):
        uplink = await delta.send()
        role = "answered" if expected is ANSWERED else "first"
        rig.expect(uplink, expected, **{role: "west"})
        await rig.wait(minutes(30))
    rig.expect_status(delta, times=2)


@pytest.mark.requires("virtual time")
async def test_a_device_of_an_older_version_asks_for_nothing_at_its_lowest_data_rate(rig):
    """LoRaWAN 1.0.3, 4.3.1.1: nothing can be done about its range then, and nobody answers."""
    slow = rig.provision("slow", stack=LORAMAC_44, lorawan="1.0.3", dr=0, adr=True)
    rig.only("west")
    for _ in range(66):
        rig.expect(await slow.send(), FIRST, first="west")


@pytest.mark.requires("virtual time")
async def test_a_device_that_hears_nothing_asks_for_a_sign_of_life(rig, strategy):
    """With the 65th uplink since the last downlink it wants any at all, and gets one.

    Without it the device would send with more power, and then ever slower.
    """
    delta = rig.provision("delta", adr=True, strategy=strategy)
    rig.only("west")
    unasked = [await delta.send() for _ in range(64)]
    asked = await delta.send()
    later = await delta.send()
    for uplink in (unasked[0], unasked[-1], later):
        rig.expect(uplink, FIRST, first="west")
    rig.expect(asked, ANSWERED, answered="west")


@pytest.mark.requires("virtual time")
async def test_a_device_that_still_hears_nothing_becomes_slower(rig):
    """Its power goes up with the 97th uplink, its data rate down with the 129th and the 161st."""
    delta = rig.provision("delta", adr=True, strategy="None")
    rig.only("west")
    rig.west.suppress_downlinks(97)
    uplinks = [await delta.send() for _ in range(161)]
    for number, uplink in enumerate(uplinks):
        expected, role = (FIRST, "first") if number < 64 else (ANSWERED, "answered")
        rig.expect(uplink, expected, **{role: "west"})


async def test_what_one_server_has_agreed_with_a_device_the_other_knows(rig, strategy):
    """How often it is to send: one server asks, another is told so, and neither asks again."""
    rig.put_on("lns-b", "north")
    # One that may begin again could do so with its second counter, where its first one is 0.
    delta = rig.provision("delta", nb_trans=2, strategy=strategy, relaxed_f_cnt=False)
    rig.only("west")
    asked = await delta.send()
    rig.expect(asked, ANSWERED, answered="west")
    for station in ("north", "west", "north"):
        rig.only(station)
        rig.expect(await delta.send(), FIRST + AGAIN, first=station, again=station)


async def test_what_is_agreed_is_known_before_there_is_anything_to_ask(rig):
    """The first frame that the other server hears has no ADR bit, the second one has."""
    rig.put_on("lns-b", "north")
    delta = rig.provision("delta", nb_trans=2, relaxed_f_cnt=False)  # as above
    rig.only("west")
    asked, granted = await delta.send(), await delta.send()
    await delta.set_adr(False)
    rig.only("north")
    silent = await delta.send()
    await delta.set_adr(True)
    willing = await delta.send()
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(granted, FIRST + AGAIN, first="west", again="west")
    for uplink in (silent, willing):
        rig.expect(uplink, FIRST + AGAIN, first="north", again="north")


@pytest.mark.requires("redis")
async def test_what_is_agreed_with_a_device_is_known_from_a_redis(rig):
    """The same of dwell times, however far the servers are from each other."""
    rig.in_region("AS923-1")
    rig.keep_in_redis()
    rig.put_on("lns-b", "north")
    rig.only("west")
    asked = await rig.alpha.send()
    rig.only("north")
    answered = await rig.alpha.send()
    rig.only("west")
    known = await rig.alpha.send()
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(answered, FIRST, first="north")
    rig.expect(known, FIRST, first="west")


async def test_what_a_person_sets_counts_more_than_what_was_asked_before(rig):
    """The device grants what it was asked for, and sends as often as its console says since."""
    delta = rig.provision("delta", nb_trans=3)
    rig.only("west")
    asked = await delta.send()
    told = await delta.send(transmissions=2)
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(told, FIRST + AGAIN, first="west", again="west")


async def test_what_a_device_was_asked_with_the_adr_bit_it_does_without(rig):
    """It does so when it hears it; that its next frame has no such bit undoes nothing."""
    delta = rig.provision("delta", nb_trans=2)
    rig.only("west")
    asked = await delta.send(transmissions=3)
    await delta.set_adr(False)
    granted = await delta.send()
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(granted, FIRST + AGAIN, first="west", again="west")


async def test_whoever_joins_again_sends_once_until_it_is_asked_anew(rig, strategy):
    """What was agreed is over with its session (LoRaWAN 1.0.4, 5.2: NbTrans is 1 after a join)."""
    delta = rig.provision("delta", activation="otaa", nb_trans=2, strategy=strategy)
    rig.only("west")
    for _ in range(2):
        joined = await delta.join()
        rig.west.suppress_downlinks(1)
        unheard, asked, granted = [await delta.send() for _ in range(3)]
        rig.expect(joined, FIRST, first="west")
        for uplink in (unheard, asked):
            rig.expect(uplink, ANSWERED, answered="west")
        rig.expect(granted, FIRST + AGAIN, first="west", again="west")


async def test_a_join_at_one_server_takes_nothing_back_that_another_has_agreed(rig):
    """The device may not hear the accept, and go on in the session of before."""
    rig.put_on("lns-b", "north")
    delta = rig.provision("delta", activation="otaa", nb_trans=2, strategy="Drop")
    rig.only("west")
    joined = await delta.join()
    rig.only("west", "north")
    rig.west.delay_uplinks(milliseconds(100))
    asked, granted = await delta.send(), await delta.send()
    rig.only("west")
    again = await delta.join()
    rig.expect(joined, FIRST, first="west")
    rig.expect(asked, ANSWERED + ELSEWHERE, answered="north", elsewhere="west")
    words = FIRST + ELSEWHERE + AGAIN * 2
    rig.expect(granted, words, first="north", elsewhere="west", again=("north", "west"))
    rig.expect(again, FIRST, first="west")


@pytest.mark.requires("virtual time")
async def test_a_device_grants_in_any_order_what_it_was_asked(rig):
    """How long a frame may be, and how often to send it: what is granted is asked no more."""
    rig.in_region("AS923-1")
    devices = [rig.provision(name, f_cnt=10, nb_trans=3) for name in ("first", "second")]
    for device, f_opts in zip(devices, (b"\x09\x03\x07", b"\x03\x07\x09"), strict=True):
        asked = await hear(rig, device, "west", adr=True, confirmed=True)
        granted = await hear(rig, device, "west", adr=True, confirmed=True, f_opts=f_opts)
        rig.expect_answer(asked, f_opts_bytes=7)
        rig.expect_answer(granted, f_opts_bytes=0)
        for frame in (asked, granted):
            rig.expect(frame, FIRST, first="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "slow")
async def test_what_nobody_else_can_have_agreed_is_not_asked_for(rig):
    """The first frame of a session is nobody else's: its answer waits for no more than its claim.

    The store is slow and the station tells it late; one question more, and RX1 is over.
    """
    rig.put_on("lns-b", "east")
    delta = rig.provision("delta", nb_trans=2, f_cnt=10)
    rig.slow_store(milliseconds(190), "lns-a")
    frame = await rig.craft(delta, confirmed=True, adr=True)
    text = rig.told(frame, by="west")
    await rig.wait(milliseconds(300))
    await rig.say(text, by="west")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(frame, OWNED, owned="west")


@pytest.mark.requires("virtual time")
async def test_what_is_granted_through_another_server_is_granted(rig):
    """The one that asked hears it too, and takes no counter to ask once more."""
    rig.put_on("lns-b", "north")
    delta = rig.provision("delta", nb_trans=2, f_cnt=10)
    asked = await hear(rig, delta, "west", adr=True)
    granted = await hear(rig, delta, "north", "west", f_opts=b"\x03\x07")
    silent = await hear(rig, delta, "west", adr=True)
    answered = await hear(rig, delta, "west", adr=True, confirmed=True)
    rig.expect(asked, ANSWERED, answered="west")
    rig.expect(granted, FIRST + ELSEWHERE, first="north", elsewhere="west")
    for frame in (silent, answered):
        rig.expect(frame, FIRST, first="west")
    rig.expect_answer(answered, f_cnt=1, f_opts_bytes=0)
