"""What may stand in bench.toml, section by section?"""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, ValidationInfo, model_validator

from bench.device.interfaces import DialectName
from lns.server.address import address, file_uri
from lns.toml_file import DevAddrText, EuiText, Key, RegionName, Section

TABLE = Path(__file__).parents[3] / "firmware_scripts" / "gateway" / "gateway_boards.toml"
"""The boards; beside it lies what all of them have in `station.conf`. A gateway gets this folder
as it is, without the bench."""
_DEVICES = {"spi": "/dev/spidev0.0", "usb": "usb:/dev/ttyACM0"}
_WITH_CONFIGURATION = ("SX1302", "SX1303")


class GatewayKind(StrEnum):
    RASPBERRY_PI = "raspberry-pi"
    WISGATE = "wisgate"
    PROGRAM = "program"  # a station process on this host


class PowerKind(StrEnum):
    UHUBCTL = "uhubctl"
    RELAY = "relay"
    SHELLY = "shelly"
    TASMOTA = "tasmota"
    COMMAND = "command"
    PERSON = "person"


class AttenuatorKind(StrEnum):
    COMMAND = "command"
    PERSON = "person"


class Certainty(StrEnum):
    """Where a line of the table comes from."""

    SOURCE = "source"  # read in code that drives the board
    VERIFY = "verify"  # known from use; look at the board first


@dataclass(frozen=True, slots=True, kw_only=True)
class GatewayBoard:
    """A concentrator board; the lines are BCM numbers, None where there is none.

    `power_level`: what switches it on, or selects SPI.
    """

    name: str
    chip: str
    interface: str
    reset_gpio: int | None = None
    power_gpio: int | None = None
    power_level: int = 1
    certainty: Certainty
    note: str

    @property
    def device(self) -> str:
        return _DEVICES[self.interface]

    @property
    def has_known_configuration(self) -> bool:
        """Whether the structure of `station.conf` is known for its chip."""
        return self.chip in _WITH_CONFIGURATION


def _read() -> Mapping[str, GatewayBoard]:
    table = tomllib.loads(TABLE.read_text("utf-8"))
    return {
        name: GatewayBoard(name=name, **{**row, "certainty": Certainty(row["certainty"])})
        for name, row in table.items()
    }


BOARDS = _read()


@dataclass(frozen=True, slots=True)
class Keys:
    needed: tuple[str, ...] = ()
    optional: tuple[str, ...] = ()


KEYS = {
    PowerKind.UHUBCTL: Keys(("location", "port")),
    PowerKind.RELAY: Keys(("port", "on", "off"), ("baud",)),
    PowerKind.SHELLY: Keys(("url", "generation"), ("channel",)),
    PowerKind.TASMOTA: Keys(("url",), ("channel",)),
    PowerKind.COMMAND: Keys((), ("on", "off", "cycle")),
    PowerKind.PERSON: Keys((), ("what",)),
}
_LOCATION = re.compile(r"[0-9]+(?:-[0-9]+(?:\.[0-9]+)*)?")
_HEX = re.compile(r"(?:[0-9A-Fa-f]{2}\s*)+")


def mistake_in_switch(kind: PowerKind, settings: Mapping[str, object]) -> str:
    """What is wrong with these keys for this kind, "" if nothing is."""
    keys = KEYS[kind]
    missing = [key for key in keys.needed if key not in settings]
    if missing:
        return f"a switch of kind {kind} needs {' and '.join(missing)}"
    strange = [key for key in settings if key not in (*keys.needed, *keys.optional)]
    if strange:
        known = ", ".join((*keys.needed, *keys.optional))
        return f"a switch of kind {kind} takes no {' and no '.join(strange)}; known here: {known}"
    match kind:
        case PowerKind.UHUBCTL:
            return _mistake_in_hub(settings)
        case PowerKind.RELAY:
            return _mistake_in_relay(settings)
        case PowerKind.COMMAND:
            return _mistake_in_commands(settings)
        case PowerKind.SHELLY | PowerKind.TASMOTA:
            if "@" in str(settings["url"]):
                return "no login in url: this bench speaks to switches without a password"
    return ""


def _mistake_in_hub(settings: Mapping[str, object]) -> str:
    location = settings["location"]
    locations = (location,) if isinstance(location, str) else location
    assert isinstance(locations, tuple)
    if not locations or not all(_LOCATION.fullmatch(text) for text in locations):
        return 'location is one of the hubs that `uhubctl` lists, such as "1-1.2", or a list'
    if not isinstance(settings["port"], int) or settings["port"] < 1:
        return "port is the number of a port of the hub, from 1"
    return ""


def _mistake_in_relay(settings: Mapping[str, object]) -> str:
    if not isinstance(settings["port"], str):
        return 'port is the serial port of the relay, such as "/dev/lora/relay"'
    wrong = [k for k in ("on", "off") if not _HEX.fullmatch(str(settings[k]))]
    if wrong or not all(isinstance(settings[k], str) for k in ("on", "off")):
        return 'on and off are the bytes to send, in hex, such as "A0 01 01 A2"'
    return ""


def _mistake_in_commands(settings: Mapping[str, object]) -> str:
    if any(isinstance(settings.get(key), str) for key in ("on", "off")):
        return 'a command is a list of words, such as on = ["switch", "on"]'
    if ("on" in settings) is not ("off" in settings):
        return "on and off go together: give both or none"
    if not settings:
        return "a switch of kind command needs on and off, or cycle"
    return ""


Name = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9_.-]+$")]
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
TapUri = Annotated[str, AfterValidator(lambda text: file_uri(text, "tc"))]


def _url(text: str, schemes: tuple[str, ...]) -> str:
    try:
        parts = urlsplit(text)
        complete = parts.scheme in schemes and bool(parts.hostname)
    except ValueError:
        complete = False
    if not complete:
        raise ValueError(f"a URL with a host: {' or '.join(f'{s}://…' for s in schemes)}")
    return text


def _ssh_host(text: str) -> str:
    # What begins with a dash would be an option of ssh.
    if not re.fullmatch(r"(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9\[][\w.:\]%-]*", text, re.ASCII):
        raise ValueError('where ssh logs in, such as "pi@192.168.10.11"')
    return text


class BenchSection(Section):
    """`[bench]`: what the bench is called, where it stands, where its gateways connect."""

    name: Name
    """What the bench is called in reports and on its lock."""
    region: RegionName
    """Where it stands."""
    tap: Annotated[str, AfterValidator(address)]
    """Host and port where the gateways connect to the bench."""
    tap_uri: TapUri | None = None
    """What stands in `tc.uri` of the gateways, if that is not `tap`."""
    conducted: bool = False
    """All radios are on cables: no duty cycle is kept."""
    lock: str | None = None
    """The file that says who has the bench; in the folder for temporary files if absent."""


class LimitsSection(Section):
    """`[limits]`: what a radio may do here, and how much may stay undecided."""

    eirp_dbm_max: Annotated[int, Field(ge=-20, le=30)] = 14
    """No board may send with more (dBm)."""
    rssi_dbm_max: Annotated[int, Field(ge=-140, le=0)] = -40
    """A gateway that hears more than this (dBm) may be overdriven: put something between."""
    rf_attempts_max: Annotated[int, Field(ge=1, le=20)] = 3
    """How often a stimulus is tried that does not come about on the air."""
    inconclusive_share_max: Annotated[float, Field(ge=0, le=1)] = 0.05
    """A night with a greater share of inconclusive cases ends with exit code 11."""
    board_patience_s: Annotated[int, Field(ge=1, le=600)] = 30
    """How long a board that answers nothing is waited for, before its power is switched."""


class RadioSection(Section):
    """What `[[device]]` and `[[replayer]]` have in common."""

    name: Name
    """What the board is called."""
    dialect: DialectName
    """Which AT commands it knows."""
    port: Annotated[str, Field(min_length=1)] | None = None
    """Its serial port; one of `port`, `usb_serial` and `usb_path` is given."""
    usb_serial: Annotated[str, Field(min_length=1)] | None = None
    """The serial number of its USB chip."""
    usb_path: Annotated[str, Field(pattern=r"^[0-9]+-[0-9]+(\.[0-9]+)*$")] | None = None
    """The USB socket that it is in, such as `1-1.3`."""
    # 1200 baud is left out: it sends boards with USB of their own into their boot loader.
    baud: Annotated[int, Field(ge=2400, le=921_600)] | None = None
    """Its baud rate; that of the dialect if absent."""
    dtr: bool | None = None
    """The level of DTR while the port is open; left alone if absent."""
    power: str | None = None
    """The `[[power]]` that switches it off and on."""
    reset: str | None = None
    """The `[[power]]` at its reset pin."""

    @model_validator(mode="after")
    def _can_be_found(self) -> "RadioSection":
        ways = [key for key in ("port", "usb_serial", "usb_path") if getattr(self, key)]
        if len(ways) != 1:
            said = " and ".join(ways) or "none of them"
            raise ValueError(f"give one of port, usb_serial and usb_path; here is {said}")
        return self


class DeviceSection(RadioSection):
    dev_eui: EuiText
    """Its DevEUI, in any spelling; no other board may answer with it."""
    dr: Annotated[int, Field(ge=0, le=15)] | None = None
    """The data rate that it sends with where a scenario says none."""
    power_dbm: Annotated[int, Field(ge=-20, le=30)] | None = None
    """The power that it sends with (dBm)."""
    join_eui: EuiText | None = None
    """Its JoinEUI; that of the bench if absent."""
    app_key: Key | None = None
    """Its AppKey; drawn from its DevEUI and the name of the bench if absent, as are the next."""
    dev_addr: DevAddrText | None = None
    """Its DevAddr as an ABP device."""
    nwk_s_key: Key | None = None
    """Its NwkSKey as an ABP device; goes with `app_s_key`."""
    app_s_key: Key | None = None
    """Its AppSKey as an ABP device."""

    @model_validator(mode="after")
    def _session_is_whole(self) -> "DeviceSection":
        if (self.nwk_s_key is None) is not (self.app_s_key is None):
            raise ValueError("nwk_s_key and app_s_key go together: give both or none")
        return self


class GatewaySection(Section):
    """A gateway with a Basics Station; paths on this host begin where bench.toml lies."""

    name: Name
    """Its station name in scenarios: `west`, `east`, `north`."""
    eui: EuiText
    """The EUI with which it connects."""
    kind: GatewayKind
    """What it is, and so how it is set up and restarted."""
    board: str | None = None
    """The concentrator board of a Raspberry Pi."""
    ssh: Annotated[str, AfterValidator(_ssh_host)] | None = None
    """Where ssh logs in, such as `pi@192.168.10.11`."""
    home: Annotated[str, Field(min_length=1)] = "/opt/basicstation"
    """The folder of Basics Station there."""
    restart: Words | None = None
    """The command that restarts its station; that of its kind if absent."""
    power: str | None = None
    """The `[[power]]` that switches it off and on."""
    attenuator: str | None = None
    """The `[[attenuator]]` before its antenna."""
    credentials: Path | None = None
    """The folder with its TLS files."""

    @model_validator(mode="after")
    def _belongs_together(self, info: ValidationInfo) -> "GatewaySection":
        if self.kind is not GatewayKind.RASPBERRY_PI:
            if self.board is not None:
                raise ValueError(f"a gateway of kind {self.kind} has no board; leave it out")
        elif self.board is not None and self.board not in BOARDS:
            raise ValueError(f"board {self.board!r} is not known; one of {', '.join(BOARDS)}")
        if self.kind is GatewayKind.PROGRAM and self.ssh is not None:
            raise ValueError("a station on this host needs no ssh; leave it out")
        here = info.context or Path()
        if self.ssh is None:
            self.home = str(here / self.home)
        if self.credentials is not None:
            self.credentials = here / self.credentials
        return self


class PowerSection(Section):
    """One `[[power]]`; which keys it needs is a matter of its kind."""

    name: Name
    """What devices and gateways call it."""
    kind: PowerKind
    """What switches; the other keys depend on it."""
    location: str | list[str] | None = None
    """`uhubctl`: the hub, or both halves of a USB 3 hub."""
    port: int | str | None = None
    """`uhubctl`: the port of the hub; `relay`: its serial port."""
    on: str | Words | None = None
    """`command`: what switches on; `relay`: the hex bytes that do."""
    off: str | Words | None = None
    """`command`: what switches off; `relay`: the hex bytes that do."""
    cycle: Words | None = None
    """`command`: what switches off and on again."""
    url: Annotated[str, AfterValidator(lambda text: _url(text, ("http",)))] | None = None
    """A plug in the network: its address."""
    generation: Literal[1, 2] | None = None
    """`shelly`: which API it has."""
    channel: Annotated[int, Field(ge=0, le=31)] | None = None
    """A plug in the network: which of its relays."""
    baud: Annotated[int, Field(ge=300, le=921_600)] | None = None
    """`relay`: its baud rate."""
    what: Annotated[str, Field(min_length=1)] | None = None
    """`person`: what somebody is asked to switch."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "PowerSection":
        said = mistake_in_switch(self.kind, self.settings())
        if said:
            raise ValueError(said)
        return self

    def settings(self) -> dict[str, object]:
        written = self.model_dump(exclude={"name", "kind"}, exclude_none=True)
        return {key: tuple(v) if isinstance(v, list) else v for key, v in written.items()}


class AttenuatorSection(Section):
    name: Name
    """What gateways call it."""
    kind: AttenuatorKind
    """What sets it."""
    db: Annotated[int, Field(ge=0, le=120)]
    """How much it takes as a rule (dB)."""
    set: Words | None = None
    """The command that sets it, with `{db}` in it."""

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "AttenuatorSection":
        if self.kind is AttenuatorKind.PERSON:
            if self.set is not None:
                raise ValueError("a person is asked; leave set out")
        elif not any("{db}" in word for word in self.set or []):
            raise ValueError('set is missing, a command with "{db}" in it')
        return self


_Mqtt = Annotated[str, AfterValidator(lambda text: _url(text, ("mqtt", "mqtts")))]
_Http = Annotated[str, AfterValidator(lambda text: _url(text, ("http", "https")))]


class ReportSection(Section):
    """`[report]`: where the summary of a night goes; a URL may have a password: none is shown."""

    mqtt: Annotated[_Mqtt | None, Field(repr=False)] = None
    """The broker that gets the summary, with the topic as its path."""
    webhook: Annotated[_Http | None, Field(repr=False)] = None
    """The address that the summary is posted to, as JSON."""
    only_on_change: bool = False
    """Tell only of a night in which something changed."""


class BenchFile(Section):
    rig: Literal["hardware"]
    """What the file describes: always `"hardware"`."""
    bench: BenchSection
    limits: LimitsSection = LimitsSection()
    device: tuple[DeviceSection, ...] = ()
    replayer: tuple[RadioSection, ...] = ()
    gateway: tuple[GatewaySection, ...] = ()
    power: tuple[PowerSection, ...] = ()
    attenuator: tuple[AttenuatorSection, ...] = ()
    report: ReportSection = ReportSection()
