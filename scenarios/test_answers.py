"""What an answer carries, where and when it is heard: windows, antennas, what the application says.

LoRaWAN 1.0.4, 4.2 (receive windows), 4.3.1 (ACK, FPending) and 6.2.5 (what a join accept settles).
"""

import pytest

from bench.clock import milliseconds, minutes, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear
from scenarios.words import AGAIN, FIRST, IN_RX2, LOST, OWNED, WITH_DOWNLINK

JOINS = Table("""
    strategy kind | joins
    *        join | NonDuplicate dropped RX1
""")
EU868_RX1_DRS = {0: 5, 1: 4, 2: 3, 3: 2, 4: 1, 5: 0}  # of an uplink with DR5
US915_RX1_DRS = {0: 13, 1: 12, 2: 11, 3: 10}  # of an uplink with DR3
AS923_RX1_DRS = {0: 5, 1: 4, 2: 3, 3: 2, 4: 1, 5: 0, 6: 6}  # of an uplink with DR5; 7: FSK
POLICY = pytest.mark.requires("virtual time")  # no wire has a part in it


# --- as the join accept says ---------------------------------------------------------------------


@POLICY
@pytest.mark.parametrize(("offset", "delay_s"), [(0, 1), (1, 2), (2, 5), (3, 6), (4, 14), (5, 15)])
async def test_the_device_is_answered_in_the_rx1_that_its_accept_named(rig, offset, delay_s):
    """RX1DROffset and RxDelay of the accept: so much slower, and so much later."""
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=offset, rx_delay_s=delay_s)
    rig.only("west")
    join = await device.join()
    uplink = await device.send(confirmed=True)
    rig.expect(join, JOINS, joins="west")
    rig.expect_reply(join)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_answer(uplink, rx1_dr=EU868_RX1_DRS[offset], rx_delay_s=delay_s)
    rig.expect_reply(uplink)


@POLICY
@pytest.mark.parametrize("offset", US915_RX1_DRS)
async def test_rx1_of_a_fixed_channel_plan_is_as_the_accept_says(rig, offset):
    """US915: downlinks have data rates of their own, and the offset chooses among them."""
    rig.in_region("US915")
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=offset)
    rig.only("west")
    join = await device.join()
    uplink = await device.send(confirmed=True)
    rig.expect(join, JOINS, joins="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_answer(uplink, rx1_dr=US915_RX1_DRS[offset], rx2_dr=8)
    rig.expect_reply(uplink)


@POLICY
@pytest.mark.parametrize("offset", AS923_RX1_DRS)
async def test_rx1_in_as923_is_as_the_accept_says(rig, offset):
    """AS923-1: offset 6 makes RX1 faster. What the device answers ends the talk of dwell times."""
    rig.in_region("AS923-1")
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=offset)
    rig.only("west")
    join = await device.join()
    uplink = await device.send(confirmed=True)
    rig.expect(join, JOINS, joins="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_on_air(uplink, "RX1")
    rig.expect_answer(uplink, rx1_dr=AS923_RX1_DRS[offset], rx2_dr=2)
    rig.expect_reply(uplink)
    settled = await device.send(confirmed=False)
    rig.expect(settled, FIRST, first="west")
    rig.expect_on_air(settled)


@POLICY
@pytest.mark.parametrize("rx2_dr", [0, 3, 5])
@pytest.mark.parametrize("delay_s", [1, 15])
async def test_the_device_is_answered_in_the_rx2_that_its_accept_named(rig, rx2_dr, delay_s):
    """Too late for RX1: RX2 is a second later, with the data rate that the accept named."""
    device = rig.provision("listener", activation="otaa", rx2_dr=rx2_dr, rx_delay_s=delay_s)
    rig.only("west")
    join = await device.join()
    rig.west.delay_uplinks(seconds(delay_s) - milliseconds(200))
    uplink = await device.send(confirmed=True)
    rig.expect(join, JOINS, joins="west")
    rig.expect(uplink, IN_RX2, first="west")
    rig.expect_on_air(uplink, "RX2")
    rig.expect_answer(uplink, rx2_dr=rx2_dr, rx_delay_s=delay_s, rx1_dr=None)
    rig.expect_reply(uplink)


@POLICY
@pytest.mark.parametrize(("region", "rx2_dr"), [("US915", 13), ("AS923-1", 7)])
async def test_the_rx2_of_an_accept_may_be_the_fastest_of_its_region(rig, region, rx2_dr):
    """Each answer offers it beside RX1."""
    rig.in_region(region)
    device = rig.provision("listener", activation="otaa", rx2_dr=rx2_dr)
    rig.only("west")
    join = await device.join()
    uplink = await device.send(confirmed=True)
    rig.expect(join, JOINS, joins="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(uplink, rx2_dr=rx2_dr)
    rig.expect_reply(uplink)


@POLICY
async def test_a_join_is_answered_as_the_region_says_whatever_the_session_before(rig):
    """Whoever joins again listens as before the first join, until the accept tells otherwise."""
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=3, rx_delay_s=3, rx2_dr=4)
    rig.only("west")
    joins = [await device.join() for _ in range(2)]
    before = await device.send()
    rig.west.delay_uplinks(milliseconds(4_800), receptions=1)
    late = await device.join()
    uplink = await device.send(confirmed=True)
    for join in joins:
        rig.expect(join, JOINS, joins="west")
        rig.expect_answer(join, rx1_dr=5, rx_delay_s=5, rx2_dr=0)
        rig.expect_reply(join)
    rig.expect(late, IN_RX2, first="west")
    rig.expect_answer(late, rx1_dr=None, rx_delay_s=5, rx2_dr=0)
    rig.expect_reply(late)
    for one in (before, uplink):
        rig.expect(one, FIRST, first="west")
    rig.expect_answer(uplink, rx1_dr=2, rx_delay_s=3, rx2_dr=4)
    rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize("servers", [1, 2])
async def test_how_a_device_listens_outlives_the_server_that_told_it(rig, servers):
    """It is part of the session, for a server that restarts and for one that never saw the join."""
    if servers == 2:
        rig.put_on("lns-b", "east")
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=2, rx_delay_s=2, rx2_dr=3)
    rig.only("west")
    join = await device.join()
    await rig.restart_lns()
    uplinks = [(await device.send(confirmed=True), "west")]
    rig.only("east")
    uplinks += [(await device.send(confirmed=True), "east")]
    rig.expect(join, JOINS, joins="west")
    for uplink, station in uplinks:
        rig.expect(uplink, FIRST, first=station)
        rig.expect_answer(uplink, rx1_dr=3, rx_delay_s=2, rx2_dr=3)
        rig.expect_reply(uplink)


@POLICY
async def test_a_device_that_always_listens_is_sent_to_in_the_rx2_of_its_accept(rig):
    """Class C listens in RX2 as the accept named it, not as the region does."""
    device = rig.provision("listener", activation="otaa", device_class="C", rx2_dr=4)
    rig.only("west")
    await device.join()
    await device.send()
    await rig.queue_downlink(device, payload=b"on", port=7)
    await rig.wait(seconds(2))
    after = await device.send()
    rig.expect_downlink(device, b"on", port=7, window="C")
    rig.expect(after, FIRST, first="west")


MORE_HZ = (867_100_000, 867_300_000, 867_500_000, 867_700_000, 867_900_000)


def among(uplink, channels_hz):
    """Where an uplink was sent, if that is one of these; else one of these."""
    sent_hz = uplink.transmissions[0].freq_hz
    return sent_hz if sent_hz in channels_hz else channels_hz[0]


@POLICY
async def test_a_device_sends_on_the_channels_that_its_accept_named(rig):
    """CFList: it sends there, also when it was told to repeat, and is answered where it sent."""
    device = rig.provision(
        "roaming", activation="otaa", more_channels_hz=MORE_HZ, nb_trans=2, adr=True
    )
    rig.only("west")
    join = await device.join()
    asked = await device.send(confirmed=True)
    uplinks = [await device.send(confirmed=True) for _ in range(16)]
    rig.expect(join, JOINS, joins="west")
    for uplink in (asked, *uplinks):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
        sent_hz = uplink.transmissions[0].freq_hz
        rig.expect_answer(uplink, rx1_freq_hz=sent_hz)
        rig.expect_upstream(uplink, through="west", freqHz=sent_hz)
    far = [uplink for uplink in uplinks if uplink.transmissions[0].freq_hz in MORE_HZ]
    for uplink in far or uplinks[:1]:  # of sixteen some are on the five, or it knows none of them
        rig.expect_upstream(uplink, through="west", freqHz=among(uplink, MORE_HZ))


# --- what the application says -------------------------------------------------------------------


async def test_what_waits_goes_down_in_order_one_with_each_answer(rig, strategy, confirmed):
    """FPending says that more waits, as long as it does; an answer that is owed has its ACK too."""
    rig.only("west")
    texts = [b"first", b"second", b"third"]
    for text in texts:
        await rig.queue_downlink(rig.alpha, payload=text, port=7)
    uplinks = []
    for _ in texts:
        uplinks.append(await rig.alpha.send(confirmed=confirmed))
        await rig.wait(seconds(2))
    last = await rig.alpha.send()
    for f_cnt, (uplink, text) in enumerate(zip(uplinks, texts, strict=True)):
        rig.expect(uplink, WITH_DOWNLINK, first="west")
        rig.expect_answer(
            uplink, f_cnt=f_cnt, f_port=7, ack=confirmed, f_pending=text is not texts[-1],
            confirmed=False,
        )  # fmt: skip
        rig.expect_downlink(rig.alpha, text, port=7)
    rig.expect(last, FIRST, first="west")
    rig.expect_on_air(last)


@POLICY
async def test_an_answer_without_data_tells_that_more_waits(rig, strategy):
    """A downlink under way is not sent twice: the next answer says only that something waits."""
    rig.only("west")
    rig.west.delay_downlinks(milliseconds(1_100), downlinks=1)
    await rig.queue_downlink(rig.alpha, payload=b"first", port=7)
    await rig.queue_downlink(rig.alpha, payload=b"second", port=7)
    uplink = await rig.alpha.send(confirmed=True)
    await rig.wait(seconds(2))
    other = await rig.alpha.send(confirmed=True)
    for one, text in ((uplink, b"first"), (other, b"second")):
        rig.expect(one, FIRST, first="west")
        rig.expect_downlink(rig.alpha, text, port=7, window="2" if one is uplink else "1")
    rig.expect_answer(uplink, f_pending=True, ack=True, f_port=7)
    rig.expect_answer(other, f_pending=False, ack=True, f_port=7)


async def test_no_other_bit_acknowledges_a_confirmed_downlink(rig):
    """Who asks for any downlink at all, or listens to beacons, has proved nothing."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"sure", port=7, confirmed=True)
    for bits in ({}, {"adr_ack_req": True}, {"class_b": True}):
        frame = await hear(rig, rig.alpha, "west", after=seconds(10), confirmed=True, **bits)
        rig.expect(frame, FIRST, first="west")
        rig.expect_answer(frame, f_port=7, confirmed=True)


@POLICY
async def test_a_confirmed_downlink_is_done_when_the_device_acknowledges_it(rig, strategy):
    """Its acknowledgement comes with the next uplink; until then nothing else is sent."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"sure", port=7, confirmed=True)
    await rig.queue_downlink(rig.alpha, payload=b"next", port=7)
    asked = await rig.alpha.send()
    await rig.wait(seconds(2))
    acknowledges = await rig.alpha.send()
    await rig.wait(seconds(2))
    silent = await rig.alpha.send()
    for uplink in (asked, acknowledges):
        rig.expect(uplink, WITH_DOWNLINK, first="west")
    rig.expect_answer(asked, f_cnt=0, confirmed=True, f_pending=True, f_port=7)
    rig.expect_answer(acknowledges, f_cnt=1, confirmed=False, f_pending=False, f_port=7)
    rig.expect_downlink(rig.alpha, b"sure", port=7)
    rig.expect_downlink(rig.alpha, b"next", port=7)
    rig.expect(silent, FIRST, first="west")
    rig.expect_on_air(silent)


async def test_a_frame_that_comes_again_acknowledges_nothing_more(rig):
    """It has the ACK bit for the downlink before it, whatever its first answer has carried."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"sure", port=7, confirmed=True)
    await rig.queue_downlink(rig.alpha, payload=b"next", port=8, confirmed=True)
    asked = await rig.alpha.send()
    await rig.wait(seconds(2))
    rig.west.suppress_downlinks(1)
    acknowledges = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect(acknowledges, FIRST + AGAIN, first="west", again="west")
    rig.expect_answer(asked, f_cnt=0, confirmed=True, f_port=7, f_pending=True)
    rig.expect_answer(acknowledges, f_cnt=1, confirmed=True, ack=True, f_port=8)
    rig.expect_answer(acknowledges, f_cnt=2, confirmed=True, ack=True, f_port=8)


@POLICY
async def test_a_confirmed_downlink_without_acknowledgement_is_given_up(rig, strategy, confirmed):
    """Sent three times, each time under a new counter; what waits behind it comes then.

    A frame that asks for an acknowledgement is none.
    """
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"unheard", port=7, confirmed=True)
    await rig.queue_downlink(rig.alpha, payload=b"next", port=8)
    rig.west.suppress_downlinks(3)
    tries = []
    for _ in range(3):
        tries.append(await rig.alpha.send(confirmed=confirmed))
        await rig.wait(seconds(3))
    after = await rig.alpha.send()
    await rig.wait(seconds(3))
    silent = await rig.alpha.send()
    for f_cnt, uplink in enumerate(tries):
        rig.expect(uplink, WITH_DOWNLINK, first="west")
        rig.expect_answer(uplink, f_cnt=f_cnt, confirmed=True, f_port=7, f_pending=True)
    rig.expect(after, WITH_DOWNLINK, first="west")
    rig.expect_answer(after, f_cnt=3, confirmed=False, f_port=8, f_pending=False)
    rig.expect_downlink(rig.alpha, b"next", port=8)
    rig.expect(silent, FIRST, first="west")


@POLICY
async def test_an_unconfirmed_downlink_that_no_station_sent_comes_again(rig, strategy):
    """Only a report of the station proves it: it goes with the next answer, under a new counter."""
    rig.only("west")
    rig.west.suppress_downlinks(1)
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    lost = await rig.alpha.send()
    await rig.wait(seconds(3))
    found = await rig.alpha.send()
    await rig.wait(seconds(3))
    silent = await rig.alpha.send()
    for f_cnt, uplink in enumerate((lost, found)):
        rig.expect(uplink, WITH_DOWNLINK, first="west")
        rig.expect_answer(uplink, f_cnt=f_cnt, f_port=7, f_pending=False)
    rig.expect_downlink(rig.alpha, b"on", port=7)
    rig.expect(silent, FIRST, first="west")
    rig.expect_on_air(silent)


@POLICY
async def test_an_acknowledgement_and_data_share_one_answer(rig, strategy):
    """The device is told both at once, and a retry of its frame takes nothing more of the queue."""
    rig.only("west")
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_answer(uplink, f_cnt=0, ack=True, f_port=7)
    rig.expect_answer(uplink, f_cnt=1, ack=True, f_port=7)
    rig.expect_reply(uplink)
    rig.expect_downlink(rig.alpha, b"on", port=7)


@POLICY
async def test_what_waits_goes_down_through_the_server_that_owns_the_frame(rig, strategy):
    """Another server that hears the frame has nothing to say to the device."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    await rig.queue_downlink(rig.alpha, payload=b"on", port=7)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
    rig.expect_answer(uplink, f_cnt=0, ack=True, f_port=7)
    rig.expect_on_air(uplink, "RX1")
    rig.expect_downlink(rig.alpha, b"on", port=7)


# --- through which antenna, and how well ---------------------------------------------------------


async def test_the_answer_leaves_through_the_antenna_that_heard(rig, strategy):
    """A station hears better with its second antenna, and is told to answer with that."""
    rig.only("west")
    rig.west.add_antenna(weaker_db=-6)
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(uplink, rctx=1)
    rig.expect_upstream(uplink, through="west", rssi=-80)
    rig.expect_reply(uplink)


@POLICY
async def test_a_join_is_accepted_through_the_antenna_that_heard(rig):
    """The accept is a downlink like any other: it goes where the request was heard."""
    rig.only("west")
    rig.west.add_antenna(weaker_db=-6)
    join = await rig.bravo.join()
    rig.expect(join, JOINS, joins="west")
    rig.expect_answer(join, rctx=1)
    rig.expect_reply(join)


@pytest.mark.requires("known strength", "virtual time")
async def test_a_weak_reception_is_a_reception(rig, confirmed):
    """Below the noise: what the station tells of it reaches the application as it is."""
    device = rig.provision("far", f_cnt=10, dr=0)
    rig.only("west")
    rig.west.weaken(45)
    uplink = await device.send(confirmed=confirmed)
    rig.expect(uplink, FIRST, first="west")
    rig.expect_upstream(uplink, through="west", rssi=-131, snr=-14, dr=0)
    rig.expect_reply(uplink)


# --- class C beside class A ----------------------------------------------------------------------


async def test_class_c_is_sent_to_at_once_and_class_a_when_it_asks(rig, strategy, confirmed):
    """Two devices at one station: what waits for one does not go with an answer to the other."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = [await device.send() for device in (always, rig.alpha)]
    await rig.queue_downlink(rig.alpha, payload=b"for alpha", port=7)
    await rig.queue_downlink(always, payload=b"at once", port=8)
    await rig.queue_downlink(always, payload=b"and then", port=8)
    await rig.wait(seconds(8))
    asked = await rig.alpha.send(confirmed=confirmed)
    await rig.wait(seconds(2))
    after = await always.send(confirmed=confirmed)
    for text in (b"at once", b"and then"):
        rig.expect_downlink(always, text, port=8, window="C")
    for uplink in before:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_on_air(uplink)
    rig.expect(asked, WITH_DOWNLINK, first="west")
    rig.expect_answer(asked, f_port=7, f_pending=False, ack=confirmed)
    rig.expect_downlink(rig.alpha, b"for alpha", port=7)
    rig.expect(after, FIRST, first="west")
    if confirmed:
        rig.expect_answer(after, f_port=None, f_pending=False, ack=True)


@POLICY
async def test_class_c_acknowledges_and_is_sent_the_next(rig, strategy):
    """A confirmed downlink of class C waits for its acknowledgement, and what waits behind it."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    await rig.queue_downlink(always, payload=b"sure", port=7, confirmed=True)
    await rig.queue_downlink(always, payload=b"next", port=8)
    await rig.wait(seconds(2))
    acknowledges = await always.send()
    await rig.wait(seconds(3))
    rig.expect(before, FIRST, first="west")
    rig.expect(acknowledges, WITH_DOWNLINK, first="west")
    rig.expect_downlink(always, b"sure", port=7, window="C")
    rig.expect_downlink(always, b"next", port=8)


async def test_class_c_goes_on_behind_what_its_acknowledgement_was_answered_with(rig):
    """Whoever acknowledges is sent the next in the answer, and the one behind that at once."""
    always = rig.provision("listening", f_cnt=10, device_class="C")
    rig.only("west")
    before = await always.send()
    await rig.queue_downlink(always, payload=b"sure", port=7, confirmed=True)
    for text in (b"next", b"last"):
        await rig.queue_downlink(always, payload=text, port=8)
    await rig.wait(seconds(2))
    acknowledges = await always.send()
    await rig.wait(seconds(4))
    asks = await always.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    rig.expect(acknowledges, WITH_DOWNLINK, first="west")
    rig.expect(asks, FIRST, first="west")
    rig.expect_downlink(always, b"sure", port=7, window="C")
    rig.expect_downlink(always, b"next", port=8)
    rig.expect_downlink(always, b"last", port=8, window="C")
    rig.expect_answer(asks, f_port=None)


async def test_two_devices_told_at_one_moment_are_each_answered(rig, strategy):
    """One concentrator has heard both on different channels, and they end alike."""
    rig.only("west")
    devices = [rig.provision(name, f_cnt=10, strategy=strategy) for name in ("delta", "echo")]
    frames = [await rig.craft(device, confirmed=True) for device in devices]
    for frame in frames:
        await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    for frame in frames:
        rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_what_waits_for_a_device_ends_with_its_server(rig):
    """What an application wants after that comes alone."""
    rig.only("west")
    first = await rig.alpha.send()
    await rig.queue_downlink(rig.alpha, payload=b"lost")
    await rig.restart_lns()
    await rig.queue_downlink(rig.alpha, payload=b"sent")
    answered = await rig.alpha.send()
    rig.expect(first, FIRST, first="west")
    rig.expect(answered, WITH_DOWNLINK, first="west")
    rig.expect_downlink(rig.alpha, b"sent")


@pytest.mark.requires("virtual time")
async def test_an_answer_that_is_repeated_has_the_whole_time_to_be_acknowledged(rig):
    """The first one was lost, and its time to be acknowledged is over behind the second one."""
    device = rig.provision("always", device_class="C")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.queue_downlink(device, payload=b"\x05\x01", port=3, confirmed=True)
    rig.west.suppress_downlinks(1)
    await device.send(confirmed=True, retries=1)
    await rig.wait(minutes(1))


@pytest.mark.requires("virtual time")
async def test_what_is_asked_for_behind_a_confirmed_answer_hastens_nothing(rig):
    """A class C device has 8 s to acknowledge what its answer brought, whatever else is wanted."""
    device = rig.provision("always", device_class="C")
    rig.only("west")
    await rig.queue_downlink(device, payload=b"sure", port=7, confirmed=True)
    first = await device.send()
    await rig.wait(seconds(4))
    await rig.queue_downlink(device, payload=b"next", port=8)
    await rig.wait(seconds(2))
    acknowledges = await device.send()
    await rig.wait(seconds(2))
    rig.expect(first, WITH_DOWNLINK, first="west")
    rig.expect(acknowledges, WITH_DOWNLINK, first="west")
    rig.expect_downlink(device, b"sure", port=7)
    rig.expect_downlink(device, b"next", port=8)


@pytest.mark.requires("virtual time")
async def test_the_last_answer_with_a_confirmed_one_has_its_time_too(rig):
    """It was sent three times, and is not given up while the device may still acknowledge it."""
    device = rig.provision("always", device_class="C")
    rig.only("west")
    before = await rig.alpha.send(confirmed=True)
    rig.expect(before, FIRST, first="west")
    await rig.queue_downlink(device, payload=b"sure", port=7, confirmed=True)
    rig.west.suppress_downlinks(2)
    uplinks = []
    for _ in range(3):
        uplinks.append(await device.send())
        await rig.wait(seconds(4))
    await rig.queue_downlink(device, payload=b"next", port=8)
    await rig.wait(seconds(2))
    uplinks.append(await device.send())
    await rig.wait(seconds(2))
    for uplink in uplinks:
        rig.expect(uplink, WITH_DOWNLINK, first="west")
    rig.expect_downlink(device, b"sure", port=7)
    rig.expect_downlink(device, b"next", port=8)
