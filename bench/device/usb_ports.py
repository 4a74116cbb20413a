"""Which serial ports does this host have, and what hangs at them?

A CH340 has no serial number: only the socket it is plugged into (`location`) tells it from another.
"""

from dataclasses import dataclass

from serial.tools import list_ports


@dataclass(frozen=True, slots=True, kw_only=True)
class UsbPort:
    """One serial port of a USB device; None is what the device does not tell.

    `location` is the topology as in /sys/bus/usb/devices, such as `1-1.2.1`, without interface.
    """

    path: str
    vid: int
    pid: int
    serial_number: str | None
    location: str | None
    description: str


def serial_ports() -> tuple[UsbPort, ...]:
    """The serial ports of USB devices, by path."""
    ports = (
        UsbPort(
            path=found.device,
            vid=found.vid,
            pid=found.pid,
            serial_number=found.serial_number or None,
            location=found.location.partition(":")[0] if found.location else None,
            description=found.description or "",
        )
        for found in list_ports.comports()
        if found.vid is not None and found.pid is not None
    )
    return tuple(sorted(ports, key=lambda port: port.path))
