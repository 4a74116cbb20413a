"""Network servers with stations of their own: ADR 007, "Duplicates between LNS instances"."""

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from scenarios.telling import hear, tell
from scenarios.words import AGAIN, COPY, ELSEWHERE, ELSEWHERE_AGAIN, FIRST, STRANGE

JOINED_ELSEWHERE = Table("""
    strategy kind | elsewhere
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")
# A session that a later one has ended belongs to nobody.
OVER = Table("""
    strategy kind        | over
    *        *           | - dropped(UnknownDevice) NotAsked
""")
ONE_TOO_MANY = Table("""
    strategy kind        | limit
    *        confirmed   | DuplicateDueToResubmission dropped(ResubmissionLimit) Suppressed
""")
ON_PORT_0 = Table("""
    strategy kind        | first
    *        confirmed   | NonDuplicate dropped RX1
""")
NOT_HERE = Table("""
    strategy kind        | elsewhere
    *        confirmed   | - dropped(BelongsToAnotherServer) Suppressed
    *        unconfirmed | - dropped(BelongsToAnotherServer) NotAsked
""")


async def test_the_server_that_hears_first_owns_the_frame(rig, strategy, confirmed):
    """Both hear it; the first one answers, the other one does what its strategy says.

    Catalogue: G01.
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect_reply(uplink)


async def test_the_other_server_may_be_the_first(rig, strategy, confirmed):
    """Not the name of a server counts, but who claims first.

    Catalogue: G02.
    """
    rig.put_on("lns-b", "east")
    rig.west.delay_uplinks(milliseconds(150))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + ELSEWHERE, first="east", elsewhere="west")
    rig.expect_reply(uplink)


async def test_every_server_has_copies_of_its_own(rig, strategy, confirmed):
    """Two servers with two stations each: level 1 within each, level 2 between them.

    Catalogue: G18. The claim is of the session, whichever station heard.
    """
    rig.put_on("lns-b", "north", "south")
    for station, place in {"east": 1, "north": 2, "south": 3}.items():
        rig.station(station).delay_uplinks(milliseconds(120 * place))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(
        uplink,
        FIRST + COPY + ELSEWHERE + COPY,
        first="west",
        copy=("east", "south"),
        elsewhere="north",
    )


async def test_three_servers_and_five_stations(rig, strategy, confirmed):
    """However many servers hear a frame, one owns it, and each knows its own copies."""
    rig.put_on("lns-b", "north", "south")
    rig.put_on("lns-c", "uphill")
    for place, station in enumerate(("east", "north", "south", "uphill"), start=1):
        rig.station(station).delay_uplinks(milliseconds(110 * place))
    uplink = await rig.alpha.send(confirmed=confirmed)
    rig.expect(
        uplink,
        FIRST + COPY + ELSEWHERE + COPY + ELSEWHERE,
        first="west",
        copy=("east", "south"),
        elsewhere=("north", "uphill"),
    )
    rig.expect_reply(uplink)


async def test_a_newer_frame_may_have_another_owner(rig, strategy, confirmed):
    """Who owned the last frame has no right to the next one; its counter is known to both."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    first = await rig.alpha.send(confirmed=confirmed)
    rig.only("east")
    second = await rig.alpha.send(confirmed=confirmed)
    rig.only("west")
    third = await rig.alpha.send(confirmed=confirmed)
    for uplink, station in ((first, "west"), (second, "east"), (third, "west")):
        rig.expect(uplink, FIRST, first=station)
        rig.expect_reply(uplink)


async def test_a_retry_is_answered_by_its_owner(rig, strategy):
    """The answer is missed; the owner hears the retry and answers again.

    Catalogue: G04.
    """
    rig.put_on("lns-b", "east")
    rig.only("west")
    rig.west.suppress_downlinks(1)
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + AGAIN, first="west", again="west")
    rig.expect_reply(uplink)


async def test_a_retry_that_only_the_loser_hears_is_not_answered(rig, strategy):
    """The owner is deaf for the retry: the other server must not answer in its place.

    Catalogue: F06.
    """
    rig.put_on("lns-b", "east")
    rig.west.suppress_downlinks(1)
    rig.heard_by("west", "east")
    uplink = await rig.alpha.send(confirmed=True, retries=1)
    rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect_reply(uplink, "+EVT:SEND_CONFIRMED_FAILED(4)")


async def test_a_device_that_joined_through_one_server_is_known_to_the_other(
    rig, strategy, confirmed
):
    """Session and keys are shared; the other server takes the next frame."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    joining = await rig.bravo.join()
    rig.only("east")
    uplink = await rig.bravo.send(confirmed=confirmed)
    rig.expect(joining, FIRST, first="west")
    rig.expect(uplink, FIRST, first="east")
    rig.expect_reply(joining)
    rig.expect_reply(uplink)


async def test_a_join_that_both_hear_is_accepted_once(rig, strategy):
    """The DevNonce is used by the first; the other one refuses it."""
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(milliseconds(150))
    joining = await rig.bravo.join()
    rig.expect(joining, FIRST + JOINED_ELSEWHERE, first="west", elsewhere="east")
    rig.expect_reply(joining)


async def test_a_join_replayed_to_the_other_server_is_refused(rig, strategy):
    """A DevNonce that one server has accepted is used for all of them, and for ever."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    joining = await rig.bravo.join()
    await rig.replay(joining, by="east", after=seconds(61))
    rig.expect(joining, FIRST + JOINED_ELSEWHERE, first="west", elsewhere="east")


async def test_a_device_of_one_server_is_ignored_by_the_other(rig, strategy, confirmed):
    """A pinned device is nobody else's business, and nobody is asked.

    Catalogue: G16.
    """
    rig.put_on("lns-b", "east")
    pinned = rig.provision("pinned", f_cnt=70_010, server="lns-a")
    rig.west.delay_uplinks(milliseconds(150))
    uplink = await pinned.send(confirmed=confirmed)
    rig.expect(uplink, NOT_HERE + FIRST, elsewhere="east", first="west")
    rig.expect_reply(uplink)


async def test_the_name_of_a_server_may_begin_with_that_of_another_one(rig, confirmed):
    """What is pinned to lns-ab is no business of lns-a."""
    rig.put_on("lns-ab", "east")
    pinned = rig.provision("pinned", f_cnt=10, server="lns-ab")
    rig.east.delay_uplinks(milliseconds(150))
    uplink = await pinned.send(confirmed=confirmed)
    rig.expect(uplink, NOT_HERE + FIRST, elsewhere="west", first="east")
    rig.expect_reply(uplink)


@pytest.mark.fault("lns", "restart")
async def test_the_owner_restarts_between_two_frames(rig, strategy, confirmed):
    """What it owned it owns still, and the other server is not first for that."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplink = await rig.alpha.send(confirmed=confirmed)
    await rig.restart_lns()
    await rig.replay(uplink, by="east")
    after = await rig.alpha.send(confirmed=confirmed)
    rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect(after, FIRST, first="west")


async def test_the_counter_passes_sixteen_bits_between_two_servers(rig, strategy, confirmed):
    """After the roll-over the frame is newer, whichever server hears it.

    Catalogue: G13.
    """
    rig.put_on("lns-b", "east")
    device = rig.provision("veteran", f_cnt=65_535)
    rig.only("west")
    before = await device.send(confirmed=confirmed)
    rig.only("east")
    after = await device.send(confirmed=confirmed)
    rig.expect(before, FIRST, first="west")
    rig.expect(after, FIRST, first="east")


async def test_an_older_frame_that_nobody_else_heard_comes_too_late(rig, strategy, confirmed):
    """One server holds a frame back until the other has claimed a newer one: it is old then.

    Catalogue: G06.
    """
    rig.put_on("lns-b", "east")
    rig.east.delay_uplinks(seconds(10))
    rig.heard_by("west", "east", "west")
    first = await rig.alpha.send(confirmed=confirmed)
    older = await rig.alpha.send(confirmed=confirmed)
    newer = await rig.alpha.send(confirmed=confirmed)
    for uplink in (first, newer):
        rig.expect(uplink, FIRST, first="west")
    rig.expect(older, ELSEWHERE, elsewhere="east")


async def test_a_new_session_owes_nothing_to_the_old_one(rig, strategy, confirmed):
    """After another join the counter begins anew, and no claim of before counts.

    Catalogue: G15.
    """
    rig.put_on("lns-b", "east")
    rig.only("west")
    await rig.bravo.join()
    old = [await rig.bravo.send(confirmed=confirmed) for _ in range(2)]
    rig.only("east")
    await rig.bravo.join()
    new = await rig.bravo.send(confirmed=confirmed)
    for uplink in old:
        rig.expect(uplink, FIRST, first="west")
    rig.expect(new, FIRST, first="east")
    rig.expect_reply(new)


async def test_a_copy_of_a_session_that_was_learnt_is_a_copy(rig, strategy, confirmed):
    """Who joined through one server is known to the other by its first frame, which is a copy."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    await rig.bravo.join()
    rig.only("west", "east")
    rig.east.delay_uplinks(milliseconds(150))
    for uplink in [await rig.bravo.send(confirmed=confirmed) for _ in range(2)]:
        rig.expect(uplink, FIRST + ELSEWHERE, first="west", elsewhere="east")
        rig.expect_reply(uplink)


async def test_a_session_that_ended_at_one_server_is_over_for_the_other(rig, strategy, confirmed):
    """A frame of it that nobody had heard is replayed to the server that has not met the new one.

    The device joined again through the first server, and was heard there since.
    """
    rig.put_on("lns-b", "east")
    rig.only("west")
    await rig.bravo.join()
    old = await rig.bravo.send(confirmed=confirmed)
    rig.only("east")
    known = await rig.bravo.send(confirmed=confirmed)
    unheard = [await rig.craft(rig.bravo, confirmed=confirmed) for _ in range(2)]
    rig.only("west")
    await rig.bravo.join()
    new = await rig.bravo.send(confirmed=confirmed)
    for frame in unheard:
        await rig.say(rig.told(frame, by="east"), by="east")
    rig.only("east")
    after = await rig.bravo.send(confirmed=confirmed)
    for uplink, station in ((old, "west"), (known, "east"), (new, "west"), (after, "east")):
        rig.expect(uplink, FIRST, first=station)
    for frame in unheard:
        rig.expect(frame, OVER, over="east")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_no_dev_addr_is_given_twice(rig):
    """Not while another device has it, and not to the one that had it in a session that is over.

    Its messages are named by it, and servers tell each other by it which session is over.
    """
    rig.put_on("lns-b", "east")
    other = rig.provision("other", activation="otaa")
    rig.only("west")
    await other.join()
    for station in ("west", "east", "west"):
        rig.only(station)
        await rig.bravo.join()
        uplink = await rig.bravo.send()
        rig.expect(uplink, FIRST, first=station)


HEADS = {
    "ADR": {"adr": True},
    "ADRACKReq": {"adr": True, "adr_ack_req": True},
    "ACK": {"ack": True},
    "class B": {"class_b": True},
    "commands": {"f_opts": b"\x03\x07" * 7 + b"\x08"},
    "no port": {"port": None, "payload": b"", "f_opts": b"\x03\x07"},
    "neither": {"port": None, "payload": b""},
    "port 0": {"port": 0, "payload": b"\x03\x07"},
    "a long payload": {"payload": bytes(range(222))},
}


@pytest.mark.requires("virtual time")  # no wire has a part in it
@pytest.mark.parametrize("facts", HEADS.values(), ids=HEADS)
async def test_a_session_of_another_server_explains_whatever_its_frames_say(rig, facts):
    """The second server meets the device in the store, and reads its first frame once more."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    join = await rig.bravo.join()
    frame = await rig.craft(rig.bravo, confirmed=True, **facts)
    await rig.say(rig.told(frame, by="east"), by="east")
    await rig.wait(seconds(3))
    rig.expect(join, FIRST, first="west")
    rig.expect(frame, ON_PORT_0 if facts.get("port") == 0 else FIRST, first="east")


async def test_a_status_is_told_by_the_server_that_owns_its_frame(rig, strategy):
    """Two servers hear it, the application is told once."""
    rig.put_on("lns-b", "east")
    device = rig.provision("telling", f_cnt=10, strategy=strategy)
    frame = await rig.craft(device, f_opts=b"\x06\xff\x01")
    for station in ("west", "east"):
        await rig.say(rig.told(frame, by=station), by=station)
        await rig.wait(milliseconds(100))
    rig.expect(frame, FIRST + ELSEWHERE, first="west", elsewhere="east")
    rig.expect_status(device)


@pytest.mark.fault("lns", "restart")
async def test_the_answers_of_another_server_are_its_own(rig, strategy):
    """It has repeated them as often as it may; whoever reads so only now has repeated none."""
    rig.put_on("lns-b", "east")
    device = rig.provision("strict", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    frame = await rig.craft(device, confirmed=True)
    for _ in range(4):
        await rig.say(rig.told(frame, by="east"), by="east")
        await rig.wait(seconds(3))
    await rig.restart_lns()
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(3))
    owned = {"first": "east", "again": ("east",) * 3, "elsewhere": "west"}
    rig.expect(frame, FIRST + AGAIN * 3 + ELSEWHERE, **owned)


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_the_answers_of_another_server_to_an_old_first_message_are_its_own(rig, strategy):
    """It has repeated them as often as it may; a stranger's frame made the other one look it up."""
    rig.put_on("lns-b", "east")
    device = rig.provision("relaxed", f_cnt=0, strategy=strategy)
    first = await hear(rig, device, "west", "east", confirmed=True)
    later = await hear(rig, device, "east", "west", confirmed=True)
    for _ in range(3):
        await tell(rig, first, "west")
        await rig.wait(seconds(3))
    await rig.forge(device, by="east")
    await tell(rig, first, "east")
    rig.expect(later, FIRST + ELSEWHERE, first="east", elsewhere="west")
    owned = {"first": "west", "again": ("west",) * 3, "elsewhere": "east", "theirs": "east"}
    rig.expect(first, FIRST + ELSEWHERE + AGAIN * 3 + ELSEWHERE_AGAIN, **owned)


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_a_station_that_changes_its_server_brings_no_copy_under_a_name_of_before(
    rig, strategy
):
    """A stranger's frame made that one look the device up: it counts on from the other's copies."""
    rig.impersonate("east", by="twin")
    rig.put_on("lns-b", "twin")
    device = rig.provision("strict", f_cnt=10, strategy=strategy, relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", "east")
    await rig.forge(device, by="twin")
    await tell(rig, frame, "twin")
    rig.expect(frame, FIRST + COPY + ELSEWHERE, first="west", copy="east", elsewhere="twin")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_a_device_that_one_server_has_no_record_of_is_a_stranger_to_it(rig):
    """The store knows whose the address is, and that server cannot do anything with it."""
    rig.put_on("lns-b", "east")
    device = rig.provision("theirs", activation="otaa", only_at="lns-b")
    rig.only("east")
    join = await device.join()
    uplink = await device.send(confirmed=True)
    await tell(rig, uplink, "west")
    await rig.wait(seconds(1))
    after = await rig.alpha.send(confirmed=True)
    rig.expect(join, FIRST, first="east")
    rig.expect(uplink, FIRST + STRANGE, first="east", strange="west")
    rig.expect(after, FIRST, first="east")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_who_shares_an_address_with_a_stranger_is_looked_up_as_well(rig):
    """The store tells of both; another server alone has a record of the one that comes first."""
    rig.put_on("lns-b", "east")
    theirs = rig.provision("theirs", only_at="lns-b", dev_addr_text="26AB0001", f_cnt=10)
    ours = rig.provision("ours", dev_addr_text="26AB0001")
    before = [await hear(rig, theirs, "east")]
    before += [await hear(rig, ours, "east", f_cnt=16_000 * number) for number in range(1, 6)]
    found = await hear(rig, ours, "west", f_cnt=80_001)
    for frame in before:
        rig.expect(frame, FIRST, first="east")
    rig.expect(found, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_a_server_begins_again_while_another_one_is_down(rig):
    """Its own stations are all that it needs; the other one finds what was accepted meanwhile."""
    rig.put_on("lns-b", "east")
    rig.only("west")
    uplinks = [await rig.alpha.send(confirmed=True)]
    await rig.kill_lns("lns-b")
    await rig.restart_lns()
    uplinks.append(await rig.alpha.send(confirmed=True))
    await rig.start_lns("lns-b")
    uplinks.append(await rig.alpha.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")
async def test_what_is_new_in_a_record_all_servers_read(rig):
    """Each begins again with it; the first one does not wait for the stations of the others."""
    rig.put_on("lns-b", "east")
    delta = rig.provision("delta", adr=True)
    rig.only("west")
    before = await delta.send()
    await rig.change_record(delta, nb_trans=2)
    after = await delta.send(confirmed=True)
    for uplink in (before, after):
        rig.expect(uplink, FIRST, first="west")
    rig.expect_answer(after, f_opts_bytes=5)  # LinkADRReq


@pytest.mark.requires("virtual time")
async def test_a_device_that_is_given_to_a_server_is_nobody_elses_from_then_on(rig):
    """Another one had its frames before; what comes again is answered three times, and no more."""
    rig.put_on("lns-b", "east")
    device = rig.provision("moved", f_cnt=10, strategy="None", relaxed_f_cnt=False)
    before = await hear(rig, device, "east", "west")
    await rig.change_record(device, server="lns-a")
    after = await hear(rig, device, "west", confirmed=True)
    for _ in range(4):
        await tell(rig, after, "west")
        await rig.wait(seconds(3))
    rig.expect(before, FIRST + ELSEWHERE, first="east", elsewhere="west")
    answered = FIRST + AGAIN * 3
    rig.expect(after, answered + ONE_TOO_MANY, first="west", again=["west"] * 3, limit="west")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_a_server_counts_on_from_the_copies_of_another_where_those_are_more(rig):
    """It has forwarded one itself; a stranger's frame made it look the device up."""
    rig.impersonate("east", by="twin")
    rig.put_on("lns-b", "twin", "north")
    rig.station("south")
    device = rig.provision("strict", f_cnt=10, strategy="None", relaxed_f_cnt=False)
    frame = await hear(rig, device, "west", "north", "south", "east")
    await rig.forge(device, by="twin")
    await tell(rig, frame, "twin")
    copies = {"copy": ("south", "east", "twin")}
    rig.expect(frame, FIRST + ELSEWHERE + COPY * 3, first="west", elsewhere="north", **copies)
