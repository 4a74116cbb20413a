"""What did the operator write, and is it right?

Reads `lns.toml`, `devices.toml` and `tokens.toml`. Every mistake is one sentence with file, line
and key. No value of a key is ever repeated.
"""

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field, model_validator

from lns.access import TOKEN, Tokens
from lns.address import host_and_port, public_uri
from lns.dedup.claim import OnOutage
from lns.dedup.concentrator import ENTRIES_MAX
from lns.dedup.strategy import Strategy
from lns.delivery.remove_duplicates_keys import RETRY_US
from lns.end_device import Activation, DeviceClass, EndDevice, Listening, LoRaWanVersion
from lns.lorawan import identifiers
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import EU868, Region, region
from lns.station.router_config import listens_at_hz
from lns.toml_file import ConfigError, Section, line_of, mistake, read_model, read_table, secret

__all__ = ["Config", "ConfigError", "load", "load_devices", "load_tokens"]


def _key(value: object, info: Any) -> bytes:
    """A 128-bit key: 32 hex digits, `env:NAME` or `file:PATH`; never shown in an error."""
    if not isinstance(value, str):
        raise ValueError("a key is text: 32 hex digits, env:NAME or file:PATH")
    digits = secret(value, info.context)
    if not re.fullmatch(r"[0-9A-Fa-f]{32}", digits):
        raise ValueError("a key is 32 hex digits, env:NAME or file:PATH")
    return bytes.fromhex(digits)


def _eui(value: object) -> str:
    """An EUI in any spelling; what was written is not repeated, it could be a key."""
    with suppress(ValueError):
        return identifiers.eui(value if isinstance(value, str) else "")
    raise ValueError("an EUI is text: 16 hex digits")


def _dev_addr(value: object) -> str:
    with suppress(ValueError):
        return identifiers.dev_addr(value if isinstance(value, str) else "")
    raise ValueError("a DevAddr is text: 8 hex digits")


def _stations(value: object) -> object:
    if value != "any" and not isinstance(value, list):
        raise ValueError('either "any" or a list of station EUIs')
    return [_eui(station) for station in value] if isinstance(value, list) else value


# JoinNonce has 24 bits, DevNonce 16: there is one left for every join that can still come.
JOIN_NONCE_MIN_MAX = 0xFF0000

Key = Annotated[bytes, BeforeValidator(_key)]
EuiText = Annotated[Eui, BeforeValidator(_eui)]
DevAddrText = Annotated[DevAddr, BeforeValidator(_dev_addr)]
StationsAllowed = Annotated[Literal["any"] | list[Eui], BeforeValidator(_stations)]
Address = Annotated[str, AfterValidator(lambda text: host_and_port(text) and text)]
PublicUri = Annotated[str, AfterValidator(public_uri)]


class DeviceSection(Section):
    """One `[[device]]` of `devices.toml`."""

    name: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    dev_eui: EuiText
    activation: Activation
    join_eui: EuiText | None = None
    app_key: Key | None = None
    dev_addr: DevAddrText | None = None
    nwk_s_key: Key | None = None
    app_s_key: Key | None = None
    lorawan: LoRaWanVersion = LoRaWanVersion.V1_0_4
    strategy: Strategy = Strategy.NONE
    server: str | None = None
    relaxed_f_cnt: bool = True
    f_cnt_bits: Literal[16, 32] = 32
    nb_trans: Annotated[int, Field(ge=1, le=15)] = 1
    device_class: Annotated[DeviceClass, Field(alias="class")] = DeviceClass.A
    join_nonce_min: Annotated[int, Field(ge=1, le=JOIN_NONCE_MIN_MAX)] = 1
    dev_status_s: Annotated[int, Field(ge=60)] | None = None
    rx1_dr_offset: Annotated[int, Field(ge=0, le=7)] | None = None
    rx_delay_s: Annotated[int, Field(ge=1, le=15)] | None = None
    rx2_dr: Annotated[int, Field(ge=0, le=15)] | None = None
    more_channels_hz: Annotated[list[int], Field(max_length=5)] | None = None

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
    region: Literal["EU868", "US915"] = "EU868"
    net_id: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{6}$")] = "000013"
    devices: str = "devices.toml"
    listen: Address = "127.0.0.1:6090"
    public_uri: PublicUri | None = None
    stations: StationsAllowed = "any"


class TlsSection(Section):
    """`[tls]`: absent means ws://, and http:// for CUPS.

    `client_ca`: stations show a certificate of this authority whose common name is their EUI; with
    `any_station` it may have any name. `tokens`: stations send an `Authorization` header. A station
    shows one or the other, so there is one or the other.
    """

    cert: str
    key: str
    client_ca: str | None = None
    any_station: bool = False
    tokens: str | None = None


class CupsSection(Section):
    """`[cups]`: credentials for stations, in a folder per station EUI; absent means no CUPS."""

    listen: Address
    credentials: str


class DedupSection(Section):
    """`[dedup]`: level 1."""

    retention_s: Annotated[int, Field(ge=1, le=86_400)] = 60
    entries_max: Annotated[int, Field(ge=1)] = ENTRIES_MAX


class StoreSection(Section):
    """`[store]`: sessions and DevNonces. "memory://", "sqlite://PATH" or "redis[s]://…".

    Servers with the same Redis share their devices. "redis://host1:6379,host2:6380/0" names a
    master and its replicas, in any order: the one that is master is used, and looked for again when
    it is lost. `on_outage`: what becomes of a frame while nobody can say which server owns it.
    """

    url: str = "memory://"
    on_outage: OnOutage = OnOutage.OPEN


class UpstreamSection(Section):
    """`[upstream]`: the way to the application. "memory://" or "mqtt[s]://…".

    `outbox` is the file of what the broker has not acknowledged, "var/<lns id>.outbox" if absent,
    and holds at most `messages_max`; `ca` vouches for an mqtts:// broker instead of the system.
    `client_id` names the connection to the broker, the LNS id if absent; no two may be the same.
    `keep_s`: how long a message stays after its acknowledgement, to go out again when the broker
    or this server is lost meanwhile; longer than the broker takes to write, 0 for one that writes
    before it acknowledges. `retry_max_s`: a message that waits for longer is parked in the outbox.
    """

    url: str = "memory://"
    outbox: str | None = None
    ca: str | None = None
    messages_max: Annotated[int, Field(ge=1)] | None = None
    client_id: Annotated[str, Field(min_length=1, max_length=64)] | None = None
    keep_s: Annotated[int, Field(ge=0, le=3600)] = 3
    retry_max_s: Annotated[int, Field(ge=1, le=1_296_000)] = RETRY_US // 1_000_000


def _capture_path(path: str) -> str:
    if not path.endswith(".jsonl"):
        raise ValueError(
            "the name of a capture ends in .jsonl, by which scores and reports find it"
        )
    return path


class CaptureSection(Section):
    """`[capture]`: where the events go; absent means nowhere. `run_id` defaults to `lns.id`.

    `size_max_mib`: how much of them stays; half of it is the file, half the one before.
    """

    path: Annotated[str, AfterValidator(_capture_path)]
    run_id: str | None = None
    size_max_mib: Annotated[int, Field(ge=1)] = 1024


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
        return mistake(self.file, self.file.read_text("utf-8"), [section, key], said)


def load(path: Path) -> Config:
    """Read `lns.toml` and the devices it names; ConfigError with every mistake found."""
    settings, text = read_model(path, LnsFile)
    devices = path.parent / settings.lns.devices
    if not devices.is_file():
        raise mistake(path, text, ["lns", "devices"], f"there is no file {devices}")
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
            eui = Eui(_eui(station))
            token = secret(written, path.parent) if isinstance(written, str) else ""
            if eui in tokens:
                raise ValueError("this station has a token already")
            tokens[eui] = token.removeprefix("Authorization:").strip()
            if not TOKEN.fullmatch(tokens[eui]):
                raise ValueError("a token is one line of text, env:NAME or file:PATH")
        except ValueError as error:
            mistakes.append(str(mistake(path, text, [station], str(error))))
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tokens


def _unheard_of(section: DeviceSection, listens_in: Region) -> Iterable[tuple[str, str]]:
    """How a device is to listen, and no device of this region can."""
    offsets, sizes = len(listens_in.rx1_drs[0]), listens_in.max_payloads
    if (section.rx1_dr_offset or 0) >= offsets:
        yield "rx1_dr_offset", f"{listens_in.name} has 0 to {offsets - 1}"
    downlinks = sorted({dr for drs in listens_in.rx1_drs for dr in drs})
    usable = [dr for dr in downlinks if dr < len(sizes) and sizes[dr] is not None]
    if section.rx2_dr is not None and section.rx2_dr not in usable:
        yield "rx2_dr", f"{listens_in.name} has {usable[0]} to {usable[-1]} for downlinks"
    if section.more_channels_hz and len(listens_in.uplink_channels) > 16:
        yield "more_channels_hz", f"the channels of {listens_in.name} are fixed"
    elif deaf := sorted(set(section.more_channels_hz or ()) - set(listens_at_hz(listens_in))):
        yield "more_channels_hz", f"no station listens at {deaf[0]} Hz"


def _repeated(sections: list[DeviceSection]) -> Iterable[tuple[int, str]]:
    for what in ("name", "dev_eui"):
        seen: set[str] = set()
        for number, section in enumerate(sections):
            value = getattr(section, what)
            if value in seen:
                yield number, what
            seen.add(value)
