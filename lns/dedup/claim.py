"""Level 2: which LNS owns this frame, when several of them hear it?

The seam only. ADR 007, part 2, asks a store shared by all network servers; a server that works
alone has nobody to ask, and says so in every outcome.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from lns.lorawan.identifiers import DevAddr, Eui


class Level2(StrEnum):
    """What level 2 said about a reception."""

    NOT_ASKED = "NotAsked"
    OWNER = "Owner"
    NOT_OWNER = "NotOwner"
    UNAVAILABLE = "Unavailable"


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer of level 2: its word, and the LNS that owns the frame where that is known."""

    level2: Level2
    owner: str | None = None


class Claims(Protocol):
    """Whoever knows which LNS owns a frame; never asked for copies that level 1 recognised."""

    async def claim(self, dev_eui: Eui, dev_addr: DevAddr, f_cnt: int) -> Claim:
        """Claim one frame of a session for this server; `f_cnt` has 32 bits."""


_NOBODY_ASKED = Claim(Level2.NOT_ASKED)


class SoleServer:
    """The claims of a network server that shares its devices with no other."""

    async def claim(self, dev_eui: Eui, dev_addr: DevAddr, f_cnt: int) -> Claim:
        """Nobody is asked, so this server acts as it would without level 2."""
        return _NOBODY_ASKED
