"""An application that does not take what it is told: in time, at all, or not yet.

What could not be made durable was not heard; what could not be sent was not spent.
"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import (
    AGAIN,
    COPY,
    ELSEWHERE,
    ENDED,
    EXPIRED,
    FIRST,
    OVER,
    REFUSED,
    REFUSED_AGAIN,
    TOO_LATE,
)

pytestmark = pytest.mark.requires("slow application")

DEADLINE = seconds(10)  # how long the application may take for a message
LOST = Table("""
    strategy kind        | lost
    *        confirmed   | NonDuplicate dropped(UpstreamUnavailable) Suppressed
    *        unconfirmed | NonDuplicate dropped(UpstreamUnavailable) NotAsked
""")
AGAIN_TOO_LATE = Table("""
    strategy kind        | late
    Drop     confirmed   | DuplicateDueToResubmission dropped(ResubmissionSuppressed) TooLate
    Mark     confirmed   | DuplicateDueToResubmission marked TooLate
    None     confirmed   | DuplicateDueToResubmission forwarded TooLate
""")


# --- an application that hangs ----------------------------------------------------------------


async def test_an_application_may_take_just_under_its_deadline(rig, strategy, confirmed):
    """Late for the device, and not lost; the copy waits as long and is a copy."""
    rig.delay_upstream(DEADLINE - 1)
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    for station in ("west", "east"):
        await rig.say(rig.told(uplink, by=station), by=station)
        await rig.wait(milliseconds(100))
    await rig.wait(DEADLINE)
    rig.only("west")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, TOO_LATE + COPY, first="west", copy="east")
    rig.expect(after, FIRST, first="west")


async def test_what_takes_the_place_of_a_lost_frame_has_copies_of_its_own(rig, strategy):
    """It is the first copy then, and whoever tells the frame after it tells one more."""
    device, _ = rig.alpha, rig.north
    rig.delay_upstream(DEADLINE)
    uplink = await hear(rig, device, "west", "east", after=DEADLINE + seconds(1))
    await tell(rig, uplink, "north")
    rig.expect(uplink, LOST + FIRST + COPY, lost="west", first="east", copy="north")


async def test_an_application_that_hangs_beyond_its_deadline_holds_nothing_up(
    rig, strategy, confirmed
):
    """The message is given up, and the copy that waited takes its place: it is lost to nobody."""
    rig.delay_upstream(DEADLINE)
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    for station in ("west", "east"):
        await rig.say(rig.told(uplink, by=station), by=station)
        await rig.wait(milliseconds(100))
    await rig.wait(DEADLINE)
    rig.only("west")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, LOST + TOO_LATE, lost="west", first="east")
    rig.expect(after, FIRST, first="west")
    rig.expect_reply(after)


async def test_what_an_application_hangs_on_hangs_no_other_device(rig, strategy, confirmed):
    """Another device is delivered and answered meanwhile, through the same station."""
    rig.only("west")
    rig.delay_upstream(seconds(60))
    stuck = await rig.craft(rig.alpha, confirmed=confirmed)
    await rig.say(rig.told(stuck, by="west"), by="west")
    free = [await rig.charlie.send(confirmed=confirmed) for _ in range(2)]
    await rig.replay(stuck, by="west", after=DEADLINE + seconds(1))
    rig.expect(stuck, LOST + FIRST, lost="west", first="west")
    for uplink in free:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


async def test_every_try_has_a_deadline_of_its_own(rig, strategy, confirmed):
    """Twice in vain, then not: the third is the first copy that anybody has heard."""
    rig.only("west")
    rig.delay_upstream(seconds(60), messages=2)
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    await rig.say(rig.told(uplink, by="west"), by="west")
    for _ in range(2):
        await rig.replay(uplink, by="west", after=DEADLINE + seconds(1))
    rig.expect(uplink, LOST * 2 + FIRST, lost="west", first="west")


async def test_a_server_whose_application_hangs_gives_the_frame_back(rig, strategy, confirmed):
    """The other server could not know; of the next copy that it hears it is the owner."""
    rig.put_on("lns-b", "east")
    rig.delay_upstream(seconds(60))
    uplink = await rig.craft(rig.alpha, confirmed=confirmed)
    await rig.say(rig.told(uplink, by="west"), by="west")
    await rig.say(rig.told(uplink, by="east"), by="east")
    await rig.wait(DEADLINE + seconds(1))
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, LOST + ELSEWHERE, lost="west", elsewhere="east")
    rig.expect_race(after, FIRST + ELSEWHERE, between=("west", "east"))


# --- an answer that could not be sent ---------------------------------------------------------


@pytest.mark.parametrize("refusals", [1, 3])
async def test_a_repeat_that_the_application_refused_is_not_spent(rig, refusals):
    """Nothing was sent, neither to the application nor to the device: three answers are left."""
    rig.only("west")
    rig.west.suppress_downlinks(9)
    uplink = await rig.alpha.send(confirmed=True)
    rig.refuse_upstream(refusals)
    for _ in range(refusals + 4):
        await rig.replay(uplink, by="west", after=seconds(3))
    due = FIRST + REFUSED_AGAIN * refusals + AGAIN * 3 + OVER
    rig.expect(uplink, due, first="west", refused="west", again="west", over="west")


@pytest.mark.parametrize("servers", [1, 2])
async def test_a_repeated_answer_that_comes_too_late_is_spent(rig, strategy, servers):
    """The fourth resubmission is one too many, whether or not there was time for the others.

    Whoever replays a frame through a station that is always late gets no more of it than others.
    """
    if servers == 2:
        rig.put_on("lns-b", "north")
    rig.only("west")
    rig.west.suppress_downlinks(9)
    uplink = await rig.alpha.send(confirmed=True)
    text = rig.told(uplink, by="west")
    for _ in range(2):
        await rig.wait(seconds(3))
        await rig.say(text, by="west")
    for _ in range(2):
        await rig.replay(uplink, by="west", after=seconds(3))
    due = FIRST + AGAIN_TOO_LATE * 2 + AGAIN + OVER
    rig.expect(uplink, due, first="west", late="west", again="west", over="west")


# --- an effect that fails, and then does not --------------------------------------------------


@pytest.mark.requires("crash in a transaction")
@pytest.mark.parametrize("failures", [1, 4])
async def test_an_effect_that_fails_and_then_succeeds_happens_once(rig, failures):
    """It is tried five times; what came behind it waits, and order and numbers stay."""
    rig.consumer(refuses="x", refusals=failures, keys=True)
    before = await rig.inject(rig.alpha, number=1)
    failing = await rig.inject(rig.alpha, message_id="x", number=2, key="k")
    after = await rig.inject(rig.alpha, number=3)
    again = await rig.inject(rig.alpha, message_id="x", number=2, key="k")
    for message in (before, failing, after):
        rig.expect_effects(message)
    rig.expect_ignored(again, by="window")


@pytest.mark.requires("crash in a transaction")
async def test_what_was_put_aside_has_its_effect_when_it_comes_again(rig):
    """Five failures park it; nothing of it was remembered, so a repeat is no duplicate."""
    rig.consumer(refuses="x", refusals=5, keys=True, sequence=False)
    failing = await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.wait(seconds(30))
    await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.inject(rig.alpha, message_id="x", key="k")
    rig.expect_effects(failing)
    rig.expect_ignored(failing, by="window")


# --- ids, with traffic in between -------------------------------------------------------------


@pytest.mark.requires("virtual time")
@pytest.mark.parametrize("window_us", [seconds(20), seconds(600)])
async def test_an_id_is_remembered_for_exactly_the_window_whatever_comes_between(rig, window_us):
    """Traffic lets go of ids whose window is over, and of no other; the window does not slide."""
    rig.consumer(window=window_us, sequence=False)
    message = await rig.inject(rig.alpha, message_id="x")
    for part in range(1, 40):
        await rig.wait(window_us // 40)
        await rig.inject(rig.charlie if part % 2 else rig.alpha, message_id=f"other-{part}")
    await rig.wait(window_us // 40 - 1)
    await rig.inject(rig.alpha, message_id="x")  # a microsecond before its end
    await rig.wait(1)
    await rig.inject(rig.alpha, message_id="x")
    await rig.inject(rig.alpha, message_id="x")
    rig.expect_effects(message, 2)
    rig.expect_ignored(message, by="window", times=2)


@pytest.mark.requires("virtual time")
async def test_a_key_outlives_what_comes_between(rig):
    """Keys of other messages come and go; this one is known for as long as its times add up to."""
    rig.consumer(
        window=None, sequence=False, keys=True,
        retention=seconds(60), retry=seconds(30), network=seconds(10),
    )  # fmt: skip
    message = await rig.inject(rig.alpha, message_id="x", key="k")
    for part in range(99):
        await rig.wait(seconds(1))
        await rig.inject(rig.alpha, key=f"other-{part}")
    await rig.inject(rig.alpha, message_id="x", key="k")
    await rig.wait(seconds(2))
    await rig.inject(rig.alpha, message_id="x", key="k")
    rig.expect_effects(message, 2)
    rig.expect_ignored(message, by="key")


# --- a server that ends meanwhile -------------------------------------------------------------


@pytest.mark.requires("virtual time")  # no wire has a part in it
@pytest.mark.fault("lns", "restart")
@pytest.mark.parametrize("frames", [1, 2])
async def test_what_the_application_had_not_taken_is_new_after_a_restart(rig, frames):
    """Something else of the device was kept meanwhile, which does not keep what is under way."""
    device = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    rig.only("west")
    before = await device.send()
    rig.delay_upstream(seconds(60), messages=frames)
    under_way = [await hear(rig, device, "west", after=seconds(1)) for _ in range(frames)]
    await rig.queue_downlink(device, payload=b"on", port=8)
    await rig.wait(seconds(4))
    await rig.restart_lns()
    for frame in under_way:
        await tell(rig, frame, "west")
        await rig.wait(seconds(1))
        rig.expect(frame, ENDED + FIRST, ended="west", first="west")
    rig.expect(before, FIRST, first="west")
    rig.expect_downlink(device, b"on", port=8, window="C")


@pytest.mark.requires("virtual time")  # no wire has a part in it
@pytest.mark.fault("lns", "restart")
async def test_what_is_under_way_beside_what_was_taken_is_new_after_a_restart(rig):
    """The application has taken the frame before it meanwhile."""
    device = rig.provision("listening", f_cnt=10, device_class="C", relaxed_f_cnt=False)
    rig.only("west")
    before = await device.send()
    rig.delay_upstream(seconds(3), messages=1)
    taken = await hear(rig, device, "west", after=seconds(1))
    rig.delay_upstream(seconds(60), messages=1)
    lost = await hear(rig, device, "west", after=seconds(3))
    await rig.queue_downlink(device, payload=b"on", port=8)
    await rig.wait(seconds(4))
    await rig.restart_lns()
    await tell(rig, lost, "west")
    await rig.wait(seconds(1))
    for frame in (before, taken):
        rig.expect(frame, FIRST, first="west")
    rig.expect(lost, ENDED + FIRST, ended="west", first="west")
    rig.expect_downlink(device, b"on", port=8, window="C")


@pytest.mark.requires("virtual time")
async def test_other_bytes_of_a_counter_that_was_taken_back_have_another_name(rig):
    """The status in the first ones was told, and the application did not take the rest."""
    device = rig.provision("telling", f_cnt=10, relaxed_f_cnt=False)
    await rig.start()
    rig.delay_upstream(seconds(1), messages=2)
    await rig.meanwhile(milliseconds(1_500), rig.refuse_upstream)
    lost = await hear(rig, device, "west", payload=b"one", f_opts=b"\x06\xfe\x05")
    facts = {"f_cnt": 10, "payload": b"two", "f_opts": b"\x06\xff\x06", "confirmed": True}
    other = await hear(rig, device, "west", **facts, after=seconds(61))
    await tell(rig, other, "east")
    await rig.wait(seconds(3))
    rig.expect(lost, REFUSED, refused="west")
    rig.expect(other, FIRST + EXPIRED, first="west", again="east")
    rig.expect_status(device, times=2)
    key = f"{device.provisioned.dev_eui}-{device.provisioned.dev_addr}-10"
    name = f"{key}.{other.phy[-4:].hex().upper()}"
    for station in ("west", "east"):
        rig.expect_upstream(other, through=station, removeDuplicatesKey=name)


LOST_AGAIN = Table("""
    strategy kind        | lost
    None     confirmed   | DuplicateDueToResubmission dropped(UpstreamUnavailable) Suppressed
""")
FIRST_AGAIN = Table("""
    strategy kind        | again
    None     confirmed   | DuplicateDueToResubmission forwarded RX1
""")


async def test_a_measurement_that_a_restarted_device_sends_again_stays_one_when_it_is_lost(rig):
    """It is the newest of its new life, and was heard in the one before: not for the first time."""
    device = rig.provision("relaxed")
    first = await hear(rig, device, "west", f_cnt=0, payload=b"one", confirmed=True)
    equal = await hear(rig, device, "west", f_cnt=5, confirmed=True)
    begun = await hear(rig, device, "west", f_cnt=0, payload=b"two", confirmed=True)
    rig.delay_upstream(seconds(60))
    await tell(rig, equal, "west")
    await rig.wait(DEADLINE + seconds(1))
    await tell(rig, equal, "west")
    await rig.wait(seconds(3))
    for frame in (first, begun):
        rig.expect(frame, FIRST, first="west")
    due = FIRST + LOST_AGAIN + FIRST_AGAIN
    rig.expect(equal, due, first="west", lost="west", again="west")


OLD = Table("""
    strategy kind        | old
    None     confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
""")


async def test_a_copy_that_waits_longer_than_its_frame_is_remembered_is_judged_by_what_came(rig):
    """A newer frame was accepted meanwhile: what nobody remembers is an old one then."""
    rig.dedup(retention=seconds(1))
    rig.delay_upstream(seconds(6), messages=1)
    slow = await rig.craft(rig.alpha, confirmed=True)
    await tell(rig, slow, "west")
    await rig.wait(seconds(1))
    newer = await hear(rig, rig.alpha, "west", confirmed=True, after=seconds(1))
    await tell(rig, slow, "west")
    await rig.wait(seconds(8))
    rig.expect(newer, FIRST, first="west")
    rig.expect(slow, TOO_LATE + OLD, first="west", old="west")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_a_station_is_read_again_as_soon_as_one_of_its_frames_is_done(rig):
    """With 256 under way it is not; half of them are done after two seconds, others after nine."""
    rig.only("west")
    prompt = rig.provision("prompt", f_cnt=10)
    await rig.start()
    slow, quick = await rig.craft(rig.alpha), await rig.craft(rig.charlie)
    for frame, delay_us in ((slow, seconds(9)), (quick, seconds(2))):
        rig.delay_upstream(delay_us)
        for _ in range(128):
            await rig.say(rig.told(frame, by="west"), by="west")
    rig.delay_upstream(0)
    await rig.wait(seconds(3))
    frame = await hear(rig, prompt, "west", confirmed=True)
    await rig.wait(seconds(9))
    for one in (slow, quick):
        rig.expect(one, FIRST + AGAIN * 127, first="west", again="west")
    rig.expect(frame, FIRST, first="west")
