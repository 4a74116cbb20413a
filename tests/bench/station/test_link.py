import asyncio

import pytest

from bench.clock import run
from bench.station import LinkClosed
from bench.station.tap import link_pair
from lns.clock import now_us


def test_texts_arrive_in_order_after_the_latency() -> None:
    async def main() -> None:
        left, right = link_pair(2_000)
        await left.send("a")
        await left.send("b")
        assert [await right.receive(), await right.receive()] == ["a", "b"]
        assert now_us() == 2_000
        await right.send("c")
        assert await left.receive() == "c"
        assert now_us() == 4_000

    run(main())


def test_what_was_sent_before_the_end_still_arrives() -> None:
    async def main() -> None:
        left, right = link_pair(2_000)
        await left.send("last")
        left.close()
        assert left.closed
        assert await right.receive() == "last"
        with pytest.raises(LinkClosed):
            await right.receive()
        with pytest.raises(LinkClosed):
            await right.send("x")
        with pytest.raises(LinkClosed):
            await left.receive()
        left.close()

    run(main())


def test_a_reader_that_waits_is_told_of_the_end() -> None:
    async def main() -> None:
        left, right = link_pair()

        async def read() -> None:
            with pytest.raises(LinkClosed):
                await right.receive()

        async with asyncio.TaskGroup() as tasks:
            tasks.create_task(read())
            await asyncio.sleep(1)
            left.close()

    run(main())


def test_a_cancelled_reader_loses_nothing() -> None:
    async def main() -> None:
        left, right = link_pair()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(1):
                await right.receive()
        await left.send("a")
        assert await right.receive() == "a"

    run(main())


def test_a_text_after_the_end_of_the_receiver_is_gone() -> None:
    async def main() -> None:
        left, right = link_pair(1_000)
        await left.send("a")
        right.close()
        await asyncio.sleep(1)
        with pytest.raises(LinkClosed):
            await right.receive()

    run(main())
