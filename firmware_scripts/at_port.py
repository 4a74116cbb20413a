"""How does one talk AT over a serial port: a command out, lines back, with a deadline?

By pyserial, a device path or any of its URLs. Nothing is counted by blank lines, lines may end in
CR, LF or both, and what is not UTF-8 is replaced: firmwares differ in all three.
"""

import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ending import Failed, WrongUsage

try:
    import serial
    from serial.tools import list_ports
except ImportError:
    raise SystemExit(
        "error: pyserial is missing: apt-get install python3-serial, or "
        "python3 -m pip install pyserial"
    ) from None

QUIET_S = 0.3  # how long a port that was just opened is drained
_POLL_S = 0.05
_LINE_BYTES_MAX = 4096
_KEY = re.compile(r"(?:[0-9A-Fa-f]{2}[ :]?){16}")


@dataclass(frozen=True, slots=True)
class Plug:
    """A serial port and what USB says of it. `path` as in /sys/bus/usb/devices."""

    url: str
    vid: int | None = None
    serial_number: str | None = None
    path: str | None = None


class Silent(Failed):
    """The board did not say what it should have said in time."""


def masked(line: str) -> str:
    """The line as it may be shown: the 16 bytes of a key become `****`."""
    return _KEY.sub("****", line) if "KEY" in line.upper() else line


class AtPort:
    """One open serial port; remembers the bytes of a line that is not complete yet.

    A context manager; `dtr` is the level of that control line, high for boards with USB of their
    own. With `shown` every line goes to stderr, keys masked. `Failed` if it cannot be opened.
    """

    def __init__(self, url: str, baud: int, *, dtr: bool = False, shown: bool = False) -> None:
        self.url = url
        self._baud, self._dtr, self._shown = baud, dtr, shown
        self._rest = b""
        self._ready: list[str] = []

    def __enter__(self) -> "AtPort":
        self.open()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def open(self) -> None:
        """Open the port for us alone and forget what it says in the first moment."""
        try:
            port = serial.serial_for_url(self.url, do_not_open=True)
            port.baudrate, port.timeout, port.write_timeout = self._baud, _POLL_S, 1
            port.dtr, port.rts = self._dtr, False  # before it opens: some boards reset by them
            if "://" not in self.url:
                port.exclusive = True
            port.open()
        except (ValueError, OSError) as error:
            raise Failed(
                f"{self.url} cannot be opened: {error}. Is the board plugged in, no other program "
                "at the port, and this user in the group `dialout`?"
            ) from None
        self._port = port
        self._rest, self._ready = b"", []
        self._collect(time.monotonic() + QUIET_S)
        self._ready.clear()

    def close(self) -> None:
        """Close the port."""
        self._port.close()

    def write(self, command: str) -> None:
        """Send one command line; `Failed` if the port is gone."""
        self._show(">", command)
        try:
            self._port.write(command.encode() + b"\r\n")
        except OSError as error:
            raise Failed(f"{self.url}: unplugged or closed ({error})") from None

    def line(self, wait_s: float) -> str | None:
        """The next line that is not empty; None if `wait_s` pass without one."""
        deadline = time.monotonic() + wait_s
        while not self._ready:
            left_s = deadline - time.monotonic()
            if left_s <= 0:
                return None
            self._collect(time.monotonic() + min(left_s, _POLL_S), first_only=True)
        return self._ready.pop(0)

    def ask(self, command: str, is_last: Callable[[str], bool], wait_s: float = 2) -> list[str]:
        """The lines after `command` up to the one that `is_last`; Silent without it in time."""
        self.write(command)
        return self.lines_until(is_last, wait_s, masked(command))

    def lines_until(self, is_last: Callable[[str], bool], wait_s: float, after: str) -> list[str]:
        """All lines up to the one that `is_last`; Silent, with the newest line, without it."""
        deadline = time.monotonic() + wait_s
        lines: list[str] = []
        while (line := self.line(deadline - time.monotonic())) is not None:
            lines.append(line)
            if is_last(line):
                return lines
        newest = f"the newest line is {masked(lines[-1])!r}" if lines else "it said nothing"
        raise Silent(f"{self.url}: no answer to {after!r} within {wait_s:g} s; {newest}")

    def forget(self) -> None:
        """Drop what has arrived and was not read."""
        self._collect(time.monotonic() + _POLL_S)
        self._ready.clear()

    def _collect(self, until: float, *, first_only: bool = False) -> None:
        while True:
            try:
                data = self._port.read(max(1, self._port.in_waiting))
            except OSError as error:
                raise Failed(f"{self.url}: unplugged or closed ({error})") from None
            self._rest += data
            self._split()
            if time.monotonic() >= until or (first_only and self._ready):
                return

    def _split(self) -> None:
        *complete, self._rest = re.split(rb"[\r\n]+", self._rest)
        self._rest = self._rest[-_LINE_BYTES_MAX:]
        for part in complete:
            text = part.decode(errors="replace").replace("\0", "").strip()
            if text:
                self._show("<", text)
                self._ready.append(text)

    def _show(self, arrow: str, text: str) -> None:
        if self._shown:
            print(f"{arrow} {masked(text)}", file=sys.stderr)


def usb_ports() -> list[Plug]:
    """The serial ports on USB, in the order of their names."""
    plugs = [
        # pyserial appends the interface to the path: 1-1.2.1:1.0
        Plug(port.device, port.vid, port.serial_number, str(port.location or "").partition(":")[0])
        for port in list_ports.comports()
        if port.vid is not None
    ]
    return sorted(plugs, key=lambda plug: plug.url)


def port_of(entry: Mapping[str, Any]) -> str:
    """The port of a radio of bench.toml: named, or found by USB serial number or USB path."""
    if "port" in entry:
        return str(entry["port"])
    for key in ("usb_serial", "usb_path"):
        if key not in entry:
            continue
        for plug in usb_ports():
            if entry[key] == (plug.serial_number if key == "usb_serial" else plug.path):
                return plug.url
        raise Failed(
            f"{entry.get('name')}: nothing with {key} = {entry[key]!r} is plugged in; "
            "identify.py shows what is"
        )
    raise WrongUsage(f"{entry.get('name')}: give it a port, a usb_serial or a usb_path")
