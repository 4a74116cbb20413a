"""What stands on the bench: radios, gateways, switches, limits?"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from bench.lab.inventory.sections import (
    AttenuatorSection,
    GatewaySection,
    LimitsSection,
    PowerSection,
)
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui


@dataclass(frozen=True, slots=True, kw_only=True)
class Radio:
    """A board at a serial port, known by exactly one of `port`, `usb_serial` and `usb_path`.

    `baud` and `dtr` are those of the dialect where None. `power` and `reset` are names of switches;
    the `cycle` of `reset` presses NRST.
    """

    name: str
    dialect: str
    port: str | None = None
    usb_serial: str | None = None
    usb_path: str | None = None
    baud: int | None = None
    dtr: bool | None = None
    power: str | None = None
    reset: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEntry:
    """An end device; what is None of its identity is drawn, the same every night."""

    radio: Radio
    dev_eui: Eui
    dr: int
    power_dbm: int
    join_eui: Eui | None = None
    app_key: bytes | None = field(default=None, repr=False)
    dev_addr: DevAddr | None = None
    keys: SessionKeys | None = field(default=None, repr=False)

    @property
    def name(self) -> str:
        return self.radio.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplayerEntry:
    radio: Radio

    @property
    def name(self) -> str:
        return self.radio.name


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTo:
    """Where the summary of a night goes; a URL may contain a password, so none is shown.

    `only_on_change`: nowhere after a night in which nothing changed.
    """

    mqtt: str | None = field(default=None, repr=False)
    webhook: str | None = field(default=None, repr=False)
    only_on_change: bool = False


class NoSuchPart(ValueError):
    """A part of a bench that its `bench.toml` does not name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Inventory:
    """A bench as its `bench.toml` describes it; every name in it leads somewhere.

    `tap`: host and port where the gateways connect, port 0 = any free one. `tap_uri`: how they
    reach it, None = derived from `tap`. `conducted`: no antenna, so that the duty cycle of the
    region need not be kept. `lock`: the file that says who uses the bench. `absent`: boards and
    gateways that are left out, by name, and why.
    """

    path: Path
    name: str
    region: str
    tap: str
    tap_uri: str | None = None
    conducted: bool = False
    lock: Path
    limits: LimitsSection = field(default_factory=LimitsSection)
    devices: tuple[DeviceEntry, ...] = ()
    replayers: tuple[ReplayerEntry, ...] = ()
    gateways: tuple[GatewaySection, ...] = ()
    powers: tuple[PowerSection, ...] = ()
    attenuators: tuple[AttenuatorSection, ...] = ()
    report: ReportTo = ReportTo()
    absent: Mapping[str, str] = field(default_factory=dict)

    def without(self, absent: Mapping[str, str]) -> "Inventory":
        """The bench without these boards and gateways, by name, and why each is left out.

        NoSuchPart for a name that nothing has.
        """
        boards = [radio.name for radio in self.radios]
        names = [*boards, *(gateway.name for gateway in self.gateways)]
        for name in absent:
            if name not in names:
                raise NoSuchPart(
                    f"{self.path}: no board or gateway is called {name}; there are: "
                    + (", ".join(names) or "none")
                )
        return replace(
            self,
            devices=tuple(part for part in self.devices if part.name not in absent),
            replayers=tuple(part for part in self.replayers if part.name not in absent),
            gateways=tuple(part for part in self.gateways if part.name not in absent),
            absent={**self.absent, **absent},
        )

    @property
    def radios(self) -> tuple[Radio, ...]:
        """Every board at a serial port, devices first."""
        return (*(d.radio for d in self.devices), *(r.radio for r in self.replayers))

    def power(self, name: str) -> PowerSection:
        """The switch of this name; KeyError if there is none."""
        return {entry.name: entry for entry in self.powers}[name]

    def attenuator(self, name: str) -> AttenuatorSection:
        """The attenuator of this name; KeyError if there is none."""
        return {entry.name: entry for entry in self.attenuators}[name]


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
