"""What is around the firmware of a board?"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from bench.virtual.board.nvm import Nvm
from bench.virtual.board.radio import Radio
from bench.virtual.mac import MacRadio
from bench.virtual.stack import Stack


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """Flash, radio, chance, and the serial port (`write`).

    `chip` is the radio without its MAC, None on an air that knows LoRaWAN only. `chance` has a
    stream for each purpose. `spawn` begins something that ends with the next reset at the latest;
    `reset` is that. `stack` is played instead of the one that the firmware has. `sends_unasked`: an
    empty frame follows by itself, where the firmware does so. `keeps_session`: a join ends the
    session before it only by a new one.
    """

    name: str
    nvm: Nvm
    radio: MacRadio
    chip: Radio | None = None
    chance: Callable[[str], Random]
    write: Callable[[bytes], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    reset: Callable[[], None]
    stack: Stack | None = None
    sends_unasked: bool = True
    keeps_session: bool = False

    @property
    def raw(self) -> Radio:
        """The radio for a mode without MAC."""
        assert self.chip is not None, f"{self.name}: nothing but LoRaWAN is on this air"
        return self.chip


class Firmware(Protocol):
    """What runs on a board from one boot to the next reset."""

    def boot(self) -> None:
        """Begin; say what there is to say."""

    def hear(self, data: bytes) -> None:
        """Take bytes from the serial port."""
