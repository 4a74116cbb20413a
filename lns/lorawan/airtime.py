"""How long is a frame on the air?

LoRa: Semtech's formula (AN1200.13, SX1276 data sheet 4.1.1.7). FSK: LoRaWAN's packet of 5 bytes
preamble, 3 bytes sync word, 1 byte length, the payload, 2 bytes CRC.
"""

import re
from dataclasses import dataclass

_DATR = re.compile(r"SF([0-9]{1,2})BW([0-9]{3})")


@dataclass(frozen=True, slots=True)
class DataRate:
    """LoRa with a spreading factor (7..12) and a bandwidth in hertz."""

    sf: int
    bw_hz: int

    def __str__(self) -> str:
        """The spelling of packet forwarders: "SF7BW125"."""
        return f"SF{self.sf}BW{self.bw_hz // 1000}"


@dataclass(frozen=True, slots=True)
class FskDataRate:
    """FSK with a bit rate in bits per second."""

    bit_rate_bps: int = 50_000

    def __str__(self) -> str:
        """The spelling of a person: "FSK 50000"."""
        return f"FSK {self.bit_rate_bps}"


FSK = FskDataRate()
"""The only FSK data rate of LoRaWAN: 50 kbit/s."""


def data_rate(text: str) -> DataRate:
    """The LoRa data rate from a packet forwarder's spelling ("SF7BW125"); ValueError otherwise."""
    found = _DATR.fullmatch(text)
    if found is None:
        raise ValueError(f"not a LoRa data rate: {text!r}")
    return DataRate(int(found[1]), int(found[2]) * 1000)


_FSK_OVERHEAD_BYTES = 5 + 3 + 1 + 2
_LDRO_FROM_SYMBOL_US = 16_000


def frame_airtime_us(data_rate: DataRate | FskDataRate, payload_bytes: int, *, crc: bool) -> int:
    """Airtime in microseconds of one LoRaWAN frame; `payload_bytes` is the whole PHYPayload.

    `crc` says whether the LoRa payload CRC is sent: uplinks have it, downlinks do not. FSK frames
    have their CRC in both directions, so there it changes nothing.
    """
    if isinstance(data_rate, FskDataRate):
        return fsk_airtime_us(payload_bytes, bit_rate_bps=data_rate.bit_rate_bps)
    return airtime_us(payload_bytes, sf=data_rate.sf, bw_hz=data_rate.bw_hz, crc=crc)


def airtime_us(
    payload_bytes: int,
    *,
    sf: int,
    bw_hz: int,
    coding_rate: int = 1,
    crc: bool = True,
    preamble: int = 8,
    implicit_header: bool = False,
    ldro: bool | None = None,
) -> int:
    """Airtime in microseconds of one LoRa frame, rounded to the nearest.

    `coding_rate` 1..4 stands for 4/5..4/8, `preamble` counts symbols without the 4.25 that the
    radio adds, `ldro` is the low data rate optimisation (None: as LoRaWAN has it, on where a symbol
    lasts longer than 16 ms: SF11 and SF12 at 125 kHz, SF12 at 250 kHz).
    ValueError outside SF6..SF12, coding rates 1..4 or for negative sizes.
    """
    if not 6 <= sf <= 12 or not 1 <= coding_rate <= 4 or payload_bytes < 0 or bw_hz <= 0:
        raise ValueError(
            f"no LoRa frame: {payload_bytes} bytes, SF{sf}, {bw_hz} Hz, coding rate {coding_rate}"
        )
    if ldro is None:
        ldro = (1_000_000 << sf) > _LDRO_FROM_SYMBOL_US * bw_hz
    bits = 8 * payload_bytes - 4 * sf + 28 + 16 * crc - 20 * implicit_header
    bits_per_group = 4 * (sf - 2 * ldro)
    symbols = 8 + max(-(-bits // bits_per_group) * (coding_rate + 4), 0)
    quarter_symbols = 4 * (preamble + symbols) + 17
    # A symbol lasts 2**sf / bw; counting quarters keeps the arithmetic in integers.
    return (quarter_symbols * (1_000_000 << sf) + 2 * bw_hz) // (4 * bw_hz)


def fsk_airtime_us(payload_bytes: int, *, bit_rate_bps: int = 50_000) -> int:
    """Airtime in microseconds of one LoRaWAN FSK frame, rounded to the nearest."""
    bits = (_FSK_OVERHEAD_BYTES + payload_bytes) * 8
    return (bits * 1_000_000 + bit_rate_bps // 2) // bit_rate_bps
