"""What modulation does a data rate stand for?"""

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
