"""How is a captured PHYPayload sent into the air again, and may it be sent here?

By a second radio in its raw mode. A gateway cannot: Basics Station inverts the IQ of all it sends.
"""

from typing import Any, Self

from bench.capture import Record
from bench.device.at_session import Wire
from bench.device.dialects import dialect_of
from bench.device.interfaces import Deadlines, RawRadio
from lns.lorawan.region import DataRate, Region, frame_airtime_us

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

    @property
    def firmware(self) -> str:
        """Known after `identify`."""
        return self.radio.firmware

    async def identify(self) -> str:
        return await self.radio.identify()

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

    async def silence(self) -> None:
        await self.radio.silence()

    async def returned(self, within_us: int) -> None:
        await self.radio.returned(within_us)


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
    radio = dialect_of(dialect).raw_radio(name, line, record, deadlines)
    return Replayer(name, radio, region, record)
