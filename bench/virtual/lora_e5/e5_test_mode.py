"""What does a LoRa-E5 do in TEST mode: plain LoRa, without any MAC?"""

from collections.abc import Callable
from dataclasses import dataclass

from bench.virtual.air.emission import PRIVATE, PUBLIC, Caught, Emission, Modulation
from bench.virtual.board.chip_radio import sleep_until
from bench.virtual.board.circuit import Circuit
from bench.virtual.lora_e5.e5_settings import E5Memory, E5Refusal, Error, octets, require, whole

_ON_OFF = {"ON": True, "OFF": False}
_SPREADING = ("SF5", "SF6", "SF7", "SF8", "SF9", "SF10", "SF11", "SF12")
_BANDWIDTHS = ("125", "250", "500")
_MODULATION = Modulation(freq_hz=868_000_000, sf=7, bw_hz=125_000, sync_word=PRIVATE)


@dataclass(frozen=True, slots=True)
class RfConfig:
    """What AT+TEST=RFCFG sets; the rest as the firmware has it by itself."""

    modulation: Modulation
    tx_preamble: int = 12
    rx_preamble: int = 15
    power_dbm: int = 14
    crc: bool = True

    def __str__(self) -> str:
        """The spelling of the module."""
        how = self.modulation
        words = {True: "ON", False: "OFF"}
        return (
            f"F:{how.freq_hz}, SF{how.sf}, BW{how.bw_hz // 1000}K, TXPR:{self.tx_preamble}, "
            f"RXPR:{self.rx_preamble}, POW:{self.power_dbm}dBm, CRC:{words[self.crc]}, "
            f"IQ:{words[how.inverted]}, NET:{words[how.sync_word == PUBLIC]}"
        )


class E5TestMode:
    """Test mode of one module; remembers its radio settings and whether it listens."""

    def __init__(self, circuit: Circuit, memory: E5Memory, say: Callable[[str, str], None]) -> None:
        self._circuit = circuit
        self._memory = memory
        self._say = say
        self._config = RfConfig(_MODULATION)
        self._listens = self._sends = False

    def use(self, is_test: bool) -> None:
        """Whether the module is in this mode now."""
        self._listens = False
        if is_test:
            self._circuit.raw.unasked = self._caught

    def obey(self, text: str) -> list[str]:
        """AT+TEST=…"""
        require(self._memory.get("mode") == "TEST", Error.MODE)
        words = [word.strip() for word in text.split(",")]
        match words[0].upper():
            case "RFCFG":
                if len(words) > 1:
                    self._config = _rf_config(words[1:])
                return [f"RFCFG {self._config}"]
            case "TXLRPKT" if len(words) == 2:
                require(not self._sends, Error.MODE)
                return self._send(words[1])
            case "RXLRPKT":
                self._listens = True
                return ["RXLRPKT"]
            case "STOP":
                self._listens = False
                return ["STOP"]
        raise E5Refusal(Error.PARAMETERS)

    def _send(self, text: str) -> list[str]:
        payload, how = octets(text), self._config
        require(bool(payload))
        self._listens, self._sends = False, True  # sending ends listening
        emission = self._circuit.raw.transmit(payload, how.modulation, power_dbm=how.power_dbm)
        self._circuit.spawn(self._sent(emission))
        return [f'TXLRPKT "{payload.hex().upper()}"']

    async def _sent(self, emission: Emission) -> None:
        await sleep_until(emission.end_us)
        self._sends = False
        self._say("TEST", "TX DONE")

    def _caught(self, caught: Caught) -> None:
        emission = caught.emission
        if not self._listens or caught.error or emission.modulation != self._config.modulation:
            return
        signal = f"RSSI:{caught.rssi_dbm}, SNR:{round(caught.snr_db)}"
        self._say("TEST", f"LEN:{len(emission.phy)}, {signal}")
        self._say("TEST", f'RX "{emission.phy.hex().upper()}"')


def _rf_config(words: list[str]) -> RfConfig:
    """Frequency MHz, SF, bandwidth kHz, preambles, power dBm, CRC, IQ, NET."""
    require(len(words) <= 9, Error.TOO_MANY)
    require(len(words) == 9)
    freq, sf, bandwidth, tx_preamble, rx_preamble, power, *flags = (w.upper() for w in words)
    require(sf in _SPREADING and bandwidth in _BANDWIDTHS and all(f in _ON_OFF for f in flags))
    crc, inverted, public = (_ON_OFF[flag] for flag in flags)
    mhz, _, rest = freq.partition(".")
    require((mhz + rest).isdecimal() and len(rest) <= 6)
    modulation = Modulation(
        freq_hz=int(mhz) * 1_000_000 + int(rest.ljust(6, "0")),
        sf=int(sf[2:]),
        bw_hz=int(bandwidth) * 1000,
        inverted=inverted,
        sync_word=PUBLIC if public else PRIVATE,
    )
    return RfConfig(
        modulation, whole(tx_preamble, 1, 65_535), whole(rx_preamble, 1, 65_535),
        whole(power, -20, 22), crc,
    )  # fmt: skip
