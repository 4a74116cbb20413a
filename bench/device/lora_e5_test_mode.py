"""How does a LoRa-E5 send bytes as they are? In its TEST mode.

Source: Seeed's AT command specification 1.0 and logs of modules. It never sends a carrier.
"""

import contextlib
import re

from bench.capture import Record
from bench.device.at_session import Console, Wire
from bench.device.attached import TROUBLES
from bench.device.interfaces import CommandRefused, Deadlines, NotAsWritten
from bench.device.lora_e5_board import LORA_E5, Lineage, LoraE5Board, mhz
from lns.lorawan.airtime import DataRate, frame_airtime_us

_DONE = re.compile(r"\+TEST: TX DONE")
_STOP = "AT+TEST=STOP"
_TX_PREAMBLE, _RX_PREAMBLE = 8, 8
_RADIO = re.compile(
    r"RFCFG F:(\d+), ?SF(\d+), ?BW(\d+)K, ?TXPR:(\d+), ?RXPR:\d+, ?POW:(-?\d+)dBm"
    r", ?CRC:(\w+), ?IQ:(\w+), ?NET:(\w+)"
)


class LoraE5Test(LoraE5Board):
    """A raw radio with a LoRa-E5."""

    bytes_max = 250  # a command has 528 characters
    powers_dbm = range(0, 23)

    def __init__(
        self,
        name: str,
        line: Wire,
        record: Record,
        *,
        deadlines: Deadlines | None = None,
        lineage: Lineage = LORA_E5,
    ) -> None:
        console = Console(name, None, record)
        super().__init__(name, line, console, deadlines=deadlines, lineage=lineage)

    async def identify(self) -> str:
        """Its firmware; UnknownFirmware."""
        return await self.recognise()

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        """Send, and return after `+TEST: TX DONE`; DeviceSilent without it."""
        await self.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        within_us = frame_airtime_us(data_rate, len(phy), crc=True) + self._deadlines.proof_us
        try:
            await self._send(phy, within_us)
        except CommandRefused:
            await self._run(_STOP)  # it does not send while it receives
            await self._send(phy, within_us)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        """Test mode, and these parameters."""
        await self.change("AT+MODE", "TEST")
        await self._tune(freq_hz, data_rate, power_dbm)

    async def silence(self) -> None:
        """Switch its receiver off; it sends nothing by itself. Nothing of it is raised."""
        with contextlib.suppress(*TROUBLES):
            await self._run(_STOP)

    async def _send(self, phy: bytes, within_us: int) -> None:
        command = f'AT+TEST=TXLRPKT,"{phy.hex().upper()}"'
        async with self._session.accepted(command, _DONE) as asked:
            await self._session.wait(asked, asked.ending, within_us)

    async def _tune(self, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        """As LoRaWAN uplinks are: CRC on, IQ not inverted, public sync word; NotAsWritten."""
        bandwidth_khz = data_rate.bw_hz // 1_000
        answer = await self.ask(
            f"AT+TEST=RFCFG,{mhz(freq_hz)},SF{data_rate.sf},{bandwidth_khz}"
            f",{_TX_PREAMBLE},{_RX_PREAMBLE},{power_dbm},ON,OFF,ON"
        )
        found = _RADIO.fullmatch(answer)
        radio = (freq_hz, data_rate.sf, bandwidth_khz, _TX_PREAMBLE, power_dbm, "ON", "OFF", "ON")
        if found is None or found.groups() != tuple(str(value) for value in radio):
            raise NotAsWritten(f"{self.name}: its radio is set to {answer!r}")
