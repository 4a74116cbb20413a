"""What is one frame, sent once by one radio?"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from bench.virtual.lorawan.channel_plan import Modulated
from lns.lorawan.identifiers import Eui

__all__ = ["Direction", "Eui", "Transmission"]

Direction: TypeAlias = Literal["up", "down"]


@dataclass(frozen=True, slots=True)
class Transmission:
    """One frame sent once by one radio, until `end_us`; `number` is unique on this medium."""

    number: int
    direction: Direction
    sender: Eui
    phy: bytes
    freq_hz: int
    dr: int
    data_rate: Modulated
    start_us: int
    airtime_us: int
    end_us: int
    power_dbm: int
    origin: str
