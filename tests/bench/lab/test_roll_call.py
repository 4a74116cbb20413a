"""Stations that connect to the network server of a roll call, over real sockets."""

import asyncio
from dataclasses import replace
from pathlib import Path

import pytest

from bench.host.program import free_port
from bench.lab.basicstation_setup import CannotConfigure, RollCall
from bench.lab.inventory import Inventory, load
from bench.station.web_socket import connect, discover
from lns.lorawan.identifiers import Eui
from tests.bench.lab.inventory.bench_toml import bench_toml
from tests.looped import on_a_loop

WEST, EAST = Eui("0016C001F1500001"), Eui("0016C001F1500002")
PATIENCE_US = 20_000_000


@pytest.fixture
def bench(tmp_path: Path) -> Inventory:
    return replace(load(bench_toml(tmp_path)), tap=f"127.0.0.1:{free_port()}")


@on_a_loop
async def test_stations_are_counted_as_they_come_and_go(bench: Inventory, tmp_path: Path) -> None:
    counted: list[int] = []
    uri = f"ws://{bench.tap}"
    async with RollCall(bench, tmp_path / "call") as roll_call:
        assert await roll_call.until_all([WEST], 0, counted.append) == set()
        links = [await connect(await discover(uri, eui)) for eui in (WEST, EAST)]
        both = await roll_call.until_all([WEST, EAST], PATIENCE_US, counted.append)
        assert both == {WEST, EAST} and counted[0] == 0 and counted[-1] == 2
        for link in links:
            link.close()
            await link.wait_closed()
        gone = roll_call.until_all([Eui("0016C001F1500003")], 500_000, counted.append)
        assert await gone == set()
        assert await roll_call.until_all([WEST], 0, counted.append) == set()


def test_a_tap_that_is_in_use_is_told(bench: Inventory, tmp_path: Path) -> None:
    async def call() -> None:
        async with RollCall(bench, tmp_path / "first"), RollCall(bench, tmp_path / "second"):
            pytest.fail("two listen there")

    with pytest.raises(CannotConfigure, match="Address already in use"):
        asyncio.run(call())


@pytest.mark.parametrize(
    ("changed", "said"),
    [({"tap": "127.0.0.1:0"}, "no fixed port"), ({"tap_uri": "wss://lab:6090"}, "expect TLS")],
)
def test_what_it_cannot_do(
    bench: Inventory, tmp_path: Path, changed: dict[str, str], said: str
) -> None:
    with pytest.raises(CannotConfigure, match=said):
        RollCall(replace(bench, **changed), tmp_path)  # type: ignore[arg-type]
