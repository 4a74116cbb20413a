"""How is a relay card at a serial port switched?"""

from bench.device.serial_line import LineLost, PortUnavailable, SerialLine
from bench.lab.power.seam import OFF_US, PowerFailed, off_and_on

BAUD = 9600


class SerialRelay:
    """A relay that is switched by bytes; it answers nothing, so that nothing can be checked."""

    def __init__(self, name: str, port: str, *, on: bytes, off: bytes, baud: int = BAUD) -> None:
        self._name = name
        self._port = port
        self._on = on
        self._off = off
        self._baud = baud

    async def on(self) -> None:
        """Send the bytes `on`."""
        await self._send(self._on)

    async def off(self) -> None:
        """Send the bytes `off`."""
        await self._send(self._off)

    async def cycle(self, off_us: int = OFF_US) -> None:
        """`off`, a while, `on`; at a reset pin `off` is what presses the button."""
        await off_and_on(self, off_us)

    async def _send(self, data: bytes) -> None:
        line = SerialLine(self._port, self._baud)
        try:
            await line.open()
            try:
                line.write(data)
            finally:
                await line.close()
        except (LineLost, PortUnavailable) as error:
            raise PowerFailed(f"{self._name}: {error}") from None
