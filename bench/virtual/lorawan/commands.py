"""Which MAC commands are there, and what do their octets say?

Source: LoRaWAN 1.0.4, 5. A device reads up to the first command that it does not know.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

CHANNELS_OF_A_BANK = 16
_FIRST_WIDE = 64


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


_DOWN, _UP = 0, 1
_OCTETS = {
    Cid.LINK_CHECK: (2, 0),
    Cid.LINK_ADR: (4, 1),
    Cid.DUTY_CYCLE: (1, 0),
    Cid.RX_PARAM_SETUP: (4, 1),
    Cid.DEV_STATUS: (0, 2),
    Cid.NEW_CHANNEL: (5, 1),
    Cid.RX_TIMING_SETUP: (1, 0),
    Cid.TX_PARAM_SETUP: (1, 0),
    Cid.DL_CHANNEL: (4, 1),
    Cid.DEVICE_TIME: (5, 0),
}
"""What follows the identifier, down and up."""


@dataclass(frozen=True, slots=True)
class Command:
    """One command: what it is, and the octets after that."""

    cid: Cid
    told: bytes = b""

    @property
    def octets(self) -> bytes:
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
    return tuple(_each(octets, _DOWN))


def from_device(octets: bytes) -> tuple[Command, ...]:
    """The commands of an uplink, to the first that is unknown or not whole."""
    return tuple(_each(octets, _UP))


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


def _each(octets: bytes, way: int) -> Iterator[Command]:
    while octets and octets[0] in _OCTETS:
        cid = Cid(octets[0])
        end = 1 + _OCTETS[cid][way]
        if len(octets) < end:
            return
        yield Command(cid, octets[1:end])
        octets = octets[end:]


def masked_by(
    wanted: LinkAdr, before: frozenset[int], known: frozenset[int], *, has_sub_bands: bool
) -> frozenset[int] | None:
    """The channels after a ChMask; None where it names one that is not there, or is RFU.

    `known`: the channels that are there. ChMaskCntl 6 is all channels in EU868. In US915, which
    has sub-bands: 5 is sub-bands, 6 and 7 all or none of the narrow channels beside the wide ones
    of the mask.
    """
    control = wanted.mask_control
    bits = [bit for bit in range(CHANNELS_OF_A_BANK) if wanted.mask >> bit & 1]
    if has_sub_bands and control in (5, 6, 7):
        wide = [_FIRST_WIDE + bit for bit in bits if bit < 8]
        in_sub_bands = [8 * bit + number for bit in bits if bit < 8 for number in range(8)]
        narrow = {5: in_sub_bands, 6: range(_FIRST_WIDE), 7: ()}[control]
        return frozenset((*narrow, *wide))
    if not has_sub_bands and control == 6:
        return known
    if control > (4 if has_sub_bands else 0):
        return None
    bank = range(control * CHANNELS_OF_A_BANK, (control + 1) * CHANNELS_OF_A_BANK)
    named = frozenset(bank[bit] for bit in bits)
    return before - frozenset(bank) | named if named <= known else None
