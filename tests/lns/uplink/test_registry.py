"""Who sent a frame, when DevAddr says little and the MIC all."""

import asyncio
from dataclasses import replace

import pytest

from lns.dedup.session import Session
from lns.dedup.strategy import Reason
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import Data, parse
from lns.lorawan.identifiers import DevAddr, Eui
from lns.store.memory import MemoryStore
from lns.uplink.registry import PENDING_MAX, EndDevice, Match, Registry
from tests.lns.served_network import ALPHA, APP_S_KEY, DEV_ADDR, GAMMA, KEYS, WEST, uplink

OTHER_KEYS = SessionKeys(bytes.fromhex("0102030405060708090A0B0C0D0E0F10"), APP_S_KEY)
BETA = replace(ALPHA, name="beta", dev_eui=Eui("70B3D57ED0000002"), session_keys=OTHER_KEYS)
NEW_ADDR = DevAddr("26000001")


def registry_of(*devices: EndDevice) -> Registry:
    return Registry(devices, MemoryStore())


def find(registry: Registry, phy: bytes) -> Match | Reason:
    frame = parse(phy)
    assert isinstance(frame, Data)
    return registry.match(frame)


def found(registry: Registry, phy: bytes) -> Match:
    match = find(registry, phy)
    assert isinstance(match, Match)
    return match


def joined(registry: Registry, dev_addr: DevAddr, keys: SessionKeys) -> Session:
    session = Session(dev_eui=GAMMA.dev_eui, dev_addr=dev_addr, keys=keys)
    dev_nonce = 1 + max(registry.dev_nonces(GAMMA.dev_eui), default=0)
    assert asyncio.run(registry.join(GAMMA, session, dev_nonce))
    return session


def test_the_mic_tells_apart_who_shares_a_dev_addr() -> None:
    registry = registry_of(ALPHA, BETA)
    assert found(registry, uplink(10)).device is ALPHA
    assert found(registry, uplink(10, keys=OTHER_KEYS)).device is BETA


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_devices_with_the_same_keys_are_told_by_the_order_of_their_eui(
    order: tuple[int, int],
) -> None:
    twins = (ALPHA, replace(BETA, session_keys=KEYS))
    registry = registry_of(*(twins[at] for at in order))
    assert found(registry, uplink(10)).device.dev_eui == "70B3D57ED0000001"


def test_a_dev_addr_without_session_is_an_unknown_device() -> None:
    assert find(registry_of(GAMMA), uplink(10)) is Reason.UNKNOWN_DEVICE


def test_a_known_dev_addr_with_another_mic_is_a_mismatch() -> None:
    phy = uplink(10)[:-1] + b"\x00"
    assert find(registry_of(ALPHA, BETA), phy) is Reason.MIC_MISMATCH


@pytest.mark.parametrize(
    ("last", "f_cnt"),
    [
        (None, 0),
        (None, 0xFFFF),
        (0xFFFE, 0xFFFF),
        (0xFFFF, 0x10000),
        (0x1FFFF, 0x20003),
        (0x10002, 0xFFFF),  # a late copy from before the roll-over
        (0x30005, 0),  # a device that began again
    ],
)
def test_the_mic_proves_all_32_bits_of_the_counter(last: int | None, f_cnt: int) -> None:
    registry = registry_of(ALPHA)
    found(registry, uplink(0)).session.f_cnt_up = last
    assert found(registry, uplink(f_cnt)).f_cnt == f_cnt


def test_a_counter_two_roll_overs_ahead_is_not_found() -> None:
    registry = registry_of(ALPHA)
    found(registry, uplink(0)).session.f_cnt_up = 5
    assert find(registry, uplink(0x20006)) is Reason.MIC_MISMATCH


def test_a_device_of_16_bits_never_counts_beyond_them() -> None:
    registry = registry_of(replace(ALPHA, f_cnt_bits=16))
    found(registry, uplink(0)).session.f_cnt_up = 0xFFFF
    assert found(registry, uplink(3)).f_cnt == 3
    assert find(registry, uplink(0x10003)) is Reason.MIC_MISMATCH


def test_the_session_in_use_stays_until_the_first_frame_of_the_new_one() -> None:
    registry = registry_of(GAMMA)
    old = joined(registry, DEV_ADDR, KEYS)
    old.f_cnt_up = 7
    new = joined(registry, NEW_ADDR, OTHER_KEYS)
    assert found(registry, uplink(8)).session is old
    match = found(registry, uplink(0, dev_addr=NEW_ADDR, keys=OTHER_KEYS))
    assert match.session is new
    registry.settle(match, WEST)
    assert find(registry, uplink(9)) is Reason.UNKNOWN_DEVICE
    assert not registry.knows(DEV_ADDR)


def test_a_frame_of_the_old_session_does_not_settle_the_new_one() -> None:
    registry = registry_of(GAMMA)
    joined(registry, DEV_ADDR, KEYS).f_cnt_up = 7
    joined(registry, NEW_ADDR, OTHER_KEYS)
    registry.settle(found(registry, uplink(8)), WEST)
    assert registry.knows(NEW_ADDR)
    assert registry.knows(DEV_ADDR)


def test_a_session_that_nobody_used_survives_the_next_joins_until_it_is_used() -> None:
    """A join request that nobody heard may be replayed after the real one."""
    registry = registry_of(GAMMA)
    joined(registry, DEV_ADDR, KEYS).f_cnt_up = 7
    joined(registry, DevAddr("26000002"), KEYS)
    joined(registry, NEW_ADDR, OTHER_KEYS)
    match = found(registry, uplink(0, dev_addr=DevAddr("26000002")))
    assert registry.elders(match) == (DEV_ADDR,)
    registry.settle(match, WEST)
    assert not registry.knows(DEV_ADDR)
    assert registry.knows(NEW_ADDR), "it was opened after this one"
    registry.settle(found(registry, uplink(0, dev_addr=NEW_ADDR, keys=OTHER_KEYS)), WEST)
    assert not registry.knows(DevAddr("26000002"))


def test_sessions_that_wait_for_their_first_frame_are_bounded() -> None:
    registry = registry_of(GAMMA)
    joined(registry, DEV_ADDR, KEYS).f_cnt_up = 7
    addrs = [DevAddr(f"260000{number:02X}") for number in range(PENDING_MAX + 2)]
    for addr in addrs:
        joined(registry, addr, OTHER_KEYS)
    assert [registry.knows(addr) for addr in addrs] == [False] * 2 + [True] * PENDING_MAX
    assert registry.knows(DEV_ADDR), "the one in use stays"


def test_the_others_of_a_shared_dev_addr_stay_when_one_leaves() -> None:
    registry = registry_of(ALPHA, GAMMA)
    joined(registry, DEV_ADDR, OTHER_KEYS)
    joined(registry, NEW_ADDR, OTHER_KEYS)
    registry.settle(found(registry, uplink(0, dev_addr=NEW_ADDR, keys=OTHER_KEYS)), WEST)
    assert found(registry, uplink(10)).device is ALPHA
    assert find(registry, uplink(10, keys=OTHER_KEYS)) is Reason.MIC_MISMATCH


def test_sessions_are_found_again_after_a_restart() -> None:
    store = MemoryStore()
    before = Registry([GAMMA], store)
    joined(before, DEV_ADDR, KEYS).f_cnt_up = 0x10007
    asyncio.run(before.keep(GAMMA.dev_eui))
    assert found(Registry([GAMMA], store), uplink(0x10008)).f_cnt == 0x10008


def test_a_device_that_was_personalised_anew_begins_anew() -> None:
    store = MemoryStore()
    before = Registry([ALPHA], store)
    found(before, uplink(10)).session.f_cnt_up = 10
    asyncio.run(before.keep(ALPHA.dev_eui))
    after = Registry([replace(ALPHA, session_keys=OTHER_KEYS)], store)
    assert found(after, uplink(3, keys=OTHER_KEYS)).session.f_cnt_up is None
    assert find(after, uplink(11)) is Reason.MIC_MISMATCH


def test_a_dev_nonce_opens_one_session_and_no_other() -> None:
    registry = registry_of(GAMMA)
    for dev_addr, opens in (("26000001", True), ("26000002", False)):
        session = Session(dev_eui=GAMMA.dev_eui, dev_addr=DevAddr(dev_addr), keys=KEYS)
        assert asyncio.run(registry.join(GAMMA, session, 7)) is opens
        assert registry.knows(session.dev_addr) is opens
    assert registry.dev_nonces(GAMMA.dev_eui) == frozenset({7})


class Late(MemoryStore):
    """Keeps a join no sooner than it is told to: until then others read what was there before."""

    def __init__(self) -> None:
        super().__init__()
        self.may_keep = asyncio.Event()

    async def keep_join(self, dev_eui: Eui, dev_nonce: int, sessions: tuple[Session, ...]) -> bool:
        await self.may_keep.wait()
        return await super().keep_join(dev_eui, dev_nonce, sessions)


def test_what_is_read_while_a_join_is_under_way_does_not_end_it() -> None:
    store = Late()
    store.preset(
        GAMMA.dev_eui, (Session(dev_eui=GAMMA.dev_eui, dev_addr=DEV_ADDR, keys=OTHER_KEYS),)
    )
    registry = Registry([GAMMA], store)
    session = Session(dev_eui=GAMMA.dev_eui, dev_addr=NEW_ADDR, keys=KEYS)

    async def join_and_read() -> bool:
        join = asyncio.ensure_future(registry.join(GAMMA, session, 1))
        await asyncio.sleep(0)
        registry.catch_up(GAMMA.dev_eui)
        store.may_keep.set()
        return await join

    assert asyncio.run(join_and_read())
    assert found(registry, uplink(0, dev_addr=NEW_ADDR)).session is session


def test_a_device_is_found_by_its_eui() -> None:
    registry = registry_of(ALPHA, GAMMA)
    assert registry.device(GAMMA.dev_eui) is GAMMA
    assert registry.device(BETA.dev_eui) is None


def test_only_the_session_that_ended_elsewhere_is_over() -> None:
    registry = registry_of(GAMMA)
    joined(registry, NEW_ADDR, OTHER_KEYS)
    newest = joined(registry, DEV_ADDR, KEYS)
    registry.end(Match(GAMMA, newest, 0))
    assert registry.devices_with(NEW_ADDR) == (GAMMA.dev_eui,)
    assert registry.devices_with(DEV_ADDR) == ()
