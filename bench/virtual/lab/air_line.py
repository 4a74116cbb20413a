"""How does one radio reach the air?"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bench.virtual.air.emission import PREAMBLE, Caught, Emission, Modulation, from_json, on_air_us
from bench.virtual.lab.json_lines import Wire, connect
from bench.virtual.lab.layout import AIR, home
from lns.clock import now_us

__all__ = ["AirGone", "AirLine", "open_air"]


class AirGone(Exception):
    """The process of the air has ended: nobody hears anybody any more."""


class AirLine:
    """One radio's connection to the air; remembers what begins and has not ended.

    `begins` is told every emission that is near as it begins, `caught` the end of each that could
    be received, also one with errors.
    """

    def __init__(self, name: str, wire: Wire) -> None:
        self.name = name
        self.ongoing: dict[str, Emission] = {}
        self.begins: Callable[[Emission], None] = lambda emission: None
        self.caught: Callable[[Caught], None] = lambda caught: None
        self._wire = wire
        self._numbers = 0

    def transmit(
        self,
        phy: bytes,
        modulation: Modulation,
        *,
        power_dbm: int,
        crc: bool,
        coding_rate: int = 1,
        start_us: int | None = None,
    ) -> Emission:
        """Send a frame now; `start_us`: when it began, where a timer of the radio decides that."""
        self._numbers += 1
        emission = Emission(
            sender=self.name,
            number=self._numbers,
            phy=phy,
            modulation=modulation,
            start_us=now_us() if start_us is None else start_us,
            airtime_us=on_air_us(
                modulation, len(phy), crc=crc, coding_rate=coding_rate, preamble=PREAMBLE
            ),
            power_dbm=power_dbm,
        )
        self._wire.send({"sends": emission.to_json()})
        return emission

    def stop(self, emission: Emission) -> None:
        """Switch the sender off; without effect after the end."""
        self._wire.send({"stops": emission.key})

    async def run(self) -> None:
        """Hear until the air is gone: AirGone."""
        while (message := await self._wire.receive()) is not None:
            match message:
                case {"begins": fields}:
                    emission = from_json(fields)
                    self.ongoing[emission.key] = emission
                    self.begins(emission)
                case {"heard": key, "rssi_dbm": rssi_dbm, "snr_db": snr_db}:
                    self.caught(Caught(self.ongoing.pop(key), rssi_dbm, snr_db))
                case {"lost": key, "rssi_dbm": rssi_dbm, "snr_db": snr_db}:
                    self.caught(Caught(self.ongoing.pop(key), rssi_dbm, snr_db, error=True))
        raise AirGone(f"{self.name}: the air is gone")

    async def close(self) -> None:
        """Leave the air."""
        await self._wire.close()


async def open_air(folder: Path, name: str) -> AirLine:
    """Bring a radio on the air of the lab in this folder; AirGone if there is none."""
    try:
        wire = await connect(home(folder, AIR))
    except OSError as error:
        raise AirGone(f"{name}: there is no air in {folder} ({error.strerror})") from None
    wire.send({"radio": name})
    if await asyncio.wait_for(wire.receive(), 10) is None:
        raise AirGone(f"{name}: the air of {folder} is gone")
    return AirLine(name, wire)
