"""Which keys does a `bench.toml` have, and which values do they take?"""

import re
from typing import Annotated, Literal
from urllib.parse import urlsplit

from pydantic import AfterValidator, Field, model_validator

from bench.inventory.entries import AttenuatorKind, GatewayKind, PowerKind
from bench.inventory.gateway_boards import BOARDS
from bench.inventory.switch_keys import mistake_in_switch
from lns.address import tc_uri
from lns.config import Address, DevAddrText, EuiText, Key
from lns.toml_file import Section

Name = Annotated[str, Field(min_length=1, max_length=32, pattern=r"^[A-Za-z0-9_.-]+$")]
Words = Annotated[list[Annotated[str, Field(min_length=1)]], Field(min_length=1)]
TapUri = Annotated[str, AfterValidator(lambda text: _web_socket(tc_uri(text)))]


def _web_socket(text: str) -> str:
    if not text.startswith(("ws://", "wss://")):
        raise ValueError("a URI for stations begins with ws:// or wss://")
    return text


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
    region: Literal["EU868", "US915"]
    tap: Address
    tap_uri: TapUri | None = None
    conducted: bool = False
    lock: str | None = None


class LimitsSection(Section):
    """`[limits]`."""

    eirp_dbm_max: Annotated[int, Field(ge=-20, le=30)] = 14
    rssi_dbm_max: Annotated[int, Field(ge=-140, le=0)] = -40
    rf_attempts_max: Annotated[int, Field(ge=1, le=20)] = 3
    inconclusive_share_max: Annotated[float, Field(ge=0, le=1)] = 0.05
    board_patience_s: Annotated[int, Field(ge=1, le=600)] = 30


class RadioSection(Section):
    """What `[[device]]` and `[[replayer]]` have in common."""

    name: Name
    dialect: Literal["rui3", "lora-e5", "seeeduino"]
    port: Annotated[str, Field(min_length=1)] | None = None
    usb_serial: Annotated[str, Field(min_length=1)] | None = None
    usb_path: Annotated[str, Field(pattern=r"^[0-9]+-[0-9]+(\.[0-9]+)*$")] | None = None
    # 1200 baud is left out: it sends boards with USB of their own into their boot loader.
    baud: Annotated[int, Field(ge=2400, le=921_600)] | None = None
    dtr: bool | None = None
    power: str | None = None
    reset: str | None = None

    @model_validator(mode="after")
    def _can_be_found(self) -> "RadioSection":
        ways = [key for key in ("port", "usb_serial", "usb_path") if getattr(self, key)]
        if len(ways) != 1:
            said = " and ".join(ways) or "none of them"
            raise ValueError(f"give one of port, usb_serial and usb_path; here is {said}")
        return self


class DeviceSection(RadioSection):
    """One `[[device]]`."""

    dev_eui: EuiText
    dr: Annotated[int, Field(ge=0, le=15)] | None = None
    power_dbm: Annotated[int, Field(ge=-20, le=30)] | None = None
    join_eui: EuiText | None = None
    app_key: Key | None = None
    dev_addr: DevAddrText | None = None
    nwk_s_key: Key | None = None
    app_s_key: Key | None = None

    @model_validator(mode="after")
    def _session_is_whole(self) -> "DeviceSection":
        if (self.nwk_s_key is None) is not (self.app_s_key is None):
            raise ValueError("nwk_s_key and app_s_key go together: give both or none")
        return self


class GatewaySection(Section):
    """One `[[gateway]]`."""

    name: Name
    eui: EuiText
    kind: GatewayKind
    board: str | None = None
    ssh: Annotated[str, AfterValidator(_ssh_host)] | None = None
    home: Annotated[str, Field(min_length=1)] | None = None
    restart: Words | None = None
    power: str | None = None
    attenuator: str | None = None
    credentials: str | None = None

    @model_validator(mode="after")
    def _belongs_together(self) -> "GatewaySection":
        if self.kind is not GatewayKind.RASPBERRY_PI:
            if self.board is not None:
                raise ValueError(f"a gateway of kind {self.kind} has no board; leave it out")
        elif self.board is not None and self.board not in BOARDS:
            raise ValueError(f"board {self.board!r} is not known; one of {', '.join(BOARDS)}")
        if self.kind is GatewayKind.PROGRAM and self.ssh is not None:
            raise ValueError("a station on this host needs no ssh; leave it out")
        return self


class PowerSection(Section):
    """One `[[power]]`; which keys it needs is a matter of its kind."""

    name: Name
    kind: PowerKind
    location: str | list[str] | None = None
    port: int | str | None = None
    on: str | Words | None = None
    off: str | Words | None = None
    cycle: Words | None = None
    url: Annotated[str, AfterValidator(lambda text: _url(text, ("http",)))] | None = None
    generation: Literal[1, 2] | None = None
    channel: Annotated[int, Field(ge=0, le=31)] | None = None
    baud: Annotated[int, Field(ge=300, le=921_600)] | None = None
    what: Annotated[str, Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "PowerSection":
        said = mistake_in_switch(self.kind, self.settings())
        if said:
            raise ValueError(said)
        return self

    def settings(self) -> dict[str, object]:
        """The keys that were given, without name and kind."""
        written = self.model_dump(exclude={"name", "kind"}, exclude_none=True)
        return {key: tuple(v) if isinstance(v, list) else v for key, v in written.items()}


class AttenuatorSection(Section):
    """One `[[attenuator]]`."""

    name: Name
    kind: AttenuatorKind
    db: Annotated[int, Field(ge=0, le=120)]
    set: Words | None = None

    @model_validator(mode="after")
    def _fits_its_kind(self) -> "AttenuatorSection":
        if self.kind is AttenuatorKind.PERSON:
            if self.set is not None:
                raise ValueError("a person is asked; leave set out")
        elif not any("{db}" in word for word in self.set or []):
            raise ValueError('set is missing, a command with "{db}" in it')
        return self


class ReportSection(Section):
    """`[report]`: where the summary of a night goes."""

    mqtt: Annotated[str, AfterValidator(lambda text: _url(text, ("mqtt", "mqtts")))] | None = None
    webhook: Annotated[str, AfterValidator(lambda text: _url(text, ("http", "https")))] | None = (
        None
    )
    only_on_change: bool = False


class BenchFile(Section):
    """`bench.toml`: one bench."""

    rig: Literal["hardware"]
    bench: BenchSection
    limits: LimitsSection = LimitsSection()
    device: tuple[DeviceSection, ...] = ()
    replayer: tuple[RadioSection, ...] = ()
    gateway: tuple[GatewaySection, ...] = ()
    power: tuple[PowerSection, ...] = ()
    attenuator: tuple[AttenuatorSection, ...] = ()
    report: ReportSection = ReportSection()
