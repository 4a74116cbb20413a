import asyncio

import pytest

from bench.clock import run
from bench.station import LinkClosed
from bench.station.tap import link_pair
from lns.clock import now_us


def test_the_other_end_of_a_half_open_connection_notices_later() -> None:
    async def main() -> None:
        left, right = link_pair(2_000)
        left.vanish(5_000_000)
        assert left.closed and not right.closed
        with pytest.raises(LinkClosed):
            await left.receive()
        await right.send("into the void")
        with pytest.raises(LinkClosed):
            await right.receive()
        assert now_us() == 5_000_000
        left.close()
        left.vanish(1)
        await asyncio.sleep(1)
        assert right.closed

    run(main())
