"""What is around the firmware of a board?"""

from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any, Protocol

from bench.virtual.board.nvm import Nvm
from bench.virtual.board.radio import Radio


@dataclass(frozen=True, slots=True, kw_only=True)
class Circuit:
    """Flash, radio, chance, and the serial port (`write`).

    `spawn` begins something that ends with the next reset at the latest; `reset` is that.
    """

    name: str
    nvm: Nvm
    radio: Radio
    chance: Random
    write: Callable[[bytes], None]
    spawn: Callable[[Coroutine[Any, Any, None]], None]
    reset: Callable[[], None]


class Firmware(Protocol):
    """What runs on a board from one boot to the next reset."""

    def boot(self) -> None:
        """Begin; say what there is to say."""

    def hear(self, data: bytes) -> None:
        """Take bytes from the serial port."""
