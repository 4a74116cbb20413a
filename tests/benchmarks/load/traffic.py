"""Which texts do the stations of a benchmark send, and from which devices?

Everything is made before the clock runs: WebSocket frames of `updf` texts, each a new frame of one
of many ABP devices, in turn. The masking key of every frame is 0, so its payload stands as it is.
"""

import struct
from collections.abc import Callable
from dataclasses import dataclass
from threading import Event
from time import monotonic_ns

from lns.lorawan.crypto import SessionKeys
from lns.lorawan.frame import MType, build_data
from lns.lorawan.identifiers import DevAddr, Eui, dev_addr, eui
from lns.station.messages import UpInfo
from tests.station_texts import frame_text, version_text, xtime_report_text
from tests.xtimes import join

KEYS = SessionKeys(bytes(range(16)), bytes(range(16, 32)))
_LONG = struct.Struct("!BBHI")
_SHORT = struct.Struct("!BBI")
_TEXT, _PONG, _MASKED, _TWO_MORE_BYTES = 0x81, 0x8A, 0x80, 126
_UNIT, _SESSION = 0, 7


@dataclass(frozen=True, slots=True)
class Sent:
    """One `updf` as bytes for the socket, and when it was heard; its answer repeats the `xtime`."""

    heard_us: int
    xtime: int
    octets: bytes


class Devices:
    """ABP devices that remember their frame counters; unconfirmed and confirmed uplinks of 6 B."""

    def __init__(self, count: int) -> None:
        self._dev_addrs = [dev_addr(0x26000000 + number) for number in range(count)]
        self._f_cnts = [0] * count
        self._next = 0

    def toml(self) -> str:
        """Their `devices.toml`."""
        return "\n".join(
            f'[[device]]\nname = "device-{number}"\ndev_eui = "{_dev_eui(number)}"\n'
            f'activation = "abp"\ndev_addr = "{address}"\nstrategy = "Drop"\n'
            f'nwk_s_key = "{KEYS.nwk_s_key.hex()}"\napp_s_key = "{KEYS.app_s_key.hex()}"\n'
            for number, address in enumerate(self._dev_addrs)
        )

    def uplinks(
        self, count: int, *, confirmed: bool = False, at_us: Callable[[int], int] = lambda n: n
    ) -> list[Sent]:
        """The next uplinks; `at_us(n)` is when the n-th was heard, on the stations' clock."""
        m_type = MType.CONFIRMED_UP if confirmed else MType.UNCONFIRMED_UP
        found = []
        for number in range(count):
            at = self._next % len(self._dev_addrs)
            self._next += 1
            self._f_cnts[at] += 1
            phy = _phy(m_type, self._dev_addrs[at], self._f_cnts[at])
            heard_us = at_us(number)
            xtime = station_xtime(heard_us)
            upinfo = UpInfo(xtime=xtime, rssi_dbm=-80, snr_db=7.5, rxtime=1_763_600_000.25)
            text = frame_text(phy, dr=5, freq_hz=868_100_000, upinfo=upinfo)
            found.append(Sent(heard_us, xtime, text_frame(text)))
        return found

    def paced(self, count: int, rate: float) -> list[Sent]:
        """Confirmed uplinks of the near future, so many a second."""
        begin_us = _when_made(count)
        return self.uplinks(
            count, confirmed=True, at_us=lambda number: begin_us + int(number / rate * 1e6)
        )

    def burst(self, count: int) -> list[Sent]:
        """Confirmed uplinks that have just been heard, all at once."""
        heard_us = _when_made(count)
        uplinks = self.uplinks(count, confirmed=True, at_us=lambda number: heard_us + number)
        Event().wait(max(0, heard_us - clock_us()) / 1e6)
        return uplinks


def clock_us() -> int:
    """The clock of the stations, which all of them share."""
    return monotonic_ns() // 1000


def station_xtime(at_us: int) -> int:
    """A moment of the stations' clock as their `xtime`."""
    return join(_UNIT, _SESSION, 1_000_000 + at_us)


def station(number: int) -> Eui:
    """The EUI of the n-th station."""
    return eui(0x0016C001F1500000 + number)


def version_frame() -> bytes:
    """The first message of a station."""
    return text_frame(version_text("2.0.6(linux/std)"))


def clock_frame() -> bytes:
    """A station's answer to `getxtime`."""
    return text_frame(xtime_report_text(station_xtime(clock_us()), mux_time=0.0, uptime_us=0))


def text_frame(text: str) -> bytes:
    """One text as a client sends it (RFC 6455, 5.2)."""
    octets = text.encode()
    if len(octets) < _TWO_MORE_BYTES:
        return _SHORT.pack(_TEXT, _MASKED | len(octets), 0) + octets
    return _LONG.pack(_TEXT, _MASKED | _TWO_MORE_BYTES, len(octets), 0) + octets


def pong_frame(octets: bytes) -> bytes:
    """The answer to a ping."""
    return _SHORT.pack(_PONG, _MASKED | len(octets), 0) + octets


def _when_made(count: int) -> int:
    """When so many uplinks will have been made: frames are made before they are heard."""
    return clock_us() + count * 500


def _dev_eui(number: int) -> Eui:
    return eui(0x70B3D57ED0000000 + number)


def _phy(m_type: MType, address: DevAddr, f_cnt: int) -> bytes:
    return build_data(m_type, dev_addr=address, f_cnt=f_cnt, keys=KEYS, f_port=2, payload=b"21.5 C")
