"""The memory store beyond the contract of `tests/contracts/test_session_store.py`."""

import asyncio

from lns.dedup.session import Session
from lns.lorawan.identifiers import Eui
from lns.store.memory import MemoryStore
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
