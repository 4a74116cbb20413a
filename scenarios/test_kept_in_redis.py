"""What servers write into one Redis side by side is there for whoever begins again.

Claims say more than sessions as long as they are remembered: here a day is over, and what counts is
what was written last, whichever of two servers that was.
"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.test_several_servers import JOINED_ELSEWHERE, OVER
from scenarios.words import AGAIN, EXPIRED, FIRST, LOST, OWNED, UNVERIFIED
from scenarios.words import OVER as NO_MORE

NO_JOIN = Table("""
    strategy kind | lost
    *        join | NonDuplicate dropped(StoreUnavailable) Suppressed
""")
ONCE_MORE = Table("""
    strategy kind        | once_more
    *        confirmed   | NonDuplicate forwarded RX1
""")

pytestmark = pytest.mark.requires("redis", "virtual time")


async def _begin_again(rig):
    """Both servers begin with what is kept, and nobody remembers a claim."""
    await rig.disturb_redis("let expire")
    for lns in ("lns-a", "lns-b"):
        await rig.restart_lns(lns=lns)
    await rig.wait(seconds(30))


def _two_servers(rig):
    rig.keep_in_redis()
    rig.put_on("lns-b", "north")


async def test_an_older_frame_that_is_kept_late_takes_nothing_back(rig):
    """Its server was granted it long ago, and learns so when the other one has kept a newer one."""
    _two_servers(rig)
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", "north", confirmed=True)
    rig.slow_store(milliseconds(150), "lns-a")
    older, newer = await rig.craft(device), await rig.craft(device)
    await tell(rig, older, "west")
    await rig.wait(milliseconds(50))
    await tell(rig, newer, "north")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    await _begin_again(rig)
    await tell(rig, newer, "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "west", confirmed=True)
    rig.expect(before, OWNED + LOST, owned="west", lost="north")
    rig.expect(older, OWNED, owned="west")
    rig.expect(newer, OWNED + EXPIRED, owned="north", again="west")
    rig.expect(after, OWNED, owned="west")


async def test_a_newer_frame_that_is_kept_late_is_kept(rig):
    """The other server has kept an older one meanwhile, of which this one knows nothing."""
    _two_servers(rig)
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", "north", confirmed=True)
    frames = []
    for station, other in (("north", "west"), ("west", "north"), ("west", "north")):
        frames += [await hear(rig, device, station, confirmed=True)]
        frames += [await hear(rig, device, other)]
    await _begin_again(rig)
    await tell(rig, frames[-1], "west")
    await rig.wait(seconds(3))
    after = await hear(rig, device, "north", confirmed=True)
    rig.expect(before, OWNED + LOST, owned="west", lost="north")
    for frame, station in zip(frames[:-1], ("north", "west", "west", "north", "west"), strict=True):
        rig.expect(frame, OWNED, owned=station)
    rig.expect(frames[-1], OWNED + EXPIRED, owned="north", again="west")
    rig.expect(after, OWNED, owned="north")


async def test_each_of_three_writes_knows_the_one_before_it(rig):
    """The second one is on its way when the first one is there and the third one begins."""
    rig.keep_in_redis()
    rig.only("west")
    device = rig.provision("alone", server="lns-a")
    before = await hear(rig, device, "west", confirmed=True)
    rig.slow_store(milliseconds(60))
    frames = [await rig.craft(device) for _ in range(3)]
    for frame in frames:
        await tell(rig, frame, "west")
        await rig.wait(milliseconds(40))
    await rig.wait(seconds(3))
    await rig.restore_store()
    for frame in (before, *frames):
        rig.expect(frame, FIRST, first="west")


async def test_answers_to_one_frame_are_counted_together(rig):
    """Its owner has given two of three more; in between the other server, which nobody told whose
    it is, has kept the frame.
    """
    _two_servers(rig)
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", confirmed=True)
    for station in ("west", "north", "west"):
        rig.slow_store(milliseconds(110 if station == "north" else 0), "lns-b")
        await tell(rig, frame, station)
        await rig.wait(seconds(3))
    await rig.restore_store("lns-b")
    await _begin_again(rig)
    for _ in range(2):
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
    due = OWNED + AGAIN + UNVERIFIED + AGAIN + ONCE_MORE + NO_MORE
    rig.expect(
        frame, due, owned="west", again="west", unverified="north", once_more="west", over="west"
    )


async def test_behind_claims_that_are_over_a_frame_is_of_who_kept_it_last(rig):
    """Nobody told that server whose it is, and it has kept the frame behind its owner."""
    _two_servers(rig)
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", confirmed=True)
    rig.slow_store(milliseconds(110), "lns-b")
    await tell(rig, frame, "north")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-b")
    await _begin_again(rig)
    await tell(rig, frame, "west")
    await rig.wait(seconds(3))
    due = OWNED + UNVERIFIED + LOST
    rig.expect(frame, due, owned="west", unverified="north", lost="west")


async def test_lives_that_another_server_has_heard_of_are_kept(rig):
    """The device has begun again and gone on where it was; who keeps its next frame knows nothing
    of that.
    """
    _two_servers(rig)
    device = rig.provision("relaxed", f_cnt=500)
    old = [await rig.craft(device, confirmed=True) for _ in range(3)]
    await tell(rig, old[0], "west")
    await rig.wait(seconds(3))
    await device.restart(memory=False)
    new = await hear(rig, device, "west", confirmed=True)
    await tell(rig, old[1], "west")
    await rig.wait(seconds(3))
    rig.slow_store(milliseconds(110), "lns-b")
    await tell(rig, old[2], "north")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-b")
    for frame in (old[0], new, old[1]):
        rig.expect(frame, OWNED, owned="west")
    rig.expect(old[2], UNVERIFIED, unverified="north")


async def test_a_session_that_opens_meanwhile_is_kept_beside_the_old_one(rig):
    """The server that knows of the old one only writes what it has heard in it."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    rig.only("north")
    old = await rig.bravo.send(confirmed=True)
    unheard = [await rig.craft(rig.bravo) for _ in range(2)]
    rig.only("west")
    await rig.bravo.join()
    await tell(rig, unheard[0], "north")
    await rig.wait(seconds(3))
    await _begin_again(rig)
    new = await rig.bravo.send(confirmed=True)
    await tell(rig, unheard[1], "north")
    await rig.wait(seconds(3))
    for uplink, station in ((first, "west"), (old, "north"), (new, "west")):
        rig.expect(uplink, FIRST, first=station)
    rig.expect(unheard[0], FIRST, first="north")
    rig.expect(unheard[1], OVER, over="north")


async def test_a_session_that_ended_meanwhile_does_not_come_back(rig):
    """The other server was granted a frame of it, and keeps that when the new one was heard."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    rig.only("north")
    old = await rig.bravo.send(confirmed=True)
    unheard = [await rig.craft(rig.bravo) for _ in range(2)]
    rig.only("west")
    await rig.bravo.join()
    rig.slow_store(milliseconds(190), "lns-b")
    await tell(rig, unheard[0], "north")
    await rig.wait(milliseconds(50))
    new = await hear(rig, rig.bravo, "west", confirmed=True)
    await rig.restore_store("lns-b")
    await _begin_again(rig)
    for station in ("north", "west"):
        await tell(rig, unheard[1], station)
        await rig.wait(seconds(3))
    after = await hear(rig, rig.bravo, "north", confirmed=True)
    for uplink, station in ((first, "west"), (old, "north"), (new, "west"), (after, "north")):
        rig.expect(uplink, FIRST, first=station)
    rig.expect(unheard[0], FIRST, first="north")
    rig.expect(unheard[1], OVER * 2, over=("north", "west"))


@pytest.mark.parametrize("restarts", [False, True])
async def test_sessions_that_a_frame_has_ended_are_over_for_good(rig, restarts):
    """The one in use before, and one that nobody was heard in; the server may have begun again."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    unheard = [await rig.craft(rig.bravo)]
    await rig.bravo.join()
    unheard.append(await rig.craft(rig.bravo))
    await rig.bravo.join()
    if restarts:
        await rig.restart_lns(lns="lns-a")
        await rig.wait(seconds(30))
    new = await hear(rig, rig.bravo, "west", confirmed=True)
    await _begin_again(rig)
    for frame in unheard:
        await tell(rig, frame, "west")
        await rig.wait(seconds(3))
        rig.expect(frame, OVER, over="west")
    after = await hear(rig, rig.bravo, "north", confirmed=True)
    for uplink, station in ((first, "west"), (new, "west"), (after, "north")):
        rig.expect(uplink, FIRST, first=station)


async def test_a_session_that_ends_is_over_whatever_another_server_has_kept_in_it(rig):
    """What is there by then is another text, and has the session yet; it was known to both."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    unheard = [await rig.craft(rig.bravo) for _ in range(2)]
    await rig.bravo.join()
    await tell(rig, unheard[0], "north")
    await rig.wait(seconds(3))
    new = await hear(rig, rig.bravo, "west", confirmed=True)
    await _begin_again(rig)
    for station in ("north", "west"):
        await tell(rig, unheard[1], station)
        await rig.wait(seconds(3))
    after = await hear(rig, rig.bravo, "north", confirmed=True)
    for uplink, station in ((first, "west"), (unheard[0], "north"), (new, "west")):
        rig.expect(uplink, FIRST, first=station)
    rig.expect(unheard[1], OVER * 2, over=("north", "west"))
    rig.expect(after, FIRST, first="north")


async def test_a_join_whose_reply_was_lost_is_accepted_when_it_comes_again(rig):
    """Its DevNonce is this server's in the store; once it has heard so, it is used for good."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    joining = await rig.craft_join(rig.bravo)
    rig.slow_store(milliseconds(200), "lns-a")
    await tell(rig, joining, "west")
    await rig.wait(milliseconds(300))
    rig.slow_store(milliseconds(300), "lns-a")  # what is known, and the JoinNonce, came in time
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    await tell(rig, joining, "west")
    await rig.wait(seconds(65))
    await tell(rig, joining, "west")
    await rig.wait(seconds(3))
    await _begin_again(rig)
    for station in ("west", "north"):
        await tell(rig, joining, station)
        await rig.wait(seconds(3))
    due = NO_JOIN + FIRST + JOINED_ELSEWHERE * 3
    used = ("west", "west", "north")
    rig.expect(joining, due, lost="west", first="west", elsewhere=used)


@pytest.mark.fault("lns", "restart")
async def test_a_session_with_other_counters_is_known_by_nothing_of_before(rig):
    """What was claimed in it belongs to who it was; its next frame is the first of all."""
    _two_servers(rig)
    device = rig.provision("strict", f_cnt=10, relaxed_f_cnt=False)
    before = await hear(rig, device, "west", "north", confirmed=True)
    await rig.restart_lns(f_cnt_up=10, lns="lns-a")
    await rig.wait(seconds(30))
    after = await hear(rig, device, "west", confirmed=True)
    rig.expect(before, OWNED + LOST, owned="west", lost="north")
    rig.expect(after, OWNED, owned="west")


@pytest.mark.fault("store", "restart")
async def test_all_sessions_of_a_device_are_found_in_a_redis_that_had_forgotten_them(rig):
    """Its server writes both, the one in use and the one that nobody was heard in yet."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    unheard = [await rig.craft(rig.bravo) for _ in range(2)]
    await rig.bravo.join()
    await rig.restart_store(empty=True)
    for frame, station in zip(unheard, ("west", "north"), strict=True):
        await tell(rig, frame, station)
        await rig.wait(seconds(3))
    new = await hear(rig, rig.bravo, "north", confirmed=True)
    old, other = unheard
    for uplink, station in ((first, "west"), (old, "west"), (other, "north"), (new, "north")):
        rig.expect(uplink, FIRST, first=station)


@pytest.mark.fault("store", "restart")
async def test_an_old_session_is_found_in_a_redis_that_had_forgotten_it_before_a_join(rig):
    """The device has not heard the accept, and goes on where it was, through another server."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    unheard = await rig.craft(rig.bravo)
    joining = await rig.craft_join(rig.bravo)
    await rig.restart_store(empty=True)
    await tell(rig, joining, "west")
    await rig.wait(seconds(8))
    await tell(rig, unheard, "north")
    await rig.wait(seconds(3))
    for uplink, station in ((first, "west"), (joining, "west"), (unheard, "north")):
        rig.expect(uplink, FIRST, first=station)


@pytest.mark.fault("store", "restart")
@pytest.mark.parametrize(("then", "lorawan"), [("sends", "1.0.4"), ("joins", "1.0.3")])
async def test_a_redis_that_had_forgotten_the_nonces_of_a_device_is_told_them(rig, then, lorawan):
    """By whoever writes next of it; servers that begin again then go on where they were."""
    _two_servers(rig)
    device = rig.provision("joining", activation="otaa", lorawan=lorawan)
    rig.only("west")
    old = await device.join()
    uplinks = [await device.send(confirmed=True)]
    await rig.restart_store(empty=True)
    uplinks += [await (device.join() if then == "joins" else device.send(confirmed=True))]
    await _begin_again(rig)
    for station in ("west", "north"):
        await rig.replay(old, by=station, after=seconds(61))
    uplinks += [await device.join(), await device.send(confirmed=True)]
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
    rig.expect(old, FIRST + JOINED_ELSEWHERE * 2, first="west", elsewhere=("west", "north"))


@pytest.mark.fault("store", "cut")
async def test_a_session_that_ended_while_the_store_was_away_is_over_for_good(rig):
    """The write that ended it never arrived; the next one knows that it was there."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    unheard = await rig.craft(rig.bravo)
    await rig.bravo.join()
    rig.cut_store("lns-a")
    new = await hear(rig, rig.bravo, "west")
    await rig.restore_store("lns-a")
    after = await hear(rig, rig.bravo, "west", confirmed=True)
    await _begin_again(rig)
    await tell(rig, unheard, "west")
    await rig.wait(seconds(3))
    rig.expect(first, FIRST, first="west")
    rig.expect(new, UNVERIFIED, unverified="west")
    rig.expect(after, FIRST, first="west")
    rig.expect(unheard, OVER, over="west")


@pytest.mark.fault("store", "cut")
async def test_who_is_not_told_that_a_session_is_over_keeps_no_device_waiting(rig):
    """The new one is kept; that nobody is to look for the device by its old address waits."""
    _two_servers(rig)
    rig.only("west")
    await rig.bravo.join()
    first = await rig.bravo.send(confirmed=True)
    await rig.bravo.join()
    rig.slow_store(milliseconds(100), "lns-a")
    new = await rig.craft(rig.bravo, confirmed=True)
    await tell(rig, new, "west")
    await rig.wait(milliseconds(250))
    rig.cut_store("lns-a")
    await rig.wait(seconds(3))
    await rig.restore_store("lns-a")
    rig.expect(first, FIRST, first="west")
    rig.expect(new, FIRST, first="west")
