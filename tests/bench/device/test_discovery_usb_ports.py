import pytest
from serial.tools import list_ports
from serial.tools.list_ports_common import ListPortInfo

from bench.device.dialects import UsbPort, serial_ports


def port(device: str, location: str | None, serial_number: str | None) -> ListPortInfo:
    info = ListPortInfo(device)
    info.vid, info.pid, info.description = 0x1A86, 0x7523, "USB Serial"
    info.location, info.serial_number = location, serial_number
    return info


def test_ports_of_usb_devices_by_path_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    built_in = ListPortInfo("/dev/ttyS0")
    found = [port("/dev/ttyUSB1", "1-1.2.2", ""), built_in, port("/dev/ttyACM0", "1-1.3:1.0", "42")]
    monkeypatch.setattr(list_ports, "comports", lambda: found)
    assert serial_ports() == (
        UsbPort(path="/dev/ttyACM0", vid=0x1A86, pid=0x7523, serial_number="42", location="1-1.3",
                description="USB Serial"),
        UsbPort(path="/dev/ttyUSB1", vid=0x1A86, pid=0x7523, serial_number=None, location="1-1.2.2",
                description="USB Serial"),
    )  # fmt: skip


def test_this_host_can_be_asked() -> None:
    assert isinstance(serial_ports(), tuple)
