"""Which MAC commands do FOpts or an FPort 0 payload carry?

LoRaWAN 1.0.4, section 5, and the commands of class B. The ten commands that this server and its
virtual devices act on are values of their own; the others are kept as bytes, so that what follows
them can be read. Multi-byte fields are little endian.
"""

import struct
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

T = TypeVar("T")
_LINK_CHECK = 0x02
_LINK_ADR = 0x03
_DEV_STATUS = 0x06
_TX_PARAM_SETUP = 0x09
_DEVICE_TIME = 0x0D
_LINK_ADR_REQ = struct.Struct("<BHB")
_DEVICE_TIME_ANS = struct.Struct("<IB")


@dataclass(frozen=True, slots=True)
class LinkCheckReq:
    """The device asks how well it is heard."""


@dataclass(frozen=True, slots=True)
class LinkCheckAns:
    """Demodulation margin 0..254 dB of the best station, and how many stations heard it."""

    margin_db: int
    gateway_count: int


@dataclass(frozen=True, slots=True)
class LinkADRReq:
    """The server sets data rate and power index (15: keep), channel mask and repetitions.

    `ch_mask` has 16 bits, `ch_mask_cntl` 0..7, `nb_trans` 0..15 transmissions per uplink (0: keep).
    """

    dr: int
    tx_power: int
    ch_mask: int
    ch_mask_cntl: int = 0
    nb_trans: int = 1


@dataclass(frozen=True, slots=True)
class LinkADRAns:
    """Which parts of a LinkADRReq the device accepted; it obeys only if all three are set."""

    power_ack: bool = True
    dr_ack: bool = True
    ch_mask_ack: bool = True


@dataclass(frozen=True, slots=True)
class DevStatusReq:
    """The server asks for battery and margin."""


@dataclass(frozen=True, slots=True)
class DevStatusAns:
    """Battery 1..254 (0: external power, 255: not measured) and margin -32..31 dB."""

    battery: int
    margin_db: int


@dataclass(frozen=True, slots=True)
class DeviceTimeReq:
    """The device asks what time it was when its frame ended."""


@dataclass(frozen=True, slots=True)
class DeviceTimeAns:
    """Whole seconds since the GPS epoch (1980-01-06, no leap seconds), and 1/256 of a second."""

    gps_s: int
    fraction_256: int


MAX_EIRPS_DBM = (8, 10, 12, 13, 14, 16, 18, 20, 21, 24, 26, 27, 29, 30, 33, 36)
"""What MaxEIRP of TxParamSetupReq stands for (LoRaWAN 1.0.4, 5.8)."""


@dataclass(frozen=True, slots=True)
class TxParamSetupReq:
    """The server says whether 400 ms are the longest frame each way, and the highest EIRP."""

    downlink_dwell: bool
    uplink_dwell: bool
    max_eirp_dbm: int


@dataclass(frozen=True, slots=True)
class TxParamSetupAns:
    """The device has done so; where its region has no dwell time, it does not answer."""


@dataclass(frozen=True, slots=True)
class OtherCommand:
    """A command of the specification that nobody here acts on: its identifier and its bytes."""

    cid: int
    body: bytes


ServerCommand = (
    LinkCheckAns | LinkADRReq | DevStatusReq | DeviceTimeAns | TxParamSetupReq | OtherCommand
)
"""What a server says."""
MacCommand = (
    ServerCommand | LinkCheckReq | LinkADRAns | DevStatusAns | DeviceTimeReq | TxParamSetupAns
)

# Bytes after the command identifier; 09 and 0A since 1.0.2, 10 to 13 are class B.
_UPLINK_BYTES = {
    _LINK_CHECK: 0,
    _LINK_ADR: 1,
    0x04: 0,  # DutyCycleAns
    0x05: 1,  # RXParamSetupAns
    _DEV_STATUS: 2,
    0x07: 1,  # NewChannelAns
    0x08: 0,  # RXTimingSetupAns
    _TX_PARAM_SETUP: 0,
    0x0A: 1,  # DlChannelAns
    _DEVICE_TIME: 0,
    0x10: 1,  # PingSlotInfoReq
    0x11: 1,  # PingSlotChannelAns
    0x12: 0,  # BeaconTimingReq
    0x13: 1,  # BeaconFreqAns
}
_DOWNLINK_BYTES = {
    _LINK_CHECK: 2,
    _LINK_ADR: 4,
    0x04: 1,  # DutyCycleReq
    0x05: 4,  # RXParamSetupReq
    _DEV_STATUS: 0,
    0x07: 5,  # NewChannelReq
    0x08: 1,  # RXTimingSetupReq
    _TX_PARAM_SETUP: 1,
    0x0A: 4,  # DlChannelReq
    _DEVICE_TIME: 5,
    0x10: 0,  # PingSlotInfoAns
    0x11: 4,  # PingSlotChannelReq
    0x12: 3,  # BeaconTimingAns
    0x13: 3,  # BeaconFreqReq
}


def parse_uplink(data: bytes) -> tuple[MacCommand, ...]:
    """The commands a device sent, up to the first one that is unknown or cut off; never raises."""
    return _parse(data, _UPLINK_BYTES, _uplink_command)


def parse_downlink(data: bytes) -> tuple[ServerCommand, ...]:
    """The commands a server sent, up to the first one that is unknown or cut off; never raises."""
    return _parse(data, _DOWNLINK_BYTES, _downlink_command)


def encode(commands: Iterable[ServerCommand]) -> bytes:
    """The bytes of what a server says, one after the other. ValueError if a field does not fit."""
    return b"".join(_encode_one(command) for command in commands)


def _parse(
    data: bytes, lengths: dict[int, int], command: Callable[[int, bytes], T]
) -> tuple[T, ...]:
    found: list[T] = []
    at = 0
    while at < len(data):
        length = lengths.get(data[at])
        end = at + 1 + (length or 0)
        if length is None or end > len(data):
            break
        found.append(command(data[at], data[at + 1 : end]))
        at = end
    return tuple(found)


def _uplink_command(cid: int, body: bytes) -> MacCommand:
    if cid == _LINK_CHECK:
        return LinkCheckReq()
    if cid == _LINK_ADR:
        return LinkADRAns(
            power_ack=body[0] & 4 != 0, dr_ack=body[0] & 2 != 0, ch_mask_ack=body[0] & 1 != 0
        )
    if cid == _DEV_STATUS:
        # The margin is a signed number of six bits; the two above it are RFU.
        return DevStatusAns(battery=body[0], margin_db=((body[1] & 0x3F) ^ 0x20) - 0x20)
    if cid == _DEVICE_TIME:
        return DeviceTimeReq()
    if cid == _TX_PARAM_SETUP:
        return TxParamSetupAns()
    return OtherCommand(cid, body)


def _downlink_command(cid: int, body: bytes) -> ServerCommand:
    if cid == _LINK_CHECK:
        return LinkCheckAns(margin_db=body[0], gateway_count=body[1])
    if cid == _LINK_ADR:
        dr_tx_power, ch_mask, redundancy = _LINK_ADR_REQ.unpack(body)
        return LinkADRReq(
            dr=dr_tx_power >> 4,
            tx_power=dr_tx_power & 0x0F,
            ch_mask=ch_mask,
            ch_mask_cntl=redundancy >> 4 & 0x07,
            nb_trans=redundancy & 0x0F,
        )
    if cid == _DEV_STATUS:
        return DevStatusReq()
    if cid == _TX_PARAM_SETUP:
        eirp_dbm = MAX_EIRPS_DBM[body[0] & 0x0F]
        return TxParamSetupReq(bool(body[0] & 0x20), bool(body[0] & 0x10), eirp_dbm)
    if cid == _DEVICE_TIME:
        return DeviceTimeAns(*_DEVICE_TIME_ANS.unpack(body))
    return OtherCommand(cid, body)


def _encode_one(command: ServerCommand) -> bytes:
    match command:
        case LinkCheckAns(margin_db, gateway_count):
            return bytes([_LINK_CHECK, _fit(margin_db, 8), _fit(gateway_count, 8)])
        case LinkADRReq(dr, tx_power, ch_mask, ch_mask_cntl, nb_trans):
            return bytes([_LINK_ADR]) + _LINK_ADR_REQ.pack(
                _fit(dr, 4) << 4 | _fit(tx_power, 4),
                _fit(ch_mask, 16),
                _fit(ch_mask_cntl, 3) << 4 | _fit(nb_trans, 4),
            )
        case DevStatusReq():
            return bytes([_DEV_STATUS])
        case TxParamSetupReq(downlink_dwell, uplink_dwell, max_eirp_dbm):
            power = MAX_EIRPS_DBM.index(max_eirp_dbm)
            return bytes([_TX_PARAM_SETUP, downlink_dwell << 5 | uplink_dwell << 4 | power])
        case DeviceTimeAns(gps_s, fraction_256):
            return bytes([_DEVICE_TIME]) + _DEVICE_TIME_ANS.pack(
                _fit(gps_s, 32), _fit(fraction_256, 8)
            )
        case _:
            return bytes([command.cid]) + command.body


def _fit(value: int, bits: int) -> int:
    if not 0 <= value < 1 << bits:
        raise ValueError(f"{value} does not fit {bits} bits of a MAC command")
    return value
