"""Which MAC commands does a network send to a device, and how does the device spell its own?

Source: LoRaWAN 1.0.4, 5. A device reads up to the first command that it does not know.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum


class Cid(IntEnum):
    """What a command is; the same number for the request and for its answer."""

    LINK_CHECK = 0x02
    LINK_ADR = 0x03
    DUTY_CYCLE = 0x04
    RX_PARAM_SETUP = 0x05
    DEV_STATUS = 0x06
    NEW_CHANNEL = 0x07
    RX_TIMING_SETUP = 0x08
    TX_PARAM_SETUP = 0x09
    DL_CHANNEL = 0x0A
    DEVICE_TIME = 0x0D


_DOWN_OCTETS = {
    Cid.LINK_CHECK: 2,
    Cid.LINK_ADR: 4,
    Cid.DUTY_CYCLE: 1,
    Cid.RX_PARAM_SETUP: 4,
    Cid.DEV_STATUS: 0,
    Cid.NEW_CHANNEL: 5,
    Cid.RX_TIMING_SETUP: 1,
    Cid.TX_PARAM_SETUP: 1,
    Cid.DL_CHANNEL: 4,
    Cid.DEVICE_TIME: 5,
}
_UP_OCTETS = {
    Cid.LINK_CHECK: 0,
    Cid.LINK_ADR: 1,
    Cid.DUTY_CYCLE: 0,
    Cid.RX_PARAM_SETUP: 1,
    Cid.DEV_STATUS: 2,
    Cid.NEW_CHANNEL: 1,
    Cid.RX_TIMING_SETUP: 0,
    Cid.TX_PARAM_SETUP: 0,
    Cid.DL_CHANNEL: 1,
    Cid.DEVICE_TIME: 0,
}


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it is, and the octets after that."""

    cid: Cid
    told: bytes = b""

    @property
    def octets(self) -> bytes:
        """As it is on the air."""
        return bytes([self.cid]) + self.told


@dataclass(frozen=True, slots=True)
class LinkAdr:
    """What a LinkADRReq wants; 15 keeps a data rate or a power."""

    dr: int
    power: int
    mask: int
    mask_control: int
    nb_trans: int


def from_network(octets: bytes) -> tuple[Command, ...]:
    """The commands of a downlink, to the first that is unknown or not whole."""
    return tuple(_each(octets, _DOWN_OCTETS))


def from_device(octets: bytes) -> tuple[Command, ...]:
    """The commands of an uplink, to the first that is unknown or not whole."""
    return tuple(_each(octets, _UP_OCTETS))


def link_adr(command: Command) -> LinkAdr:
    """The fields of a LinkADRReq: DataRate_TXPower, ChMask, Redundancy."""
    first, low, high, redundancy = command.told
    return LinkAdr(
        dr=first >> 4,
        power=first % 16,
        mask=low + 256 * high,
        mask_control=redundancy >> 4 & 0b111,
        nb_trans=redundancy % 16,
    )


def hertz(octets: bytes) -> int:
    """A frequency: three octets, in steps of 100 Hz."""
    return 100 * int.from_bytes(octets, "little")


def link_adr_ans(*, power: bool, dr: bool, mask: bool) -> Command:
    """LinkADRAns: 07 if all is granted."""
    return Command(Cid.LINK_ADR, bytes([4 * power + 2 * dr + mask]))


def dev_status_ans(battery: int, margin_db: int) -> Command:
    """DevStatusAns: battery, and the margin in six bits of two's complement."""
    margin_db = max(-32, min(31, margin_db))
    return Command(Cid.DEV_STATUS, bytes([battery, margin_db % 64]))


def _each(octets: bytes, sizes: dict[Cid, int]) -> Iterator[Command]:
    while octets and octets[0] in sizes:
        cid, told = Cid(octets[0]), octets[1 : 1 + sizes[Cid(octets[0])]]
        if len(told) < sizes[cid]:
            return
        yield Command(cid, told)
        octets = octets[1 + len(told) :]
