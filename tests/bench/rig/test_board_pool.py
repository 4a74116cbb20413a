"""Which case gets which boards, and which have to wait?"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from typing import Any, cast

import pytest

from bench.clock import run
from bench.plan import Board, PlannedAct, PlannedCase, PlannedDevice, board
from bench.rig.on_hardware.hardware_bench import BoardPool, Place
from bench.rig.on_hardware.lab_board import BoardUnfit, LabBoard

SEND = PlannedAct(verb="send")


@dataclass(eq=False)
class OneBoard:
    """All that a pool asks of a board."""

    name: str
    abilities: Board
    unfit: str = ""


DUT, SPARE, E5 = (
    OneBoard(name, board(name, dialect))
    for name, dialect in (("dut", "rui3"), ("spare", "rui3"), ("e5", "lora-e5"))
)


def device(name: str, **facts: Any) -> PlannedDevice:
    return PlannedDevice(name=name, activation="abp", acts=(SEND,), next_f_cnt=10, **facts)


def case(*devices: PlannedDevice) -> PlannedCase:
    return PlannedCase(case="c", duration_us=1, region="EU868", devices=devices)


def names(place: Place) -> dict[str, str]:
    return {device: one.name for device, one in place.boards.items()}


def on_pool(
    test: Callable[[BoardPool], Coroutine[Any, Any, None]], *boards: OneBoard, injected_max: int = 2
) -> None:
    run(test(BoardPool(cast(tuple[LabBoard, ...], boards), injected_max=injected_max)))


async def waits(taking: "asyncio.Task[Place]") -> bool:
    await asyncio.sleep(1)
    return not taking.done()


def test_boards_that_can_more_are_spared_for_those_who_need_it() -> None:
    async def test(pool: BoardPool) -> None:
        plain = await pool.take(case(device("a")), alone=False)
        assert names(plain)["a"] != "e5"
        choosy = await pool.take(case(device("a", explicit_counter=True)), alone=False)
        assert names(choosy) == {"a": "e5"}

    on_pool(test, E5, DUT)


def test_a_case_waits_for_its_board_and_others_do_not_wait_for_it() -> None:
    async def test(pool: BoardPool) -> None:
        choosy = case(device("a", explicit_counter=True))
        first = await pool.take(choosy, alone=False)
        second = asyncio.ensure_future(pool.take(choosy, alone=False))
        assert await waits(second)
        assert names(await pool.take(case(device("a"), device("b")), alone=False)).keys() == {
            "a", "b",
        }  # fmt: skip
        assert await waits(second)
        await pool.give_back(first)
        assert names(await second) == {"a": "e5"}

    on_pool(test, DUT, SPARE, E5)


def test_cases_without_boards_are_bounded_and_take_none() -> None:
    async def test(pool: BoardPool) -> None:
        first = await pool.take(case(), alone=False)
        await pool.take(case(), alone=False)
        third = asyncio.ensure_future(pool.take(case(), alone=False))
        assert await waits(third)
        assert names(await pool.take(case(device("a")), alone=False)) == {"a": "dut"}
        await pool.give_back(first)
        assert names(await third) == {}

    on_pool(test, DUT)


def test_who_needs_the_gateways_alone_comes_last_and_is_alone() -> None:
    async def test(pool: BoardPool) -> None:
        first = await pool.take(case(device("a")), alone=False)
        alone = asyncio.ensure_future(pool.take(case(), alone=True))
        second = asyncio.ensure_future(pool.take(case(device("a")), alone=False))
        assert await waits(alone) and await waits(second)
        await pool.give_back(first)
        assert await waits(alone)  # the other one was not through yet
        await pool.give_back(await second)
        place = await alone
        third = asyncio.ensure_future(pool.take(case(device("a")), alone=False))
        assert await waits(third)
        await pool.give_back(place)
        assert names(await third) == {"a": "dut"}

    on_pool(test, DUT)


def test_a_board_that_failed_is_missing_and_told_instead_of_waited_for() -> None:
    broken = OneBoard("dut", board("dut", "rui3"), unfit="dut: it answers nothing")

    async def test(pool: BoardPool) -> None:
        with pytest.raises(BoardUnfit, match="dut: it answers nothing"):
            await pool.take(case(device("a"), device("b")), alone=False)
        assert names(await pool.take(case(device("a")), alone=False)) == {"a": "spare"}

    on_pool(test, broken, SPARE)
