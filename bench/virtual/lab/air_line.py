"""How does one radio reach the air of a lab, and how does a station in a process of its own?"""

import asyncio
from collections.abc import Callable
from pathlib import Path

from bench.transmission import Direction, Eui, Transmission
from bench.virtual.air import (
    PREAMBLE,
    PUBLIC,
    Caught,
    Emission,
    Heard,
    Links,
    Listener,
    Medium,
    Modulation,
    Named,
    from_json,
    modulated,
    on_air_us,
)
from bench.virtual.lab.lab_folder import AIR, Wire, connect, home
from lns.clock import now_us


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
        await self._wire.close()


async def open_air(folder: Path, name: str) -> AirLine:
    """Bring a radio on the air of the lab in this folder; AirGone if there is none."""
    try:
        wire = await connect(home(folder, AIR))
    except OSError as error:
        raise AirGone(f"{name}: there is no air in {folder} ({error.strerror})") from None
    return await go_on_air(wire, name)


async def go_on_air(wire: Wire, name: str) -> AirLine:
    """Bring a radio on the air at the other end of this connection; AirGone if it ends."""
    wire.send({"radio": name})
    if await asyncio.wait_for(wire.receive(), 10) is None:
        raise AirGone(f"{name}: the air is gone")
    return AirLine(name, wire)


class DistantMedium(Medium):
    """A medium whose frames come and go over a line: it does not know what is under way.

    A concentrator hears what has the IQ and the sync word of LoRaWAN uplinks and a data rate of its
    region, on a frequency of the region. It sends with inverted IQ.
    """

    def __init__(self, region: Named, line: AirLine) -> None:
        super().__init__(region, Links(), lambda *_: None)
        self._line = line
        self._heard_frames = 0
        line.caught = self._caught

    def attach(self, listener: Listener, *, hears: Direction) -> None:
        if id(listener) not in self._listeners[hears]:
            print("INFO: Concentrator started (0ms)", flush=True)
        super().attach(listener, hears=hears)

    def _begin(self, transmission: Transmission) -> None:
        freq_hz, phy = transmission.freq_hz, transmission.phy
        is_down = transmission.direction == "down"
        self._line.transmit(
            phy,
            modulated(transmission.data_rate, freq_hz, inverted=is_down),
            power_dbm=transmission.power_dbm,
            crc=not is_down,
            start_us=transmission.start_us,
        )
        print(f"INFO: TX {freq_hz / 1e6:.1f}MHz DR{transmission.dr} {len(phy)} bytes", flush=True)

    def _caught(self, caught: Caught) -> None:
        emission, modulation = caught.emission, caught.emission.modulation
        low_hz, high_hz = self.plan.limits_hz
        if caught.error or modulation.inverted or modulation.sync_word != PUBLIC:
            return
        if not low_hz <= modulation.freq_hz <= high_hz:
            return
        dr = self.plan.up_dr(modulation.data_rate)
        if dr is None:
            return
        self._heard_frames += 1
        transmission = Transmission(
            number=self._heard_frames, direction="up", sender=Eui(""), phy=emission.phy,
            freq_hz=modulation.freq_hz, dr=dr, data_rate=modulation.data_rate,
            start_us=emission.start_us, airtime_us=emission.airtime_us,
            power_dbm=emission.power_dbm, origin="device",
        )  # fmt: skip
        print(f"INFO: RX {modulation.freq_hz / 1e6:.1f}MHz DR{dr} {len(emission.phy)} bytes")
        heard = Heard(transmission, caught.rssi_dbm, caught.snr_db, emission.end_us)
        for ear in list(self._listeners["up"].values()):
            ear.frame_heard(heard)
