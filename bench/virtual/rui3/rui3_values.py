"""Which values does RUI3 keep in flash, and what may be written? What differs between its versions?

Defaults as after ATR (5.0.0). A check gives the text to keep, None for a bad argument.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from bench.virtual.board.circuit import Nvm


class Status(StrEnum):
    """The last line, or what stands for it."""

    OK = "OK"
    ERROR = "AT_ERROR"
    PARAM_ERROR = "AT_PARAM_ERROR"
    BUSY_ERROR = "AT_BUSY_ERROR"
    NO_CLASS_B = "AT_NO_CLASSB_ENABLE"
    NO_NETWORK_JOINED = "AT_NO_NETWORK_JOINED"
    MODE_NO_SUPPORT = "AT_MODE_NO_SUPPORT"
    NOT_FOUND = "AT_COMMAND_NOT_FOUND"
    UNSUPPORTED_BAND = "AT_UNSUPPORTED_BAND"
    OK_WITHOUT_END = "OK, and no line end"
    NOTHING = "nothing: it resets, or answers later"


_VERSION = re.compile(r"RUI_(\d+)\.(\d+)\.(\d+)_(\w+)-?.*")
_SILENT = ((4, 0, 0), (4, 0, 1), (4, 0, 3))


@dataclass(frozen=True, slots=True)
class Rui3Version:
    """A firmware by the name it gives itself, such as RUI_4.1.0_RAK3172-H."""

    name: str

    @property
    def number(self) -> tuple[int, int, int]:
        """Major, minor, patch."""
        found = _VERSION.fullmatch(self.name)
        assert found is not None, f"{self.name} is no version of RUI3"
        return int(found[1]), int(found[2]), int(found[3])

    @property
    def tells_ends(self) -> bool:
        """Whether there are `TX_DONE`, `TXP2P DONE` and the number in `FAILED(n)`."""
        return self.number >= (4, 0, 0) and self.number not in _SILENT

    @property
    def is_new_stack(self) -> bool:
        """LoRaMac 4.7 instead of 4.4: DevNonce counts, and AT+RETY does not reach the MAC."""
        return self.number >= (4, 2, 0)

    @property
    def names_unknown_commands(self) -> bool:
        """Whether an unknown command is repeated in the answer, as up to 3.5.0."""
        return self.number <= (3, 5, 0)


Check = Callable[[str], str | None]


@dataclass(frozen=True, slots=True)
class Value:
    """One value: its default, what may be written, what the help says."""

    default: str
    check: Check
    about: str


def number(low: int, high: int) -> Check:
    """A decimal number in a range."""

    def check(text: str) -> str | None:
        known = text.isascii() and text.isdecimal() and low <= int(text) <= high
        return str(int(text)) if known else None

    return check


def hexadecimal(octets: int, *, upper: bool = True) -> Check:
    """So many bytes in hexadecimal, either case."""

    def check(text: str) -> str | None:
        if not re.fullmatch(rf"[0-9A-Fa-f]{{{2 * octets}}}", text):
            return None
        return text.upper() if upper else text.lower()

    return check


def _letter(text: str) -> str | None:
    return text.upper() if text.upper() in ("A", "B", "C") else None


def _name(text: str) -> str | None:
    return text if 1 <= len(text) <= 16 else None


GENERAL = {
    "ALIAS": Value("", _name, "add an alias name to the device"),
    "LPM": Value("0", number(0, 1), "get or set the low power mode (0 = off, 1 = on)"),
    "DEBUG": Value("0", number(0, 1), "debug prints (0 = off, 1 = on)"),
    "BAUD": Value("115200", number(4800, 115_200), "get or set the serial port baudrate"),
}

NETWORK = {
    "DEVEUI": Value("0" * 16, hexadecimal(8), "get or set the device EUI (8 bytes in hex)"),
    "APPEUI": Value("0" * 16, hexadecimal(8), "get or set the application EUI (8 bytes in hex)"),
    "APPKEY": Value("0" * 32, hexadecimal(16), "get or set the application key"),
    "DEVADDR": Value("0" * 8, hexadecimal(4), "get or set the device address"),
    "NWKSKEY": Value("0" * 32, hexadecimal(16), "get or set the network session key"),
    "APPSKEY": Value("0" * 32, hexadecimal(16), "get or set the application session key"),
    "NJM": Value("1", number(0, 1), "get or set the network join mode (0 = ABP, 1 = OTAA)"),
    "CLASS": Value("A", _letter, "get or set the device class (A = class A, B = class B, C)"),
    "BAND": Value("4", number(0, 12), "get or set the active region"),
    "DR": Value("0", number(0, 13), "get or set the data rate"),
    "ADR": Value("1", number(0, 1), "get or set the adaptive data rate (0 = off, 1 = on)"),
    "TXP": Value("0", number(0, 14), "get or set the transmitting power"),
    "DCS": Value("1", number(0, 1), "get or set the duty cycle settings (0 = off, 1 = on)"),
    "CFM": Value("0", number(0, 1), "get or set the confirm mode (0 = off, 1 = on)"),
    "RETY": Value("0", number(0, 7), "get or set the number of retransmissions (0 - 7)"),
    "RX1DL": Value("1", number(1, 15), "get or set the delay of RX1 (seconds)"),
    "RX2DL": Value("2", number(2, 16), "get or set the delay of RX2 (seconds)"),
    "JN1DL": Value("5", number(1, 14), "get or set the join delay of RX1 (seconds)"),
    "JN2DL": Value("6", number(2, 15), "get or set the join delay of RX2 (seconds)"),
    "RX2DR": Value("0", number(0, 13), "get or set the RX2 data rate"),
    "RX2FQ": Value("869525000", number(150_000_000, 960_000_000), "get or set the RX2 frequency"),
    "PNM": Value("1", number(0, 1), "get or set the public network mode (0 = off, 1 = on)"),
    "LINKCHECK": Value("0", number(0, 2), "get or set the link check (0 = off, 1 = once, 2)"),
    "TIMEREQ": Value("0", number(0, 1), "request the current date and time"),
    "MASK": Value("00FF", hexadecimal(2), "get or set the channel mask"),
    "CHS": Value("0", number(0, 960_000_000), "get or set single channel mode (0 = off)"),
}

P2P = {
    "PFREQ": Value("868000000", number(150_000_000, 960_000_000), "P2P frequency (Hz)"),
    "PSF": Value("7", number(5, 12), "P2P spreading factor"),
    "PBW": Value("0", number(0, 9), "P2P bandwidth (0 = 125, 1 = 250, 2 = 500 kHz, ...)"),
    "PCR": Value("0", number(0, 3), "P2P code rate (0 = 4/5 ... 3 = 4/8)"),
    "PPL": Value("8", number(5, 65_535), "P2P preamble length"),
    "PTP": Value("14", number(5, 22), "P2P TX power (dBm)"),
    "SYNCWORD": Value("1424", hexadecimal(2, upper=False), "P2P sync word"),
    "IQINVER": Value("0", number(0, 1), "P2P IQ inversion"),
    "ENCRY": Value("0", number(0, 1), "P2P encryption"),
    "ENCKEY": Value("0" * 16, hexadecimal(8), "P2P encryption key"),
    "CRYPIV": Value("0" * 16, hexadecimal(8), "P2P encryption IV"),
    "CAD": Value("0", number(0, 1), "P2P channel activity detection"),
    "FIXLENGTHPAYLOAD": Value("0", number(0, 1), "P2P fixed payload length"),
    "SYMBOLTIMEOUT": Value("0", number(0, 248), "P2P symbol timeout"),
}
ALIASES = {
    "RFFREQUENCY": "PFREQ",
    "SPREADINGFACTOR": "PSF",
    "BANDWIDTH": "PBW",
    "CODINGRATE": "PCR",
    "PREAMBLELENGTH": "PPL",
    "TXOUTPUTPOWER": "PTP",
}
VALUES = {**GENERAL, **NETWORK, **P2P}


class Rui3Memory:
    """Settings as text by the names of their commands, the work mode, echo, nonce and counters."""

    def __init__(self, nvm: Nvm, *, factory_dev_eui: str) -> None:
        self._nvm = nvm
        if nvm.get("DEVEUI") is None:
            nvm.put(DEVEUI=factory_dev_eui)

    @property
    def mode(self) -> int:
        """0 P2P, 1 LoRaWAN, 2 FSK."""
        return int(self._nvm.get("mode", 1))

    @mode.setter
    def mode(self, mode: int) -> None:
        self._nvm.put(mode=mode)

    @property
    def echoes(self) -> bool:
        """Whether the console repeats what it hears."""
        return bool(self._nvm.get("echo", False))

    @echoes.setter
    def echoes(self, echoes: bool) -> None:
        self._nvm.put(echo=echoes)

    def get(self, name: str) -> str:
        """A setting."""
        return str(self._nvm.get(name, VALUES[name].default))

    def number(self, name: str) -> int:
        """A setting that is a number."""
        return int(self.get(name))

    def set(self, name: str, argument: str) -> Status:
        """Keep a setting, if it may be that."""
        kept = VALUES[name].check(argument)
        if kept is None:
            return Status.PARAM_ERROR
        self._nvm.put(**{name: kept})
        return Status.OK

    def keep(self, **values: Any) -> None:
        """Write something that no command sets."""
        self._nvm.put(**values)

    def kept(self, name: str, default: Any) -> Any:
        """Read it."""
        return self._nvm.get(name, default)

    def restore_defaults(self) -> None:
        """ATR: keys, EUIs, settings, DevNonce and counters are lost."""
        self._nvm.erase("boots")
        self._nvm.put(DEVEUI=VALUES["DEVEUI"].default)
