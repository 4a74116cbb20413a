"""How often, how many and whose: joins at the edges of what a network server takes."""

from functools import reduce
from operator import and_, or_

import pytest

from bench.clock import milliseconds, seconds
from bench.verdict.expectation import Table
from bench.virtual import crafted
from scenarios.telling import tell
from scenarios.words import COPY, FIRST, FORGED, LOST, OWNED, UNVERIFIED

pytestmark = pytest.mark.requires("virtual time")  # no wire has a part in it

USED = Table("""
    strategy kind | used
    *        join | NonDuplicate dropped(DevNonceUsed) Suppressed
""")
UNKNOWN = Table("""
    strategy kind | unknown
    *        join | - dropped(UnknownDevice) NotAsked
""")
GONE = Table("""
    strategy kind | gone
    *        *    | - dropped(UnknownDevice) NotAsked
""")
OLD = Table("""
    strategy kind        | old
    *        confirmed   | NonDuplicate dropped(InvalidFrameCounter) Suppressed
    *        unconfirmed | NonDuplicate dropped(InvalidFrameCounter) NotAsked
""")
THEIRS = Table("""
    strategy kind | theirs
    *        join | - dropped(BelongsToAnotherServer) Suppressed
""")
NOT_KEPT = Table("""
    strategy kind | unkept
    *        join | NonDuplicate dropped(StoreUnavailable) Suppressed
""")
TOO_LATE = Table("""
    strategy kind | first
    *        join | NonDuplicate dropped TooLate
""")
JOIN_NONCE_MAX = (1 << 24) - 1


async def test_the_last_join_nonce_is_one(rig):
    """24 bits: after the greatest there is none, and nobody is accepted with one of before.

    The request was heard all the same: what comes through another station is a copy of it.
    """
    device = rig.provision("veteran", activation="otaa", join_nonce_min=JOIN_NONCE_MAX)
    rig.only("west")
    last = await device.join()
    uplink = await device.send(confirmed=True)
    rig.only("west", "east")
    rig.east.delay_uplinks(milliseconds(100))
    after = await device.join()
    rig.expect(last, FIRST, first="west")
    rig.expect(uplink, FIRST, first="west")
    rig.expect(after, USED + COPY, used="west", copy="east")
    for frame in (last, uplink):
        rig.expect_reply(frame)


async def test_a_station_that_is_late_with_joins_is_told_of(rig):
    """A device that cannot join is not answered either: five in a row, until one is."""
    device = rig.provision("patient", activation="otaa")
    rig.only("west")
    for nonce, late in enumerate((True,) * 5 + (False,), 1):
        join = await rig.craft_join(device, dev_nonce=nonce)
        text = rig.told(join, by="west")
        await rig.wait(seconds(7) if late else 0)
        await rig.say(text, by="west")
        await rig.wait(seconds(7))
        rig.expect(join, TOO_LATE if late else FIRST, first="west")
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_a_station_that_is_late_is_told_of_whoever_else_answers(rig):
    """The one beside it is in time with every other join; five of the first one are five in a row.

    Until it answers one itself.
    """
    device = rig.provision("patient", activation="otaa")
    await rig.start()
    for nonce in range(1, 12):
        station, late = ("east", False) if nonce % 2 == 0 else ("west", nonce < 11)
        join = await rig.craft_join(device, dev_nonce=nonce)
        text = rig.told(join, by=station)
        await rig.wait(seconds(7) if late else 0)
        await rig.say(text, by=station)
        await rig.wait(seconds(7))
        rig.expect(join, TOO_LATE if late else FIRST, first=station)
    rig.expect_finding("too late", owner="gateway", about="west")


async def test_every_bit_of_a_nonce_is_in_the_keys(rig):
    """A session that no frame has used yet has the keys that its join has agreed on."""
    device = rig.provision("patient", activation="otaa")
    rig.only("west")
    for nonce in (0x00FF, 0x7F00, 0x8000, 0xFFFF):
        join = await rig.craft_join(device, dev_nonce=nonce)
        await rig.say(rig.told(join, by="west"), by="west")
        await rig.wait(seconds(7))
        rig.expect(join, FIRST, first="west")


async def test_every_bit_of_an_address_is_drawn(rig):
    """25 bits behind the seven of the network: in 24 joins each of them is set, and is not."""
    device = rig.provision("patient", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    for nonce in range(1, 25):
        join = await rig.craft_join(device, dev_nonce=nonce)
        await rig.say(rig.told(join, by="west"), by="west")
        await rig.wait(seconds(7))
        rig.expect(join, FIRST, first="west")
    drawn = [int(dev_addr, 16) for dev_addr, _ in rig.sessions_opened(device.provisioned)]
    once, always = reduce(or_, drawn), reduce(and_, drawn)
    rig.expect_said("bits of DevAddr that change", f"{0x01FFFFFF:08X}", f"{once ^ always:08X}")


async def test_a_join_nonce_begins_where_its_record_says(rig):
    """A device that another network has served takes no JoinNonce below those that it has seen."""
    device = rig.provision("moved", activation="otaa", join_nonce_min=1_000)
    rig.only("west")
    for _ in range(2):
        join = await device.join()
        rig.expect(join, FIRST, first="west")
        rig.expect_reply(join)


async def test_a_counted_nonce_between_two_is_old(rig):
    """LoRaWAN 1.0.4, 6.2.4: only what is above all of before is new; a copy of it is a copy."""
    device = rig.provision("counting", activation="otaa", lorawan="1.0.4")
    rig.only("west")
    begun = (0, FIRST), (0, USED), (5, FIRST), (9, FIRST)
    for nonce, words in (*begun, (7, USED), (8, USED), (9, USED), (10, FIRST)):
        join = await rig.craft_join(device, dev_nonce=nonce)
        await tell(rig, join, "west", "east")
        await rig.wait(seconds(61))
        heard = {"used" if words is USED else "first": "west"}
        rig.expect(join, words + COPY, **heard, copy="east")


async def test_a_nonce_counts_from_what_another_server_has_heard(rig):
    """LoRaWAN 1.0.4, 6.2.4: a server that has heard no join of a device looks before it judges."""
    rig.put_on("lns-b", "east")
    device = rig.provision("counting", activation="otaa", lorawan="1.0.4")
    await rig.start()
    for nonce, station, words in ((9, "west", FIRST), (7, "east", USED), (10, "east", FIRST)):
        join = await rig.craft_join(device, dev_nonce=nonce)
        await rig.say(rig.told(join, by=station), by=station)
        await rig.wait(seconds(7))
        rig.expect(join, words, **{"used" if words is USED else "first": station})


async def test_a_personalised_device_cannot_join(rig):
    """It has an address and keys; whoever asks in its name is nobody."""
    rig.only("west")
    join = await rig.craft_join(rig.alpha, dev_nonce=1)
    await rig.say(rig.told(join, by="west"), by="west")
    uplink = await rig.alpha.send(confirmed=True)
    rig.expect(join, UNKNOWN, unknown="west")
    rig.expect(uplink, FIRST, first="west")


@pytest.mark.parametrize("station", ["west", "east"])
async def test_a_device_of_one_server_joins_there_only(rig, station):
    """The other server knows it, and whose it is; it has not used its DevNonce up."""
    rig.put_on("lns-b", "east")
    owner = {"west": "lns-a", "east": "lns-b"}[station]
    other = {"west": "east", "east": "west"}[station]
    device = rig.provision("pinned", activation="otaa", server=owner)
    join = await rig.craft_join(device)
    for by in (other, other, station):
        await rig.say(rig.told(join, by=by), by=by)
        await rig.wait(milliseconds(100))
    forged = await rig.forge_join(device, by=other)
    rig.expect(join, THEIRS * 2 + FIRST, theirs=other, first=station)
    rig.expect(forged, FORGED, forged=other)


@pytest.mark.parametrize(("unheard", "words"), [(7, FIRST), (8, GONE)], ids=["seven", "eight"])
async def test_eight_sessions_wait_for_their_first_frame(rig, unheard, words):
    """A device that never sent in its session keeps it through seven joins that it did not hear."""
    device = rig.provision("waiting", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    join = await device.join()
    frame = await rig.craft(device)
    others = [await rig.craft_join(device, dev_nonce=100 + n) for n in range(unheard)]
    for other in others:
        await rig.say(rig.told(other, by="west"), by="west")
        await rig.wait(seconds(7))
    await rig.say(rig.told(frame, by="west"), by="west")
    for one in (join, *others):
        rig.expect(one, FIRST, first="west")
    rig.expect(frame, words, **{"first" if words is FIRST else "gone": "west"})


@pytest.mark.fault("store", "cut")
async def test_a_join_that_was_not_kept_is_new_when_it_comes_again(rig):
    """What the store did not take was not heard; nor is its DevNonce used, at any server."""
    rig.put_on("lns-b", "east")
    join = await rig.craft_join(rig.bravo)
    rig.cut_store("lns-a")
    await rig.say(rig.told(join, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.restore_store("lns-a")
    await rig.say(rig.told(join, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.say(rig.told(join, by="east"), by="east")
    rig.expect(join, NOT_KEPT + FIRST + USED, unkept="west", first="west", used="east")


@pytest.mark.fault("store", "cut")
async def test_a_session_that_was_not_kept_is_none(rig):
    """The store goes away between the JoinNonce and the session: the one before is in use still."""
    rig.put_on("lns-b", "east")
    device = rig.provision("pinned", activation="otaa", server="lns-a", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    frame = await rig.craft(device, confirmed=True)
    unkept = await rig.craft_join(device, dev_nonce=777)
    rig.slow_store(milliseconds(100), "lns-a")
    await rig.say(rig.told(unkept, by="west"), by="west")
    await rig.wait(milliseconds(50))
    rig.cut_store("lns-a")
    await rig.wait(seconds(1))
    await rig.restore_store("lns-a")
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.expect(before, FIRST, first="west")
    rig.expect(unkept, NOT_KEPT, unkept="west")
    rig.expect(frame, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_whoever_may_have_joined_elsewhere_is_looked_up(rig):
    """A device of one server is not: it needs two questions, and the store takes no third one."""
    rig.put_on("lns-b", "east")
    pinned = rig.provision("pinned", activation="otaa", server="lns-a")
    for device, words, column in ((pinned, FIRST, "first"), (rig.bravo, NOT_KEPT, "unkept")):
        join = await rig.craft_join(device)
        rig.slow_store(milliseconds(100), "lns-a")
        await rig.say(rig.told(join, by="west"), by="west")
        await rig.wait(milliseconds(150))
        rig.cut_store("lns-a")
        await rig.wait(seconds(2))
        await rig.restore_store("lns-a")
        rig.expect(join, words, **{column: "west"})


@pytest.mark.fault("store", "slow")
async def test_what_is_read_of_a_device_meanwhile_ends_no_join(rig):
    """A forged frame makes the server look; the session that is being kept then is not lost."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    join = await rig.craft_join(device, dev_nonce=777)
    rig.slow_store(milliseconds(100), "lns-a")
    await rig.say(rig.told(join, by="west"), by="west")
    await rig.wait(milliseconds(30))
    await rig.forge(device, by="west")
    rig.cut_store("lns-a")
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    frame = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(frame)
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(1))
    for one in (before, join):
        rig.expect(one, FIRST, first="west")
    rig.expect(frame, UNVERIFIED, unverified="west")


@pytest.mark.fault("lns", "restart")
async def test_what_a_server_reads_at_its_start_is_heard_in_any_session(rig, confirmed):
    """A join that nobody heard is newer than the session in use; a frame of that is an old one."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3", strategy="Drop")
    rig.only("west")
    before = await device.join()
    frames = [await rig.craft(device, confirmed=confirmed) for _ in range(2)]
    for frame in frames:
        await tell(rig, frame, "east", "west")
        await rig.wait(seconds(8))
    unheard = await rig.craft_join(device, dev_nonce=777)
    await tell(rig, unheard, "west")
    await rig.wait(seconds(8))
    await rig.restart_lns()
    await rig.wait(seconds(61))
    await tell(rig, frames[0], "west")
    await rig.wait(seconds(3))
    for join in (before, unheard):
        rig.expect(join, FIRST, first="west")
    rig.expect(frames[0], OWNED + LOST + OLD, owned="east", lost="west", old="west")
    rig.expect(frames[1], OWNED + LOST, owned="east", lost="west")


@pytest.mark.fault("store", "slow")
async def test_what_is_read_of_a_device_meanwhile_makes_no_join_an_old_one(rig):
    """A late frame of the session before ends no session that was opened since."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    late = await rig.craft(device)
    join = await rig.craft_join(device, dev_nonce=777)
    rig.slow_store(milliseconds(100), "lns-a")
    await rig.say(rig.told(join, by="west"), by="west")
    await rig.wait(milliseconds(30))
    await rig.forge(device, by="west")
    await rig.wait(seconds(8))
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    frame = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(frame)
    for one in (late, frame):
        await rig.say(rig.told(one, by="west"), by="west")
        await rig.wait(seconds(1))
    for one in (before, join, late, frame):
        rig.expect(one, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_of_two_servers_that_wait_for_the_store_one_accepts_a_join(rig):
    """Both have asked before either is told; the DevNonce is used once."""
    rig.put_on("lns-b", "east")
    rig.slow_store(milliseconds(50))
    join = await rig.craft_join(rig.bravo)
    for station in ("west", "east"):
        await rig.say(rig.told(join, by=station), by=station)
    await rig.wait(seconds(2))
    await rig.restore_store()
    rig.expect_race(join, FIRST + USED, between=("west", "east"))


@pytest.mark.parametrize("net_id", ["C0FFD3", "0000AC", "FFFF80"])
async def test_an_address_begins_with_the_seven_lowest_bits_of_the_net_id(rig, net_id):
    """NwkID, then 25 bits that nobody else uses, though chance draws each of them twice here."""
    rig.in_network(net_id)
    rig.only("west")
    devices = [rig.provision(f"device-{number}", activation="otaa") for number in range(4)]
    for device in devices:
        join = await device.join()
        uplink = await device.send(confirmed=True)
        rig.expect(join, FIRST, first="west")
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


ORDERS = {
    "middle": (1, 0, 2, 1),
    "middle twice": (1, 1, 2),
    "newest": (2, 0, 1),
    "one by one": (0, 1, 2),
}


@pytest.mark.parametrize("order", ORDERS.values(), ids=ORDERS)
async def test_a_frame_ends_the_sessions_before_its_own(rig, order):
    """And no newer one: the device may not have heard yet that it was accepted again."""
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    frames = []
    for _ in range(3):
        rig.expect(await device.join(), FIRST, first="west")
        frames.append([await rig.craft(device, confirmed=True) for _ in range(2)])
    newest = 0
    for number in order:
        frame = frames[number].pop(0)
        await rig.say(rig.told(frame, by="west"), by="west")
        await rig.wait(seconds(3))
        is_over = number < newest
        rig.expect(frame, GONE if is_over else FIRST, **{"gone" if is_over else "first": "west"})
        newest = max(newest, number)


async def test_a_session_that_nobody_has_sent_in_is_not_spoken_to(rig):
    """A class C device has not heard the last accept: it listens in the session before.

    Nor while that accept is on the air: at DR0 it takes more than a second.
    """
    device = rig.provision("listening", activation="otaa", lorawan="1.0.3", device_class="C")
    rig.only("west")
    join = await device.join()
    before = await device.send()
    unheard = await rig.craft_join(device, dev_nonce=777)
    await rig.say(rig.told(unheard, by="west", dr=0), by="west")
    await rig.wait(milliseconds(5_300))
    await rig.queue_downlink(device, payload=b"on", port=8)
    await rig.wait(seconds(7))
    after = await device.send()
    for frame in (join, before, unheard, after):
        rig.expect(frame, FIRST, first="west")
    rig.expect_downlink(device, b"on", port=8, window="C")


async def test_what_waits_for_the_air_goes_in_the_session_that_is_used_by_then(rig):
    """Its first frame comes too late for an answer, while the downlink before is on the air."""
    device = rig.provision("listening", activation="otaa", lorawan="1.0.3", device_class="C")
    rig.only("west")
    join = await device.join()
    before = await device.send()
    rejoin = await rig.craft_join(device, dev_nonce=777)
    await rig.say(rig.told(rejoin, by="west"), by="west")
    await rig.wait(seconds(7))
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    frame = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(frame)
    text = rig.told(frame, by="west")
    await rig.wait(seconds(2))
    for number in range(2):
        await rig.queue_downlink(device, payload=bytes([number]) * 50, port=8)
    await rig.wait(seconds(1))
    await rig.say(text, by="west")
    await rig.wait(seconds(7))
    for one in (join, before, rejoin, frame):
        rig.expect(one, FIRST, first="west")


@pytest.mark.fault("store", "cut")
async def test_a_join_that_was_not_kept_takes_no_room(rig):
    """Eight sessions wait for their first frame, and the oldest of them is not given up for it.

    The store stays away, so nobody can look a session up.
    """
    device = rig.provision("waiting", activation="otaa", lorawan="1.0.3", server="lns-a")
    rig.only("west")
    join = await device.join()
    frame = await rig.craft(device)
    *others, unkept = [await rig.craft_join(device, dev_nonce=100 + n) for n in range(8)]
    for other in others:
        await rig.say(rig.told(other, by="west"), by="west")
        await rig.wait(seconds(7))
    rig.slow_store(milliseconds(100))
    await rig.say(rig.told(unkept, by="west"), by="west")
    await rig.wait(milliseconds(50))
    rig.cut_store()
    await rig.wait(seconds(1))
    await rig.say(rig.told(frame, by="west"), by="west")
    for one in (join, *others, frame):
        rig.expect(one, FIRST, first="west")
    rig.expect(unkept, NOT_KEPT, unkept="west")


@pytest.mark.fault("store", "slow")
async def test_a_join_that_was_not_kept_takes_nothing_from_one_that_was(rig):
    """The second is accepted while the first still waits for a store that does not answer."""
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3", server="lns-a")
    rig.only("west")
    await rig.start()
    unkept = await rig.craft_join(device, dev_nonce=777)
    rig.slow_store(milliseconds(100))
    await rig.say(rig.told(unkept, by="west"), by="west")
    await rig.wait(milliseconds(50))
    rig.slow_store(seconds(1))
    await rig.wait(milliseconds(100))
    await rig.restore_store()
    join = await rig.craft_join(device)
    await rig.say(rig.told(join, by="west"), by="west")
    await rig.wait(seconds(1))
    rig.cut_store()
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    frame = crafted.data(device.dev_eui, dev_addr, keys, 0, session=1)
    rig.announce(frame)
    await rig.say(rig.told(frame, by="west"), by="west")
    rig.expect(unkept, NOT_KEPT, unkept="west")
    for one in (join, frame):
        rig.expect(one, FIRST, first="west")


@pytest.mark.fault("store", "slow")
async def test_a_join_that_was_not_kept_takes_no_room_when_others_end_meanwhile(rig):
    """A frame ends the first session while the store takes no other one: eight still wait.

    They are those of the joins after it; the store is away then, so nobody looks one up.
    """
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3", server="lns-a")
    rig.only("west")
    joins = [await device.join()]
    before = await device.send()
    joins.append(await device.join())
    frame = await rig.craft(device)
    *waiting, unkept, one, last = [
        await rig.craft_join(device, dev_nonce=100 + n) for n in range(9)
    ]
    for join in waiting:
        await rig.say(rig.told(join, by="west"), by="west")
        await rig.wait(seconds(7))
    rig.slow_store(milliseconds(100))
    await rig.say(rig.told(unkept, by="west"), by="west")
    await rig.wait(milliseconds(50))
    rig.slow_store(seconds(1))
    await rig.wait(milliseconds(100))
    await rig.say(rig.told(frame, by="west"), by="west")
    await rig.wait(seconds(1))
    await rig.restore_store()
    for join in (one, last):
        await rig.say(rig.told(join, by="west"), by="west")
        await rig.wait(seconds(7))
    rig.cut_store()
    dev_addr, keys = rig.sessions_opened(device.provisioned)[2]
    oldest = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(oldest)
    await rig.say(rig.told(oldest, by="west"), by="west")
    for heard in (*joins, before, *waiting, one, last, frame, oldest):
        rig.expect(heard, FIRST, first="west")
    rig.expect(unkept, NOT_KEPT, unkept="west")


@pytest.mark.requires("slow application")
async def test_a_join_ends_no_session_whose_first_frame_is_on_its_way(rig):
    """The one before it is in use as well until the application has that frame."""
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    join, before, again = await device.join(), await device.send(), await device.join()
    frame, after = [await rig.craft(device) for _ in range(2)]
    unheard = await rig.craft_join(device, dev_nonce=777)
    rig.delay_upstream(seconds(3))
    for one in (frame, unheard, after):
        await rig.say(rig.told(one, by="west"), by="west")
        await rig.wait(milliseconds(500) if one is frame else seconds(7))
    for one in (join, before, again, frame, unheard, after):
        rig.expect(one, FIRST, first="west")


@pytest.mark.fault("lns", "restart")
async def test_no_session_is_lost_that_another_server_has_opened(rig):
    """East has opened two that nobody has heard of, when west keeps the session in use."""
    rig.put_on("lns-b", "east")
    device = rig.provision("joining", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    unheard = [await rig.craft_join(device, dev_nonce=100 + n) for n in range(2)]
    for join in unheard:
        await rig.say(rig.told(join, by="east"), by="east")
        await rig.wait(seconds(7))
    frame = await device.send()
    await rig.restart_lns(lns="lns-b")
    dev_addr, keys = rig.sessions_opened(device.provisioned)[1]
    later = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(later)
    await rig.say(rig.told(later, by="east"), by="east")
    for one, station in ((before, "west"), (frame, "west"), (later, "east")):
        rig.expect(one, FIRST, first=station)
    for join in unheard:
        rig.expect(join, FIRST, first="east")


@pytest.mark.fault("store", "slow")
async def test_a_join_that_is_kept_ends_no_other_one(rig):
    """Another device's, a moment before; a forged frame makes the server look at this one's."""
    rig.put_on("lns-b", "east")
    devices = [
        rig.provision(name, activation="otaa", lorawan="1.0.3") for name in ("other", "joining")
    ]
    rig.only("west")
    before = [await device.join() for device in devices]
    joins = [await rig.craft_join(device, dev_nonce=777) for device in devices]
    rig.slow_store(milliseconds(100), "lns-a")
    await tell(rig, joins[0], "west")
    await rig.wait(milliseconds(95))
    await tell(rig, joins[1], "west")
    await rig.wait(milliseconds(20))
    await rig.forge(devices[1], by="west")
    await rig.wait(milliseconds(500))
    rig.cut_store("lns-a")
    device = devices[1]
    dev_addr, keys = rig.sessions_opened(device.provisioned)[-1]
    frame = crafted.data(device.dev_eui, dev_addr, keys, 0, session=device.session.number + 1)
    rig.announce(frame)
    await tell(rig, frame, "west")
    await rig.wait(seconds(1))
    for one in (*before, *joins):
        rig.expect(one, FIRST, first="west")
    rig.expect(frame, UNVERIFIED, unverified="west")


@pytest.mark.fault("store", "slow")
async def test_a_dev_nonce_below_one_that_is_being_used_is_used(rig):
    """LoRaWAN 1.0.4, 6.2.4: it is a counter, whether or not the higher one has been kept yet."""
    rig.put_on("lns-b", "east")
    device = rig.provision("counting", activation="otaa")
    rig.only("west")
    before = await device.join()
    higher, lower = [await rig.craft_join(device, dev_nonce=nonce) for nonce in (9, 8)]
    rig.slow_store(milliseconds(100), "lns-a")
    await tell(rig, higher, "west")
    await rig.wait(milliseconds(20))
    await tell(rig, lower, "west")
    await rig.wait(seconds(8))
    await rig.restore_store("lns-a")
    for join in (before, higher):
        rig.expect(join, FIRST, first="west")
    rig.expect(lower, USED, used="west")


@pytest.mark.fault("store", "slow")
async def test_two_joins_of_a_device_are_kept_side_by_side(rig):
    """The second one comes while the first one is on its way to the store."""
    rig.put_on("lns-b", "east")
    device = rig.provision("drawing", activation="otaa", lorawan="1.0.3")
    rig.only("west")
    before = await device.join()
    joins = [await rig.craft_join(device, dev_nonce=nonce) for nonce in (9, 8)]
    rig.slow_store(milliseconds(100), "lns-a")
    for join in joins:
        await tell(rig, join, "west")
        await rig.wait(milliseconds(20))
    await rig.wait(seconds(8))
    await rig.restore_store("lns-a")
    for join in (before, *joins):
        rig.expect(join, FIRST, first="west")
