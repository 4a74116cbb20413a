"""The memory store beyond the contract of `tests/contracts/test_session_store.py`."""

import asyncio

from lns.lorawan.identifiers import Eui
from lns.store.memory import MemoryStore

ALPHA = Eui("70B3D57ED0000001")


def test_a_store_ends_with_its_owner() -> None:
    asyncio.run(MemoryStore().use_dev_nonce(ALPHA, 7))
    assert MemoryStore().dev_nonces(ALPHA) == frozenset()
