"""The inventory of a bench: which boards, gateways and switches are there, and who uses them?"""

import contextlib
import difflib
import fcntl
import getpass
import json
import os
import socket
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import Any, Protocol

import msgspec

from bench.lab.inventory.sections import (
    AttenuatorSection,
    BenchFile,
    DeviceSection,
    GatewaySection,
    LimitsSection,
    PowerSection,
    RadioSection,
    ReportSection,
)
from lns.clock import utc_of_this_host
from lns.complaints import printable
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import DataRate, Region, region
from lns.server.address import host_and_port, is_everywhere
from lns.toml_file import ConfigError, mistake, read_model


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
    replayers: tuple[Radio, ...] = ()
    gateways: tuple[GatewaySection, ...] = ()
    powers: tuple[PowerSection, ...] = ()
    attenuators: tuple[AttenuatorSection, ...] = ()
    report: ReportSection = field(default_factory=ReportSection)
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
        return (*(device.radio for device in self.devices), *self.replayers)

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


# Every mistake is one sentence with file, line and key, as in the files of the network server.
Where = list[str | int]
Mistake = tuple[Where, str]
_POWER_DBM = 14
_FASTEST = DataRate(7, 125_000)


class InventoryError(Exception):
    """A `bench.toml` that cannot be used; one line a mistake: file, line, key, what to do."""


def load(path: Path) -> Inventory:
    """Read a `bench.toml`; InventoryError with every mistake found."""
    try:
        file, text = read_model(path, BenchFile)
    except ConfigError as error:
        raise InventoryError(str(error)) from None
    mistakes = [str(mistake(path, text, where, said)) for where, said in _mistakes(file)]
    if mistakes:
        raise InventoryError("\n".join(mistakes))
    return _inventory(path, file)


def _inventory(path: Path, file: BenchFile) -> Inventory:
    here, bench = path.parent, file.bench
    return Inventory(
        path=path,
        **bench.model_dump(exclude={"lock"}),
        lock=here / (bench.lock or f"{bench.name}.lock"),
        limits=file.limits,
        devices=tuple(_device(here, file, section) for section in file.device),
        replayers=tuple(_radio(here, section) for section in file.replayer),
        gateways=file.gateway,
        powers=file.power,
        attenuators=file.attenuator,
        report=file.report,
    )


def _radio(here: Path, section: RadioSection) -> Radio:
    given = section.model_dump(include={field.name for field in fields(Radio)})
    if section.port is not None and "://" not in section.port:
        given["port"] = str(here / section.port)
    return Radio(**given)


def _device(here: Path, file: BenchFile, section: DeviceSection) -> DeviceEntry:
    keys = None
    if section.nwk_s_key is not None and section.app_s_key is not None:
        keys = SessionKeys(section.nwk_s_key, section.app_s_key)
    dr, power_dbm = section.dr, section.power_dbm
    return DeviceEntry(
        radio=_radio(here, section),
        dev_eui=section.dev_eui,
        dr=region(file.bench.region).uplink_dr(_FASTEST) if dr is None else dr,
        power_dbm=min(_POWER_DBM, file.limits.eirp_dbm_max) if power_dbm is None else power_dbm,
        join_eui=section.join_eui,
        app_key=section.app_key,
        dev_addr=section.dev_addr,
        keys=keys,
    )


def _mistakes(file: BenchFile) -> Iterator[Mistake]:
    yield from _mistakes_in_tap(file)
    yield from _repeated_everywhere(file)
    yield from _leading_nowhere(file)
    plan = region(file.bench.region)
    for number, device in enumerate(file.device):
        yield from _outside_limits(file, plan, number, device)


def _mistakes_in_tap(file: BenchFile) -> Iterator[Mistake]:
    host, port = host_and_port(file.bench.tap)
    if file.bench.tap_uri is None and is_everywhere(host) and file.gateway:
        said = f"is missing: gateways cannot connect to {host}; write ws://<this host>:{port}"
        yield ["bench", "tap_uri"], said


def _repeated_everywhere(file: BenchFile) -> Iterator[Mistake]:
    radios: list[tuple[str, int, RadioSection]]
    radios = [("device", n, s) for n, s in enumerate(file.device)]
    radios += [("replayer", n, s) for n, s in enumerate(file.replayer)]
    for key in ("name", "port", "usb_serial", "usb_path"):
        yield from _repeated([([kind, n, key], getattr(s, key)) for kind, n, s in radios])
    yield from _repeated([(["device", n, "dev_eui"], s.dev_eui) for n, s in enumerate(file.device)])
    yield from _repeated([(["gateway", n, "eui"], s.eui) for n, s in enumerate(file.gateway)])
    for kind in ("gateway", "power", "attenuator"):
        sections = getattr(file, kind)
        yield from _repeated([([kind, n, "name"], s.name) for n, s in enumerate(sections)])


def _repeated(values: Sequence[tuple[Where, str | None]]) -> Iterator[Mistake]:
    seen: dict[str, Where] = {}
    for where, value in values:
        if value is None:
            continue
        if value in seen:
            first = f"{seen[value][0]}[{seen[value][1]}]"
            yield where, f"belongs to {first} already; give each its own"
        seen.setdefault(value, where)


def _leading_nowhere(file: BenchFile) -> Iterator[Mistake]:
    powers = [section.name for section in file.power]
    attenuators = [section.name for section in file.attenuator]
    for kind, key, known in (
        ("device", "power", powers),
        ("device", "reset", powers),
        ("replayer", "power", powers),
        ("replayer", "reset", powers),
        ("gateway", "power", powers),
        ("gateway", "attenuator", attenuators),
    ):
        table = "attenuator" if key == "attenuator" else "power"
        for number, section in enumerate(getattr(file, kind)):
            name = getattr(section, key)
            if name is not None and name not in known:
                near = difflib.get_close_matches(name, known, n=1, cutoff=0.5)
                hint = f"did you mean {near[0]!r}?" if near else f"add a [[{table}]] of that name"
                yield [kind, number, key], f"there is no [[{table}]] {name!r}; {hint}"


def _outside_limits(
    file: BenchFile, plan: Region, number: int, device: DeviceSection
) -> Iterator[Mistake]:
    dr, power_dbm = device.dr, device.power_dbm
    rates = plan.data_rates
    if dr is not None and (dr >= len(rates) or rates[dr] is None or dr in plan.downlink_only_drs):
        yield ["device", number, "dr"], f"{plan.name} has no uplink data rate {dr}"
    if power_dbm is not None and power_dbm > file.limits.eirp_dbm_max:
        said = f"more than limits.eirp_dbm_max allows, which is {file.limits.eirp_dbm_max}"
        yield ["device", number, "power_dbm"], said


_COMMAND_MAX = 100


@dataclass(frozen=True, slots=True)
class Owner:
    """Who holds a bench; `since` is the wall clock of its host, UTC."""

    user: str
    host: str
    pid: int
    since: str
    command: str

    def __str__(self) -> str:
        text = f"{self.user}@{self.host}, process {self.pid}, since {self.since}: {self.command}"
        return printable(text)


class LockHeld(Exception):
    """Somebody else uses the bench; `owner` is None if the file does not say who."""

    def __init__(self, name: str, path: Path, owner: Owner | None) -> None:
        who = f"it is used by {owner}" if owner else "somebody uses it"
        end = f"end process {owner.pid} on {owner.host}" if owner else "end it"
        super().__init__(
            f"the bench {name} is taken: {who}. Wait until that is done, or {end}; the lock"
            f" file {path} need not be removed (`fuser -v` tells who has it open)"
        )
        self.owner = owner


class BenchLock:
    """The bench, for one process at a time; LockHeld on entering if somebody else has it.

    OSError, which says what to do, if the lock file cannot be written. Remembers the open file
    while it is held.
    """

    def __init__(self, inventory: Inventory) -> None:
        self.name = inventory.name
        self.path = inventory.lock
        self._file: int | None = None

    def __enter__(self) -> "BenchLock":
        assert self._file is None, f"{self.path} is held already"
        file = self._open()
        try:
            with contextlib.suppress(PermissionError):  # made by somebody else, who did this
                os.fchmod(file, 0o666)  # people share a lab computer
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = _read_owner(file)
            os.close(file)
            raise LockHeld(self.name, self.path, owner) from None
        except BaseException:
            os.close(file)
            raise
        self._file = file
        with contextlib.suppress(OSError):  # a full disk: held all the same, by nobody known
            os.ftruncate(file, 0)
            os.pwrite(file, f"{json.dumps(asdict(_ourselves()))}\n".encode(), 0)
        return self

    def __exit__(self, *raised: Any) -> None:
        assert self._file is not None
        with contextlib.suppress(OSError):
            os.ftruncate(self._file, 0)
        os.close(self._file)
        self._file = None

    def _open(self) -> int:
        try:
            # In a folder like /run/lock nobody may "create" a file that somebody else has made.
            with contextlib.suppress(FileNotFoundError):
                return os.open(self.path, os.O_RDWR | os.O_CLOEXEC)
            return os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        except OSError as error:
            raise OSError(
                f"the lock file {self.path} cannot be written: {error.strerror}; name another in"
                f' bench.toml, such as lock = "/run/lock/{self.path.name}" under [bench]'
            ) from None


def owner_of(inventory: Inventory) -> Owner | None:
    """Who has the bench, as far as its file says; None if that process is no more.

    For people to read. It asks the lock itself nothing, which would be in the way of who takes it.
    """
    try:
        file = os.open(inventory.lock, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        owner = _read_owner(file)
    finally:
        os.close(file)
    if owner is not None and owner.host == socket.gethostname():
        return owner if Path(f"/proc/{owner.pid}").exists() else None
    return owner


def _ourselves() -> Owner:
    try:
        user = getpass.getuser()
    except (KeyError, OSError):  # a number without a name
        user = str(os.getuid())
    return Owner(
        user=user,
        host=socket.gethostname(),
        pid=os.getpid(),
        since=f"{utc_of_this_host():%Y-%m-%dT%H:%M:%SZ}",
        command=" ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:_COMMAND_MAX],
    )


def _read_owner(file: int) -> Owner | None:
    try:
        return msgspec.json.decode(os.pread(file, 4096, 0), type=Owner)
    except (OSError, msgspec.MsgspecError):
        return None
