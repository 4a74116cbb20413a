"""What did the operator write, and is it right?

Reads `lns.toml` and `devices.toml`. Every mistake is one sentence with file, line and key; a key
nobody knows is answered with the nearest known one. No value of a key is ever repeated.
"""

import difflib
import os
import re
import tomllib
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from lns.dedup.concentrator import ENTRIES_MAX
from lns.dedup.strategy import Strategy
from lns.end_device import Activation, EndDevice, LoRaWanVersion
from lns.lorawan import identifiers
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui


class ConfigError(Exception):
    """A configuration that cannot be used; one line a mistake: file, line, key, what to do."""


def _key(value: object, info: Any) -> bytes:
    """A 128-bit key: 32 hex digits, `env:NAME` or `file:PATH`; never shown in an error."""
    if not isinstance(value, str):
        raise ValueError("a key is text: 32 hex digits, env:NAME or file:PATH")
    if value.startswith("env:"):
        name = value.removeprefix("env:")
        if name not in os.environ:
            raise ValueError(f"the environment has no variable {name}")
        value = os.environ[name]
    elif value.startswith("file:"):
        path = info.context / value.removeprefix("file:")
        try:
            value = path.read_text(encoding="ascii")
        except (OSError, UnicodeDecodeError) as error:
            raise ValueError(f"cannot read the key file {path}") from error
    digits = str(value).strip()
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


Key = Annotated[bytes, BeforeValidator(_key)]
EuiText = Annotated[Eui, BeforeValidator(_eui)]
DevAddrText = Annotated[DevAddr, BeforeValidator(_dev_addr)]
StationsAllowed = Annotated[Literal["any"] | list[Eui], BeforeValidator(_stations)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=False, hide_input_in_errors=True)


class DeviceSection(_Section):
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

    @model_validator(mode="after")
    def _complete(self) -> "DeviceSection":
        needed = {
            Activation.OTAA: ("join_eui", "app_key"),
            Activation.ABP: ("dev_addr", "nwk_s_key", "app_s_key"),
        }
        missing = [key for key in needed[self.activation] if getattr(self, key) is None]
        if missing:
            raise ValueError(f"an {self.activation} device needs {' and '.join(missing)}")
        return self

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
        )


class DevicesFile(_Section):
    """`devices.toml`: the devices of a network server."""

    device: list[DeviceSection]


class LnsSection(_Section):
    """`[lns]`: identity and region."""

    id: Annotated[str, Field(min_length=1, pattern=r"^[A-Za-z0-9_.-]+$")]
    region: Literal["EU868", "US915"] = "EU868"
    net_id: Annotated[str, Field(pattern=r"^[0-9A-Fa-f]{6}$")] = "000013"
    devices: str = "devices.toml"
    listen: str = "127.0.0.1:6090"
    public_uri: str | None = None
    stations: StationsAllowed = "any"


class TlsSection(_Section):
    """`[tls]`: absent means ws://."""

    cert: str
    key: str
    client_ca: str | None = None
    tokens: str | None = None


class DedupSection(_Section):
    """`[dedup]`: level 1."""

    retention_s: Annotated[int, Field(ge=1, le=86_400)] = 60
    entries_max: Annotated[int, Field(ge=1)] = ENTRIES_MAX


class StoreSection(_Section):
    """`[store]`: what is shared with other network servers."""

    url: str = "memory://"
    on_outage: Literal["open", "closed"] = "open"


class UpstreamSection(_Section):
    """`[upstream]`: the way to the application."""

    url: str = "memory://"
    outbox: str | None = None
    ca: str | None = None


class CaptureSection(_Section):
    """`[capture]`: where the events go; absent means nowhere."""

    path: str


class LnsFile(_Section):
    """`lns.toml`: one network server."""

    lns: LnsSection
    tls: TlsSection | None = None
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


def load(path: Path) -> Config:
    """Read `lns.toml` and the devices it names; ConfigError with every mistake found."""
    settings, text = _read(path, LnsFile)
    devices = path.parent / settings.lns.devices
    if not devices.is_file():
        line = _line(text, ["lns", "devices"])
        raise ConfigError(f"{path}:{line}: lns.devices: there is no file {devices}")
    return Config(path, settings, load_devices(devices))


def load_devices(path: Path) -> tuple[EndDevice, ...]:
    """Read `devices.toml`; ConfigError with every mistake found."""
    devices, text = _read(path, DevicesFile)
    mistakes = [
        f"{path}:{_line(text, ['device', number, what])}: device[{number}].{what}: "
        f"belongs to another device already; give each its own"
        for number, what in _repeated(devices.device)
    ]
    if mistakes:
        raise ConfigError("\n".join(mistakes))
    return tuple(section.end_device() for section in devices.device)


def _repeated(sections: list[DeviceSection]) -> Iterable[tuple[int, str]]:
    for what in ("name", "dev_eui"):
        seen: set[str] = set()
        for number, section in enumerate(sections):
            value = getattr(section, what)
            if value in seen:
                yield number, what
            seen.add(value)


Model = TypeVar("Model", bound=_Section)


def _read(path: Path, model: type[Model]) -> tuple[Model, str]:
    """The file as a model and as text, which has the lines."""
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise ConfigError(f"{path}: cannot be read: {said}") from error
    try:
        return model.model_validate(tomllib.loads(text), context=path.parent), text
    except tomllib.TOMLDecodeError as error:
        found = re.search(r"at line (\d+)", str(error))
        line = int(found[1]) if found else len(text.splitlines())
        raise ConfigError(f"{path}:{line}: not TOML: {error}") from None
    except ValidationError as error:
        mistakes = [_sentence(path, text, model, dict(mistake)) for mistake in error.errors()]
        raise ConfigError("\n".join(mistakes)) from None


def _sentence(path: Path, text: str, model: type[BaseModel], mistake: dict[str, Any]) -> str:
    """One mistake as file:line, key and what to do about it."""
    where = list(mistake["loc"])
    key = ".".join(f"[{part}]" if isinstance(part, int) else part for part in where)
    said = mistake["msg"].removeprefix("Value error, ")
    if mistake["type"] == "extra_forbidden":
        known = _known_keys(model, where[:-1])
        near = difflib.get_close_matches(str(where[-1]), known, n=1, cutoff=0.5)
        hint = f"did you mean {near[0]!r}?" if near else f"known here: {', '.join(known)}"
        said = f"unknown key; {hint}"
    elif mistake["type"] == "missing":
        said = "is missing"
    return f"{path}:{_line(text, where)}: {key.replace('.[', '[')}: {said}"


def _known_keys(model: type[BaseModel], where: list[str | int]) -> list[str]:
    """The keys a section takes; `where` leads to it from the file."""
    for part in where:
        if isinstance(part, str):
            inner = model.model_fields[part].annotation
            sections = [inner, *get_args(inner)]
            model = next(s for s in sections if isinstance(s, type) and issubclass(s, BaseModel))
    return sorted(model.model_fields)


def _line(text: str, where: list[str | int]) -> int:
    """The line (from 1) of a key, or of the section that lacks it."""
    lines = text.splitlines()
    section = re.compile(rf"\s*\[+\s*\"?{re.escape(str(where[0]))}\"?\s*\]+")
    headers = [number for number, line in enumerate(lines) if section.match(line)]
    index = next((part for part in where if isinstance(part, int)), 0)
    start = headers[index] if index < len(headers) else 0
    key = re.escape(str(where[-1]))
    for number in range(start, len(lines)):
        if number > start and re.match(r"\s*\[", lines[number]):
            break
        if re.match(rf"\s*\"?{key}\"?\s*=", lines[number]):
            return number + 1
    return start + 1
