"""What is around the firmware of a board, and what does it remember without power?"""

import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any, Protocol

from bench.virtual.board.radio import Radio
from bench.virtual.mac import MacRadio
from bench.virtual.session import Stack


class Nvm:
    """The flash of one board: named values, in a file that is whole at every moment.

    Without a file it is gone with the process.
    """

    def __init__(self, file: Path | None = None) -> None:
        self._file = file
        self._values: dict[str, Any] = {}
        if file is not None and file.exists():
            self._values = json.loads(file.read_text())

    def get(self, name: str, default: Any = None) -> Any:
        """A value, `default` if it was never written."""
        return self._values.get(name, default)

    def put(self, **values: Any) -> None:
        """Write values; on the disk once this returns."""
        self._values.update(values)
        self._write()

    def erase(self, *kept: str) -> None:
        """Forget everything but these."""
        self._values = {name: self._values[name] for name in kept if name in self._values}
        self._write()

    def _write(self) -> None:
        if self._file is None:
            return
        made = self._file.with_suffix(".new")
        made.touch(mode=0o600)  # there are keys in it
        made.write_text(json.dumps(self._values, indent=1))
        os.replace(made, self._file)


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
