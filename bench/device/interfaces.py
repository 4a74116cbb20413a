"""What may be asked of a device, in software or on a board, and of a radio that replays?"""

from collections.abc import Awaitable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Literal, Protocol, Self

from bench.transmission import Transmission
from lns.lorawan.crypto import SessionKeys
from lns.lorawan.identifiers import DevAddr, Eui
from lns.lorawan.region import Channel, DataRate, Region, us915_sub_band

DialectName = Literal["rui3", "lora-e5", "seeeduino"]
"""What a board speaks, as inventories and commands name it; see `bench.device.dialects`."""


@dataclass(frozen=True, slots=True)
class Otaa:
    join_eui: Eui
    app_key: bytes = field(repr=False)


@dataclass(frozen=True, slots=True)
class Abp:
    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceConfig:
    """All that is written into a device, in words that no dialect has.

    `region` is a name that `lns.lorawan.region` knows, `dr` its index, `power_dbm` an EIRP that is
    not exceeded. `duty_cycle`: the device keeps it by itself. `channel_hz`: the one channel it
    uses, 0 for those of the region. `sub_band`: which eight channels of US915. `role`: a name that
    is kept in the board, where it keeps one.
    """

    dev_eui: Eui
    activation: Otaa | Abp
    region: str
    dr: int
    power_dbm: int
    class_c: bool = False
    adr: bool = False
    duty_cycle: bool = False
    channel_hz: int = 0
    sub_band: int = 2
    role: str = ""

    @property
    def joins(self) -> bool:
        return isinstance(self.activation, Otaa)


def channels(region: Region, sub_band: int = 2) -> tuple[Channel, ...]:
    """The channels a device of this bench uses: in US915 those of a sub-band."""
    return us915_sub_band(sub_band) if region.name == "US915" else region.uplink_channels


@dataclass(slots=True, kw_only=True)
class DeviceSession:
    """One session of one device.

    Remembers both counters (`f_cnt_up` is the next to be used, `f_cnt_down` the last accepted) and
    the receive parameters.
    """

    number: int
    dev_addr: DevAddr
    keys: SessionKeys = field(repr=False)
    f_cnt_up: int
    receive_delay_us: int
    rx2_dr: int
    rx1_dr_offset: int = 0
    f_cnt_down: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Traits:
    """Abilities of a device that scenarios ask for.

    `obeys_retries`: it repeats a confirmed message as often as it is told over its serial line.
    `sets_counters`: its frame counters can be written. `tells_windows`: one line tells of a
    downlink window, port and data. `counts_dev_nonces`: its DevNonces count up, drawn otherwise.
    `first_f_cnt`: the counter of its first frame, in a new session or when it counts anew.
    """

    obeys_retries: bool
    sets_counters: bool
    tells_windows: bool
    counts_dev_nonces: bool
    first_f_cnt: int


@dataclass(frozen=True, slots=True)
class Radiation:
    """Where and how strongly a device transmits, as read from it; `region` is its name for it."""

    region: str
    eirp_dbm: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Deadlines:
    """How long to wait for a line before the device is silent, all generous.

    `transmission_us` is for one transmission of a message: 2.8 s at SF12, RX2 16 s later at most,
    3 s of retransmission timeout; LoRa-E5 waits up to 10 s before a repetition. A join takes the
    same with RX2 at 6 s. `proof_us`: after the airtime of a raw packet. `restricted_us`: the
    longest wait for the duty cycle of one message. `poll_us`: between two questions to a device
    that does not say when it is there.
    """

    reply_us: int = 5_000_000
    boot_us: int = 10_000_000
    join_us: int = 20_000_000
    transmission_us: int = 25_000_000
    proof_us: int = 2_000_000
    restricted_us: int = 60_000_000
    poll_us: int = 200_000


@dataclass(frozen=True, slots=True)
class Change:
    """A setting that is not as it is wanted; without `due` a key, which nobody is shown.

    `found` is None where the board does not tell it.
    """

    name: str
    found: str | None = None
    due: str | None = field(default=None, repr=False)

    def __str__(self) -> str:
        if self.due is None:
            return f"{self.name}: a key, not shown"
        return f"{self.name}: {'not told' if self.found is None else self.found} -> {self.due}"


class CommandRefused(Exception):
    """The device answered a command with something other than OK; the text is its answer."""


NOT_JOINED = "AT_NO_NETWORK_JOINED"
"""What a device says that is to send and whose join was not accepted."""


class DeviceSilent(Exception):
    """The device did not say what it must within the deadline; the text names the last line."""


class DeviceRestarted(Exception):
    """The device began anew in the middle of a command, and nobody had asked it to."""


class UnknownFirmware(Exception):
    """The device answers, but this is no firmware its driver knows; the text is its version."""


class WrongDevice(Exception):
    """The port leads to another device than the inventory says."""


class NotAsWritten(Exception):
    """A setting was written and reads otherwise; the text names it, but no key."""


class Outcome(StrEnum):
    """How a message ended, as far as the device itself can tell."""

    SENT = "sent"  # unconfirmed: its MAC cycle is over
    ACKNOWLEDGED = "acknowledged"
    FAILED = "failed"  # confirmed, and no acknowledgement came
    RESTARTED = "restarted"  # the device began anew; nobody knows what was sent
    UNTOLD = "untold"  # a firmware that does not say; its MAC cycle is over by the clock


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of one message on an attached device; `line` is what it said, empty if nothing.

    `status`: the number in `+EVT:SEND_CONFIRMED_FAILED(n)`, None where there is none.
    """

    outcome: Outcome
    line: str = ""
    status: int | None = None


@dataclass(slots=True)
class Sent:
    """One application message on its way; complete once its `send` has returned.

    Remembers each transmission of the frame, and whether it was acknowledged. `f_cnt` has 32 bits;
    `session` counts the device's sessions from 0.
    """

    dev_eui: Eui
    frame_id: str
    phy: bytes
    f_cnt: int
    session: int
    confirmed: bool
    acknowledged: bool = False
    transmissions: list[Transmission] = field(default_factory=list)


@dataclass(slots=True)
class Joining:
    """One attempt to join; complete once its `join` has returned."""

    dev_eui: Eui
    frame_id: str
    phy: bytes
    dev_nonce: int
    accepted: bool = False
    transmissions: list[Transmission] = field(default_factory=list)


class AttachedDevice(Protocol):
    """A device at a serial line, which knows nothing of frames: only what it says of them.

    Used inside `async with`. Every verb raises LineLost when the line is gone, DeviceSilent when a
    deadline passes. `firmware` and `traits` are known after `identify`.
    """

    name: str
    dev_eui: Eui
    firmware: str

    async def __aenter__(self) -> Self:
        """Open its line; PortUnavailable."""

    async def __aexit__(self, *raised: Any) -> None:
        """Close its line."""

    @property
    def traits(self) -> Traits:
        """What this firmware can do and tell."""

    async def returned(self, within_us: int) -> None:
        """Wait until its port is there and it answers; PortUnavailable, DeviceSilent otherwise."""

    async def identify(self) -> str:
        """Its firmware; UnknownFirmware, or WrongDevice where another DevEUI answers."""

    async def provision(self, wanted: DeviceConfig) -> tuple[str, ...]:
        """The settings that had to be written, by name; NotAsWritten if one did not take."""

    async def missing(self, wanted: DeviceConfig) -> tuple[Change, ...]:
        """The settings that `provision` would write, as far as the device tells them."""

    async def factory_reset(self) -> None:
        """Forget everything, keys and session included; CommandRefused while it is busy."""

    async def radiation(self) -> Radiation:
        """Region and power that the device itself says it uses."""

    async def join(self) -> bool:
        """Join once; whether the device says it has joined."""

    async def send(
        self, payload: bytes, *, port: int = 2, confirmed: bool = False, transmissions: int = 1
    ) -> Ending:
        """Send one message, to the end of its MAC cycle; CommandRefused if the device will not."""

    async def set_retries(self, retries: int) -> None:
        """How often a confirmed message without acknowledgement is repeated, 0..7."""

    async def set_adr(self, adr: bool) -> None:
        """Whether the network server may set how it sends, from now on."""

    async def ask_time(self) -> None:
        """Ask the network for the time with the next message; CommandRefused where it cannot."""

    async def ask_link(self) -> None:
        """Ask with the next message how well the network hears; CommandRefused where it cannot."""

    async def restart(self) -> None:
        """Reset the device and wait until it has started; ends a `send` under way."""

    async def restarted_by(self, cause: Awaitable[None]) -> None:
        """Let a button or a switch restart it, and wait until it has started; DeviceSilent."""

    async def reset_counters(self) -> None:
        """Let an ABP device count anew; ValueError for one that joins."""

    async def set_counters(self, up: int, down: int) -> None:
        """Write its frame counters; CommandRefused without `traits.sets_counters`."""

    async def silence(self) -> None:
        """Let it transmit nothing any more, whatever state it is in; raises nothing of it."""

    def said(self, line: str) -> str | None:
        """How it says what RUI3 says with `line`; None where it says nothing comparable."""


class RawRadio(Protocol):
    """A radio that sends bytes as they are, with LoRaWAN's public sync word and IQ of uplinks.

    Used inside `async with`. `bytes_max`, `powers_dbm`: what it can send, and how strongly.
    """

    name: str
    firmware: str
    bytes_max: int
    powers_dbm: range

    async def __aenter__(self) -> Self:
        """Open its line; PortUnavailable."""

    async def __aexit__(self, *raised: Any) -> None:
        """Close its line."""

    async def identify(self) -> str:
        """Its firmware; UnknownFirmware for one that cannot prove what it sends."""

    async def tune(self, *, freq_hz: int, data_rate: DataRate, power_dbm: int) -> None:
        """Be ready to send so, that `transmit` takes no longer than the frame; NotAsWritten."""

    async def transmit(
        self, phy: bytes, *, freq_hz: int, data_rate: DataRate, power_dbm: int
    ) -> None:
        """Send, and return after the proof that it was sent; DeviceSilent without one."""

    async def silence(self) -> None:
        """Let it transmit and receive nothing any more; nothing of it is raised."""
