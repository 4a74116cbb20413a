"""What is on its way through a tap, on one connection of its station?"""

import asyncio
from dataclasses import dataclass, field

from bench.station.link import TextLink


@dataclass(slots=True)
class Leaving:
    """A text on its way out, and what is to be recorded of it."""

    text: str
    direction: str
    held_us: int = 0
    origin: str | None = None


@dataclass(slots=True, eq=False)
class Connection:
    """One connection of the station: both links, and what is about to be sent on each."""

    station: TextLink
    lns: TextLink
    to_station: asyncio.Queue[Leaving] = field(default_factory=asyncio.Queue)
    to_lns: asyncio.Queue[Leaving] = field(default_factory=asyncio.Queue)

    def close(self) -> None:
        """End both links."""
        self.station.close()
        self.lns.close()
