"""Which values does RUI3 keep, with which defaults, and what may be written?

Defaults as after ATR (5.0.0). A check gives the text to keep, None for a bad argument.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass

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
