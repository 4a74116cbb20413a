"""Which driver speaks with which board, who is at this serial port, and what may be sent again?

Asked in the order that harms nobody: the DTR line is left alone until nothing else has answered,
and a port is never opened at 1200 baud, which sends some boards into their boot loader. A CH340 has
no serial number: only the socket it is plugged into (`location`) tells it from another.

A board sends bytes as they are in P2P mode under RUI3, in TEST mode on a LoRa-E5. A gateway cannot
replay: Basics Station inverts the IQ of all it sends. Source: RAK-STM32-RUI 5.0.0, atcmd_p2p.c and
service_lora_p2p.c, Seeed's AT command specification 1.0 and logs of modules. RUI3's OK is no proof:
only `+EVT:TXP2P DONE` is, which may come before the OK. TEST mode never sends a carrier.
"""

import asyncio
import contextlib
import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any, Self, TypeVar

from serial.tools import list_ports

from bench.capture import Record
from bench.device.at_session import RUI3, Grammar, Line, LineKind, Wire
from bench.device.attached import TROUBLES
from bench.device.interfaces import (
    AttachedDevice,
    CommandRefused,
    Deadlines,
    NotAsWritten,
    RawRadio,
    Traits,
    UnknownFirmware,
)
from bench.device.lora_e5 import E5, LORA_E5_TRAITS, SEEEDUINO, LoraE5Board, LoraE5Device, mhz
from bench.device.rui3 import Rui3Board, Rui3Device, Setting, rui3_version
from bench.device.serial_line import LineLost, SerialLine
from lns.lorawan.identifiers import Eui, eui
from lns.lorawan.region import DataRate, Region, frame_airtime_us

_P2P = "0"
_P2P_DONE = re.compile(r"\+EVT:TXP2P DONE")
_RECEIVER_OFF = "AT+PRECV=0"
_BANDWIDTHS = {125_000: 0, 250_000: 1, 500_000: 2}
_CODING_RATE_4_5, _PREAMBLE = 0, 8
_WITHOUT_FLASH_FROM = (5, 0, 0)  # AT+P2P takes a seventh field there: do not store

# 3444 is the sync word 0x34 of public networks, which gateways hear; a module has 1424 by default.
_AS_LORAWAN = (
    Setting("AT+SYNCWORD", "3444"),
    Setting("AT+IQINVER", "0"),
    Setting("AT+ENCRY", "0", optional=True),
    Setting("AT+CAD", "0", optional=True),
    Setting("AT+FIXLENGTHPAYLOAD", "0", optional=True),
)


class Rui3P2p(Rui3Board):
    """A raw radio under RUI3; remembers whether its settings were read since it started."""

    bytes_max = 239
    powers_dbm = range(5, 23)
    _is_prepared = False

    async def identify(self) -> str:
        version = await self.recognise()
        if not version.tells_tx_done:
            raise UnknownFirmware(f"{version.text} does not prove what it sends; install 4.0.5")
        return self.firmware

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        await self.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        within_us = frame_airtime_us(data_rate, len(phy), crc=True) + self._deadlines.proof_us
        try:
            await self._send(phy, within_us)
        except CommandRefused as refused:
            if "AT_BUSY_ERROR" not in str(refused):
                raise
            await self._run(_RECEIVER_OFF)  # somebody has switched it on
            await self._send(phy, within_us)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        if self.version is None:
            await self.identify()
        if not self._is_prepared:
            await self._prepare()
        await self._tune(
            f"{freq_hz}:{data_rate.sf}:{_BANDWIDTHS[data_rate.bw_hz]}"
            f":{_CODING_RATE_4_5}:{_PREAMBLE}:{power_dbm}"
        )

    async def silence(self) -> None:
        with contextlib.suppress(*TROUBLES):
            await self._run(_RECEIVER_OFF)

    async def _send(self, phy: bytes, within_us: int) -> None:
        command = f"AT+PSEND={phy.hex().upper()}"
        async with self._session.accepted(command, _P2P_DONE, early=True) as asked:
            await self._session.wait(asked, asked.ending, within_us)

    async def _prepare(self) -> None:
        await self.work_in_mode(_P2P)
        await self._run(_RECEIVER_OFF)  # while it is on, no setting is taken
        await self.read_back(await self.write_what_differs(_AS_LORAWAN))
        self._is_prepared = True

    async def _tune(self, due: str) -> None:
        found = await self.ask("AT+P2P")
        if found == due:
            return
        assert self.version is not None
        if self.version.number >= _WITHOUT_FLASH_FROM:
            with contextlib.suppress(CommandRefused):
                await self.write("AT+P2P", f"{due}:1")
                if await self.ask("AT+P2P") == due:
                    return
        await self.write("AT+P2P", due)
        found = await self.ask("AT+P2P")
        if found != due:
            raise NotAsWritten(f"{self.name}: AT+P2P reads {found}, not {due}")

    def _hear(self, line: Line) -> None:
        super()._hear(line)
        if line.kind is LineKind.BOOT:
            self._is_prepared = False


_TEST_DONE = re.compile(r"\+TEST: TX DONE")
_STOP = "AT+TEST=STOP"
_TX_PREAMBLE, _RX_PREAMBLE = 8, 8
_RADIO = re.compile(
    r"RFCFG F:(\d+), ?SF(\d+), ?BW(\d+)K, ?TXPR:(\d+), ?RXPR:\d+, ?POW:(-?\d+)dBm"
    r", ?CRC:(\w+), ?IQ:(\w+), ?NET:(\w+)"
)


class LoraE5Test(LoraE5Board):
    bytes_max = 250  # a command has 528 characters
    powers_dbm = range(0, 23)

    async def identify(self) -> str:
        return await self.recognise()

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        await self.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        within_us = frame_airtime_us(data_rate, len(phy), crc=True) + self._deadlines.proof_us
        try:
            await self._send(phy, within_us)
        except CommandRefused:
            await self._run(_STOP)  # it does not send while it receives
            await self._send(phy, within_us)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        await self.change("AT+MODE", "TEST")
        await self._tune(freq_hz, data_rate, power_dbm)

    async def silence(self) -> None:
        with contextlib.suppress(*TROUBLES):
            await self._run(_STOP)

    async def _send(self, phy: bytes, within_us: int) -> None:
        command = f'AT+TEST=TXLRPKT,"{phy.hex().upper()}"'
        async with self._session.accepted(command, _TEST_DONE) as asked:
            await self._session.wait(asked, asked.ending, within_us)

    async def _tune(self, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        bandwidth_khz = data_rate.bw_hz // 1_000
        answer = await self.ask(
            f"AT+TEST=RFCFG,{mhz(freq_hz)},SF{data_rate.sf},{bandwidth_khz}"
            f",{_TX_PREAMBLE},{_RX_PREAMBLE},{power_dbm},ON,OFF,ON"
        )
        found = _RADIO.fullmatch(answer)
        radio = (freq_hz, data_rate.sf, bandwidth_khz, _TX_PREAMBLE, power_dbm, "ON", "OFF", "ON")
        if found is None or found.groups() != tuple(str(value) for value in radio):
            raise NotAsWritten(f"{self.name}: its radio is set to {answer!r}")


_AROUND_PAYLOAD_BYTES = 13  # MHDR, FHDR, FPort and MIC


class NotPermitted(ValueError):
    """The region or the radio does not allow such a transmission; nothing was sent."""


def insist_on_permission(
    phy: bytes, region: Region, *, freq_hz: int, data_rate: DataRate, power_dbm: int
) -> None:
    """NotPermitted for an uplink that no device of this region may send.

    Where devices may be given channels of their own (EU868), any frequency whose channel lies
    within the band is one; elsewhere it is one of the region's channels, with its data rates.
    """
    try:
        dr = region.uplink_dr(data_rate)
    except ValueError as error:
        raise NotPermitted(str(error)) from None
    if region.downlink_channels_hz:
        channels = (c for c in region.uplink_channels if c.dr_min <= dr <= c.dr_max)
        permitted = freq_hz in (channel.freq_hz for channel in channels)
    else:
        low_hz, high_hz = region.freq_range_hz
        half_hz = data_rate.bw_hz // 2
        permitted = low_hz + half_hz <= freq_hz <= high_hz - half_hz
    if not permitted:
        raise NotPermitted(f"{region.name}: {freq_hz} Hz is no uplink channel for DR{dr}")
    bytes_max = region.max_payload(dr, repeater=False) + _AROUND_PAYLOAD_BYTES
    if not 0 < len(phy) <= bytes_max:
        raise NotPermitted(f"{region.name}: {len(phy)} bytes at DR{dr}, 1 to {bytes_max} it may be")
    airtime_us = frame_airtime_us(data_rate, len(phy), crc=True)
    if region.uplink_dwell_us is not None and airtime_us > region.uplink_dwell_us:
        raise NotPermitted(
            f"{region.name}: {airtime_us} us on the air, {region.uplink_dwell_us} us at most"
        )
    if power_dbm > region.max_eirp_dbm:
        raise NotPermitted(f"{region.name}: {power_dbm} dBm, {region.max_eirp_dbm} dBm at most")


class Replayer:
    """A radio that sends again what others have sent; `async with` opens its line.

    It refuses what no device of the region may send, before anything is written to the radio. What
    was sent goes into the capture, once it is proven.
    """

    def __init__(self, name: str, radio: RawRadio, region: Region, record: Record) -> None:
        self.name = name
        self.radio = radio
        self._region = region
        self._record = record

    async def __aenter__(self) -> Self:
        await self.radio.__aenter__()
        return self

    async def __aexit__(self, *raised: Any) -> None:
        await self.radio.__aexit__(*raised)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int = 14) -> None:
        """Be ready to send so: `transmit` then takes no longer than the frame.

        DeviceSilent, CommandRefused, DeviceRestarted, LineLost, NotAsWritten.
        """
        await self.radio.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int = 14
    ) -> None:
        """Send a frame and wait until it is proven that it was sent.

        NotPermitted; DeviceSilent without proof; CommandRefused, DeviceRestarted, LineLost,
        NotAsWritten where the radio has another setting than it was given.
        """
        insist_on_permission(
            phy, self._region, freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm
        )
        if len(phy) > self.radio.bytes_max:
            raise NotPermitted(f"{self.name}: {len(phy)} bytes, it sends {self.radio.bytes_max}")
        powers = self.radio.powers_dbm
        if power_dbm not in powers:
            raise NotPermitted(f"{self.name}: {power_dbm} dBm, it has {powers[0]} to {powers[-1]}")
        await self.radio.transmit(phy, freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        fields: dict[str, object] = {
            "phy": phy.hex(),
            "freq_hz": freq_hz,
            "data_rate": str(data_rate),
            "power_dbm": power_dbm,
        }
        self._record(f"replayer-{self.name}", "replayer.transmit", fields)


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
        url, spoken.baud if baud is None else baud, dtr=spoken.dtr if dtr is None else dtr
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
