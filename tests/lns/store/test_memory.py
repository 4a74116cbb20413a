"""The memory store beyond the contract of `tests/contracts/test_session_store.py`."""

import asyncio

import pytest
from msgspec.structs import replace

from lns.dedup.claim import Bid, Level2
from lns.dedup.session import Session
from lns.lorawan.frame import F_CNT_MAX
from lns.lorawan.identifiers import Eui, Mic
from lns.store.memory import MemoryClaims, MemoryStore
from tests.lns.served_network import DEV_ADDR, KEYS

ALPHA = Eui("70B3D57ED0000001")


def test_a_store_ends_with_its_owner() -> None:
    asyncio.run(MemoryStore().keep_join(ALPHA, 7, ()))
    assert MemoryStore().dev_nonces(ALPHA) == frozenset()


def test_sessions_may_be_put_in_place_before_a_server_starts() -> None:
    session = Session(dev_eui=ALPHA, dev_addr=DEV_ADDR, keys=KEYS, f_cnt_up=0xFFFE)
    store = MemoryStore()
    store.preset(ALPHA, (session,))
    assert store.sessions(ALPHA) == (session,)


def bid(lns: str, f_cnt: int, *, first_message: bool = False) -> Bid:
    mic = Mic("2B11FF0D")
    return Bid(
        lns=lns, dev_eui=ALPHA, dev_addr=DEV_ADDR, f_cnt=f_cnt, mic=mic, takes_f_cnt_down=True,
        first_message=first_message,
    )  # fmt: skip


@pytest.mark.parametrize(("silence_us", "owner"), [(59_999_999, "lns-a"), (60_000_000, "lns-b")])
def test_a_first_message_is_a_copy_for_a_minute(silence_us: int, owner: str) -> None:
    at_us = [0]
    claims = MemoryClaims(lambda: at_us[0])
    asyncio.run(claims.claim(bid("lns-a", 0, first_message=True)))
    at_us[0] += silence_us
    assert asyncio.run(claims.claim(bid("lns-b", 0, first_message=True))).owner == owner


@pytest.mark.parametrize(
    ("silence_us", "owner"), [(86_399_999_999, "lns-a"), (86_400_000_000, "lns-b")]
)
def test_a_session_belongs_to_somebody_for_a_day(silence_us: int, owner: str) -> None:
    at_us = [0]
    claims = MemoryClaims(lambda: at_us[0])
    asyncio.run(claims.claim(bid("lns-a", 10)))
    at_us[0] += silence_us
    other = replace(bid("lns-b", 10), mic=Mic("00000000"))
    assert asyncio.run(claims.claim(other)).owner == owner


def test_a_counter_without_a_claim_comes_behind_those_that_were_missed() -> None:
    claims = MemoryClaims(lambda: 0)
    asked = replace(bid("lns-a", 10), f_cnt_down=5, f_cnt_down_missed=4)
    assert [asyncio.run(claims.take_f_cnt_down(asked)) for _ in range(2)] == [9, 10]
    last = replace(asked, f_cnt_down=F_CNT_MAX)
    assert [asyncio.run(claims.take_f_cnt_down(last)) for _ in range(2)] == [F_CNT_MAX, None]


def test_of_a_device_that_is_forgotten_nobody_owns_a_session() -> None:
    claims = MemoryClaims(lambda: 0)
    asyncio.run(claims.claim(bid("lns-a", 10)))
    claims.forget(ALPHA)
    claim = asyncio.run(claims.claim(bid("lns-b", 10)))
    assert (claim.level2, claim.f_cnt_down) == (Level2.OWNER, 0)


def test_beyond_its_bound_the_longest_silent_session_is_forgotten() -> None:
    claims = MemoryClaims(lambda: 0, sessions_max=2)
    devices = [Eui(f"70B3D57ED000000{number}") for number in range(1, 4)]
    for dev_eui in (*devices[:2], devices[0], devices[2]):
        asyncio.run(claims.claim(replace(bid("lns-a", 10), dev_eui=dev_eui)))
    asked = [replace(bid("lns-b", 10), dev_eui=dev_eui, mic=Mic("00000000")) for dev_eui in devices]
    owners = [asyncio.run(claims.claim(one)).owner for one in (asked[0], asked[2], asked[1])]
    assert owners == ["lns-a", "lns-a", "lns-b"]
