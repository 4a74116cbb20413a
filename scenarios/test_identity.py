"""Which fields make two frames the same: ADR 007, "DevEui, Mic and frame counter"."""

import pytest

from bench.clock import seconds
from bench.virtual import crafted
from lns.lorawan.crypto import SessionKeys
from scenarios.telling import tell
from scenarios.words import FIRST, FORGED, STRANGE

# Two devices, one counter (10), one MIC: found by birthday search under these keys.
ONE = ("01020304", SessionKeys(
    bytes.fromhex("44024241ed4ce9a68c6a8bc055233fd3"),
    bytes.fromhex("ec925802ae430ca77fd3dd73cb2cc588"),
))  # fmt: skip
OTHER = ("01020305", SessionKeys(
    bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"),
    bytes.fromhex("2b7e151628aed2a6abf7158809cf4f3c"),
))  # fmt: skip
EQUAL_MICS = {
    True: ("8004030201000a000160307e6470186a4a", "8005030201000a0001aa17869d70186a4a"),
    False: ("4004030201000a00016030a81d701f0cdb", "4005030201000a0001aa17a489701f0cdb"),
}


async def test_equal_mics_of_two_devices_are_two_frames(rig, strategy, confirmed):
    """The DevEUI is part of the key: what another device sent is no copy."""
    one, other = (
        rig.provision(name, dev_addr_text=dev_addr, keys=keys, f_cnt=10)
        for name, (dev_addr, keys) in {"one": ONE, "other": OTHER}.items()
    )
    first, second = EQUAL_MICS[confirmed]
    ours = await rig.hear(first, of=one, f_cnt=10, by="west")
    theirs = await rig.hear(second, of=other, f_cnt=10, by="east")
    rig.expect(ours, FIRST, first="west")
    rig.expect(theirs, FIRST, first="east")


NOBODY = "70B3D57ED000FFFF"
BEFORE = {
    "both": (OTHER, STRANGE),
    "address": ((OTHER[0], ONE[1]), STRANGE),
    "keys": ((ONE[0], OTHER[1]), FORGED),
}


@pytest.mark.requires("virtual time")  # no wire has a part in it
@pytest.mark.parametrize(("before", "words"), BEFORE.values(), ids=BEFORE)
async def test_a_device_that_was_personalised_anew_is_known_as_it_is_now(rig, before, words):
    """The store has a session with what it had before: nobody sends in that any more."""
    device = rig.provision("anew", dev_addr_text=ONE[0], keys=ONE[1], before=before)
    rig.only("west")
    uplinks = [await device.send(confirmed=True) for _ in range(2)]
    # Of an address that no device has, nobody can say whose it is.
    sender = device.dev_eui if before[0] == ONE[0] else NOBODY
    old = crafted.data(sender, *before, 501)
    rig.announce(old, genuine=False)
    await rig.say(rig.told(old, by="west"), by="west")
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)
    rig.expect(old, words, **{"strange" if words is STRANGE else "forged": "west"})


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_however_many_share_an_address_each_is_known_by_its_mic(rig, confirmed):
    """Nobody sees to it that no two devices are personalised with the same one."""
    alike = [rig.provision(f"device-{n}", dev_addr_text="01000009") for n in range(20)]
    rig.only("west")
    for device in alike:
        uplink = await device.send(confirmed=confirmed)
        rig.expect(uplink, FIRST, first="west")


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_whoever_shares_an_address_is_not_forgotten_with_it(rig):
    """A forged frame makes a server look up who has it; one of the two has not been heard yet."""
    rig.put_on("lns-b", "east")
    heard, unheard = (rig.provision(name, dev_addr_text=ONE[0]) for name in ("heard", "unheard"))
    rig.only("west")
    before = await heard.send()
    forged = await rig.forge(heard, by="west")
    uplinks = [await device.send(confirmed=True) for device in (unheard, heard)]
    for uplink in (before, *uplinks):
        rig.expect(uplink, FIRST, first="west")
    rig.expect(forged, FORGED, forged="west")


@pytest.mark.requires("virtual time")  # no wire has a part in it
@pytest.mark.fault("lns", "restart")
async def test_a_session_with_other_keys_is_another_one_in_the_store_of_two_servers(rig):
    """One address, and a counter of the device as it was once: it is none of the new session's."""
    rig.put_on("lns-b", "east")
    facts = {"before": (ONE[0], OTHER[1]), "relaxed_f_cnt": False}
    device = rig.provision("anew", dev_addr_text=ONE[0], keys=ONE[1], **facts)
    rig.only("west")
    uplinks = [await device.send(confirmed=True)]
    await rig.restart_lns()
    uplinks.append(await device.send(confirmed=True))
    for uplink in uplinks:
        rig.expect(uplink, FIRST, first="west")
        rig.expect_reply(uplink)


@pytest.mark.requires("virtual time")  # no wire has a part in it
async def test_an_old_session_ends_though_others_share_its_address(rig):
    """The device has joined and gone on; who sends in the one of before has a wrong MIC for all."""
    device = rig.provision("moved", activation="otaa", f_cnt=10, preset_session=True)
    known = device.provisioned
    sharing = rig.provision("sharing", dev_addr_text=known.dev_addr, f_cnt=10)
    rig.only("west")
    join, beside = await device.join(), await sharing.send()
    address, keys = rig.sessions_opened(known)[-1]
    new = crafted.data(device.dev_eui, address, keys, 1, session=1)
    old = crafted.data(device.dev_eui, known.dev_addr, known.keys, 10)
    for frame in (new, old):
        rig.announce(frame)
        await tell(rig, frame, "west")
        await rig.wait(seconds(1))
    for uplink in (join, beside, new):
        rig.expect(uplink, FIRST, first="west")
    rig.expect(old, FORGED, forged="west")
