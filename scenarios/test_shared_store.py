"""The store that network servers share is away, for one of them or for all.

ADR 007, part 2, and the configuration word `on_outage`. A server that cannot ask who owns a frame
never answers it; what it delivers is flagged (`open`), or it delivers nothing (`closed`).
"""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.words import AGAIN, FIRST, LOST, OVER, OWNED, UNVERIFIED

# A server that nobody tells who owns the frame; `on_outage` is "closed".
REFUSED = Table("""
    strategy kind        | refused
    *        confirmed   | NonDuplicate dropped(StoreUnavailable) Suppressed Unavailable
    *        unconfirmed | NonDuplicate dropped(StoreUnavailable) NotAsked Unavailable
""")

NO_JOIN = Table("""
    strategy kind | refused
    *        join | NonDuplicate dropped(StoreUnavailable) Suppressed
""")

# A pinned device while the store is away: its counters cannot be kept, so it is not answered.
PINNED = Table("""
    strategy kind        | pinned
    *        confirmed   | NonDuplicate forwarded Suppressed NotAsked
    *        unconfirmed | NonDuplicate forwarded NotAsked NotAsked
""")

# A resubmission that the server may not answer: nobody can make its counter durable.
WITHHELD = Table("""
    strategy kind        | withheld
    Drop     confirmed   | DuplicateDueToResubmission dropped(ResubmissionSuppressed) Suppressed
    Mark     confirmed   | DuplicateDueToResubmission marked Suppressed
    None     confirmed   | DuplicateDueToResubmission forwarded Suppressed
""")


# --- one server cut off -----------------------------------------------------------------------


@pytest.mark.fault("store", "partition")
async def test_a_server_cut_off_delivers_flagged_beside_a_healthy_one(rig, strategy, confirmed):
    """It cannot know that the other one owns the frame, and so does not answer it.

    After the partition it is asked and told again, without a restart.
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store("lns-b")
    divided = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store("lns-b")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(divided, OWNED + UNVERIFIED, owned="west", unverified="east")
    rig.expect_upstream(divided, through="east", unverified=True)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
    for uplink in (before, divided, after):
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "partition")
async def test_a_server_cut_off_takes_nothing_from_a_healthy_one(rig, strategy, confirmed):
    """It hears the frame first, and its copy is no reason for the other one not to answer."""
    rig.put_on("lns-b", "east")
    rig.west.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store("lns-b")
    divided = await rig.alpha.send(confirmed=confirmed)
    rig.expect(before, OWNED + LOST, owned="east", lost="west")
    rig.expect(divided, UNVERIFIED + OWNED, unverified="east", owned="west")
    for uplink in (before, divided):
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "partition")
async def test_a_server_cut_off_and_closed_drops_what_the_healthy_one_delivers(
    rig, strategy, confirmed
):
    """With `closed` there is one delivery, by the server that owns the frame."""
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store("lns-b")
    divided = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store("lns-b")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(divided, OWNED + REFUSED, owned="west", refused="east")
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "partition")
async def test_two_healthy_servers_agree_beside_one_that_is_cut_off(rig, strategy, confirmed):
    """Of those that can ask one owns the frame; the third delivers it flagged."""
    rig.put_on("lns-b", "east")
    rig.put_on("lns-c", "north")
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store("lns-b")
    divided = await rig.alpha.send(confirmed=confirmed)
    for uplink in (before, divided):
        rig.expect_race(uplink, OWNED + LOST, between=("west", "north"))
        rig.expect_reply(uplink)
    rig.expect(before, LOST, lost="east")
    rig.expect(divided, UNVERIFIED, unverified="east")


# --- the store away for all of them -----------------------------------------------------------


@pytest.mark.fault("store", "away")
async def test_without_the_store_every_server_delivers_flagged_and_none_answers(
    rig, strategy, confirmed
):
    """Nobody can say who owns the frame: each delivers it unverified; the next one has an owner.

    Catalogue: G10.
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store()
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, UNVERIFIED * 2, unverified=("west", "east"))
    rig.expect_on_air(during)
    for station in ("west", "east"):
        rig.expect_upstream(during, through=station, unverified=True)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "away")
async def test_without_the_store_closed_servers_deliver_nothing(rig, strategy, confirmed):
    """With `closed` a frame that nobody owns is dropped, and the next one is delivered again."""
    rig.put_on("lns-b", "east")
    rig.on_outage("closed")
    rig.east.delay_uplinks(milliseconds(150))
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store()
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store()
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(during, REFUSED * 2, refused=("west", "east"))
    rig.expect_on_air(during)
    for uplink in (before, after):
        rig.expect(uplink, OWNED + LOST, owned="west", lost="east")
        rig.expect_reply(uplink)


@pytest.mark.fault("store", "away")
async def test_what_a_closed_server_dropped_is_new_when_it_comes_again(rig, strategy, confirmed):
    """It was not delivered, so it was not heard: neither level 1 nor the counter knows it."""
    rig.put_on("lns-b", "north")
    rig.on_outage("closed")
    rig.only("west")
    before = await rig.alpha.send(confirmed=confirmed)
    rig.cut_store()
    during = await rig.alpha.send(confirmed=confirmed)
    await rig.restore_store()
    await rig.replay(during, by="east")
    rig.expect(before, OWNED, owned="west")
    rig.expect(during, REFUSED + OWNED, refused="west", owned="east")


@pytest.mark.parametrize("word", ["open", "closed"])
@pytest.mark.fault("store", "away")
async def test_without_the_store_nobody_joins(rig, strategy, word):
    """A DevNonce that cannot be used for ever is not used: the join is as new as before."""
    rig.put_on("lns-b", "east")
    rig.on_outage(word)
    rig.east.delay_uplinks(milliseconds(150))
    await rig.alpha.send()
    rig.cut_store()
    refused = await rig.bravo.join()
    await rig.restore_store()
    rig.only("west")
    joining = await rig.bravo.join()
    rig.only("east")
    uplink = await rig.bravo.send(confirmed=True)
    rig.expect(refused, NO_JOIN * 2, refused=("west", "east"))
    rig.expect(joining, FIRST, first="west")
    rig.expect(uplink, OWNED, owned="east")
    rig.expect_reply(joining)
    rig.expect_reply(uplink)


@pytest.mark.parametrize("word", ["open", "closed"])
@pytest.mark.fault("store", "away")
async def test_a_pinned_device_needs_nobody_to_be_asked(rig, strategy, confirmed, word):
    """It has one server, which delivers it without a flag, whatever is to be done in an outage.

    It is not answered: counters that cannot be kept are not used.
    """
    rig.put_on("lns-b", "north")
    rig.on_outage(word)
    rig.only("west")
    pinned = rig.provision("pinned", f_cnt=10, server="lns-a")
    before = await pinned.send(confirmed=confirmed)
    rig.cut_store()
    during = await pinned.send(confirmed=confirmed)
    await rig.restore_store()
    after = await pinned.send(confirmed=confirmed)
    rig.expect(during, PINNED, pinned="west")
    rig.expect_upstream(during, through="west", unverified=None)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "away")
@pytest.mark.parametrize("server", [None, "lns-a"], ids=["anybody's", "pinned"])
async def test_a_repeat_that_the_store_did_not_let_out_is_not_spent(rig, strategy, server):
    """The application may have it again, the device was not answered: three answers are left."""
    device = rig.provision("repeating", f_cnt=10, server=server)
    rig.only("west")
    rig.west.suppress_downlinks(9)
    uplink = await device.send(confirmed=True)
    rig.cut_store()
    for _ in range(2):
        await rig.replay(uplink, by="west", after=seconds(4))
    await rig.wait(seconds(1))
    await rig.restore_store()
    for _ in range(4):
        await rig.replay(uplink, by="west", after=seconds(4))
    due = FIRST + WITHHELD * 2 + AGAIN * 3 + OVER
    rig.expect(uplink, due, first="west", withheld="west", again="west", over="west")


@pytest.mark.requires("virtual time")
@pytest.mark.fault("store", "cut")
async def test_a_stranger_is_looked_up_again_when_the_store_is_back(rig):
    """The store was away when its frame was first heard; the device says it again, bit by bit."""
    rig.put_on("lns-b", "east")
    device = rig.provision("new", activation="otaa")
    rig.only("east")
    join = await device.join()
    frame = await rig.craft(device)
    rig.cut_store("lns-a")
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(milliseconds(100))
    await rig.restore_store("lns-a")
    await rig.wait(seconds(1))
    await rig.say(rig.told(frame, by="west"), by="west")
    strange = Table("""
        strategy kind | strange
        *        *    | - dropped(UnknownDevice) NotAsked
    """)
    rig.expect(join, FIRST, first="east")
    rig.expect(frame, strange + FIRST, strange="west", first="west")
