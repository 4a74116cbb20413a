"""The 32-bit counter behind the 16 bits on the air: how far ahead, how often, across restarts."""

import pytest

from bench.clock import seconds
from bench.verdict.expectation import Table
from bench.virtual.stacks import BASICS_MODEM
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, EXPIRED, FIRST, OVER, OWNED

GAP_MAX = 16_384  # LoRaWAN 1.0.3, MAX_FCNT_GAP
BEYOND = 200_000  # what 16 bits cannot tell
POLICY = pytest.mark.requires("virtual time")  # no wire has a part in it

REFUSED = Table("""
    strategy kind        | refused
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")


# --- how far ahead ------------------------------------------------------------------------------


@POLICY
@pytest.mark.parametrize("heard", [9, None], ids=["heard before", "never heard"])
async def test_a_counter_may_be_16384_ahead(rig, strategy, confirmed, heard):
    """A device that nobody has heard counts from 0 (LoRaWAN 1.0.3, 4.3.1.5); the next one follows.

    So far ahead the sixteen bits on the air are still unambiguous.
    """
    device = rig.provision("sleeper", f_cnt_up=heard)
    rig.only("west")
    farthest = await rig.craft(device, f_cnt=(heard or 0) + GAP_MAX, confirmed=confirmed)
    after = await rig.craft(device, f_cnt=(heard or 0) + 2 * GAP_MAX, confirmed=confirmed)
    for uplink in (farthest, after):
        await rig.say(rig.told(uplink, by="west"), by="west")
        await rig.wait(seconds(2))
        rig.expect(uplink, FIRST, first="west")
        rig.expect_upstream(uplink, through="west", fCnt=uplink.f_cnt)


@POLICY
@pytest.mark.parametrize("heard", [9, None], ids=["heard before", "never heard"])
async def test_a_counter_16385_ahead_is_refused(rig, strategy, confirmed, heard):
    """It is no sign of life: neither level 1 nor the counter goes on with it."""
    device = rig.provision("sleeper", f_cnt_up=heard)
    rig.only("west")
    refused = await rig.craft(device, f_cnt=(heard or 0) + GAP_MAX + 1, confirmed=confirmed)
    await rig.say(rig.told(refused, by="west"), by="west")
    after = await device.send(confirmed=confirmed)
    rig.expect(refused, REFUSED, refused="west")
    rig.expect(after, FIRST, first="west")
    rig.expect_reply(after)


@POLICY
async def test_how_far_ahead_is_judged_by_what_all_servers_know(rig, strategy, confirmed):
    """Too far ahead of what one server has heard, and not of what the other one has."""
    rig.put_on("lns-b", "east")
    device = rig.provision("sleeper", f_cnt=10)
    frames = [
        (await rig.craft(device, f_cnt=f_cnt, confirmed=confirmed), station)
        for f_cnt, station in ((10, "west"), (GAP_MAX, "east"), (2 * GAP_MAX, "west"))
    ]
    for frame, station in frames:
        await rig.say(rig.told(frame, by=station), by=station)
        await rig.wait(seconds(2))
        rig.expect(frame, OWNED, owned=station)


# --- beyond 65 535 ------------------------------------------------------------------------------


@POLICY
async def test_a_payload_is_deciphered_with_all_of_its_counter(rig, strategy, confirmed):
    """The counter is part of the key stream; 65 536 and 0 are not the same there."""
    device = rig.provision("veteran", f_cnt=65_535)
    rig.only("west")
    for text in (b"last", b"first again"):
        uplink = await device.send(text, confirmed=confirmed)
        rig.expect(uplink, FIRST, first="west")
        rig.expect_upstream(uplink, through="west", payload=text.hex(), fCnt=uplink.f_cnt)
        rig.expect_reply(uplink)


@POLICY
async def test_what_the_application_sends_is_read_beyond_sixteen_bits(rig, strategy, confirmed):
    """The device deciphers with its own 32-bit counter of downlinks."""
    device = rig.provision("veteran", f_cnt=BEYOND, f_cnt_down=65_535)
    rig.only("west")
    for text in (b"last", b"first again"):
        await rig.queue_downlink(device, payload=text, port=7)
        await device.send(confirmed=confirmed)
        await rig.wait(seconds(2))
        rig.expect_downlink(device, text, port=7)


@POLICY
async def test_a_frame_that_level_1_has_forgotten_keeps_its_name(rig, strategy):
    """It is the newest one yet: the application, which has had it, knows it by its key."""
    device = rig.provision("veteran", f_cnt=BEYOND, strategy=strategy)
    frame = await hear(rig, device, "west", f_cnt=BEYOND, confirmed=True, after=seconds(61))
    await tell(rig, frame, "east")
    rig.expect(frame, FIRST + EXPIRED, first="west", again="east")
    name = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-{BEYOND}"
    rig.expect_upstream(frame, through="east", removeDuplicatesKey=name)


@pytest.mark.fault("lns", "restart")
async def test_a_server_that_restarts_remembers_all_of_a_counter(rig, strategy, confirmed):
    """What it kept has 32 bits: the device is known at once, and a replay is no sign of life."""
    device = rig.provision("veteran", f_cnt=BEYOND)
    rig.only("west")
    before = [await device.send(confirmed=confirmed) for _ in range(2)]
    await rig.restart_lns()
    await rig.replay(before[0], by="west", after=seconds(8))
    after = await device.send(b"after", confirmed=confirmed)
    rig.expect(before[0], FIRST + REFUSED, first="west", refused="west")
    for uplink in (before[1], after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
    rig.expect_upstream(after, through="west", payload=b"after".hex(), fCnt=BEYOND + 2)


@POLICY
async def test_a_relaxed_device_restarts_beyond_65535(rig, strategy, confirmed):
    """Its new 1 is none of 131 073, 196 609 and 262 145."""
    device = rig.provision("veteran", f_cnt=BEYOND)
    rig.only("west")
    before = await device.send(b"old", confirmed=confirmed)
    await device.restart(memory=False)
    after = [await device.send(b"new", confirmed=confirmed) for _ in range(3)]
    for uplink in (before, *after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
    for uplink in after:
        rig.expect_upstream(uplink, through="west", payload=b"new".hex(), fCnt=uplink.f_cnt)


@POLICY
async def test_a_strict_device_that_restarts_beyond_65535_is_refused(rig, strategy, confirmed):
    """It is recognised all the same: its frames are old, and not forged."""
    device = rig.provision("veteran", f_cnt=BEYOND, relaxed_f_cnt=False)
    rig.only("west")
    before = await device.send(b"old", confirmed=confirmed)
    await device.restart(memory=False)
    refused = await device.send(b"new", confirmed=confirmed)
    rig.expect(before, FIRST, first="west")
    rig.expect(refused, REFUSED, refused="west")


# --- replayed after the retention ----------------------------------------------------------------


@POLICY
@pytest.mark.parametrize("by", ["west", "east"])
async def test_a_first_frame_replayed_after_the_retention_mutes_nobody(
    rig, strategy, confirmed, by
):
    """FCnt 0 of a relaxed device may be a restart; of the next frame everybody knows better."""
    device = rig.provision("relaxed", stack=BASICS_MODEM)
    rig.only("west")
    zero, one, two = [await device.send(confirmed=confirmed) for _ in range(3)]
    await rig.replay(zero, by=by, after=seconds(90))
    after = await device.send(confirmed=confirmed)
    await rig.replay(one, by=by, after=seconds(90))
    last = await device.send(confirmed=confirmed)
    rig.expect(zero, FIRST + FIRST, first=("west", by))
    rig.expect(one, FIRST + FIRST, first=("west", by))
    for uplink in (two, after, last):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@POLICY
@pytest.mark.parametrize("activation", ["abp", "otaa"])
async def test_an_old_frame_replayed_after_the_retention_is_old(
    rig, strategy, confirmed, activation
):
    """Whoever cannot restart its counter is not believed to: FCnt 0 is a counter like any other."""
    strict = {"relaxed_f_cnt": False} if activation == "abp" else {}
    device = rig.provision("strict", stack=BASICS_MODEM, activation=activation, **strict)
    rig.only("west")
    if activation == "otaa":
        await device.join()
    zero, one, newest = [await device.send(confirmed=confirmed) for _ in range(3)]
    await rig.replay(zero, by="west", after=seconds(90))
    await rig.replay(one, by="east", after=seconds(90))
    after = await device.send(confirmed=confirmed)
    rig.expect(zero, FIRST + REFUSED, first="west", refused="west")
    rig.expect(one, FIRST + REFUSED, first="west", refused="east")
    for uplink in (newest, after):
        rig.expect(uplink, FIRST, first="west")


# --- repeated answers ----------------------------------------------------------------------------


@POLICY
@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize("servers", [1, 2])
async def test_a_restart_gives_no_new_answers_to_an_old_frame(rig, strategy, servers):
    """Three repeated answers, before and after a restart of the server together.

    After it level 1 is empty; what was spent is remembered with the counter.
    """
    if servers == 2:
        rig.put_on("lns-b", "east")
    rig.only("west")
    rig.west.suppress_downlinks(9)
    uplink = await rig.alpha.send(confirmed=True)
    for _ in range(2):
        await rig.replay(uplink, by="west", after=seconds(3))
        await rig.wait(seconds(1))
    await rig.restart_lns()
    for _ in range(3):
        await rig.replay(uplink, by="west", after=seconds(8))
    rig.expect(
        uplink, FIRST + AGAIN * 2 + EXPIRED + OVER * 2, first="west", again="west", over="west"
    )


@POLICY
async def test_a_new_life_has_answers_of_its_own(rig, strategy):
    """What the first frame of the life before has spent is not charged to that of the next one."""
    device = rig.provision("relaxed")
    rig.only("west")
    rig.west.suppress_downlinks(8)
    old = await device.send(b"old", confirmed=True, retries=3)
    await device.restart(memory=False)
    new = await device.send(b"new", confirmed=True, retries=3)
    for uplink in (old, new):
        rig.expect(uplink, FIRST + AGAIN * 3, first="west", again="west")
