"""What may a scenario ask of a device, in software or on a board?"""

from dataclasses import dataclass, field
from typing import Protocol

from bench.radio.medium import Transmission
from lns.lorawan.identifiers import Eui


class CommandRefused(Exception):
    """The device answered a command with something other than OK; the text is its answer."""


@dataclass(slots=True)
class Sent:
    """One application message on its way; complete once `Device.send` has returned.

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
    """One attempt to join; complete once `Device.join` has returned."""

    dev_eui: Eui
    frame_id: str
    phy: bytes
    dev_nonce: int
    accepted: bool = False
    transmissions: list[Transmission] = field(default_factory=list)


class Device(Protocol):
    """A device on its console: one command at a time, each awaited to the end of its MAC cycle."""

    async def join(self) -> bool:
        """Join once; whether a join-accept came. A device with a fixed session has joined."""

    async def send(self, payload: bytes, *, port: int = 2, confirmed: bool = False) -> Sent:
        """Send one message, repetitions included; CommandRefused if the device will not."""

    async def restart(self, *, memory: bool = True) -> None:
        """Reset the device, with what it remembers or without; ends a `send` under way."""

    def set_retries(self, retries: int) -> None:
        """How often a confirmed message without acknowledgement is repeated."""
