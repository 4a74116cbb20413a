"""A relay at a real serial port: which bytes arrive."""

import asyncio
import os
import tty
from pathlib import Path

import pytest

from bench.lab.power import PowerFailed, SerialRelay

ON, OFF = bytes.fromhex("A00101A2"), bytes.fromhex("A00100A1")


def test_the_bytes_of_the_inventory_arrive() -> None:
    card, port = os.openpty()
    tty.setraw(port)
    try:
        relay = SerialRelay("nrst", os.ttyname(port), on=ON, off=OFF)
        asyncio.run(relay.on())
        assert os.read(card, 100) == ON
        asyncio.run(relay.cycle(1000))
        assert os.read(card, 4) + os.read(card, 4) == OFF + ON
    finally:
        os.close(card)
        os.close(port)


def test_a_relay_that_is_not_there_is_named(tmp_path: Path) -> None:
    relay = SerialRelay("nrst", str(tmp_path / "relay"), on=ON, off=OFF)
    with pytest.raises(PowerFailed, match=r"nrst: .*relay: no such port"):
        asyncio.run(relay.off())
