"""How does a station in a process of its own use an air that is in another?"""

from bench.transmission import Direction, Eui, Transmission
from bench.virtual.air.emission import PUBLIC, Caught, modulated
from bench.virtual.air.medium import Heard, Listener, Medium, Named
from bench.virtual.air.propagation import Links
from bench.virtual.lab.air_line import AirLine


class DistantMedium(Medium):
    """A medium whose frames come and go over a line; remembers who listens here.

    A concentrator hears what has the IQ and the sync word of LoRaWAN uplinks and a data rate of its
    region, on a frequency of the region. It sends with inverted IQ.
    """

    def __init__(self, region: Named, line: AirLine) -> None:
        super().__init__(region, Links(), lambda *_: None)
        self._line = line
        self._ears: dict[int, Listener] = {}
        self._heard_frames = 0
        line.caught = self._caught

    def attach(self, listener: Listener, *, hears: Direction) -> None:
        """Let a concentrator hear from now on."""
        if id(listener) not in self._ears:
            print("INFO: Concentrator started (0ms)", flush=True)
        self._ears[id(listener)] = listener

    def detach(self, listener: Listener, *, hears: Direction) -> None:
        """Let a concentrator hear no more."""
        self._ears.pop(id(listener), None)

    def ongoing(self, direction: Direction) -> list[Transmission]:
        """Nothing: a concentrator does not know what is under way."""
        return []

    def transmit(
        self,
        sender: Eui,
        phy: bytes,
        *,
        direction: Direction,
        freq_hz: int,
        dr: int,
        power_dbm: int,
        origin: str = "device",
        start_us: int | None = None,
        facts: dict[str, object] | None = None,
    ) -> Transmission:
        """Put a downlink on the air."""
        data_rate = self.plan.data_rates[dr] if dr < len(self.plan.data_rates) else None
        if data_rate is None:
            raise ValueError(f"{self.plan.name}: DR{dr} is not defined")
        emission = self._line.transmit(
            phy,
            modulated(data_rate, freq_hz, inverted=direction == "down"),
            power_dbm=power_dbm,
            crc=direction == "up",
            start_us=start_us,
        )
        print(f"INFO: TX {freq_hz / 1e6:.1f}MHz DR{dr} {len(phy)} bytes", flush=True)
        return Transmission(
            number=emission.number, direction=direction, sender=sender, phy=phy, freq_hz=freq_hz,
            dr=dr, data_rate=data_rate, start_us=emission.start_us,
            airtime_us=emission.airtime_us, power_dbm=power_dbm, origin=origin,
        )  # fmt: skip

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
        for ear in list(self._ears.values()):
            ear.frame_heard(heard)
