import asyncio

from bench.clock import run
from bench.virtual.air import Heard, Links, Medium
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868

STATION, DEVICE = Eui("B827EBFFFE000001"), Eui("70B3D57ED0000001")


class Ear:
    def __init__(self) -> None:
        self.eui = STATION
        self.heard: list[Heard] = []

    def frame_heard(self, heard: Heard) -> None:
        self.heard.append(heard)


def test_two_radios_with_one_eui_both_hear() -> None:
    async def main() -> tuple[int, int]:
        medium = Medium(EU868, Links(), lambda source, kind, fields: None)
        one, other = Ear(), Ear()
        for ear in (one, other, other):
            medium.attach(ear, hears="up")
        for _ in range(2):
            sent = medium.transmit(
                DEVICE, bytes(23), direction="up", freq_hz=868_100_000, dr=5, power_dbm=14
            )
            await asyncio.sleep(sent.airtime_us / 1_000_000)
            medium.detach(one, hears="up")
        return len(one.heard), len(other.heard)

    assert run(main()) == (1, 2)
