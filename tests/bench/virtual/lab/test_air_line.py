"""What a concentrator hears of an air that is in another process, and how it sends there."""

import asyncio
from pathlib import Path

from bench import clock
from bench.virtual.air import Caught, Heard, Modulation
from bench.virtual.lab.air_process import DistantMedium
from bench.virtual.lorawan.channel_plan import Lora
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868
from tests.bench.virtual.wiring import Desk, Memory

HEARD = Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000)
UNHEARD = (
    Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000, inverted=True),
    Modulation(freq_hz=868_100_000, sf=7, bw_hz=125_000, sync_word="1424"),
    Modulation(freq_hz=868_100_000, sf=7, bw_hz=500_000),
    Modulation(freq_hz=915_000_000, sf=7, bw_hz=125_000),
)


class Ear:
    eui = Eui("0016C001F1500001")

    def __init__(self) -> None:
        self.heard: list[Heard] = []

    def frame_heard(self, heard: Heard) -> None:
        self.heard.append(heard)


def test_a_concentrator_hears_uplinks_of_its_region_and_sends_downlinks(tmp_path: Path) -> None:
    async def scene() -> None:
        async with Desk(tmp_path, Memory) as desk:
            device, west = await desk.radio("device"), await desk.radio("west")
            caught: list[Caught] = []
            device.caught = caught.append
            ear, medium = Ear(), DistantMedium(EU868, west)
            desk.hear(device)
            desk.hear(west)
            medium.attach(ear, hears="up")
            for modulation in (*UNHEARD, HEARD):
                sent = device.transmit(b"\1\2", modulation, power_dbm=14, crc=True)
                await asyncio.sleep(sent.airtime_us / 1_000_000 + 0.05)
            [heard] = ear.heard
            assert (heard.transmission.dr, heard.transmission.freq_hz) == (5, 868_100_000)
            assert (heard.end_us, heard.rssi_dbm, heard.transmission.phy) == (
                sent.end_us, -46, b"\1\2",
            )  # fmt: skip
            down = medium.transmit(
                ear.eui, b"\3", direction="down", freq_hz=869_525_000, dr=3, power_dbm=27
            )
            # Without a CRC, with which it would be 103 424.
            assert (down.airtime_us, down.data_rate) == (82_944, Lora(9, 125_000))
            medium.detach(ear, hears="up")
            device.transmit(b"\1\2", HEARD, power_dbm=14, crc=True)
            await asyncio.sleep(0.2)
            assert len(ear.heard) == 1
            assert caught[0].emission.modulation == Modulation(
                freq_hz=869_525_000, sf=9, bw_hz=125_000, inverted=True
            )

    clock.run(scene())
