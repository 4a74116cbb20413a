"""Which parts of a LinkADRReq does a device grant?

As LoRaMac-node 4.7 does it, seen on the air: all three bits while ADR is off, whatever data rate is
asked for; a data rate that no channel of the mask has, and a mask without any channel, refused.
"""

from lns.lorawan.mac_commands import LinkADRAns, LinkADRReq
from lns.lorawan.region import Region

_DR_KEEP = 15
_CHANNELS_OF_A_MASK = 16
_ALL_CHANNELS = 6


def judge(
    command: LinkADRReq, region: Region, *, dr: int, adr: bool, added: int = 0
) -> tuple[LinkADRAns, int]:
    """The answer, and the data rate to use if that grants all; `dr` is the one in use.

    `added`: how many channels there are beside those of the region, with the same data rates.
    """
    wanted = dr if not adr or command.dr == _DR_KEEP else command.dr
    channels = [*region.uplink_channels, *[region.uplink_channels[0]] * added]
    masked = masked_channels(command, len(channels))
    has_dr = any(channels[number].dr_min <= wanted <= channels[number].dr_max for number in masked)
    return LinkADRAns(dr_ack=has_dr, ch_mask_ack=bool(masked)), wanted


def masked_channels(command: LinkADRReq, channels: int) -> frozenset[int]:
    """The numbers of the channels that a mask leaves, of so many."""
    known = range(channels)
    if command.ch_mask_cntl >= _ALL_CHANNELS:
        return frozenset(known)
    first = command.ch_mask_cntl * _CHANNELS_OF_A_MASK
    return frozenset(
        number for number in known if first <= number and command.ch_mask >> (number - first) & 1
    )
