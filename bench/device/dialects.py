"""Which driver speaks with which board, and how is its line opened?"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from bench.capture import Record
from bench.device.at_grammar import RUI3, Grammar
from bench.device.at_session import Wire
from bench.device.interfaces import AttachedDevice, Deadlines, RawRadio, Traits
from bench.device.lora_e5 import LORA_E5_TRAITS, LoraE5Device
from bench.device.lora_e5_board import E5, SEEEDUINO
from bench.device.lora_e5_test_mode import LoraE5Test
from bench.device.rui3 import Rui3Device, rui3_version
from bench.device.rui3_p2p import Rui3P2p
from bench.device.serial_line import SerialLine
from lns.lorawan.identifiers import Eui


@dataclass(frozen=True, slots=True, kw_only=True)
class Dialect:
    """One dialect: the line it is spoken on, who speaks it, and what is to be expected of it.

    `dtr`: it talks only while set. `traits`: those of its newest firmware, before a board has told
    its own. `raw_radio`: the same board as a replayer.
    """

    baud: int
    dtr: bool
    grammar: Grammar
    traits: Traits
    driver: Callable[[str, Eui, Wire, Record, Deadlines | None], AttachedDevice]
    raw_radio: Callable[[str, Wire, Record, Deadlines | None], RawRadio]


DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {
        "rui3": Dialect(
            baud=115_200,
            dtr=False,
            grammar=RUI3,
            traits=rui3_version("RUI_5.0.0").traits,
            driver=lambda name, dev_eui, line, record, deadlines: Rui3Device(
                name, dev_eui, line, record, deadlines=deadlines
            ),
            raw_radio=lambda name, line, record, deadlines: Rui3P2p(
                name, line, record, deadlines=deadlines
            ),
        ),
        "lora-e5": Dialect(
            baud=9_600,
            dtr=False,
            grammar=E5,
            traits=LORA_E5_TRAITS,
            driver=lambda name, dev_eui, line, record, deadlines: LoraE5Device(
                name, dev_eui, line, record, deadlines=deadlines
            ),
            raw_radio=lambda name, line, record, deadlines: LoraE5Test(
                name, line, record, deadlines=deadlines
            ),
        ),
        "seeeduino": Dialect(
            baud=115_200,
            dtr=True,
            grammar=E5,
            traits=LORA_E5_TRAITS,
            driver=lambda name, dev_eui, line, record, deadlines: LoraE5Device(
                name, dev_eui, line, record, deadlines=deadlines, lineage=SEEEDUINO
            ),
            raw_radio=lambda name, line, record, deadlines: LoraE5Test(
                name, line, record, deadlines=deadlines, lineage=SEEEDUINO
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
    return dialect_of(dialect).driver(name, dev_eui, line, record, deadlines)


def line_for(
    dialect: str, url: str | Callable[[], str], *, baud: int | None = None, dtr: bool | None = None
) -> SerialLine:
    """The line of a board, not opened yet; what is None is as its dialect has it."""
    spoken = dialect_of(dialect)
    return SerialLine(
        url,
        spoken.baud if baud is None else baud,
        dtr=spoken.dtr if dtr is None else dtr,
    )


def dialect_of(name: str) -> Dialect:
    """Everything about a dialect; ValueError, naming those that are known, for another one."""
    if name not in DIALECTS:
        raise ValueError(f"unknown dialect {name!r}; known: {', '.join(DIALECTS)}")
    return DIALECTS[name]
