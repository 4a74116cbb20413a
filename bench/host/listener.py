"""How does a program come to a port of its own, and keep it?

The port is chosen before the program starts, so somebody else may take it in between; then another
one is chosen. Once the program has listened, the port stays, over every restart.
"""

from abc import ABC, abstractmethod
from pathlib import Path
from typing import Self

from bench.host.ports import free_port
from bench.host.program import Program, ProgramDied, Starter

START_S = 30
_TRIES = 3


class Listener(Program, ABC):
    """A program that listens on `port`; 0: one is chosen."""

    taken_says = "Address already in use"
    """What stands in its log when somebody has its port."""

    def __init__(
        self, name: str, log: Path, *, port: int = 0, starter: Starter | None = None
    ) -> None:
        super().__init__(name, log, starter=starter)
        self._chooses = port == 0
        self.port = port or free_port()

    async def start(self) -> Self:
        """Start and wait until it serves; ProgramDied or ProgramSilent if it does not."""
        for _ in range(_TRIES - 1):
            try:
                return await self._start()
            except ProgramDied:
                if not (self._chooses and self.taken_says in self.tail()):
                    raise
                self.port = free_port()
        return await self._start()

    async def _start(self) -> Self:
        await self._serve()
        self._chooses = False
        return self

    @abstractmethod
    async def _serve(self) -> None:
        """Start the process and wait until it serves; ProgramDied or ProgramSilent."""


class PolledListener(Listener):
    """A listener that does not tell when it serves, and so is tried until it does."""

    def start_now(self) -> Self:
        """`start` for those who have no loop; a port that was taken is told, not chosen anew."""
        self._begin()
        self.until_now(self._is_ready, START_S)
        return self

    async def _serve(self) -> None:
        self._begin()
        await self.until(self._is_ready, START_S)

    @abstractmethod
    def _begin(self) -> None:
        """Start the process."""

    @abstractmethod
    def _is_ready(self) -> bool:
        """Whether it serves."""
