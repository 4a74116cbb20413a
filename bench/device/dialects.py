"""Which driver speaks with which board, and who is at this serial port?

Asked in the order that harms nobody: the DTR line is left alone until nothing else has answered,
and a port is never opened at 1200 baud, which sends some boards into their boot loader. A CH340 has
no serial number: only the socket it is plugged into (`location`) tells it from another.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import TypeVar

from serial.tools import list_ports

from bench.capture import Record
from bench.device.at_session import RUI3, Grammar, Wire
from bench.device.attached import TROUBLES
from bench.device.interfaces import AttachedDevice, Deadlines, RawRadio, Traits
from bench.device.lora_e5 import E5, LORA_E5_TRAITS, SEEEDUINO, LoraE5Board, LoraE5Device
from bench.device.raw_radio import LoraE5Test, Replayer, Rui3P2p
from bench.device.rui3 import Rui3Board, Rui3Device, rui3_version
from bench.device.serial_line import LineLost, SerialLine
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import Region


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
    driver: Callable[..., AttachedDevice]
    raw_radio: Callable[..., RawRadio]


_RUI3 = Dialect(
    baud=115_200,
    dtr=False,
    grammar=RUI3,
    traits=rui3_version("RUI_5.0.0").traits,
    driver=Rui3Device,
    raw_radio=Rui3P2p,
)
_LORA_E5 = Dialect(
    baud=9_600,
    dtr=False,
    grammar=E5,
    traits=LORA_E5_TRAITS,
    driver=LoraE5Device,
    raw_radio=LoraE5Test,
)
_SEEEDUINO = replace(
    _LORA_E5,
    baud=115_200,
    dtr=True,
    driver=partial(LoraE5Device, lineage=SEEEDUINO),
    raw_radio=partial(LoraE5Test, lineage=SEEEDUINO),
)
DIALECTS: Mapping[str, Dialect] = MappingProxyType(
    {"rui3": _RUI3, "lora-e5": _LORA_E5, "seeeduino": _SEEEDUINO}
)


def driver_for(dialect: str, name: str, dev_eui: Eui, line: Wire, record: Record) -> AttachedDevice:
    """The driver of a device; ValueError, naming the known dialects, for another one."""
    return dialect_of(dialect).driver(name, dev_eui, line, record)


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


def replayer_for(
    dialect: str,
    name: str,
    line: Wire,
    region: Region,
    record: Record,
    *,
    deadlines: Deadlines | None = None,
) -> Replayer:
    """A replayer with a board of this dialect; ValueError, naming the known ones, otherwise."""
    radio = dialect_of(dialect).raw_radio(name, line, record, deadlines=deadlines)
    return Replayer(name, radio, region, record)


@dataclass(frozen=True, slots=True, kw_only=True)
class UsbPort:
    """One serial port of a USB device; None is what the device does not tell.

    `location` is the topology as in /sys/bus/usb/devices, such as `1-1.2.1`, without interface.
    """

    path: str
    vid: int
    pid: int
    serial_number: str | None
    location: str | None
    description: str


def serial_ports() -> tuple[UsbPort, ...]:
    ports = (
        UsbPort(
            path=found.device,
            vid=found.vid,
            pid=found.pid,
            serial_number=found.serial_number or None,
            location=found.location.partition(":")[0] if found.location else None,
            description=found.description or "",
        )
        for found in list_ports.comports()
        if found.vid is not None and found.pid is not None
    )
    return tuple(sorted(ports, key=lambda port: port.path))


T = TypeVar("T")

FIRST_WORD_US = 1_000_000
_ASK_EVERY_US = 300_000
_OPENINGS = ((115_200, False), (9_600, False), (115_200, True))
_PATIENCE = Deadlines(reply_us=1_500_000)
_RUI3_WORD = re.compile(rb"(?:^|[\r\n])(?:OK|AT_[A-Z_]+|COMMAND_LOCKED)\r?\n")
_E5_WORD = re.compile(rb"\+AT: OK")


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """What answers at a port; `dialect` None: AT commands, but none of the bench's dialects.

    `firmware` is what it says of itself. `dev_eui` and `uid` are None where it does not tell, as a
    board in a raw mode.
    """

    port: str
    dialect: str | None
    baud: int
    dtr: bool
    firmware: str
    dev_eui: Eui | None = None
    uid: str | None = None


async def who_is_there(port: str, record: Record = lambda *_: None) -> Found | None:
    """Who answers at a port, None if nobody does; PortUnavailable if it cannot be opened.

    It takes 3 s where nobody answers.
    """
    for baud, dtr in _OPENINGS:
        word = await _first_word(SerialLine(port, baud, dtr=dtr))
        if word is None:
            continue
        ask = _rui3 if word == "rui3" else _lora_e5
        return await ask(port, baud, record, dtr=dtr)
    return None


async def _first_word(line: Wire) -> str | None:
    await line.open()
    heard = b""
    try:
        async with asyncio.timeout(FIRST_WORD_US / 1_000_000):
            while True:
                line.write(b"\r\nAT\r\n")
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(_ASK_EVERY_US / 1_000_000):
                        while (word := _word(heard)) is None:
                            heard += await line.read()
                        return word
    except (TimeoutError, LineLost):
        return None
    finally:
        await line.close()


def _word(heard: bytes) -> str | None:
    if _E5_WORD.search(heard):
        return "lora-e5"
    return "rui3" if _RUI3_WORD.search(heard) else None


async def _rui3(port: str, baud: int, record: Record, *, dtr: bool) -> Found:
    line = SerialLine(port, baud, dtr=dtr)
    async with Rui3Board(port, line, record, deadlines=_PATIENCE) as board:
        firmware = await _told(board.ask("AT+VER")) or ""
        found = Found(port=port, dialect=None, baud=baud, dtr=dtr, firmware=firmware)
        if not firmware.startswith("RUI_"):
            return found
        dev_eui = _eui(await _told(board.ask("AT+DEVEUI")))
        uid = await _told(board.ask("AT+UID"))
        return replace(found, dialect="rui3", dev_eui=dev_eui, uid=uid)


async def _lora_e5(port: str, baud: int, record: Record, *, dtr: bool) -> Found:
    line = SerialLine(port, baud, dtr=dtr)
    async with LoraE5Board(port, line, record, deadlines=_PATIENCE) as board:
        firmware = await _told(board.ask("AT+VER")) or ""
        identifiers = await _told(board.identifiers()) or {}
    return Found(
        port=port,
        dialect="seeeduino" if dtr else "lora-e5",
        baud=baud,
        dtr=dtr,
        firmware=firmware,
        dev_eui=_eui(identifiers.get("DevEui")),
    )


async def _told(answer: Awaitable[T]) -> T | None:
    """The answer, None where there is none, as to LoRaWAN questions in a raw mode."""
    try:
        return await answer
    except TROUBLES:
        return None


def _eui(text: str | None) -> Eui | None:
    try:
        return eui(text) if text else None
    except ValueError:
        return None
