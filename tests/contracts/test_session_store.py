"""What every session store keeps, and what it does not."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lns.end_device import Session
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.registry import SessionStore
from lns.store.memory import MemoryStore
from lns.store.sqlite import SqliteStore

ALPHA, BETA = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")
STORES: dict[str, Callable[[Path], MemoryStore | SqliteStore]] = {
    "memory": lambda folder: MemoryStore(),
    "sqlite": lambda folder: SqliteStore(folder / "lns-a.store"),
}


@pytest.fixture(params=sorted(STORES))
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[SessionStore]:
    opened = STORES[request.param](tmp_path)
    yield opened
    if isinstance(opened, SqliteStore):
        opened.close()


def session(dev_addr: str = "01ABCDEF") -> Session:
    keys = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
    return Session(dev_eui=ALPHA, dev_addr=DevAddr(dev_addr), keys=keys, f_cnt_up=0x10007)


def keep(store: SessionStore, *sessions: Session) -> None:
    asyncio.run(store.keep_sessions(ALPHA, sessions))


def use(store: SessionStore, dev_eui: Eui, dev_nonce: int) -> bool:
    return asyncio.run(store.use_dev_nonce(dev_eui, dev_nonce))


def test_a_new_store_knows_nothing(store: SessionStore) -> None:
    assert store.sessions(ALPHA) == ()
    assert store.dev_nonces(ALPHA) == frozenset()


def test_sessions_come_back_whole_and_in_order(store: SessionStore) -> None:
    new, old = session("26000001"), session()
    old.f_cnt_down, old.life, old.nb_trans, old.nb_trans_asked = 3, 2, 4, True
    old.resubmissions, old.copies = {0x10007: 1}, {0: 2}
    keep(store, new, old)
    assert store.sessions(ALPHA) == (new, old)


def test_the_sessions_of_a_device_are_replaced(store: SessionStore) -> None:
    keep(store, session("26000001"), session())
    keep(store, session("26000001"))
    assert store.sessions(ALPHA) == (session("26000001"),)


def test_the_sessions_of_other_devices_stay(store: SessionStore) -> None:
    keep(store, session())
    assert store.sessions(BETA) == ()


def test_what_is_kept_is_the_session_as_it_was(store: SessionStore) -> None:
    live = session()
    keep(store, live)
    live.advance(0x10008)
    live.resubmissions[0x10008] = 1
    live.copies[0x10008] = 1
    assert store.sessions(ALPHA) == (session(),)


def test_what_is_handed_out_is_the_readers_own(store: SessionStore) -> None:
    keep(store, session())
    (mine,) = store.sessions(ALPHA)
    mine.advance(0x10008)
    assert store.sessions(ALPHA) == (session(),)


def test_a_dev_nonce_is_used_once_and_for_ever(store: SessionStore) -> None:
    assert use(store, ALPHA, 7)
    assert not use(store, ALPHA, 7)
    assert use(store, ALPHA, 6)
    assert store.dev_nonces(ALPHA) == frozenset({6, 7})


def test_the_dev_nonces_of_other_devices_are_theirs(store: SessionStore) -> None:
    use(store, ALPHA, 7)
    assert use(store, BETA, 7)
    assert store.dev_nonces(BETA) == frozenset({7})


def test_of_two_who_use_a_dev_nonce_at_once_one_does(store: SessionStore) -> None:
    async def both() -> tuple[bool, bool]:
        return await asyncio.gather(store.use_dev_nonce(ALPHA, 7), store.use_dev_nonce(ALPHA, 7))

    assert sorted(asyncio.run(both())) == [False, True]
