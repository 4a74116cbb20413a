"""What do the scripts want of a board, whatever dialect it speaks?"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from ending import Failed


class Refused(Failed):
    """The board answers, and says no."""


def as_it_is(text: str) -> str:
    """The value as the board tells it, without regard to case."""
    return text.strip().upper()


def without_separators(text: str) -> str:
    """Hex digits in upper case, without colons and blanks."""
    return text.replace(":", "").replace(" ", "").upper()


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One thing that is written to a board: `name` for people, `key` for the dialect.

    `readable` is False where the dialect cannot tell it; the board's answer to the writing is
    compared then. `restarts`: it takes effect after a restart. `comparable` makes two spellings of
    a value equal. `note` is said when it is changed.
    """

    name: str
    key: str
    value: str = field(repr=False)
    secret: bool = False
    readable: bool = True
    restarts: bool = False
    comparable: Callable[[str], str] = as_it_is
    note: str = ""

    def is_met_by(self, value: str | None) -> bool:
        """Whether the board holds what is wanted."""
        return value is not None and self.comparable(value) == self.comparable(self.value)

    def shown(self, value: str | None) -> str:
        """A value as it may be printed."""
        if value is None:
            return "unknown"
        return "****" if self.secret else value


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """What a board shall be after provisioning. Keys are hex, and are never shown."""

    dev_eui: str
    region: str
    dr: int
    power_dbm: int
    join_eui: str | None = None
    app_key: str | None = field(default=None, repr=False)
    dev_addr: str | None = None
    nwk_s_key: str | None = field(default=None, repr=False)
    app_s_key: str | None = field(default=None, repr=False)
    device_class: str = "A"
    adr: bool = False
    duty_cycle: bool = True
    sub_band: int = 2
    role: str | None = None

    @property
    def otaa(self) -> bool:
        """Whether the device joins; otherwise it is personalised (ABP)."""
        return self.dev_addr is None


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """Who is at a port. `mode` is `LoRaWAN`, `P2P` or what the board calls it."""

    dialect: str
    firmware: str
    dev_eui: str | None
    role: str | None = None
    mode: str = "LoRaWAN"


class Board(Protocol):
    """A board at an open port."""

    dialect: str

    def identity(self) -> Identity:
        """Who it is; Failed if it is no board of this dialect."""

    def settings(self, wanted: Wanted) -> list[Setting]:
        """What has to stand in it, in the order in which it has to be written."""

    def read(self, setting: Setting) -> str | None:
        """What stands in it now; None if it cannot tell."""

    def write(self, setting: Setting) -> None:
        """Write one setting; Refused if it says no."""

    def restart(self) -> None:
        """Restart it and wait until it answers."""

    def enter_lorawan(self) -> bool:
        """Leave a raw radio mode; whether there was something to leave."""

    def factory_reset(self) -> None:
        """Forget everything, and wait until it answers."""
