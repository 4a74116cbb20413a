"""What becomes of sessions in a Redis that misses a write."""

from pathlib import Path

import pytest

from lns.clock import StoreUnavailable
from lns.lorawan.identifiers import DevAddr
from tests.lns.store.test_redis import ALPHA, of, store_at, valkey_at
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
