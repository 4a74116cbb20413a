"""What every session store keeps, and what it does not."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import TypeVar

import pytest

from bench.host.lns_process import Valkey
from lns.dedup.session import Session
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui, Mic
from lns.store.memory import MemoryStore
from lns.store.redis import RedisStore
from lns.store.redis_wire import RedisServer, RedisWire, redis_server
from lns.store.sqlite import SqliteStore
from lns.uplink.registry import SessionStore
from tests.blocking import start_now, stop_now

ALPHA, BETA = Eui("70B3D57ED0000001"), Eui("70B3D57ED0000002")

MIC = Mic("2B11FF0D")
PATIENCE_US = 10_000_000  # this host may be busy

T = TypeVar("T")
Opened = AbstractAsyncContextManager[SessionStore]


@asynccontextmanager
async def memory(store: MemoryStore) -> AsyncIterator[SessionStore]:
    yield store


@asynccontextmanager
async def sqlite(path: Path) -> AsyncIterator[SessionStore]:
    store = SqliteStore(path)
    try:
        yield store
    finally:
        store.close()


class Kept:
    """A store that is opened for one question after the other, or anew with `reopen`."""

    def __init__(self, opened: Callable[[], Opened]) -> None:
        self._opened = opened
        self._runner = asyncio.Runner()
        self.reopen()

    def reopen(self) -> None:
        if hasattr(self, "_context"):
            self._runner.run(self._leave())
        self._context = self._opened()
        self.store = self._runner.run(self._enter())

    def run(self, coroutine: Coroutine[None, None, T]) -> T:
        return self._runner.run(coroutine)

    def keep(self, *sessions: Session) -> None:
        self.run(self.store.keep_sessions(ALPHA, sessions))

    def join(self, dev_eui: Eui, dev_nonce: int, *sessions: Session) -> bool:
        return self.run(self.store.keep_join(dev_eui, dev_nonce, sessions))

    def join_nonce(self, dev_eui: Eui, least: int = 1) -> int:
        return self.run(self.store.next_join_nonce(dev_eui, least))

    def close(self) -> None:
        self._runner.run(self._leave())
        self._runner.close()

    async def _enter(self) -> SessionStore:
        return await self._context.__aenter__()

    async def _leave(self) -> None:
        await self._context.__aexit__(None, None, None)


@pytest.fixture(scope="module")
def valkey(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Valkey]:
    server = start_now(Valkey(tmp_path_factory.mktemp("valkey"), append_only=False))
    yield server
    stop_now(server)


async def emptied(server: RedisServer) -> None:
    wire = RedisWire(server, patience_us=PATIENCE_US)
    await wire.do("FLUSHDB")
    await wire.close()


@pytest.fixture(params=["memory", "sqlite", "redis"])
def kept(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Kept]:
    if request.param == "memory":
        lasting = MemoryStore()
        kept = Kept(lambda: memory(lasting))
    elif request.param == "sqlite":
        kept = Kept(lambda: sqlite(tmp_path / "lns-a.store"))
    else:
        valkey: Valkey = request.getfixturevalue("valkey")
        server = redis_server(f"redis://127.0.0.1:{valkey.port}/0")
        asyncio.run(emptied(server))
        kept = Kept(lambda: RedisStore(server, "lns-a", (ALPHA, BETA), patience_us=PATIENCE_US))
    yield kept
    kept.close()


@pytest.fixture(params=["memory", "redis"])
def both(request: pytest.FixtureRequest) -> Iterator[tuple[Kept, Kept]]:
    """What two servers have of one store, if they can share it."""
    if request.param == "memory":
        of_a = MemoryStore()
        of_b = MemoryStore(of_a)
        stores = Kept(lambda: memory(of_a)), Kept(lambda: memory(of_b))
    else:
        valkey: Valkey = request.getfixturevalue("valkey")
        server = redis_server(f"redis://127.0.0.1:{valkey.port}/0")
        asyncio.run(emptied(server))
        stores = (
            Kept(lambda: RedisStore(server, "lns-a", (ALPHA, BETA), patience_us=PATIENCE_US)),
            Kept(lambda: RedisStore(server, "lns-b", (ALPHA, BETA), patience_us=PATIENCE_US)),
        )
    yield stores
    for kept in stores:
        kept.close()


def session(dev_addr: str = "01ABCDEF") -> Session:
    keys = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
    return Session(dev_eui=ALPHA, dev_addr=DevAddr(dev_addr), keys=keys, f_cnt_up=0x10007)


def test_a_new_store_knows_nothing(kept: Kept) -> None:
    assert kept.store.sessions(ALPHA) == ()
    assert kept.store.dev_nonces(ALPHA) == frozenset()


def test_sessions_come_back_whole_and_in_order(kept: Kept) -> None:
    new, old = session("26000001"), session()
    old.f_cnt_down, old.life, old.nb_trans, old.nb_trans_asked = 3, 2, 4, True
    old.resubmissions, old.copies = {0x10007: 1}, {0: 2}
    old.lives, old.former, old.mic, old.owner = 4, {0: 0x20001, 1: 500}, MIC, "lns-b"
    kept.keep(new, old)
    assert kept.store.sessions(ALPHA) == (new, old)
    kept.reopen()
    assert kept.store.sessions(ALPHA) == (new, old)


def test_the_sessions_of_a_device_are_replaced(kept: Kept) -> None:
    kept.keep(session("26000001"), session())
    kept.keep(session("26000001"))
    assert kept.store.sessions(ALPHA) == (session("26000001"),)
    kept.reopen()
    assert kept.store.sessions(ALPHA) == (session("26000001"),)


def test_the_sessions_of_other_devices_stay(kept: Kept) -> None:
    kept.keep(session())
    assert kept.store.sessions(BETA) == ()


def test_what_is_kept_is_the_session_as_it_was(kept: Kept) -> None:
    live = session()
    kept.keep(live)
    live.advance(0x10008, MIC)
    live.resubmissions[0x10008] = 1
    live.copies[0x10008] = 1
    assert kept.store.sessions(ALPHA) == (session(),)


def test_of_many_at_once_the_last_one_counts(kept: Kept) -> None:
    async def many() -> None:
        live = session()
        async with asyncio.TaskGroup() as tasks:
            for f_cnt_down in range(200):
                live.f_cnt_down = f_cnt_down
                tasks.create_task(kept.store.keep_sessions(ALPHA, (live.snapshot(),)))

    kept.run(many())
    assert [session.f_cnt_down for session in kept.store.sessions(ALPHA)] == [199]
    kept.reopen()
    assert [session.f_cnt_down for session in kept.store.sessions(ALPHA)] == [199]


def test_what_is_handed_out_is_the_readers_own(kept: Kept) -> None:
    kept.keep(session())
    (mine,) = kept.store.sessions(ALPHA)
    mine.advance(0x10008, MIC)
    assert kept.store.sessions(ALPHA) == (session(),)


def test_a_dev_nonce_is_used_once_and_for_ever(kept: Kept) -> None:
    assert kept.join(ALPHA, 7)
    assert not kept.join(ALPHA, 7)
    assert kept.join(ALPHA, 65535)
    assert kept.store.dev_nonces(ALPHA) == frozenset({7, 65535})
    kept.reopen()
    assert kept.store.dev_nonces(ALPHA) == frozenset({7, 65535})
    assert not kept.join(ALPHA, 7)


def test_the_dev_nonces_of_other_devices_are_theirs(kept: Kept) -> None:
    kept.join(ALPHA, 7)
    assert kept.join(BETA, 7)
    assert kept.store.dev_nonces(BETA) == frozenset({7})


def test_a_join_keeps_the_sessions_with_the_dev_nonce(kept: Kept) -> None:
    kept.keep(session())
    assert kept.join(ALPHA, 7, session("26000001"), session())
    assert kept.store.sessions(ALPHA) == (session("26000001"), session())
    kept.reopen()
    assert kept.store.sessions(ALPHA) == (session("26000001"), session())


def test_a_join_with_a_used_dev_nonce_changes_no_session(kept: Kept) -> None:
    kept.join(ALPHA, 7, session())
    assert not kept.join(ALPHA, 7, session("26000001"))
    kept.reopen()
    assert kept.store.sessions(ALPHA) == (session(),)


def test_of_two_who_use_a_dev_nonce_at_once_one_does(kept: Kept) -> None:
    async def both() -> list[bool]:
        return await asyncio.gather(*(kept.store.keep_join(ALPHA, 7, ()) for _ in range(2)))

    assert sorted(kept.run(both())) == [False, True]


def test_join_nonces_increase_for_ever(kept: Kept) -> None:
    assert [kept.join_nonce(ALPHA) for _ in range(3)] == [1, 2, 3]
    kept.reopen()
    assert kept.join_nonce(ALPHA) == 4


def test_the_join_nonces_of_other_devices_are_theirs(kept: Kept) -> None:
    assert [kept.join_nonce(ALPHA), kept.join_nonce(ALPHA)] == [1, 2]
    assert kept.join_nonce(BETA) == 1


def test_no_join_nonce_is_below_the_least_one(kept: Kept) -> None:
    assert [kept.join_nonce(ALPHA, 0xFF0000), kept.join_nonce(ALPHA, 7)] == [0xFF0000, 0xFF0001]
    kept.reopen()
    assert kept.join_nonce(ALPHA, 0xFF0010) == 0xFF0010


def test_of_many_who_take_a_join_nonce_at_once_each_has_its_own(kept: Kept) -> None:
    async def many() -> list[int]:
        return await asyncio.gather(*(kept.store.next_join_nonce(ALPHA, 1) for _ in range(300)))

    assert sorted(kept.run(many())) == list(range(1, 301))


def test_a_join_leaves_the_join_nonces_alone(kept: Kept) -> None:
    assert kept.join_nonce(ALPHA) == 1
    kept.join(ALPHA, 7, session())
    assert kept.join_nonce(ALPHA) == 2


def known_to(kept: Kept) -> tuple[Session, ...]:
    """What a server reads, which from then on it knows of."""
    kept.run(kept.store.refresh(ALPHA))
    return kept.store.sessions(ALPHA)


def test_a_session_that_another_server_ended_is_not_written_back(both: tuple[Kept, Kept]) -> None:
    a, b = both
    new, old = session("26000001"), session()
    a.keep(new, old)
    assert known_to(b) == (new, old)
    a.keep(new)
    for new.f_cnt_down in (1, 2):
        b.keep(new, old)
        assert known_to(a) == (new,)
    assert known_to(b) == (new,)


def test_a_session_that_another_server_added_stays(both: tuple[Kept, Kept]) -> None:
    a, b = both
    a.keep(session())
    assert known_to(b) == (session(),)
    assert a.join(ALPHA, 7, session("26000001"), session())
    b.keep(session())
    assert known_to(a) == known_to(b) == (session("26000001"), session())
    b.keep(session())
    assert known_to(a) == (session(),), "b has ended what it knew of"


def test_a_counter_that_came_farther_at_another_server_stays(both: tuple[Kept, Kept]) -> None:
    a, b = both
    a.keep(session())
    (of_a,), (of_b,) = known_to(a), known_to(b)
    of_a.advance(0x10009, MIC)
    of_b.f_cnt_down = 3
    a.keep(of_a)
    b.keep(of_b)
    (there,) = known_to(a)
    assert (there.f_cnt_up, there.mic, there.f_cnt_down) == (0x10009, MIC, 3)


@pytest.mark.parametrize("goes_back", [False, True], ids=["begun", "gone back"])
def test_a_life_that_another_server_heard_of_stays(
    both: tuple[Kept, Kept], goes_back: bool
) -> None:
    a, b = both
    a.keep(session())
    (of_a,), (of_b,) = known_to(a), known_to(b)
    for one in (of_a, of_b)[: 2 if goes_back else 1]:
        one.advance(0, MIC)
    if goes_back:
        of_a.advance(0x10009, MIC)  # the former life goes on, which is newer than the one begun
    a.keep(of_a)
    b.keep(of_b)
    (there,) = known_to(a)
    came = (0x10009, 0, 1) if goes_back else (0, 1, 1)
    assert (there.f_cnt_up, there.life, there.lives) == came


@pytest.mark.parametrize("a_first", [False, True])
@pytest.mark.parametrize("farther", [False, True], ids=["as far", "farther"])
def test_a_former_life_goes_on_where_it_came_farther(
    both: tuple[Kept, Kept], farther: bool, a_first: bool
) -> None:
    a, b = both
    a.keep(session())
    (of_a,), (of_b,) = known_to(a), known_to(b)
    of_a.advance(0x10009, MIC)
    for one in (of_a, of_b):
        one.advance(0, MIC)
    of_b.advance(0x10009 + farther, MIC)  # for b, which knew less, the former life goes on
    for of, one in ((a, of_a), (b, of_b))[:: 1 if a_first else -1]:
        of.keep(one)
    (there,) = known_to(a)
    came = (0x1000A, 0, 1, {}) if farther else (0, 1, 1, {0: 0x10009})
    assert (there.f_cnt_up, there.life, there.lives, there.former) == came


@pytest.mark.parametrize("a_first", [False, True])
def test_no_life_goes_back_when_one_server_knows_of_more(
    both: tuple[Kept, Kept], a_first: bool
) -> None:
    """It was alone when a late first message came, and went on with the life before."""
    a, b = both
    a.keep(session())
    (of_a,), (of_b,) = known_to(a), known_to(b)
    of_b.advance(0x1000B, MIC)
    of_a.advance(0, MIC)
    of_a.advance(0x1000A, MIC)
    for of, one in ((a, of_a), (b, of_b))[:: 1 if a_first else -1]:
        of.keep(one)
    (there,) = known_to(a)
    assert (there.f_cnt_up, there.life, there.lives) == (0x1000B, 0, 1)


def test_what_another_server_answered_again_stays_counted(both: tuple[Kept, Kept]) -> None:
    a, b = both
    told = session()
    told.advance(9, MIC, "lns-a")
    a.keep(told)
    (of_a,), (of_b,) = known_to(a), known_to(b)
    of_a.resubmissions = {9: 3}
    of_b.resubmissions = {8: 1, 9: 1}
    a.keep(of_a)
    b.keep(of_b)
    (there,) = known_to(a)
    assert there.resubmissions == {8: 1, 9: 3}
    (of_b,) = known_to(b)
    of_b.advance(10, MIC, "lns-b")
    b.keep(of_b)
    a.keep(of_a)
    assert known_to(a)[0].resubmissions == {}


def test_a_session_is_known_by_its_keys_and_not_by_its_address_alone(
    both: tuple[Kept, Kept],
) -> None:
    a, b = both
    other = session()
    other.keys = SessionKeys(bytes(16), bytes(range(16)))
    a.keep(session())
    assert known_to(b) == (session(),)
    a.keep(other)
    b.keep(session())
    assert known_to(a) == (other,), "the session that b knew has ended, and is not the other one"
