"""Every data rate, offset and size of a region: where an answer lies, and how much it holds.

LoRaWAN Regional Parameters RP002: RX1 by data rate and offset, sizes with room for a repeater.
"""

from typing import Any

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from bench.virtual import crafted
from scenarios.words import ASKED, FIRST, IN_RX2, LATE, OWNED, WITH_DOWNLINK

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it


LOST_UPSTREAM = Table("""
    strategy kind        | back
    *        *           | NonDuplicate dropped(UpstreamUnavailable) NotAsked
""")


PLANS = {
    "EU868": (range(8), range(6)),
    "US915": (range(5), range(4)),
    "AS923-1": (range(8), range(8)),
}
"""The data rates of uplinks, and the offsets."""
OFFSETS = [(name, offset) for name, (_, offsets) in PLANS.items() for offset in offsets]


async def heard(rig: Any, device: Any, *, dr: int, by: str = "west", **facts: Any) -> Any:
    """A frame of a device that a station has just heard; then its windows pass."""
    frame = await rig.craft(device, **facts)
    freq_hz = 904_600_000 if rig.setup.region.name == "US915" and dr == 4 else None
    await rig.say(rig.told(frame, by=by, dr=dr, freq_hz=freq_hz), by=by)
    await rig.wait(seconds(3))
    return frame


async def joined(rig: Any, name: str, offset: int) -> Any:
    """A device that its network tells nothing but what its application says."""
    rig.in_region(name)
    device = rig.provision("listener", activation="otaa", rx1_dr_offset=offset)
    rig.only("west")
    rig.expect(await device.join(), FIRST, first="west")
    return device


@pytest.mark.parametrize(("name", "offset"), OFFSETS)
async def test_rx1_is_where_its_region_has_it(rig, name, offset):
    """By the data rate of the uplink and the offset of the accept; RX2 is the same for all."""
    device = await joined(rig, name, offset)
    for dr in PLANS[name][0]:
        frame = await heard(rig, device, dr=dr, confirmed=True)
        rig.expect(frame, FIRST, first="west")


SIZES = [
    *(("EU868", 0, dr, most) for dr, most in enumerate((51, 51, 51, 115, 222, 222, 222, 222))),
    *(("US915", offset, 0, most) for offset, most in ((0, 222), (1, 109), (2, 33))),
    *(("US915", 0, dr, 222) for dr in (1, 2, 3, 4)),
    *(("AS923-1", 0, dr, most) for dr, most in enumerate((51, 51, 115, 115, 222, 222, 222, 222))),
]
"""Region, offset, data rate of the uplink, octets of the application in RX1."""


@pytest.mark.parametrize(("name", "offset", "dr", "most"), SIZES)
async def test_an_answer_holds_as_much_as_its_data_rate(rig, name, offset, dr, most):
    """One octet more goes in RX2, if that takes it, or is given up; what is behind comes next."""
    device = await joined(rig, name, offset)
    settled = await heard(rig, device, dr=dr, f_opts=b"\x09")
    sizes = (most, most + 1, 1) if most < 222 else (most,)
    for size in sizes:
        await rig.queue_downlink(device, payload=bytes(size), port=size % 200 + 1)
    frames = [await heard(rig, device, dr=dr) for _ in sizes]
    rig.expect(settled, FIRST, first="west")
    rig.expect(frames[0], WITH_DOWNLINK, first="west")
    rig.expect_answer(frames[0], f_port=most % 200 + 1, f_pending=most < 222)
    if most < 222:
        rx2_takes_it = name == "AS923-1" and most == 51
        words = LATE if rx2_takes_it else FIRST
        rig.expect(frames[1], words, **{"late" if rx2_takes_it else "first": "west"})
        rig.expect(frames[2], WITH_DOWNLINK, first="west")
        rig.expect_answer(frames[2], f_port=2, f_pending=False)


@pytest.mark.parametrize(
    ("name", "dr"), [("EU868", 7), *(("US915", dr) for dr in PLANS["US915"][0]), ("AS923-1", 7)]
)
async def test_no_data_rate_takes_more_than_222_octets(rig, name, dr):
    """Of 223 none is sent: they are refused, or given up where uplinks hold more (US915)."""
    rig.in_region(name)
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    rig.only("west")
    asking = await heard(rig, device, dr=3, f_opts=b"\x09", adr=True)
    granting = await heard(rig, device, dr=3, f_opts=b"\x03\x07")
    for size in (223, 222):
        await rig.queue_downlink(device, payload=bytes(size), port=9)
    fast = [await heard(rig, device, dr=dr) for _ in range(2)]
    full, empty = reversed(fast) if name == "US915" else fast
    rig.expect(asking, ASKED, asked="west")
    rig.expect(granting, FIRST, first="west")
    rig.expect(full, WITH_DOWNLINK, first="west")
    rig.expect_answer(full, f_port=9, f_pending=False)
    rig.expect(empty, FIRST, first="west")


async def test_every_channel_of_us915_has_its_rx1(rig):
    """Sixty-four of 125 kHz and eight of 500 kHz: the first and the last of each."""
    device = await joined(rig, "US915", 0)
    narrow = [(902_300_000 + 200_000 * number, number % 4) for number in (0, 7, 8, 62, 63)]
    wide = [(903_000_000 + 1_600_000 * number, 4) for number in range(8)]
    for freq_hz, dr in narrow + wide:
        frame = await rig.craft(device, confirmed=True)
        await rig.say(rig.told(frame, by="west", dr=dr, freq_hz=freq_hz), by="west")
        await rig.wait(seconds(3))
        rig.expect(frame, FIRST, first="west")


@pytest.mark.parametrize(("name", "began_hz"), [("EU868", 867_000_000), ("AS923-1", 923_500_000)])
async def test_an_accept_may_name_fewer_channels_than_five(rig, name, began_hz):
    """The rest of its CFList is 0; LinkADRReq names those that it has named, and no others."""
    rig.in_region(name)
    more_hz = [began_hz + more for more in (500_000, 100_000, 700_000, 300_000)]  # in no order
    facts = {"activation": "otaa", "nb_trans": 2}
    devices = [
        rig.provision(f"device-{n}", more_channels_hz=more_hz[:n], **facts) for n in range(1, 5)
    ]
    rig.only("west")
    for device in devices:
        join = await device.join()
        asking = await heard(rig, device, dr=5, adr=True)
        rig.expect(join, FIRST, first="west")
        rig.expect(asking, ASKED, asked="west")


async def test_a_channel_that_no_accept_has_named_is_none_of_a_device(rig):
    """Its record names one by now; it has joined before, and is not told to send there."""
    facts = {"activation": "otaa", "nb_trans": 2, "preset_session": True}
    device = rig.provision("before", f_cnt=10, more_channels_hz=(867_100_000,), **facts)
    known = device.provisioned
    asking = crafted.data(device.dev_eui, known.dev_addr, known.keys, 10, adr=True)
    rig.announce(asking)
    await rig.start()
    await rig.wait(seconds(1))
    await rig.say(rig.told(asking, by="west"), by="west")
    rig.expect(asking, ASKED, asked="west")


async def test_rx2_may_be_slower_than_its_region_has_it(rig):
    """An accept that names data rate 0 names one."""
    rig.in_region("AS923-1")
    device = rig.provision("listener", activation="otaa", rx2_dr=0)
    rig.only("west")
    join = await device.join()
    frame = await heard(rig, device, dr=5, confirmed=True)
    for one in (join, frame):
        rig.expect(one, FIRST, first="west")


async def test_commands_that_have_no_room_wait_for_the_next_answer(rig):
    """FOpts are 15 octets: what was asked first, then what the network wants of the device."""
    rig.in_region("AS923-1")
    device = rig.provision("talker", f_cnt=10, nb_trans=3)
    rig.only("west")
    await rig.queue_status(device)
    asking = await heard(rig, device, dr=5, f_opts=b"\x02\x0d", adr=True)
    granting = await heard(rig, device, dr=5, f_opts=b"\x03\x07\x06\xff\x01", adr=True)
    knowing = await heard(rig, device, dr=5, f_opts=b"\x09", adr=True)
    # LinkCheckAns, DeviceTimeAns, LinkADRReq and the short DevStatusReq; then TxParamSetupReq.
    for frame, octets in ((asking, 15), (granting, 2)):
        rig.expect(frame, ASKED, asked="west")
        rig.expect_answer(frame, f_opts_bytes=octets, f_port=None)
    rig.expect(knowing, FIRST, first="west")
    rig.expect_status(device)


async def test_fifteen_octets_of_commands_go_in_one_answer(rig):
    """The last of them counts as asked: a status is asked for three times, and no fourth time."""
    device = rig.provision("talker", f_cnt=10, nb_trans=3)
    rig.only("west")
    await rig.queue_status(device)
    asking = await heard(rig, device, dr=5, f_opts=b"\x02\x0d", adr=True)
    granting = await heard(rig, device, dr=5, f_opts=b"\x03\x07", adr=True)
    silent = [await heard(rig, device, dr=5, adr=True) for _ in range(2)]
    for frame in (asking, granting, silent[0]):
        rig.expect(frame, ASKED, asked="west")
    rig.expect(silent[1], FIRST, first="west")


async def test_a_device_is_told_the_dwell_times_until_it_says_so(rig):
    """It may not have heard the first time; whoever knows is left alone, in that session."""
    rig.in_region("AS923-1")
    device = rig.provision("listener", f_cnt=10)
    rig.only("west")
    for commands, words in ((b"", ASKED), (b"\x02", ASKED), (b"\x09", FIRST), (b"", FIRST)):
        frame = await heard(rig, device, dr=5, f_opts=commands)
        rig.expect(frame, words, **{"first" if words is FIRST else "asked": "west"})


@pytest.mark.parametrize(
    ("granted", "asked", "octets"),
    [(b"\x03\x07", b"\x09", 2), (b"\x09", b"\x03\x07", 5)],
    ids=["repetitions", "dwell times"],
)
async def test_a_device_grants_one_wish_and_is_asked_for_the_other(rig, granted, asked, octets):
    """What it says of how often it sends is no word about dwell times, nor the other way round."""
    rig.in_region("AS923-1")
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    rig.only("west")
    both = await heard(rig, device, dr=5, adr=True)
    one, again = [await heard(rig, device, dr=5, f_opts=granted, adr=True) for _ in range(2)]
    none = await heard(rig, device, dr=5, f_opts=asked, adr=True)
    for frame, length in ((both, 7), (one, octets), (again, octets)):
        rig.expect(frame, ASKED, asked="west")
        rig.expect_answer(frame, f_opts_bytes=length)
    rig.expect(none, FIRST, first="west")


async def test_a_device_grants_two_wishes_at_once(rig):
    """Each of its answers is read, and it is asked for nothing more."""
    rig.in_region("AS923-1")
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    rig.only("west")
    asking = await heard(rig, device, dr=5, adr=True)
    granting = await heard(rig, device, dr=5, f_opts=b"\x03\x07\x09", adr=True)
    rig.expect(asking, ASKED, asked="west")
    rig.expect(granting, FIRST, first="west")


async def test_who_was_asked_for_nothing_has_granted_nothing(rig):
    """Without the ADR bit it is not asked to repeat; with it, it is, whatever it said before."""
    device = rig.provision("talker", f_cnt=10, nb_trans=2)
    rig.only("west")
    answered = await heard(rig, device, dr=5, confirmed=True)
    unasked = await heard(rig, device, dr=5, f_opts=b"\x03\x07")
    asking = await heard(rig, device, dr=5, adr=True)
    for frame in (answered, unasked):
        rig.expect(frame, FIRST, first="west")
    rig.expect(asking, ASKED, asked="west")


async def test_a_device_that_begins_again_is_told_the_dwell_times_again(rig):
    """It has lost what it knew."""
    rig.in_region("AS923-1")
    device = rig.provision("listener", f_cnt=10)
    rig.only("west")
    knowing = await heard(rig, device, dr=5, f_opts=b"\x09")
    begun = await heard(rig, device, dr=5, f_cnt=0)
    rig.expect(knowing, FIRST, first="west")
    rig.expect(begun, ASKED, asked="west")


@pytest.mark.requires("slow application")
async def test_a_first_message_that_nobody_has_takes_no_dwell_times_from_a_device(rig):
    """It counts as never heard: the device knows them still."""
    rig.in_region("AS923-1")
    device = rig.provision("listener", f_cnt=10)
    rig.only("west")
    knowing = await heard(rig, device, dr=5, f_opts=b"\x09")
    rig.refuse_upstream()
    begun = await heard(rig, device, dr=5, f_cnt=0)
    after = await heard(rig, device, dr=5, f_cnt=12)
    rig.expect(knowing, FIRST, first="west")
    rig.expect(begun, LOST_UPSTREAM, back="west")
    rig.expect(after, FIRST, first="west")


async def test_whom_one_server_has_told_the_dwell_times_another_leaves_alone(rig):
    """It reads so in the store when a frame is too far for what it knows."""
    rig.in_region("AS923-1")
    rig.put_on("lns-b", "north")
    device = rig.provision("listener", f_cnt=10, relaxed_f_cnt=False)
    knowing = await heard(rig, device, dr=5, f_opts=b"\x09")
    between = await heard(rig, device, dr=5, f_cnt=9_000)
    after = await heard(rig, device, dr=5, by="north", f_cnt=18_000)
    for frame in (knowing, between):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(after, OWNED, owned="north")


async def test_what_rx1_has_no_room_for_goes_in_a_faster_rx2(rig):
    """A second later than RX1 would have been; the server knows how long it has until then."""
    device = rig.provision("listener", activation="otaa", rx2_dr=5, dr=0)
    rig.only("west")
    join = await device.join()
    await rig.queue_downlink(device, payload=bytes(100), port=9)
    uplink = await device.send(confirmed=True)
    rig.expect(join, FIRST, first="west")
    rig.expect(uplink, IN_RX2, first="west")
    rig.expect_answer(uplink, f_port=9, rx1_dr=None, rx2_dr=5)
    rig.expect_downlink(device, bytes(100), port=9, window="2")
