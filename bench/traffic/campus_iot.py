"""What does an archive of ChirpStack events hold: uplinks in clear, and who heard each of them?

One JSON object per line (CampusIoT data sets, ChirpStack v3 application events), often gzipped:

    {"devEUI": 16 hex, "deviceName", "fCnt": 32 bits, "fPort", "adr": bool, "data": hex,
     "confirmedUplink": bool, "txInfo": {"frequency": Hz, "dr"}, "_timestamp": archived at, ms UTC,
     "rxInfo": [{"gatewayID": hex, "rssi": dBm, "loRaSNR": dB, "time": ISO 8601 or absent}]}

A line without `rxInfo` is a status report: counted, not played. The archive has no PHYPayload and
no keys, so each frame is built anew with keys of the bench: one PHYPayload, delivered once for each
entry of `rxInfo`; a gateway with two concentrators is there twice and stays so.

Time: `time` is when a gateway heard the frame, and is taken as the time of arrival. One that is
further than 2 s from `_timestamp` comes from a clock that is wrong and counts as absent. The
earliest `time` of an uplink is its end on the air (`_timestamp` where there is none); where `time`
is absent, a delay of 5 to 400 ms is drawn from the stream "backhaul".

Sessions: a counter that goes back means that the device has joined again, where the archive does
not show. Each session is an ABP device of its own, with its own keys; the first keeps the DevEUI.
The server begins with the counter before the first one of the session.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime
from hashlib import blake2b
from pathlib import Path
from random import Random
from typing import Annotated

import msgspec
from msgspec import Meta, Struct
from msgspec import field as json_field

from bench.chance import stream
from bench.traffic.recording import (
    SAINT_EYNARD,
    SAINT_EYNARD_DEVICES,
    Device,
    Hearing,
    Log,
    TrafficError,
    TrafficFile,
    Uplink,
    uplink_of,
)
from lns.clock import since_1970_us
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import Eui, dev_addr, eui
from lns.uplink.registry import Activation

FORMAT = "ChirpStack events, one per line"
BACKHAUL_US = (5_000, 400_000)
CLOCK_WRONG_US = 2_000_000
_FIRST_DEV_ADDR = 0x26000001
_EUI_DIGITS = 16
_YEAR_10000_MS = 253_402_300_800_000


class _RxInfo(Struct):
    gateway_id: Annotated[str, Meta(min_length=1)] = json_field(name="gatewayID")
    rssi: float
    snr: float = json_field(name="loRaSNR")
    time: datetime | None = None


class _TxInfo(Struct):
    freq_hz: int = json_field(name="frequency")
    dr: Annotated[int, Meta(ge=0, le=7)]


class _Line(Struct):
    rx_info: msgspec.Raw | msgspec.UnsetType = json_field(name="rxInfo", default=msgspec.UNSET)


class _Record(Struct):
    dev_eui: str = json_field(name="devEUI")
    f_cnt: Annotated[int, Meta(ge=0, lt=1 << 32)] = json_field(name="fCnt")
    archived_ms: Annotated[int, Meta(ge=0, lt=_YEAR_10000_MS)] = json_field(name="_timestamp")
    tx_info: _TxInfo = json_field(name="txInfo")
    rx_info: Annotated[list[_RxInfo], Meta(min_length=1)] = json_field(name="rxInfo")
    f_port: Annotated[int, Meta(ge=0, le=255)] | None = json_field(name="fPort", default=None)
    data: str | None = None
    adr: bool = False
    confirmed: bool = json_field(name="confirmedUplink", default=False)
    name: str = json_field(name="deviceName", default="")


_line = msgspec.json.Decoder(_Line)
_record = msgspec.json.Decoder(_Record)


@dataclass(slots=True)
class _Session:
    device: Device
    newest: int


@dataclass(slots=True)
class _Reader:
    path: Path
    seed: int
    limit: int | None
    chance: Random
    uplinks: list[Uplink] = field(default_factory=list)
    devices: list[Device] = field(default_factory=list)
    stations: dict[Eui, str] = field(default_factory=dict)
    left_out: list[TrafficError] = field(default_factory=list)
    status_lines: int = 0
    wrong_clocks: int = 0
    sessions: dict[Eui, _Session] = field(default_factory=dict)

    def read(self, text: bytes) -> None:
        records: list[tuple[int, int, _Record]] = []
        for number, line in enumerate(text.splitlines(), 1):
            if self.limit is not None and len(records) >= self.limit:
                break
            if not line.strip():
                continue
            try:
                if _line.decode(line).rx_info is msgspec.UNSET:
                    self.status_lines += 1
                else:
                    record = _record.decode(line)
                    records.append((self._heard_us(record), number, record))
            except (ValueError, RecursionError) as error:
                self._leave_out(number, error)
        # An archive may be out of order; the order on the air counts.
        records.sort(key=lambda entry: entry[:2])
        for heard_us, number, record in records:
            try:
                self.uplinks.append(self._uplink(record, heard_us - records[0][0]))
            except ValueError as error:
                self._leave_out(number, error)

    def _leave_out(self, number: int, error: ValueError | RecursionError) -> None:
        self.left_out.append(TrafficError(self.path, f"line {number}", str(error)))

    def _heard_us(self, record: _Record) -> int:
        archived_us = record.archived_ms * 1000
        times_us = [_told_us(entry, archived_us) for entry in record.rx_info]
        return min((at_us for at_us in times_us if at_us is not None), default=archived_us)

    def _uplink(self, record: _Record, at_us: int) -> Uplink:
        session = self._session(record)
        assert session.device.dev_addr is not None and session.device.session_keys is not None
        phy = build_data(
            MType.CONFIRMED_UP if record.confirmed else MType.UNCONFIRMED_UP,
            dev_addr=session.device.dev_addr,
            f_cnt=record.f_cnt,
            keys=session.device.session_keys,
            f_port=record.f_port,
            payload=bytes.fromhex(record.data or ""),
            adr=record.adr,
        )
        uplink = uplink_of(phy, dr=record.tx_info.dr, freq_hz=record.tx_info.freq_hz)
        return replace(
            uplink,
            at_us=at_us,
            dev_eui=session.device.dev_eui,
            hearings=tuple(self._hearings(record, at_us)),
            f_cnt=record.f_cnt,  # of 32 bits
        )

    def _hearings(self, record: _Record, at_us: int) -> Iterator[Hearing]:
        archived_us = record.archived_ms * 1000
        heard_us = self._heard_us(record)
        for entry in record.rx_info:
            told_us = _told_us(entry, archived_us)
            self.wrong_clocks += told_us is None and entry.time is not None
            delay_us = self.chance.randint(*BACKHAUL_US) if told_us is None else told_us - heard_us
            station = station_eui(entry.gateway_id)
            self.stations.setdefault(station, f"gateway {entry.gateway_id[:6]}")
            yield Hearing(station, at_us + delay_us, entry.rssi, entry.snr)

    def _session(self, record: _Record) -> _Session:
        dev_eui = eui(record.dev_eui)
        session = self.sessions.get(dev_eui)
        if session is None or record.f_cnt < session.newest:
            device = self._device(dev_eui, record)
            session = self.sessions[dev_eui] = _Session(device, record.f_cnt)
        session.newest = record.f_cnt
        return session

    def _device(self, dev_eui: Eui, record: _Record) -> Device:
        number = 1 + sum(device.name.startswith(f"{dev_eui} ") for device in self.devices)
        chance = stream(self.seed, "keys", dev_eui, str(number))
        device = Device(
            name=f"{dev_eui} session {number}",
            dev_eui=dev_eui if number == 1 else _further_eui(dev_eui, number),
            activation=Activation.ABP,
            f_cnt_up=record.f_cnt - 1 if record.f_cnt else None,
            dev_addr=dev_addr(_FIRST_DEV_ADDR + len(self.devices)),
            session_keys=SessionKeys(chance.randbytes(16), chance.randbytes(16)),
        )
        self.devices.append(device)
        return device


def read(path: Path, text: bytes, *, seed: int, limit: int | None) -> TrafficFile:
    reader = _Reader(path, seed, limit, stream(seed, "backhaul"))
    reader.read(text)
    counts = {"status_lines": reader.status_lines, "wrong_clocks": reader.wrong_clocks}
    log = Log(
        name="",
        title=_title(reader),
        devices=tuple(reader.devices),
        stations=dict(sorted(reader.stations.items())),
        uplinks=tuple(reader.uplinks),
        facts={name: count for name, count in counts.items() if count},
    )
    known = any(device.dev_eui in SAINT_EYNARD_DEVICES for device in reader.devices)
    return TrafficFile(
        path=path,
        file_format=FORMAT,
        logs=(log,) if log.uplinks else (),
        notices=(SAINT_EYNARD,) if known else (),
        left_out=tuple(reader.left_out),
    )


def station_eui(gateway_id: str) -> Eui:
    """The EUI of a gateway: its id, or the first 16 digits of an id that was hashed to 32.

    An id that is not hexadecimal is hashed here.
    """
    try:
        return eui(gateway_id[:_EUI_DIGITS])
    except ValueError:
        return eui(int.from_bytes(blake2b(gateway_id.encode(), digest_size=8).digest(), "big"))


def _further_eui(dev_eui: Eui, number: int) -> Eui:
    name = f"{dev_eui} session {number}".encode()
    return eui(int.from_bytes(blake2b(name, digest_size=8).digest(), "big"))


def _told_us(entry: _RxInfo, archived_us: int) -> int | None:
    """When a gateway heard the frame, µs since 1970; None if its clock cannot be believed."""
    if entry.time is None:
        return None
    told_us = since_1970_us(entry.time)
    return told_us if abs(told_us - archived_us) <= CLOCK_WRONG_US else None


def _title(reader: _Reader) -> str:
    uplinks, stations = len(reader.uplinks), len(reader.stations)
    devices = len({device.name.partition(" ")[0] for device in reader.devices})
    return (
        f"{uplinks} archived uplink{'s' * (uplinks != 1)} of {devices}"
        f" device{'s' * (devices != 1)}, heard by {stations} gateway{'s' * (stations != 1)}"
    )
