"""Which GPIO lines wake a concentrator on a Raspberry Pi, and how sure is that?"""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

TABLE = Path(__file__).with_name("gateway_boards.toml")
_DEVICES = {"spi": "/dev/spidev0.0", "usb": "usb:/dev/ttyACM0"}
_WITH_CONFIGURATION = ("SX1302", "SX1303")


class Certainty(StrEnum):
    """Where a line of the table comes from."""

    SOURCE = "source"  # read in code that drives the board
    VERIFY = "verify"  # known from use; look at the board first


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBoard:
    """A concentrator board; the lines are BCM numbers, None where there is none.

    `power_level`: what switches it on, or selects SPI.
    """

    name: str
    chip: str
    interface: str
    reset_gpio: int | None = None
    power_gpio: int | None = None
    power_level: int = 1
    certainty: Certainty
    note: str

    @property
    def device(self) -> str:
        """The device as `station.conf` names it."""
        return _DEVICES[self.interface]

    @property
    def has_known_configuration(self) -> bool:
        """Whether the structure of `station.conf` is known for its chip."""
        return self.chip in _WITH_CONFIGURATION


def _read() -> Mapping[str, GatewayBoard]:
    table = tomllib.loads(TABLE.read_text("utf-8"))
    return {
        name: GatewayBoard(name=name, **{**row, "certainty": Certainty(row["certainty"])})
        for name, row in table.items()
    }


BOARDS = _read()
