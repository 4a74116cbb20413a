"""How is a captured PHYPayload sent into the air again?

By a second radio in its raw mode. A gateway cannot: Basics Station inverts the IQ of all it sends.
"""

from types import TracebackType
from typing import Self

from bench.capture import Record
from bench.device.conversation import Wire
from bench.device.deadlines import Deadlines
from bench.device.drivers import dialect_of
from bench.device.permission import NotPermitted, insist_on_permission
from bench.device.raw_radio import RawRadio
from lns.lorawan.data_rate import DataRate
from lns.lorawan.region import Region

__all__ = ["NotPermitted", "RawRadio", "Replayer", "replayer_for"]


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

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.radio.__aexit__(kind, error, trace)

    @property
    def firmware(self) -> str:
        """Known after `identify`."""
        return self.radio.firmware

    async def identify(self) -> str:
        """The firmware of the radio; UnknownFirmware for one that cannot prove what it sends."""
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
        """Let it transmit and receive nothing any more; nothing of it is raised."""
        await self.radio.silence()

    async def returned(self, within_us: int) -> None:
        """Wait until its port is there again and it answers; PortUnavailable, DeviceSilent."""
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
