"""At which serial port is a radio now?"""

from collections.abc import Sequence
from typing import Protocol

from bench.lab.inventory.entries import Radio


class KnownPort(Protocol):
    """A serial port of this host, as the operating system describes it."""

    @property
    def path(self) -> str:
        """The device, such as "/dev/ttyUSB0"."""

    @property
    def serial_number(self) -> str | None:
        """The serial number of the USB device."""

    @property
    def location(self) -> str | None:
        """The way through the hubs, such as "1-1.2.1"."""


class PortMissing(Exception):
    """A radio is not plugged in, or it cannot be told from another; the text says what to do."""


def port_of(radio: Radio, ports: Sequence[KnownPort]) -> str:
    """The path or URL of the port of a radio, among the `ports` of this host; PortMissing."""
    if radio.port is not None:
        return radio.port
    if radio.usb_serial is not None:
        what = f"USB serial number {radio.usb_serial}"
        found = [port for port in ports if port.serial_number == radio.usb_serial]
        other = "usb_path"
    else:
        assert radio.usb_path is not None
        what = f"USB path {radio.usb_path}"
        found = [port for port in ports if port.location == radio.usb_path]
        other = "port, one of /dev/serial/by-path"
    if not found:
        raise PortMissing(
            f"{radio.name}: no serial port with {what}; plug the board in, or see what is there"
            " with `lorabench devices --discover`"
        )
    if len(found) > 1:
        paths = ", ".join(sorted(port.path for port in found))
        raise PortMissing(f"{radio.name}: {what} is that of {paths}; tell them apart by {other}")
    return found[0].path
