"""Which driver speaks with which board, and how is its line opened?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.lora_e5 import LoraE5Device
from bench.device.lora_e5_board import SEEEDUINO
from bench.device.rui3 import Rui3Device
from bench.device.seam import AttachedDevice
from bench.device.serial_line import SerialLine
from bench.radio.medium import Record
from lns.lorawan.identifiers import Eui


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect: the line it is spoken on, and who speaks it. `dtr`: it talks only while set."""

    baud: int
    dtr: bool
    driver: Callable[[str, Eui, Wire, Record, Deadlines | None], AttachedDevice]


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "rui3": Dialect(
            baud=115_200,
            dtr=False,
            driver=lambda name, dev_eui, line, record, deadlines: Rui3Device(
                name, dev_eui, line, record, deadlines=deadlines
            ),
        ),
        "lora-e5": Dialect(
            baud=9_600,
            dtr=False,
            driver=lambda name, dev_eui, line, record, deadlines: LoraE5Device(
                name, dev_eui, line, record, deadlines=deadlines
            ),
        ),
        "seeeduino": Dialect(
            baud=115_200,
            dtr=True,
            driver=lambda name, dev_eui, line, record, deadlines: LoraE5Device(
                name, dev_eui, line, record, deadlines=deadlines, lineage=SEEEDUINO
            ),
        ),
    }
)


def driver_for(
    dialect: str,
    name: str,
    dev_eui: Eui,
    line: Wire,
    record: Record,
    *,
    deadlines: Deadlines | None = None,
) -> AttachedDevice:
    """The driver of a device; ValueError, naming the known dialects, for another one."""
    return _dialect(dialect).driver(name, dev_eui, line, record, deadlines)


def line_for(
    dialect: str, url: str | Callable[[], str], *, baud: int | None = None, dtr: bool | None = None
) -> SerialLine:
    """The line of a board, not opened yet; what is None is as its dialect has it."""
    spoken = _dialect(dialect)
    return SerialLine(
        url,
        spoken.baud if baud is None else baud,
        dtr=spoken.dtr if dtr is None else dtr,
    )


def _dialect(name: str) -> Dialect:
    if name not in DIALECTS:
        raise ValueError(f"unknown dialect {name!r}; known: {', '.join(DIALECTS)}")
    return DIALECTS[name]
