"""What did the operator write, and is it right?

Reads `lns.toml`, `devices.toml` and `tokens.toml`. Every mistake is one sentence with file, line
and key. No value of a key is ever repeated.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, ValidationError, model_validator

from lns.dedup.claim import OnOutage
from lns.dedup.concentrator import ENTRIES_MAX
from lns.dedup.session import Listening
from lns.dedup.strategy import Strategy
from lns.delivery.detectors import RETRY_US
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import Eui
from lns.lorawan.region import EU868, Region, region
from lns.server.access import TOKEN, Tokens
from lns.server.address import address, public_uri
from lns.toml_file import (
    ENCODING,
    ConfigError,
    DevAddrText,
    EuiText,
    Key,
    RegionName,
    Section,
    eui_written,
    line_of,
    mistake,
    read_model,
    read_table,
    secret,
)
from lns.uplink.registry import Activation, DeviceClass, EndDevice, LoRaWanVersion

__all__ = ["Config", "ConfigError", "device_of", "load", "load_devices", "load_tokens"]


def _stations(value: object) -> object:
    if value != "any" and not isinstance(value, list):
        raise ValueError('either "any" or a list of station EUIs')
    return [eui_written(station) for station in value] if isinstance(value, list) else value


def _file_name(path: str) -> str:
    if "\0" in path:
        raise ValueError("the name of a file has no NUL in it")
    return path


# JoinNonce has 24 bits, DevNonce 16: there is one left for every join that can still come.
JOIN_NONCE_MIN_MAX = 0xFF0000

StationsAllowed = Annotated[Literal["any"] | list[Eui], BeforeValidator(_stations)]
FileName = Annotated[str, AfterValidator(_file_name)]
"""The path of a file or folder, relative to the file that names it."""
Address = Annotated[str, AfterValidator(address)]
PublicUri = Annotated[str, AfterValidator(public_uri)]


class DeviceSection(Section):
    """One `[[device]]` of `devices.toml`."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    """What people call it; no two devices have one name."""
    dev_eui: EuiText
    """Its DevEUI, in any spelling."""
    activation: Activation
    """`otaa` needs `join_eui` and `app_key`; `abp` needs `dev_addr`, `nwk_s_key`, `app_s_key`."""
    join_eui: EuiText | None = None
    """The JoinEUI (AppEUI) that its join requests carry."""
    app_key: Key | None = None
    """Its AppKey."""
    dev_addr: DevAddrText | None = None
    """The DevAddr of an ABP device."""
    nwk_s_key: Key | None = None
    """The NwkSKey of an ABP device."""
    app_s_key: Key | None = None
    """The AppSKey of an ABP device."""
    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_4
    """Which version it follows: up to 1.0.3 a DevNonce may be any new one, from 1.0.4 it counts."""
    strategy: Strategy = Strategy.NONE
    """What becomes of copies from other stations: `Drop`, `Mark` or `None`."""
    server: str | None = None
    """The `id` of the one network server that serves it; absent: all of them, by claims."""
    relaxed_f_cnt: bool = True
    """An ABP device that may begin to count anew after a restart."""
    f_cnt_bits: Literal[16, 32] = 32
    """How far it counts."""
    nb_trans: Annotated[int, Field(ge=1, le=15)] = 1
    """How often it is to send each unconfirmed frame; asked for by LinkADRReq."""
    device_class: Annotated[DeviceClass, Field(alias="class")] = DeviceClass.A
    """`A`: it hears downlinks after its uplinks only; `C`: at any time."""
    join_nonce_min: Annotated[int, Field(ge=1, le=JOIN_NONCE_MIN_MAX)] = 1
    """The least JoinNonce that it takes, if it has joined elsewhere before."""
    dev_status_s: Annotated[int, Field(ge=60)] | None = None
    """How often it is asked for its status, in seconds; absent: only when the application asks."""
    rx1_dr_offset: Annotated[int, Field(ge=0, le=7)] | None = None
    """RX1DROffset in its join accepts: by so many data rates RX1 is slower (US915: 0 to 3)."""
    rx_delay_s: Annotated[int, Field(ge=1, le=15)] | None = None
    """RxDelay in its join accepts, in seconds."""
    rx2_dr: Annotated[int, Field(ge=0, le=15)] | None = None
    """The data rate of RX2 in its join accepts; that of the region if absent."""
    more_channels_hz: Annotated[list[int], Field(max_length=5)] | None = None
    """Further channels that its join accepts name (CFList), in Hz; EU868, five at most."""

    @model_validator(mode="after")
    def _complete(self) -> "DeviceSection":
        needed = {
            Activation.OTAA: ("join_eui", "app_key"),
            Activation.ABP: ("dev_addr", "nwk_s_key", "app_s_key"),
        }
        missing = [key for key in needed[self.activation] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"an {self.activation} device needs {' and '.join(missing)}")
        if self.activation is Activation.ABP and self.listens:
            said = "only a join accept tells a device how to listen and where to send"
            raise ValueError(f"{said}; leave out {' and '.join(self.listens)}")
        return self

    @property
    def listens(self) -> list[str]:
        """The keys that say how the device listens, and where else it sends."""
        keys = "rx1_dr_offset", "rx_delay_s", "rx2_dr", "more_channels_hz"
        return [key for key in keys if getattr(self, key) is not None]

    def end_device(self) -> EndDevice:
        """The device this section describes."""
        keys = None
        if self.nwk_s_key is not None and self.app_s_key is not None:
            keys = SessionKeys(self.nwk_s_key, self.app_s_key)
        return EndDevice(
            name=self.name,
            dev_eui=self.dev_eui,
            activation=self.activation,
            join_eui=self.join_eui,
            app_key=self.app_key,
            dev_addr=self.dev_addr,
            session_keys=keys,
            lorawan=self.lorawan,
            strategy=self.strategy,
            server=self.server,
            relaxed_f_cnt=self.relaxed_f_cnt,
            f_cnt_bits=self.f_cnt_bits,
            nb_trans=self.nb_trans,
            device_class=self.device_class,
            join_nonce_min=self.join_nonce_min,
            dev_status_s=self.dev_status_s,
            listening=Listening(self.rx1_dr_offset or 0, self.rx_delay_s or 1, self.rx2_dr),
            more_channels_hz=tuple(self.more_channels_hz or ()),
        )


class DevicesFile(Section):
    """`devices.toml`: the devices of a network server."""

    device: list[DeviceSection]


class LnsSection(Section):
    """`[lns]`: identity and region."""

    id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    """Its name in topics, captures and claims; servers that share a store have different ones."""
    region: RegionName = "EU868"
    """Channels, data rates and windows."""
    net_id: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{6}$")] = "000013"
    """The NetID in join accepts, 6 hex digits; new DevAddrs are of it."""
    devices: FileName = "devices.toml"
    """The file of the devices."""
    listen: Address = "127.0.0.1:6090"
    """Host and port where stations connect."""
    public_uri: PublicUri | None = None
    """What stations are told to connect to, if that is not `listen`."""
    stations: StationsAllowed = "any"
    """`"any"`, or a list of the EUIs of those that are served."""


class TlsSection(Section):
    """`[tls]`: absent means ws://, and http:// for CUPS.

    A station shows a certificate or a token, so there is `client_ca`, or `tokens`, or neither.
    """

    cert: FileName
    """The certificate of the server, PEM."""
    key: FileName
    """Its private key, PEM."""
    client_ca: FileName | None = None
    """Stations show a certificate of this authority whose common name is their EUI."""
    any_station: bool = False
    """Every certificate of `client_ca` is good for every station, whatever its name."""
    tokens: FileName | None = None
    """The file with the `Authorization` header that each station sends."""


class CupsSection(Section):
    """`[cups]`: credentials for stations, in a folder per station EUI; absent means no CUPS."""

    listen: Address
    """Host and port of CUPS."""
    credentials: FileName
    """The folder with a folder for each station EUI."""


class DedupSection(Section):
    """`[dedup]`: level 1."""

    retention_s: Annotated[int, Field(ge=1, le=86_400)] = 60
    """For how many seconds of silence a frame is remembered (sliding)."""
    entries_max: Annotated[int, Field(ge=1)] = ENTRIES_MAX
    """How many frames are remembered at most."""


class StoreSection(Section):
    """`[store]`: sessions and DevNonces. "memory://", "sqlite://PATH" or "redis[s]://…".

    Servers with the same Redis share their devices. "redis+sentinel://host1,host2:26380/service/0"
    names Sentinels: whichever server they call the master is used.
    """

    url: str = "memory://"
    """Where sessions, counters and nonces are: `memory://`, `sqlite://PATH`, `redis[s]://…` or
    `redis[s]+sentinel://…`."""
    on_outage: OnOutage = OnOutage.OPEN
    """What becomes of a frame while nobody can say who owns it: `open` forwards it, unanswered and
    flagged, `closed` drops it."""


class UpstreamSection(Section):
    """`[upstream]`: the way to the application."""

    url: str = "memory://"
    """`memory://`: nowhere; `mqtt[s]://[user:password@]host[:port]`: MQTT v5, QoS 1."""
    outbox: FileName | None = None
    """The file of what the broker has not acknowledged; `var/<lns id>.outbox` if absent."""
    ca: FileName | None = None
    """Certificates that may vouch for an `mqtts://` broker, in place of those of the system."""
    messages_max: Annotated[int, Field(ge=1)] | None = None
    """How many messages the outbox holds; 100 000 if absent."""
    client_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    """How it names itself to the broker; the LNS id if absent, and no two alike."""
    keep_s: Annotated[int, Field(ge=0, le=3600)] = 3
    """How long a message stays after its acknowledgement, to go out again when the broker or the
    server is lost meanwhile: longer than the broker takes to write, 0 if it writes first."""
    retry_max_s: Annotated[int, Field(ge=1, le=1_296_000)] = RETRY_US // 1_000_000
    """A message that has waited for so many seconds is parked in the outbox."""


def _capture_path(path: str) -> str:
    if not path.endswith(".jsonl"):
        raise ValueError(
            "the name of a capture ends in .jsonl, by which scores and reports find it"
        )
    return path


class CaptureSection(Section):
    """`[capture]`: where the events go; absent means nowhere."""

    path: Annotated[FileName, AfterValidator(_capture_path)]
    """The file, `….jsonl`; it goes on where the file ends."""
    run_id: str | None = None
    """The `run_id` of every line; the LNS id if absent."""
    size_max_mib: Annotated[int, Field(ge=1)] = 1024
    """How much of it stays: half is the file, half the one before (`.1`)."""


class LnsFile(Section):
    """`lns.toml`: one network server."""

    lns: LnsSection
    tls: TlsSection | None = None
    cups: CupsSection | None = None
    dedup: DedupSection = DedupSection()
    store: StoreSection = StoreSection()
    upstream: UpstreamSection = UpstreamSection()
    capture: CaptureSection | None = None


@dataclass(frozen=True, slots=True)
class Config:
    """A configuration that passed every check; relative paths are relative to `file`."""

    file: Path
    settings: LnsFile
    devices: tuple[EndDevice, ...]

    def path(self, written: str) -> Path:
        """A path of the file, seen from here."""
        return self.file.parent / written

    def mistake(self, section: str, key: str, said: str) -> ConfigError:
        """What is wrong with one key that looked right."""
        return mistake(self.file, self.file.read_text(ENCODING), [section, key], said)


def load(path: Path) -> Config:
    """Read `lns.toml` and the devices it names; ConfigError with every mistake found."""
    settings, text = read_model(path, LnsFile)
    devices = path.parent / settings.lns.devices
    try:
        if not devices.is_file():
            raise mistake(path, text, ["lns", "devices"], f"there is no file {devices}")
    except OSError as error:
        said = f"{devices} cannot be read: {error.strerror}"
        raise mistake(path, text, ["lns", "devices"], said) from error
    return Config(path, settings, load_devices(devices, region(settings.lns.region)))


def load_devices(path: Path, listens_in: Region = EU868) -> tuple[EndDevice, ...]:
    """Read `devices.toml`, for a region; ConfigError with every mistake found."""
    devices, text = read_model(path, DevicesFile)
    mistakes = [
        f"{path}:{line_of(text, ['device', number, what])}: device[{number}].{what}: "
        f"belongs to another device already; give each its own"
        for number, what in _repeated(devices.device)
    ]
    mistakes += [
        f"{path}:{line_of(text, ['device', number, what])}: device[{number}].{what}: {said}"
        for number, section in enumerate(devices.device)
        for what, said in _unheard_of(section, listens_in)
    ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tuple(section.end_device() for section in devices.device)


def device_of(table: dict[str, Any]) -> EndDevice:
    """The device of one `[[device]]`; ConfigError names the first key that is wrong."""
    try:
        return DeviceSection.model_validate(table).end_device()
    except ValidationError as error:
        wrong = error.errors()[0]
        key = ".".join(map(str, wrong["loc"]))
        raise ConfigError(f"{key}: {wrong['msg']}" if key else wrong["msg"]) from None


# RFC 9110, 5.1: the name of a header is the same in any case.
_HEADER_NAME = re.compile("^authorization:", re.IGNORECASE)


def load_tokens(path: Path) -> Tokens:
    """Read `tokens.toml`: a station EUI, and the `Authorization` header it has to send.

    A token may be written `env:NAME` or `file:PATH`, such as the `tc.key` of the station itself.
    ConfigError with every mistake found.
    """
    table, text = read_table(path)
    tokens: Tokens = {}
    mistakes = []
    for station, written in table.items():
        try:
            eui = Eui(eui_written(station))
            token = secret(written, path.parent) if isinstance(written, str) else ""
            if eui in tokens:
                raise ValueError("this station has a token already")
            tokens[eui] = _HEADER_NAME.sub("", token).strip()
            if not TOKEN.fullmatch(tokens[eui]):
                raise ValueError("a token is one line of text, env:NAME or file:PATH")
        except ValueError as error:
            mistakes.append(str(mistake(path, text, [station], str(error))))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tokens


def _unheard_of(section: DeviceSection, listens_in: Region) -> Iterable[tuple[str, str]]:
    offsets, sizes = len(listens_in.rx1_drs[0]), listens_in.max_payloads
    if (section.rx1_dr_offset or 0) >= offsets:
        yield "rx1_dr_offset", f"{listens_in.name} has 0 to {offsets - 1}"
    downlinks = sorted({dr for drs in listens_in.rx1_drs for dr in drs})
    usable = [dr for dr in downlinks if dr < len(sizes) and sizes[dr] is not None]
    if section.rx2_dr is not None and section.rx2_dr not in usable:
        yield "rx2_dr", f"{listens_in.name} has {usable[0]} to {usable[-1]} for downlinks"
    if section.more_channels_hz and not listens_in.more_channels_max:
        yield "more_channels_hz", f"the channels of {listens_in.name} are fixed"
    elif deaf := sorted(
        set(section.more_channels_hz or ()) - set(listens_in.station_radio.channels_hz)
    ):
        yield "more_channels_hz", f"no station listens at {deaf[0]} Hz"


def _repeated(sections: list[DeviceSection]) -> Iterable[tuple[int, str]]:
    for what in ("name", "dev_eui"):
        seen: set[str] = set()
        for number, section in enumerate(sections):
            value = getattr(section, what)
            if value in seen:
                yield number, what
            seen.add(value)
