"""How does a board send bytes as they are, and what may be sent again?

In P2P mode under RUI3, in TEST mode on a LoRa-E5. A gateway cannot replay: Basics Station inverts
the IQ of all it sends. Source: RAK-STM32-RUI 5.0.0, atcmd_p2p.c and service_lora_p2p.c, Seeed's AT
command specification 1.0 and logs of modules. RUI3's OK is no proof: only `+EVT:TXP2P DONE` is,
which may come before the OK. TEST mode never sends a carrier.
"""

import contextlib
import re
from typing import Any, Self

from bench.capture import Record
from bench.device.at_session import Line, LineKind
from bench.device.attached import TROUBLES
from bench.device.interfaces import CommandRefused, NotAsWritten, RawRadio, UnknownFirmware
from bench.device.lora_e5 import LoraE5Board, mhz
from bench.device.rui3 import Rui3Board, Setting
from lns.lorawan.region import DataRate, Region, frame_airtime_us

_P2P = "0"
_P2P_DONE = re.compile(r"\+EVT:TXP2P DONE")
_RECEIVER_OFF = "AT+PRECV=0"
_BANDWIDTHS = {125_000: 0, 250_000: 1, 500_000: 2}
_CODING_RATE_4_5, _PREAMBLE = 0, 8
_WITHOUT_FLASH_FROM = (5, 0, 0)  # AT+P2P takes a seventh field there: do not store

# 3444 is the sync word 0x34 of public networks, which gateways hear; a module has 1424 by default.
_AS_LORAWAN = (
    Setting("AT+SYNCWORD", "3444"),
    Setting("AT+IQINVER", "0"),
    Setting("AT+ENCRY", "0", optional=True),
    Setting("AT+CAD", "0", optional=True),
    Setting("AT+FIXLENGTHPAYLOAD", "0", optional=True),
)


class Rui3P2p(Rui3Board):
    """A raw radio under RUI3; remembers whether its settings were read since it started."""

    bytes_max = 239
    powers_dbm = range(5, 23)
    _is_prepared = False

    async def identify(self) -> str:
        version = await self.recognise()
        if not version.tells_tx_done:
            raise UnknownFirmware(f"{version.text} does not prove what it sends; install 4.0.5")
        return self.firmware

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        await self.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        within_us = frame_airtime_us(data_rate, len(phy), crc=True) + self._deadlines.proof_us
        try:
            await self._send(phy, within_us)
        except CommandRefused as refused:
            if "AT_BUSY_ERROR" not in str(refused):
                raise
            await self._run(_RECEIVER_OFF)  # somebody has switched it on
            await self._send(phy, within_us)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        if self.version is None:
            await self.identify()
        if not self._is_prepared:
            await self._prepare()
        await self._tune(
            f"{freq_hz}:{data_rate.sf}:{_BANDWIDTHS[data_rate.bw_hz]}"
            f":{_CODING_RATE_4_5}:{_PREAMBLE}:{power_dbm}"
        )

    async def silence(self) -> None:
        with contextlib.suppress(*TROUBLES):
            await self._run(_RECEIVER_OFF)

    async def _send(self, phy: bytes, within_us: int) -> None:
        command = f"AT+PSEND={phy.hex().upper()}"
        async with self._session.accepted(command, _P2P_DONE, early=True) as asked:
            await self._session.wait(asked, asked.ending, within_us)

    async def _prepare(self) -> None:
        await self.work_in_mode(_P2P)
        await self._run(_RECEIVER_OFF)  # while it is on, no setting is taken
        await self.read_back(await self.write_what_differs(_AS_LORAWAN))
        self._is_prepared = True

    async def _tune(self, due: str) -> None:
        found = await self.ask("AT+P2P")
        if found == due:
            return
        assert self.version is not None
        if self.version.number >= _WITHOUT_FLASH_FROM:
            with contextlib.suppress(CommandRefused):
                await self.write("AT+P2P", f"{due}:1")
                if await self.ask("AT+P2P") == due:
                    return
        await self.write("AT+P2P", due)
        found = await self.ask("AT+P2P")
        if found != due:
            raise NotAsWritten(f"{self.name}: AT+P2P reads {found}, not {due}")

    def _hear(self, line: Line) -> None:
        super()._hear(line)
        if line.kind is LineKind.BOOT:
            self._is_prepared = False


_TEST_DONE = re.compile(r"\+TEST: TX DONE")
_STOP = "AT+TEST=STOP"
_TX_PREAMBLE, _RX_PREAMBLE = 8, 8
_RADIO = re.compile(
    r"RFCFG F:(\d+), ?SF(\d+), ?BW(\d+)K, ?TXPR:(\d+), ?RXPR:\d+, ?POW:(-?\d+)dBm"
    r", ?CRC:(\w+), ?IQ:(\w+), ?NET:(\w+)"
)


class LoraE5Test(LoraE5Board):
    bytes_max = 250  # a command has 528 characters
    powers_dbm = range(0, 23)

    async def identify(self) -> str:
        return await self.recognise()

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        await self.tune(freq_hz=freq_hz, data_rate=data_rate, power_dbm=power_dbm)
        within_us = frame_airtime_us(data_rate, len(phy), crc=True) + self._deadlines.proof_us
        try:
            await self._send(phy, within_us)
        except CommandRefused:
            await self._run(_STOP)  # it does not send while it receives
            await self._send(phy, within_us)

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        await self.change("AT+MODE", "TEST")
        await self._tune(freq_hz, data_rate, power_dbm)

    async def silence(self) -> None:
        with contextlib.suppress(*TROUBLES):
            await self._run(_STOP)

    async def _send(self, phy: bytes, within_us: int) -> None:
        command = f'AT+TEST=TXLRPKT,"{phy.hex().upper()}"'
        async with self._session.accepted(command, _TEST_DONE) as asked:
            await self._session.wait(asked, asked.ending, within_us)

    async def _tune(self, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        bandwidth_khz = data_rate.bw_hz // 1_000
        answer = await self.ask(
            f"AT+TEST=RFCFG,{mhz(freq_hz)},SF{data_rate.sf},{bandwidth_khz}"
            f",{_TX_PREAMBLE},{_RX_PREAMBLE},{power_dbm},ON,OFF,ON"
        )
        found = _RADIO.fullmatch(answer)
        radio = (freq_hz, data_rate.sf, bandwidth_khz, _TX_PREAMBLE, power_dbm, "ON", "OFF", "ON")
        if found is None or found.groups() != tuple(str(value) for value in radio):
            raise NotAsWritten(f"{self.name}: its radio is set to {answer!r}")


_AROUND_PAYLOAD_BYTES = 13  # MHDR, FHDR, FPort and MIC


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
    bytes_max = region.max_payload(dr, repeater=False) + _AROUND_PAYLOAD_BYTES
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
