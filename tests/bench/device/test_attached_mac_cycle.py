"""How a device that is still busy is waited for."""

import asyncio
from typing import Any

import pytest

from bench.device.attached import ASK_AGAIN_US, MacCycle
from bench.device.interfaces import CommandRefused
from lns.clock import now_us
from tests.bench.device.wired import in_memory, play_in_memory


def busy_for(times: int) -> tuple[list[int], Any]:
    tried: list[int] = []

    async def carry_out() -> str:
        tried.append(now_us())
        if len(tried) <= times:
            raise CommandRefused("AT_BUSY_ERROR")
        return "done"

    return tried, carry_out


@in_memory
async def test_the_line_that_ends_a_cycle_is_enough() -> None:
    cycle = MacCycle()
    cycle.begin()
    tried, carry_out = busy_for(1)
    asyncio.get_running_loop().call_later(0.1, cycle.end)
    assert await cycle.past(carry_out, lambda refused: True, 10_000_000) == "done"
    assert tried[1] - tried[0] < ASK_AGAIN_US
    assert not cycle.is_open


def test_an_end_that_is_told_during_the_refusal_counts() -> None:
    async def scene() -> None:
        cycle, tried = MacCycle(), 0

        async def carry_out() -> str:
            nonlocal tried
            tried += 1
            if tried == 1:
                cycle.end()
                raise CommandRefused("AT_BUSY_ERROR")
            return "done"

        begun_us = now_us()
        await cycle.past(carry_out, lambda refused: True, 10_000_000)
        assert now_us() - begun_us < ASK_AGAIN_US

    play_in_memory(scene())


@in_memory
async def test_without_such_a_line_it_is_asked_again_until_it_took_too_long() -> None:
    tried, carry_out = busy_for(1)
    assert await MacCycle().past(carry_out, lambda refused: True, 10_000_000) == "done"
    assert tried[1] - tried[0] >= ASK_AGAIN_US
    tried, carry_out = busy_for(9)
    with pytest.raises(CommandRefused):
        await MacCycle().past(carry_out, lambda refused: True, 500_000)
    assert len(tried) == 2


@in_memory
async def test_one_end_is_one_more_try_and_no_storm_of_them() -> None:
    cycle = MacCycle()
    tried, carry_out = busy_for(2)
    asyncio.get_running_loop().call_later(0.1, cycle.end)
    await cycle.past(carry_out, lambda refused: True, 10_000_000)
    assert tried[2] - tried[1] >= ASK_AGAIN_US


@in_memory
async def test_what_is_not_waited_for_is_told_at_once() -> None:
    tried, carry_out = busy_for(1)
    with pytest.raises(CommandRefused):
        await MacCycle().past(carry_out, lambda refused: False, 10_000_000)
    assert len(tried) == 1
