"""May this frame be sent into the air here? Asked before a radio is told anything."""

from lns.lorawan.airtime import frame_airtime_us
from lns.lorawan.data_rate import DataRate
from lns.lorawan.region import Region

_MHDR_AND_MIC_BYTES = 5


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
    bytes_max = region.max_mac_payload(dr, repeater=False) + _MHDR_AND_MIC_BYTES
    if not 0 < len(phy) <= bytes_max:
        raise NotPermitted(f"{region.name}: {len(phy)} bytes at DR{dr}, 1 to {bytes_max} it may be")
    airtime_us = frame_airtime_us(data_rate, len(phy), crc=True)
    if region.uplink_dwell_us is not None and airtime_us > region.uplink_dwell_us:
        raise NotPermitted(
            f"{region.name}: {airtime_us} us on the air, {region.uplink_dwell_us} us at most"
        )
    if power_dbm > region.max_eirp_dbm:
        raise NotPermitted(f"{region.name}: {power_dbm} dBm, {region.max_eirp_dbm} dBm at most")
