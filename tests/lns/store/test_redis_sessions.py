"""What does a server tell a Redis that has missed a write, or lost all of them?"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from lns.clock import StoreUnavailable
from lns.dedup.session import Session
from lns.lorawan.identifiers import DevAddr
from tests.lns.store.test_redis import ALPHA, BETA, of, store_at, told, valkey_at
from tests.looped import on_a_loop


@pytest.mark.programs
@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_a_session_that_ended_while_the_store_was_away_stays_ended(tmp_path: Path) -> None:
    """The write that ended it never arrived; the next one ends it, and nobody else added it."""
    async with valkey_at(tmp_path) as server:
        async with store_at(server.port) as store:
            await store.keep_sessions(ALPHA, (of("26000001"),))
            assert await store.keep_join(ALPHA, 8, (of("26000002", f_cnt_up=0), of("26000001")))
            await server.kill()
            for f_cnt_up in (1, 2):
                with pytest.raises(StoreUnavailable):
                    await store.keep_sessions(ALPHA, (of("26000002", f_cnt_up=f_cnt_up),))
            await server.start()
            await store.keep_sessions(ALPHA, (of("26000002", f_cnt_up=3),))
            assert store.sessions(ALPHA) == (of("26000002", f_cnt_up=3),)
        async with store_at(server.port) as again:
            assert again.sessions(ALPHA) == (of("26000002", f_cnt_up=3),)
            assert await again.devices_with(DevAddr("26000001")) == ()


@pytest.mark.programs
@pytest.mark.fault("store", "cut / restarted")
@on_a_loop
async def test_join_nonces_go_on_in_a_redis_that_has_lost_them(tmp_path: Path) -> None:
    """Whoever took the last one remembers it, and whoever has read it since (1.0.4, 6.2.3)."""
    async with valkey_at(tmp_path) as server, store_at(server.port) as store:
        assert [await store.next_join_nonce(ALPHA, 7) for _ in range(2)] == [7, 8]
        async with store_at(server.port, "lns-b") as begun, store_at(server.port, "lns-c") as other:
            assert await store.next_join_nonce(BETA, 1) == 1
            await other.refresh(BETA)
            await told(server.port, "FLUSHALL")
            assert await begun.next_join_nonce(ALPHA, 1) == 9
            assert await other.next_join_nonce(BETA, 1) == 2
            await told(server.port, "FLUSHALL")
            assert await store.next_join_nonce(ALPHA, 1) == 9, "it has not heard of the other's"
            assert await store.next_join_nonce(ALPHA, 20) == 20


@pytest.mark.programs
@on_a_loop
async def test_no_number_of_a_copy_is_lost_to_what_another_server_keeps(tmp_path: Path) -> None:
    """Whoever begins with it numbers the next copy beyond all before: each has an id of its own."""
    async with valkey_at(tmp_path) as server, store_at(server.port, "lns-b") as b:
        async with store_at(server.port) as a:
            await a.keep_sessions(ALPHA, (copied({}),))
            await b.refresh(ALPHA)
            assert b.sessions(ALPHA) == (copied({}),)
            await a.keep_sessions(ALPHA, (copied({5: 2, 4: 1}),))
            await b.keep_sessions(ALPHA, (copied({5: 1, 3: 1}),))
            newer = copied({5: 1, 6: 1}, f_cnt_up=6)
            await b.keep_sessions(ALPHA, (newer,))
            await a.keep_sessions(ALPHA, (copied({5: 3}),))
        async with store_at(server.port) as again:
            [found] = again.sessions(ALPHA)
        assert (found.f_cnt_up, found.copies) == (6, {3: 1, 4: 1, 5: 3, 6: 1})


def copied(copies: dict[int, int], f_cnt_up: int = 5) -> Session:
    return replace(of("26000001", f_cnt_up=f_cnt_up), copies=copies)
