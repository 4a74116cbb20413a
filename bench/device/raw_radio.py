"""What must a radio be able to do that sends again what others have sent?"""

from types import TracebackType
from typing import Protocol, Self

from lns.lorawan.data_rate import DataRate


class RawRadio(Protocol):
    """A radio that sends bytes as they are, with LoRaWAN's public sync word and IQ of uplinks.

    Used inside `async with`. `bytes_max`, `powers_dbm`: what it can send, and how strongly.
    """

    name: str
    firmware: str
    bytes_max: int
    powers_dbm: range

    async def __aenter__(self) -> Self:
        """Open its line; PortUnavailable."""

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Close its line."""

    async def identify(self) -> str:
        """Its firmware; UnknownFirmware for one that cannot prove what it sends."""

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        """Be ready to send so, that `transmit` takes no longer than the frame; NotAsWritten."""

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        """Send, and return after the proof that it was sent; DeviceSilent without one."""

    async def silence(self) -> None:
        """Let it transmit and receive nothing any more; nothing of it is raised."""

    async def returned(self, within_us: int) -> None:
        """Wait until its port is there again and it answers."""
