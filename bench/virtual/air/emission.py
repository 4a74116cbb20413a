"""What is on the air, as radios of different makes describe it to each other?"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from bench.virtual.lorawan.channel_plan import Fsk, Lora, Modulated
from bench.virtual.lorawan.time_on_air import time_on_air_us

PUBLIC = "3444"
"""The sync word of public LoRaWAN networks, 0x34, as the register pair of an SX126x."""
PRIVATE = "1424"
PREAMBLE = 8
_SF_MIN = 6  # of the airtime formula; SF5 exists on SX126x only


@dataclass(frozen=True, slots=True, kw_only=True)
class Modulation:
    """How a frame is modulated; `sf` 0 stands for the FSK of LoRaWAN, `inverted` for its IQ."""

    freq_hz: int
    sf: int
    bw_hz: int
    inverted: bool = False
    sync_word: str = PUBLIC

    @property
    def data_rate(self) -> Modulated:
        """Spreading factor and bandwidth."""
        return Lora(self.sf, self.bw_hz) if self.sf else Fsk()

    def disturbs(self, other: "Modulation") -> bool:
        """Whether a frame of this kind spoils one of that kind; sync words do not protect it."""
        return (self.freq_hz, self.sf, self.bw_hz, self.inverted) == (
            other.freq_hz, other.sf, other.bw_hz, other.inverted,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Emission:
    """One frame sent once; `sender` and `number` together name it. Times as `lns.clock.now_us`."""

    sender: str
    number: int
    phy: bytes
    modulation: Modulation
    start_us: int
    airtime_us: int
    power_dbm: int

    @property
    def end_us(self) -> int:
        """When the last symbol leaves."""
        return self.start_us + self.airtime_us

    @property
    def freq_hz(self) -> int:
        """Where it is."""
        return self.modulation.freq_hz

    @property
    def key(self) -> str:
        """Its name on this air."""
        return f"{self.sender}#{self.number}"

    def overlaps(self, other: "Emission") -> bool:
        """Whether both are on the air at once."""
        return self.start_us < other.end_us and other.start_us < self.end_us

    def to_json(self) -> dict[str, Any]:
        """The fields of a message; `from_json` reads them."""
        return {**asdict(self), "phy": self.phy.hex()}


def from_json(fields: Mapping[str, Any]) -> Emission:
    """The emission that `to_json` wrote."""
    modulation = Modulation(**fields["modulation"])
    rest = {**fields, "phy": bytes.fromhex(fields["phy"]), "modulation": modulation}
    return Emission(**rest)


@dataclass(frozen=True, slots=True)
class Caught:
    """An emission as one receiver heard it; `error`: it was there, but could not be read."""

    emission: Emission
    rssi_dbm: int
    snr_db: float
    error: bool = False

    @property
    def phy(self) -> bytes:
        """Its octets."""
        return self.emission.phy


def modulated(
    data_rate: Modulated, freq_hz: int, *, inverted: bool, sync_word: str = PUBLIC
) -> Modulation:
    """A data rate of a region on a frequency."""
    if isinstance(data_rate, Fsk):
        return Modulation(freq_hz=freq_hz, sf=0, bw_hz=0, inverted=inverted, sync_word=sync_word)
    return Modulation(
        freq_hz=freq_hz, sf=data_rate.sf, bw_hz=data_rate.bw_hz, inverted=inverted,
        sync_word=sync_word,
    )  # fmt: skip


def on_air_us(
    modulation: Modulation,
    payload_bytes: int,
    *,
    crc: bool,
    coding_rate: int = 1,
    preamble: int = PREAMBLE,
) -> int:
    """The airtime of a frame in microseconds."""
    data_rate = modulation.data_rate
    if isinstance(data_rate, Lora):
        data_rate = Lora(max(data_rate.sf, _SF_MIN), data_rate.bw_hz)
    return time_on_air_us(
        data_rate, payload_bytes, crc=crc, coding_rate=coding_rate, preamble=preamble
    )
