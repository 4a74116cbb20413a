"""A radio is found by its path, its serial number or its place in the hubs."""

from dataclasses import dataclass

import pytest

from bench.lab.inventory.entries import PortMissing, Radio, port_of


@dataclass(frozen=True)
class Port:
    path: str
    serial_number: str | None = None
    location: str | None = None


PORTS = (
    Port("/dev/ttyS0"),
    Port("/dev/ttyUSB0", "0123ABCD", "1-1.2.1"),
    Port("/dev/ttyUSB1", "0001", "1-1.2.2"),
    Port("/dev/ttyUSB2", "0001", "1-1.2.3"),
    Port("/dev/ttyACM0", "77", "1-1.3"),
    Port("/dev/ttyACM1", "77", "1-1.3"),
)


def radio(**place: str) -> Radio:
    return Radio(name="dut", dialect="rui3", **place)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ({"port": "socket://lab:7001"}, "socket://lab:7001"),
        ({"port": "/dev/lora/dut"}, "/dev/lora/dut"),
        ({"usb_serial": "0123ABCD"}, "/dev/ttyUSB0"),
        ({"usb_path": "1-1.2.2"}, "/dev/ttyUSB1"),
    ],
)
def test_a_radio_is_found(place: dict[str, str], path: str) -> None:
    assert port_of(radio(**place), PORTS) == path


@pytest.mark.parametrize(
    ("place", "said"),
    [
        ({"usb_serial": "FFFF"}, "no serial port with USB serial number FFFF"),
        ({"usb_path": "1-1.2"}, "no serial port with USB path 1-1.2"),
        ({"usb_serial": "0001"}, "of /dev/ttyUSB1, /dev/ttyUSB2; tell them apart by usb_path"),
        ({"usb_path": "1-1.3"}, "apart by port, one of /dev/serial/by-path"),
    ],
)
def test_a_radio_that_cannot_be_told_is_missing(place: dict[str, str], said: str) -> None:
    with pytest.raises(PortMissing) as caught:
        port_of(radio(**place), PORTS)
    assert str(caught.value).startswith("dut: ") and said in str(caught.value)
