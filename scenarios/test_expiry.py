"""The sliding minute of level 1: ADR 007, "sliding expiration of 1 minute"."""

import pytest

from bench.clock import microseconds, seconds
from bench.virtual.stacks import LMIC
from scenarios.words import AGAIN, COPY, EXPIRED, FIRST, REFUSED

JUST_BEFORE = seconds(60) - microseconds(1)
EXACT = pytest.mark.requires("virtual time")


@pytest.mark.parametrize(
    "silence_us",
    [
        pytest.param(seconds(59), id="59s"),
        pytest.param(JUST_BEFORE, id="59.999999s", marks=EXACT),
    ],
)
async def test_within_the_minute_a_copy_is_a_copy(rig, strategy, confirmed, silence_us):
    """Up to the last microsecond of the retention the frame is known."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="east", after=silence_us)
    rig.expect(uplink, FIRST + COPY, first="west", copy="east")


@pytest.mark.parametrize(
    "silence_us",
    [
        pytest.param(seconds(60), id="60s", marks=EXACT),
        pytest.param(seconds(60) + microseconds(1), id="60.000001s", marks=EXACT),
        pytest.param(seconds(61), id="61s"),
    ],
)
async def test_at_sixty_seconds_of_silence_the_frame_is_forgotten(
    rig, strategy, confirmed, silence_us
):
    """The entry is gone when sixty seconds have passed, not after them."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.replay(uplink, by="east", after=silence_us)
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="east")


async def test_every_copy_renews_the_minute(rig, strategy, confirmed):
    """Copies less than a minute apart keep the entry for longer than a minute."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    for _ in range(2):
        await rig.replay(uplink, by="east", after=seconds(59))
    await rig.replay(uplink, by="east", after=seconds(61))
    rig.expect(uplink, FIRST + COPY * 2 + EXPIRED, first="west", copy="east", again="east")


async def test_a_dropped_copy_renews_the_minute_too(rig, strategy):
    """Even a copy that validation refuses is heard, and keeps the entry alive."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=False)
    await rig.replay(uplink, by="west", after=seconds(59))
    await rig.replay(uplink, by="east", after=seconds(59))
    rig.expect(uplink, FIRST + AGAIN + COPY, first="west", again="west", copy="east")


async def test_the_station_that_comes_after_the_expiry_owns_the_frame(rig, strategy):
    """A new entry has a new owner: the old station's copy is then the copy."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    await rig.replay(uplink, by="east", after=seconds(61))
    await rig.replay(uplink, by="west", after=seconds(1))
    rig.expect(uplink, FIRST + EXPIRED + COPY, first="west", again="east", copy="west")


@pytest.mark.requires("slow application")
async def test_what_comes_after_the_expiry_and_is_not_delivered_was_not_heard(rig, strategy):
    """Level 1 takes back that it has heard it again: its next copy is a first one as well."""
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.refuse_upstream()
    await rig.replay(uplink, by="west", after=seconds(61))
    await rig.replay(uplink, by="west", after=seconds(1))
    rig.expect(uplink, FIRST + REFUSED + EXPIRED, first="west", refused="west", again="west")


@EXACT
async def test_a_retry_that_waited_for_its_duty_cycle_is_answered(rig, strategy):
    """LMIC at SF12 repeats after 130 s: level 1 has forgotten the frame, its counter is known."""
    slow = rig.provision("slow", stack=LMIC, dr=0, strategy=strategy)
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await slow.send(confirmed=True, transmissions=2)
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="west")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_OK")


@pytest.mark.requires("wall clock")
@pytest.mark.fault("lns", "wall clock")
async def test_a_step_of_the_wall_clock_changes_nothing(rig, strategy, confirmed):
    """The retention is measured on the monotonic clock, whatever the wall clock shows.

    Catalogue: A12.
    """
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.step_wall_clock(-seconds(3_600))
    await rig.replay(uplink, by="east", after=seconds(59))
    rig.step_wall_clock(seconds(7_200))
    await rig.replay(uplink, by="east", after=seconds(59))
    rig.step_wall_clock(-seconds(3_600))
    await rig.replay(uplink, by="east", after=seconds(61))
    rig.expect(uplink, FIRST + COPY * 2 + EXPIRED, first="west", copy="east", again="east")


@EXACT
async def test_who_repeats_after_the_minute_is_where_it_is_heard_then(rig):
    """Its class C downlink leaves there, and not where the frame was heard at first."""
    always = rig.provision("moving", f_cnt=10, device_class="C")
    rig.only("west")
    uplink = await always.send(confirmed=True)
    rig.only("east")
    await rig.replay(uplink, by="east", after=seconds(61))
    await rig.wait(seconds(3))
    await rig.queue_downlink(always, payload=b"on", port=8)
    await rig.wait(seconds(5))
    rig.expect(uplink, FIRST + EXPIRED, first="west", again="east")
    rig.expect_downlink(always, b"on", port=8, window="C")
